"""The answer of ``feddr theory``: as names and values, as a table, as a figure."""

import math
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from feddr.commands.console import results
from feddr.storage import atomic

if TYPE_CHECKING:
    from feddr.theory import Recommendation


@dataclass(frozen=True)
class Setting:
    """What the theory is asked about.

    Parameters
    ----------
    L, n, p_hat, gap
        As in ``feddr.theory.recommend_for``.
    participation
        Clients a round, on average.
    exact
        Whether L holds everywhere or is an estimate; None where it was given.
    notes
        Where the numbers come from.
    """

    L: float
    n: int
    participation: float
    p_hat: float
    gap: float
    exact: bool | None = None
    notes: tuple[str, ...] = ()


def answer(setting: Setting, recommendation: "Recommendation", eps: float, M: float) -> dict[str, Any]:
    """Return the answer, by the names of the flags and of the paper; None where a name does not apply.

    Raises
    ------
    ArithmeticError
        Where a number is too large for a float.
    """
    from feddr.theory import AsyncConstants, RelativeConstants, rate
    from feddr.theory.choice import limits, total

    c, factor = recommendation.constants, total(recommendation.constants, setting.gap, M)
    if not math.isfinite(factor):
        raise OverflowError
    delayed, K = isinstance(c, AsyncConstants), rate.rounds(factor, eps)
    assert not isinstance(c, RelativeConstants)  # no flag asks for them
    alpha_max, eta_max = limits(c)
    result = {
        "algorithm": "asyncFedDR" if delayed else "FedDR",
        "L": setting.L,
        "L_exact": setting.exact,
        "n": setting.n,
        "participation": setting.participation,
        "p_hat": setting.p_hat,
        "eps": eps,
        "gap": setting.gap,
        "M": M,
        "tau": getattr(c, "tau", None),
        "T": getattr(c, "T", None),
        "alpha": recommendation.alpha,
        "alpha_max": alpha_max,
        "eta": recommendation.eta,
        "eta_max": eta_max,
        **{name: None if delayed else getattr(recommendation.gammas, name) for name in GAMMAS},
        **{name: getattr(c, name, None) for name in CONSTANTS},
        "total": factor,
        "K": K,
        "bound": rate.average(factor, K),
        "reasons": [*setting.notes, *recommendation.reasons, START],
    }
    if not all(math.isfinite(value) for value in result.values() if isinstance(value, float)):
        raise OverflowError
    return result


GAMMAS = ("gamma1", "gamma2", "gamma4")
CONSTANTS = ("descent", "beta", "rho1", "rho2", "C1", "C2", "C3", "rho", "D", "C_hat")

START = "The gap depends on the start of the clients, and the lazy start has errors of its own: see feddr.theory."


def show(answers: Sequence[Mapping[str, Any]], fixed: Collection[str], picture: Path | None) -> None:
    """Print a table with a column for each algorithm, and the reasons of the last one."""
    last = answers[-1]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("")
    for one in answers:
        table.add_column(one["algorithm"], justify="right", no_wrap=True)
    table.add_row("admissible alpha", *(f"(0, {one['alpha_max']:.4g})" for one in answers))
    table.add_row("admissible eta for the alpha below", *(f"(0, {one['eta_max']:.4g})" for one in answers))
    for name in ("alpha", "eta"):
        whose = "given" if name in fixed else "recommended"
        table.add_row(f"{whose} {name}", *(f"{one[name]:.4g}" for one in answers), style="bold")
    for name in (*GAMMAS, *CONSTANTS):
        if any(one[name] for one in answers):  # the constants of the errors are all zero for an exact prox
            table.add_row(name, *("-" if one[name] is None else f"{one[name]:.4g}" for one in answers))
    table.add_row("bound on the average E ||G_eta||^2", *(f"{one['total']:.4g} / (K + 1)" for one in answers))
    table.add_row(
        f"K for eps = {last['eps']:.4g}", *(f"{_count(one['K'])} {_unit(one)}" for one in answers), style="bold"
    )
    console = results()

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=not sys.stdout.isatty())

    say(_title(last))
    console.print(table)
    for reason in last["reasons"]:
        say(f"- {reason}")
    say("A picture of the region: --out theory.png" if picture is None else f"Saved {picture}.")


def draw(answer: Mapping[str, Any], fixed: Collection[str], path: Path) -> None:
    """Write the region, with the pair marked, to a file in the format of its name."""
    from feddr import plots
    from feddr.plots import theory

    L, alpha, eta = answer["L"], answer["alpha"], answer["eta"]
    curves = theory.boundaries(L, answer["n"], answer["tau"], gamma4=answer["gamma4"] or 0.0)
    whose = "given" if {"alpha", "eta"} <= set(fixed) else "recommended"
    label = f"{whose} for {answer['algorithm']}:\nalpha = {alpha:.3g}\neta = {L * eta:.3g} / L"
    title = f"Admissible step sizes, n = {answer['n']}"
    with atomic.refusing(path):
        plots.save(theory.region(curves, (alpha, eta), L=L, label=label, title=title), path)


def _title(answer: Mapping[str, Any]) -> str:
    words = [
        f"L = {answer['L']:.4g}" + (" (estimate)" if answer["L_exact"] is False else ""),
        f"n = {answer['n']}",
        f"participation = {answer['participation']:.4g} (p_hat = {answer['p_hat']:.4g})",
        f"gap = {answer['gap']:.4g}",
        "exact prox" if answer["M"] == 0 else f"M = {answer['M']:.4g}",
        *(f"{name} = {answer[name]}" for name in ("tau", "T") if answer[name] is not None),
    ]
    return ", ".join(words)


def _unit(answer: Mapping[str, Any]) -> str:
    return "rounds" if answer["tau"] is None else "updates"


def _count(K: int) -> str:
    return f"{K:,}" if K < 10**12 else f"{K:.4g}"
