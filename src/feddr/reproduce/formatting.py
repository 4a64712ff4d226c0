"""What a figure shows, as sentences and tables that are computed from its numbers."""

import math
from collections.abc import Mapping, Sequence

from feddr.history import History
from feddr.reproduce.bands import at, cost

Lines = Mapping[str, Sequence[History]]
"""For each line its histories, one for each seed."""

BUDGETS = {
    "round": "rounds",
    "megabytes": "MB",
    "uploaded": "MB sent up",
    "local_steps": "local steps",
    "time": "s of virtual time",
}
STEP = 0.05
"""Targets are multiples of it."""


def summary(title: str, lines: Lines, x: str) -> str:
    """Return what a row of panels shows, as Markdown.

    Parameters
    ----------
    x
        The budget that counts for "half of the budget": "round", "megabytes" or "time".
    """
    counted = {label: histories for label, histories in lines.items() if histories}
    seeds = sorted({len(histories) for histories in counted.values()})
    if not counted:
        return f"### {title}\n\nNo seed is complete.\n"
    number = " or ".join(map(str, seeds))
    parts = [f"### {title}\n", f"Means over {number} seed{'' if seeds == [1] else 's'}.\n", _ends(counted)]
    parts += [_leaders(counted, x), _costs(counted, x)]
    return "\n".join(part for part in parts if part)


def target(lines: Lines, metric: str = "train_accuracy") -> float:
    """Return the highest multiple of 5 % that two lines reach with every seed, or one where there is one; 0 if none."""
    tops = [min(_top(history, metric) for history in histories) for histories in lines.values() if histories]
    tops = sorted((top for top in tops if not math.isnan(top)), reverse=True)
    if not tops:
        return 0.0
    return round(math.floor(tops[min(1, len(tops) - 1)] / STEP + 1e-9) * STEP, 10)


def _top(history: History, metric: str) -> float:
    values = [getattr(row, metric) for row in history.rows if row.round > 0]
    return max((value for value in values if math.isfinite(value)), default=math.nan)


def _ends(lines: Lines) -> str:
    """Return the table of the ends."""
    sparse = any(history.last.sparsity > 0.01 for histories in lines.values() for history in histories)
    columns = {
        "train_loss": "train loss",
        "train_accuracy": "train acc.",
        "test_accuracy": "test acc.",
        **({"sparsity": "zeros", "F": "F"} if sparse else {}),
        "personal_train_loss": "own train loss",
        "personal_train_accuracy": "own train acc.",
        "personal_test_accuracy": "own test acc.",
    }
    known = [name for name in columns if any(not math.isnan(_end(h, name)) for h in lines.values())]
    table = [["at the end", *(columns[name] for name in known)]]
    table += [[label, *(_cell(_end(h, name), name) for name in known)] for label, h in lines.items()]
    return markdown(table)


def _end(histories: Sequence[History], metric: str) -> float:
    return sum(float(getattr(history.last, metric)) for history in histories) / len(histories)


def _leaders(lines: Lines, x: str) -> str:
    """Say who is best at a quarter, half and all of the budget that every line has had."""
    whole = min(at_end for histories in lines.values() for at_end in [_budget(histories, x)])
    if not whole > 0:
        return ""
    said = []
    for share in (0.25, 0.5, 1.0):
        budget = float(math.floor(share * whole)) if x == "round" else share * whole
        parts = []
        for prefix, where in (("", "xbar"), ("personal_", "the clients' own models")):
            scores = {label: at(h, f"{prefix}train_accuracy", x, budget) for label, h in lines.items()}
            scores = {label: score for label, score in scores.items() if not math.isnan(score)}
            if scores:
                order = sorted(scores, key=scores.__getitem__, reverse=True)
                shown = ", ".join(f"{label} {100 * scores[label]:.1f} %" for label in order[:3])
                last = f", last {order[-1]} {100 * scores[order[-1]]:.1f} %" if len(order) > 3 else ""
                parts.append(f"at {where}: {shown}{last}")
        if parts:
            said.append(f"- After {budget:.4g} {BUDGETS[x]}, training accuracy {'; '.join(parts)}.")
    return "\n".join(said) + "\n"


def _budget(histories: Sequence[History], x: str) -> float:
    from feddr.reproduce.bands import AXES

    return min(AXES[x](history.last) for history in histories)


def _costs(lines: Lines, x: str) -> str:
    """Return the table of what it takes to reach the target."""
    goal = target(lines)
    if goal <= 0:
        return ""
    columns = ["round", "megabytes", "local_steps", *([x] if x in ("time", "uploaded") else [])]
    table = [[f"to {100 * goal:.0f} % training accuracy at xbar", *(BUDGETS[name] for name in columns)]]
    for label, histories in lines.items():
        spent = [cost(histories, "train_accuracy", goal, name) for name in columns]
        table.append([label, *map(_amount, spent)])
    return markdown(table)


def _amount(value: float) -> str:
    if math.isnan(value):
        return "not reached"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _cell(value: float, metric: str) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:.3f}" if metric.endswith("loss") or metric == "F" else f"{100 * value:.1f} %"


def markdown(table: Sequence[Sequence[str]]) -> str:
    """Return a table, its first line the head."""
    head, *body = table
    rule = ["---", *("---:" for _ in head[1:])]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, rule, *body]) + "\n"
