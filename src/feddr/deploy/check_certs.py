"""Checks of certificates and keys: present, readable by their owner only, signed by the CA, not expired."""

import datetime
from collections.abc import Iterator
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from feddr.deploy.finding import Finding
from feddr.storage import limits, untrusted

MAKE = "feddr deploy certs"
SOON = datetime.timedelta(days=14)


def certificates(folder: Path) -> Iterator[Finding]:
    """Look at what a server's folder or a node's folder holds."""
    ca = _load(folder / "ca.crt")
    if isinstance(ca, Finding):
        yield ca
        return
    yield _validity("CA", ca)
    if (folder / "node.key").exists():
        yield _node_key(folder / "node.key")
    elif not (folder / "server.crt").exists():
        yield Finding("keys", "problem", f"neither node.key nor server.crt in {folder}", MAKE)
    if (folder / "server.crt").exists():
        server = _load(folder / "server.crt")
        yield from [server] if isinstance(server, Finding) else _server(server, ca, folder / "server.key")
        keys = sorted(path.stem for path in (folder / "nodes").glob("*.pub"))
        yield Finding("node keys", "ok" if keys else "note", ", ".join(keys) or "none", "" if keys else MAKE)


def _server(server: x509.Certificate, ca: x509.Certificate, key: Path) -> Iterator[Finding]:
    yield _validity("server certificate", server)
    try:
        server.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        yield Finding("chain", "problem", "server.crt is not signed by ca.crt", MAKE)
    else:
        yield Finding("chain", "ok", f"server.crt is signed by {ca.subject.rfc4514_string()}")
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    yield Finding("host names", "ok", ", ".join(str(name.value) for name in names))
    if not key.exists():
        yield Finding("server key", "problem", f"no {key}", MAKE)
        return
    try:
        private = serialization.load_pem_private_key(untrusted.read(key, limits.CONFIG), None)
        same = private.public_key() == server.public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        same = False
    yield _privacy("server key", key) if same else Finding("server key", "problem", "not the certificate's key", MAKE)


def _node_key(path: Path) -> Finding:
    try:
        key = serialization.load_ssh_private_key(untrusted.read(path, limits.CONFIG), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return Finding("node key", "problem", f"{path} is not a key in OpenSSH's format", MAKE)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        return Finding("node key", "problem", f"{path} is not an elliptic-curve key", MAKE)
    return _privacy("node key", path)


def _privacy(what: str, path: Path) -> Finding:
    if path.stat().st_mode & 0o077:
        return Finding(what, "problem", f"others may read {path}", f"chmod 600 {path}")
    return Finding(what, "ok", f"{path}, private")


def _validity(what: str, certificate: x509.Certificate) -> Finding:
    now, end = datetime.datetime.now(datetime.UTC), certificate.not_valid_after_utc
    if now < certificate.not_valid_before_utc:
        return Finding(
            what, "problem", f"valid from {certificate.not_valid_before_utc:%d %B %Y}", "set the clock right"
        )
    if end < now:
        return Finding(what, "problem", f"expired on {end:%d %B %Y}", MAKE)
    return Finding(
        what, "note" if end - now < SOON else "ok", f"until {end:%d %B %Y}", MAKE if end - now < SOON else ""
    )


def _load(path: Path) -> x509.Certificate | Finding:
    try:
        return x509.load_pem_x509_certificate(untrusted.read(path, limits.CONFIG))
    except OSError as error:
        return Finding(path.name, "problem", f"{path}: {error.strerror}", MAKE)
    except ValueError:
        return Finding(path.name, "problem", f"{path} is not a certificate", MAKE)
