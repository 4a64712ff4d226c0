"""A model as an ONNX file, by jax2onnx, for programs without Python or JAX: the extra ``onnx``."""

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from feddr import precision, tree
from feddr.inference.forward import Forward, Rows
from feddr.tree import Tree


def write(forward: Forward, params: Tree, rows: Rows, path: str | Path) -> None:
    """Write the forward function with its parameters; it takes ``x``, any number of rows, and returns the outputs.

    Raises
    ------
    ValueError
        Where jax2onnx is not installed, or does not know an operation of the model.
    """
    dtype = np.result_type(*tree.leaves(params))
    with precision.scope(dtype), _quiet():
        try:
            from jax2onnx import to_onnx
        except ImportError:
            raise ValueError("ONNX needs jax2onnx, which is not installed; pip install 'feddr[onnx]'.") from None
        struct: Any = jax.ShapeDtypeStruct
        constants = jax.tree.map(jax.numpy.asarray, params)

        def outputs(x: Any) -> Any:
            return forward(constants, x)

        try:
            to_onnx(
                outputs,
                [struct(("rows", *rows.shape), rows.dtype(dtype))],
                enable_double_precision=dtype == np.float64,
                return_mode="file",
                output_path=str(path),
            )
        except Exception as error:  # it fails in many ways where it does not know an operation, or this JAX
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise ValueError(
                f"jax2onnx cannot write this model ({reason}); it is known to write models.linear, softmax and mlp. "
                "Of a PyTorch module, use torch.onnx.export, after feddr.torch.load(module, params)."
            ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep to itself what these libraries log about parts of them that are not used here."""
    loggers = [logging.getLogger(name) for name in ("jax2onnx", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
