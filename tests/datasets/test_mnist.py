"""MNIST from idx files, with the labels of QMNIST, or from one npz: the same federations, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from feddr import FederatedData
from feddr.datasets import mnist
from tests.datasets.formats import Digits, idx_bytes, real, refusal, samples, write

DIGITS = Digits()


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(DIGITS.write(tmp_path / "mnist"))


def everything(data: FederatedData) -> list[tuple[float, ...]]:
    assert data.test is not None
    return sorted(samples(data.train) + samples(data.test))


def expected(images: Any, labels: Any) -> list[tuple[float, ...]]:
    pixels = (images.reshape(len(images), 784) / np.float32(255)).astype(np.float32)
    return sorted(map(tuple, np.column_stack([pixels, labels]).tolist()))


PARTITIONS: list[dict[str, Any]] = [
    {"partition": "iid", "num_clients": 7},
    {"partition": "shards", "num_clients": 6, "shards_per_client": 3},
    {"partition": "dirichlet", "num_clients": 5, "beta": 0.1},
    {"partition": "quantity", "num_clients": 5, "sigma": 2.0},
    {"partition": "writer"},
]


@pytest.mark.parametrize("arguments", PARTITIONS)
def test_every_digit_is_there_once_as_numbers_from_0_to_1(folder: str, arguments: dict[str, Any]) -> None:
    data = mnist(data_dir=folder, **arguments)
    assert everything(data) == expected(DIGITS.images, DIGITS.labels)
    x, y = data.train.samples["x"], data.train.samples["y"]
    assert (x.dtype, y.dtype, x.shape[1]) == (np.dtype("float32"), np.dtype("int32"), 784)
    assert data.num_clients == arguments.get("num_clients", 3)
    assert data.train.sizes.min() >= 1
    again, other = mnist(data_dir=folder, **arguments), mnist(data_dir=folder, seed=1, **arguments)
    assert np.array_equal(again.train.samples["x"], x)
    assert not np.array_equal(other.train.samples["x"][:5], x[:5])


def test_few_labels_leave_digits_over(tmp_path: Path) -> None:
    data = mnist("few_labels", 4, data_dir=str(Digits(2000).write(tmp_path / "mnist")), labels_per_client=2, sigma=0.0)
    assert [set(data.train.client(i)["y"].tolist()) for i in range(4)] == [{0, 1}, {1, 2}, {2, 3}, {3, 4}]
    assert len(everything(data)) == 4 * 58


def test_writers_have_their_own_digits(folder: str) -> None:
    data = mnist("writer", data_dir=folder, test_share=0)
    assert data.test is None
    assert data.clients == ("writer 7", "writer 12", "writer 2100")
    for i, writer in enumerate((7, 12, 2100)):
        mine = DIGITS.writers == writer
        rows = data.train.client(i)
        assert sorted(map(tuple, np.column_stack([rows["x"], rows["y"]]).tolist())) == expected(
            DIGITS.images[mine], DIGITS.labels[mine]
        )


def test_some_writers_are_some_of_all(folder: str) -> None:
    few, every = mnist("writer", 2, data_dir=folder), mnist("writer", data_dir=folder)
    assert few.num_clients == 2
    assert set(few.clients) < set(every.clients)


def test_the_test_part_is_a_share_of_each_client(folder: str) -> None:
    data = mnist("writer", data_dir=folder, test_share=0.3)
    assert data.test is not None
    total = data.train.sizes + data.test.sizes
    assert np.array_equal(data.test.sizes, np.floor(0.3 * total + 0.5))


@pytest.mark.parametrize("partition", ["iid", "writer"])
def test_the_official_test_digits_go_to_everybody(folder: str, partition: Any) -> None:
    data = mnist(partition, 3, data_dir=folder, test="official")
    assert data.test is not None
    assert samples(data.test) == expected(DIGITS.test_images, DIGITS.test_labels)
    assert samples(data.train) == expected(DIGITS.images, DIGITS.labels)
    assert data.test.sizes.max() - data.test.sizes.min() <= 1


def test_unpacked_files_and_the_npz_give_the_same(tmp_path: Path, folder: str) -> None:
    plain = DIGITS.write(tmp_path / "plain", packed=False)
    for path in plain.glob("t10k*"):
        path.rename(path.with_name(path.name.replace("-idx", ".idx")))
    DIGITS.write_npz(tmp_path / "npz" / "mnist_writers.npz")
    for arguments in ({"partition": "writer"}, {"partition": "iid", "test": "official"}):
        first = mnist(data_dir=folder, **arguments)  # type: ignore[arg-type]
        for other in (plain, tmp_path / "npz"):
            data = mnist(data_dir=str(other), **arguments)  # type: ignore[arg-type]
            assert data.clients == first.clients
            for name in ("x", "y"):
                assert np.array_equal(data.train.samples[name], first.train.samples[name])


def test_digits_need_not_have_writers_or_a_test_half(tmp_path: Path) -> None:
    for name in list(DIGITS.files())[:2]:
        write(tmp_path / name, DIGITS.files()[name])
    assert mnist("iid", data_dir=str(tmp_path)).num_clients == 20
    for arguments, missing in (
        ({"partition": "writer"}, "qmnist-train-labels-idx2-int.gz"),
        ({"test": "official"}, "t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz"),
    ):
        with pytest.raises(ValueError, match="put it there, or leave out data_dir") as error:
            mnist(data_dir=str(tmp_path), **arguments)  # type: ignore[arg-type]
        assert f"{tmp_path} has no {missing};" in refusal(error)


WRONG = DIGITS.extended.copy()
WRONG[4, 0] = (WRONG[4, 0] + 1) % 10
BAD: list[tuple[str, bytes, str]] = [
    ("train-labels-idx1-ubyte.gz", idx_bytes(np.full(60, 10)), "labels must be whole numbers from 0 to 9, sample 0"),
    ("train-labels-idx1-ubyte.gz", idx_bytes(DIGITS.labels[:59]), "needs the sizes 60, its header says 59"),
    ("train-images-idx3-ubyte.gz", idx_bytes(DIGITS.images)[:-1], "it is cut short"),
    ("train-images-idx3-ubyte.gz", idx_bytes(DIGITS.labels), "begins with the bytes (0, 0, 8, 3)"),
    ("qmnist-train-labels-idx2-int.gz", idx_bytes(WRONG, 12), "do not belong together"),
    ("qmnist-train-labels-idx2-int.gz", idx_bytes(WRONG[:, :7], 12), "needs the sizes 60 x 8"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD)
def test_bad_files_are_refused_by_name(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    DIGITS.write(tmp_path, changes={name: content})
    with pytest.raises(ValueError, match=name) as error:
        mnist("writer", data_dir=str(tmp_path))
    assert message in refusal(error)


BAD_NPZ: list[tuple[dict[str, Any], str]] = [
    ({"X": np.zeros((80, 28, 27), np.uint8)}, "needs X of shape (n, 28, 28)"),
    ({"X": np.zeros((80, 28, 28))}, "X must hold bytes, it holds float64"),
    ({"y": np.full(80, -1)}, "labels must be whole numbers from 0 to 9, sample 0 has -1"),
    ({"y": np.full(80, np.nan)}, "sample 0 has nan"),
    ({"writer": np.zeros(79)}, "of length n"),
    ({"is_test": np.ones(80, bool)}, "has no training digits"),
]


@pytest.mark.parametrize(("changes", "message"), BAD_NPZ)
def test_bad_npz_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    DIGITS.write_npz(tmp_path / "mnist_writers.npz", **changes)
    with pytest.raises(ValueError, match=r"mnist_writers\.npz") as error:
        mnist("writer", data_dir=str(tmp_path))
    assert message in refusal(error)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"beta": 0.5}, 'beta is for partition="dirichlet", got beta=0.5 with "iid"'),
        ({"partition": "writer", "min_samples": 2}, 'for partition="dirichlet" or "quantity", got'),
        ({"partition": "dirichlet", "min_samples": 0}, "min_samples must be at least 1, got 0"),
        ({"partition": "writer", "num_clients": 4}, r"num_clients must lie in 1\.\.3, the number of writers, got 4"),
        ({"num_clients": 61}, "61 clients with 1 or more samples each need 61 samples, got 60"),
        ({"num_clients": 21, "test": "official"}, "21 clients with 1 or more"),
        ({"test_share": 1.0}, "test_share must be at least 0 and below 1, got 1.0"),
        ({"partition": "author"}, "partition must be one of iid, shards, dirichlet, quantity, few_labels, writer"),
        ({"test": "theirs"}, 'test must be "own" or "official"'),
        ({"seed": -1}, "seed must be a whole number >= 0"),
        ({"data_dir": "/nowhere/at/all"}, "data_dir must be a folder"),
    ],
)
def test_refuses(folder: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mnist(**{"data_dir": folder, **arguments})


def test_real_digits_by_writer() -> None:
    data = mnist("writer", data_dir=str(real("mnist", "mnist_writers.npz").parent))
    assert data.test is not None
    total = data.train.sizes + data.test.sizes
    assert (data.num_clients, total.sum(), total.min(), total.max()) == (539, 60000, 19, 131)
    assert np.median(total) == 116
    x = data.train.samples["x"]
    assert (x.min(), x.max()) == (0.0, 1.0)
    # The pixels of MNIST have mean 0.1307 and deviation 0.3081, as everybody's normalisation constants say.
    assert x.mean(dtype=np.float64) == pytest.approx(0.1307, abs=0.002)
    assert x.std(dtype=np.float64) == pytest.approx(0.3081, abs=0.002)
