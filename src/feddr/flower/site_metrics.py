"""Metrics over the samples of all sites, from a few sums that each site tells of its own (``feddr.metrics.sums``).

The server sends the names of the metrics with a task to evaluate, and a node answers with numbers for each. A site
whose part has fewer samples than ``fewest_rows`` tells a reason in place of numbers: of so few, sums would say much of
each. Rare classes and bins of the calibration error may still be as small as one sample.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from feddr.algorithms.algorithm import ProblemLike
from feddr.engines.shared.measured import Evaluates
from feddr.flower.refused import Refused
from feddr.metrics import READY, Metric, choose
from feddr.metrics.sums import SUMS, pooled
from feddr.tree import Tree

SiteSums = Mapping[str, list[float] | str]
"""What a site tells, by column: its sums, nothing where it has no samples, or why it tells none."""


def check(metrics: Sequence[Metric]) -> None:
    """Refuse metrics that do not follow from sums, or that nodes do not know.

    Raises
    ------
    ValueError
        With the metric, and why nodes cannot tell it.
    """
    for metric in metrics:
        ready = READY.get(metric.name)
        if ready is None or ready.function is not metric.function:
            raise ValueError(
                f'evaluation="nodes" takes {", ".join(SUMS)}, which nodes know, got {metric.name} of your own; give '
                "evaluation a Problem, or leave the metric out."
            )
        if metric.name not in SUMS:
            raise ValueError(
                f"{metric.name} over all sites needs the order of all scores, which nodes do not tell; give evaluation "
                f"a Problem, or use {', '.join(SUMS)}."
            )


def question(metrics: Sequence[Metric]) -> str:
    """Return the metrics as a task names them; the empty text for none."""
    return ",".join(f"{metric.part}_{metric.name}" if metric.part else metric.name for metric in metrics)


def answer(problem: ProblemLike, evaluator: Evaluates, xbar: Tree, asked: str, fewest_rows: int) -> str:
    """Return what a node tells at xbar, as JSON; the empty text where nothing was asked."""
    if not asked:
        return ""
    answers: dict[str, list[float] | str] = {}
    test = problem.data.test
    for metric in choose(asked.split(",")):
        part = metric.part or ("train" if test is None or test.num_samples == 0 else "test")
        samples = problem.data.part(part)
        count = 0 if samples is None else samples.num_samples
        column = f"{part}_{metric.name}"
        if samples is None or count == 0:
            answers[column] = []
        elif count < fewest_rows:
            answers[column] = (
                f"the {part} part has {count} samples, sums are told of {fewest_rows} or more (fewest_rows of "
                "client_app or SharedTable)"
            )
        else:
            try:
                values = evaluator.each(xbar, part, metric.of)
                answers[column] = SUMS[metric.name].sums(np.asarray(values), samples.samples).tolist()
            except ValueError as error:  # such as f1 of a regression, or of a loss alone
                answers[column] = str(error)
    return json.dumps(answers)


def read(text: str, asked: str) -> SiteSums:
    """Return what a node has told, checked; Refused where it is not an answer to what was asked."""
    if not asked:
        if text:
            raise Refused("malformed", "it tells metrics that nobody asked for")
        return {}
    try:
        answers = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        raise Refused("malformed", "its metrics are not JSON") from None
    if not isinstance(answers, dict) or len(answers) != len(asked.split(",")):
        raise Refused("malformed", f"metrics must be a table with one entry for each of {asked}")
    for metric in choose(asked.split(",")):
        columns = [f"{part}_{metric.name}" for part in ([metric.part] if metric.part else ["test", "train"])]
        values = [answers[column] for column in columns if column in answers]
        if len(values) != 1 or not _is_told(metric.name, values[0]):
            raise Refused("malformed", f"{metric.name} must be told as its sums, as none, or as a reason")
    return cast(SiteSums, answers)


def _is_told(name: str, value: Any) -> bool:
    if isinstance(value, str) or value == []:
        return True
    return isinstance(value, list) and all(type(x) is float for x in value) and SUMS[name].fits(len(value))


def over_all(asked: str, sites: Iterable[SiteSums]) -> dict[str, float]:
    """Return the metrics over the samples of all sites; NaN where a site does not tell, or none has samples.

    A metric without a part is that of the test part where any site has one, else of the training part, as in a
    simulation of these sites.
    """
    answers = list(sites)
    metrics: dict[str, float] = {}
    for metric in choose(asked.split(",")) if asked else ():
        part = metric.part or ("test" if any(f"test_{metric.name}" in one for one in answers) else "train")
        column = f"{part}_{metric.name}"
        values = [one[column] for one in answers if one.get(column)]
        sums = [value for value in values if not isinstance(value, str)]
        same = len({len(value) for value in sums}) == 1
        metrics[column] = pooled(metric.name, sums) if same and len(sums) == len(values) else math.nan
    return metrics


def reasons(answers: SiteSums) -> dict[str, str]:
    """Return why a site does not tell some metrics, by column."""
    return {column: value for column, value in answers.items() if isinstance(value, str)}
