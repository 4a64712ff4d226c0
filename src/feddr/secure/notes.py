"""What sites send in a secure round besides their masked vectors: keys, encrypted shares, and shares in the clear."""

from dataclasses import dataclass, fields
from typing import Any

from feddr.secure import encoding, keys, shares
from feddr.secure.keys import RoundName, SiteIdentity
from feddr.secure.refusal import ProtocolError

SECRETS = (32, keys.SCALAR)
"""Bytes of the two secrets that are shared: the seed of a site's own mask, and its private key of pairwise masks."""


@dataclass(frozen=True)
class Advertisement:
    """The keys of a site for one round, signed.

    Parameters
    ----------
    identity
        By which the site is known to others.
    cipher, mask
        Public keys of the round: for shares that travel encrypted, and for pairwise masks.
    commitment
        Digest of the seed of the site's own mask.
    """

    client: int
    identity: bytes
    cipher: bytes
    mask: bytes
    commitment: bytes
    signature: bytes = b""

    def text(self, name: RoundName) -> bytes:
        """Return what is signed."""
        return name.info("keys", self.client, self.cipher.hex(), self.mask.hex(), self.commitment.hex())

    def signed(self, name: RoundName, identity: SiteIdentity) -> "Advertisement":
        """Return the keys with the signature of the site."""
        unsigned = (self.client, identity.public, self.cipher, self.mask, self.commitment)
        return Advertisement(*unsigned, identity.sign(self.text(name)))

    def check(self, name: RoundName) -> None:
        """Refuse keys that the site has not signed for this round; ProtocolError."""
        keys.verify(self.identity, self.signature, self.text(name))

    def to_dict(self) -> dict[str, Any]:
        """Return what travels."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value.hex() if isinstance(value, bytes) else value for name, value in values.items()}

    @classmethod
    def read(cls, value: Any) -> "Advertisement":
        """Return keys that have travelled; ProtocolError where they are none."""
        sizes = {
            "identity": keys.IDENTITY,
            "cipher": keys.POINT,
            "mask": keys.POINT,
            "commitment": shares.DIGEST,
            "signature": keys.SIGNATURE,
        }
        value = encoding.record(value, "client", *sizes)
        (client,) = encoding.clients([value["client"]])
        return cls(client, *(encoding.blob(value[field], size) for field, size in sizes.items()))


@dataclass(frozen=True)
class Dealt:
    """The shares of a site's two secrets: encrypted for each partner, and a digest of each.

    Parameters
    ----------
    sealed
        For each other site of the round, what only it can open.
    digests
        For each site of the round, digests of its share of the seed and of its share of the private key.
    """

    sealed: dict[int, bytes]
    digests: dict[int, tuple[bytes, ...]]

    def to_dict(self) -> dict[str, Any]:
        """Return what travels."""
        return {"sealed": encoding.plain(self.sealed), "digests": encoding.plain(self.digests)}

    @classmethod
    def read(cls, value: Any) -> "Dealt":
        """Return shares that have travelled; ProtocolError where they are none."""
        value = encoding.record(value, "sealed", "digests")
        size = shares.NONCE + sum(map(shares.length, SECRETS)) + shares.TAG
        sealed = {j: encoding.blob(one, size) for j, one in encoding.by_client(value["sealed"]).items()}
        digests = {}
        for j, pair in encoding.by_client(value["digests"]).items():
            if not isinstance(pair, list) or len(pair) != len(SECRETS):
                raise ProtocolError("malformed", "each site has one digest for each of its two shares")
            digests[j] = tuple(encoding.blob(one, shares.DIGEST) for one in pair)
        return cls(sealed, digests)


@dataclass(frozen=True)
class Revealed:
    """The shares that a site tells at the end: for each partner one of two, never both.

    Parameters
    ----------
    seeds
        Shares of the seeds of the sites that are in the sum.
    secrets
        Shares of the private keys of the sites that are not.
    """

    seeds: dict[int, bytes]
    secrets: dict[int, bytes]

    def to_dict(self) -> dict[str, Any]:
        """Return what travels."""
        return {"seeds": encoding.plain(self.seeds), "secrets": encoding.plain(self.secrets)}

    @classmethod
    def read(cls, value: Any) -> "Revealed":
        """Return shares that have travelled; ProtocolError where they are none."""
        value = encoding.record(value, "seeds", "secrets")
        seed, secret = (shares.length(size) for size in SECRETS)
        return cls(
            {j: encoding.blob(one, seed) for j, one in encoding.by_client(value["seeds"]).items()},
            {j: encoding.blob(one, secret) for j, one in encoding.by_client(value["secrets"]).items()},
        )


def pinned(pins: dict[int, bytes], advertisements: list[Advertisement], listed: bool = False) -> dict[int, bytes]:
    """Return the identities that are pinned once these sites are trusted, too.

    Parameters
    ----------
    pins
        The identity of each site that is known.
    listed
        Whether sites that are not known are refused.

    Raises
    ------
    ProtocolError
        Where a site has another identity than the one that is pinned, or the identity of another site.

    Examples
    --------
    >>> new = Advertisement(1, bytes(32), b"", b"", b"")
    >>> pinned({}, [new]) == {1: bytes(32)}
    True
    >>> pinned({1: bytes([1] * 32)}, [new])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    feddr.secure.refusal.ProtocolError: changed-key: client 1 has another identity key than the one that is pinned...
    """
    after = dict(pins)
    for one in advertisements:
        if one.client not in after and listed:
            raise ProtocolError("changed-key", f"client {one.client} is not in this site's list of identity keys")
        if after.setdefault(one.client, one.identity) != one.identity:
            raise ProtocolError(
                "changed-key",
                f"client {one.client} has another identity key than the one that is pinned; ask its operators, and "
                "remove the old key from the list if the change is theirs",
            )
    if len(set(after.values())) < len(after):
        raise ProtocolError("changed-key", "two clients have the same identity key; each site needs its own")
    return after


def partners_text(name: RoundName, partners: tuple[int, ...]) -> bytes:
    """Return what a site signs with its masked vector: with whose masks it is masked.

    Examples
    --------
    >>> partners_text(RoundName("hearts", "a1", 3, 17), (0, 2))[-19:]
    b' "partners", "0 2"]'
    """
    return name.info("partners", _listed(partners))


def sum_text(name: RoundName, partners: tuple[int, ...], survivors: tuple[int, ...]) -> bytes:
    """Return what a site signs when it agrees to a sum: over whom, and with whose masks.

    Examples
    --------
    >>> sum_text(RoundName("hearts", "a1", 3, 17), (0, 1, 2), (0, 2))[-23:]
    b' "sum", "0 1 2", "0 2"]'
    """
    return name.info("sum", _listed(partners), _listed(survivors))


def _listed(clients: tuple[int, ...]) -> str:
    return " ".join(map(str, clients))


def signatures(value: Any) -> dict[int, bytes]:
    """Return signatures by client that have travelled; ProtocolError where they are none.

    Examples
    --------
    >>> signatures({"1": "00"})
    Traceback (most recent call last):
    feddr.secure.refusal.ProtocolError: malformed: a field must be 64 bytes in hexadecimal digits
    """
    return {j: encoding.blob(one, keys.SIGNATURE) for j, one in encoding.by_client(value).items()}


def share_infos(name: RoundName, dealer: int, holder: int) -> tuple[bytes, ...]:
    """Return what the digests of the two shares are bound to, which a dealer has made for a holder.

    Examples
    --------
    >>> [info[-22:] for info in share_infos(RoundName("hearts", "a1", 3, 17), 0, 2)]
    [b'7, "seed share", 0, 2]', b' "secret share", 0, 2]']
    """
    return tuple(name.info(what, dealer, holder) for what in ("seed share", "secret share"))
