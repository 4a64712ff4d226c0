"""``feddr deploy``: what it refuses is reported as by every command, in one line that is safe to print."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import feddr.deploy
from feddr.commands.console import REFUSED
from feddr.commands.main import app


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
