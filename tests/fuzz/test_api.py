"""The Python API with data, options and numbers of every form: right numbers, or a refusal, and nothing between.

A few cases run here; ``make fuzz`` tries a quarter as many as it has of configs, files and words, others each time.
"""

import os
import random
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

import feddr
from tests.fuzz import api, api_arguments, api_data, api_prox, api_runs
from tests.fuzz.api import REFUSED, Case, attempt, within

CASES = int(os.environ.get("FEDDR_FUZZ", "0")) // 4
SEED = int(os.environ.get("FEDDR_FUZZ_SEED", "0"))

Grammar = Callable[[random.Random], Case]
KINDS: dict[str, tuple[float, int, Grammar]] = {
    "regularisers": (0.4, 30, api_prox.drawn),
    "data": (0.25, 20, api_data.drawn),
    "arguments": (0.2, 20, api_arguments.drawn),
    "runs": (0.15, 4, api_runs.drawn),
}
"""Grammars, with their share of the cases, and how many of them there are in a test of everything."""


@pytest.mark.parametrize("kind", KINDS)
def test_right_or_refused(kind: str) -> None:
    share, few, grammar = KINDS[kind]
    rng, tally = random.Random(f"{SEED} {kind}"), Counter[tuple[str, str]]()
    count = round(share * CASES) or few
    found = api.run((grammar(rng) for _ in range(count)), tally)
    for (name, end), number in sorted(tally.items()):
        print(f"\nfuzz: {name}: {number} {end}", end="")
    assert sum(tally.values()) == count
    told = "\n".join(sorted(set(found))[:60])
    assert not found, f"{len(found)} of {count} went wrong, FEDDR_FUZZ_SEED={SEED}:\n{told}"


def _case(call: Callable[[], object], expected: object) -> Case:
    return Case("", "", call, expected, within(1e-12))


def test_what_ends_well() -> None:
    """A refusal in words of feddr, or numbers that are right; a warning excuses wrong ones."""

    def told() -> float:
        with np.errstate(all="warn"):
            return float(np.float64(1e308) * 10)

    assert attempt(_case(lambda: feddr.prox.L1(-1.0), REFUSED)) == ("refused", "")
    assert attempt(_case(lambda: 1.0, lambda: 1.0)) == ("right", "")
    assert attempt(_case(told, lambda: 1.0)) == ("warned", "")


@pytest.mark.parametrize(
    ("call", "expected", "words"),
    [
        (lambda: 1.0, lambda: 1.1, "instead of"),
        (lambda: np.nan, lambda: 1.0, "instead of"),
        (lambda: np.ones(2), lambda: np.ones(1), "instead of"),
        (lambda: 1.0, REFUSED, "It was taken"),
        (lambda: int("two"), REFUSED, "ValueError: invalid literal"),
        (lambda: feddr.local.SGD(lr=0.1).num_steps(None), None, "TypeError"),  # type: ignore[arg-type]
        (lambda: [][1], REFUSED, "IndexError"),
    ],
)
def test_what_does_not(call: Callable[[], object], expected: object, words: str) -> None:
    assert words in attempt(_case(call, expected))[1]
