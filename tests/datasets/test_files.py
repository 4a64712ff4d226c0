"""Files from outside: idx and npz, good and bad, and bombs that must not go off."""

import gzip
import io
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from feddr.datasets import files
from feddr.datasets.idx import read_idx
from feddr.datasets.npz import read_npz
from tests.datasets.formats import idx_bytes, refusal, write

IMAGES = np.arange(3 * 28 * 28, dtype=np.uint8).reshape(3, 28, 28)


@pytest.mark.parametrize("name", ["images", "images.gz"])
def test_idx_is_read_as_it_was_written(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, idx_bytes(IMAGES))
    assert np.array_equal(read_idx(path, 8, (None, 28, 28)), IMAGES)
    labels = np.array([[1, -2], [2**31 - 1, 4]])
    assert np.array_equal(read_idx(write(tmp_path / f"labels{name}", idx_bytes(labels, 12)), 12, (2, 2)), labels)


GOOD = idx_bytes(IMAGES)
BAD_IDX = {
    "wrong magic number": (b"\x1f\x8b" + GOOD[2:], "begins with the bytes (0, 0, 8, 3), this one with (31, 139, 8, 3)"),
    "labels for images": (idx_bytes(IMAGES[:, 0, 0]), "begins with the bytes (0, 0, 8, 3), this one with (0, 0, 8, 1)"),
    "another type": (GOOD[:2] + b"\x0d" + GOOD[3:], "this one with (0, 0, 13, 3)"),
    "empty": (b"", "this one with ()"),
    "no sizes": (GOOD[:6], "needs the sizes any x 28 x 28, its header says 0 x 0 x 0"),
    "other sizes": (idx_bytes(IMAGES[:, :5]), "needs the sizes any x 28 x 28, its header says 3 x 5 x 28"),
    "no samples": (idx_bytes(IMAGES[:0]), "its header says 0 x 28 x 28"),
    "cut short": (GOOD[:-1], "its header announces 2,352 bytes"),
    "too long": (GOOD + b"x", "announces 2,352 bytes and more follow"),
    "huge": (GOOD[:4] + b"\xff\xff\xff\xff" + GOOD[8:], "announces 3,367,254,359,280 bytes, but a file of"),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("case", BAD_IDX)
def test_bad_idx_is_refused(tmp_path: Path, case: str, packed: bool) -> None:
    content, message = BAD_IDX[case]
    path = write(tmp_path / ("bad.gz" if packed else "bad"), content)
    with pytest.raises(ValueError, match="bad") as error:
        read_idx(path, 8, (None, 28, 28))
    assert message in refusal(error)


def test_a_gzip_file_that_is_cut_or_none_is_refused(tmp_path: Path) -> None:
    packed = gzip.compress(GOOD)
    for content, message in ((packed[:-20], "cut short"), (b"no gzip at all", "not a sound .gz file")):
        (tmp_path / "bad.gz").write_bytes(content)
        with pytest.raises(ValueError, match=message) as error:
            read_idx(tmp_path / "bad.gz", 8, (None, 28, 28))
        refusal(error)
    with pytest.raises(ValueError, match="no such file"):
        files.read(tmp_path / "missing.gz")
    with pytest.raises(ValueError, match="cannot be read"):
        files.read(tmp_path)


def peak(function: object, *arguments: object) -> int:
    """Bytes that a call had reserved at most, whether it ended well or not."""
    tracemalloc.start()
    try:
        assert callable(function)
        with pytest.raises(ValueError, match="bytes"):
            function(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_gzip_bombs_are_refused_before_they_are_expanded(tmp_path: Path) -> None:
    bomb = write(tmp_path / "bomb.gz", bytes(24 * 2**20))
    assert bomb.stat().st_size < 2**18
    assert peak(files.read, bomb, 2**20) < 10 * 2**20
    # An honest header of a small array, and then far more than it announces.
    idx = write(tmp_path / "images.gz", GOOD + bytes(24 * 2**20))
    assert peak(read_idx, idx, 8, (None, 28, 28)) < 10 * 2**20


def test_idx_beyond_the_limit_is_refused_by_its_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LIMIT", 2000)
    with pytest.raises(ValueError, match=r"announces 2,352 bytes, but a file of .* has at most 2,000"):
        read_idx(write(tmp_path / "images.gz", GOOD), 8, (None, 28, 28))
    assert read_idx(write(tmp_path / "images", GOOD), 8, (None, 28, 28)).shape == (3, 28, 28)


def test_text_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LIMIT", 2**20)
    monkeypatch.setattr(files, "LONGEST_LINE", 2**16)
    for content in (b"1 1:1 2:1 3:1\n" * 2**17, bytes(2**17)):
        path = write(tmp_path / "bomb.gz", content)
        with pytest.raises(ValueError, match="this is not a text of samples"):
            list(files.lines(path))


def test_lines_are_text(tmp_path: Path) -> None:
    path = write(tmp_path / "text.gz", "\ufeffä\nb".encode())
    assert list(files.lines(path)) == ["ä\n", "b"]
    with pytest.raises(ValueError, match="not a text in UTF-8"):
        list(files.lines(write(tmp_path / "binary", b"\xff\xfe")))


def test_npz_is_read_as_it_was_written(tmp_path: Path) -> None:
    arrays = {"a": IMAGES, "b": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "c": np.array([True, False])}
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "good.npz", **arrays)  # type: ignore[arg-type]  # the stub takes the names for a flag
        found = read_npz(tmp_path / "good.npz", arrays)
        assert all(np.array_equal(found[name], array) for name, array in arrays.items())


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def zipped(path: Path, content: bytes, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("a.npy", content)
    return path


def test_npz_that_lies_is_refused(tmp_path: Path) -> None:
    good = npy(np.arange(100))
    path = tmp_path / "bad.npz"
    cases = {
        "holds Python objects, which are never loaded": npy(np.array([{}, None], dtype=object)),
        "announces 8,000,000 bytes of numbers and has 800": good.replace(b"(100,)", b"(1000000,)").replace(
            b" " * 4 + b"\n", b"\n"
        ),
        "announces 800 bytes of numbers and has 792": good[:-8],
        "is not an array of NumPy": b"something else",
    }
    for message, content in cases.items():
        with pytest.raises(ValueError, match=r"bad\.npz") as error:
            read_npz(zipped(path, content), ["a"])
        assert message in refusal(error)
    with pytest.raises(ValueError, match="needs an array b, it has a"):
        read_npz(zipped(path, good), ["b"])
    path.write_bytes(b"PK not a zip")
    with pytest.raises(ValueError, match="not a sound npz file"):
        read_npz(path, ["a"])
    whole = zipped(path, good).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="not a sound npz file"):
        read_npz(path, ["a"])
    path.write_bytes(whole.replace(whole[80:100], bytes(20)))
    with pytest.raises(ValueError, match=r"bad\.npz"):
        read_npz(path, ["a"])


def test_npz_with_negative_sizes_is_refused(tmp_path: Path) -> None:
    good = npy(np.arange(6).reshape(2, 3))
    with pytest.raises(ValueError, match="it is damaged"):
        read_npz(zipped(tmp_path / "bad.npz", good.replace(b"(2, 3), ", b"(-2, -3)")), ["a"])


def test_zip_bombs_are_refused_by_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zipped(tmp_path / "bomb.npz", npy(np.zeros(24 * 2**20, np.uint8)))
    monkeypatch.setattr(files, "LIMIT", 2**20)
    assert path.stat().st_size < 2**17
    assert peak(read_npz, path, ["a"]) < 2**20


def test_a_zip_whose_directory_announces_too_much_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path / "bad.npz", npy(np.arange(10)))
    content = path.read_bytes()
    directory = content.rindex(b"PK\x01\x02")
    size = directory + 24  # the uncompressed size, in the central directory
    path.write_bytes(content[:size] + (10**9).to_bytes(4, "little") + content[size + 4 :])
    with pytest.raises(ValueError, match="is announced with 1,000,000,000 bytes, which its"):
        read_npz(path, ["a"])
