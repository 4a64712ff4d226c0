"""Arrays on the wire: what comes out is what went in, and what should not come in does not."""

from collections.abc import Callable
from typing import Any

import hypothesis.extra.numpy as arrays_of
import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from feddr import tree
from feddr.compress import Compressor, Nonzero, Quantised, Rounded
from feddr.flower import Refused, compressed, wire

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
TEMPLATE = {"w": np.zeros((3, 2), np.float32), "b": np.zeros((), np.float32)}
VALUE = {"w": np.arange(6, dtype=np.float32).reshape(3, 2), "b": np.float32(7).reshape(())}

NUMBERS = st.one_of(st.sampled_from([0.0, 0.0, 0.0, -0.0, 5e-324, 1e-40]), st.floats(-1e30, 1e30))


@given(
    x=arrays_of.arrays(
        np.float64, arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=12), elements=NUMBERS
    ),
    dtype=st.sampled_from([F32, F64]),
    form=st.sampled_from(["auto", "dense"]),
)
@hypothesis_settings(deadline=None, max_examples=300)
def test_a_broadcast_arrives_to_the_last_bit(x: Any, dtype: Any, form: str) -> None:
    message = {"x": x.astype(dtype), "other": np.ones(3, dtype)}
    sent = wire.broadcast(message, dtype, form)
    read = wire.decode(sent.record, message, dtype, sent_by_server=True)
    for ours, theirs in zip(tree.leaves(read), tree.leaves(message), strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        assert ours.tobytes() == theirs.tobytes()
    dense = wire.size(RecordDict({"a": wire.broadcast(message, dtype, "dense").record}))
    assert wire.size(RecordDict({"a": sent.record})) <= dense


@pytest.mark.parametrize(("share", "kind"), [(1.0, wire.DENSE), (0.3, wire.BITS), (0.01, wire.INDEX)])
def test_zeros_are_left_out_in_the_form_that_takes_least(share: float, kind: str) -> None:
    rng = np.random.default_rng(0)
    x = np.where(rng.random(10_000) < share, rng.normal(size=10_000), 0.0).astype(np.float32)
    sent = wire.broadcast(x, F32, "auto").record["x"]
    count = int(np.count_nonzero(x))
    bits, index = 10_000 // 8 + 4 * count, 8 * count
    assert sent.stype == kind
    assert len(sent.data) <= min(bits, index, 4 * len(x) + 128)


@pytest.mark.parametrize(
    "download", [Rounded("float16"), Rounded("bfloat16"), Quantised(8), Nonzero(Rounded())], ids=str
)
def test_a_rounded_broadcast_is_read_as_the_server_thinks(download: Compressor) -> None:
    x = {"w": np.linspace(-1.0, 2.0, 1000).astype(np.float32).reshape(10, 100), "b": np.zeros((), np.float32)}
    sent = wire.broadcast(x, F32, "auto", download)
    assert wire.size(RecordDict({"a": sent.record})) == download.num_bytes(x) + len("0")
    (read,) = compressed.decode(sent.record, download, [tree.zeros_like(x)])
    assert tree.norm(tree.sub(read, sent.message)) == 0
    assert 0 < tree.norm(tree.sub(read, x)) < 0.01 * tree.norm(x)
    assert sent.form == repr(download)


def altered(name: str, change: Callable[[Array], Array]) -> ArrayRecord:
    record = wire.encode(VALUE, F32)
    return ArrayRecord({key: change(array) if key == name else array for key, array in record.items()})


def replaced(**fields: Any) -> Callable[[Array], Array]:
    def change(array: Array) -> Array:
        values = {"dtype": array.dtype, "shape": array.shape, "stype": array.stype, "data": array.data}
        return Array(**(values | fields))

    return change


HEADER = wire.encode(VALUE, F32)["w"].data[:128]
BIG = Array(np.zeros(3000, np.float32))
WRONG: list[tuple[str, ArrayRecord]] = [
    ("misshapen", ArrayRecord({"w": wire.encode(VALUE, F32)["w"]})),
    ("misshapen", ArrayRecord({**wire.encode(VALUE, F32), "more": Array(np.zeros(1, np.float32))})),
    ("misshapen", altered("w", lambda _: Array(np.zeros((2, 3), np.float32)))),
    ("misshapen", altered("w", lambda _: Array(np.zeros(6, np.float32)))),
    ("oversized", altered("w", replaced(shape=(2_500_000_000,)))),
    ("oversized", altered("w", replaced(shape=(10**30, 10**30)))),
    ("oversized", altered("w", lambda _: BIG)),
    ("oversized", altered("w", replaced(data=HEADER + bytes(5000)))),
    ("misshapen", altered("w", replaced(shape=(-3, -2)))),
    ("wrong-type", altered("w", lambda _: Array(np.zeros((3, 2))))),
    ("wrong-type", altered("w", lambda _: Array(np.zeros((3, 2), np.int32)))),
    ("wrong-type", altered("w", lambda _: Array(np.zeros((3, 2), np.float16)))),
    ("wrong-type", altered("w", replaced(dtype="object"))),
    ("wrong-type", altered("w", replaced(dtype=">f4"))),
    ("malformed", altered("w", replaced(stype="pickle"))),
    ("malformed", altered("w", replaced(stype=wire.BITS))),
    ("malformed", altered("w", replaced(data=b""))),
    ("malformed", altered("w", replaced(data=HEADER + bytes(20)))),
    ("malformed", altered("w", replaced(data=HEADER[:60]))),
    ("malformed", altered("w", replaced(data=b"\x80\x04" + bytes(150)))),
    ("malformed", altered("w", replaced(data=HEADER.replace(b"(3, 2)", b"(2, 3)") + bytes(24)))),
    ("malformed", altered("w", replaced(data=HEADER.replace(b"<f4", b"|O4") + bytes(24)))),
    ("malformed", altered("w", replaced(data=HEADER.replace(b"False", b"True ") + bytes(24)))),
    ("not-finite", altered("w", lambda _: Array(np.full((3, 2), np.nan, np.float32)))),
    ("not-finite", altered("b", lambda _: Array(np.array(np.inf, np.float32)))),
]


@pytest.mark.parametrize(("reason", "record"), WRONG, ids=[f"{k}-{reason}" for k, (reason, _) in enumerate(WRONG)])
def test_what_a_client_should_not_send_is_refused(reason: str, record: ArrayRecord) -> None:
    with pytest.raises(Refused) as refused:
        wire.decode(record, TEMPLATE, F32)
    assert refused.value.reason == reason


def test_absurd_numbers_are_refused() -> None:
    with pytest.raises(Refused, match="not-finite"):
        wire.decode(wire.encode({"x": np.array([1e200])}, F64), {"x": np.zeros(1)}, F64)


def test_what_a_client_should_send_is_read() -> None:
    read = wire.decode(wire.encode(VALUE, F32), TEMPLATE, F32)
    assert tree.norm(tree.sub(read, VALUE)) == 0


BAD_SPARSE = [
    (wire.BITS, b""),
    (wire.BITS, b"\xff"),
    (wire.BITS, b"\x80\x00" + bytes(8)),
    (wire.INDEX, bytes(4)),
    (wire.INDEX, np.array([1, 9], "<u4").tobytes() + bytes(8)),
    (wire.INDEX, np.array([1, 1], "<u4").tobytes() + bytes(8)),
]


@pytest.mark.parametrize(("kind", "data"), BAD_SPARSE)
def test_damaged_sparse_arrays_are_refused(kind: str, data: bytes) -> None:
    with pytest.raises(Refused, match="malformed"):
        wire.decode(ArrayRecord({"x": Array("float32", (9,), kind, data)}), np.zeros(9), F32, sent_by_server=True)


def test_bytes_are_those_of_arrays_names_and_values() -> None:
    content = RecordDict({"arrays": wire.encode(VALUE, F32), "f": ConfigRecord({"run": "name", "n": 3, "yes": True})})
    arrays = len("w") + 128 + 24 + len("b") + 128 + 4
    assert wire.size(content) == arrays + len("runname") + len("n") + 8 + len("yes") + 1
