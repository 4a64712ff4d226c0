"""Files of LEAF, FEMNIST in both layouts, good and bad."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from feddr.datasets import femnist, files, leaf
from tests.datasets.formats import Digits, idx_bytes, leaf_file, real, refusal, samples, write

USERS: dict[str, tuple[list[list[float]], list[float]]] = {
    "ann": ([[1, 2.5], [3, 4], [5, 6]], [0, 1, 2]),
    "bob": ([[7, 8], [9, 10]], [1.0, 1.0]),
}


def both(tmp_path: Path, train: Any = USERS, test: Any = USERS, name: str = "all.json") -> str:
    leaf_file(tmp_path / "train" / name, train)
    leaf_file(tmp_path / "test" / name, test)
    return str(tmp_path)


@pytest.mark.parametrize("name", ["all.json", "all.json.gz"])
def test_users_are_clients_in_their_order(tmp_path: Path, name: str) -> None:
    swapped = {"bob": ([[0, 0]], [2]), "ann": ([], [])}
    data = leaf(both(tmp_path, test=swapped, name=name))
    assert data.test is not None
    assert data.clients == ("ann", "bob")
    assert (data.train.sizes.tolist(), data.test.sizes.tolist()) == ([3, 2], [0, 1])
    assert data.train.client(0)["x"].tolist() == USERS["ann"][0]
    assert data.train.client(1)["y"].tolist() == USERS["bob"][1]
    assert data.test.client(1)["x"].tolist() == [[0, 0]]
    assert (data.train.samples["x"].dtype, data.train.samples["y"].dtype) == (np.dtype("float32"), np.dtype("int32"))


def test_a_folder_of_files_and_a_share_for_testing(tmp_path: Path) -> None:
    for i in range(4):
        leaf_file(tmp_path / f"part{i}.json", {f"u{i}": ([[i, j] for j in range(10)], list(range(10)))})
    data = leaf(str(tmp_path), test_share=0.2)
    assert data.test is not None
    assert (data.clients, data.train.sizes.tolist(), data.test.sizes.tolist()) == (
        ("u0", "u1", "u2", "u3"),
        [8] * 4,
        [2] * 4,
    )
    assert sorted(samples(data.train) + samples(data.test)) == [(i, j, j) for i in range(4) for j in range(10)]
    few = leaf(str(tmp_path), num_clients=2, seed=3)
    assert few.num_clients == 2
    assert set(few.clients) < set(data.clients)
    assert leaf(str(tmp_path / "part1.json"), test_share=0).test is None


def test_labels_with_fractions_are_numbers(tmp_path: Path) -> None:
    path = leaf_file(tmp_path / "a.json", {"u": ([[1], [2]], [0.5, 1])})
    assert leaf(str(path), test_share=0.5).train.samples["y"].dtype == np.float32


ONE = USERS["bob"]
BAD_FILES: list[tuple[Any, dict[str, Any], str]] = [
    ({"u": ([], [])}, {}, "user u has no samples; remove it"),
    (
        {"u": ([[1, 2], [3]], [0, 1])},
        {},
        "user u needs samples of one width with numbers only: its rows have from 1 to 2",
    ),
    ({"u": ([[1, 2]], [0, 1])}, {}, "user u needs one label for each sample, got 1 samples and y of shape (2,)"),
    ({"u": ([[1, 2]], [[0]])}, {}, "user u needs one label for each sample"),
    ({"u": ([[1, None]], [0])}, {}, "user u has a number that is not finite, or nothing in place of a number"),
    ({"u": ([[1, 1e300]], [0])}, {}, "user u has a number that is not finite"),
    ({"u": ([[1, {}]], [0])}, {}, "user u needs samples of one width with numbers only"),
    ({"u": (["To be, or"], ["n"])}, {}, "user u has text; features and labels must be numbers"),
    ({"u": ONE, "v": ([[1]], [0])}, {}, "user v has 1 features and user u has 2"),
    ({"u": ONE}, {"num_samples": [3]}, "user u has 2 samples, num_samples says 3"),
    ({"u": ONE}, {"num_samples": [2, 3]}, "must be of the same users, they have 1, 2 and 1"),
    ({"u": ONE}, {"users": ["w"]}, "must be of the same users"),
    ({"u": ONE}, {"users": "u"}, "users and num_samples must be lists"),
    ({"u": ONE}, {"user_data": {"u": {"x": 3}}}, "user u needs lists x and y"),
    ({"u": ONE}, {"user_data": []}, "user_data a table"),
]


@pytest.mark.parametrize(("users", "changes", "message"), BAD_FILES, ids=[message for _, _, message in BAD_FILES])
def test_bad_files_are_refused(tmp_path: Path, users: Any, changes: dict[str, Any], message: str) -> None:
    path = leaf_file(tmp_path / "bad.json", users, **changes)
    with pytest.raises(ValueError, match=r"bad\.json: ") as error:
        leaf(str(path))
    assert message in refusal(error)


BAD_TEXTS: list[tuple[bytes, str]] = [
    (json.dumps({"users": [], "num_samples": []}).encode(), "has users, num_samples and user_data, this one has not"),
    (b"[]", "this one has not"),
    (b'{"users": ["u"], "num_sam', "not JSON, "),
    (b"[" * 100_000, "nested too deeply"),
    (b'{"users": ["u"], "num_samples": [1], "user_data": {"u": {"x": [[NaN]], "y": [0]}}}', "NaN is not a number"),
    (b'{"users": ["u"], "users": ["u"]}', "users stands twice in one table"),
    (b"\xff", "not a text in UTF-8"),
]


@pytest.mark.parametrize(("content", "message"), BAD_TEXTS, ids=[message for _, message in BAD_TEXTS])
def test_bad_texts_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = write(tmp_path / "bad.json", content)
    with pytest.raises(ValueError, match=r"bad\.json: ") as error:
        leaf(str(path))
    assert message in refusal(error)


def test_halves_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    for test, message in (
        ({"ann": USERS["ann"]}, "1 of train (bob for one) are not in test; make both halves with LEAF's -t sample"),
        ({**USERS, "eve": ONE}, "1 of test (eve for one) are not in train"),
        ({"ann": ([[1]], [0]), "bob": ([[1]], [0])}, "need one width, got 2 and 1 features"),
        ({"ann": ([[1, 2]], [0.5]), "bob": ([], [])}, "both be classes or both be numbers"),
    ):
        with pytest.raises(ValueError, match="train") as error:
            leaf(both(tmp_path, test=test))
        assert message in refusal(error)
    leaf_file(tmp_path / "train" / "more.json", {"ann": ONE})
    with pytest.raises(ValueError, match="user ann was in another file already"):
        leaf(str(tmp_path))


def test_places_without_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"needs files ending in \.json or \.json\.gz, it has none"):
        leaf(str(tmp_path))
    with pytest.raises(ValueError, match="no such file"):
        leaf(str(tmp_path / "none.json"))


def test_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = leaf_file(tmp_path / "bomb.json.gz", {"u": ([[0] * 10_000], [0])})
    monkeypatch.setattr(files, "LIMIT", 10_000)
    with pytest.raises(ValueError, match="expands to more than 10,000 bytes"):
        leaf(str(path))


# FEMNIST


def characters(size: int, classes: int, high: float) -> tuple[list[list[float]], list[int]]:
    rng = np.random.default_rng(size)
    return (high * rng.random((size, 784))).round(3).tolist(), rng.integers(0, classes, size).tolist()


def test_femnist_is_leaf_with_checks(tmp_path: Path) -> None:
    users = {f"f{i}": characters(4 + i, 62, 1.0) for i in range(3)}
    data = femnist(both(tmp_path, users, users))
    assert data.num_clients == 3
    assert (len(data.classes), data.classes[10], data.classes[61]) == (62, "A", "z")
    assert data.train.client(2)["x"] == pytest.approx(np.array(users["f2"][0]))
    assert femnist(str(tmp_path), num_clients=2).num_clients == 2


def test_bytes_become_numbers_from_0_to_1(tmp_path: Path) -> None:
    users = {"u": ([[255] * 784, [51] * 784], [0, 61])}
    data = femnist(both(tmp_path, users, users))
    assert data.train.samples["x"][:, 0].tolist() == [1.0, np.float32(0.2)]


@pytest.mark.parametrize(
    ("user", "layout", "message"),
    [
        (([[0] * 784], [62]), "leaf", "user u: labels must be whole numbers from 0 to 61, sample 0 has 62"),
        (([[0] * 784], [26]), "fedprox", "user u: labels must be whole numbers from 0 to 25, sample 0 has 26"),
        (([[0] * 784], [0.5]), "leaf", "sample 0 has 0.5"),
        (([[0] * 783], [0]), "leaf", "has 784 pixels from 0 to 1 or to 255, user u has 783 from 0 to 0"),
        (([[-1] * 784], [0]), "leaf", "user u has 784 from -1 to -1"),
    ],
)
def test_femnist_refuses(tmp_path: Path, user: Any, layout: Any, message: str) -> None:
    with pytest.raises(ValueError, match="user u") as error:
        femnist(both(tmp_path, {"u": user}, {"u": user}), layout=layout)
    assert message in refusal(error)


class Letters:
    """EMNIST by class: every image is known by its first pixels, and lies on its side in idx files."""

    def __init__(self, each: int = 30, labels: range = range(62)) -> None:
        self.labels = np.repeat(labels, each).astype(np.uint8)
        self.images = np.random.default_rng(5).integers(0, 256, (len(self.labels), 28, 28)).astype(np.uint8)

    def write_idx(self, folder: Path) -> str:
        write(folder / "emnist-byclass-train-images-idx3-ubyte.gz", idx_bytes(self.images.swapaxes(1, 2)))
        write(folder / "emnist-byclass-train-labels-idx1-ubyte.gz", idx_bytes(self.labels))
        return str(folder)

    def write_npz(self, folder: Path, **changes: Any) -> str:
        folder.mkdir(exist_ok=True)
        arrays: dict[str, Any] = {"X": self.images, "y": self.labels, **changes}
        np.savez(folder / "emnist_sample.npz", **arrays)
        return str(folder)


def test_fedprox_layout_is_the_published_recipe(tmp_path: Path) -> None:
    letters = Letters()
    data = femnist(letters.write_npz(tmp_path), layout="fedprox", seed=2)
    assert data.test is not None
    assert (data.num_clients, len(data.classes)) == (200, 26)
    sizes = data.train.sizes + data.test.sizes
    assert np.all(sizes % 3 == 0)
    assert sizes.min() >= 6
    assert np.array_equal(data.train.sizes, 9 * sizes // 10)
    for user in range(200):
        y = np.concatenate([data.train.client(user)["y"], data.test.client(user)["y"]])
        classes, counts = np.unique(y, return_counts=True)
        assert set(classes) == {user % 10, (user + 1) % 10, (user + 2) % 10}
        assert len(set(counts)) == 1
    # lognormal(4, 1) + 5, of which whole thirds are kept: the logarithms have mean 4 and deviation 1.
    logs = np.log(np.maximum(sizes - 4, 1))
    assert np.mean(logs) == pytest.approx(4, abs=5 / np.sqrt(200))
    assert np.std(logs) == pytest.approx(1, abs=5 / np.sqrt(400))


def test_fedprox_layout_keeps_images_for_testing_apart_and_uses_all_before_any_twice(tmp_path: Path) -> None:
    data = femnist(Letters(3000, range(36, 46)).write_npz(tmp_path), layout="fedprox")
    assert data.test is not None

    def images(part: Any) -> list[bytes]:
        return [row.tobytes() for row in part.samples["x"]]

    train, test = images(data.train), images(data.test)
    assert not set(train) & set(test)
    # No letter needs more than 2700 images for training, so that none is used twice.
    assert np.bincount(data.train.samples["y"]).max() < 2700
    assert len(set(train)) == len(train)


def test_both_sources_of_letters_give_the_same(tmp_path: Path) -> None:
    letters = Letters()
    one = femnist(letters.write_idx(tmp_path / "idx"), layout="fedprox", num_clients=20)
    other = femnist(letters.write_npz(tmp_path / "npz"), layout="fedprox", num_clients=20)
    assert np.array_equal(one.train.samples["x"], other.train.samples["x"])
    upright = letters.images[(letters.labels >= 36) & (letters.labels < 46)].reshape(-1, 784)
    pixels = {row.tobytes() for row in np.divide(upright, np.float32(255), dtype=np.float32)}
    assert all(row.tobytes() in pixels for row in one.train.samples["x"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": np.zeros(1860, np.uint8)}, "each letter from a to j needs 2 images or more, a has 0"),
        ({"y": np.full(1860, 62)}, "labels must be whole numbers from 0 to 61"),
        ({"X": np.zeros((1860, 784), np.uint8)}, "needs X, bytes of shape"),
        ({"y": np.zeros(3)}, "n labels y"),
    ],
)
def test_bad_letters_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r"emnist_sample\.npz") as error:
        femnist(Letters().write_npz(tmp_path, **changes), layout="fedprox")
    assert message in refusal(error)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "femnist needs LEAF's folders train and test in"),
        ({"layout": "fedprox"}, r"or emnist\*\.npz, or emnist-byclass-train-images"),
        ({"layout": "mine"}, 'layout must be "leaf" or "fedprox"'),
        ({"data_dir": "/nowhere/at/all"}, "data_dir must be a folder"),
    ],
)
def test_missing_files_are_named(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        femnist(**{"data_dir": str(tmp_path), **arguments})
    refusal(error)


def test_digits_of_mnist_are_not_letters(tmp_path: Path) -> None:
    Digits().write_npz(tmp_path / "emnist.npz")
    with pytest.raises(ValueError, match="a has 0"):
        femnist(str(tmp_path), layout="fedprox")


@pytest.mark.parametrize(("name", "size"), [("iid", 805), ("0_0", 897), ("0.5_0.5", 912), ("1_1", 1084)])
def test_published_synthetic_files(name: str, size: int) -> None:
    data = leaf(str(real("synthetic_fedprox", name, "mytest.json.gz")))
    assert data.test is not None
    assert data.num_clients == 30
    assert data.train.num_samples + data.test.num_samples == size
    assert data.train.samples["x"].shape[1] == 60
    assert set(np.unique(data.train.samples["y"])) <= set(range(10))


def test_real_letters() -> None:
    data = femnist(str(real("emnist_sample")), layout="fedprox")
    assert data.test is not None
    assert (data.num_clients, data.train.samples["x"].max()) == (200, 1.0)
    used = {row.tobytes() for part in (data.train, data.test) for row in part.samples["x"]}
    assert 400 <= len(used) <= 470
