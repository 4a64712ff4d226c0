"""Which PyTorch modules cannot be models: each refusal names the layer, or what differs, and the remedy."""

import copy
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from numpy.typing import NDArray

from feddr.models.torch_trace import OTHER_WAY, RandomNumbersError
from feddr.tree import Tree
from feddr.validation import kinds

if TYPE_CHECKING:
    import torch

SAME = 1e-3
"""The largest difference between PyTorch and JAX, relative to the norm of an array."""

ROUNDING = 1e-5
"""The same, relative to the norm of the whole gradient."""

SCALES = (1.0, 1e4)
"""How steep the losses are at which gradients are compared: one that is clipped is not in proportion."""

FAILURES = (RuntimeError, TypeError, ValueError, IndexError, AttributeError)
"""What PyTorch raises where a module cannot be called with some rows."""


def tensor(a: NDArray[Any], dtype: Any = None) -> "torch.Tensor":
    """Return an array as a tensor."""
    import torch

    return torch.from_numpy(np.array(a, dtype, order="C"))  # a copy, since PyTorch knows no negative strides


def check_module(module: Any) -> None:
    """Refuse a class of modules, and what is no module."""
    import torch

    kinds.instance("module", module, torch.nn.Module, "give a torch.nn.Module, such as torch.nn.Linear(60, 10)")


def check_layers(module: "torch.nn.Module") -> None:
    """Refuse layers that mix samples, and layers that draw random numbers."""
    import torch

    for name, layer in module.named_modules():
        called = f"{type(layer).__name__} {name}".strip()
        if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm):
            if layer.training or layer.running_mean is None:
                raise ValueError(
                    f"The loss of a sample must not depend on the other samples of its batch, {called} is in training "
                    "mode; use GroupNorm or LayerNorm, or module.eval() if it has learned its statistics before."
                )
            check_statistics(called, layer)
        dropout = layer.p if isinstance(layer, torch.nn.modules.dropout._DropoutNd) else getattr(layer, "dropout", 0.0)
        if layer.training and isinstance(dropout, float) and dropout > 0:
            raise ValueError(
                f"A model computes without random numbers, {called} drops out a share of {dropout:g}; call "
                "module.eval() first, or set the share to 0."
            )


def check_statistics(called: str, layer: "torch.nn.Module") -> None:
    """Refuse a layer that normalises by statistics and has seen no data yet."""
    import torch

    tracked = getattr(layer, "num_batches_tracked", None)
    if isinstance(tracked, torch.Tensor) and not int(tracked):
        raise ValueError(
            f"A layer needs its statistics beforehand, {called} has seen no data; "
            "show it some samples in training mode, or use GroupNorm."
        )


def takes_whole(module: "torch.nn.Module", rows: NDArray[Any]) -> bool:
    """Return whether the module can compute with whole numbers, such as tokens, as they are.

    It is tried in float64, since what PyTorch makes of whole numbers on its way, such as x / 255, is float32.
    """
    import torch

    with torch.no_grad():
        try:
            copy.deepcopy(module).cpu().double()(tensor(rows, np.int64))
        except FAILURES:
            return False
    return True


def distinct(rows: NDArray[Any]) -> NDArray[Any]:
    """Return at least three rows like those given that differ from each other, and have no entry twice if real."""
    rng = np.random.default_rng(0)
    some = np.concatenate([rows] * 3)[: max(3, len(rows))] if len(rows) < 3 else rows[:8]
    if rows.dtype.kind != "f":
        return np.stack([np.roll(row, i) for i, row in enumerate(some)])
    moved = some * rng.uniform(0.5, 1.0, some.shape) + 0.1 * rng.uniform(size=some.shape)
    return moved.astype(rows.dtype)


