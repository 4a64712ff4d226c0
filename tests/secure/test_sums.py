"""Sums of masked vectors are the plain ones, exactly, whoever is lost and when; masks hide each vector."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feddr.secure import ProtocolError, SecureAggregation
from feddr.secure.keys import RoundName
from feddr.secure.ring import Ring
from feddr.secure.site import pair_seed
from tests.secure.rounds import NAME, STAGES, Round, vectors

SECURE = SecureAggregation(threshold=3, bits=16)
FIVE = vectors(5, SECURE.fixed_point().largest)


@pytest.mark.parametrize("lost", [(), (0,), (3,), (0, 4), (1, 2)], ids=str)
@pytest.mark.parametrize("stage", STAGES)
def test_sums_are_exact_with_none_one_and_as_many_lost_as_may_be(stage: str, lost: tuple[int, ...]) -> None:
    played = Round(SECURE, 5)
    total = played.play(FIVE, {stage: lost})
    counted = [i for i in range(5) if i not in lost or stage in ("agree", "unmask")]
    np.testing.assert_array_equal(total, sum(FIVE[i] for i in counted))
    assert played.server.survivors == tuple(counted)


@settings(max_examples=15)
@given(st.data())
def test_sums_are_exact_whoever_is_lost_at_whatever_stage(data: st.DataObject) -> None:
    size = data.draw(st.integers(3, 7))
    threshold = data.draw(st.integers(size // 2 + 1, size))
    secure = SecureAggregation(threshold=threshold, bits=data.draw(st.sampled_from([8, 24, 31, 40])))
    levels = vectors(size, secure.fixed_point().largest, seed=data.draw(st.integers(0, 99)))
    order = data.draw(st.permutations(range(size)))[: size - secure.fewest]
    stages = {client: data.draw(st.sampled_from([*STAGES, "never"])) for client in order}
    lost = {stage: [i for i, when in stages.items() if when == stage] for stage in STAGES}
    total = Round(secure, size).play(levels, lost)
    counted = [i for i in range(size) if stages.get(i, "never") in ("agree", "unmask", "never")]
    np.testing.assert_array_equal(total, sum(levels[i] for i in counted))


@pytest.mark.parametrize("stage", STAGES)
def test_with_one_more_lost_than_may_be_there_is_no_sum(stage: str) -> None:
    with pytest.raises(ProtocolError, match="too-few"):
        Round(SECURE, 5).play(FIVE, {stage: (0, 2, 4)})


def test_two_sites_have_no_sum_though_the_threshold_is_two() -> None:
    secure = SecureAggregation(threshold=2)
    levels = vectors(3, 9)
    np.testing.assert_array_equal(Round(secure, 3).play(levels, {"unmask": (1,)}), sum(levels.values()))
    with pytest.raises(ProtocolError, match="at least 3 sites, got 2"):
        Round(secure, 3).play(levels, {"masked": (1,)})


def test_the_threshold_is_more_than_half() -> None:
    with pytest.raises(ProtocolError, match="more than half of the 6 sites of a round, got 3"):
        Round(SECURE, 6).play(vectors(6, 1))


def test_a_vector_that_no_honest_site_makes_is_seen_in_the_sum() -> None:
    rubbish = {**FIVE, 2: np.full(5, SECURE.fixed_point().largest * 20)}
    with pytest.raises(ProtocolError, match="a site has masked something else"):
        Round(SECURE, 5).play(rubbish)


def test_nothing_that_the_server_receives_holds_a_vector() -> None:
    """Not the vector, not its negative, not under one mask of the two kinds; a plain sum would show it."""
    played = Round(SECURE, 5)
    played.play(FIVE, {"masked": (3,)})
    arrays = [one for one in played.received if isinstance(one, np.ndarray)]
    texts = json.dumps([one for one in played.received if isinstance(one, dict)])
    ring = played.server.ring
    assert len(arrays) == 4
    for i, levels in FIVE.items():
        plain = ring.residues(levels)
        for array in arrays:
            assert not (array == plain).any(), i
        assert plain.tobytes().hex() not in texts
        for site in played.sites.values():
            assert site.secrets.seed.hex() not in texts
            assert site.secrets.mask.hex() not in texts
            assert site.secrets.cipher.hex() not in texts


def test_each_kind_of_mask_hides_a_vector_without_the_other() -> None:
    """Bonawitz's double masking: the own mask where a site was thought lost, those of pairs where it was not."""
    played = Round(SECURE, 4)
    levels = vectors(4, 100)
    played.play(levels)
    ring, site, masked = played.server.ring, played.sites[0], played.server.uploads[0]
    own = ring.mask(site.secrets.seed, 5)
    pairs = sum(ring.mask(pair_seed(NAME, 0, site.secrets.mask, one), 5) for one in played.server.roster[1:])
    plain = ring.residues(levels[0])
    np.testing.assert_array_equal(masked - own - pairs, plain)
    assert not (masked - own == plain).any()
    assert not (masked - pairs == plain).any()


def test_masks_of_two_rounds_differ_though_vectors_and_sites_are_the_same() -> None:
    first = Round(SECURE, 5)
    first.play(FIVE)
    second = Round(SECURE, 5, RoundName("hearts", "a1", 2, 2), first.identities)
    second.play(FIVE)
    for i in range(5):
        assert not (first.server.uploads[i] == second.server.uploads[i]).any()


@given(st.binary(min_size=32, max_size=32), st.sampled_from([4, 8]))
def test_masks_are_the_key_stream_of_aes(seed: bytes, word: int) -> None:
    from Crypto.Cipher import AES

    stream = AES.new(seed, AES.MODE_CTR, nonce=b"", initial_value=0).encrypt(bytes(6 * word))
    assert Ring(word).mask(seed, 6).tobytes() == stream


@given(st.lists(st.integers(-(2**30), 2**30), min_size=1), st.sampled_from([4, 8]))
def test_the_ring_gives_back_what_went_in(values: list[int], word: int) -> None:
    ring, levels = Ring(word), np.array(values)
    np.testing.assert_array_equal(ring.signed(ring.residues(levels)), levels)
    np.testing.assert_array_equal(ring.signed(ring.residues(levels) + ring.residues(-levels)), 0 * levels)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"threshold": 1}, "threshold must be at least 2"),
        ({"threshold": 2.5}, "threshold must be a whole number"),
        ({"threshold": 3, "bits": 7}, "bits must be at least 8"),
        ({"threshold": 3, "bits": 41}, "bits must be from 8 to 40, got 41"),
        ({"threshold": 3, "clip": 0.0}, "clip must be from"),
        ({"threshold": 3, "clip": float("nan")}, "clip must be from"),
        ({"threshold": 3, "listed": 1}, "listed must be True or False"),
    ],
)
def test_settings_that_cannot_be(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SecureAggregation(**arguments)  # type: ignore[arg-type]
