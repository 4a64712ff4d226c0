"""A grammar of the parts of a config, by their signatures: right names with right, unusual and wrong arguments."""

from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from hypothesis import strategies as st

from feddr.config.components import NESTED, OPTIMISERS, TABLE, settings
from tests.fuzz.literals import Value

NAMES = ("weight", "bias", "layer0", "x", "a.csv", "none", "")
WORDS: Mapping[str, Sequence[str]] = {
    "path": ("a.csv", "a.svm", "taken", "missing", ""),
    "data_dir": ("taken", ".", "missing"),
    "optimiser": (*OPTIMISERS, "sdg"),
    "activation": ("relu", "tanh", "step"),
    "client": ("who", "x", "y", "z"),
    "label": ("y", "x", "who", "z"),
    "delimiter": (",", ";", ",,", '"', "\\r"),
}
"""What some settings are usually called."""

SIZES = {"num_clients": st.integers(1, 3), "max_steps": st.integers(1, 20), "epochs": st.integers(1, 2)}
"""Settings that would make a run long."""


def part(kind: str, odd: st.SearchStrategy[Value], depth: int = 0) -> st.SearchStrategy[dict[str, Any]]:
    """Draw a part of a kind: each argument is left out, one that fits its annotation or, now and then, an odd one."""
    return st.sampled_from(TABLE[kind][1]).flatmap(lambda name: _named(kind, name, odd, depth))


def _named(kind: str, name: str, odd: st.SearchStrategy[Value], depth: int) -> st.SearchStrategy[dict[str, Any]]:
    needed: dict[str, st.SearchStrategy[Any]] = {"name": st.just(name)}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for setting, parameter in settings(kind, name).items():
        argument = SIZES[setting] if setting in SIZES else _often(fit(setting, parameter.annotation, odd, depth), odd)
        (needed if parameter.default is parameter.empty else optional)[setting] = argument
    return st.fixed_dictionaries(needed, optional=optional)


def _often(usual: st.SearchStrategy[Any], odd: st.SearchStrategy[Value]) -> st.SearchStrategy[Any]:
    return st.integers(0, 7).flatmap(lambda k: odd if k == 7 else usual)


def fit(setting: str, annotation: Any, odd: st.SearchStrategy[Value], depth: int) -> st.SearchStrategy[Any]:
    """Draw what an annotation asks for, good or bad for its purpose."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    nested = NESTED.get(getattr(annotation, "__name__", ""))
    if nested is not None and origin is None:
        return part(nested, odd, depth + 1) if depth < 3 else st.just({})
    if origin in (Union, UnionType):
        return st.one_of([fit(setting, one, odd, depth) for one in arguments])
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is Sequence:
        return st.lists(fit(setting, arguments[0], odd, depth + 1), max_size=4)
    if origin is Mapping:
        return st.dictionaries(st.sampled_from(NAMES), fit(setting, arguments[1], odd, depth + 1), max_size=2)
    simple: dict[Any, st.SearchStrategy[Any]] = {
        bool: st.booleans(),
        int: st.sampled_from([1, 1, 2, 3, 4, 0, -1]),
        float: st.sampled_from([0.5, 1.0, 0.01, 2, 0.0, -1.0, 1e-30, 1e30]),
        str: st.sampled_from(WORDS.get(setting, NAMES)),
        NoneType: st.just("none"),
    }
    number = simple[float]
    return simple.get(annotation, st.one_of(number, st.dictionaries(st.sampled_from(NAMES), number, max_size=2)))
