"""PyTorch modules as clients of any algorithm: in the reference engine, and in a deployment over Flower.

A problem of this file is differentiated by PyTorch, a batch at a time, on the device of the module. For the compiled
simulator, which is JAX's own, ``feddr.models.from_torch`` translates a module. Either way parameters travel by their
PyTorch names, as a dict of NumPy arrays: ``{"0.weight": ..., "0.bias": ...}``; ``load`` writes them into a module.
"""

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feddr import precision, tree
from feddr.data import ClientSamples, FederatedData, Samples
from feddr.data.tables import WEIGHT
from feddr.display import Card, as_html, as_text
from feddr.models import torch_check
from feddr.models.pytorch import load, parameters
from feddr.problem import gradient_mapping
from feddr.problem.initial import fitting, start
from feddr.problem.losses import Bounds, check_curvature
from feddr.problem.weights import client_weights, sample_weights
from feddr.prox import Regulariser, Zero
from feddr.tree import Tree
from feddr.validation import kinds

try:
    import torch
except ModuleNotFoundError:
    raise kinds.missing("feddr.torch", "torch", "'feddr[torch]'") from None

__all__ = ["TorchProblem", "cross_entropy", "load", "parameters", "right"]

CHUNK = 1024
"""Samples in a step of a pass over all of them."""

Tensors = dict[str, torch.Tensor]

PerSample = Callable[[torch.Tensor, Tensors], torch.Tensor]
"""From (outputs of the module, batch of samples) to one number for each sample."""


def cross_entropy(outputs: torch.Tensor, batch: Tensors) -> torch.Tensor:
    """Return the cross-entropy of each sample, for one score a class and labels ``y``."""
    return torch.nn.functional.cross_entropy(outputs, batch["y"], reduction="none")


def right(outputs: torch.Tensor, batch: Tensors) -> torch.Tensor:
    """Return whether the largest score is that of the label ``y``."""
    return outputs.argmax(dim=-1) == batch["y"]


