"""Files of a search: tables as CSV, the best settings as a config, figures."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from feddr import config as configs
from feddr.tune.plan import Search, alone, together
from feddr.tune.ranking import RankedSetting, best, short, words

Ranking = Mapping[str, Sequence[RankedSetting]]

SPENT = ("rounds", "local_steps", "bytes_up", "bytes_down", "seconds")
METRICS = ("F", "train_loss", "train_accuracy", "test_accuracy", "gradient_mapping", "sparsity")


def save(folder: Path, search: Search, ranking: Ranking) -> list[Path]:
    """Write all files of a search, replacing older ones, and return the configs of the best settings."""
    from feddr import plots
    from feddr.plots import tune

    save_runs(folder / "runs.csv", search, ranking)
    save_trials(folder / "trials.csv", search, ranking)
    figure = tune.figure(search, ranking)
    if figure is not None:
        plots.save(figure, folder / "tune.png")
    return save_best(folder, search, ranking)


def save_runs(path: Path, search: Search, ranking: Ranking) -> None:
    """Write a line for each run that has ended."""
    keys = _keys(search)
    rows: list[dict[str, Any]] = []
    for standings in ranking.values():
        for record in (record for one in sorted(standings, key=lambda one: one.number) for record in one.records):
            about = {"algorithm": record.algorithm, "trial": record.number, "seed": record.seed}
            outcome = {"status": record.status, "value": record.value, "round": record.round}
            spent = {name: getattr(record, name) for name in SPENT}
            measured = {name: record.row.get(name) for name in METRICS}
            rows.append({**about, **_cells(record.settings), **outcome, **measured, **spent, "reason": record.brief})
    names = ["algorithm", "trial", "seed", *keys, "status", "value", "round", *METRICS, *SPENT, "reason"]
    _write(path, names, rows)


def save_trials(path: Path, search: Search, ranking: Ranking) -> None:
    """Write a line for each trial, the best of each algorithm first."""
    rows: list[dict[str, Any]] = []
    for label, standings in ranking.items():
        for one in standings:
            about = {"algorithm": label, "rank": one.rank, "trial": one.number, **_cells(one.settings)}
            spent = {name: one.average(name) if one.records else None for name in SPENT}
            seeds = sum(record.value is not None for record in one.records)
            rows.append(
                {**about, "mean": one.mean, "spread": one.spread, "seeds": seeds, "trouble": one.trouble} | spent
            )
    keys = _keys(search)
    _write(path, ["algorithm", "rank", "trial", *keys, "mean", "spread", "seeds", "trouble", *SPENT], rows)


def save_best(folder: Path, search: Search, ranking: Ranking) -> list[Path]:
    """Write a config with the best settings that ``feddr run`` or ``feddr compare`` takes.

    It is ``best.toml``; where the algorithms want different values of something that they share, such as the
    regulariser, each has a file of its own instead.
    """
    for old in folder.glob("best*.toml"):
        old.unlink()
    winners = best(ranking)
    if not winners:
        return []
    tables = together(search.raw, {label: one.settings for label, one in winners.items()})
    if tables is not None:
        return [_save_config(folder / "best.toml", search, tables, list(winners.values()))]
    return [
        _save_config(folder / f"best-{label}.toml", search, alone(search.raw, label, one.settings), [one])
        for label, one in winners.items()
    ]


def goal(search: Search) -> str:
    """Return what makes a setting good, in words."""
    over = f"the mean over the seeds {', '.join(map(str, search.seeds))}" if len(search.seeds) > 1 else "the value"
    where = "at the end" if search.at == "last" else "at its best evaluation"
    return f"{over} of {search.metric} at xbar, {where}"


def _save_config(path: Path, search: Search, tables: Mapping[str, Any], winners: Sequence[RankedSetting]) -> Path:
    lines = [f"# The best settings of a search, by {goal(search)}."]
    for one in winners:
        spread = "" if one.spread is None else f", standard deviation {one.spread:.3g}"
        tried = len(search.settings[one.algorithm])
        good = f"{search.metric} {one.mean:.5g}{spread}"
        lines.append(f"# {one.algorithm}: {words(one.settings)}, {good}, the best of {tried}.")
    config = configs.parse(tables)
    if "seed" not in tables["data"]:
        # Another seed is to draw other data with this config, as it does with the one that it was made from.
        rest = {name: value for name, value in config.data.arguments.items() if name != "seed"}
        config = replace(config, data=replace(config.data, arguments=rest))
    path.write_text("\n".join(lines) + "\n" + configs.dumps(config), encoding="utf-8")
    return path


def _keys(search: Search) -> list[str]:
    """Return the columns of the settings, each once."""
    return list(dict.fromkeys(short(key) for axes in search.space.axes.values() for key in axes))


def _cells(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {short(key): one for key, one in settings.items()}


def _write(path: Path, names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
