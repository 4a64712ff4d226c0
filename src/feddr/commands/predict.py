"""The command ``feddr predict``: raw rows of a CSV file in, labels or numbers out."""

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import pandas as pd

    from feddr.inference import Predictor


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    file: Annotated[Path, typer.Argument(metavar="FILE.csv", help="Rows with the columns of the training data.")],
    method: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which method, where the run compares several.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="A CSV file, instead of standard output.")] = None,
    proba: Annotated[bool, typer.Option("--proba", help="Add the probability of each class.")] = False,
) -> None:
    """Predict each row of FILE.csv with the model that a run has saved; the answer is a CSV with a line for each."""
    from feddr.inference import load
    from feddr.storage import atomic

    text = table(load(run, method), rows(file), proba)
    if out is None:
        typer.echo(text, nl=False)
        return
    with atomic.refusing(out):
        atomic.write(out, text.encode())
    typer.echo(f"Saved {out}, {text.count(chr(10)) - 1:,} rows.")


def rows(path: Path) -> "pd.DataFrame":
    """Return the cells of a CSV file as they stand there, each row with words for its place."""
    import pandas as pd

    from feddr.datasets import files
    from feddr.preparation.preparation import PLACE

    try:
        cells = pd.read_csv(io.BytesIO(files.read(path)), dtype=str, keep_default_na=False, skipinitialspace=True)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a table ({str(error).strip()}).") from None
    cells.columns = cells.columns.str.strip()
    return cells.set_axis(pd.Index([f"{path}, row {i + 1}" for i in range(len(cells))], name=PLACE))


def table(predictor: "Predictor", raw: "pd.DataFrame", proba: bool) -> str:
    """Return the predictions of rows as CSV."""
    prepared = predictor.preparation is not None
    x = raw if prepared else _numbers(predictor, raw)
    columns = {"prediction": predictor.predict(x).tolist()}
    if proba:
        probabilities = predictor.predict_proba(x)
        columns |= {f"probability={name}": probabilities[:, k].tolist() for k, name in enumerate(predictor.classes)}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def _numbers(predictor: "Predictor", raw: "pd.DataFrame") -> "pd.DataFrame":
    """Return the features of a model that was trained on numbers as they were."""
    import pandas as pd

    from feddr.preparation import NumericColumn, Preparation

    names = predictor.features or tuple(raw.columns)
    as_is = Preparation(tuple(NumericColumn(name) for name in names))
    return pd.DataFrame(as_is.transform(raw), columns=list(names))
