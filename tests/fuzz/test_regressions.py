"""Regressions: bad input that once ended in a traceback, in many lines, in a folder left behind, or not at all."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from feddr.commands import main
from feddr.commands.console import REFUSED
from feddr.storage import limits
from feddr.validation.messages import LONGEST, one_line
from tests.fuzz.bad_input import BLOCKED, FILE, TAKEN, Case, attempt
from tests.fuzz.broken_arguments import LATE
from tests.fuzz.broken_configs import BASES, BESIDE, EXACT
from tests.fuzz.broken_files import TRACE, WHOLE, command, digits_npz, headed, traced
from tests.fuzz.literals import DEEP, Value, document

PLAIN = BASES[0]


def spelt(*words: str, **changes: object) -> Case:
    """Return a run of the plain experiment with changes, and more words."""
    text = document({**PLAIN, **changes}).encode("utf-8", "surrogatepass")
    return Case(("run", "case.toml", "--quiet", "--out", TAKEN, *words), {"case.toml": text, **BESIDE})


def model(width: int) -> dict[str, object]:
    return {"name": "linear", "num_features": width}


def tuned(*words: str) -> Case:
    files = {"case.toml": document(PLAIN).encode(), "own/notes.txt": b"mine"}
    return Case(("tune", "case.toml", "--quiet", "--workers", "0", "--out", TAKEN, *words), files)


WHEN = Value("1979-05-27")
FOUND: dict[str, tuple[Case, str]] = {
    "an unknown option took five lines": (Case(("run", "--bogus")), "No such option: --bogus"),
    "so did a number out of range": (Case(("run", "x.toml", "--threads", "0")), "Invalid value for '--threads': 0"),
    "and a command that is none": (Case(("frobnicate",)), "No such command 'frobnicate'."),
    "tables nested beyond the stack": (spelt(seed=DEEP), "case.toml: cannot be used, its tables or lists are"),
    "and in an override": (spelt("--set", f"seed={DEEP}"), "seed has a value that cannot be used: its tables or lists"),
    "a whole number beyond all floats": (spelt(deadline=10**400), "case.toml: cannot be used, it has a whole number"),
    "a model larger than memory": (spelt(model=model(2**40)), "model linear: A model with the widths [1099511627776]"),
    "one that just fits once": (spelt(model=model(limits.memory() // 16)), "model linear: A model with the widths"),
    "as many clients": (
        spelt(data={"name": "synthetic", "r": 1, "s": 1, "num_clients": 2**40}),
        "data synthetic: A federation of 1099511627776 clients needs",
    ),
    "a config without an end": (Case(("run", "/dev/zero")), "/dev/zero: cannot be used, /dev/zero: has more than"),
    "data without an end": (
        Case(("data", "leaf", "--set", "path=/dev/zero", "--out", BLOCKED)),
        "data leaf: /dev/zero: cannot be read (not a regular file).",
    ),
    "a name too long for a file": (Case(("data", "x" * 300)), f"{'x' * 40}"),
    "a field that the csv module refuses": (traced(TRACE + b"0" * 140_000), "delays Trace: t.csv: not a table (field"),
    "a header of NumPy that is no Python": (
        command(WHOLE["npz"][0], {"d/mnist_writers.npz": headed("[" * 5000)}),
        "data mnist: d/mnist_writers.npz: X.npy is not an array of NumPy",
    ),
    "labels that are pairs": (
        command(WHOLE["npz"][0], {"d/mnist_writers.npz": digits_npz(y=np.zeros(12, "i4,f8"))}),
        "data mnist: d/mnist_writers.npz: y.npy must hold numbers, it holds [('f0',",
    ),
    "labels that are complex": (
        command(WHOLE["npz"][0], {"d/mnist_writers.npz": digits_npz(y=[1j] * 12)}),
        "data mnist: d/mnist_writers.npz: y.npy must hold numbers, it holds complex128.",
    ),
    "a download that failed left folders": (Case(("data", "mnist", "--out", BLOCKED)), "data mnist: train-images"),
    "a search in a folder that holds none": (
        Case(("tune", "case.toml", "--grid", "local.lr=1,2", "--resume", "own"), tuned().files),
        "--resume must be the folder of a search, got own",
    ),
    "a grid without end": (tuned("--grid", "local.lr=log:1:2:1e9"), "local.lr needs a COUNT of at most 10000"),
    "or of infinite length": (tuned("--grid", "local.lr=log:1:2:inf"), "local.lr needs a COUNT of at least 2"),
    "a random search without end": (
        tuned("--random", "local.lr=lin:1:2", "--trials", "1000000000"),
        "trials must be at most 10000",
    ),
    "figures into a file, found after the first run": (
        Case(("reproduce", "synthetic", "--quick", "--quiet", "--workers", "0", "--out", FILE)),
        f"{FILE}/runs: cannot be written, Not a directory.",
    ),
    "an interval that only the first round read": (
        Case(("run", "case.toml", "--checkpoint-every", "0"), {"case.toml": document(BASES[5]).encode(), **BESIDE}),
        "checkpoint_every must be a number of rounds",
    ),
    "a method that its first round refuses": (
        Case(("run", "late.toml", "--quiet"), {"late.toml": document(LATE).encode()}),
        "Accelerated certifies strongly convex subproblems only",
    ),
    "a folder for certificates with a name too long": (Case(("deploy", "certs", "x" * 300)), "x" * 40),
}

BESIDES: dict[str, tuple[Case, str]] = {
    "tables nested less": (spelt(seed=Value("[" * 300 + "]" * 300)), "case.toml: cannot be used"),
    "a whole number of 20,000 bits": (spelt(seed=Value("0x" + "f" * 5000)), "case.toml: cannot be used, it has a"),
    "a date": (spelt(seed=WHEN), "case.toml: cannot be used, 1979-05-27 is a date, which no setting is."),
    "a label too long for a folder": (
        spelt(algorithm={**PLAIN["algorithm"][0], "label": "x" * 200}),
        f"algorithm.label must have at most {limits.NAME} bytes, got 200",
    ),
    "a grid that is large by its product": (
        tuned(*(word for key in ("lr", "epochs", "batch_size") for word in ("--grid", f"local.{key}=int:1:99:99"))),
        "A grid has at most 10,000 settings, this one has 970,299; use --random.",
    ),
}
"""What the same checks refuse, and was refused in other words, or taken."""


@pytest.mark.parametrize("name", [*FOUND, *BESIDES])
def test_what_was_found_is_refused(name: str) -> None:
    case, message = (FOUND | BESIDES)[name]
    ended = attempt(case)
    assert ended.how == "refused"
    assert ended.stderr.startswith(f"feddr: {message}"), ended.stderr


def test_results_before_a_refusal_are_kept() -> None:
    """They were left behind by a command that said it had refused."""
    tables = {**PLAIN, "local": EXACT, "algorithm": [*PLAIN["algorithm"], {"name": "FedAvg"}]}
    ended = attempt(Case(("compare", "case.toml", "--quiet", "--out", "new"), {"case.toml": document(tables).encode()}))
    assert ended.how == "failed"
    assert "The results so far are kept in new. Resume with: feddr compare --resume new" in ended.stderr


def test_messages_are_safe_to_print() -> None:
    assert one_line("a\n b\t\x1b[31m\u202e\udcff") == r"a b \x1b[31m\u202e\udcff"
    long = one_line(f"begin {'x' * 10**6} end")
    assert len(long) < LONGEST + 10
    assert long.startswith("begin")
    assert long.endswith("end")


def test_a_picture_that_cannot_be_drawn_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("feddr.plots.save", lambda *_: json.loads("no picture"))
    result = CliRunner().invoke(main.app, ["data", "bundled", "--out", "a/b"])
    assert result.exit_code == REFUSED
    assert list(tmp_path.iterdir()) == []


def test_no_words_are_answered_with_help() -> None:
    for words in ([], ["deploy"]):
        result = CliRunner().invoke(main.app, words)
        assert result.exit_code == REFUSED
        assert "Usage: " in result.stdout
        assert result.stderr == ""