def check_same(module: "torch.nn.Module", apply: Callable[[Tree, Any], Any], rows: NDArray[Any]) -> None:
    """Refuse a module whose outputs or gradients in JAX are not those of PyTorch."""
    net = copy.deepcopy(module).cpu().float()
    x = tensor(rows, np.float32 if rows.dtype.kind == "f" else np.int64)
    outputs = _outputs(net, x)
    scale = float(np.linalg.norm(outputs))
    if not np.all(np.isfinite(outputs)):
        raise ValueError(f"A model must return finite numbers, {type(module).__name__} does not for rows like example.")
    if np.linalg.norm(_outputs(net, x, seed=1) - outputs) > SAME * scale:
        raise _random(module)
    alone = np.concatenate([_outputs(net, x[i : i + 1]) for i in range(len(x))])
    if alone.shape != outputs.shape or np.linalg.norm(alone - outputs) > SAME * scale:
        raise ValueError(
            f"The loss of a sample must not depend on the other samples of its batch, the outputs of "
            f"{type(module).__name__} for a row do; normalise each sample alone, as GroupNorm and LayerNorm do."
        )
    own = {name: p for name, p in net.named_parameters() if p.requires_grad}
    params = {name: p.detach().numpy() for name, p in own.items()}
    slope = np.random.default_rng(1).normal(size=outputs.shape).astype(np.float32)
    translated = _translated(module, apply, params, rows, slope)
    for c in SCALES:
        theirs, functions = _gradient(net, own, x, c * slope)
        total = np.sqrt(sum(np.sum(np.square(a)) for a in theirs.values()))
        for name, expected in {"the outputs": c * outputs, **theirs}.items():
            got = c * (translated[0] if name == "the outputs" else translated[1][name])
            if not np.linalg.norm(got - expected) <= SAME * np.linalg.norm(expected) + ROUNDING * total:
                what = name if name == "the outputs" else f"the gradient in {name}"
                why = f"the autograd function {functions[0]}" if functions else "an operation that the two do otherwise"
                raise ValueError(
                    f"A model must have one gradient in PyTorch and in JAX, {what} of {type(module).__name__} differs "
                    f"because of {why}; write it with differentiable operations, or {OTHER_WAY}."
                )


def _random(module: "torch.nn.Module") -> ValueError:
    return ValueError(
        f"A model computes without random numbers, {type(module).__name__} draws some in its forward; call "
        f"module.eval() first if that ends it, or {OTHER_WAY}."
    )


def _outputs(net: "torch.nn.Module", x: "torch.Tensor", seed: int = 0) -> NDArray[Any]:
    """Return what PyTorch computes, with random numbers of a seed if the module asks for some."""
    import torch

    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            outputs = net(x)
    except FAILURES as error:
        raise ValueError(
            f"The module must take rows like example, {type(net).__name__} fails with {len(x)} rows of shape "
            f"{tuple(x.shape[1:])}: {str(error).splitlines()[0]}; give rows of the data, data.train.samples['x'][:1], "
            "or reshape them in its forward."
        ) from error
    if not isinstance(outputs, torch.Tensor) or outputs.shape[:1] != x.shape[:1]:
        got = tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else type(outputs).__name__
        raise ValueError(f"A module must return one tensor with an entry for each of {len(x)} rows, got {got}.")
    return outputs.numpy()


def _translated(
    module: "torch.nn.Module", apply: Callable[[Tree, Any], Any], params: Tree, rows: NDArray[Any], slope: NDArray[Any]
) -> tuple[NDArray[Any], Tree]:
    """Return outputs and gradient in JAX."""

    def both(params: Tree, x: Any) -> Any:
        outputs, pull = jax.vjp(lambda params: apply(params, x), params)
        return outputs, pull(slope.astype(outputs.dtype))[0]

    try:
        outputs, gradient = jax.jit(both)(params, rows)
    except RandomNumbersError:
        raise _random(module) from None
    except Exception as error:  # torchax and JAX raise whatever they meet
        reason = (str(error).splitlines() or [""])[0]
        raise ValueError(
            f"from_torch needs a module that torchax can translate, {type(module).__name__} fails with "
            f"{type(error).__name__}: {reason}; {OTHER_WAY}."
        ) from error
    return np.asarray(outputs), jax.tree.map(np.asarray, gradient)


def _gradient(net: "torch.nn.Module", own: Any, x: "torch.Tensor", slope: NDArray[Any]) -> tuple[Tree, list[str]]:
    """Return the gradient of ``sum(slope * outputs)`` in PyTorch, and the autograd functions of users in it."""
    import torch

    outputs = net(x)
    gradients = torch.autograd.grad((outputs * tensor(slope)).sum(), list(own.values()), allow_unused=True)
    slopes = [torch.zeros_like(p) if a is None else a for p, a in zip(own.values(), gradients, strict=True)]
    gradient = {name: a.numpy() for name, a in zip(own, slopes, strict=True)}
    return gradient, sorted(set(_user_functions(outputs.grad_fn)))


def _user_functions(node: Any) -> Iterator[str]:
    import torch

    seen, waiting = set(), [node]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            yield type(node).__name__.removesuffix("Backward")
        waiting += [before for before, _ in node.next_functions]
