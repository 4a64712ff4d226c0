"""What a site does not answer, what the server does not take, and that what is in order is taken."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from feddr.secure import ProtocolError, SecureAggregation, SiteSession
from feddr.secure.keys import RoundName, SiteIdentity
from feddr.secure.notes import Advertisement, Dealt, Revealed, pinned
from tests.secure.rounds import NAME, Round, vectors

SECURE = SecureAggregation(threshold=3, bits=16)
LEVELS = vectors(5, 100)


def refused(cause: str, do: Callable[[], Any]) -> None:
    with pytest.raises(ProtocolError) as error:
        do()
    assert error.value.cause == cause, str(error.value)


def until(stage: str, size: int = 5) -> Round:
    """Return a round in which this stage comes next."""
    played = Round(SECURE, size)
    played.keys()
    if stage in ("masked", "agree", "unmask"):
        played.shares()
    if stage in ("agree", "unmask"):
        played.masked(LEVELS, lost=(4,))
    if stage == "unmask":
        played.agree()
    return played


def test_a_site_that_changes_its_key_is_refused_by_server_and_sites() -> None:
    first = Round(SECURE, 5)
    first.play(LEVELS)
    name = RoundName("hearts", "a1", 2, 2)
    second = Round(SECURE, 5, name, {**first.identities, 2: SiteIdentity.new()})
    second.keys()
    for i in (0, 1, 3, 4):
        refused("changed-key", lambda i=i: second.sites[i].deal(second.server.roster, first.pins[i]))  # type: ignore[misc]
    second.sites[0].deal(second.server.roster, {})  # who sees it for the first time trusts it
    third = Round(SECURE, 5, name, second.identities)
    third.server.pins = first.server.pins
    refused("changed-key", third.keys)
    assert sorted(third.server.advertised) == [0, 1]


def test_a_listed_site_is_trusted_and_no_other_is() -> None:
    secure = SecureAggregation(threshold=3, listed=True)
    played = Round(secure, 3)
    played.keys()
    listed = {one.client: one.identity for one in played.server.roster}
    site = played.sites[0]
    refused("changed-key", lambda: site.deal(played.server.roster, {0: listed[0], 1: listed[1]}))
    assert site.deal(played.server.roster, listed)[1] == listed


def test_two_clients_have_two_identities() -> None:
    one = SiteIdentity.new()
    sites = [SiteSession.begin(NAME, i, SECURE, one).own for i in range(2)]
    refused("changed-key", lambda: pinned({}, sites))


@pytest.mark.parametrize("field", ["cipher", "mask", "commitment", "client"])
def test_keys_that_the_server_has_changed_are_refused(field: str) -> None:
    played = until("shares")
    roster = list(played.server.roster)
    other = SiteSession.begin(NAME, 1, SECURE, SiteIdentity.new()).own
    changed: Any = {"client": 7} if field == "client" else {field: getattr(other, field)}
    roster[1] = dataclasses.replace(roster[1], **changed)
    refused("changed-key", lambda: played.sites[0].deal(sorted(roster, key=lambda one: one.client), {}))


def test_keys_of_another_round_or_run_are_refused() -> None:
    """The server shows a site the keys of an old round, whose private keys it may know."""
    for name in (RoundName("hearts", "a1", 1, 2), RoundName("hearts", "b2", 1, 1), RoundName("lungs", "a1", 1, 1)):
        played = until("shares")
        old = SiteSession.begin(name, 1, SECURE, played.identities[1]).own
        roster = [old if one.client == 1 else one for one in played.server.roster]
        refused("changed-key", lambda: played.sites[0].deal(roster, {}))  # noqa: B023
        refused("changed-key", lambda: Round(SECURE, 5).server.advertise(1, old))  # noqa: B023


def test_a_site_deals_once_and_repeats_itself_when_asked_again() -> None:
    played = until("shares")
    site, pins = played.sites[0].deal(played.server.roster, {})
    again, _ = site.deal(played.server.roster, pins)
    assert again.dealt == site.dealt
    refused("replayed", lambda: site.deal(played.server.roster[:4], pins))
    refused("changed-key", lambda: played.sites[0].deal(played.server.roster[1:], {}))
    refused("too-few", lambda: played.sites[0].deal(played.server.roster[:2], {}))


def test_shares_that_were_altered_or_are_for_another_site_are_refused() -> None:
    played = until("masked")
    server, site = played.server, played.sites[0]
    letters = server.letters(0)
    flipped = {**letters, 1: letters[1][:-1] + bytes([letters[1][-1] ^ 1])}
    swapped = {**letters, 1: letters[2], 2: letters[1]}
    for sealed in (flipped, swapped, {**letters, 1: server.letters(2)[1]}):
        refused("wrong-share", lambda sealed=sealed: site.receive(server.partners, sealed))  # type: ignore[misc]
    refused("malformed", lambda: site.receive(server.partners, {1: letters[1]}))
    refused("malformed", lambda: site.receive((1, 2, 3), {j: letters[j] for j in (1, 2, 3)}))
    refused("too-few", lambda: site.receive((0, 1), {1: letters[1]}))
    taken = site.receive(server.partners, letters)
    assert taken.receive(server.partners, letters) == taken
    refused("replayed", lambda: taken.receive((0, 1, 2), {j: letters[j] for j in (1, 2)}))


def test_a_site_masks_once() -> None:
    played = until("masked")
    site = played.sites[0].receive(played.server.partners, played.server.letters(0))
    refused("replayed", lambda: played.sites[0].mask(LEVELS[0]))
    site, _ = site.mask(LEVELS[0])
    refused("replayed", lambda: site.mask(LEVELS[0] + 1))


def test_a_site_agrees_to_one_sum() -> None:
    played = until("agree")
    site, signed, identity = played.sites[0], played.server.signed, played.identities[0]
    agreed, signature = site.agree((0, 1, 2, 3), signed, identity)
    assert agreed.agree((0, 1, 2, 3), signed, identity) == (agreed, signature)
    three = {i: signed[i] for i in (0, 1, 2)}
    refused("replayed", lambda: agreed.agree((0, 1, 2), three, identity))
    assert site.agree((0, 1, 2), three, identity)[0].survivors == (0, 1, 2)
    refused("too-few", lambda: site.agree((0, 1), {i: signed[i] for i in (0, 1)}, identity))
    refused("malformed", lambda: site.agree((1, 2, 3), {i: signed[i] for i in (1, 2, 3)}, identity))
    refused("malformed", lambda: site.agree((0, 1, 2, 9), {**three, 9: signed[3]}, identity))
    refused("malformed", lambda: site.agree((0, 1, 2, 3), three, identity))
    refused("malformed", lambda: until("masked").sites[0].agree((0, 1, 2), three, identity))


def test_a_site_agrees_only_where_all_have_the_partners_that_it_has() -> None:
    """A server that shows one site few partners, and the others that these are lost, would take all its masks off."""
    played = until("masked")
    server = played.server
    alone = played.sites[0].receive((0, 1, 2), {j: server.letters(0)[j] for j in (1, 2)})
    alone, _ = alone.mask(LEVELS[0])
    signed = {0: alone.sign_partners(played.identities[0])}
    for i in (3, 4):
        played.sites[i], _ = played.sites[i].receive(server.partners, server.letters(i)).mask(LEVELS[i])
        signed[i] = played.sites[i].sign_partners(played.identities[i])
    refused("changed-key", lambda: played.sites[3].agree((0, 3, 4), signed, played.identities[3]))
    refused("malformed", lambda: alone.agree((0, 3, 4), signed, played.identities[0]))


def test_a_site_reveals_for_the_sum_that_enough_have_agreed_to_and_never_both_shares_of_another() -> None:
    played = until("unmask")
    site, agreed = played.sites[0], played.server.agreed
    site, revealed = site.reveal(agreed)
    assert (sorted(revealed.seeds), sorted(revealed.secrets)) == ([0, 1, 2, 3], [4])
    assert site.reveal(agreed)[1] == revealed
    refused("too-few", lambda: site.reveal({i: agreed[i] for i in (0, 1)}))
    refused("too-few", lambda: site.reveal(dict.fromkeys((0, 1, 4), agreed[0])))
    refused("changed-key", lambda: site.reveal(dict.fromkeys((0, 1, 2), agreed[0])))
    refused("malformed", lambda: until("agree").sites[0].reveal(agreed))
    other = until("agree")
    three, signed = (0, 1, 2), {i: other.server.signed[i] for i in (0, 1, 2)}
    one, _ = other.sites[0].agree(three, signed, other.identities[0])
    whole = {i: other.sites[i].agree((0, 1, 2, 3), other.server.signed, other.identities[i])[1] for i in (1, 2)}
    own = one.agree(three, signed, other.identities[0])[1]
    refused("changed-key", lambda: one.reveal({0: own, **whole}))


def test_a_share_that_was_not_dealt_is_refused_and_the_right_one_counts() -> None:
    played = until("unmask")
    server = played.server
    _, right = played.sites[0].reveal(server.agreed)
    seed, secret = right.seeds[1], right.secrets[4]
    wrong = bytes([seed[0]]) + bytes([seed[1]]) + seed[2:-1] + bytes([seed[-1] ^ 1])
    refused("wrong-share", lambda: server.reveal(0, Revealed({**right.seeds, 1: wrong}, right.secrets)))
    refused("wrong-share", lambda: server.reveal(0, Revealed({**right.seeds, 1: right.seeds[2]}, right.secrets)))
    refused("wrong-share", lambda: server.reveal(0, Revealed(right.seeds, {4: secret[:-1] + b"\0"})))
    refused("malformed", lambda: server.reveal(0, Revealed(right.seeds, {})))
    assert not server.revealed
    server.reveal(0, right)
    refused("replayed", lambda: server.reveal(0, right))
    refused("replayed", lambda: server.reveal(4, right))
    played.sites.pop(0)
    for i in (1, 2):
        server.reveal(i, played.sites[i].reveal(server.agreed)[1])
    np.testing.assert_array_equal(server.total(), sum(LEVELS[i] for i in range(4)))


@pytest.mark.parametrize("which", [0, 1], ids=["seed", "private key"])
def test_a_dealer_whose_shares_make_another_secret_is_found_out(which: int) -> None:
    played = Round(SECURE, 5)
    played.keys()
    liar = 0 if which == 0 else 4
    site = played.sites[liar]
    honest = SiteSession.begin(NAME, liar, SECURE, played.identities[liar])
    swapped = {"seed": honest.secrets.seed} if which == 0 else {"mask": honest.secrets.mask}
    played.sites[liar] = dataclasses.replace(site, secrets=dataclasses.replace(site.secrets, **swapped))
    played.shares()
    played.sites[liar] = dataclasses.replace(played.sites[liar], secrets=site.secrets)
    played.masked(LEVELS, lost=(4,))
    played.agree()
    played.unmask()
    with pytest.raises(ProtocolError, match=f"client {liar}'s"):
        played.server.total()


def test_the_server_takes_one_answer_of_each_stage_from_those_it_asked() -> None:
    played = until("masked")
    site = played.sites[0].receive(played.server.partners, played.server.letters(0))
    _, masked = site.mask(LEVELS[0])
    server = played.server
    signature = site.sign_partners(played.identities[0])
    refused("malformed", lambda: server.upload(0, masked.astype(np.uint64), signature))
    refused("changed-key", lambda: server.upload(0, masked, bytes(64)))
    server.upload(0, masked, signature)
    refused("replayed", lambda: server.upload(0, masked, signature))
    refused("malformed", lambda: server.upload(1, masked[:-1], signature))
    refused("replayed", lambda: server.upload(9, masked, signature))
    refused("replayed", lambda: server.agree(0, signature))
    refused("replayed", lambda: server.advertise(1, played.server.roster[1]))


def test_what_travels_is_read_back_and_anything_else_is_refused() -> None:
    played = until("unmask")
    site = played.sites[0]
    dealt, revealed = site.dealt, site.reveal(played.server.agreed)[1]
    assert dealt is not None
    readers: list[tuple[Any, Any]] = [(Advertisement, site.own), (Dealt, dealt), (Revealed, revealed)]
    for kind, note in readers:
        travelled = json.loads(json.dumps(note.to_dict()))
        assert kind.read(travelled) == note
        for name in travelled:
            wrong: list[Any] = ["zz", None, [], -1, {"x": "00"}, {"1": ["00"]}]
            broken: list[Any] = [{**travelled, name: value} for value in wrong]
            broken.append({key: value for key, value in travelled.items() if key != name})
            broken += [[], None, {**travelled, "more": 1}]
            for value in broken:
                if value not in ({**travelled, name: {}}, travelled):
                    refused("malformed", lambda kind=kind, value=value: kind.read(value))  # type: ignore[misc]


def test_states_survive_the_disk() -> None:
    played = until("unmask")
    for site in played.sites.values():
        again = SiteSession.from_dict(json.loads(json.dumps(site.to_dict())), SECURE)
        assert again == site


def test_secrets_are_not_shown() -> None:
    played = until("unmask")
    for site in played.sites.values():
        shown = repr(site) + str(site)
        for secret in vars(site.secrets).values():
            assert repr(secret) not in shown
        assert repr(site.inbox) not in shown
    identity = SiteIdentity.new()
    assert repr(identity.secret) not in repr(identity)
