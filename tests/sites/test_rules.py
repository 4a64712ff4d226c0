"""Each rule of a site in both directions: what it allows passes, and what lies just beyond it is refused."""

import math
from typing import Any

import pytest

from feddr.sites import SiteRefusal, SiteRules

HASH = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    ("rules", "check", "allowed", "refused"),
    [
        (SiteRules(minimum_records=50), "check_records", [50, 51], [49, 0]),
        (SiteRules(minimum_sites=3), "check_sites", [3, 100], [2, 1]),
        (SiteRules(experiments=[HASH]), "check_experiment", [HASH], ["", HASH.replace("0", "1")]),
        (SiteRules(largest_updates=2), "check_updates", [0, 1], [2, 3]),
        (SiteRules(), "check_records", [0], []),
        (SiteRules(), "check_sites", [1], []),
        (SiteRules(), "check_experiment", ["", HASH], []),
        (SiteRules(), "check_updates", [10**9], []),
        (SiteRules(experiments=[]), "check_experiment", [], [HASH]),
    ],
)
def test_a_rule_has_two_directions(rules: SiteRules, check: str, allowed: list[Any], refused: list[Any]) -> None:
    for value in allowed:
        getattr(rules, check)(value)
    for value in refused:
        with pytest.raises(SiteRefusal):
            getattr(rules, check)(value)


def test_an_update_is_clipped_to_the_norm_or_refused_beyond_it() -> None:
    clip = SiteRules(maximal_norm=2.0, beyond_norm="clip")
    assert clip.clipped(2.0) == 1.0
    assert clip.clipped(8.0) * 8.0 == 2.0
    assert SiteRules().clipped(1e30) == 1.0
    assert SiteRules(maximal_norm=2.0).clipped(2.0) == 1.0
    with pytest.raises(SiteRefusal, match="norm 2 or less"):
        SiteRules(maximal_norm=2.0).clipped(2.0001)
    for absurd in (math.inf, math.nan):
        with pytest.raises(SiteRefusal):
            clip.clipped(absurd)


def test_evaluations_are_told_from_the_fewest_records_on() -> None:
    rules = SiteRules(fewest_records_evaluated=20)
    assert [rules.may_tell(records) for records in (19, 20)] == [False, True]
    assert SiteRules().may_tell(0)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"minimum_site": 3}, "minimum_site is not a rule.*Did you mean minimum_sites"),
        ({"minimum_records": 0}, "minimum_records must be a whole number from 1 on, got 0"),
        ({"minimum_sites": True}, "minimum_sites must be a whole number"),
        ({"largest_updates": 2.5}, "largest_updates must be a whole number"),
        ({"maximal_norm": -1.0}, "maximal_norm must be a positive number"),
        ({"maximal_norm": math.nan}, "maximal_norm must be a positive number"),
        ({"maximal_norm": 1.0, "beyond_norm": "cut"}, 'beyond_norm must be "refuse" or "clip"'),
        ({"experiments": "sha256:12"}, "experiments must be a list of hashes"),
        ({"experiments": ["sha256:12"]}, "experiments must be a list of hashes"),
    ],
)
def test_what_is_no_rule_is_refused_with_its_name(table: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        SiteRules.of(table)
