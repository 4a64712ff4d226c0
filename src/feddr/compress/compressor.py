"""The base class of compressors, the frame of an encoded message, and the feedback step.

A message is ``fdc``, one byte for the kind of compressor, the CRC-32 of the rest in four bytes, and the rest. How long
it is follows from the shapes, and for ``Nonzero`` from a number at its beginning, so a decoder knows the length before
it reads, and refuses any other.
"""

import itertools
import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import numpy as np
from numpy.typing import NDArray

from feddr import tree
from feddr.tree import Tree

MAGIC = b"fdc"
HEADER = len(MAGIC) + 1 + 4
"""Bytes of a message before its payload."""

Flat = NDArray[np.floating[Any]]
Code = tuple[NDArray[Any], ...]
"""What a compressor keeps of a vector, as arrays."""


class EncodingError(ValueError):
    """Bytes that are not an encoded upload: damaged, truncated, or of another compressor.

    Examples
    --------
    >>> import numpy as np
    >>> from feddr.compress import Quantised
    >>> try:
    ...     Quantised(4).decode(b"", np.zeros(3))
    ... except EncodingError as error:
    ...     print(str(error).partition(";")[0])
    A message of Quantised(bits=4, block=None, stochastic=False) for 3 numbers takes 18 bytes, got 0
    """


class Compressor(ABC):
    """A map C from the numbers of an upload to fewer bytes, and back.

    Subclasses work on one vector, in which the arrays of the upload follow each other; ``lengths`` are theirs. What is
    decoded from a message is bit for bit what ``compress`` returns, so a simulation needs no bytes.

    Examples
    --------
    >>> import numpy as np
    >>> from feddr.compress import Quantised
    >>> upload = {"weight": np.array([1.0, 0.3, -0.5], np.float32), "bias": np.float32(2.0)}
    >>> message = Quantised(4).encode(upload)
    >>> len(message) == Quantised(4).num_bytes(upload)
    True
    >>> Quantised(4).decode(message, upload)["weight"].tolist() == Quantised(4).compress(upload)["weight"].tolist()
    True
    """

    kind: ClassVar[int]

    @property
    def random(self) -> bool:
        """Whether there are random choices, so that ``draw`` makes a difference."""
        return False

    @abstractmethod
    def code(self, flat: Flat, lengths: Sequence[int], draw: int) -> Code:
        """Return what is kept of a vector; ``draw`` is where random choices come from."""

    @abstractmethod
    def values(self, code: Code, lengths: Sequence[int], dtype: np.dtype[Any]) -> Flat:
        """Return the vector that the receiver makes of it."""

    @abstractmethod
    def pack(self, code: Code, lengths: Sequence[int]) -> bytes:
        """Return what is kept as bytes."""

    @abstractmethod
    def unpack(self, data: bytes, lengths: Sequence[int], dtype: np.dtype[Any]) -> Code:
        """Return what was packed; EncodingError where no vector has such a code."""

    @abstractmethod
    def payload(self, lengths: Sequence[int], itemsize: int) -> int:
        """Return how many bytes ``pack`` returns for numbers of so many bytes, or at most so many."""

    @abstractmethod
    def bound(self, lengths: Sequence[int]) -> float:
        """Return delta in (0, 1] such that the mean of |x - C(x)|^2 is at most (1 - delta) |x|^2 for every x."""

    def compress(self, upload: Tree, draw: int = 0) -> Tree:
        """Return C(upload): what the server will read, a tree with the shapes and types of the upload.

        Parameters
        ----------
        draw
            A whole number from 0 to 2**64 - 1 from which random choices follow.
        """
        flat, lengths = _flat(upload)
        return _restore(upload, self.read(flat, lengths, draw))

    def read(self, flat: Flat, lengths: Sequence[int], draw: int) -> Flat:
        """Return what the server will read of a vector, which ``compress`` and ``feedback`` go by."""
        if not np.isfinite(flat).all():
            return flat  # whoever takes it looks for the client that sent a NaN
        return self.values(self.code(flat, lengths, draw), lengths, flat.dtype)

    def encode(self, upload: Tree, draw: int = 0) -> bytes:
        """Return the upload as bytes, as many as ``num_bytes`` says.

        Raises
        ------
        ValueError
            Where the upload holds a NaN or an infinity.
        """
        return self.message(*_flat(upload), draw)

    def message(self, flat: Flat, lengths: Sequence[int], draw: int) -> bytes:
        """Return a vector as bytes; ValueError where it holds a NaN or an infinity."""
        if not np.isfinite(flat).all():
            raise ValueError("An upload must be finite to be encoded, got a NaN or an infinity; take a smaller step.")
        payload = self.pack(self.code(flat, lengths, draw), lengths)
        return MAGIC + bytes([self.kind]) + zlib.crc32(payload).to_bytes(4, "little") + payload

    def decode(self, message: bytes, like: Tree) -> Tree:
        """Return the tree in a message.

        Parameters
        ----------
        like
            A tree with the shapes and the type of the upload.

        Raises
        ------
        EncodingError
            Where the message is damaged, truncated, or of another compressor.
        """
        leaves = tree.leaves(like)
        dtype = np.result_type(*leaves)
        return _restore(like, self.vector(message, _lengths(leaves), dtype))

    def vector(self, message: bytes, lengths: Sequence[int], dtype: np.dtype[Any]) -> Flat:
        """Return the vector in a message; EncodingError where it is damaged, truncated, or of another compressor."""
        wanted = self.length(message, lengths, dtype.itemsize)
        if len(message) != wanted:
            raise EncodingError(
                f"A message of {self} for {sum(lengths):,} numbers takes {wanted:,} bytes, got {len(message):,}; it is "
                "truncated, or was made with other settings."
            )
        payload = message[HEADER:]
        if message[: HEADER - 4] != MAGIC + bytes([self.kind]):
            raise EncodingError(f"A message of {self} begins with {MAGIC!r} and {self.kind}, got {message[:4]!r}.")
        if int.from_bytes(message[HEADER - 4 : HEADER], "little") != zlib.crc32(payload):
            raise EncodingError("The checksum of a message does not fit its bytes: it was damaged; send it again.")
        return self.values(self.unpack(payload, lengths, dtype), lengths, dtype)

    def num_bytes(self, like: Tree) -> int:
        """Return the length of the message for such an upload, header included."""
        return self.most_bytes(like)

    def most_bytes(self, like: Tree) -> int:
        """Return the length of the longest message for uploads of these shapes and this type, header included."""
        leaves = tree.leaves(like)
        return HEADER + self.payload(_lengths(leaves), np.asarray(leaves[0]).dtype.itemsize)

    def length(self, message: bytes, lengths: Sequence[int], itemsize: int) -> int:
        """Return how long a message must be; EncodingError where it says something that cannot be."""
        return HEADER + self.payload(lengths, itemsize)

    def contraction(self, like: Tree) -> float:
        """Return delta in (0, 1] such that the mean of |x - C(x)|^2 is at most (1 - delta) |x|^2 for all such uploads.

        With delta > 0 error feedback converges; the nearer to 1, the fewer more rounds it takes.
        """
        return self.bound(_lengths(tree.leaves(like)))


