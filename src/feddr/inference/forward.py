"""The forward function of a model: rebuilt from the spec of a ready model, or stored as StableHLO for any other.

StableHLO is what JAX compiles, in a format that newer versions of it promise to read. A stored function needs neither
the library nor the code that the model was written in, and nothing of it is Python.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import export as jax_export

from feddr import models, precision, tree
from feddr.models import Model
from feddr.storage.tensors import DamagedError
from feddr.tree import Tree

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
HARMLESS = {"shape_assertion", "Sharding"}
"""Calls out of StableHLO that a stored function may make: JAX's own checks of the number of rows."""

READY: dict[str, Callable[..., Model]] = {
    "linear": models.linear,
    "softmax": models.softmax,
    "mlp": models.mlp,
    "cnn": models.cnn,
    "resnet": models.resnet,
    "lstm": models.lstm,
    "transformer": models.transformer,
}
"""The models that are built again from their spec; the forward function of any other is stored."""

Forward = Callable[[Tree, Any], Any]
"""From (parameters, rows) to outputs."""


class Rows(NamedTuple):
    """What a model takes: the shape of one row, and whether its entries are whole numbers, such as tokens.

    Examples
    --------
    >>> Rows((28, 28), whole=False).dtype(np.float32)
    dtype('float32')
    """

    shape: tuple[int, ...]
    whole: bool

    def dtype(self, real: Any) -> np.dtype[Any]:
        """Return the type of the entries, where parameters have the type ``real``."""
        return np.dtype(np.int32 if self.whole else real)


def from_spec(spec: Mapping[str, Any]) -> Model:
    """Return the model that ``Model.spec`` describes.

    Raises
    ------
    ValueError
        Where the name or an argument is none that a ready model has.

    Examples
    --------
    >>> model = from_spec({"name": "mlp", "sizes": [3, 8, 2]})
    >>> model.num_outputs, dict(model.spec)
    (2, {'name': 'mlp', 'sizes': [3, 8, 2], 'activation': 'relu'})
    """
    arguments = dict(spec)
    name = arguments.pop("name", None)
    if name not in READY:
        raise ValueError(f"A ready model is one of {', '.join(READY)}, got {name!r}; build it with your own code.")
    try:
        return READY[name](**arguments)
    except TypeError:
        raise ValueError(f"The model {name} does not take {sorted(arguments)}; see feddr.models.{name}.") from None


def dumps(apply: Forward, params: Tree, rows: Rows) -> bytes:
    """Return the forward function as bytes of StableHLO, for any number of rows and the leaves of ``params``.

    Raises
    ------
    ValueError
        Where JAX cannot write the function for any number of rows, or at all, with its reason.
    """
    leaves, structure = jax.tree.flatten(params)
    dtype = np.result_type(*leaves)

    def forward(leaves: Sequence[Any], x: Any) -> Any:
        return apply(jax.tree.unflatten(structure, leaves), x)

    with precision.scope(dtype):
        (count,) = jax_export.symbolic_shape("rows")
        struct: Any = jax.ShapeDtypeStruct
        x = struct((count, *rows.shape), rows.dtype(dtype))
        shapes = [struct(np.shape(leaf), np.asarray(leaf).dtype) for leaf in leaves]
        try:
            exported = jax_export.export(jax.jit(forward), platforms=PLATFORMS)(shapes, x)
            if _calls(exported):
                raise ValueError(f"it calls {', '.join(_calls(exported))}, which is code outside of it.")
            return bytes(exported.serialize())
        except Exception as error:  # of JAX, of the model's library or of the model itself
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise ValueError(f"The model cannot be written as StableHLO for any number of rows: {reason[0]}") from error


def loads(data: bytes, params: Mapping[str, Any], rows: Rows, num_outputs: int, source: object) -> Forward:
    """Return a forward function that ``dumps`` wrote, checked against the parameters and rows that it is to take.

    Parameters
    ----------
    params
        The parameters by name (``tree.named``), in the order that they had when the function was written.

    Raises
    ------
    DamagedError
        Where the bytes are no such function, or one that does more than compute.
    """
    dtype = np.result_type(*params.values())
    try:
        with precision.scope(dtype):
            exported = jax_export.deserialize(bytearray(data))
            calls = _calls(exported)
            shapes = [tuple(aval.shape) for aval in exported.in_avals]
            types = [np.dtype(aval.dtype) for aval in exported.in_avals]
            (out,) = exported.out_avals
    except Exception as error:  # a file that is not what feddr writes may fail anywhere in JAX's reader
        raise DamagedError(f"{source} is not a function that feddr has stored: {type(error).__name__}.") from None
    if calls:
        raise DamagedError(f"{source} does more than compute, it calls {', '.join(calls)}; do not use it.")
    wanted = [leaf.shape for leaf in params.values()]
    expected = [leaf.dtype for leaf in params.values()] + [rows.dtype(dtype)]
    order = list(params)
    fits = shapes[:-1] == wanted and types == expected and shapes[-1][1:] == rows.shape
    if not fits or tuple(out.shape[1:]) != ((num_outputs,) if num_outputs else ()):
        raise DamagedError(f"{source} takes other parameters or rows than those in its folder.")

    def forward(params: Tree, x: Any) -> Any:
        named = tree.named(params)
        call: Any = exported.call
        return call([named[name] for name in order], x)

    return forward


def _calls(exported: jax_export.Exported) -> list[str]:
    """Return what a function calls outside of StableHLO, such as LAPACK or Python."""
    return sorted(set(re.findall(r'custom_call @?"?([\w.$]+)', exported.mlir_module())) - HARMLESS)
