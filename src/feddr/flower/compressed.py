"""Compressed uploads on the wire: the encoded bytes of ``feddr.compress``, one array of bytes for each part.

A compressed upload is the way from what the server counts for a client, so it is not idempotent by itself as an
absolute value is. The number and the digest of what the server counts, which come with each task, make it so: an upload
counts only if it is the way from just that, and both sides come to the same value, to the last bit.
"""

import copy
from collections.abc import Sequence

from flwr.app import Array, ArrayRecord

from feddr.compress import Compressor, EncodingError
from feddr.compress.compressor import Flat
from feddr.flower.refused import Refused
from feddr.tree import Tree

TYPE, ENCODING = "uint8", "feddr.compressed"


def recording(compressor: Compressor, messages: list[bytes]) -> Compressor:
    """Return the compressor, which from now on adds each message that stands for what it compresses to a list.

    The rules of an algorithm then make the bytes that travel and the client's next state in one go, and cannot do one
    without the other. What is not finite has no bytes: ValueError.
    """

    def read(flat: Flat, lengths: Sequence[int], draw: int) -> Flat:
        messages.append(compressor.message(flat, lengths, draw))
        return compressor.vector(messages[-1], lengths, flat.dtype)

    recorder = copy.copy(compressor)
    object.__setattr__(recorder, "read", read)  # compressors are frozen; this copy is nobody else's
    return recorder


def encode(messages: Sequence[bytes]) -> ArrayRecord:
    """Return encoded messages as Flower sends them."""
    return ArrayRecord({str(k): Array(TYPE, (len(one),), ENCODING, one) for k, one in enumerate(messages)})


def decode(record: ArrayRecord, compressor: Compressor, parts: Sequence[Tree]) -> list[Tree]:
    """Return the trees in a record, which are like the parts.

    Raises
    ------
    Refused
        misshapen, wrong-type, oversized or malformed.
    """
    names = [str(k) for k in range(len(parts))]
    if set(record) != set(names):
        raise Refused("misshapen", f"the encoded arrays must be {names}, got {sorted(record)[:20]}")
    return [_decode(name, record[name], compressor, part) for name, part in zip(names, parts, strict=True)]


def _decode(name: str, array: Array, compressor: Compressor, part: Tree) -> Tree:
    if (array.dtype, array.stype) != (TYPE, ENCODING):
        raise Refused(
            "wrong-type", f"{name} must be {TYPE} as {ENCODING}, got {array.dtype[:40]!r} as {array.stype[:40]!r}"
        )
    most = compressor.most_bytes(part)
    if len(array.data) > most or tuple(array.shape) > (most,):
        raise Refused(
            "oversized",
            f"{name} must take at most {most} bytes, {array.shape[:20]} announced and {len(array.data)} sent",
        )
    try:
        return compressor.decode(array.data, part)
    except EncodingError as error:
        raise Refused("malformed", f"{name}: {error}") from None
