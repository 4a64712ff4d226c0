"""Named arrays in safetensors files, with headers, checksums and a previous version to fall back to.

Files are written atomically (``feddr.storage.atomic``); the checksum (SHA-256) detects damage on the disk.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from feddr import tree
from feddr.storage import atomic, limits
from feddr.tree import Tree

Arrays = dict[str, NDArray[Any]]
SUFFIX = ".safetensors"
COPIES = 3
"""How often the bytes of a file are in memory while it is read: as they came, as arrays, and one of those again."""


class DamagedError(OSError):
    """A file is not what was written.

    Examples
    --------
    >>> raise DamagedError("state.safetensors is not what was written.")
    Traceback (most recent call last):
    feddr.storage.tensors.DamagedError: state.safetensors is not what was written.
    """


class Snapshot(NamedTuple):
    """What a file holds: a header of plain values, and named arrays."""

    header: dict[str, Any]
    arrays: Arrays


def dumps(arrays: Mapping[str, Any], metadata: dict[str, str] | None = None) -> bytes:
    """Return the bytes of a safetensors file."""
    from safetensors.numpy import save

    return save({name: np.asarray(array, order="C") for name, array in arrays.items()}, metadata)


def loads(data: bytes, source: object = "This file") -> Arrays:
    """Return the arrays of a safetensors file, whose header is not trusted: tensors must lie within its bytes.

    Raises
    ------
    DamagedError
        Where it is no safetensors file, or a truncated one.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays: Arrays = load(data)
    except (SafetensorError, ValueError, KeyError, TypeError, MemoryError) as error:
        raise DamagedError(f"{source} is damaged or not a file of feddr: {type(error).__name__}.") from None
    return arrays


def pack(header: Mapping[str, Any], arrays: Arrays) -> bytes:
    """Return the bytes of a safetensors file with a header and a checksum among its metadata."""
    text = json.dumps(header)
    return dumps(arrays, {"feddr": text, "sha256": _checksum(text, arrays)})


def unpack(data: bytes, source: object = "This file") -> Snapshot:
    """Return the header and the arrays of ``pack``; DamagedError where a bit has changed or the end is missing."""
    arrays = loads(data, source)
    try:
        length = int.from_bytes(data[:8], "little")
        metadata = json.loads(data[8 : 8 + length])["__metadata__"]
        text, expected = metadata["feddr"], metadata["sha256"]
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"{source} is damaged or not a file of feddr: {type(error).__name__}.") from None
    if _checksum(text, arrays) != expected:
        raise DamagedError(f"{source} has changed since it was written: its checksum is another one.")
    return Snapshot(json.loads(text), arrays)


def read(path: Path) -> Snapshot:
    """Return what is in a file; DamagedError where it is too large to be one of feddr's."""
    size = path.stat().st_size
    if size * COPIES > limits.memory():
        raise DamagedError(f"{path} has {size:,} bytes, more than this machine could have written.")
    return unpack(path.read_bytes(), path)


def flatten(a: Tree) -> Arrays:
    """Return the leaves of a tree by name, as arrays that can be stored."""
    named = tree.named(a)
    if len(named) != len(tree.leaves(a)):
        raise ValueError(f"The leaves of a model need names of their own, got {sorted(named)} twice; rename the keys.")
    return {name: np.array(leaf, order="C") for name, leaf in named.items()}


def restore(template: Tree, arrays: Arrays) -> Tree:
    """Return the tree that ``flatten`` took apart; the template has its structure, types and shapes."""
    named = tree.named(template)
    if set(named) != set(arrays):
        raise DamagedError(f"The file holds {sorted(arrays)} where {sorted(named)} is wanted.")
    for name, leaf in named.items():
        if np.shape(leaf) != arrays[name].shape or np.asarray(leaf).dtype != arrays[name].dtype:
            raise DamagedError(f"The file holds another shape or type of {name} than is wanted.")
    return rebuild(template, [arrays[name] for name in named])


def rebuild(template: Tree, arrays: Sequence[Any]) -> Tree:
    """Return the tree with these arrays as its leaves, in order.

    Each is a copy; where the template has a plain number it is one, too, since the two combine differently. ValueError
    where a shape is not that of the template.
    """
    leaves, structure = jax.tree.flatten(template)
    for leaf, array in zip(leaves, arrays, strict=True):
        if np.shape(array) != np.shape(leaf):
            raise ValueError(f"The state needs an array of shape {np.shape(leaf)}, got {np.shape(array)}.")
    pairs = zip(leaves, arrays, strict=True)
    leaves = [array.item() if type(leaf) in (int, float) else np.array(array) for leaf, array in pairs]
    return jax.tree.unflatten(structure, leaves)


class Generations:
    """The newest record of a kind and the one before, as <number>.safetensors in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def numbers(self) -> list[int]:
        """Return the numbers of the records, the largest first."""
        names = [path.name.removesuffix(SUFFIX) for path in self.folder.glob(f"*{SUFFIX}")]
        return sorted((int(name) for name in names if name.isdecimal()), reverse=True)

    def save(self, number: int, header: Mapping[str, Any], arrays: Arrays) -> None:
        """Write a record, and remove all but this one and the one before it."""
        atomic.write(self.path(number), pack(header, arrays))
        kept = {number, max((other for other in self.numbers() if other < number), default=number)}
        for other in self.numbers():
            if other not in kept:
                self.path(other).unlink(missing_ok=True)

    def undamaged(self) -> Iterator[tuple[int, Snapshot]]:
        """Yield the records that can be read, the newest first."""
        for number in self.numbers():
            with contextlib.suppress(DamagedError):
                yield number, read(self.path(number))

    def path(self, number: int) -> Path:
        """Return the path of a record."""
        return self.folder / f"{number}{SUFFIX}"


def _checksum(text: str, arrays: Arrays) -> str:
    sha = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        sha.update(f"{name} {array.dtype.str} {array.shape}".encode())
        sha.update(np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()