def feedback(compressor: Compressor | None, target: Tree, counted: Tree, draw: int | None = None) -> Tree:
    """Return what the server counts for a client after an update: ``counted`` and the compressed way to the target.

    Parameters
    ----------
    compressor
        None for an upload as it is: the target.
    target
        What the server should count.
    counted
        What it has counted so far, a tree like ``target``.
    draw
        As in ``Compressor.compress``.

    Examples
    --------
    >>> import numpy as np
    >>> from feddr.compress import TopK
    >>> counted = np.zeros(4)
    >>> for _ in range(2):
    ...     counted = feedback(TopK(0.25), np.array([1.0, 2.0, 3.0, 4.0]), counted)
    >>> counted.tolist()
    [0.0, 0.0, 3.0, 4.0]
    """
    if compressor is None:
        return target
    before, lengths = _flat(counted)  # all arrays at once: there are many small ones
    change, _ = _flat(target)
    change -= before
    before += compressor.read(change, lengths, draw or 0)
    return _restore(target, before)


def _flat(upload: Tree) -> tuple[Flat, tuple[int, ...]]:
    leaves = tree.leaves(upload)
    return np.concatenate(leaves, axis=None), _lengths(leaves)


def _lengths(leaves: Sequence[Any]) -> tuple[int, ...]:
    return tuple([leaf.size for leaf in leaves])


def _restore(like: Tree, flat: Flat) -> Tree:
    leaves, structure = jax.tree.flatten(like)
    ends = itertools.accumulate(_lengths(leaves))
    parts = [flat[end - leaf.size : end].reshape(leaf.shape) for leaf, end in zip(leaves, ends, strict=True)]
    return jax.tree.unflatten(structure, parts)
