import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feddr.history import COLUMNS, History, Row


@given(st.lists(st.tuples(st.integers(0, 10**15), st.floats(allow_nan=True, allow_infinity=True)), max_size=5))
def test_csv_round_trip_is_exact(tmp_path_factory: pytest.TempPathFactory, values: list[tuple[int, float]]) -> None:
    history = History([Row(round=k, bytes_up=count, F=x, sparsity=x) for k, (count, x) in enumerate(values)])
    path = tmp_path_factory.mktemp("history") / "history.csv"
    history.to_csv(path)
    back = History.from_csv(path)
    assert len(back) == len(history)
    for a, b in zip(history.rows, back.rows, strict=True):
        for name in COLUMNS:
            x, y = getattr(a, name), getattr(b, name)
            assert x == y or (math.isnan(x) and math.isnan(y))
            assert type(x) is type(y)


def test_a_metric_that_every_history_has_is_no_further_column(tmp_path: Path) -> None:
    history = History([Row(round=0, train_accuracy=0.5, metrics={"train_accuracy": 0.5, "test_f1": 0.25})])
    assert history.columns == (*COLUMNS, "test_f1")
    history.to_csv(tmp_path / "history.csv")
    row = History.from_csv(tmp_path / "history.csv").last
    assert (row.train_accuracy, row.metrics) == (0.5, {"test_f1": 0.25})


def test_to_pandas_has_every_column() -> None:
    table = History([Row(round=0, F=2.0), Row(round=10, F=1.0)]).to_pandas()
    assert tuple(table.columns) == COLUMNS
    assert table["F"].tolist() == [2.0, 1.0]
    assert np.isnan(table["test_accuracy"]).all()


def test_wrong_files_and_columns_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "wrong.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="is not a history"):
        History.from_csv(path)
    path.write_text(",".join(COLUMNS) + "\n0,1,x\n")
    with pytest.raises(ValueError, match="line 2"):
        History.from_csv(path)
    with pytest.raises(ValueError, match="'loss'"):
        History([]).column("loss")
