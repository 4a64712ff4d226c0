"""Compressors: decoding gives what was compressed, to the last bit, in as many bytes as said, and it contracts."""

import math
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from feddr.compress import (
    Compressor,
    EncodingError,
    Nonzero,
    Quantised,
    RandomK,
    Rounded,
    TopK,
    feedback,
    quantised,
    sparse,
)
from feddr.compress import bits as packing

COMPRESSORS: list[Compressor] = [
    Quantised(2),
    Quantised(3, block=5),
    Quantised(4),
    Quantised(8, block=7),
    Quantised(16),
    Quantised(4, stochastic=True),
    TopK(0.01),
    TopK(0.3),
    TopK(1.0),
    TopK(0.3, Quantised(4)),
    RandomK(0.2),
    RandomK(0.5, Quantised(6, block=4)),
    Rounded("float16"),
    Rounded("bfloat16"),
    Nonzero(),
    Nonzero(Rounded("float16")),
    Nonzero(Quantised(8)),
    TopK(0.5, Quantised(3, stochastic=True)),
]
RANDOM = [one for one in COMPRESSORS if one.random]
SURE = [one for one in COMPRESSORS if one not in RANDOM]
EACH = pytest.mark.parametrize("compressor", COMPRESSORS, ids=str)
Upload = dict[str, NDArray[np.floating]]


@st.composite
def uploads(draw: st.DrawFn) -> Upload:
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    shapes = draw(st.lists(arrays.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=6), min_size=1, max_size=3))
    numbers = st.floats(-(2.0**90), 2.0**90, width=32, allow_subnormal=False)
    return {str(k): draw(arrays.arrays(dtype, shape, elements=numbers)) for k, shape in enumerate(shapes)}


@EACH
@settings(max_examples=25)
@given(upload=uploads(), key=st.integers(0, 2**64 - 1))
def test_decoding_gives_what_was_compressed_in_as_many_bytes_as_said(
    compressor: Compressor, upload: Upload, key: int
) -> None:
    message = compressor.encode(upload, key)
    assert len(message) == compressor.num_bytes(upload)
    decoded, compressed = compressor.decode(message, upload), compressor.compress(upload, key)
    for name, leaf in upload.items():
        assert decoded[name].dtype == compressed[name].dtype == leaf.dtype
        assert decoded[name].shape == leaf.shape
        assert decoded[name].tobytes() == compressed[name].tobytes()


@pytest.mark.parametrize("compressor", SURE, ids=str)
@settings(max_examples=25)
@given(upload=uploads())
def test_what_is_left_out_is_at_most_the_share_that_is_promised(compressor: Compressor, upload: Upload) -> None:
    upload = {name: leaf.astype(np.float64) for name, leaf in upload.items()}
    sent = compressor.compress(upload)
    left = sum(float(np.sum((leaf - sent[name]) ** 2)) for name, leaf in upload.items())
    whole = sum(float(np.sum(leaf**2)) for leaf in upload.values())
    assert left <= (1.0 - compressor.contraction(upload)) * whole * (1 + 1e-12) + 1e-25 * whole


@pytest.mark.parametrize("compressor", RANDOM, ids=str)
def test_so_is_the_mean_of_what_random_choices_leave_out(compressor: Compressor) -> None:
    """Over 2,000 draws, on a vector with entries of many sizes, within five standard errors."""
    upload = np.random.default_rng(1).normal(size=40) * np.logspace(-3, 0, 40)
    lost = np.array([float(np.sum((upload - compressor.compress(upload, key)) ** 2)) for key in range(2000)])
    most = (1.0 - compressor.contraction(upload)) * float(np.sum(upload**2))
    assert lost.mean() <= most + 5 * lost.std() / np.sqrt(len(lost))


