"""What things look like in a console and in a notebook: short, facts and pictures, and nobody's samples."""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import feddr
from feddr import plots
from feddr.display import Card, sparkline
from feddr.engines.shared.state import Progress
from feddr.history import History, Row

SECRET = 7654321.0
ALGORITHM = feddr.FedDR(eta=1e-9, alpha=1.0)


@pytest.fixture(scope="module")
def things() -> dict[str, object]:
    """A federation in which every sample is a number that is not to be seen, and what is made of it."""
    clients = [{"x": np.full((50 + i, 3), SECRET + i), "y": np.full(50 + i, SECRET)} for i in range(60)]
    data = feddr.FederatedData.from_clients(clients, clients)
    problem = feddr.Problem.regression(feddr.models.linear(3), data, g=feddr.prox.L1(0.5), weights=np.arange(1.0, 61.0))
    result = feddr.simulate(problem, ALGORITHM, local=feddr.local.SGD(lr=1e-16), rounds=2, evaluate_every=1)
    made = feddr.FederatedData.generated(lambda _: clients[0], np.full(1000, 50), panel=3)
    return {
        "data": data,
        "samples": data.train,
        "generated": made,
        "problem": problem,
        "result": result,
        "history": result.history,
        "predictor": result.predictor,
        "empty": History(),
    }


@pytest.mark.parametrize("name", ["data", "samples", "generated", "problem", "result", "history", "predictor", "empty"])
def test_reprs_are_short_and_hold_no_samples(things: dict[str, object], name: str) -> None:
    text = repr(things[name])
    assert len(text.splitlines()) <= 10
    assert max(map(len, text.splitlines())) <= 130
    assert "765432" not in text
    assert text.startswith(type(things[name]).__name__)


def test_reprs_say_what_there_is(things: dict[str, object]) -> None:
    data, problem, result = (repr(things[name]) for name in ("data", "problem", "result"))
    assert re.search(r"clients +60\n", data)
    assert re.search(r"train +4,770 samples \(\d+ to \d+ a client\), x 3 float64, y one float64\n", data)
    assert re.search(r"test +4,770 samples", data)
    assert re.search(r"g +L1\(strength=0.5\)\n", problem)
    assert re.search(r"rounds +2, 3 evaluations\n", result)
    assert re.search(r"parameters +4 in bias, weight", result)


def test_a_predictor_says_what_it_takes_and_answers() -> None:
    table = pd.DataFrame({"age": [60.0, 50, 70, 40], "ward": list("abab"), "ill": list("ynyn"), "clinic": list("uuvv")})
    data = feddr.FederatedData.from_frame(table, client="clinic", label="ill", categorical=["ward"], test_share=0.0)
    problem = feddr.Problem.classification(feddr.models.linear(3), data)
    text = repr(feddr.simulate(problem, ALGORITHM, local=feddr.local.SGD(lr=1e-16), rounds=0).predictor)
    for fact in ("task +classification", "rows +3", "raw columns +age, ward", "features +age, ward=a, ward=b"):
        assert re.search(f"{fact}\n", text)
    assert re.search(r"classes +n, y\n", text)


def test_the_progress_of_a_large_model_is_one_line() -> None:
    seen: list[Progress] = []
    data = feddr.FederatedData.from_clients([{"x": np.ones((2, 500)), "y": np.zeros(2)}])
    problem = feddr.Problem.regression(feddr.models.linear(500), data)
    feddr.simulate(problem, ALGORITHM, local=feddr.local.SGD(lr=0.1), rounds=1, callback=seen.append)
    assert repr(seen[1]).startswith("Progress(round=1, rounds=1, row=Row(round=1, ")
    assert "weight" not in repr(seen[1])


class Balance(HTMLParser):
    """Elements that are open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", ["data", "problem", "result", "history"])
def test_notebooks_get_a_table_and_a_picture(things: dict[str, object], name: str) -> None:
    shown = things[name]._repr_html_()  # type: ignore[attr-defined]
    assert shown.count("<table>") == 1
    assert "<svg" in shown
    assert "765432" not in shown
    assert not Balance(re.sub(r"<(polyline|circle)[^>]*/>", "", shown)).open


def test_names_are_nobodys_markup() -> None:
    shown = Card("<b>", {"<i>": "<script>"}, {"<u>": [1.0, 2.0]}).html
    assert not re.search("<b>|<i>|<u>|<script>", shown)


def points(values: list[float]) -> list[tuple[float, float]]:
    (found,) = re.findall(r'points="([^"]*)"', sparkline(values))
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in found.split(" "))]


def test_a_small_curve_goes_where_its_numbers_go() -> None:
    (_, first), (_, second), (_, third) = points([3.0, 1.0, 2.0])
    assert second > third > first  # downwards in a picture
    steps = np.diff([y for _, y in points([100.0, 10.0, 1.0])])
    np.testing.assert_allclose(steps[0], steps[1], atol=0.2)  # a logarithmic scale
    assert len(points([float(k) for k in range(5000)])) <= 122
    assert [x for x, _ in points([1.0, np.nan, 2.0])] == [3.0, 177.0]
    assert sparkline([np.nan, 1.0]) == ""


def test_figures_show_themselves_without_pyplot() -> None:
    figure = plots.curves({"FedDR": History([Row(round=0, F=2.0), Row(round=1, F=1.0)])})
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
