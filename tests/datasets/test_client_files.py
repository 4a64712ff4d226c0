"""Clients in files: read when they take part, the same numbers from every format, and refused by name."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feddr
from feddr.datasets import client_files

SIZES = (3, 1, 4)


def samples() -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    return [
        {"x": rng.integers(-9, 9, (n, 2)).astype(np.float32) / 4, "y": rng.integers(0, 3, n).astype(np.int32)}
        for n in SIZES
    ]


def as_npz(folder: Path) -> str:
    for i, client in enumerate(samples()):
        np.savez(folder / f"{i}.npz", **client)
    return str(folder / "*.npz")


def as_csv(folder: Path) -> str:
    """The columns of the second file come in another order."""
    for i, client in enumerate(samples()):
        names, columns = ["a", "y", "b"], [client["x"][:, 0], client["y"], client["x"][:, 1]]
        if i == 1:
            names, columns = names[::-1], columns[::-1]
        lines = [",".join(names), *(",".join(map(str, row)) for row in zip(*columns, strict=True))]
        (folder / f"{i}.csv").write_text("\n".join(lines) + "\n")
    return str(folder / "*.csv")


@pytest.mark.parametrize("write", [as_npz, as_csv])
def test_every_format_has_the_samples_of_its_clients(write: Any, tmp_path: Path) -> None:
    data = client_files(write(tmp_path), panel=2)
    assert data.sizes.tolist() == list(SIZES)
    assert data.clients == ("0", "1", "2")
    assert data.features == (("a", "b") if write is as_csv else ())
    assert len(data.panel) == 2
    assert data.on_demand is not None
    elsewhere = pickle.loads(pickle.dumps(data.on_demand.make))
    for i, client in enumerate(samples()):
        for name, array in client.items():
            for got in (data.client(i)[name], elsewhere(i)[name]):
                assert got.dtype == array.dtype
                np.testing.assert_array_equal(got, array)


def test_a_run_is_that_of_samples_in_memory(tmp_path: Path) -> None:
    common: dict[str, Any] = {"local": feddr.local.SGD(lr=0.1), "rounds": 2, "progress": False}
    finals = [
        feddr.simulate(feddr.Problem.classification(feddr.models.softmax(2, 3), data), feddr.FedAvg(), **common)
        for data in (client_files(as_npz(tmp_path)), feddr.FederatedData.from_clients(samples()))
    ]
    np.testing.assert_allclose(finals[0].params["weight"], finals[1].params["weight"], rtol=1e-6)
    assert pytest.approx(finals[1].history.last.F, rel=1e-6) == finals[0].history.last.F


def test_only_the_panel_needs_to_be_here_where_sizes_are_known(tmp_path: Path) -> None:
    as_npz(tmp_path)
    paths = [str(tmp_path / f"{i}.npz") for i in range(3)]
    (there,) = client_files(paths, panel=1).panel
    gone = next(i for i in range(3) if i != there)
    Path(paths[gone]).unlink()
    with pytest.raises(ValueError, match=r"no such file; give sizes="):
        client_files(paths, panel=1)
    data = client_files(paths, sizes=SIZES, panel=1)
    with pytest.raises(
        ValueError, match=rf"Client {gone} needs the file .*{gone}.npz, which is not there; on a cluster"
    ):
        data.client(gone)


def test_images_of_bytes_become_numbers_from_0_to_1_and_labels_numbers(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.full((2, 3, 3), 255, np.uint8), target=np.array([0.5, 1.5]))
    data = client_files([str(tmp_path / "a.npz")], label="target", regression=True)
    assert data.client(0)["x"].max() == 1.0
    assert data.client(0)["y"].tolist() == [0.5, 1.5]
    assert data.client(0)["y"].dtype == np.float32


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("a,y\nx,1\n", {}, "must have numbers alone"),
        ("a,y\n1,0.5\n", {}, "y must be numbers of classes, whole and from 0; use regression=True"),
        ("a,y\n1,-1\n", {}, "y must be numbers of classes"),
        ("a,y\nnan,1\n", {}, "must have a finite number in every place"),
        ("a,b\n1,1\n", {}, "needs a column y to predict and others, each once, it has a, b"),
        ("a,y\n1,1\n", {"sizes": [1, 2]}, "sizes needs a number for each of 1 files, got 2"),
        ("a,y\n1,1\n", {"sizes": [2]}, "was said to have 2 samples"),
        ("a,y\n1,1\n", {"panel": 0}, "panel must be"),
    ],
)
def test_what_is_wrong_is_said(text: str, arguments: dict[str, Any], message: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        client_files(str(tmp_path / "*.csv"), **arguments)


def test_files_that_differ_in_their_columns_and_no_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,y\n1,1\n")
    (tmp_path / "b.csv").write_text("c,y\n1,1\n")
    with pytest.raises(ValueError, match=r"b.csv: needs the columns a, y, it has c, y"):
        client_files(str(tmp_path / "*.csv"))
    with pytest.raises(ValueError, match="needs a file for each client"):
        client_files(str(tmp_path / "*.npz"))
