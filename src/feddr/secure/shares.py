"""Shares of a secret, by Flower's code for Shamir's scheme, and how they travel: encrypted, with a digest for each."""

import hashlib
import secrets
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from flwr.common.secure_aggregation.crypto import shamir

from feddr.secure.refusal import ProtocolError

BLOCK, INDEX = 16, 4
"""Bytes that are shared at a time, and bytes of a share's number at its beginning."""

NONCE, TAG = 12, 16
DIGEST = 32


def split(secret: bytes, threshold: int, count: int) -> list[bytes]:
    """Return ``count`` shares of a secret, of which any ``threshold`` make it, and fewer say nothing of it.

    Examples
    --------
    >>> secret = secrets.token_bytes(32)
    >>> shares = split(secret, 3, 5)
    >>> combine(shares[1:4]) == secret, len(shares[0]) == length(32)
    (True, True)
    """
    return shamir.create_shares(secret, threshold, count)


def combine(shares: Sequence[bytes]) -> bytes:
    """Return the secret that shares make; ProtocolError where they make none.

    Examples
    --------
    >>> combine([split(bytes(32), 2, 3)[0]] * 2)
    Traceback (most recent call last):
    feddr.secure.refusal.ProtocolError: wrong-share: the shares make no secret
    """
    try:
        return shamir.combine_shares(list(shares))
    except ValueError:
        raise ProtocolError("wrong-share", "the shares make no secret") from None


def length(secret: int) -> int:
    """Return the bytes of a share of a secret of so many bytes: padded to whole blocks, and with its number."""
    return INDEX + BLOCK * (secret // BLOCK + 1)


def digest(info: bytes, secret: bytes) -> bytes:
    """Return what a share, or a seed, is known by before it is told: it has too many random bits to be guessed.

    Examples
    --------
    >>> digest(b"a", b"share") == digest(b"a", b"share") != digest(b"b", b"share")
    True
    """
    return hashlib.sha256(len(info).to_bytes(4, "big") + info + secret).digest()


def seal(key: bytes, info: bytes, text: bytes) -> bytes:
    """Return a text encrypted with AES-256-GCM, which can only be opened with the same key and ``info``.

    Examples
    --------
    >>> key = secrets.token_bytes(32)
    >>> unseal(key, b"0 to 1", seal(key, b"0 to 1", b"text"))
    b'text'
    >>> unseal(key, b"1 to 0", seal(key, b"0 to 1", b"text"))
    Traceback (most recent call last):
    feddr.secure.refusal.ProtocolError: wrong-share: encrypted shares were altered, or are not for this site
    """
    nonce = secrets.token_bytes(NONCE)
    return nonce + AESGCM(key).encrypt(nonce, text, info)


def unseal(key: bytes, info: bytes, sealed: bytes) -> bytes:
    """Return what was encrypted; ProtocolError where it was altered, or belongs elsewhere."""
    try:
        return AESGCM(key).decrypt(sealed[:NONCE], sealed[NONCE:], info)
    except (InvalidTag, ValueError):
        raise ProtocolError("wrong-share", "encrypted shares were altered, or are not for this site") from None
