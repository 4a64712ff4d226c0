"""Models on the wire: named arrays of plain numbers, dense or sparse, and a decoder that validates before it reads.

Nothing is pickled. A dense array travels as Flower's own arrays do, in NumPy's file format, so that Flower's mods can
read it. Where g has made xbar sparse, zeros need not be sent: a bit or an index marks each number that is, whichever
takes less, and only if it takes less than the dense array. Decoding gives back the same numbers, to the last bit.
"""

import io
import math
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Array, ArrayRecord, RecordDict
from numpy.typing import NDArray

from feddr import tree
from feddr.compress import Compressor
from feddr.flower import compressed
from feddr.flower.refused import Refused
from feddr.storage import tensors
from feddr.tree import Tree

DENSE, BITS, INDEX = "numpy.ndarray", "feddr.bits", "feddr.index"
HEADER = 1024
"""Bytes that the header of a dense array may take."""

LARGEST = 1e150
"""No number on the wire is larger, so that sums and squares of them stay finite."""

FORMS = ("auto", "dense")


class Broadcast(NamedTuple):
    """A message of the server: as it travels, and as the clients will read it."""

    record: ArrayRecord
    message: Tree
    form: str


def broadcast(message: Tree, dtype: np.dtype[Any], form: str, download: Compressor | None = None) -> Broadcast:
    """Encode a message once for all clients, compressed by the algorithm's ``download`` if it has one.

    Else every bit travels; every form but ``"dense"`` leaves out zeros where this saves bytes.
    """
    message = tree.cast(message, dtype)
    if download is not None:
        encoded = download.encode(message)
        return Broadcast(compressed.encode([encoded]), download.decode(encoded, message), repr(download))
    arrays = {
        name: _dense(array) if form == "dense" else _smallest(array) for name, array in tensors.flatten(message).items()
    }
    sparse = any(array.stype != DENSE for array in arrays.values())
    return Broadcast(ArrayRecord(arrays), message, "sparse" if sparse else "dense")


def encode(a: Tree, dtype: np.dtype[Any]) -> ArrayRecord:
    """Return a tree as dense arrays."""
    return ArrayRecord({name: _dense(array) for name, array in tensors.flatten(tree.cast(a, dtype)).items()})


def decode(record: ArrayRecord, template: Tree, dtype: np.dtype[Any], *, sent_by_server: bool = False) -> Tree:
    """Return the tree in a record that has the names and shapes of the template.

    Everything that the sender says of an array is compared with what is expected before a byte of it is read, so
    nothing is allocated or decoded that the template does not account for.

    Parameters
    ----------
    dtype
        What the numbers must be.
    sent_by_server
        Whether sparse arrays are allowed.

    Raises
    ------
    Refused
        oversized, misshapen, wrong-type, malformed or not-finite.
    """
    expected = {name: np.shape(leaf) for name, leaf in tree.named(template).items()}
    if set(record) != set(expected):
        raise Refused("misshapen", f"the arrays must be {sorted(expected)}, got {sorted(record)[:20]}")
    arrays = {
        name: _decode(name, record[name], shape, dtype, sent_by_server).reshape(shape)
        for name, shape in expected.items()
    }
    leaves = iter(arrays.values())
    return tree.map(lambda _: next(leaves), template)


def check_range(a: Tree) -> None:
    """Refuse a tree that holds a NaN, an infinity, or an absurd number."""
    for name, leaf in tree.named(a).items():
        _check_range(name, leaf)


def size(content: RecordDict) -> int:
    """Return the bytes of a message's content: arrays as they are, and names, numbers and strings."""
    total = 0
    for record in content.values():
        for key, value in record.items():
            total += len(key.encode())
            if isinstance(value, Array):
                total += len(value.data)
            else:
                total += sum(map(_plain, value)) if isinstance(value, list) else _plain(value)
    return total


def _plain(value: object) -> int:
    if isinstance(value, str | bytes):
        return len(value.encode() if isinstance(value, str) else value)
    return 1 if isinstance(value, bool) else 8


def _dense(array: NDArray[Any]) -> Array:
    return Array(np.ascontiguousarray(array).reshape(array.shape))


def _smallest(array: NDArray[Any]) -> Array:
    """Return the array in the form that takes the fewest bytes; -0.0 is a number like any other."""
    flat = np.ascontiguousarray(array).reshape(-1)
    used = flat.view(f"u{flat.itemsize}") != 0
    count = int(np.count_nonzero(used))
    bits, index = -(-len(flat) // 8) + count * flat.itemsize, count * (4 + flat.itemsize)
    if min(bits, index) >= flat.nbytes or len(flat) >= 2**32:
        return _dense(array)
    where = np.packbits(used) if bits <= index else np.flatnonzero(used).astype("<u4")
    kind = BITS if bits <= index else INDEX
    return Array(str(array.dtype), array.shape, kind, where.tobytes() + flat[used].tobytes())


def _decode(
    name: str, array: Array, shape: tuple[int, ...], dtype: np.dtype[Any], sent_by_server: bool
) -> NDArray[Any]:
    if array.dtype != str(dtype):
        raise Refused("wrong-type", f"{name} must be {dtype}, got {array.dtype[:40]!r}")
    count = math.prod(shape)
    announced = math.prod(array.shape) * dtype.itemsize
    most = count * dtype.itemsize + HEADER
    if announced > most or len(array.data) > most:
        raise Refused(
            "oversized", f"{name} must take at most {most} bytes, {announced} announced and {len(array.data)} sent"
        )
    if tuple(array.shape) != shape:
        raise Refused("misshapen", f"{name} must have shape {shape}, got {tuple(array.shape)[:20]}")
    if array.stype == DENSE:
        values = _read_dense(name, array.data, shape, dtype)
    elif sent_by_server and array.stype in (BITS, INDEX):
        values = _read_sparse(name, array, count, dtype)
    else:
        raise Refused("malformed", f"{name} must be encoded as {DENSE}, got {array.stype[:40]!r}")
    _check_range(name, values)
    return values.astype(dtype)  # a copy that can be written to


def _check_range(name: str, values: NDArray[Any]) -> None:
    if not float(np.abs(values).max(initial=0.0)) <= LARGEST:
        raise Refused("not-finite", f"{name} holds a NaN, an infinity, or a number beyond {LARGEST:g}")


def _read_dense(name: str, data: bytes, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    file = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(file)
        header = np.lib.format.read_array_header_1_0(file, max_header_size=HEADER) if version == (1, 0) else None
    except ValueError as error:
        raise Refused("malformed", f"{name} has no header of an array: {str(error)[:80]}") from None
    if header != (shape, False, dtype) or len(data) - file.tell() != math.prod(shape) * dtype.itemsize:
        raise Refused("malformed", f"the bytes of {name} are not the array that was announced")
    return np.frombuffer(data, dtype, offset=file.tell())


def _read_sparse(name: str, array: Array, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    data, used = array.data, np.zeros(count, bool)
    if array.stype == BITS:
        begin = -(-count // 8)
        used |= np.unpackbits(np.frombuffer(data[:begin], np.uint8), count=count).astype(bool)
    else:
        sent = len(data) // (4 + dtype.itemsize)
        begin = 4 * sent
        where = np.frombuffer(data[:begin], "<u4")
        if np.any(where >= count):
            raise Refused("malformed", f"{name} has a number beyond its end")
        used[where] = True
    if len(data) - begin != int(np.count_nonzero(used)) * dtype.itemsize:
        raise Refused("malformed", f"{name} does not hold as many numbers as it says")
    values = np.zeros(count, dtype)
    values[used] = np.frombuffer(data, dtype, offset=begin)
    return values
