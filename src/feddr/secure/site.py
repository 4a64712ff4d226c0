"""``SiteSession``: one site's part of one secure round, as states from the first message to the last.

The states are values: each step returns the next one, which the caller writes to disk before it answers. A step that is
asked for again in the same way gives the same answer; asked in another way it is refused, since two answers could tell
together what none tells alone.
"""

import dataclasses
import secrets
from dataclasses import dataclass, field
from typing import Any

from feddr.secure import encoding, keys, shares
from feddr.secure.keys import RoundName, SiteIdentity
from feddr.secure.notes import SECRETS, Advertisement, Dealt, Revealed, partners_text, pinned, share_infos, sum_text
from feddr.secure.refusal import ProtocolError
from feddr.secure.ring import SEED, Levels, Residues
from feddr.secure.settings import SecureAggregation


@dataclass(frozen=True)
class RoundSecrets:
    """What a site makes for one round and keeps to itself: two private keys, and the seed of its own mask."""

    cipher: bytes = field(repr=False)
    mask: bytes = field(repr=False)
    seed: bytes = field(repr=False)


@dataclass(frozen=True)
class SiteSession:
    """A site in a round.

    Parameters
    ----------
    own
        The keys that it has advertised.
    roster
        The keys of all sites of the round, once they are known.
    dealt
        What it has sent of its shares, and its share of its own secrets.
    partners
        The sites with whose masks its vector is masked.
    inbox
        The two shares that it has of each partner's secrets.
    masked
        Whether it has masked a vector; it does so once.
    survivors
        The sites that it has agreed to a sum over; it does so once.
    revealed
        Whether it has told its shares for that sum.

    Examples
    --------
    See ``feddr.secure``.
    """

    name: RoundName
    secure: SecureAggregation
    own: Advertisement
    secrets: RoundSecrets
    roster: tuple[Advertisement, ...] = ()
    dealt: Dealt | None = None
    partners: tuple[int, ...] = ()
    inbox: dict[int, tuple[bytes, ...]] = field(default_factory=dict, repr=False)
    masked: bool = False
    survivors: tuple[int, ...] = ()
    revealed: bool = False

    @classmethod
    def begin(cls, name: RoundName, client: int, secure: SecureAggregation, identity: SiteIdentity) -> "SiteSession":
        """Return the state of a site that has made its keys for a round; ``own`` is what it sends."""
        made = RoundSecrets(keys.new_secret(), keys.new_secret(), secrets.token_bytes(SEED))
        commitment = shares.digest(name.info("seed", client), made.seed)
        public = (keys.public(made.cipher), keys.public(made.mask))
        return cls(name, secure, Advertisement(client, b"", *public, commitment).signed(name, identity), made)

    @property
    def client(self) -> int:
        """The client whose site it is."""
        return self.own.client

    def deal(self, roster: list[Advertisement], pins: dict[int, bytes]) -> tuple["SiteSession", dict[int, bytes]]:
        """Share the secrets of the round with its sites; ``dealt`` is what it sends.

        Parameters
        ----------
        roster
            The keys of all sites of the round, in the order of clients.
        pins
            The identities that this site knows.

        Returns
        -------
        The next state, and the identities to be pinned from now on.
        """
        known = pinned(pins, roster, self.secure.listed)
        if self.dealt is not None:
            if tuple(roster) != self.roster:
                raise ProtocolError("replayed", "the shares of this round went to other sites already")
            return self, known
        members = encoding.clients([one.client for one in roster])
        self.secure.check_group(len(members))
        if self.own not in roster:
            raise ProtocolError("changed-key", "this site's own keys are not among those of the round")
        for one in roster:
            one.check(self.name)
        pairs = self._shares(len(members))
        digests, sealed = {}, {}
        for one, pair in zip(roster, pairs, strict=True):
            infos = share_infos(self.name, self.client, one.client)
            digests[one.client] = tuple(shares.digest(info, share) for info, share in zip(infos, pair, strict=True))
            if one.client != self.client:
                letter = self.name.info("shares", self.client, one.client)
                sealed[one.client] = shares.seal(self._cipher(one), letter, b"".join(pair))
        kept = {self.client: pairs[members.index(self.client)]}
        return dataclasses.replace(self, roster=tuple(roster), dealt=Dealt(sealed, digests), inbox=kept), known

    def receive(self, partners: tuple[int, ...], sealed: dict[int, bytes]) -> "SiteSession":
        """Take the shares of the partners, with whom the vector will be masked."""
        if self.dealt is None:
            raise ProtocolError("malformed", "shares arrive before this site has dealt its own")
        if self.partners:
            if partners != self.partners:
                raise ProtocolError("replayed", "this site has other partners in this round already")
            return self
        self.secure.check_sum(len(partners))
        if not {self.client} <= set(partners) <= {one.client for one in self.roster}:
            raise ProtocolError("malformed", "the partners must be sites of the round, and this site among them")
        if set(sealed) != set(partners) - {self.client}:
            raise ProtocolError("malformed", "each partner must have sent its shares, and nobody else")
        inbox = dict(self.inbox)
        for one in self.roster:
            if one.client in sealed:
                letter = self.name.info("shares", one.client, self.client)
                text = shares.unseal(self._cipher(one), letter, sealed[one.client])
                first = shares.length(SECRETS[0])
                inbox[one.client] = (text[:first], text[first:])
        return dataclasses.replace(self, partners=partners, inbox=inbox)

    def sign_partners(self, identity: SiteIdentity) -> bytes:
        """Return the signature that goes with the masked vector: that the partners are those of this site."""
        return identity.sign(partners_text(self.name, self.partners))

    def mask(self, levels: Levels) -> tuple["SiteSession", Residues]:
        """Return the vector under the site's own mask and those of all pairs; it does so once in a round."""
        if not self.partners or self.masked:
            raise ProtocolError("replayed", "a site masks one vector in a round, once it has its partners")
        ring = self.secure.ring(len(self.roster))
        masked = ring.residues(levels) + ring.mask(self.secrets.seed, len(levels))
        for one in self.roster:
            if one.client in self.partners and one.client != self.client:
                seed = pair_seed(self.name, self.client, self.secrets.mask, one)
                mask = ring.mask(seed, len(levels))
                masked = masked + mask if self.client < one.client else masked - mask
        return dataclasses.replace(self, masked=True), masked

    def agree(
        self, survivors: tuple[int, ...], signed: dict[int, bytes], identity: SiteIdentity
    ) -> tuple["SiteSession", bytes]:
        """Agree to a sum, once in a round, if all in it were masked with the same partners.

        Without this a server could tell each site of other partners and survivors, until the masks of one cancel.

        Parameters
        ----------
        survivors
            The sites in the sum.
        signed
            What each of them has signed with its vector, ``sign_partners``.

        Returns
        -------
        The next state, and the signature under the sum.
        """
        if not self.masked:
            raise ProtocolError("malformed", "a sum is asked for before this site has masked anything")
        if self.survivors and survivors != self.survivors:
            raise ProtocolError("replayed", "this site has agreed to another sum of this round")
        self.secure.check_sum(len(survivors))
        if not {self.client} <= set(survivors) <= set(self.partners) or set(signed) != set(survivors):
            raise ProtocolError("malformed", "the survivors must be partners, this site and a signature of each")
        self._verify(signed, partners_text(self.name, self.partners))
        agreed = dataclasses.replace(self, survivors=survivors)
        return agreed, identity.sign(sum_text(self.name, self.partners, survivors))

    def reveal(self, signed: dict[int, bytes]) -> tuple["SiteSession", Revealed]:
        """Return what the server needs for the sum that was agreed to, and for no other sum.

        Parameters
        ----------
        signed
            What sites have signed when they agreed: as many as the threshold, so that there is no second such sum.
        """
        if not self.survivors:
            raise ProtocolError("malformed", "shares are asked for before this site has agreed to a sum")
        if not set(signed) <= set(self.survivors) or len(signed) < self.secure.threshold:
            raise ProtocolError("too-few", f"{self.secure.threshold} survivors must have agreed to a sum")
        self._verify(signed, sum_text(self.name, self.partners, self.survivors))
        seeds = {j: self.inbox[j][0] for j in self.survivors}
        others = {j: self.inbox[j][1] for j in self.partners if j not in self.survivors}
        return dataclasses.replace(self, revealed=True), Revealed(seeds, others)

    def _verify(self, signed: dict[int, bytes], text: bytes) -> None:
        """Refuse signatures that are not those of sites of this round under the same text."""
        identities = {one.client: one.identity for one in self.roster}
        for client, signature in signed.items():
            keys.verify(identities[client], signature, text)

    def _shares(self, count: int) -> list[tuple[bytes, ...]]:
        """Return two shares for each site: of the seed, and of the private key of pairwise masks."""
        own = (self.secrets.seed, self.secrets.mask)
        return list(zip(*(shares.split(one, self.secure.threshold, count) for one in own), strict=True))

    def _cipher(self, other: Advertisement) -> bytes:
        pair = sorted((self.client, other.client))
        return keys.agree(self.secrets.cipher, other.cipher, self.name.info("cipher", *pair))

    def to_dict(self) -> dict[str, Any]:
        """Return the state as JSON has it; it holds secrets."""
        return {
            "name": dataclasses.asdict(self.name),
            "own": self.own.to_dict(),
            "secrets": {key: value.hex() for key, value in vars(self.secrets).items()},
            "roster": [one.to_dict() for one in self.roster],
            "dealt": None if self.dealt is None else self.dealt.to_dict(),
            "partners": list(self.partners),
            "inbox": encoding.plain(self.inbox),
            "masked": self.masked,
            "survivors": list(self.survivors),
            "revealed": self.revealed,
        }

    @classmethod
    def from_dict(cls, value: dict[str, Any], secure: SecureAggregation) -> "SiteSession":
        """Return the state that ``to_dict`` wrote."""
        return cls(
            RoundName(**value["name"]),
            secure,
            Advertisement.read(value["own"]),
            RoundSecrets(**{key: bytes.fromhex(text) for key, text in value["secrets"].items()}),
            tuple(Advertisement.read(one) for one in value["roster"]),
            None if value["dealt"] is None else Dealt.read(value["dealt"]),
            tuple(value["partners"]),
            {int(j): tuple(bytes.fromhex(one) for one in pair) for j, pair in value["inbox"].items()},
            value["masked"],
            tuple(value["survivors"]),
            value["revealed"],
        )


def pair_seed(name: RoundName, client: int, secret: bytes, other: Advertisement) -> bytes:
    """Return the seed of the mask of a pair of sites, given the private key of one and the public key of the other."""
    return keys.agree(secret, other.mask, name.info("mask", *sorted((client, other.client))))
