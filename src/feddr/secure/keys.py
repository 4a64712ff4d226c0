"""Keys of sites: an Ed25519 key for good, which signs, and two P-384 keys for each round, which are agreed upon.

Everything is from ``cryptography``; the key agreement, ECDH and HKDF, is Flower's. What is derived for a purpose goes
through HKDF once more, with the run, the round and the pair, so no secret serves twice.
"""

import base64
import binascii
import json
import secrets
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flwr.common.secure_aggregation.crypto.symmetric_encryption import generate_shared_key

from feddr.secure.refusal import ProtocolError
from feddr.secure.ring import SEED

CURVE = ec.SECP384R1()
SCALAR, POINT, IDENTITY, SIGNATURE = 48, 49, 32, 64
"""Bytes of a private key, of a public one, of an identity, and of its signature."""


@dataclass(frozen=True)
class RoundName:
    """What everything that is derived or signed in a round is bound to.

    Parameters
    ----------
    run, uid
        The run's name, and what tells it from others of its name.
    round
        Which round of the run it is.
    serial
        Grows with every attempt at a round, so that a site sees what is old.

    Examples
    --------
    >>> RoundName("hearts", "a1", 3, 17).info("mask", 0, 2)
    b'["feddr.secure", 1, "hearts", "a1", 3, 17, "mask", 0, 2]'
    """

    run: str
    uid: str
    round: int
    serial: int

    def info(self, purpose: str, *parts: int | str) -> bytes:
        """Return the context of a derivation, a signature or an encryption: nothing else has the same bytes."""
        return json.dumps(["feddr.secure", 1, self.run, self.uid, self.round, self.serial, purpose, *parts]).encode()


@dataclass(frozen=True)
class SiteIdentity:
    """The key by which a site is known to others, as long as it exists.

    Parameters
    ----------
    secret
        32 bytes that nobody else has.

    Examples
    --------
    >>> site = SiteIdentity.new()
    >>> verify(site.public, site.sign(b"text"), b"text")
    >>> verify(SiteIdentity.new().public, site.sign(b"text"), b"text")
    Traceback (most recent call last):
    feddr.secure.refusal.ProtocolError: changed-key: a signature does not fit the site's identity key
    """

    secret: bytes = field(repr=False)

    @classmethod
    def new(cls) -> "SiteIdentity":
        """Return a new identity."""
        return cls(secrets.token_bytes(IDENTITY))

    @property
    def public(self) -> bytes:
        """The public key, by which others verify and pin."""
        return self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message."""
        return self._key.sign(message)

    @property
    def _key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.secret)


def verify(public: bytes, signature: bytes, message: bytes) -> None:
    """Refuse a message that the identity has not signed; ProtocolError."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        raise ProtocolError("changed-key", "a signature does not fit the site's identity key") from None


def new_secret() -> bytes:
    """Return a new private key of a round.

    Examples
    --------
    >>> len(new_secret()), len(public(new_secret()))
    (48, 49)
    """
    return ec.generate_private_key(CURVE).private_numbers().private_value.to_bytes(SCALAR, "big")


def public(secret: bytes) -> bytes:
    """Return the public key that belongs to a private one; ProtocolError where it is none.

    Examples
    --------
    >>> secret = new_secret()
    >>> public(secret) == public(secret) != public(new_secret())
    True
    """
    return _private(secret).public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)


def agree(secret: bytes, other: bytes, info: bytes) -> bytes:
    """Return the 32 bytes that only the holders of two keys of a round can derive, for one purpose.

    Parameters
    ----------
    secret, other
        The own private key, and the public key of the other side.
    info
        ``RoundName.info`` of the purpose, the same on both sides.

    Raises
    ------
    ProtocolError
        Where ``other`` is no public key.

    Examples
    --------
    >>> a, b = new_secret(), new_secret()
    >>> agree(a, public(b), b"mask") == agree(b, public(a), b"mask") != agree(b, public(a), b"seal")
    True
    """
    try:
        point = ec.EllipticCurvePublicKey.from_encoded_point(CURVE, other)
        root = base64.urlsafe_b64decode(generate_shared_key(_private(secret), point))
    except (ValueError, binascii.Error):
        raise ProtocolError("malformed", "a key of a round must be a point of P-384") from None
    return HKDF(hashes.SHA256(), SEED, salt=None, info=info).derive(root)


def _private(secret: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        return ec.derive_private_key(int.from_bytes(secret, "big"), CURVE)
    except ValueError:
        raise ProtocolError("wrong-share", "what the shares make is no private key of P-384") from None