def test_random_rounding_is_right_on_average_up_to_its_scaling() -> None:
    compressor, upload = Quantised(3, stochastic=True), np.array([0.9, 0.1, -0.4, 0.02])
    mean = np.mean([compressor.compress(upload, key) for key in range(5000)], axis=0)
    np.testing.assert_allclose(mean / compressor.contraction(upload), upload, atol=0.02)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_each_number_is_rounded_up_as_often_as_its_fraction_says(dtype: Any) -> None:
    """Over 100,003 numbers, within five standard errors; whole numbers stay what they are."""
    for whole, fraction in ((-3.0, 0.25), (0.0, 1 / 3), (5.0, 0.9)):
        levels = np.full(100_003, whole + fraction, dtype)
        found = quantised._rounded_at_random(levels, draw=1)
        assert found.dtype == dtype
        assert set(found.tolist()) == {whole, whole + 1}
        assert abs(found.mean(dtype=np.float64) - levels[0]) < 5 * np.sqrt(fraction * (1 - fraction) / len(levels))
    exact = np.arange(-7, 8).astype(dtype)
    assert all(quantised._rounded_at_random(exact, draw).tolist() == exact.tolist() for draw in range(100))


@pytest.mark.parametrize("share", [0.25, 0.75])
def test_random_positions_are_fair_and_follow_from_the_key(share: float) -> None:
    """Also every pair of positions is as likely as any other."""
    compressor, upload, k = RandomK(share), np.ones(8), int(8 * share)
    sent = np.array([compressor.compress(upload, key) for key in range(2000)])
    assert (sent.sum(axis=1) == k).all()
    np.testing.assert_allclose(sent.mean(axis=0), share, atol=5 * np.sqrt(share * (1 - share) / 2000))
    both, pairs = k * (k - 1) / (8 * 7), (sent.T @ sent / 2000)[np.triu_indices(8, 1)]
    np.testing.assert_allclose(pairs, both, atol=5 * np.sqrt(both * (1 - both) / 2000))
    assert compressor.compress(upload, 3).tolist() == sent[3].tolist()


@pytest.mark.parametrize(("size", "count"), [(1, 0), (2, 1), (9, 4), (40, 20), (1000, 100), (1000, 500)])
def test_random_positions_are_the_first_distinct_ones_of_a_stream(size: int, count: int) -> None:
    """Of as many as it takes, which is sometimes more than are drawn at first."""
    for key in range(60):
        stream = (int(raw) >> 11 for raw in np.random.PCG64(key).random_raw(64 * size))
        distinct = list(dict.fromkeys(int(float(top) * (size * 2.0**-53)) for top in stream))
        assert sparse._first_distinct(size, count, key).tolist() == distinct[:count]


@EACH
def test_a_draw_makes_a_difference_where_choices_are_random_and_nowhere_else(compressor: Compressor) -> None:
    upload = np.random.default_rng(0).normal(size=200)
    found = {compressor.compress(upload, draw).tobytes() for draw in range(5)}
    assert len(found) == (5 if compressor.random else 1)


@EACH
def test_feedback_sends_everything_in_time(compressor: Compressor) -> None:
    """|target - counted|^2 shrinks by 1 - delta in each step, on average."""
    rng = np.random.default_rng(0)
    target = {"weight": rng.normal(size=(4, 5)), "bias": rng.normal(size=3)}
    counted = {"weight": np.zeros((4, 5)), "bias": np.zeros(3)}
    for key in range(1000):
        counted = feedback(compressor, target, counted, key)
    for name, leaf in target.items():
        np.testing.assert_allclose(counted[name], leaf, atol=1e-12)


def test_without_a_compressor_the_target_is_counted() -> None:
    target = np.ones(3)
    assert feedback(None, target, np.zeros(3)) is target


@EACH
def test_damage_and_truncation_are_refused(compressor: Compressor) -> None:
    upload = np.random.default_rng(0).normal(size=50).astype(np.float32)
    message = compressor.encode(upload, 5)
    for wrong in (b"", message[:-1], message + b"\0"):
        with pytest.raises(EncodingError, match="bytes, got"):
            compressor.decode(wrong, upload)
    for place in range(len(message)):
        damaged = bytearray(message)
        damaged[place] ^= 16
        with pytest.raises(EncodingError):
            compressor.decode(bytes(damaged), upload)


