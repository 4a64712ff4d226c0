"""Secure rounds in memory, in which sites are lost at each stage."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from feddr.secure import SecureAggregation, ServerSession, SiteSession
from feddr.secure.keys import RoundName, SiteIdentity
from feddr.secure.notes import Advertisement, Dealt, Revealed
from feddr.secure.ring import Levels

NAME = RoundName("hearts", "a1", 1, 1)
STAGES = ("keys", "shares", "masked", "agree", "unmask")


@dataclass
class Round:
    """A server and its sites; everything that the server receives is kept."""

    secure: SecureAggregation
    size: int
    name: RoundName = NAME
    identities: dict[int, SiteIdentity] = field(default_factory=dict)
    received: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.server = ServerSession(self.name, self.secure)
        self.sites: dict[int, SiteSession] = {}
        self.pins: dict[int, dict[int, bytes]] = {i: {} for i in range(self.size)}

    def keys(self, lost: Collection[int] = ()) -> None:
        for i in range(self.size):
            identity = self.identities.setdefault(i, SiteIdentity.new())
            if i not in lost:
                self.sites[i] = SiteSession.begin(self.name, i, self.secure, identity)
                self.server.advertise(i, Advertisement.read(self.keep(self.sites[i].own.to_dict())))
        self.server.close()

    def shares(self, lost: Collection[int] = ()) -> None:
        for i in self.left(lost):
            self.sites[i], self.pins[i] = self.sites[i].deal(self.server.roster, self.pins[i])
            dealt = self.sites[i].dealt
            assert dealt is not None
            self.server.deal(i, Dealt.read(self.keep(dealt.to_dict())))
        self.server.close()

    def masked(self, levels: Mapping[int, Levels], lost: Collection[int] = ()) -> None:
        for i in self.left(lost):
            site = self.sites[i].receive(self.server.partners, self.server.letters(i))
            self.sites[i], masked = SiteSession.from_dict(site.to_dict(), self.secure).mask(levels[i])
            self.server.upload(i, self.keep(masked), self.sites[i].sign_partners(self.identities[i]))
        self.server.close()

    def agree(self, lost: Collection[int] = ()) -> None:
        for i in self.left(lost):
            self.sites[i], signature = self.sites[i].agree(
                self.server.survivors, self.server.signed, self.identities[i]
            )
            self.server.agree(i, signature)
        self.server.close()

    def unmask(self, lost: Collection[int] = ()) -> None:
        for i in self.left(lost):
            self.sites[i], revealed = self.sites[i].reveal(self.server.agreed)
            self.server.reveal(i, Revealed.read(self.keep(revealed.to_dict())))

    def play(self, levels: Mapping[int, Levels], lost: Mapping[str, Collection[int]] | None = None) -> Levels:
        """Return the sum that the server comes to, when so many are lost at the stages."""
        gone = lost or {}
        self.keys(gone.get("keys", ()))
        self.shares(gone.get("shares", ()))
        self.masked(levels, gone.get("masked", ()))
        self.agree(gone.get("agree", ()))
        self.unmask(gone.get("unmask", ()))
        return self.server.total()

    def left(self, lost: Collection[int]) -> list[int]:
        return [i for i in self.server.asked if i not in lost]

    def keep(self, message: Any) -> Any:
        self.received.append(message)
        return message


def vectors(size: int, largest: int, length: int = 5, seed: int = 0) -> dict[int, Levels]:
    """Return a vector of each site, with the largest and the least number that there can be."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(-largest, largest, (size, length), endpoint=True)
    drawn[:, 0], drawn[:, 1] = largest, -largest
    return dict(enumerate(drawn))
