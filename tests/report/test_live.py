"""The server that follows a run: this machine alone, the page and its data alone."""

import http.client
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from feddr.history import History
from feddr.report.live import LiveServer
from tests.report.folders import experiment, rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return experiment(tmp_path / "run")


@pytest.fixture
def watch(folder: Path) -> Iterator[LiveServer]:
    with LiveServer([folder]) as server:
        yield server


class Answer:
    """What a server says to a request."""

    def __init__(self, watch: LiveServer, path: str, method: str = "GET", **headers: str) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", watch.port, timeout=10)
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        self.status, self.headers, self.body = answer.status, answer.headers, answer.read()
        connection.close()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def test_the_page_and_its_data_are_served(watch: LiveServer, folder: Path) -> None:
    page = Answer(watch, "/")
    assert page.status == 200
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert b"connect-src 'self'" in page.body
    data = Answer(watch, "/data.json").json
    assert [run["path"] for run in data["runs"]] == [str(folder)]
    head = Answer(watch, "/", "HEAD")
    assert (head.status, head.body) == (200, b"")


def test_new_rows_are_new_data_and_nothing_else_is(watch: LiveServer, folder: Path) -> None:
    before = Answer(watch, "/data.json").json
    same = Answer(watch, f"/data.json?state={before['state']}")
    assert (same.status, same.body) == (204, b"")
    History(rows(30)).to_csv(folder / "FedAvg" / "history.csv")
    after = Answer(watch, f"/data.json?state={before['state']}").json
    assert [one["rows"] for one in before["runs"][0]["methods"]] == [9, 9]
    assert [one["rows"] for one in after["runs"][0]["methods"]] == [9, 30]


@pytest.mark.parametrize("path", ["/config.toml", "/FedDR/history.csv", "/../run/config.toml", "//etc/passwd", "/data"])
def test_other_files_are_not_there(watch: LiveServer, path: str) -> None:
    assert Answer(watch, path).status == 404


@pytest.mark.parametrize("host", ["example.org", "127.0.0.1.example.org", "localhost", "127.0.0.1:1", "[::1]:80", ""])
def test_a_page_of_another_name_gets_nothing(watch: LiveServer, host: str) -> None:
    """A site whose name is made to lead to this machine sends its own name along, and must not read runs."""
    answer = Answer(watch, "/data.json", Host=host)
    assert (answer.status, answer.body) == (403, b"This page is for its own machine.\n")


def test_both_names_of_this_machine_are_good(watch: LiveServer) -> None:
    for name in ("127.0.0.1", "localhost"):
        assert Answer(watch, "/data.json", Host=f"{name}:{watch.port}").status == 200


def test_nothing_can_be_sent_to_it(watch: LiveServer) -> None:
    assert Answer(watch, "/", "POST").status == 501


def test_it_listens_on_loopback_alone(watch: LiveServer) -> None:
    assert watch.url == f"http://127.0.0.1:{watch.port}/"
    with pytest.raises(OSError, match=r"refused|unreachable|denied|timed out"):
        socket.create_connection(("127.0.0.2", watch.port), timeout=2)


def test_a_folder_that_cannot_be_read_for_a_moment_does_not_end_it(watch: LiveServer, folder: Path) -> None:
    config = (folder / "config.toml").read_text()
    (folder / "config.toml").write_text("name = ")
    broken = Answer(watch, "/data.json")
    assert broken.status == 503
    assert broken.body.startswith(str(folder).encode())
    (folder / "config.toml").write_text(config)
    assert Answer(watch, "/data.json").status == 200


def test_a_run_that_has_no_row_yet_can_be_followed(tmp_path: Path) -> None:
    folder = experiment(tmp_path / "run", ["a"])
    (folder / "a" / "history.csv").unlink()
    (folder / ".checkpoints").mkdir()
    with LiveServer([folder]) as watch:
        data = Answer(watch, "/data.json").json
    assert data["runs"][0]["methods"] == []
    assert data["runs"][0]["unfinished"]


def test_the_command_serves_until_ctrl_c(folder: Path) -> None:
    command = [sys.executable, "-m", "feddr", "report", "--watch", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        try:
            _, errors = process.communicate(timeout=20)
        finally:
            process.kill()
    assert line.startswith(f"Following {folder} at http://127.0.0.1:")
    assert (process.returncode, errors) == (0, "")


def test_a_port_in_use_is_refused_in_one_line(watch: LiveServer, folder: Path) -> None:
    command = [sys.executable, "-m", "feddr", "report", "--watch", str(folder), "--port", str(watch.port)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"feddr: --port {watch.port} cannot be used, ")
