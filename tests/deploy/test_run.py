"""A run is followed by its log: what the log says last is what became of it."""

import importlib
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from feddr.deploy import client_process
from feddr.deploy import run as runs
from feddr.deploy.run import RunFailure, SubmittedRun
from feddr.sites import SiteRefusal, verify


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "LOOK", 0.0)
    monkeypatch.setattr(runs, "ASK", -1.0)


def submitted(folder: Path, *names: str, begin: int = 0) -> SubmittedRun:
    text = "".join(json.dumps({"event": name, "reason": "it was so"}) + "\n" for name in names)
    (folder / "log.jsonl").write_text(text)
    return SubmittedRun(7, folder, begin, folder)


def test_a_run_that_has_ended_well_is_followed_to_its_end(tmp_path: Path) -> None:
    run = submitted(tmp_path, "start", "row", "end")
    assert [event["event"] for event in run.events()] == ["start", "row", "end"]


def test_what_an_earlier_part_of_the_run_has_logged_is_not_its_end(tmp_path: Path) -> None:
    submitted(tmp_path, "start", "end")
    begin = (tmp_path / "log.jsonl").stat().st_size
    run = submitted(tmp_path, "start", "end", "resume", "end", begin=begin)
    assert [event["event"] for event in run.events()] == ["resume", "end"]


def test_a_run_that_has_failed_says_why(tmp_path: Path) -> None:
    with pytest.raises(RunFailure, match="it was so"):
        list(submitted(tmp_path, "start", "failed").events())


@pytest.mark.parametrize("status", ["finished:failed", "running"])
def test_a_server_app_that_was_killed_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    asked: list[int] = []

    def answer(run: SubmittedRun) -> str:
        asked.append(run.number)
        if status == "running":  # it is slow, and goes on
            submitted(tmp_path, "start", "end")
        return status

    monkeypatch.setattr(SubmittedRun, "_status", answer)
    run = submitted(tmp_path, "start")
    if status == "running":
        assert [event["event"] for event in run.events()] == ["start", "end"]
    else:
        with pytest.raises(RunFailure, match="is finished:failed, and its log has no end"):
            list(run.events())
    assert asked == [7]


def test_half_a_line_is_waited_for(tmp_path: Path) -> None:
    run = submitted(tmp_path, "start", "end")
    whole = (tmp_path / "log.jsonl").read_bytes()
    (tmp_path / "log.jsonl").write_bytes(whole[:-5])
    events = run.events()
    assert next(events)["event"] == "start"
    (tmp_path / "log.jsonl").write_bytes(whole)
    assert next(events)["event"] == "end"


def test_the_program_of_a_site_with_a_list_comes_before_flowers_own(tmp_path: Path) -> None:
    client_process.install(tmp_path / "bin")
    program = tmp_path / "bin" / "flwr-clientapp"
    assert program.read_text().startswith(f"#!{sys.executable}\n")
    assert stat.S_IMODE(program.stat().st_mode) == 0o700
    process: Any = importlib.import_module("flwr.supernode.runtime.run_clientapp")
    assert callable(process.install_from_fab)  # Flower's step that the program puts its own before


def test_a_bundle_that_is_not_listed_is_refused_and_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is read each time, so that a change holds at once; one that cannot be read allows nothing."""
    (tmp_path / "site.toml").write_text("[rules]\nexperiments = []")
    environment: dict[str, Any] = {client_process.SITE: tmp_path / "site.toml", client_process.STATE: tmp_path}
    for name, path in environment.items():
        monkeypatch.setitem(os.environ, name, str(path))
    with pytest.raises(SiteRefusal, match="this app has code of its own"):
        client_process.check(b"anything")
    assert verify(tmp_path / "audit" / "log.jsonl").kinds["", "error"][0] == 1
    (tmp_path / "site.toml").write_text("[rules]\nminimum_sites = 2")
    client_process.check(b"anything")
    (tmp_path / "site.toml").write_text("[rules")
    with pytest.raises(SiteRefusal, match="The file of this site cannot be read"):
        client_process.check(b"anything")
    assert verify(tmp_path / "audit" / "log.jsonl").kinds["", "error"][0] == 2
