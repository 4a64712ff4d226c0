"""A case of bad input: what is typed and which files lie there, and the property that every case has.

A case ends with exit code 2 and one line on stderr, and then nothing in its folder has changed, or it runs.
"""

import contextlib
import os
import signal
import stat
import sys
import urllib.error
import urllib.request
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, NoReturn
from unittest import mock

from click.testing import Result
from typer.testing import CliRunner

from feddr.commands.main import app

PATIENCE = {signal.ITIMER_PROF: 60.0, signal.ITIMER_REAL: 240.0}
"""Seconds of computing, and of waiting, after which a case counts as hung."""

TAKEN, BLOCKED, FILE = "taken", "file.txt/below", "file.txt"
"""In every case: a folder that is not empty, a path that cannot be made, and the file that is in its way."""

FAILURES = ("diverged in round", "the results cannot be written", "The results so far are kept in", " problem")
"""What exit code 1 stands for; the last is that of ``feddr deploy check``."""

STANDING = {FILE: b"a file\n", f"{TAKEN}/precious.txt": b"do not touch\n"}


@dataclass(frozen=True)
class Case:
    """The words after ``feddr``, and the files in the working folder.

    Parameters
    ----------
    links
        Symbolic links by name, with what they point at.
    """

    words: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        shown = {name: data[:3000] for name, data in self.files.items()}
        return f"Case({self.words!r}, {shown!r}, {dict(self.links)!r})"


@dataclass(frozen=True)
class Ended:
    """How a case ended: ``refused``, ``ran`` or ``failed``, which is how a run that diverges ends."""

    how: str
    stdout: str
    stderr: str


class BrokenPromiseError(AssertionError):
    """A case that ended in another way than it may."""


class Tally:
    """Counts cases by kind and end."""

    def __init__(self) -> None:
        self.ends: Counter[tuple[str, str]] = Counter()

    def count(self, kind: str, ended: Ended) -> None:
        """Add one; what was refused by the folder for the results alone would have run."""
        last = ended.how == "refused" and any(word in ended.stderr for word in (TAKEN, BLOCKED))
        self.ends[kind, "refused at the last check" if last else ended.how] += 1

    def tried(self, kind: str) -> int:
        """Return how many of a kind there were."""
        return sum(number for (one, _), number in self.ends.items() if one == kind)

    def lines(self) -> Iterator[str]:
        """Yield a line for each kind, and one for all."""
        kinds = sorted({kind for kind, _ in self.ends})
        for kind in [*kinds, "all"]:
            ends: Counter[str] = Counter()
            for (one, end), number in self.ends.items():
                ends[end] += number if kind in (one, "all") else 0
            told = ", ".join(f"{number} {end}" for end, number in sorted(ends.items()) if number)
            yield f"fuzz: {kind}: {ends.total()} tried, {told}"


def attempt(case: Case) -> Ended:
    """Do what a case says in a folder of its own, and raise BrokenPromiseError unless it ends as it should."""
    with TemporaryDirectory(prefix="feddr-fuzz-") as above:
        work = Path(above, "work")
        for name, data in {**STANDING, **case.files}.items():
            path = work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        for name, target in case.links.items():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            (work / name).symlink_to(target)
        before = _tree(Path(above))
        with _surroundings(work), warnings.catch_warnings():
            warnings.simplefilter("always")  # a warning is a line on stderr, as it is for a user
            result = CliRunner().invoke(app, list(case.words))
        after = _tree(Path(above))
    problem = _problem(result, before, after)
    if problem:
        raise BrokenPromiseError(
            f"{problem}\n{case!r}\nexit code {result.exit_code}\nstderr: {result.stderr[-3000:]}"
        ) from result.exception
    return Ended({0: "ran", 1: "failed", 2: "refused"}[result.exit_code], result.stdout, result.stderr)


def _problem(result: Result, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Say what is wrong with an end, in one sentence; nothing where all is well."""
    code, error, stdout, stderr = result.exit_code, result.exception, result.stdout, result.stderr
    if error is not None and not isinstance(error, SystemExit):
        return f"It ended with {type(error).__name__}: {error}"
    if "Traceback" in stderr or "Traceback" in stdout:
        return "It printed a traceback."
    changed = [name for name in before if before[name] != after.get(name)]
    if changed:
        return f"It changed {changed}."
    made = sorted(name for name in after if name not in before)
    if any(not name.startswith("work/") for name in made):
        return f"It wrote outside its folder: {made}."
    if code == 2:
        lines = stderr.splitlines()
        if len(lines) != 1 or not lines[0].startswith("feddr: ") or len(lines[0]) < 12:
            return f"It was refused in {len(lines)} lines."
        return f"It was refused and left {made}." if made else f"It was refused and printed {stdout!r}" * bool(stdout)
    if code == 1:
        return "" if any(words in stderr for words in FAILURES) else "It failed for no reason that is documented."
    return "" if code == 0 else "It ended with another exit code."


def _tree(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return what there is: kind, size and time of each file, kind of each folder."""
    found = {}
    for path in folder.rglob("*"):
        about = path.lstat()
        kind = stat.S_IFMT(about.st_mode)
        still = (0, 0) if stat.S_ISDIR(about.st_mode) else (about.st_size, about.st_mtime_ns)
        found[str(path.relative_to(folder))] = (kind, *still)
    return found


@contextlib.contextmanager
def _surroundings(work: Path) -> Iterator[None]:
    """Work in a folder, without a network and with an alarm."""
    home = Path.cwd()
    places = {"XDG_CACHE_HOME": str(work / ".cache"), "HOME": str(work), "FEDDR_DATA": str(work / "data")}
    keep = {"FEDDR_COMPILATION_CACHE": os.environ.get("FEDDR_COMPILATION_CACHE", "off")}
    before = {number: signal.signal(number, _ring) for number in (signal.SIGALRM, signal.SIGPROF)}
    os.chdir(work)
    for clock, seconds in PATIENCE.items():
        signal.setitimer(clock, seconds)
    try:
        with mock.patch.dict(os.environ, places | keep), mock.patch.object(urllib.request, "urlopen", _no_network):
            yield
    finally:
        for clock in PATIENCE:
            signal.setitimer(clock, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.chdir(home)


def _ring(number: int, frame: FrameType | None) -> NoReturn:
    raise BrokenPromiseError(f"It hung, in {frame and frame.f_code.co_qualname}; signal {number}.")


def _no_network(*_: Any, **__: Any) -> NoReturn:
    raise urllib.error.URLError("no network in a test")


def main(words: list[str]) -> None:
    """Try the words of a command line once: ``python -m tests.fuzz.bad_input theory --L nan``."""
    print(attempt(Case(tuple(words))))


if __name__ == "__main__":
    main(sys.argv[1:])
