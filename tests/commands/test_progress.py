"""What a person sees: bars, lines and the table."""

import io
import re
from collections.abc import Sequence

import numpy as np
import pytest
from rich.console import Console

import feddr
from feddr.commands import progress
from feddr.engines.shared.state import Progress, RunState
from feddr.history import History, Row
from feddr.runs.folder import Outcome


def report(k: int, rounds: int, row: Row | None = None) -> Progress:
    return Progress(k, rounds, RunState(server=None, local_steps=100 * k), row)


def rounds_shown(rounds: int, evaluate_every: int) -> list[int]:
    console = Console(file=io.StringIO(), width=40)
    with progress.view(["FedDR"], rounds, console) as view:
        view.begin("FedDR")
        for k in range(rounds + 1):
            evaluated = k % evaluate_every == 0 or k == rounds
            view.update(report(k, rounds, Row(k, F=1.0 / (1 + k)) if evaluated else None))
        view.end("finished")
    assert isinstance(console.file, io.StringIO)
    return [int(line.split("round ")[1].split("/")[0]) for line in console.file.getvalue().splitlines()]


def test_lines_come_about_every_tenth_of_the_rounds() -> None:
    assert rounds_shown(rounds=100, evaluate_every=1) == list(range(0, 101, 10))
    assert rounds_shown(rounds=60, evaluate_every=10) == list(range(0, 61, 10))
    assert rounds_shown(rounds=3, evaluate_every=2) == [0, 2, 3]
    assert rounds_shown(rounds=0, evaluate_every=1) == [0]
    without_rows = rounds_shown(rounds=1000, evaluate_every=1000)
    assert (without_rows[0], without_rows[-1]) == (0, 1000)
    assert max(np.diff(without_rows)) <= 200


def test_a_line_has_the_newest_metrics() -> None:
    console = Console(file=io.StringIO(), width=40)
    view = progress.MethodLines(console)
    view.begin("[red]")
    view.update(report(0, 1, Row(0, F=2.5, train_accuracy=0.25)))
    view.update(report(1, 1))
    view.end("diverged in round 2")
    assert isinstance(console.file, io.StringIO)
    first, second, third = console.file.getvalue().splitlines()
    assert first == "[red]: round 0/1; at round 0: F 2.5, train 25.0 %; 0 s"
    assert second == "[red]: round 1/1; at round 0: F 2.5, train 25.0 %; 0 s"
    assert third == "[red]: diverged in round 2"


def test_bars_for_a_terminal() -> None:
    file = io.StringIO()
    console = Console(file=file, width=80, force_terminal=True, color_system=None)
    with progress.view(["FedDR", "FedAvg"], 4, console) as view:
        assert isinstance(view, progress.MethodBars)
        view.begin("FedDR")
        view.update(report(4, 4, Row(4, F=0.125, train_accuracy=0.875)))
        view.end("finished")
        view.begin("FedAvg")
        view.update(report(0, 4, Row(0)))
        view.stopping()
        view.end("interrupted")
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue()).replace("\r", "\n")
    done, cut = [line.split() for line in text.splitlines() if line.strip()][-2:]
    assert (done[0], done[2:]) == ("FedDR", ["4/4", "at", "4:", "F", "0.125,", "train", "87.5", "%", "0:00:00"])
    assert (cut[0], cut[-2:]) == ("FedAvg", ["interrupted", "-:--:--"])


def test_bars_fit_a_small_terminal() -> None:
    file = io.StringIO()
    console = Console(file=file, width=80, force_terminal=True, color_system=None)
    with progress.view(["Scaffold"], 100, console) as view:
        view.begin("Scaffold")
        for k in range(100):
            view.update(report(k, 100, Row(k, F=0.123456, train_accuracy=0.8765)))
    assert "…" not in file.getvalue()
    assert "steps/s" in file.getvalue()


@pytest.fixture(scope="module")
def result() -> feddr.Result:
    problem = feddr.Problem(
        loss=lambda params, batch: batch["x"] * params,
        data=feddr.FederatedData.from_clients([{"x": [1.0]}]),
        init=np.zeros(()),
    )
    return feddr.simulate(problem, feddr.FedAvg(), local=feddr.local.SGD(lr=1.0), rounds=0)


def table(outcomes: Sequence[Outcome], width: int = 100, styles: bool = True) -> list[str]:
    console = Console(width=width, force_terminal=True, color_system="standard" if styles else None)
    with console.capture() as capture:
        console.print(progress.table(outcomes))
    return [line.rstrip() for line in capture.get().splitlines()]


def bold(line: str) -> list[str]:
    return [part.split("\x1b")[0].strip() for part in line.split("\x1b[1m")[1:]]


def test_the_table_marks_the_best_of_each_column(result: feddr.Result) -> None:
    def outcome(label: str, row: Row, status: str = "finished") -> Outcome:
        return Outcome(label, status, History([row]), result)

    better = Row(9, wall_time=1.0, F=0.5, train_loss=0.25, train_accuracy=0.75, bytes_up=10**6, local_steps=5)
    worse = Row(9, wall_time=1.0, F=1.5, train_loss=1.25, train_accuracy=0.5, bytes_up=3 * 10**6, local_steps=2000)
    gone = Outcome("gone", "diverged in round 7", History([better]))
    lines = table([outcome("a", better), outcome("b", worse), gone, outcome("cut", worse, "interrupted")])
    rows = {line.split()[0]: line for line in lines}
    assert bold(rows["a"]) == ["0.5", "0.25", "75.0 %", "1.0", "5"]
    assert bold(rows["b"]) == []
    assert rows["b"].split() == ["b", "9", "1.5", "1.25", "50.0", "%", "-", "-", "-", "3.0", "2,000", "1.0"]
    assert rows["gone"].split() == ["gone", *["-"] * 10]
    assert lines[lines.index(rows["gone"]) + 1] == "diverged in round 7"
    assert lines[-1] == "interrupted"


def test_nothing_is_best_among_runs_of_different_length(result: feddr.Result) -> None:
    rows = {"long": Row(20, F=0.25), "short": Row(10, F=0.5)}
    outcomes = [Outcome(label, "finished", History([row]), result) for label, row in rows.items()]
    assert not any(map(bold, table(outcomes)[2:]))
    # One that was cut short is no rival, and does not keep the others from being compared.
    cut = Outcome("cut", "interrupted", History([Row(5, F=0.125)]), result)
    same = [Outcome(label, "finished", History([Row(20, F=F)]), result) for label, F in (("a", 0.25), ("b", 0.5))]
    lines = {line.split()[0]: bold(line) for line in table([*same, cut])[2:-1]}
    assert lines == {"a": ["0.25"], "b": [], "cut": []}


def test_the_table_fits_a_small_terminal(result: feddr.Result) -> None:
    row = Row(200, wall_time=99.9, F=0.12345, train_loss=0.12345, train_accuracy=0.5, test_accuracy=0.5, bytes_up=10**8)
    outcomes = [Outcome(label, "finished", History([row]), result) for label in ("FedDR", "Scaffold")]
    lines = table(outcomes, width=80, styles=False)
    assert all("…" not in line and len(line) <= 80 for line in lines)
