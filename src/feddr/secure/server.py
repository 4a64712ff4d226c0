"""``ServerSession``: the server's part of one secure round, from the sites' keys to the sum of their vectors."""

from collections.abc import Iterable

import numpy as np

from feddr.secure import encoding, keys, shares
from feddr.secure.keys import RoundName
from feddr.secure.notes import Advertisement, Dealt, Revealed, partners_text, pinned, share_infos, sum_text
from feddr.secure.refusal import ProtocolError
from feddr.secure.ring import Levels, Residues, Ring
from feddr.secure.settings import SecureAggregation
from feddr.secure.site import pair_seed

STAGES = ("keys", "shares", "masked", "agree", "unmask")
"""What a site is asked for, one after the other."""


class ServerSession:
    """A round on the server, which takes one answer of each site at each stage.

    Whoever has not answered when a stage is closed is no longer asked. What a site sends is checked before it is kept,
    and refused with a ``ProtocolError`` that leaves everything as it was.

    Parameters
    ----------
    name
        What the round is called.
    pins
        The identity keys of the sites that have taken part before.

    Attributes
    ----------
    stage
        What sites are asked for now: one of ``STAGES``.

    Examples
    --------
    See ``feddr.secure``.
    """

    def __init__(self, name: RoundName, secure: SecureAggregation, pins: dict[int, bytes] | None = None) -> None:
        self.name, self.secure, self.pins = name, secure, dict(pins or {})
        self.stage = STAGES[0]
        self.advertised: dict[int, Advertisement] = {}
        self.dealt: dict[int, Dealt] = {}
        self.uploads: dict[int, Residues] = {}
        self.signed: dict[int, bytes] = {}
        self.agreed: dict[int, bytes] = {}
        self.revealed: dict[int, Revealed] = {}
        self.roster: list[Advertisement] = []
        self.partners: tuple[int, ...] = ()
        self.survivors: tuple[int, ...] = ()

    @property
    def ring(self) -> Ring:
        """The ring of the masked vectors."""
        return self.secure.ring(len(self.roster))

    @property
    def answered(self) -> set[int]:
        """The clients that have answered at this stage."""
        kept = (self.advertised, self.dealt, self.uploads, self.agreed, self.revealed)
        return set(kept[STAGES.index(self.stage)])

    @property
    def asked(self) -> tuple[int, ...]:
        """The clients that may answer at this stage; at the first anybody may."""
        members = tuple(one.client for one in self.roster)
        last = tuple(sorted(self.agreed))
        return dict(zip(STAGES, ((), members, self.partners, self.survivors, last), strict=True))[self.stage]

    def advertise(self, client: int, own: Advertisement) -> None:
        """Take the keys of a site."""
        self._expect("keys", client, own.client == client)
        own.check(self.name)
        self.pins = pinned(self.pins, [own])
        self.advertised[client] = own

    def deal(self, client: int, dealt: Dealt) -> None:
        """Take the shares that a site has made for the others."""
        members = set(self.asked)
        self._expect("shares", client, set(dealt.digests) == members and set(dealt.sealed) == members - {client})
        self.dealt[client] = dealt

    def letters(self, client: int) -> dict[int, bytes]:
        """Return the encrypted shares for a site, by the partners that they come from."""
        return {j: self.dealt[j].sealed[client] for j in self.partners if j != client}

    def upload(self, client: int, masked: Residues, signature: bytes) -> None:
        """Take a masked vector, and the signature under its partners."""
        length = {len(one) for one in self.uploads.values()} or {len(masked)}
        self._expect("masked", client, masked.dtype == self.ring.dtype and {len(masked)} == length)
        keys.verify(self.advertised[client].identity, signature, partners_text(self.name, self.partners))
        self.uploads[client], self.signed[client] = masked, signature

    def agree(self, client: int, signature: bytes) -> None:
        """Take a site's signature under the sum."""
        self._expect("agree", client, True)
        text = sum_text(self.name, self.partners, self.survivors)
        keys.verify(self.advertised[client].identity, signature, text)
        self.agreed[client] = signature

    def reveal(self, client: int, revealed: Revealed) -> None:
        """Take the shares that a site tells at the end, if they are those that it was dealt."""
        gone = set(self.partners) - set(self.survivors)
        self._expect("unmask", client, set(revealed.seeds) == set(self.survivors) and set(revealed.secrets) == gone)
        for which, shown in enumerate((revealed.seeds, revealed.secrets)):
            for dealer, share in shown.items():
                info = share_infos(self.name, dealer, client)[which]
                if shares.digest(info, share) != self.dealt[dealer].digests[client][which]:
                    raise ProtocolError("wrong-share", f"client {client} has told another share than it was dealt")
        self.revealed[client] = revealed

    def enough(self) -> bool:
        """Return whether the stage could be closed now."""
        try:
            self._check(sorted(self.answered))
        except ProtocolError:
            return False
        return True

    def close(self) -> None:
        """End this stage and begin the next one, with those who have answered; ProtocolError where they are too few."""
        answered = tuple(sorted(self.answered))
        self._check(answered)
        if self.stage == "keys":
            self.roster = [self.advertised[client] for client in answered]
        elif self.stage == "shares":
            self.partners = answered
        elif self.stage == "masked":
            self.survivors = answered
        self.stage = STAGES[min(STAGES.index(self.stage) + 1, len(STAGES) - 1)]

    def total(self) -> Levels:
        """Return the sum of the survivors' vectors: whole numbers, exactly.

        Raises
        ------
        ProtocolError
            too-few, where fewer sites than the threshold have told their shares; wrong-share, where shares do not make
            the secret that their dealer has announced; malformed, where a sum is larger than honest sites can make it.
        """
        self._check(sorted(self.revealed))
        ring, length = self.ring, len(next(iter(self.uploads.values())))
        total = np.zeros(length, ring.dtype)
        for client in self.survivors:
            total = total + self.uploads[client] - ring.mask(self._seed(client), length)
        for client in set(self.partners) - set(self.survivors):
            secret = self._secret(client)
            for other in self.survivors:
                mask = ring.mask(pair_seed(self.name, client, secret, self.advertised[other]), length)
                total = total + mask if client < other else total - mask
        levels = ring.signed(total)
        most = self.secure.fixed_point().largest * len(self.survivors)
        if np.abs(levels).max(initial=0) > most:
            raise ProtocolError(
                "malformed", f"an entry of the sum is larger than {most}: a site has masked something else"
            )
        return levels

    def _seed(self, client: int) -> bytes:
        seed = shares.combine([one.seeds[client] for one in self._threshold()])
        if shares.digest(self.name.info("seed", client), seed) != self.advertised[client].commitment:
            raise ProtocolError("wrong-share", f"the shares of client {client}'s seed do not make it")
        return seed

    def _secret(self, client: int) -> bytes:
        secret = shares.combine([one.secrets[client] for one in self._threshold()])
        if keys.public(secret) != self.advertised[client].mask:
            raise ProtocolError("wrong-share", f"the shares of client {client}'s key do not make it")
        return secret

    def _threshold(self) -> list[Revealed]:
        return [self.revealed[client] for client in sorted(self.revealed)][: self.secure.threshold]

    def _expect(self, stage: str, client: int, fits: bool) -> None:
        if self.stage != stage or client in self.answered or (self.stage != "keys" and client not in self.asked):
            raise ProtocolError("replayed", f"client {client} was not asked for that, or has answered")
        if not fits:
            raise ProtocolError("malformed", f"what client {client} sent is not what its stage asks for")

    def _check(self, answered: Iterable[int]) -> None:
        """Refuse to go on with so few."""
        count = len(encoding.clients(list(answered)))
        if self.stage == "keys":
            self.secure.check_group(count)
        elif self.stage in ("shares", "masked"):
            self.secure.check_sum(count)
        elif count < self.secure.threshold:
            what = "agree to a sum" if self.stage == "agree" else "tell their shares for a sum"
            raise ProtocolError("too-few", f"{self.secure.threshold} sites must {what}, {count} have")