def _forged(compressor: Compressor, payload: bytes) -> bytes:
    return b"fdc" + bytes([compressor.kind]) + zlib.crc32(payload).to_bytes(4, "little") + payload


@pytest.mark.parametrize(
    ("compressor", "payload", "reason"),
    [
        (Quantised(4), np.array([np.nan], np.float32).tobytes() + b"\x77\x70", "scales"),
        (Quantised(4), np.array([-1.0], np.float32).tobytes() + b"\x77\x70", "scales"),
        (Quantised(4), np.array([1.0], np.float32).tobytes() + b"\xff\xf0", "at most 14"),
        (TopK(0.5), b"\xf0" + np.zeros(2, np.float32).tobytes(), "positions"),
        (TopK(0.5), b"\x10" + np.array([np.inf, 0.0], np.float32).tobytes(), "finite"),
    ],
    ids=str,
)
def test_messages_with_a_right_checksum_and_wrong_contents_are_refused(
    compressor: Compressor, payload: bytes, reason: str
) -> None:
    size = 3 if isinstance(compressor, Quantised) else 4
    with pytest.raises(EncodingError, match=reason):
        compressor.decode(_forged(compressor, payload), np.zeros(size, np.float32))


def test_another_compressor_of_the_same_length_is_refused() -> None:
    upload = np.zeros(16, np.float32)
    message = bytearray(Quantised(4).encode(upload))
    message[3] = 2
    with pytest.raises(EncodingError, match="begins with"):
        Quantised(4).decode(bytes(message), upload)


def test_a_message_of_the_version_with_other_random_positions_is_refused() -> None:
    upload = np.ones(16, np.float32)
    message = bytearray(RandomK(0.5).encode(upload))
    message[3] = 3
    with pytest.raises(EncodingError, match="begins with"):
        RandomK(0.5).decode(bytes(message), upload)


def test_an_upload_that_is_not_finite_is_refused_by_the_encoder_and_kept_by_the_simulation() -> None:
    """A simulation finds the client that sent a NaN by looking at what arrived."""
    upload = np.array([1.0, np.nan, 2.0])
    with pytest.raises(ValueError, match="NaN or an infinity"):
        Quantised(4).encode(upload)
    for compressor in COMPRESSORS:
        assert np.isnan(compressor.compress(upload)).tolist() == [False, True, False]


