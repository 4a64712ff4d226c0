"""``feddr theory``: the numbers of feddr.theory under the names of the flags, refusals with ranges, and the picture."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imread
from typer.testing import CliRunner

import feddr
from feddr import theory
from feddr.commands import main
from feddr.plots.theory import boundaries, region
from feddr.theory import asynchronous, synchronous
from feddr.theory.choice import choose, total
from feddr.theory.tuning import recommend_for
from tests.small_experiments import toml

SETTING = ("--L", "2", "--n", "30", "--participation", "10", "--eps", "1e-2")
FLAGS = ("L", "n", "participation", "eps", "alpha", "eta", "gamma4", "tau", "T", "gap", "M")
LOGISTIC = toml(
    'name = "FedDR"\neta = 10.0\nalpha = 1.0',
    rounds=1,
    clients=4,
    more="",
    tables='[sampling]\nname = "Uniform"\nm = 3',
)


def ask(*arguments: str) -> Result:
    return CliRunner().invoke(main.app, ["theory", *arguments])


def answer(*arguments: str) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    result = ask(*arguments, "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    found = json.loads(result.stdout, parse_constant=refuse)
    assert isinstance(found, dict)
    assert {*FLAGS, "p_hat", "alpha_max", "eta_max", "K", "bound", "reasons"} <= set(found)
    return found


def test_json_has_the_recommended_pair_and_its_constants() -> None:
    found = answer(*SETTING)
    best = recommend_for(2.0, 30, 10 / 30, exact=True)
    assert isinstance(best.constants, synchronous.Constants)
    assert (found["alpha"], found["eta"], found["p_hat"]) == (best.alpha, best.eta, 10 / 30)
    for name in ("descent", "beta", "rho1", "rho2", "C1", "C2", "C3"):
        assert found[name] == getattr(best.constants, name)
    assert found["K"] == best.constants.rounds(1e-2, 1.0)
    assert found["bound"] == best.constants.bound(found["K"], 1.0) <= 1e-4
    assert found["alpha_max"] == synchronous.alpha_max()
    assert found["eta_max"] == synchronous.eta_max(best.alpha, 2.0)
    assert [found[name] for name in ("tau", "T", "rho", "D", "C_hat")] == [None] * 5
    assert set(best.reasons) <= set(found["reasons"])


def test_corollary() -> None:
    found = answer("--L", "1", "--n", "30", "--participation", "1", "--alpha", "1", "--eta", str(1 / 3))
    assert found["C1"] == pytest.approx(160 * 30 / 3, rel=1e-14)
    assert found["beta"] == pytest.approx(3 / (5 * 30), rel=1e-14)
    assert found["eta_max"] == 0.5


def test_json_of_delays() -> None:
    found = answer(*SETTING, "--tau", "12", "--gap", "3")
    best = recommend_for(2.0, 30, 10 / 30, gap=3.0, tau=12, T=29)
    assert (found["alpha"], found["eta"], found["tau"], found["T"]) == (best.alpha, best.eta, 12, 29)
    for name in ("rho", "D", "C_hat"):
        assert found[name] == getattr(best.constants, name)
    assert found["alpha_max"] == asynchronous.alpha_max(30, 12)
    assert found["eta_max"] == asynchronous.eta_max(best.alpha, 2.0, 30, 12)
    assert found["K"] == math.floor(3 * found["C_hat"] / 1e-4)
    assert [found[name] for name in ("gamma4", "beta", "rho1", "rho2", "C1", "C2", "C3")] == [None] * 7


def test_json_of_errors() -> None:
    found = answer(*SETTING, "--M", "0.1", "--alpha", "1", "--eta", "0.1")
    c = synchronous.constants(2.0, 10 / 30, 1.0, 0.1, M=0.1)
    assert [found[name] for name in ("C1", "C2", "C3", "gamma4")] == [c.C1, c.C2, c.C3, c.gammas.gamma4]
    assert found["K"] == c.rounds(1e-2, 1.0, 0.1)


@pytest.mark.parametrize("M", ["0", "0.1"])
def test_gamma4_narrows_the_ranges(M: str) -> None:
    found = answer(*SETTING, "--gamma4", "0.25", "--M", M)
    assert found["gamma4"] == 0.25
    assert found["alpha_max"] == 1.0
    assert found["eta_max"] == synchronous.eta_max(found["alpha"], 2.0, 0.25)
    assert found["descent"] == synchronous.descent(found["alpha"], found["eta"], 2.0, 0.25) > 0


@given(
    st.floats(0.05, 0.95),
    st.floats(0.05, 0.95),
    st.sampled_from(
        [{}, {"M": 0.5}, {"gamma4": 0.1}, {"M": 0.5, "gamma4": 0.1}, {"tau": 0, "T": 9}, {"tau": 9, "T": 9}]
    ),
)
@settings(deadline=None, max_examples=12)
def test_what_is_left_open_is_chosen_best(s: float, t: float, fixed: dict[str, Any]) -> None:
    def bound(**pair: Any) -> float:
        found = choose(3.0, 10, 0.2, gap=2.0, **fixed, **pair)
        assert all(getattr(found, name) == value for name, value in pair.items())
        return total(found.constants, 2.0, fixed.get("M", 0.0))

    if "tau" in fixed:
        alpha = s * asynchronous.alpha_max(10, fixed["tau"])
        eta = t * asynchronous.eta_max(alpha, 3.0, 10, fixed["tau"])
    else:
        gamma4 = fixed.get("gamma4", 0.0)
        alpha = s * synchronous.alpha_max(gamma4)
        eta = t * synchronous.eta_max(alpha, 3.0, gamma4)
    for_alpha, for_eta = bound(alpha=alpha), bound(eta=eta)
    assert bound() <= min(for_alpha, for_eta) * (1 + 1e-6)
    assert max(for_alpha, for_eta) <= bound(alpha=alpha, eta=eta) * (1 + 1e-6)


REFUSED = [
    (["--alpha", "3"], "alpha must lie in (0, 2) for gamma4 = 0, got 3.0; "),
    (["--alpha", "0"], "alpha must lie in (0, 2) for gamma4 = 0, got 0.0; "),
    (["--alpha", "1.5", "--gamma4", "0.25"], "alpha must lie in (0, 1) for gamma4 = 0.25, got 1.5; "),
    (["--alpha", "1", "--eta", "0.25"], "eta must lie in (0, 0.25) for alpha = 1, L = 2, gamma4 = 0, got 0.25; "),
    (["--alpha", "1", "--eta", "-1"], "eta must lie in (0, 0.25) for alpha = 1, L = 2, gamma4 = 0, got -1.0; "),
    (["--eta", "0"], "eta must lie in (0, 0.5) for L = 2, whatever alpha is, got 0.0; "),
    (["--eta", "0.5"], "eta must lie in (0, 0.5) for L = 2, whatever alpha is, got 0.5; "),
    (["--alpha", "1", "--tau", "3"], "alpha must lie in (0, 1) for n = 30, tau = 3, got 1.0; "),
    (["--tau", "-1"], "tau must be a whole number >= 0, got -1."),
    (["--tau", "3", "--T", "-1"], "T must be a whole number >= 0, got -1."),
    (["--tau", "3", "--T", "0"], "p_hat must lie in (0, 0.0333333] for n = 30, T = 0, got 0.333"),
    (["--T", "3"], "T is for asyncFedDR, got T = 3 without tau; "),
    (["--tau", "3", "--M", "1"], "Theorem 4.1 is for an exact prox, got M="),
    (["--tau", "3", "--gamma4", "1"], "Theorem 4.1 is for an exact prox, got gamma4 = 1.0 "),
    (["--M", "1", "--gamma4", "0"], "gamma4 must lie in (0, inf) for a prox with errors, got 0 "),
    (["--gamma4", "-1"], "gamma4 must lie in [0, inf), got -1.0; "),
    (["--M", "-1"], "M must lie in [0, inf), got -1.0; "),
    (["--gap", "0"], "gap must lie in (0, inf), got 0.0; "),
    (["--participation", "31"], "participation must lie in 1..30, got 31; "),
    (["--participation", "0"], "participation must lie in 1..30, got 0; "),
    (["--n", "0"], "n must be a whole number >= 1, got 0."),
    (["--L", "0"], "L must lie in (0, inf), got 0.0; "),
    (["--L", "nan"], "L must lie in (0, inf), got nan; "),
    (["--eps", "0"], "eps must lie in (0, inf), got 0.0; "),
    (["--eps", "1e-200"], "These numbers lead beyond the largest or the least float, got L = 2.0, "),
    (["--eta", "1e-320"], "These numbers lead beyond the largest or the least float, got L = 2.0, "),
    (["--gap", "1e308"], "These numbers lead beyond the largest or the least float, got L = 2.0, "),
    (["--out", "theory"], "--out must end in .png, .pdf, .svg, got theory."),
    (["--out", "nowhere/theory.png"], "nowhere/theory.png: cannot be written, "),
    (["--set", "seed=1"], "--set is for a CONFIG, got seed=1 without one; "),
    (["any.toml"], "n comes from any.toml, got --n 30; "),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED, ids=[" ".join(arguments) for arguments, _ in REFUSED])
def test_refusals_have_the_admissible_range(arguments: list[str], message: str) -> None:
    refused(ask(*SETTING, *arguments), message)


def test_what_is_missing_is_named() -> None:
    refused(ask("--L", "1"), "theory needs --L and --n, or a CONFIG that has them, got L = 1.0, n = None.")
    refused(ask("missing.toml"), "missing.toml: no such file.")


def refused(result: Result, message: str) -> None:
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"feddr: {message}")


def test_the_table_says_what_was_given_and_what_was_chosen() -> None:
    result = ask(*SETTING, "--alpha", "0.5", "--tau", "12")
    assert result.exit_code == 0, result.output
    rows = {line[:36].strip(): line[36:].split() for line in result.stdout.splitlines()[1:]}
    assert rows[""] == ["FedDR", "asyncFedDR"]
    assert rows["given alpha"] == ["0.5", "0.5"]
    assert rows["admissible alpha"] == ["(0,", "2)", "(0,", f"{asynchronous.alpha_max(30, 12):.4g})"]
    found = answer(*SETTING, "--alpha", "0.5", "--tau", "12")
    assert rows["recommended eta"][1] == f"{found['eta']:.4g}"
    assert rows["K for eps = 0.01"][2:] == [f"{found['K']:,}", "updates"]
    assert rows["rho"][0] == "-"
    for reason in found["reasons"]:
        assert f"- {reason}" in result.stdout
    assert "--out theory.png" in result.stdout


def test_the_picture(tmp_path: Path) -> None:
    result = ask(*SETTING, "--tau", "12", "--out", str(tmp_path / "theory.png"))
    assert result.exit_code == 0, result.output
    assert "theory.png." in result.stdout
    picture = imread(tmp_path / "theory.png")
    assert picture.shape[1] > 1000
    assert picture.std() > 0.05  # not blank


@pytest.mark.parametrize(("n", "taus"), [(30, [12, 15, 30, 60]), (1, [1, 2, 12]), (1000, [500, 1000, 2000])])
def test_the_picture_shows_boundaries_that_differ(n: int, taus: list[int]) -> None:
    curves = boundaries(5.0, n, 12, gamma4=0.25)
    free = f"asyncFedDR, tau <= {math.isqrt(n // 2)}"
    assert [c.label for c in curves] == ["FedDR, gamma4 = 0.25", free, *(f"asyncFedDR, tau = {tau}" for tau in taus)]
    assert len({float(curve.alpha[-1]) for curve in curves[1:]}) == len(curves) - 1
    axes = region(curves, (0.5, 0.1), L=5.0).axes[0]
    drawn = [np.asarray(line.get_xydata()) for line in axes.lines]
    for curve, line in zip(curves, drawn[:-1], strict=True):
        assert line[0].tolist() == [0.0, 1.0]  # eta = 1/L at alpha = 0
        np.testing.assert_array_equal(line[:, 1], 5.0 * curve.eta)
    assert drawn[-1].tolist() == [[0.5, 0.5]]
    looks = {(line.get_color(), line.get_linestyle()) for line in axes.lines[:-1]}
    assert len(looks) == len(curves)


def test_a_config_has_the_numbers(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(LOGISTIC)
    found = answer(str(path), "--set", "seed=1")
    data = feddr.datasets.synthetic(1, 1, num_clients=4, seed=1)
    problem = feddr.Problem.classification(feddr.models.softmax(60, 10), data)
    known = theory.smoothness(problem)
    assert (found["L"], found["L_exact"], found["n"], found["participation"]) == (known.L, known.exact, 4, 3)
    assert found["p_hat"] == 0.75
    assert found["gap"] == problem.F(problem.init)
    best = recommend_for(known.L, 4, 0.75, exact=True, gap=found["gap"])
    assert (found["alpha"], found["eta"]) == (best.alpha, best.eta)
    text = " ".join(found["reasons"])
    assert "gap = F(x^0) - 0 = 2.303, " in text
    assert f"not admissible: eta must stay below {synchronous.eta_max(1.0, known.L):.4g} for this alpha" in text
    assert "SGD certifies neither" in text

    given_numbers = answer(str(path), "--L", "2", "--gap", "0.5", "--tau", "3")
    assert (given_numbers["L"], given_numbers["L_exact"], given_numbers["gap"]) == (2.0, None, 0.5)
    assert given_numbers["T"] == 3
    refused(ask(str(path), "--participation", "2"), f"participation comes from {path}, got --participation 2; ")
    refused(ask(str(path), "--tau", "3", "--set", "weights=samples"), "Theorem 4.1 is for equal weights, got samples")
    refused(ask(str(path), "--L", "0"), "L must lie in (0, inf), got 0.0; ")


def test_an_estimate_is_called_one(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(LOGISTIC)
    network = ('model={name="mlp", sizes=[60, 3, 10]}', "data.num_clients=2", "sampling.m=2")
    sets = [word for one in network for word in ("--set", one)]
    result = ask(str(path), *sets)
    assert result.exit_code == 0, result.output
    assert "(estimate), n = 2, participation = 2 (p_hat = 1), " in result.stdout.splitlines()[0]
    assert "is an estimate" in result.stdout


def test_numbers_do_not_wait_for_jax() -> None:
    code = """
import sys
from feddr.commands import main
for arguments in (["--json", "--tau", "3"], ["--eta", "1"], []):
    try:
        main.app(["theory", "--L", "1", "--n", "30", *arguments])
    except SystemExit as end:
        print(end.code, file=sys.stderr)
assert not {"jax", "matplotlib", "pandas"} & set(sys.modules)
"""
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    first, refusal, second, third = result.stderr.splitlines()
    assert (first, second, third) == ("0", "2", "0")
    assert refusal.startswith("feddr: eta must lie in (0, 1)")
    assert "K for eps = 0.01" in result.stdout