@dataclass(frozen=True, eq=False)
class TorchProblem:
    """minimise F(x) = sum_i w_i f_i(x) + g(x), where f_i is the mean loss of a module over the samples of client i.

    Parameters
    ----------
    module
        Called with the samples ``x``; its parameters are the start. It is copied, and runs in evaluation mode: the
        loss of a sample must be a function of the parameters and of that sample, so dropout is off.
        It computes on the device that it is on, such as a GPU.
    data
        The samples of each client, with features ``x``. Whole numbers are given to the module as they are, or, if it
        takes real numbers only, as these: tokens stay whole, pixels do not.
    loss
        From (outputs, batch) to one value for each sample; cross-entropy on labels ``y`` by default.
    g, weights, curvature
        As in ``feddr.Problem``.
    correct
        From (outputs, batch) to whether each sample is predicted rightly; None for no accuracies.

    Notes
    -----
    Buffers are constants of the problem. They are not trained, not averaged and not sent, and every site must start
    with the same ones. For BatchNorm these are the running mean and variance: it normalises by what it learned before,
    on data that may be shared, and its scale and shift are trained like any parameter. One that has seen no data yet
    is refused, since it would normalise nothing: show it some samples in training mode, or take GroupNorm or LayerNorm,
    which have no buffers and are the usual choice where clients differ.

    Examples
    --------
    >>> import numpy as np, torch, feddr
    >>> from feddr.torch import TorchProblem, load
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(40, 5)).astype(np.float32)
    >>> clients = [{"x": x[i::4], "y": (x[i::4, 0] > 0).astype(np.int64)} for i in range(4)]
    >>> net = torch.nn.Linear(5, 2)
    >>> problem = TorchProblem(net, feddr.FederatedData.from_clients(clients), g=feddr.prox.L1(1e-3))
    >>> result = feddr.reference(problem, feddr.FedDR(eta=1.0), local=feddr.local.SGD(lr=0.1), rounds=3)
    >>> load(net, result.params)
    """

    module: torch.nn.Module
    data: FederatedData
    loss: PerSample = cross_entropy
    g: Regulariser | None = None
    weights: str | ArrayLike = "uniform"
    correct: PerSample | None = right
    curvature: Bounds | Callable[[int], Bounds] | None = None

    def _card(self) -> Card:
        weights = self.weights if isinstance(self.weights, str) else "one for each client"
        facts = {
            "module": f"{type(self.module).__name__}, {sum(p.numel() for p in self.module.parameters()):,} parameters",
            "g": repr(self.regulariser),
            "weights": weights,
        }
        data = self.data._card()
        return Card("TorchProblem", facts | dict(data.facts), data.curves)

    __repr__, _repr_html_ = as_text, as_html

    def __post_init__(self) -> None:
        check_curvature(self.curvature)
        torch_check.check_module(self.module)
        if isinstance(self.loss, torch.nn.Module):
            raise ValueError(
                f"loss must be a function of (outputs, batch), got the module {type(self.loss).__name__}; write "
                'lambda outputs, batch: criterion(outputs, batch["y"]), with reduction="none" in the module.'
            )
        for name, layer in self.module.named_modules():
            torch_check.check_statistics(f"{type(layer).__name__} {name}", layer)
        if WEIGHT in self.data.train.samples and self.loss is cross_entropy:
            warnings.warn(
                f"The array {WEIGHT} is not used by the loss; give a loss that multiplies by it, or leave it out.",
                stacklevel=3,
            )
        batch = {name: array[:2] for name, array in self.data.train.samples.items()}
        rows = len(next(iter(batch.values())))
        with torch.no_grad():
            shape = tuple(
                self._losses(self._tensors(self.init), self._batch(batch, precision.dtype_of(self.init))).shape
            )
        if shape != (rows,):
            raise ValueError(
                f"loss must return one value for each sample, for {rows} samples it returned shape {shape}; "
                'do not average over the batch (reduction="none").'
            )

    @cached_property
    def init(self) -> dict[str, NDArray[Any]]:
        """The start x^0: the parameters that the module was given with."""
        x0: dict[str, NDArray[Any]] = start(parameters(self.module))
        return x0

    def starting_at(self, init: Tree) -> "TorchProblem":
        """Return the same problem with another start x^0, such as the ``params`` of an earlier result."""
        module = copy.deepcopy(self.module)
        load(module, fitting(dict(init), self.init))
        return replace(self, module=module)

    @cached_property
    def client_weights(self) -> NDArray[np.float64]:
        """The weights w_i, summing to one."""
        return client_weights(self.weights, self.data)

    @property
    def regulariser(self) -> Regulariser:
        """The regulariser g, which is Zero where none was given."""
        return Zero() if self.g is None else self.g

    def known_curvature(self, i: int) -> Bounds | None:
        """Return bounds on the eigenvalues of the Hessian of f_i, None where they are not known."""
        return self.curvature(i) if callable(self.curvature) else self.curvature

    def batch_gradient(self, x: Tree, batch: Samples) -> Tree:
        """Return the gradient at x of the mean loss over a batch."""
        size = len(next(iter(batch.values())))
        return self.weighted(x, batch, np.full(size, 1.0 / size))[1]

    def f(self, x: Tree) -> float:
        """Return f(x) = sum_i w_i f_i(x)."""
        return self.weighted(x, self.data.train.samples, self.sample_weights, gradient=False)[0]

    def F(self, x: Tree) -> float:
        """Return F(x) = f(x) + g(x)."""
        x = precision.parameters(x)
        with precision.scope(precision.dtype_of(x)):
            return self.f(x) + float(self.regulariser.value(x))

    def gradient(self, x: Tree) -> Tree:
        """Return the gradient of f at x."""
        return self.weighted(x, self.data.train.samples, self.sample_weights)[1]

    def gradient_mapping(self, x: Tree, eta: float = 1.0) -> Tree:
        """Return G_eta(x) = (x - prox_{eta g}(x - eta grad f(x))) / eta."""
        return gradient_mapping(self.regulariser, x, self.gradient(x), eta)

    def accuracy(self, x: Tree, part: ClientSamples | None) -> float:
        """Return the share of samples that are predicted rightly; NaN where there are none, or nobody can say."""
        if part is None or not part.num_samples or self.correct is None:
            return float("nan")
        return float(self.each(x, part.samples, "correct").mean())

    def each(self, x: Tree, batch: Samples, kind: str) -> NDArray[Any]:
        """Return the ``"loss"`` of each sample at x, whether it is ``"correct"``, or the module's ``"outputs"``."""
        if kind == "correct" and self.correct is None:
            raise ValueError("Accuracies need correct=..., got a problem without it; ask for the loss, or give it.")
        of = {"loss": self.loss, "correct": self.correct, "outputs": _outputs}[kind]
        assert of is not None
        x = precision.parameters(x)
        tensors, chunks = self._tensors(x), []
        with torch.no_grad():
            for rows in _chunks(len(next(iter(batch.values())))):
                chunk = self._batch({name: a[rows] for name, a in batch.items()}, precision.dtype_of(x))
                chunks.append(of(self._outputs(tensors, chunk), chunk).numpy())
        return np.concatenate(chunks) if chunks else np.zeros(0)

    @cached_property
    def _own(self) -> torch.nn.Module:
        return copy.deepcopy(self.module).eval()

    @cached_property
    def _device(self) -> torch.device:
        """Where the module is, and all of its arithmetic."""
        return next(self._own.parameters()).device

    @cached_property
    def sample_weights(self) -> NDArray[np.float64]:
        """The weight w_i / n_i of each training sample in memory."""
        return sample_weights(self.client_weights, self.data)

    def weighted(
        self, x: Tree, samples: Samples, weights: NDArray[np.float64], gradient: bool = True
    ) -> tuple[float, Tree]:
        """Return the weighted sum of the losses and, if wanted, its gradient, a chunk of samples at a time."""
        x = precision.parameters(x)
        tensors, value = self._tensors(x, requires_grad=gradient), 0.0
        total = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
        for rows in _chunks(len(weights)):
            batch = self._batch({name: a[rows] for name, a in samples.items()}, precision.dtype_of(x))
            with torch.set_grad_enabled(gradient):
                losses = self._losses(tensors, batch)
                part = torch.dot(self._tensor(weights[rows]).to(losses.dtype), losses)
            value += float(part.detach())
            if gradient:
                slopes = torch.autograd.grad(part, list(tensors.values()), allow_unused=True)
                for sum_, slope in zip(total.values(), slopes, strict=True):
                    if slope is not None:
                        sum_ += slope
        return value, {name: sum_.cpu().numpy() for name, sum_ in total.items()}

    def _tensor(self, a: NDArray[Any], dtype: Any = None) -> torch.Tensor:
        return torch_check.tensor(a, dtype).to(self._device)

    def _losses(self, tensors: Tensors, batch: Tensors) -> torch.Tensor:
        return self.loss(self._outputs(tensors, batch), batch)

    def _outputs(self, tensors: Tensors, batch: Tensors) -> torch.Tensor:
        dtype = next(iter(tensors.values())).dtype
        fixed = {name: b.to(dtype) if b.is_floating_point() else b for name, b in self._own.named_buffers()}
        fixed |= {name: p.to(dtype) for name, p in self._own.named_parameters() if not p.requires_grad}
        outputs: torch.Tensor = torch.func.functional_call(self._own, {**fixed, **tensors}, (batch["x"],))
        return outputs

    def _tensors(self, x: Tree, requires_grad: bool = False) -> Tensors:
        return {name: self._tensor(a).requires_grad_(requires_grad) for name, a in x.items()}

    def _batch(self, samples: Samples, dtype: Any) -> Tensors:
        """Return samples as tensors: real numbers as dtype, whole numbers as 64-bit, which PyTorch wants of labels."""

        def tensor(name: str, a: NDArray[Any]) -> torch.Tensor:
            is_real = np.issubdtype(a.dtype, np.floating) or (name == "x" and self._real_features)
            return self._tensor(a, dtype if is_real else np.int64)

        return {name: tensor(name, a) for name, a in precision.samples(samples, dtype).items()}

    @cached_property
    def _real_features(self) -> bool:
        """Whether the module cannot take whole numbers, but the same as real ones."""
        own = precision.dtype_of(self.init)
        # In float64, since what PyTorch makes of whole numbers on its way, such as x / 255, is float32.
        return not self._takes(np.int64, np.float64) and self._takes(own, own)

    def _takes(self, features: Any, dtype: Any) -> bool:
        """Return whether the module can compute with features of one type and parameters of another."""
        batch = {"x": self._tensor(self.data.train.samples["x"][:2], features)}
        try:
            with torch.no_grad():
                self._outputs(self._tensors(tree.cast(self.init, dtype)), batch)
        except (RuntimeError, TypeError, ValueError, IndexError):
            return False
        return True


def _outputs(outputs: torch.Tensor, batch: Tensors) -> torch.Tensor:
    del batch
    return outputs


def _chunks(n: int) -> list[slice]:
    return [slice(first, min(first + CHUNK, n)) for first in range(0, n, CHUNK)]
