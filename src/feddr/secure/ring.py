"""Arithmetic of masked vectors: whole numbers modulo 2^32 or 2^64, and masks from AES-256 in counter mode."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

Residues = NDArray[np.unsignedinteger[Any]]
Levels = NDArray[np.int64]

SEED = 32
"""Bytes of a seed of a mask: a key of AES-256."""


@dataclass(frozen=True)
class Ring:
    """The whole numbers modulo 2^(8 word).

    Parameters
    ----------
    word
        Bytes of a number, 4 or 8.

    Examples
    --------
    >>> ring = Ring(4)
    >>> values = ring.residues(np.array([-1, 5]))
    >>> values.tolist(), ring.signed(values).tolist()
    ([4294967295, 5], [-1, 5])
    >>> mask = ring.mask(bytes(32), 2)
    >>> ring.signed(values + mask - mask).tolist()
    [-1, 5]
    """

    word: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its numbers, little-endian."""
        return np.dtype(f"<u{self.word}")

    def residues(self, levels: Levels) -> Residues:
        """Return whole numbers, negative ones too, modulo the size of the ring."""
        return np.asarray(levels, np.int64).astype(self.dtype)

    def signed(self, residues: Residues) -> Levels:
        """Return the representatives nearest to 0."""
        return residues.view(f"<i{self.word}").astype(np.int64)

    def mask(self, seed: bytes, length: int) -> Residues:
        """Return ``length`` numbers that nobody can tell from random ones without the seed.

        The seed is the key of AES-256 in counter mode, whose key stream they are. A seed must be used once: its
        counter begins at 0.

        Raises
        ------
        ValueError
            Where the seed does not have 32 bytes.
        """
        if len(seed) != SEED:
            raise ValueError(f"The seed of a mask must have {SEED} bytes, got {len(seed)}; derive it with HKDF.")
        stream = Cipher(algorithms.AES(seed), modes.CTR(bytes(16))).encryptor().update(bytes(self.word * length))
        return np.frombuffer(stream, self.dtype)
