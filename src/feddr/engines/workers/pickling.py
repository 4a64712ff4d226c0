"""How functions with a derivative of their own travel to workers: by name, or rebuilt from their parts."""

import importlib
from typing import Any

import jax


def register(ray: Any) -> None:
    """Tell Ray how to send functions that ``jax.custom_vjp`` has made, which cannot be pickled."""
    ray.util.register_serializer(jax.custom_vjp, serializer=parts, deserializer=rebuilt)


def parts(function: Any) -> tuple[Any, ...]:
    """Return the module and the name of a function that can be imported, and the parts of any other.

    Examples
    --------
    >>> from feddr.xla.dense import dense
    >>> parts(dense)
    ('feddr.xla.dense', 'dense')
    >>> rebuilt(parts(dense)) is dense
    True
    """
    module, name = function.__module__, function.__name__
    if module != "__main__" and getattr(importlib.import_module(module), name, None) is function:
        return module, name
    remaining = (function.symbolic_zeros, function.optimize_remat)
    return (function.fun, function.nondiff_argnums, function.fwd, function.bwd, *remaining)


def rebuilt(sent: tuple[Any, ...]) -> Any:
    """Return the function of which ``parts`` were sent."""
    if isinstance(sent[0], str):
        return getattr(importlib.import_module(sent[0]), sent[1])
    fun, nondiff, forward, backward, zeros, remat = sent
    function = jax.custom_vjp(fun, nondiff_argnums=nondiff)
    function.defvjp(forward, backward, symbolic_zeros=zeros, optimize_remat=remat)
    return function
