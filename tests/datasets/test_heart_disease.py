"""Four hospitals: what becomes of their columns and of what is missing, and that none of it crosses a hospital."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from feddr.datasets import heart_disease
from feddr.datasets.heart_disease import HOSPITALS
from tests.datasets.formats import real, refusal

LINE = "63.0,1.0,4.0,145.0,233.0,1.0,2.0,150.0,0.0,2.3,3.0,0.0,6.0,0"
NAMES = ("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak", "slope", "ca", "thal")


def line(diagnosis: int = 0, **changes: Any) -> str:
    values = dict(zip(NAMES, LINE.split(","), strict=False)) | {key: str(value) for key, value in changes.items()}
    return ",".join([*values.values(), str(diagnosis)])


def write(folder: Path, **hospitals: list[str]) -> str:
    for name in HOSPITALS:
        (folder / f"processed.{name}.data").write_text("\n".join(hospitals.get(name, [LINE, LINE])) + "\n")
    return str(folder)


def test_a_patient_as_features(tmp_path: Path) -> None:
    data = heart_disease(write(tmp_path), "all", test_share=0)
    row = dict(zip(data.features, data.train.samples["x"][0].tolist(), strict=True))
    assert data.clients == HOSPITALS
    assert data.train.sizes.tolist() == [2, 2, 2, 2]
    numbers = {"age": 1.3, "trestbps": 0.75, "chol": -0.14, "thalach": 0.4, "oldpeak": 1.3, "ca": -1}
    ones = ("sex=1", "cp=4", "fbs=1", "restecg=2", "slope=3", "thal=6")
    zeros = ("cp=2", "cp=3", "restecg=1", "exang=1", "slope=2", "thal=7")
    assert row == pytest.approx(numbers | dict.fromkeys(ones, 1) | dict.fromkeys(zeros, 0))
    common = heart_disease(str(tmp_path), test_share=0)
    assert common.features == data.features[:13]


def test_the_diagnosis_is_whether_there_is_one(tmp_path: Path) -> None:
    folder = write(tmp_path, va=[line(diagnosis) for diagnosis in (0, 1, 2, 3, 4)])
    data = heart_disease(folder, test_share=0)
    assert sorted(data.train.client(3)["y"].tolist()) == [0, 1, 1, 1, 1]
    assert data.train.samples["y"].dtype == np.int32


def test_what_is_missing_comes_from_the_same_hospital(tmp_path: Path) -> None:
    own = [
        line(age=age, cp=cp, chol=chol) for age, cp, chol in ((40, 2, 200), (50, 2, 300), (70, 3, 0), ("?", "?", "?"))
    ]
    folder = write(tmp_path, hungarian=own)
    data = heart_disease(folder, test_share=0)
    x = data.train.client(1)["x"]
    column = {name: x[:, i] for i, name in enumerate(data.features)}
    # median age 50, most frequent cp 2, median chol 250, also for the patient with a chol of 0
    assert np.sum(column["age"] == 0.0) == 2
    assert sorted(column["cp=2"].tolist()) == [0, 1, 1, 1]
    assert column["chol"] == pytest.approx(np.sort([-0.8, 1.2, 0.2, 0.2])[np.argsort(np.argsort(column["chol"]))])


def test_a_column_that_a_hospital_lacks_gets_the_reference(tmp_path: Path) -> None:
    data = heart_disease(write(tmp_path, switzerland=[line(chol=0, restecg="?", trestbps="?")] * 3), test_share=0)
    x = dict(zip(data.features, data.train.client(2)["x"].T, strict=True))
    assert all(np.all(x[name] == 0) for name in ("chol", "trestbps", "restecg=1", "restecg=2"))


def test_nothing_crosses_a_hospital_or_comes_from_test_patients(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)

    def patients(shift: float) -> list[str]:
        ages = [shift + round(age, 1) for age in rng.normal(50, 10, 20)]
        return [line(age=age if i % 3 else "?", chol=200 + i) for i, age in enumerate(ages)]

    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    va = patients(0)
    one = heart_disease(write(tmp_path / "a", va=va, cleveland=patients(0), hungarian=patients(0)))
    other = heart_disease(write(tmp_path / "b", va=va, cleveland=patients(30), hungarian=patients(-30)))
    assert one.test is not None
    assert other.test is not None
    assert np.array_equal(one.train.client(3)["x"], other.train.client(3)["x"])
    assert np.array_equal(one.test.client(3)["x"], other.test.client(3)["x"])
    assert not np.array_equal(one.train.client(0)["x"], other.train.client(0)["x"])
    # Change an age of every test patient: the training part stays as it was.
    chols = {round(240 + 50 * float(c)) for c in one.test.client(3)["x"][:, one.features.index("chol")]}
    changed = [line(age=99, chol=200 + i) if 200 + i in chols else text for i, text in enumerate(va)]
    assert changed != va
    third = heart_disease(write(tmp_path / "b", va=changed))
    assert np.array_equal(one.train.client(3)["x"], third.train.client(3)["x"])


def test_medians_are_those_of_training_patients(tmp_path: Path) -> None:
    va = [line(age=40 + i if i % 3 else "?", chol=200 + i) for i in range(20)]
    before = heart_disease(write(tmp_path, va=va), validation_share=0.2)
    column = before.features.index("chol")
    kept = {round(240 + 50 * float(c)) - 200 for c in before.train.client(3)["x"][:, column]}
    changed = [text if i in kept else line(age=99, chol=200 + i) for i, text in enumerate(va)]
    after = heart_disease(write(tmp_path, va=changed), validation_share=0.2)
    assert len(kept) == 12
    assert np.array_equal(before.train.client(3)["x"], after.train.client(3)["x"])


def test_patients_with_gaps_can_be_left_out(tmp_path: Path) -> None:
    folder = write(tmp_path, va=[LINE, line(chol="?"), line(thal="?"), line(chol=0)])
    assert heart_disease(folder, missing="drop", test_share=0).train.sizes.tolist() == [2, 2, 2, 3]
    assert heart_disease(folder, "all", missing="drop", test_share=0).train.sizes.tolist() == [2, 2, 2, 2]
    with pytest.raises(ValueError, match='no patient has all of the chosen columns; use missing="own"'):
        heart_disease(write(tmp_path, va=[line(chol="?")]), missing="drop")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LINE[:-2], "line 2: needs 14 values between commas, it has 13"),
        (line(age="old"), "line 2: values must be numbers or ?"),
        (line(age="nan"), "line 2: age must be a finite number, got nan"),
        (line(oldpeak="inf"), "line 2: oldpeak must be a finite number, got inf"),
        (line(cp=5), "line 2: cp must be one of (1, 2, 3, 4), got 5"),
        (line(sex="nan"), "line 2: sex must be one of (0, 1), got nan"),
        (line(5), "line 2: the diagnosis must be 0, 1, 2, 3 or 4, got 5"),
        (LINE[:-1] + "?", "line 2: the diagnosis must be 0, 1, 2, 3 or 4, got ?"),
    ],
)
def test_bad_lines_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"processed\.va\.data") as error:
        heart_disease(write(tmp_path, va=[LINE, text]))
    assert message in refusal(error)


def test_empty_and_missing_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"processed\.va\.data: has no patients"):
        heart_disease(write(tmp_path, va=[]))
    (tmp_path / "processed.va.data").unlink()
    with pytest.raises(ValueError, match=r"has no processed\.va\.data; put it there"):
        heart_disease(str(tmp_path))
    with pytest.raises(ValueError, match='missing "own" or "drop"'):
        heart_disease(str(tmp_path), missing="mean")  # type: ignore[arg-type]


def test_the_real_hospitals() -> None:
    folder = str(real("heart_disease"))
    data = heart_disease(folder)
    assert data.test is not None
    assert (data.train.sizes + data.test.sizes).tolist() == [303, 294, 123, 200]
    # Healthy patients by the description of the set.
    healthy = [int(np.sum(p.client(i)["y"] == 0)) for i in range(4) for p in (data.train, data.test)]
    assert np.array(healthy).reshape(4, 2).sum(axis=1).tolist() == [164, 188, 8, 51]
    assert np.all(np.isfinite(data.train.samples["x"]))
    assert np.abs(data.train.samples["x"]).max() < 10
    # Those who leave out patients with gaps in the ten common columns count 740.
    dropped = heart_disease(folder, missing="drop", test_share=0)
    assert dropped.train.sizes.tolist() == [303, 261, 46, 130]


def test_the_checksums_are_those_of_the_real_files() -> None:
    import hashlib

    from feddr.datasets.heart_disease import FILES

    folder = real("heart_disease")
    for name, remote in FILES.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == remote.digest
