"""Small files in the real formats, as the tests need them, and the folder of the real ones."""

import gzip
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

Array = NDArray[Any]


def real(*parts: str) -> Path:
    """A folder or file of the real data, beside the repository or in FEDDR_DATA; the test is skipped without it."""
    above = [folder / "shared" / "data" for folder in Path(__file__).resolve().parents[2:]]
    places = [Path(os.environ["FEDDR_DATA"])] if "FEDDR_DATA" in os.environ else above
    found = next((place.joinpath(*parts) for place in places if place.joinpath(*parts).exists()), None)
    if found is None:
        pytest.skip(f"the real data {'/'.join(parts)} are not here; set FEDDR_DATA to the folder that holds them")
    return found


def idx_bytes(array: Array, kind: int = 8) -> bytes:
    head = bytes([0, 0, kind, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return head + array.astype("u1" if kind == 8 else ">i4").tobytes()


def write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


class Digits:
    """Digits of three writers and their test digits: random, so that every sample is known by its pixels."""

    def __init__(self, size: int = 60, test_size: int = 20) -> None:
        rng = np.random.default_rng(0)
        self.images = rng.integers(0, 256, (size, 28, 28)).astype(np.uint8)
        self.labels = rng.integers(0, 10, size).astype(np.uint8)
        self.writers = rng.choice([7, 2100, 12], size, p=[0.5, 0.3, 0.2])
        self.test_images = rng.integers(0, 256, (test_size, 28, 28)).astype(np.uint8)
        self.test_labels = rng.integers(0, 10, test_size).astype(np.uint8)

    @property
    def extended(self) -> Array:
        extended = np.zeros((len(self.labels), 8), np.int64)
        extended[:, 0], extended[:, 2] = self.labels, self.writers
        return extended

    def files(self) -> dict[str, bytes]:
        return {
            "train-images-idx3-ubyte.gz": idx_bytes(self.images),
            "train-labels-idx1-ubyte.gz": idx_bytes(self.labels),
            "t10k-images-idx3-ubyte.gz": idx_bytes(self.test_images),
            "t10k-labels-idx1-ubyte.gz": idx_bytes(self.test_labels),
            "qmnist-train-labels-idx2-int.gz": idx_bytes(self.extended, 12),
        }

    def write(self, folder: Path, packed: bool = True, changes: Mapping[str, bytes] | None = None) -> Path:
        for name, content in (self.files() | dict(changes or {})).items():
            write(folder / (name if packed else name.removesuffix(".gz")), content)
        return folder

    def write_npz(self, path: Path, **changes: Array) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays = {
            "X": np.concatenate([self.images, self.test_images]),
            "y": np.concatenate([self.labels, self.test_labels]),
            "writer": np.concatenate([self.writers, np.full(len(self.test_labels), 99)]).astype(np.int16),
            "is_test": np.arange(len(self.labels) + len(self.test_labels)) >= len(self.labels),
        }
        np.savez_compressed(path, **(arrays | changes))  # type: ignore[arg-type]  # the stub takes the names for a flag
        return path


def leaf_file(path: Path, clients: Mapping[str, tuple[Sequence[Any], Sequence[Any]]], **changes: Any) -> Path:
    content = {
        "users": list(clients),
        "num_samples": [len(y) for _, y in clients.values()],
        "user_data": {name: {"x": x, "y": y} for name, (x, y) in clients.items()},
    }
    return write(path, json.dumps(content | changes).encode())


def samples(part: Any) -> list[tuple[float, ...]]:
    """Every sample of a part, sorted: two parts with the same samples have the same list."""
    rows = np.column_stack([part.samples["x"], part.samples["y"]])
    return sorted(map(tuple, rows.tolist()))


def refusal(error: pytest.ExceptionInfo[ValueError]) -> str:
    """The message of an error, which must be one line."""
    message = str(error.value)
    assert "\n" not in message
    return message