@given(count=st.integers(0, 30), bits=st.integers(1, 40), seed=st.integers(0, 100))
def test_packed_numbers_come_back(count: int, bits: int, seed: int) -> None:
    numbers = np.random.default_rng(seed).integers(0, 2**bits, count, dtype=np.uint64)
    packed = packing.pack(numbers, bits)
    digits = "".join(f"{number:0{bits}b}" for number in numbers.tolist())
    digits += "0" * (-len(digits) % 8)
    assert packed == bytes(int(digits[k : k + 8], 2) for k in range(0, len(digits), 8))
    assert len(packed) == packing.num_bytes(count, bits)
    assert packing.unpack(packed, count, bits).tolist() == numbers.tolist()


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Quantised(1), "bits must be"),
        (lambda: Quantised(17), "from 2 to 16, got 17"),
        (lambda: Quantised(4, block=0), "block must be"),
        (lambda: TopK(0.0), r"share must be in \(0, 1\], got 0"),
        (lambda: RandomK(1.5), r"share must be in \(0, 1\], got 1.5"),
    ],
)
def test_settings_out_of_range_are_refused(make: Callable[[], Compressor], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        make()


@pytest.mark.parametrize(("to", "digits"), [("float16", 11), ("bfloat16", 8)])
@given(x=arrays.arrays(np.float32, st.integers(1, 30), elements=st.floats(-(2.0**100), 2.0**100, width=32)))
def test_rounding_keeps_the_digits_of_each_number(to: Any, digits: int, x: NDArray[np.float32]) -> None:
    """Up to half a unit in the last of them, but for numbers 2^-29 times as large as the largest, or subnormal."""
    wide = x.astype(np.float64)
    error = np.abs(Rounded(to).compress(x).astype(np.float64) - wide)
    least = max(2.0**-39 * float(np.abs(wide).max()), 2.0**-149)
    assert (error <= np.maximum(2.0**-digits * np.abs(wide), least)).all()


def test_zeros_are_left_out_in_the_form_that_takes_least() -> None:
    rng = np.random.default_rng(0)
    for share, positions in ((0.0, 0), (0.01, None), (0.3, 10_000 // 8), (1.0, 0)):
        x = np.where(rng.random(10_000) < share, rng.normal(size=10_000), 0.0).astype(np.float32)
        count = int(np.count_nonzero(x))
        where = -(-count * 14 // 8) if positions is None else positions
        assert Nonzero().num_bytes(x) == 8 + 4 + where + 4 * count
        assert Nonzero(Rounded()).num_bytes(x) == 8 + 4 + where + 2 * count + 4 * bool(count)
        assert Nonzero().compress(x).tobytes() == x.tobytes()
    assert np.signbit(Nonzero().compress(np.array([0.0, -0.0, 0.0, 1.0]))).tolist() == [False, True, False, False]


def test_a_message_without_zeros_is_as_long_as_a_plain_one() -> None:
    x = np.ones(100, np.float32)
    x[:3] = 0.0
    assert Nonzero().num_bytes(x) == Nonzero().most_bytes(x) == 8 + 4 + 400
    assert Nonzero().decode(Nonzero().encode(x), np.zeros_like(x)).tobytes() == x.tobytes()


def test_numbers_that_cannot_be_are_refused() -> None:
    x = np.array([1.0, 0.0, 2.0], np.float32)
    for compressor, payload in (
        (Rounded("float16"), np.float32(1.0).tobytes() + np.array([1, np.inf, 2], np.float16).tobytes()),
        (Rounded("float16"), np.float32(-1.0).tobytes() + np.ones(3, np.float16).tobytes()),
        (Nonzero(), (4).to_bytes(4, "little") + np.ones(4, np.float32).tobytes()),
        (Nonzero(), (1).to_bytes(4, "little") + b"\xff" + np.ones(1, np.float32).tobytes()),
    ):
        with pytest.raises(EncodingError):
            compressor.decode(_forged(compressor, payload), x)


@given(x=arrays.arrays(np.float64, st.integers(1, 40), elements=st.sampled_from([-2.0, -1.0, 0.0, 1.0, 2.0, 3.0])))
def test_the_largest_numbers_are_chosen_and_of_equal_ones_the_first(x: NDArray[np.float64]) -> None:
    count = -(-len(x) * 3 // 10)
    wanted = np.sort(np.argsort(-np.abs(x), kind="stable")[:count])
    kept = np.zeros_like(x)
    kept[wanted] = x[wanted]
    assert TopK(0.3).compress(x).tolist() == kept.tolist()


@pytest.mark.parametrize("share", [0.0001, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("kind", ["normal", "few values", "rising", "spikes between the sample"])
def test_of_many_numbers_the_largest_are_chosen_whatever_a_sample_suggests(share: float, kind: str) -> None:
    size, rng = 20_000, np.random.default_rng(0)
    x = {
        "normal": rng.normal(size=size),
        "few values": rng.integers(-3, 4, size).astype(float),
        "rising": np.arange(size, dtype=float),
        "spikes between the sample": np.where(np.arange(size) % 16 == 1, 100.0 + rng.random(size), 1e-3),
    }[kind]
    wanted = np.argsort(-np.abs(x), kind="stable")[: math.ceil(share * size)]
    kept = np.zeros_like(x)
    kept[wanted] = x[wanted]
    np.testing.assert_array_equal(TopK(share).compress(x), kept)
