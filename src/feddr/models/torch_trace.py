"""PyTorch modules as functions of JAX: traced by torchax, a batch shape at a time, and evaluated as JAX's own code."""

import contextlib
import copy
import functools
import importlib
import os
import threading
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from feddr.tree import Tree

if TYPE_CHECKING:
    import torch

TELEMETRY = "ENABLE_RUNTIME_UPTIME_TELEMETRY"
"""The environment variable by which torchax asks XLA to report on itself; it is off, unless the user has set it."""

OTHER_WAY = "feddr.torch.TorchProblem with feddr.reference computes in PyTorch itself"

_LOCK = threading.RLock()
"""Tracing puts JAX's arrays into a module and changes how PyTorch computes: one thread at a time."""


class RandomNumbersError(ValueError):
    """A module asks for random numbers while it is traced."""


def load_torchax() -> Any:
    """Return torchax, or say in one line why it cannot be had."""
    import torch

    os.environ.setdefault(TELEMETRY, "0")
    fast = torch.backends.mha.get_fastpath_enabled()
    try:
        return importlib.import_module("torchax")
    except ModuleNotFoundError as error:
        if error.name != "torchax":
            raise
        raise ImportError(f"from_torch needs torchax: pip install 'feddr[torch]'; {OTHER_WAY}.") from None
    except Exception as error:  # whatever an import may raise where the two do not fit
        from importlib.metadata import version

        raise ImportError(
            f"from_torch needs a torchax that fits PyTorch, got torchax {version('torchax')} with torch "
            f"{torch.__version__} ({type(error).__name__}: {str(error).splitlines()[0]}); "
            f"pip install 'feddr[torch]' has versions that fit, and {OTHER_WAY}."
        ) from error
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


class TracedModule:
    """A module as a function of JAX, from (parameters by name, rows) to outputs.

    Parameters
    ----------
    module
        It is copied, and computes in the mode, training or evaluation, that it is in. Its buffers, its parameters that
        are not trained and all other tensors that it holds are constants.
    """

    def __init__(self, module: "torch.nn.Module") -> None:
        self.module = copy.deepcopy(module).cpu()
        self._traces: dict[Any, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"module": self.module}  # each process makes its own traces

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["module"])  # type: ignore[misc]

    def __call__(self, params: Tree, x: Any) -> Any:
        """Return the outputs of the module for rows x, shape (rows, ...)."""
        dtype = jnp.result_type(*jax.tree.leaves(params))
        key = (x.shape, str(x.dtype), str(dtype), str(jnp.result_type(float)))
        with _LOCK:
            arguments = (dict(params), _constants(self._fixed, dtype), x)
            if key not in self._traces:
                self._traces[key] = self._trace(jax.tree.map(_shape, arguments))
            jaxpr, consts, tree = self._traces[key]
        outputs = jax.core.eval_jaxpr(jaxpr, consts, *jax.tree.leaves(arguments))
        return jax.tree.unflatten(tree, outputs)

    def _trace(self, shapes: Any) -> tuple[Any, list[NDArray[Any]], Any]:
        """Return the computation for arguments of these shapes, its constants, and the structure of what it returns."""
        with _translating():
            _, function = load_torchax().extract_jax(self.module, environment())
            names = self._names

            def outputs(params: Tree, fixed: Tree, x: Any) -> Any:
                return function({key: params[name] for key, name in names.items()} | fixed, (x,))

            jaxpr, out = jax.make_jaxpr(outputs, return_shape=True)(*shapes)
        # As NumPy's: JAX's own would belong to the precision and the trace in which they were made.
        return jaxpr.jaxpr, [np.asarray(a) for a in jaxpr.consts], jax.tree.structure(out)

    @functools.cached_property
    def _names(self) -> dict[str, str]:
        """The name of a parameter that is trained, by the name that torchax has for it; others share parameters."""
        names = {id(p): name for name, p in self.module.named_parameters() if p.requires_grad}
        return {key: names[id(tensor)] for key, tensor in self._tensors.items() if id(tensor) in names}

    @functools.cached_property
    def _fixed(self) -> dict[str, NDArray[Any]]:
        """The tensors that are not trained."""
        import torch

        fixed = {key: tensor.detach() for key, tensor in self._tensors.items() if key not in self._names}
        return {key: (t.float() if t.dtype == torch.bfloat16 else t).numpy() for key, t in fixed.items()}

    @functools.cached_property
    def _tensors(self) -> "dict[str, torch.Tensor]":
        """The tensors of the module by the names that torchax has for them."""
        with _LOCK, _translating():
            states, _ = load_torchax().extract_jax(self.module, environment())
        return {key: functools.reduce(getattr, key.split("."), self.module) for key in states}


