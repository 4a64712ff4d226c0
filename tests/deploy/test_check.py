"""``feddr deploy check`` finds what is wrong, and says nothing where nothing is."""

import datetime
import http.server
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import format_datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from feddr.commands.main import app
from feddr.deploy import certs
from feddr.deploy.address import Address, free_port
from feddr.deploy.check import check, port
from feddr.deploy.check_certs import certificates
from feddr.deploy.check_link import link
from feddr.deploy.finding import Finding


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certs") / "trial"
    certs.make(folder, [], nodes=2)
    return folder


def problems(findings: Iterator[Finding]) -> dict[str, str]:
    return {finding.what: finding.observed for finding in findings if finding.verdict == "problem"}


@contextmanager
def serving(folder: Path | None, ahead: float | None = 0.0, control: int = 403) -> Iterator[Address]:
    """A server that answers as a SuperLink does; its clock is behind ours by ``ahead`` seconds, or not told."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response_only(200 if self.path == "/health" else control)
            if ahead is not None:
                now = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=ahead)
                self.send_header("Date", format_datetime(now, usegmt=True))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *words: object) -> None:
            """Keep quiet."""

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, *words: object) -> None:
            """A client that refuses the certificate is no error here."""

    with Server(("127.0.0.1", 0), Handler) as server:
        if folder is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(folder / "server/server.crt", folder / "server/server.key")
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield Address("127.0.0.1", server.server_port)
        finally:
            server.shutdown()
            thread.join()


def test_good_folders_have_no_problem(made: Path) -> None:
    assert problems(certificates(made / "server")) == {}
    assert problems(certificates(made / "node-0")) == {}


def test_a_good_superlink_has_no_problem(made: Path) -> None:
    with serving(made) as target:
        found = list(link(target, made / "node-0/ca.crt"))
    assert problems(iter(found)) == {}
    assert {finding.what for finding in found} == {"reachable", "TLS", "SuperLink", "clock", "control path"}


def test_another_ca_is_a_problem(made: Path, tmp_path: Path) -> None:
    certs.make(tmp_path / "other", [], nodes=1)
    with serving(made) as target:
        assert list(problems(link(target, tmp_path / "other/node-0/ca.crt"))) == ["TLS"]


def test_plain_text_is_a_problem_for_tls(made: Path) -> None:
    with serving(None) as target:
        assert list(problems(link(target, made / "node-0/ca.crt"))) == ["TLS"]
        assert problems(link(target, None)) == {}


@pytest.mark.parametrize(("ahead", "wrong"), [(0.0, False), (3.0, False), (8.0, True), (-200.0, False), (-400.0, True)])
def test_a_clock_is_wrong_where_signatures_would_be_refused(ahead: float, wrong: bool) -> None:
    with serving(None, ahead) as target:
        assert ("clock" in problems(link(target, None))) == wrong


def test_a_clock_that_is_not_told_is_not_measured() -> None:
    with serving(None, None) as target:
        (clock,) = (finding for finding in link(target, None) if finding.what == "clock")
    assert clock.verdict == "note"
    assert "not measured" in clock.observed


def test_nobody_there_is_a_problem() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        assert list(problems(link(Address("127.0.0.1", held.getsockname()[1]), None))) == ["reachable"]


def test_tls_is_wanted_beyond_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "create_connection", lambda *_: socket.socket())
    assert list(problems(link(Address("192.0.2.1", 80), None))) == ["TLS"]


def test_an_open_control_path_is_a_problem_beyond_this_machine() -> None:
    from feddr.deploy.check_link import _control

    assert _control(Address("192.0.2.1", 80), 404).verdict == "problem"
    assert _control(Address("192.0.2.1", 80), 403).verdict == "ok"
    assert _control(Address("127.0.0.1", 80), 404).verdict == "ok"


def test_a_used_port_is_a_problem() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        where = f"127.0.0.1:{held.getsockname()[1]}"
        assert port(where).verdict == "problem"
    assert port(where).verdict == "ok"


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda folder: (folder / "ca.crt").unlink(), "ca.crt"),
        (lambda folder: (folder / "ca.crt").write_text("no certificate"), "ca.crt"),
        (
            lambda folder: (folder / "ca.crt").write_bytes(b" " * (2**20 + 1) + (folder / "ca.crt").read_bytes()),
            "ca.crt",
        ),
        (lambda folder: (folder / "server.key").unlink(), "server key"),
        (lambda folder: (folder / "server.key").chmod(0o640), "server key"),
    ],
)
def test_a_spoilt_folder_is_a_problem(tmp_path: Path, spoil: object, what: str) -> None:
    certs.make(tmp_path / "trial", [], nodes=1)
    assert callable(spoil)
    spoil(tmp_path / "trial/server")
    assert list(problems(certificates(tmp_path / "trial/server"))) == [what]


def test_keys_and_certificates_of_two_trials_do_not_fit(tmp_path: Path) -> None:
    for name in ("one", "two"):
        certs.make(tmp_path / name, [], nodes=1)
    (tmp_path / "one/server/ca.crt").write_bytes((tmp_path / "two/server/ca.crt").read_bytes())
    (tmp_path / "one/server/server.key").write_bytes((tmp_path / "two/server/server.key").read_bytes())
    assert list(problems(certificates(tmp_path / "one/server"))) == ["chain", "server key"]


def test_a_certificate_that_ends_soon_is_noted(tmp_path: Path) -> None:
    certs.make(tmp_path / "trial", [], nodes=1, days=3)
    (ca, *_) = certificates(tmp_path / "trial/node-0")
    assert ca.verdict == "note"


def test_exit_codes(made: Path) -> None:
    listen = f"127.0.0.1:{free_port()}"
    good = CliRunner().invoke(app, ["deploy", "check", "--certs", str(made / "server"), "--listen", listen])
    assert good.exit_code == 0, good.output
    assert "problem" not in good.output
    bad = CliRunner().invoke(app, ["deploy", "check", "--certs", str(made / "nowhere")])
    assert bad.exit_code == 1
    assert "ca.crt" in bad.output


def test_this_environment_has_the_versions() -> None:
    assert problems(check()) == {}
