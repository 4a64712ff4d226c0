"""A case of the Python API: a call, and what it must return unless it is refused.

A case ends well if feddr refuses it, in words of its own, or if its numbers are those of a reference. Numbers that are
wrong, without a warning, are what this looks for.
"""

import re
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

import feddr

HOME = str(Path(feddr.__file__).parent)

REFUSED: Any = "refused"
"""What is expected of a call that has no right answer."""

FOREIGN = re.compile(
    "not supported between|unsupported operand|object is not|has no attribute|could not convert|must be real number|"
    "cannot be interpreted|can't convert|truth value of|only 0-dim|not iterable|object cannot be|invalid literal|"
    "Cannot cast|ufunc|argument must be|takes no arguments|missing \\d|cannot convert|inhomogeneous|not callable"
)
"""Messages of Python and NumPy, which say what went wrong and not what was wanted."""


@dataclass(frozen=True)
class Case:
    """A call and its reference.

    Parameters
    ----------
    kind
        What it is about, for the counts.
    text
        The case in words, for a report.
    call
        Returns a tree of numbers.
    expected
        Returns the same tree from a reference; REFUSED where nothing but a refusal is right; None where there is no
        reference, and the call must end well or be refused.
    close
        From (got, wanted), two arrays in float64 or wider, to whether they agree.
    """

    kind: str
    text: str
    call: Callable[[], Any]
    expected: Any
    close: Callable[[Any, Any], bool]


def within(tolerance: float) -> Callable[[Any, Any], bool]:
    """Return the comparison of two arrays, relative to the largest entry; a NaN equals a NaN."""

    def close(got: Any, wanted: Any) -> bool:
        largest = np.max(np.abs(wanted), where=np.isfinite(wanted), initial=0)
        return bool(np.allclose(got, wanted, tolerance, tolerance * largest, equal_nan=True))

    return close


def own(error: BaseException) -> bool:
    """Return whether an error is a refusal: raised by feddr, with a requirement and what was got, in one sentence."""
    last = traceback.extract_tb(error.__traceback__)[-1].filename
    named = isinstance(error, ValueError | TypeError | feddr.DivergedError)
    words = str(error)
    return named and last.startswith(HOME) and not FOREIGN.search(words) and words.rstrip().endswith((".", ";", ")"))


def attempt(case: Case) -> tuple[str, str]:
    """Return how a case ended, "refused", "right" or "warned", and what is wrong with it, nothing where all is well."""
    with warnings.catch_warnings(record=True) as told, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        try:
            got = jax.tree.map(_wide, case.call())
        except Exception as error:
            if own(error):
                return "refused", ""
            return "failed", f"{type(error).__name__}: {str(error)[:300]} ({_place(error)})"
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if case.expected is None:
            return "right", ""
        if case.expected is REFUSED:
            problem = f"It was taken, with the result {str(got)[:200]}"
        else:
            wanted = jax.tree.map(_wide, case.expected())
            shapes: tuple[Any, Any] = jax.tree.structure(got), jax.tree.structure(wanted)
            same = shapes[0] == shapes[1] and all(
                np.shape(a) == np.shape(b) and case.close(a, b)
                for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True)
            )
            problem = "" if same else f"It returned {str(got)[:300]} instead of {str(wanted)[:300]}"
    if problem and told:
        return "warned", ""
    return "right", problem


def run(cases: Iterable[Case], tally: Counter[tuple[str, str]]) -> list[str]:
    """Try all cases, count how they end, and return what is wrong, one line for each."""
    found = []
    for case in cases:
        end, problem = attempt(case)
        tally[case.kind, "wrong" if problem else end] += 1
        if problem:
            found.append(f"{case.kind}: {case.text}: {problem}")
    return found


def _wide(leaf: Any) -> Any:
    array = np.asarray(leaf)
    if array.dtype.kind in "biuV":
        array = array.astype(np.float64)
    return array if array.dtype == np.longdouble else array.astype(np.float64)


def _place(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(HOME)]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "outside of feddr"