def _shape(a: Any) -> Any:
    return jax.ShapeDtypeStruct(jnp.shape(a), jnp.result_type(a))  # type: ignore[no-untyped-call]


def _constants(fixed: dict[str, NDArray[Any]], dtype: Any) -> dict[str, NDArray[Any]]:
    """Return tensors as the run wants them: real numbers of its precision, whole numbers of 32 bits."""
    kinds = {"f": dtype, "i": np.int32, "u": np.int32}
    return {key: np.asarray(a, kinds.get(a.dtype.kind, a.dtype)) for key, a in fixed.items()}


@contextlib.contextmanager
def _translating() -> Iterator[None]:
    """Let PyTorch make new tensors in JAX, one operation at a time."""
    import torch

    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # a fused operation that torchax does not know
    try:
        with warnings.catch_warnings(), torch.device("jax:0"), torch.no_grad():
            warnings.filterwarnings("ignore", "Explicitly requested dtype")  # PyTorch's whole numbers have 64 bits
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


@functools.cache
def environment() -> Any:
    """Return what translates operations: torchax's, with loops for recurrent layers and without random numbers."""
    import torch

    load_torchax()
    from torchax import tensor

    class Translation(tensor.Environment):  # type: ignore[misc]
        def get_and_rotate_prng_key(self, generator: Any = None) -> Any:
            del generator
            raise RandomNumbersError

    made = Translation()

    def recurrent(original: Any, cell: Any) -> Any:
        def translated(x: Any, *rest: Any) -> Any:
            # The third is a truth value where all sequences have one length, the parameters where they are packed.
            padded = isinstance(rest[2], bool)
            outputs = _recurrent(cell, *made.t2j_iso((x, *rest))) if padded else None
            return original(x, *rest) if outputs is None else made.j2t_iso(outputs)

        return translated

    made.override_op_definition(torch.lstm, recurrent(torch.lstm, _lstm_cell))
    made.override_op_definition(torch.gru, recurrent(torch.gru, _gru_cell))
    return made


def _recurrent(
    cell: Any,
    x: Any,
    start: Any,
    weights: Any,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    """Return the outputs and last states of recurrent layers as PyTorch does; None where this knows no loop for them.

    torchax writes the steps of a sequence one after the other, which takes the compiler minutes; here they are a loop.
    """
    states = start if isinstance(start, tuple | list) else (start,)
    if (dropout and train) or len({state.shape for state in states}) > 1 or x.ndim != 3:
        return None  # random numbers, projections, a single sequence
    directions, count = 1 + bidirectional, 4 if has_biases else 2
    x = jnp.swapaxes(x, 0, 1) if batch_first else x
    last: list[Any] = []
    for layer in range(num_layers):
        outputs = []
        for side in range(directions):
            k = layer * directions + side
            own = weights[k * count : (k + 1) * count]
            first = tuple(state[k] for state in states)
            end, y = _loop(cell, x, first, *own, backwards=side == 1)
            outputs.append(y)
            last.append(end)
        x = jnp.concatenate(outputs, axis=-1) if bidirectional else outputs[0]
    ends = tuple(jnp.stack(parts) for parts in zip(*last, strict=True))
    return (jnp.swapaxes(x, 0, 1) if batch_first else x, *ends)


def _loop(cell: Any, x: Any, start: Any, w: Any, u: Any, b: Any = None, c: Any = None, *, backwards: bool) -> Any:
    """Return the last state and the outputs, shape (length, rows, hidden), of one layer in one direction."""
    length, rows, width = x.shape
    bias = jnp.zeros(u.shape[0], x.dtype)
    gates = (x.reshape(length * rows, width) @ w.T + (bias if b is None else b)).reshape(length, rows, -1)

    def step(state: Any, own: Any) -> Any:
        state = cell(state, own, state[0] @ u.T + (bias if c is None else c))
        return state, state[0]

    return jax.lax.scan(step, start, gates, reverse=backwards)


def _lstm_cell(state: Any, x: Any, h: Any) -> Any:
    new, forget, candidate, out = jnp.split(x + h, 4, axis=-1)
    cell = jax.nn.sigmoid(forget) * state[1] + jax.nn.sigmoid(new) * jnp.tanh(candidate)
    return jax.nn.sigmoid(out) * jnp.tanh(cell), cell


def _gru_cell(state: Any, x: Any, h: Any) -> Any:
    (xr, xz, xn), (hr, hz, hn) = jnp.split(x, 3, axis=-1), jnp.split(h, 3, axis=-1)
    update = jax.nn.sigmoid(xz + hz)
    return ((1 - update) * jnp.tanh(xn + jax.nn.sigmoid(xr + hr) * hn) + update * state[0],)
