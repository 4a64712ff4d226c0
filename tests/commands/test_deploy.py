"""``feddr deploy``: what it refuses is reported as by every command, in one line that is safe to print."""

import json
import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import feddr
import feddr.deploy
from feddr.commands.console import FAILED, REFUSED
from feddr.commands.main import app
from feddr.history import Row
from feddr.sites import AuditLog


def test_what_is_refused_quotes_no_control_characters(tmp_path: Path) -> None:
    node = ["--superlink", "host\x1b[31m\n:9092x", "--partition", "0", "--state", str(tmp_path / "state")]
    result = CliRunner().invoke(app, ["deploy", "node", *node])
    assert result.exit_code == REFUSED
    (line,) = result.stderr.splitlines()
    assert line.startswith("feddr: ")
    assert "\x1b" not in line
    assert not any(tmp_path.iterdir())


def test_what_is_not_installed_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "feddr.deploy.certs", raising=False)
    monkeypatch.delattr(feddr.deploy, "certs", raising=False)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    result = CliRunner().invoke(app, ["deploy", "certs", str(tmp_path / "certs")])
    assert (result.exit_code, result.stderr) == (
        REFUSED,
        "feddr: cryptography is missing; pip install 'feddr[flower]'.\n",
    )


def feddr_deploy(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["deploy", *map(str, words)])
    return result.exit_code, result.stdout, result.stderr


def test_an_audit_summarises_a_log_and_fails_where_it_was_changed(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit")
    for norm in (0.5, 2.0):
        head = log.append({"kind": "train", "run": "hearts", "experiment": "", "bytes": 1200, "norm": norm})
    code, text, _ = feddr_deploy("audit", tmp_path)
    assert code == 0
    assert re.search(r"hearts +train +2 +2,400 +2 *\n", text)
    assert f"Its head is {head}" in text
    assert feddr_deploy("audit", tmp_path, "--head", head)[0] == 0
    log.path.write_bytes(log.path.read_bytes().splitlines(keepends=True)[0])
    assert feddr_deploy("audit", tmp_path)[0] == 0  # the end that is cut off is seen by its head alone
    code, _, complaint = feddr_deploy("audit", tmp_path, "--head", head)
    assert (code, "the end was cut off" in complaint) == (FAILED, True)
    log.append({"kind": "train"})
    log.path.write_bytes(log.path.read_bytes().replace(b"1200", b"1"))
    code, _, complaint = feddr_deploy("audit", tmp_path)
    assert (code, "line 1 was changed" in complaint) == (FAILED, True)


def test_an_audit_of_a_folder_from_which_nothing_has_left_is_refused(tmp_path: Path) -> None:
    code, _, complaint = feddr_deploy("audit", tmp_path)
    assert (code, "nothing has left" in complaint) == (REFUSED, True)


def test_a_run_has_a_hash_and_needs_a_server(tmp_path: Path) -> None:
    assert feddr_deploy("example", tmp_path)[0] == 0
    config = tmp_path / "experiment.toml"
    code, digest, _ = feddr_deploy("run", "--hash", config)
    assert code == 0
    assert re.fullmatch("sha256:[0-9a-f]{64}\n", digest)
    code, _, complaint = feddr_deploy("run", config)
    assert (code, complaint) == (
        REFUSED,
        "feddr: A run needs the state folder of its server, got none; give --state DIR.\n",
    )
    code, _, complaint = feddr_deploy("run", config, "--state", tmp_path)
    assert (code, "is not the state of one; start it with feddr deploy server" in complaint) == (REFUSED, True)
    config.write_text(config.read_text().replace("rounds", "round"))
    code, _, complaint = feddr_deploy("run", "--hash", config)
    assert (code, "Did you mean rounds?" in complaint) == (REFUSED, True)


@pytest.mark.parametrize(("last", "code"), [("end", 0), ("failed", FAILED)])
def test_the_exit_code_says_whether_a_run_has_ended_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: str, code: int
) -> None:
    from feddr.deploy import run as runs

    events: list[dict[str, object]] = [
        {"event": "error", "client": 2, "code": 2, "reason": "ValueError at this site"},
        {"event": "row", "round": 5, "F": 0.5, "train_accuracy": 0.75},
        {"event": "row", "round": 6, "epsilon": 2.5, "delta": 0.001},
        {"event": "stopping", "version": 6, "reason": "a further round would make epsilon 3"},
        {"event": last, "reason": "nobody was there"},
    ]
    (tmp_path / "log.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    feddr.History([Row(round=5, F=0.5)]).to_csv(tmp_path / "history.csv")
    monkeypatch.setattr(runs, "submit", lambda *_: runs.SubmittedRun(7, tmp_path, 0, tmp_path))
    ended, table, messages = feddr_deploy("run", tmp_path / "config.toml", "--state", tmp_path)
    assert ended == code
    assert "client 2, ValueError at this site" in messages
    assert "round 5: F 0.5, train accuracy 0.75" in messages
    assert "round 6: epsilon 2.5" in messages
    assert "ends after round 6, a further round would make epsilon 3" in messages
    assert ("nobody was there" in messages) is (code == FAILED)
    assert (tmp_path.name[:8] in table) is (code == 0)


def test_a_site_whose_data_do_not_fit_is_a_problem(tmp_path: Path) -> None:
    feddr_deploy("example", tmp_path)
    words = ("check", "--site", tmp_path / "chur.toml", "--config", tmp_path / "experiment.toml")
    code, text, _ = feddr_deploy(*words)
    assert (code, "60 rows with the columns ill, age, pressure, smoker" in " ".join(text.split())) == (0, True)
    rows = (tmp_path / "chur.csv").read_text()
    (tmp_path / "chur.csv").write_text(rows.replace("never", "nobody", 1))
    code, text, _ = feddr_deploy(*words)
    assert code == FAILED
    assert "column smoker must be one of" in " ".join(text.split())


def test_a_node_with_a_wrong_file_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text("[rules]\nminimal_sites = 3")
    where = ("--superlink", "127.0.0.1:8000", "--partition", 0, "--state", tmp_path / "state")
    code, _, complaint = feddr_deploy("node", *where, "--site", tmp_path / "site.toml")
    assert (code, "Did you mean minimum_sites?" in complaint) == (REFUSED, True)
    assert not (tmp_path / "state").exists()
