"""Certificates and keys for a trial: a CA, a certificate for the server, a key pair for each node.

One folder for each machine, to be copied there and nowhere else::

    DIR/ca.key                                 signs further certificates; keep it off the network, or delete it
    DIR/server/ca.crt, server.crt, server.key  for the SuperLink
    DIR/server/nodes/node-0.pub, ...           the keys that it admits
    DIR/node-0/ca.crt, node.key, node.pub      for the first node
"""

import datetime
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from feddr.deploy import address

DAYS = 90
LOCAL = ("localhost", "127.0.0.1", "::1")
"""Flower's own processes reach the SuperLink by these, so they are always in its certificate."""


class Made(NamedTuple):
    """What ``make`` wrote."""

    folder: Path
    nodes: int
    hosts: tuple[str, ...]
    expires: datetime.datetime


def make(folder: Path, hosts: Sequence[str], nodes: int, days: int = DAYS) -> Made:
    """Write the certificates and keys into a new folder, readable by their owner only.

    Parameters
    ----------
    hosts
        Names and IP addresses by which nodes reach the SuperLink. Those of this machine itself are added.
    nodes
        Number of node key pairs (P-384, in OpenSSH's format, which Flower's node authentication wants).
    days
        How long they are valid. Authorities with renewal and revocation are beyond this command.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"certs needs a new or an empty folder, {folder} is not; keys are never overwritten.")
    if nodes < 1:
        raise ValueError(f"nodes must be at least 1, got {nodes}.")
    if days < 1:
        raise ValueError(f"days must be at least 1, got {days}.")
    names = tuple(dict.fromkeys([*hosts, *LOCAL]))
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    # A clock that is a little behind must not refuse a certificate made a minute ago.
    valid = (now - datetime.timedelta(days=1), now + datetime.timedelta(days=days))
    ca_key, server_key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    ca = _authority(ca_key, valid)
    server = _server(server_key, ca, ca_key, names, valid)
    ca_pem = ca.public_bytes(serialization.Encoding.PEM)
    _write(folder / "ca.key", _private(ca_key))
    _write(folder / "server/ca.crt", ca_pem)
    _write(folder / "server/server.crt", server.public_bytes(serialization.Encoding.PEM))
    _write(folder / "server/server.key", _private(server_key))
    for i in range(nodes):
        key = ec.generate_private_key(ec.SECP384R1())
        _write(folder / f"node-{i}/ca.crt", ca_pem)
        _write(folder / f"node-{i}/node.key", _private(key, serialization.PrivateFormat.OpenSSH))
        for name in (f"node-{i}/node.pub", f"server/nodes/node-{i}.pub"):
            _write(folder / name, _public(key))
    return Made(folder, nodes, names, valid[1])


def _authority(key: ec.EllipticCurvePrivateKey, valid: tuple[datetime.datetime, datetime.datetime]) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "feddr trial CA")])
    return (
        _builder(name, name, key.public_key(), valid)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(sign_certificates=True), critical=True)
        .sign(key, hashes.SHA384())
    )


def _server(
    key: ec.EllipticCurvePrivateKey,
    ca: x509.Certificate,
    ca_key: ec.EllipticCurvePrivateKey,
    names: Sequence[str],
    valid: tuple[datetime.datetime, datetime.datetime],
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "feddr SuperLink")])
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    return (
        _builder(subject, ca.subject, key.public_key(), valid)
        .add_extension(x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(sign_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(issuer_key, critical=False)
        .sign(ca_key, hashes.SHA384())
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    valid: tuple[datetime.datetime, datetime.datetime],
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(valid[0])
        .not_valid_after(valid[1])
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign_certificates,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(name: str) -> x509.GeneralName:
    number = address.ip(name)
    if number is not None:
        return x509.IPAddress(number)
    if not name or any(not (c.isascii() and (c.isalnum() or c in "-._*")) for c in name):
        raise ValueError(f"--host must be a name or an IP address without a port, got {name!r}.")
    return x509.DNSName(name)


def _private(
    key: ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat = serialization.PrivateFormat.PKCS8
) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _public(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PublicFormat.OpenSSH
    return key.public_key().public_bytes(serialization.Encoding.OpenSSH, form) + b"\n"


def _write(path: Path, content: bytes) -> None:
    """Create a file that only its owner can read; never one that is there already."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
