"""What a figure is: rows of panels, each an experiment in TOML with several methods, or one setting that varies."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feddr import config as configs
from feddr.config import ConfigError, toml
from feddr.config.labels import entries, labels
from feddr.config.overrides import override
from feddr.datasets.download import folder
from feddr.tune.plan import alone

Tables = dict[str, Any]

SEEDS = (4, 35, 21, 2, 6)
"""Typical draws of the synthetic federations: of seeds 0 to 39 those whose number of samples is nearest to the median.

Seed 3 is as near, but was looked at when the defaults of FedDR were chosen; 16, the next, is for tuning.
"""

DATA = {
    "femnist": (("train",),),
    "mnist": (("mnist_writers.npz",), ("qmnist-train-labels*", "train-images*", "train-labels*")),
}
"""For each data set that needs files, sets of patterns of which one must be there; figures download nothing."""

EVERYBODY = ("FedPD", "FedDecoupled")
"""Methods that need everybody in every round."""

NAMES = {"sampling.m": "users a round"}
"""What keys that vary are called, where it is not by their last part."""


@dataclass(frozen=True)
class Experiment:
    """A row of panels.

    Parameters
    ----------
    files
        Experiments in TOML, without the suffix; the first whose data are there is taken.
    vary, values
        A key that varies, as for ``--set``, instead of the method; lines are then called by its values.
    only
        The label of the method that is taken where a key varies.
    lines
        Labels of the methods that are taken where no key varies; all of the file if there are none.
    sets, name
        Overrides, and what the row is called for them; by the overrides themselves if it has no name.
    quick, quick_values
        Overrides and values for ``--quick``.
    at_length
        Whether ``--quick`` does without it.
    fewer
        How many times fewer rounds methods make that need everybody in each, so that all methods send as much.
    optional
        Whether it is left out where its data are not there.

    Examples
    --------
    >>> Experiment(("first",), vary="sampling.m", values=(5, 10), only="FedDR").values
    (5, 10)
    """

    files: tuple[str, ...]
    vary: str = ""
    values: tuple[float, ...] = ()
    only: str = ""
    lines: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    name: str = ""
    quick: tuple[str, ...] = ()
    quick_values: tuple[float, ...] = ()
    at_length: bool = False
    fewer: int = 1
    optional: bool = False


@dataclass(frozen=True)
class Figure:
    """A figure of the paper.

    Parameters
    ----------
    title
        What is compared.
    claim
        What the paper says about it, in our words.
    experiments
        Its rows.
    x
        What metrics are drawn against: a picture for each, of "round", "megabytes", "uploaded", "time".
    budgets
        What its methods are ranked by in the summary: the same of "round", "megabytes" or "time" for all.
    seeds
        Each run with each of them; fewer where runs are long.
    curve
        Whether to draw sparsity against accuracy, too, a point for each row.

    Examples
    --------
    >>> Figure("own", "FedDR and its peers", "FedDR is ahead.", (Experiment(("first",)),)).x
    ('round',)
    """

    name: str
    title: str
    claim: str
    experiments: tuple[Experiment, ...]
    x: tuple[str, ...] = ("round",)
    budgets: tuple[str, ...] = ()
    seeds: tuple[int, ...] = SEEDS
    curve: bool = False


@dataclass(frozen=True)
class PanelRow:
    """A row of panels as it is run: its title, the tables of an experiment without a seed for each line, and seeds.

    Examples
    --------
    >>> list(PanelRow("first", "first", {"FedDR": {"rounds": 2}}, seeds=(4, 35)).runs())
    [(4, 'FedDR', {'rounds': 2, 'seed': 4}), (35, 'FedDR', {'rounds': 2, 'seed': 35})]
    """

    title: str
    file: str
    lines: Mapping[str, Tables]
    seeds: tuple[int, ...] = SEEDS

    def runs(self) -> Iterator[tuple[int, str, Tables]]:
        """Return (seed, label, tables) of all runs."""
        for seed in self.seeds:
            for label, tables in self.lines.items():
                yield seed, label, {**tables, "seed": seed}


def rows(
    figure: Figure, folder: Path, data_dir: Path | None, quick: bool = False, seeds: tuple[int, ...] | None = None
) -> list[PanelRow]:
    """Return the rows of a figure.

    Parameters
    ----------
    folder
        Where the experiments are.
    data_dir
        A folder with a folder for each data set; None for the one that ``feddr.datasets`` uses.
    quick
        Whether everything is small, with one seed.
    seeds
        Others than those of the figure.

    Examples
    --------
    >>> from feddr.experiments.catalogue import FOLDER
    >>> figure = Figure("own", "FedDR and its peers", "FedDR is ahead.", (Experiment(("first",)),))
    >>> [row.file for row in rows(figure, FOLDER, None, seeds=(0,))]
    ['first']
    """
    chosen = seeds or (figure.seeds[:1] if quick else figure.seeds)
    wanted = [experiment for experiment in figure.experiments if not (quick and experiment.at_length)]
    made = (_row(experiment, folder, data_dir, quick, chosen) for experiment in wanted)
    return [row for row in made if row is not None]


def _row(
    experiment: Experiment, folder: Path, data_dir: Path | None, quick: bool, seeds: tuple[int, ...]
) -> PanelRow | None:
    there = _first(experiment, folder, data_dir)
    if there is None:
        return None
    file, raw = there
    raw = override(raw, [*experiment.sets, *(experiment.quick if quick else ())])
    title = raw["name"]
    if not experiment.vary:
        taken = experiment.lines or labels(entries(raw))
        lines = {label: _fewer(alone(raw, label, {}), experiment.fewer) for label in taken}
        called = [experiment.name] if experiment.name else experiment.sets
        return PanelRow(", ".join([title, *called]), file, lines, seeds)
    label = experiment.only or labels(entries(raw))[0]
    values = experiment.quick_values if quick else experiment.values
    name = NAMES.get(experiment.vary, experiment.vary.split(".")[-1])
    lines = {f"{name} = {value:g}": alone(raw, label, {experiment.vary: value}) for value in values}
    return PanelRow(", ".join([title, *([label] if experiment.only else []), name]), file, lines, seeds)


def _fewer(tables: Tables, fewer: int) -> Tables:
    if fewer == 1 or tables["algorithm"][0]["name"] not in EVERYBODY:
        return tables
    return tables | {key: max(1, tables[key] // fewer) for key in ("rounds", "evaluate_every")}


def _first(experiment: Experiment, folder: Path, data_dir: Path | None) -> tuple[str, Tables] | None:
    """Return the first experiment whose data are there, with their folder in it, so that nothing is downloaded."""
    for file in experiment.files:
        raw = configs.read(folder / f"{file}.toml")
        raw.pop("tune", None)
        name = raw["data"]["name"]
        if name not in DATA:
            return file, raw
        data_folder = present(name, data_dir)
        if data_folder is not None:
            return file, override(raw, [f"data.data_dir={toml.text(str(data_folder))}"])
    if experiment.optional:
        return None
    raise ConfigError(f"None of the data of {', '.join(experiment.files)} is there; give --data-dir.")


def present(name: str, data_dir: Path | None) -> Path | None:
    """Return the folder of a data set if its files are there.

    Parameters
    ----------
    data_dir
        A folder with a folder for each data set; None for the one that ``feddr.datasets`` uses.
    """
    data_folder = folder(name, None) if data_dir is None else data_dir.expanduser() / name
    complete = any(all(any(data_folder.glob(pattern)) for pattern in patterns) for patterns in DATA[name])
    return data_folder.absolute() if complete else None
