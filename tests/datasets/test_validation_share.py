"""Every data set of configs has a validation share: the same samples in three parts, and scales of the first alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feddr
from feddr.config import components
from feddr.data import FederatedData
from tests.datasets.formats import Digits, leaf_file, samples, write

LINE = "63,1,1,145,233,1,2,150,0,2.3,3,0,6"


def leaf_users(classes: int, width: int) -> dict[str, Any]:
    """Return three users with 20 samples each, every sample with its own features."""
    rng = np.random.default_rng(0)
    return {name: (rng.random((20, width)).tolist(), [j % classes for j in range(20)]) for name in ("a", "b", "c")}


def files(folder: Path) -> dict[str, dict[str, Any]]:
    """Write files for each data set, and return arguments by name."""
    digits = Digits().write(folder / "mnist")
    users, images = leaf_users(3, 2), leaf_users(2, 784)
    own = leaf_file(folder / "own" / "all.json", users)
    for part in ("train", "test"):
        leaf_file(folder / "halves" / part / "all.json", users)
        leaf_file(folder / "femnist" / part / "all.json", images)
    rows = np.random.default_rng(1).normal(size=(60, 2)).tolist()
    table = "".join(f"{i % 2} 1:{a} 2:{b}\n" for i, (a, b) in enumerate(rows))
    write(folder / "rows.txt", table.encode())
    header = "site,a,b,ill\n"
    write(
        folder / "rows.csv", (header + "".join(f"s{i % 3},{a},{b},{i % 2}\n" for i, (a, b) in enumerate(rows))).encode()
    )
    letters = np.random.default_rng(2).integers(0, 256, (300, 28, 28)).astype(np.uint8)
    (folder / "emnist").mkdir()
    np.savez(folder / "emnist" / "emnist.npz", X=letters, y=np.repeat(np.arange(36, 46), 30).astype(np.uint8))
    for name in ("cleveland", "hungarian", "switzerland", "va"):
        patients = "".join(f"{LINE.replace('63', str(40 + i), 1)},{i % 2}\n" for i in range(20))
        write(folder / "heart" / f"processed.{name}.data", patients.encode())
    return {
        "bundled": {"which": "iris", "num_clients": 3},
        "csv": {"path": str(folder / "rows.csv"), "client": "site", "label": "ill"},
        "femnist": {"data_dir": str(folder / "femnist")},
        "femnist fedprox": {"data_dir": str(folder / "emnist"), "layout": "fedprox", "num_clients": 5},
        "heart_disease": {"data_dir": str(folder / "heart")},
        "leaf": {"path": str(own)},
        "leaf halves": {"path": str(folder / "halves")},
        "libsvm": {"path": str(folder / "rows.txt"), "num_clients": 3},
        "mnist": {"data_dir": str(digits), "num_clients": 3},
        "mnist official": {"data_dir": str(digits), "num_clients": 3, "test": "official"},
        "synthetic": {"r": 1.0, "s": 1.0, "num_clients": 3},
        "synthetic_iid": {"num_clients": 3},
    }


GIVEN = ("femnist", "femnist fedprox", "leaf halves", "mnist official", "synthetic", "synthetic_iid")
"""Those whose test part is given, so that shares are of the training samples."""
NAMES = (
    *("bundled", "csv", "femnist", "femnist fedprox", "heart_disease", "leaf", "leaf halves", "libsvm", "mnist"),
    *("mnist official", "synthetic", "synthetic_iid"),
)


def test_no_data_set_is_forgotten() -> None:
    # What stays in a file for each client is read whole, where the client takes part.
    assert {name.split()[0] for name in NAMES} == set(components.TABLE["data"][1]) - {"client_files"}


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., FederatedData]:
    arguments = files(tmp_path)

    def made(name: str, **more: Any) -> FederatedData:
        return getattr(feddr.datasets, name.split()[0])(**{**arguments[name], **more})

    return made


@pytest.mark.parametrize("name", NAMES)
def test_each_sample_is_in_one_of_three_parts(name: str, make: Callable[..., FederatedData]) -> None:
    whole, parts = make(name), make(name, validation_share=0.25)
    assert whole.validation is None
    assert whole.test is not None
    assert parts.test is not None
    assert parts.validation is not None
    assert (parts.features, parts.classes, parts.clients) == (whole.features, whole.classes, whole.clients)
    assert np.array_equal(parts.train.sizes + parts.validation.sizes, whole.train.sizes)
    of = whole.train.sizes + (0 if name in GIVEN else whole.test.sizes)
    assert np.array_equal(parts.validation.sizes, np.floor(0.25 * of + 0.5))
    if parts.preparation is None:  # no statistics, so that features are the same in both
        assert samples(parts.test) == samples(whole.test)
        assert sorted(samples(parts.train) + samples(parts.validation)) == samples(whole.train)
    for i in range(parts.num_clients):
        labels = [part.client(i)["y"] for part in (parts.train, parts.validation)]
        assert sorted(np.concatenate(labels)) == sorted(whole.train.client(i)["y"])


@pytest.mark.parametrize("name", NAMES)
def test_stratified_parts_have_every_label_in_its_share(name: str, make: Callable[..., FederatedData]) -> None:
    whole, parts = make(name), make(name, validation_share=0.25, stratify=True)
    assert parts.validation is not None
    for i in range(parts.num_clients):
        total = whole.train.client(i)["y"]
        if name not in GIVEN:
            assert whole.test is not None
            total = np.concatenate([total, whole.test.client(i)["y"]])
        width = int(total.max()) + 1
        held = np.bincount(parts.validation.client(i)["y"], minlength=width)
        assert np.abs(held - 0.25 * np.bincount(total, minlength=width)).max() <= 1.5


@pytest.mark.parametrize("name", ["bundled", "libsvm", "csv"])
def test_scales_are_of_the_training_part_alone(name: str, make: Callable[..., FederatedData]) -> None:
    data = make(name, validation_share=0.3, standardise=True)
    assert data.validation is not None
    x = data.train.samples["x"].astype(np.float64)
    assert np.allclose(x.mean(axis=0), 0, atol=1e-6)
    assert np.allclose(x.std(axis=0), 1, atol=1e-5)
    assert np.abs(data.validation.samples["x"].mean(axis=0)).max() > 1e-3


def test_medians_of_a_hospital_are_of_its_training_patients(tmp_path: Path) -> None:
    def hospital() -> str:
        ages = ["?" if i == 0 else str(40 + i * i) for i in range(20)]
        return "".join(f"{LINE.replace('63', age, 1)},{i % 2}\n" for i, age in enumerate(ages))

    for name in ("cleveland", "hungarian", "switzerland", "va"):
        write(tmp_path / f"processed.{name}.data", hospital().encode())
    data = feddr.datasets.heart_disease(str(tmp_path), validation_share=0.5)
    real_ages = {40 + i * i for i in range(1, 20)}

    def ages(part: Any, i: int) -> list[float]:
        return np.round(50 + 10 * part.client(i)["x"][:, 0].astype(np.float64), 2).tolist()

    for i in range(4):
        trained = ages(data.train, i)
        everyone = [*trained, *ages(data.validation, i), *ages(data.test, i)]
        (filled,) = set(everyone) - real_ages or {np.median(sorted(real_ages & set(trained)))}
        assert filled == np.median(sorted(real_ages & set(trained)))


def test_a_config_has_it_too() -> None:
    tables = {
        "name": "small",
        "rounds": 1,
        "metrics": ["validation_accuracy"],
        "data": {"name": "synthetic_iid", "num_clients": 3, "validation_share": 0.2, "stratify": True},
        "model": {"name": "softmax", "num_features": 60, "num_classes": 10},
        "local": {"name": "SGD", "lr": 0.1},
        "algorithm": {"name": "FedAvg"},
    }
    problem, runs = feddr.config.build(feddr.config.parse(tables))
    assert problem.data.validation is not None
    row = feddr.config.perform(feddr.config.parse(tables), problem, runs[0]).history.last
    assert 0 <= row.metrics["validation_accuracy"] <= 1


def test_numbers_to_predict_cannot_be_stratified() -> None:
    with pytest.raises(ValueError, match="stratify needs classes, got a regression"):
        feddr.datasets.bundled("diabetes", stratify=True)
    parts = feddr.datasets.bundled("diabetes", num_clients=2, validation_share=0.1)
    assert parts.validation is not None
