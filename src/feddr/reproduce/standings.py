"""Standings: the methods of all figures ranked by F at xbar, within budgets that are the same for all of them."""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from feddr.history import History
from feddr.reproduce.bands import AXES, at, late
from feddr.reproduce.figure import Figure, PanelRow
from feddr.reproduce.formatting import markdown
from feddr.reproduce.plan import Plan, complete

EQUAL = {"round": "rounds", "megabytes": "bytes", "time": "time"}
COLUMNS = ("figure", "set", "equal", "draws", "line", "F", "rank", "late_rank", "won")
"""The columns of ``summary.csv``."""

SUBJECTS = ("FedDR()", "AsyncFedDR()")
"""The lines of which it is said where they are not first."""

SLACK = 0.02
"""Budgets that differ by so little count as equal: a third of 200 rounds is 66, with everybody in each."""

FOREWORD = (
    "F at xbar, means over the draws, and in brackets the rank; the least F is first. Equal rounds: as many for all; a "
    "method that has fewer is not ranked. Equal bytes: each at the bytes of the one that sent least in all, to within "
    "2 %. Equal time: the same, of virtual time. Draws: how many are there for all methods; only these count."
)
LATE = (
    "F of some methods swings from one evaluation to the next. By its mean over the last tenth of the budget, instead "
    "of its value at the end, {label} is first in {first} of {all} rows{others}."
)


class Standing(NamedTuple):
    """How one method did within a budget.

    Parameters
    ----------
    F
        The mean over the draws; infinite where a run diverged.
    rank
        1 for the least F; 0 for a method that is not ranked, because it has fewer rounds.
    late_rank
        The same by the mean of F over the last tenth of the budget.
    won
        The number of draws in which no other method has a lower F.
    """

    F: float
    rank: int
    late_rank: int
    won: int


@dataclass(frozen=True)
class BudgetRanking:
    """The methods of a row of panels within one budget.

    Parameters
    ----------
    figure, title, budget
        Where; the budget is a value of ``EQUAL``.
    draws
        The number of seeds that all methods have.
    methods
        The standing of each method by its label.
    """

    figure: str
    title: str
    budget: str
    draws: int
    methods: Mapping[str, Standing]


def standings(figure: Figure, rows: Sequence[PanelRow], plan: Plan) -> list[BudgetRanking]:
    """Return the standings of a figure, from the seeds that all lines of a row have; none for rows without any."""
    rankings = []
    for row in rows if figure.budgets else ():
        runs = plan.finished(row)
        seeds = complete(row, runs)
        if not seeds:
            continue
        lines = {
            label: [None if (run := runs[label, seed]).status == "diverged" else run.history for seed in seeds]
            for label in row.lines
        }
        rankings += [_ranking(figure.name, row.title, budget, lines) for budget in figure.budgets]
    return rankings


def _ranking(figure: str, title: str, budget: str, lines: Mapping[str, Sequence[History | None]]) -> BudgetRanking:
    ends = [AXES[budget](history.last) for histories in lines.values() for history in histories if history is not None]
    most = max(ends, default=0.0) if budget == "round" else min(ends, default=0.0) * (1 + SLACK)
    scores = {label: [_score(history, budget, most) for history in histories] for label, histories in lines.items()}
    last = {label: [end for end, _ in pairs] for label, pairs in scores.items()}
    means = {label: fmean(values) for label, values in last.items()}
    ranks, late_ranks = _ranks(means), _ranks({label: fmean(mean for _, mean in scores[label]) for label in scores})
    return BudgetRanking(
        figure,
        title,
        EQUAL[budget],
        len(next(iter(lines.values()))),
        {label: Standing(means[label], ranks[label], late_ranks[label], _won(label, last)) for label in lines},
    )


def _ranks(means: Mapping[str, float]) -> dict[str, int]:
    return {
        label: 0 if math.isnan(mean) else 1 + sum(other < mean for other in means.values())
        for label, mean in means.items()
    }


def _won(label: str, scores: Mapping[str, Sequence[float]]) -> int:
    draws = zip(scores[label], *scores.values(), strict=True)
    return sum(all(not other < own for other in others) for own, *others in draws)


def _score(history: History | None, budget: str, most: float) -> tuple[float, float]:
    """Return F at the end of the budget, and its mean over the last tenth of it."""
    if history is None:
        return math.inf, math.inf
    if budget == "round" and history.last.round < most:
        return math.nan, math.nan
    end, mean = at([history], "F", budget, most), late(history, "F", budget, most)
    end = math.inf if math.isnan(end) else end
    # Evaluations may be further apart than a tenth of the budget.
    return end, end if math.isnan(mean) else mean


