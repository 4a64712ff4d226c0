"""Nothing starts without TLS and keys beyond this machine."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from feddr.commands.main import app
from feddr.deploy import address, certs, node, server
from feddr.deploy.address import Address

LOOPBACK = ["127.0.0.1", "127.8.9.1", "::1", "localhost"]
BEYOND = ["0.0.0.0", "::", "10.0.0.5", "fl.example.org", "localhost.example.org", "128.0.0.1", "::2"]


@pytest.mark.parametrize("host", LOOPBACK)
def test_plain_text_is_allowed_on_this_machine(host: str) -> None:
    assert server.security(Address(host, 8000), None) == ["--insecure"]
    assert node.security(Address(host, 8000), None, None) == ["--insecure"]


@pytest.mark.parametrize("host", BEYOND)
def test_plain_text_is_refused_beyond_it(host: str) -> None:
    with pytest.raises(ValueError, match=r"without --certs"):
        server.security(Address(host, 8000), None)
    with pytest.raises(ValueError, match=r"without --certs"):
        node.security(Address(host, 8000), None, None)


def test_with_certificates_there_is_tls_and_a_key(tmp_path: Path) -> None:
    certs.make(tmp_path / "trial", ["10.0.0.5"], nodes=1)
    for host in ("127.0.0.1", "10.0.0.5"):
        listening = server.security(Address(host, 8000), tmp_path / "trial/server")
        joining = node.security(Address(host, 8000), tmp_path / "trial/node-0", None)
        assert "--enable-supernode-auth" in listening
        assert "--ssl-certfile" in listening
        assert "--auth-supernode-private-key" in joining
        assert "--root-certificates" in joining
        assert "--insecure" not in [*listening, *joining]


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    certs.make(tmp_path / "trial", [], nodes=1)
    key = tmp_path / "trial/node-0/node.key"
    key.chmod(0o644)
    with pytest.raises(ValueError, match="chmod 600"):
        node.security(Address("10.0.0.5", 1), tmp_path / "trial/node-0", None)


def test_half_a_set_of_certificates_is_refused(tmp_path: Path) -> None:
    certs.make(tmp_path / "trial", [], nodes=1)
    with pytest.raises(ValueError, match=r"server\.crt"):
        server.security(Address("10.0.0.5", 1), tmp_path / "trial/node-0")
    with pytest.raises(ValueError, match=r"node\.key"):
        node.security(Address("10.0.0.5", 1), tmp_path / "trial/server", None)
    with pytest.raises(ValueError, match=r"without --certs"):
        node.security(Address("127.0.0.1", 1), None, tmp_path / "trial/node-0/node.key")


@pytest.mark.parametrize(
    "words",
    [
        ["server", "--host", "0.0.0.0", "--state", "STATE"],
        ["node", "--superlink", "10.0.0.5:8000", "--partition", "0", "--state", "STATE"],
        ["node", "--superlink", "10.0.0.5", "--partition", "0", "--state", "STATE"],
        ["certs", "."],
    ],
)
def test_the_command_line_refuses_in_one_line(tmp_path: Path, words: list[str]) -> None:
    state = tmp_path / "state"
    result = CliRunner().invoke(app, ["deploy", *[str(state) if word == "STATE" else word for word in words]])
    assert result.exit_code == 2
    assert result.output.count("\n") == 1
    assert result.output.startswith("feddr: ")
    assert not state.exists()


@pytest.mark.parametrize(
    "text", ["host", "host:", ":80", "host:0", "host:65536", "::1:80", "http://h:80", "h:8x", "[]:1"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        address.parse(text)


def test_addresses_read_back() -> None:
    for text in ("127.0.0.1:80", "[::1]:8000", "fl.example.org:65535"):
        assert str(address.parse(text)) == text
