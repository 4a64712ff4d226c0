"""Standings: the methods of all figures ranked by F at xbar, within budgets that are the same for all of them."""

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from feddr.history import History
from feddr.reproduce.bands import AXES, at, late
from feddr.reproduce.figure import Figure, PanelRow
from feddr.reproduce.formatting import markdown
from feddr.reproduce.plan import Plan, complete

EQUAL = {"round": "rounds", "megabytes": "bytes", "time": "time"}
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


@dataclass(frozen=True)
class BudgetRanking:
    """The methods of a row of panels within one budget.

    Parameters
    ----------
    figure, title, budget
        Where.
    scores
        For each line F with each seed; NaN where it did not get as far, infinite where it diverged.
    late
        The same with the mean of F over the last tenth of the budget.
    """

    figure: str
    title: str
    budget: str
    scores: Mapping[str, Sequence[float]]
    late: Mapping[str, Sequence[float]]

    @property
    def draws(self) -> int:
        """The number of seeds that all lines have."""
        return len(next(iter(self.scores.values())))

    @property
    def means(self) -> dict[str, float]:
        """F of each line."""
        return _means(self.scores)

    @property
    def ranks(self) -> dict[str, int]:
        """1 for the least F, of those that are ranked."""
        return _ranks(self.means)

    @property
    def late_ranks(self) -> dict[str, int]:
        """The same by the means over the last tenth."""
        return _ranks(_means(self.late))


def _means(scores: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {label: sum(values) / len(values) for label, values in scores.items()}


def _ranks(means: Mapping[str, float]) -> dict[str, int]:
    known = {label: mean for label, mean in means.items() if not math.isnan(mean)}
    return {label: 1 + sum(other < mean for other in known.values()) for label, mean in known.items()}


def standings(figure: Figure, rows: Sequence[PanelRow], plan: Plan) -> list[BudgetRanking]:
    """Return the standings of a figure, from the seeds that all lines of a row have; none for rows without any."""
    rankings = []
    for row in rows if figure.budgets else ():
        runs = plan.found(row)
        seeds = complete(row, runs)
        if not seeds:
            continue
        lines = {
            label: [None if (run := runs[label, seed]).status == "diverged" else run.history for seed in seeds]
            for label in row.lines
        }
        rankings += [_standing(figure.name, row.title, budget, lines) for budget in figure.budgets]
    return rankings


def _standing(figure: str, title: str, budget: str, lines: Mapping[str, Sequence[History | None]]) -> BudgetRanking:
    ends = [AXES[budget](history.last) for histories in lines.values() for history in histories if history is not None]
    most = max(ends, default=0.0) if budget == "round" else min(ends, default=0.0) * (1 + SLACK)
    pairs = {label: [_score(history, budget, most) for history in histories] for label, histories in lines.items()}
    ends_of, late_of = ({label: [pair[k] for pair in found] for label, found in pairs.items()} for k in (0, 1))
    return BudgetRanking(figure, title, budget, ends_of, late_of)


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
    with open(folder / "summary.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["figure", "set", "equal", "draws", "line", "F", "rank"])
        for one in rankings:
            for label, mean in one.means.items():
                cells = [one.figure, one.title, EQUAL[one.budget], one.draws, label]
                writer.writerow([*cells, f"{mean:.6g}", one.ranks.get(label, "")])
    return text


def describe(rankings: Sequence[BudgetRanking]) -> str:
    """Return the standings as Markdown: a table for each set of lines, and where the subjects are not first."""
    if not rankings:
        return "No figure is complete with one seed yet.\n"
    groups: dict[tuple[str, ...], list[BudgetRanking]] = {}
    for one in rankings:
        groups.setdefault(tuple(one.scores), []).append(one)
    parts = [FOREWORD + "\n"]
    for lines, group in groups.items():
        parts.append(_table(lines, group))
        parts += [_not_first(label, group) for label in SUBJECTS if label in lines]
    return "\n".join(parts)


def _table(lines: Sequence[str], group: Sequence[BudgetRanking]) -> str:
    table = [["F at xbar (rank)", "equal", "draws", *lines]]
    table += [[one.title, EQUAL[one.budget], str(one.draws), *(_cell(one, label) for label in lines)] for one in group]
    if len(group) > 1:
        table.append(["mean rank", "", "", *(_mean_rank(group, label) for label in lines)])
    return markdown(table)


def _cell(one: BudgetRanking, label: str) -> str:
    mean, rank = one.means[label], one.ranks.get(label)
    if rank is None:
        return "-"
    text = f"{mean:.3g} ({rank})" if math.isfinite(mean) else f"diverged ({rank})"
    return f"**{text}**" if rank == 1 else text


def _mean_rank(group: Sequence[BudgetRanking], label: str) -> str:
    ranks = [one.ranks[label] for one in group if label in one.ranks]
    return f"{sum(ranks) / len(ranks):.1f}" if ranks else "-"


def _not_first(label: str, group: Sequence[BudgetRanking]) -> str:
    """Say where a line is first, and plainly where it is not."""
    behind = [one for one in group if one.ranks.get(label) != 1]
    said = [f"{label} is first in {len(group) - len(behind)} of {len(group)} rows."]
    if behind:
        said[0] += " It is not first here:\n"
    said += [f"- {line}" for one in behind for line in _behind(label, one)]
    late_first = sum(one.late_ranks.get(label) == 1 for one in group)
    changed = [one for one in group if (one.ranks.get(label) == 1) != (one.late_ranks.get(label) == 1)]
    others = "; it differs in " + ", ".join(_where(one) for one in changed) if changed else ", the same ones"
    said.append("\n" + LATE.format(label=label, first=late_first, all=len(group), others=others))
    return "\n".join(said) + "\n"


def _where(one: BudgetRanking) -> str:
    return f"{one.title} (equal {EQUAL[one.budget]})"


def _behind(label: str, one: BudgetRanking) -> Iterator[str]:
    where = f"{one.title}, equal {EQUAL[one.budget]}"
    if label not in one.ranks:
        yield f"{where}: not ranked."
        return
    ahead = sorted((mean, other) for other, mean in one.means.items() if one.ranks.get(other, 10**9) < one.ranks[label])
    names = ", ".join(f"{other} {mean:.3g}" for mean, other in ahead)
    mine = one.scores[label]
    # A draw counts for a line that is ahead of all others in it.
    others = [values for other, values in one.scores.items() if other != label]
    won = sum(all(not values[k] < mine[k] for values in others) for k in range(one.draws))
    place = f"{one.ranks[label]} of {len(one.ranks)} with {one.means[label]:.3g}"
    yield f"{where}: {place}, behind {names}; first in {won} of {one.draws} draws."
