"""What sites agree on from their statistics is what they would have computed from their rows together."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feddr import FederatedData
from feddr.preparation import (
    Moments,
    Preparation,
    SiteStatistics,
    common_medians,
    common_preparation,
    count_at_most,
    site_statistics,
)

NUMERIC, CATEGORICAL = ["age", "dose"], ["ward"]


def sites(seed: int = 0, missing: bool = True) -> list[pd.DataFrame]:
    rng = np.random.default_rng(seed)
    found = []
    for i, rows in enumerate((5, 40, 17, 1)):
        table = pd.DataFrame(
            {
                "hospital": f"h{i}",
                "age": rng.normal(1e6 + 10 * i, 3, rows),
                "dose": rng.exponential(size=rows) * 10.0**i,
                "ward": rng.choice(["a", "b", "c"][: i + 1], rows).astype(object),
                "ill": rng.choice(["no", "yes"], rows),
            }
        )
        if missing:
            table.loc[rng.random(rows) < 0.3, "dose"] = np.nan
            table.loc[rng.random(rows) < 0.3, "ward"] = None
        found.append(table)
    return found


def agreed(tables: list[pd.DataFrame], missing: Any, **settings: Any) -> Preparation:
    """Let the sites agree, with nothing but JSON between them."""
    told = []
    for table in tables:
        site = site_statistics(table, NUMERIC, CATEGORICAL, "ill", missing=missing)
        told.append(SiteStatistics.from_dict(json.loads(json.dumps(site.to_dict(), allow_nan=False))))
    medians = None
    if missing == "median":
        known = {name: sum(site.numeric[name].known for site in told) for name in NUMERIC}

        def ask(thresholds: Any) -> dict[str, Any]:
            answers = [count_at_most(table, thresholds) for table in tables]
            return {name: np.sum([answer[name] for answer in answers], axis=0) for name in thresholds}

        medians = common_medians(known, ask)
    return common_preparation(told, standardise=True, medians=medians, label="ill", **settings)


@pytest.mark.parametrize("missing", ["median", "refuse"])
@pytest.mark.parametrize("reference", ["none", "first", {"ward": "b"}])
def test_the_common_preparation_is_that_of_the_pooled_rows(missing: Any, reference: Any) -> None:
    tables = sites(missing=missing == "median")
    ours = agreed(tables, missing, reference=reference)
    pooled = FederatedData.from_frame(
        pd.concat(tables, ignore_index=True),
        "hospital",
        "ill",
        categorical=CATEGORICAL,
        missing=missing,
        reference=reference,
        standardise=True,
        test_share=0,
    ).preparation
    assert pooled is not None
    assert ours.columns == pooled.columns
    assert ours.classes == pooled.classes == ("no", "yes")
    np.testing.assert_allclose(ours.mean, pooled.mean, rtol=1e-10)
    np.testing.assert_allclose(ours.scale, pooled.scale, rtol=1e-10)


def test_the_pooled_preparation_is_that_of_numpy() -> None:
    table = pd.concat(sites(missing=False), ignore_index=True)
    found = common_preparation([site_statistics(table, NUMERIC)], standardise=True)
    np.testing.assert_allclose(found.mean, table[NUMERIC].mean(), rtol=1e-12)
    np.testing.assert_allclose(found.scale, table[NUMERIC].std(ddof=0), rtol=1e-10)
    constant = common_preparation([site_statistics({"a": [0.1] * 7, "b": [0.0] * 7}, ["a", "b"])], standardise=True)
    assert constant.scale == (1.0, 1.0)
    assert np.abs(constant.transform(np.array([[0.1, 0.0]]))).max() < 1e-7


@given(st.lists(st.lists(st.floats(-1e30, 1e30), max_size=6), min_size=1, max_size=4).filter(any))
@settings(deadline=None, max_examples=40)
def test_medians_from_counts_are_exact(values: list[list[float]]) -> None:
    questions = []

    def ask(thresholds: Any) -> dict[str, Any]:
        questions.append(len(thresholds["a"]))
        return {"a": np.sum([count_at_most({"a": np.array(v)}, thresholds)["a"] for v in values], axis=0)}

    everything = np.concatenate([np.array(v, float) for v in values])
    assert common_medians({"a": len(everything)}, ask)["a"] == pytest.approx(float(np.median(everything)), rel=1e-15)
    assert questions == [30] * 16


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=12), st.integers(0, 12), st.integers(0, 3))
@settings(deadline=None, max_examples=60)
def test_moments_add_up(values: list[float], cut: int, missing: int) -> None:
    def moments(part: list[float]) -> Moments:
        return site_statistics({"a": np.array(part, float)}, ["a"]).numeric["a"]

    whole = moments(values[:cut]) + moments(values[cut:])
    assert whole.known == len(values)
    assert whole.mean == pytest.approx(np.mean(values), abs=1e-9)
    assert whole.squares == pytest.approx(len(values) * np.var(values), abs=1e-6)
    filled = Moments(whole.known, missing, whole.mean, whole.squares).filled(5.0)
    assert filled.mean == pytest.approx(np.mean([*values, *[5.0] * missing]), abs=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"numeric": {"age": [1, 0, float("nan"), 0.0]}}, "as to_dict writes them"),
        ({"numeric": {"age": [1, 0, 0.0, -1.0]}}, "squares -1.0"),
        ({"numeric": {"age": [-1, 0, 0.0, 1.0]}}, "a count of -1"),
        ({"numeric": {"age": [1, 0, 0.0]}}, "as to_dict writes them"),
        ({"numeric": 3}, "as to_dict writes them"),
        ({"categorical": {"ward": [["a", True]]}}, "a count of True"),
        ({"categorical": {"ward": [[["a"], 1]]}}, "a category of type list"),
        ({"classes": [None]}, "a missing class"),
    ],
)
def test_statistics_of_another_machine_are_checked(change: dict[str, Any], message: str) -> None:
    whole = site_statistics(sites(missing=False)[1], NUMERIC, CATEGORICAL, "ill").to_dict()
    with pytest.raises(ValueError, match=message):
        SiteStatistics.from_dict(whole | change)


def test_sites_that_do_not_fit_are_refused() -> None:
    one, other = site_statistics({"a": [1.0]}, ["a"]), site_statistics({"b": [1.0]}, ["b"])
    with pytest.raises(ValueError, match=r"Sites need the same columns in one order, site 1 has \(\('b',\)"):
        common_preparation([one, other])
    with pytest.raises(ValueError, match="needs the statistics of a site, got none"):
        common_preparation([])
    with pytest.raises(ValueError, match="Column a needs a value"):
        common_medians({"a": 0}, lambda _: {"a": [0]})
    gaps = site_statistics({"a": [1.0, None], "b": ["x", None]}, ["a"], ["b"], missing="median")
    with pytest.raises(ValueError, match='Column a misses 1 values; fill them in, or use missing="median"'):
        common_preparation([gaps])
