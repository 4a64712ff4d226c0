"""The folder of an experiment: what is left of it when the program has ended."""

import contextlib
import csv
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from feddr.config import Config, ConfigError, dumps
from feddr.history import COLUMNS, History

if TYPE_CHECKING:
    from feddr.engines.result import Result


@dataclass(frozen=True)
class Outcome:
    """What became of one method.

    Parameters
    ----------
    status
        ``"finished"``, ``"interrupted"`` or ``"diverged in round 7"``.
    result
        None where the method diverged; the history then ends at the last evaluation before.
    reason
        Why it diverged.
    """

    label: str
    status: str
    history: History
    result: "Result | None" = None
    reason: str = ""


class Folder:
    """A new folder, which is gone again if nothing is saved in it.

    Parameters
    ----------
    config
        The experiment. Its folder is ``runs/<name>``, or ``runs/<name>-2`` and so on if there is one.
    out
        Another folder instead, new or empty.
    """

    def __init__(self, config: Config, out: Path | None = None) -> None:
        self.config = config
        try:
            if out is None:
                self.path, self._made = _next(Path("runs", config.name))
            elif out.is_dir() and not any(out.iterdir()):
                self.path, self._made = out, []
            else:
                self.path, self._made = out, _new(out)
        except FileExistsError:
            raise ConfigError(f"--out must be a new or an empty folder, {out} is not.") from None
        except OSError as error:
            raise ConfigError(f"{out or Path('runs')}: cannot be written, {error.strerror}.") from None

    def save(self, outcome: Outcome) -> None:
        """Write the files of one method, and with them the config."""
        from feddr import plots

        (self.path / "config.toml").write_text(dumps(self.config), encoding="utf-8")
        folder = self.path / outcome.label
        folder.mkdir()
        if outcome.result is None:
            outcome.history.to_csv(folder / "history.csv")
        else:
            outcome.result.save(folder)
        histories = {outcome.label: outcome.history}
        if plots.has_personal(histories):
            plots.save(plots.personal_curves(histories), folder / "personal.png")

    def save_comparison(self, outcomes: Sequence[Outcome]) -> None:
        """Write what compares the methods: all histories, their last rows, and figures."""
        from feddr import plots

        with _writer(self.path / "comparison.csv", ["algorithm", *COLUMNS]) as writer:
            for outcome in outcomes:
                writer.writerows({"algorithm": outcome.label, **asdict(row)} for row in outcome.history.rows)
        with _writer(self.path / "summary.csv", ["algorithm", "status", *COLUMNS]) as writer:
            for outcome in outcomes:
                numbers = {} if outcome.result is None else asdict(outcome.history.last)
                writer.writerow({"algorithm": outcome.label, "status": outcome.status, **numbers})
        histories = {outcome.label: outcome.history for outcome in outcomes if outcome.history.rows}
        if histories:
            plots.save(plots.curves(histories, self.config.name), self.path / "comparison.png")
        if plots.has_time(histories):
            plots.save(plots.time_curves(histories, self.config.name), self.path / "time.png")
        if plots.has_personal(histories):
            plots.save(plots.personal_curves(histories, self.config.name), self.path / "personal.png")

    def discard_if_empty(self) -> None:
        """Remove the folder, and those above that were made for it, as far as nothing is in them."""
        with contextlib.suppress(OSError):  # a folder that is not empty stays, and so do those above it
            for folder in self._made:
                folder.rmdir()


def _new(path: Path) -> list[Path]:
    """Make a folder that must not exist, and return what was made, innermost first."""
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir()
    return made


def _next(path: Path) -> tuple[Path, list[Path]]:
    """Make ``path``, else ``path-2``, ``path-3``, ...; two runs that start together get two folders."""
    for number in itertools.count(1):
        candidate = path if number == 1 else path.with_name(f"{path.name}-{number}")
        with contextlib.suppress(FileExistsError):
            return candidate, _new(candidate)
    raise AssertionError("itertools.count ends")


@contextlib.contextmanager
def _writer(path: Path, columns: Sequence[str]) -> "Iterator[csv.DictWriter[str]]":
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        yield writer