def save(folder: Path, rankings: Sequence[BudgetRanking]) -> str:
    """Write ``summary.md`` and ``summary.csv``, and return the text."""
    text = describe(rankings)
    (folder / "summary.md").write_text(text, encoding="utf-8")
    write(folder / "summary.csv", rankings)
    return text


def write(path: Path, rankings: Sequence[BudgetRanking]) -> None:
    """Write standings as CSV: one row for each figure, set, budget and method."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for one in rankings:
            for label, (F, *counts) in one.methods.items():
                writer.writerow([one.figure, one.title, one.budget, one.draws, label, f"{F:.6g}", *counts])


def read(path: Path) -> list[BudgetRanking]:
    """Read what ``write`` has written; a count that is left empty is 0."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    rankings = []
    for (figure, title, budget, draws), group in groupby(rows, key=itemgetter(*COLUMNS[:4])):
        methods = {
            row["line"]: Standing(float(row["F"]), *(int(row[name] or 0) for name in COLUMNS[6:])) for row in group
        }
        rankings.append(BudgetRanking(figure, title, budget, int(draws), methods))
    return rankings


def describe(rankings: Sequence[BudgetRanking]) -> str:
    """Return the standings as Markdown: a table for each set of lines, and where the subjects are not first."""
    if not rankings:
        return "No figure is complete with one seed yet.\n"
    groups: dict[tuple[str, ...], list[BudgetRanking]] = {}
    for one in rankings:
        groups.setdefault(tuple(one.methods), []).append(one)
    parts = [FOREWORD + "\n"]
    for lines, group in groups.items():
        parts.append(_table(lines, group))
        parts += [_not_first(label, group) for label in SUBJECTS if label in lines]
    return "\n".join(parts)


def _table(lines: Sequence[str], group: Sequence[BudgetRanking]) -> str:
    table = [["F at xbar (rank)", "equal", "draws", *lines]]
    table += [[one.title, one.budget, str(one.draws), *(_cell(one.methods[label]) for label in lines)] for one in group]
    if len(group) > 1:
        table.append(["mean rank", "", "", *(_mean_rank(group, label) for label in lines)])
    return markdown(table)


def _cell(method: Standing) -> str:
    if not method.rank:
        return "-"
    text = f"{method.F:.3g} ({method.rank})" if math.isfinite(method.F) else f"diverged ({method.rank})"
    return f"**{text}**" if method.rank == 1 else text


def _mean_rank(group: Sequence[BudgetRanking], label: str) -> str:
    ranks = [one.methods[label].rank for one in group if one.methods[label].rank]
    return f"{fmean(ranks):.1f}" if ranks else "-"


def _not_first(label: str, group: Sequence[BudgetRanking]) -> str:
    """Say where a line is first, and plainly where it is not."""
    own = {_where(one): one.methods[label] for one in group}
    behind = [one for one in group if one.methods[label].rank != 1]
    said = [f"{label} is first in {len(group) - len(behind)} of {len(group)} rows."]
    if behind:
        said[0] += " It is not first here:\n"
    said += [f"- {_behind(label, one)}" for one in behind]
    late_first = sum(standing.late_rank == 1 for standing in own.values())
    changed = [where for where, standing in own.items() if (standing.rank == 1) != (standing.late_rank == 1)]
    others = "; it differs in " + ", ".join(changed) if changed else ", the same ones"
    said.append("\n" + LATE.format(label=label, first=late_first, all=len(group), others=others))
    return "\n".join(said) + "\n"


def _where(one: BudgetRanking) -> str:
    return f"{one.title} (equal {one.budget})"


def _behind(label: str, one: BudgetRanking) -> str:
    where, own = f"{one.title}, equal {one.budget}", one.methods[label]
    if not own.rank:
        return f"{where}: not ranked."
    ahead = sorted((other.F, name) for name, other in one.methods.items() if 0 < other.rank < own.rank)
    names = ", ".join(f"{name} {F:.3g}" for F, name in ahead)
    ranked = sum(other.rank > 0 for other in one.methods.values())
    return f"{where}: {own.rank} of {ranked} with {own.F:.3g}, behind {names}; first in {own.won} of {one.draws} draws."
