"""Validation of kinds: a class where an instance is wanted, a module of another library where a model is."""

import reprlib
from typing import Any

_WAYS = {
    "torch": "use feddr.models.from_torch(module, example), or feddr.torch.TorchProblem(module, data)",
    "flax": "use feddr.models.from_flax(module, example)",
    "equinox": "use feddr.models.from_equinox(build, example)",
    "sklearn": "use feddr.estimators, or feddr.models.linear and softmax",
    "feddr": "call it with its sizes first, as in feddr.models.mlp([60, 32, 10])",
}
"""From a library to what is made of its models here."""


def instance(what: str, value: Any, kind: type | None = None, remedy: str = "") -> None:
    """Refuse a class where something made of it is wanted, and what is not of a kind.

    Examples
    --------
    >>> instance("g", dict)
    Traceback (most recent call last):
    ValueError: g must be an instance, got the class dict; write dict(...).
    """
    if isinstance(value, type):
        raise ValueError(f"{what} must be an instance, got the class {value.__name__}; write {value.__name__}(...).")
    if kind is not None and not isinstance(value, kind):
        raise ValueError(f"{what} must be a {kind.__name__}, got a {type(value).__name__}; {remedy}.")


def like(what: str, value: Any, method: str, example: str) -> None:
    """Refuse a class, and what lacks a method of the protocol that is wanted, such as a name or a number.

    Examples
    --------
    >>> like("sampling", 2, "draw", "feddr.sampling.Uniform(2)")
    Traceback (most recent call last):
    ValueError: sampling must be an object such as feddr.sampling.Uniform(2), got 2.
    """
    instance(what, value)
    if not hasattr(value, method):
        raise ValueError(f"{what} must be an object such as {example}, got {reprlib.repr(value)}.")


def model(value: Any, kind: type) -> None:
    """Refuse what is not a model of feddr, with the way from there to one.

    Examples
    --------
    >>> model([1], tuple)
    Traceback (most recent call last):
    ValueError: model must be a feddr.models.Model, got a list; give Model(init, apply, num_outputs).
    """
    if isinstance(value, kind):
        return
    made = value if isinstance(value, type) else type(value)
    homes = [getattr(value, "__module__", ""), *(one.__module__ for one in made.__mro__)]
    ways = [_WAYS[top] for top in (str(home).split(".")[0] for home in homes) if top in _WAYS]
    what = f"{'the class' if isinstance(value, type) else 'a'} {made.__name__}"
    if callable(value) and made.__name__ == "function":
        what = f"the function {value.__name__}"
    way = ways[0] if ways else "give Model(init, apply, num_outputs)"
    raise ValueError(f"model must be a feddr.models.Model, got {what}; {way}.")


def missing(what: str, package: str, install: str) -> ModuleNotFoundError:
    """Return the error for a package that is not installed.

    Examples
    --------
    >>> raise missing("feddr.torch", "torch", "'feddr[torch]'")
    Traceback (most recent call last):
    ModuleNotFoundError: feddr.torch needs torch, which is not installed; pip install 'feddr[torch]'.
    """
    return ModuleNotFoundError(f"{what} needs {package}, which is not installed; pip install {install}.", name=package)
