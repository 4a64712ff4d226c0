"""Modules of PyTorch as models of the compiled simulator, and their parameters by name."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from feddr import precision
from feddr.models import torch_check
from feddr.models.model import Model
from feddr.models.modules import example_rows, num_outputs
from feddr.models.torch_trace import TracedModule, load_torchax
from feddr.tree import Tree
from feddr.xla import compilation_cache

if TYPE_CHECKING:
    import torch


def parameters(module: "torch.nn.Module") -> dict[str, NDArray[Any]]:
    """Return copies of the parameters of a module that are trained, by name; shorter floats as float32.

    Examples
    --------
    >>> import torch  # doctest: +SKIP
    >>> sorted(parameters(torch.nn.Linear(5, 2)))  # doctest: +SKIP
    ['bias', 'weight']
    """
    import torch

    own = {name: p.detach().cpu() for name, p in module.named_parameters() if p.requires_grad}
    return {name: p.to(torch.promote_types(p.dtype, torch.float32)).numpy().copy() for name, p in own.items()}


def load(module: "torch.nn.Module", params: Mapping[str, ArrayLike]) -> None:
    """Write parameters, such as ``result.params``, into a module; all those that are trained, and no others.

    Raises
    ------
    ValueError
        Where a name or a shape is not the module's.

    Examples
    --------
    >>> import safetensors.numpy, torch  # doctest: +SKIP
    >>> net = torch.nn.Linear(5, 2)  # doctest: +SKIP
    >>> load(net, safetensors.numpy.load_file("runs/first/model.safetensors"))  # doctest: +SKIP
    """
    import torch

    own = {name: p for name, p in module.named_parameters() if p.requires_grad}
    if set(own) != set(params):
        raise ValueError(f"The module needs the parameters {sorted(own)}, got {sorted(params)}.")
    with torch.no_grad():
        for name, p in own.items():
            value = precision.real(f"The parameter {name}", params[name])
            if value.shape != tuple(p.shape):
                raise ValueError(f"{name} needs the shape {tuple(p.shape)}, got {value.shape}.")
            p.copy_(torch_check.tensor(value))


def from_torch(module: "torch.nn.Module", example: ArrayLike, *, scores: bool = True) -> Model:
    """Return a module of PyTorch as a model of the compiled simulator, through torchax.

    Parameters
    ----------
    module
        Called with rows of features. It is copied, and computes in the mode that it is in: call ``module.eval()`` first
        if it has BatchNorm or dropout. Its parameters are the start, whatever the seed.
    example
        Some rows of features, which fix the shapes: ``data.train.samples["x"][:1]``. Whole numbers, such as tokens,
        stay whole, unless the module takes real numbers only.
    scores
        Whether the outputs must be a number or a row of scores for each row, as ``Problem.classification`` and
        ``Problem.regression`` need them. False for outputs of any shape (rows, ...), which are for a loss of your own.

    Returns
    -------
    Model
        Its parameters have the names of ``module.state_dict()``; ``feddr.torch.load(module, result.params)`` writes
        them back. Buffers, and parameters that are not trained, are constants.

    Raises
    ------
    ImportError
        Where torchax is missing or does not fit the installed PyTorch.
    ValueError
        Where the loss of a sample would not be a function of the parameters and that sample alone: BatchNorm in
        training mode, dropout and other random numbers. Where torchax cannot translate the module, or its gradient is
        not PyTorch's, as with autograd functions of your own. ``feddr.torch.TorchProblem`` takes such modules.

    Notes
    -----
    The module is translated once for each shape of a batch, by one thread at a time, and then evaluated as JAX's own
    code: the simulator compiles, differentiates and vectorises it. Once, outputs and gradients are compared with
    PyTorch's. docs/PYTORCH.md has examples, also with a loss of your own.

    Examples
    --------
    >>> import torch, feddr  # doctest: +SKIP
    >>> model = from_torch(torch.nn.Linear(60, 10), np.zeros((1, 60)))  # doctest: +SKIP
    >>> data = feddr.datasets.synthetic(1, 1, num_clients=30, seed=0)  # doctest: +SKIP
    >>> problem = feddr.Problem.classification(model, data)  # doctest: +SKIP
    """
    load_torchax()
    torch_check.check_module(module)
    start = parameters(module)
    if not start:
        raise ValueError("A model needs parameters that are trained, the module has none; see requires_grad_.")
    torch_check.check_layers(module)
    inputs = example_rows(example)
    rows = torch_check.distinct(inputs)
    takes_whole = torch_check.takes_whole(module, inputs)
    if inputs.dtype.kind != "f" and not takes_whole:
        rows = rows.astype(np.float32)
    traced = TracedModule(module)

    def apply(params: Tree, x: jax.Array) -> jax.Array:
        as_it_is = takes_whole or jnp.issubdtype(x.dtype, jnp.floating)
        outputs: jax.Array = traced(params, x if as_it_is else x.astype(jnp.result_type(*jax.tree.leaves(params))))
        return outputs

    def init(seed: int) -> Tree:
        del seed
        return {name: array.copy() for name, array in start.items()}

    compilation_cache.enable()
    torch_check.check_same(module, apply, rows)
    return Model(init, apply, num_outputs(apply, init, rows) if scores else 0)
