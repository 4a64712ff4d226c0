"""``feddr compare --seeds``: the comparison with each of some seeds, and the means over them."""

from collections.abc import Callable, Sequence
from pathlib import Path

import typer

from feddr.commands import console, progress
from feddr.commands.console import FAILED, INTERRUPTED
from feddr.config import ConfigError
from feddr.history import History
from feddr.runs.folder import Folder, Outcome, read_history


def numbers(seeds: str) -> list[int]:
    """Return the seeds of a text such as 0,1,2."""
    try:
        parsed = [int(seed) for seed in seeds.split(",")]
    except ValueError:
        raise ConfigError(f"--seeds must be whole numbers with commas, such as 0,1,2, got {seeds}.") from None
    if min(parsed) < 0 or len(set(parsed)) < len(parsed):
        raise ConfigError(f"--seeds must be whole numbers from 0 that differ, got {seeds}.")
    return parsed


def execute(folder: Folder, seeds: Sequence[int], run: Callable[[int, Path], int], quiet: bool) -> int:
    """Make the comparison with each seed in a folder of its own, then compare the means, and return the exit code.

    Parameters
    ----------
    folder
        Of the whole; its config has the algorithms.
    run
        From (seed, folder) to the exit code of the comparison with this seed.
    """
    from feddr import plots
    from feddr.runs.compare import Comparison

    histories: dict[str, dict[int, History]] = {}
    failures: dict[tuple[str, int], str] = {}
    codes = []
    for seed in seeds:
        seed_folder = folder.path / f"seed-{seed}"
        codes.append(run(seed, seed_folder))
        if codes[-1] == INTERRUPTED:
            return INTERRUPTED
        for method in folder.config.algorithms:
            histories.setdefault(method.label, {})[seed] = read_history(seed_folder / method.label)
            if not (seed_folder / method.label / "model.safetensors").is_file():
                failures[method.label, seed] = "it diverged"
    comparison = Comparison(histories, failures=failures)
    comparison.write(folder.path)
    plots.save(comparison.figure(folder.config.name), folder.path / "comparison.png")
    if not quiet:
        shown = [Outcome(label, "finished", History([row])) for label, row in comparison.means().items()]
        if shown:
            console.results().print(progress.table(shown))
        typer.echo(f"Means over the seeds {', '.join(map(str, seeds))}; spreads are in summary.csv.")
        typer.echo(f"Saved in {folder.path}.")
    return FAILED if all(code == FAILED for code in codes) else 0
