"""Certificates: what OpenSSL and Flower accept, private, never overwritten."""

import datetime
import socket
import ssl
import stat
import threading
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from feddr.deploy import certs


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certs") / "trial"
    certs.make(folder, ["fl.example.org", "192.0.2.7"], nodes=3)
    return folder


def handshake(server: Path, ca: Path, name: str) -> None:
    """Shake hands over a socket pair; raises what a client would see."""
    here, there = socket.socketpair()
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(server / "server.crt", server / "server.key")

    def serve() -> None:
        try:
            serving.wrap_socket(there, server_side=True).close()
        except (ssl.SSLError, OSError):
            there.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        ssl.create_default_context(cafile=str(ca)).wrap_socket(here, server_hostname=name).close()
    finally:
        here.close()
        thread.join(5)


@pytest.mark.parametrize("name", ["fl.example.org", "192.0.2.7", "127.0.0.1", "localhost"])
def test_every_host_is_accepted(made: Path, name: str) -> None:
    handshake(made / "server", made / "node-1/ca.crt", name)


def test_another_host_and_another_ca_are_refused(made: Path, tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(made / "server", made / "node-0/ca.crt", "evil.example.org")
    certs.make(tmp_path / "other", ["fl.example.org"], nodes=1)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(made / "server", tmp_path / "other/node-0/ca.crt", "fl.example.org")


def test_only_the_owner_may_read_anything(made: Path) -> None:
    for path in [made, *made.rglob("*")]:
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


def test_node_keys_are_what_flower_wants(made: Path) -> None:
    keys = set()
    for i in range(3):
        private = serialization.load_ssh_private_key((made / f"node-{i}/node.key").read_bytes(), None)
        assert isinstance(private, ec.EllipticCurvePrivateKey)
        admitted = serialization.load_ssh_public_key((made / f"server/nodes/node-{i}.pub").read_bytes())
        assert private.public_key() == admitted
        keys.add((made / f"node-{i}/node.pub").read_bytes())
    assert len(keys) == 3


def test_no_node_gets_another_key_than_its_own(made: Path) -> None:
    assert sorted(path.name for path in (made / "node-0").iterdir()) == ["ca.crt", "node.key", "node.pub"]
    assert b"PRIVATE" not in b"".join(path.read_bytes() for path in (made / "server/nodes").iterdir())


def test_they_last_for_a_trial(made: Path) -> None:
    certificate = x509.load_pem_x509_certificate((made / "server/server.crt").read_bytes())
    left = certificate.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    assert datetime.timedelta(days=89) < left <= datetime.timedelta(days=90)


def test_nothing_is_overwritten(made: Path) -> None:
    before = {path: path.read_bytes() for path in made.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match="never overwritten"):
        certs.make(made, [], nodes=1)
    assert {path: path.read_bytes() for path in made.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("host", ["fl.example.org:8000", "https://x", "", "a b"])
def test_a_host_that_is_no_host_is_refused_before_anything_is_written(tmp_path: Path, host: str) -> None:
    with pytest.raises(ValueError, match="without a port"):
        certs.make(tmp_path / "trial", [host], nodes=1)
    assert not (tmp_path / "trial").exists()
