"""Bad input of every kind ends in one line and exit code 2, without a trace, or it runs.

``FEDDR_FUZZ`` is the number of cases, 500 by default; ``make fuzz`` tries 10,000 others.
"""

import itertools
import os
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.fuzz import broken_arguments, broken_configs, broken_files
from tests.fuzz.bad_input import Case, Tally, attempt

CASES = int(os.environ.get("FEDDR_FUZZ", "500"))
SEED = int(os.environ.get("FEDDR_FUZZ_SEED", "0"))

ONE_BY_ONE: dict[str, tuple[float, Callable[[int], Iterator[Case]]]] = {
    "configs, one by one": (0.28, broken_configs.systematic),
    "files, one by one": (0.14, broken_files.systematic),
    "arguments, one by one": (0.16, broken_arguments.systematic),
}
"""Lists of cases, each in an order of its own for each seed, and their share."""

DRAWN: dict[str, tuple[float, st.SearchStrategy[Case]]] = {
    "configs, drawn": (0.16, broken_configs.configs()),
    "configs that run, drawn": (0.02, broken_configs.runs()),
    "files, drawn": (0.12, broken_files.data_files()),
    "arguments, drawn": (0.12, broken_arguments.arguments()),
}
"""Grammars, and their share."""

BY_HAND = (broken_configs.by_hand, broken_arguments.by_hand)


def test_all_shares_are_one() -> None:
    assert sum(share for share, _ in (*ONE_BY_ONE.values(), *DRAWN.values())) == pytest.approx(1)


@pytest.mark.parametrize("kind", ONE_BY_ONE)
def test_one_by_one(kind: str, tally: Tally) -> None:
    share, cases = ONE_BY_ONE[kind]
    rounds = itertools.chain.from_iterable(cases(seed) for seed in itertools.count(SEED))
    for case in itertools.islice(rounds, round(share * CASES)):
        tally.count(kind, attempt(case))
    assert tally.tried(kind) >= round(share * CASES)


@pytest.mark.parametrize("kind", DRAWN)
def test_drawn(kind: str, tally: Tally) -> None:
    share, grammar = DRAWN[kind]

    @settings(
        max_examples=round(share * CASES),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink) if CASES <= 500 else (Phase.generate,),
    )
    @given(grammar)
    def ends_well(case: Case) -> None:
        tally.count(kind, attempt(case))

    ends_well()
    assert tally.tried(kind) >= round(share * CASES)


@pytest.mark.parametrize("cases", BY_HAND)
def test_by_hand(cases: Callable[[], Iterator[Case]], tally: Tally) -> None:
    for case in cases():
        tally.count("by hand", attempt(case))
