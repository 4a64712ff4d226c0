"""The task: who has a narrowed coronary artery? One hospital's patients, and the model that all hospitals share."""

from pathlib import Path

import numpy as np
from flwr.app import Context
from numpy.typing import NDArray

import feddr

HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
PATIENTS = (303, 294, 123, 200)

# Column of the file -> (centre, scale): round numbers, known before any patient is seen, so that scaling tells no
# hospital anything about another.
MEASURED = {0: (50, 10), 3: (130, 20), 4: (240, 50), 7: (140, 25), 9: (1, 1)}
ZERO_IS_MISSING = (3, 4)  # blood pressure and cholesterol; all Swiss patients have a cholesterol of 0
# Column of the file -> its values; the first is the reference.
CATEGORIES = {1: (0, 1), 2: (1, 2, 3, 4), 5: (0, 1), 6: (0, 1, 2), 8: (0, 1)}
COLUMNS = ("age", "sex", "pain", "pressure", "cholesterol", "sugar", "ecg", "pulse", "angina", "st")
FEATURES = (
    *(COLUMNS[j] for j in MEASURED),
    *(f"{COLUMNS[j]}={value}" for j, values in CATEGORIES.items() for value in values[1:]),
)

MODEL = feddr.models.linear(len(FEATURES))
G = feddr.prox.L1(0.02)
LOCAL = feddr.local.Accelerated(tol=1e-6)

Table = NDArray[np.float64]


def algorithm(context: Context) -> feddr.FedDR | feddr.AsyncFedDR:
    """Return what the run's ``mode`` says: rounds in which all take part, or an update whenever one arrives."""
    mode = context.run_config["mode"]
    if mode not in ("rounds", "async"):
        raise ValueError(f'mode must be "rounds" or "async", got {mode!r}.')
    # FedDR() would choose both numbers from the length of the local work, but LOCAL stops when it is accurate enough.
    return feddr.FedDR(eta=5.0, alpha=1.5) if mode == "rounds" else feddr.AsyncFedDR(eta=5.0, alpha=1.0)


def problem(client: int, context: Context) -> feddr.Problem:
    """Return this hospital's part: logistic loss on its own patients, every fifth of them kept for testing."""
    x, y = encode(patients(client, str(context.node_config.get("data", ""))))
    test = np.arange(len(y)) % 5 == 4
    data = feddr.FederatedData.from_clients([{"x": x[~test], "y": y[~test]}], [{"x": x[test], "y": y[test]}])
    return feddr.Problem.classification(MODEL, data, g=G)


def patients(client: int, path: str) -> Table:
    """Return a row for each patient: 13 columns and the diagnosis, NaN where a value is missing.

    ``path`` is this hospital's file, in the format of the UCI heart-disease data: values between commas, ``?`` for a
    missing one. Without a path, patients are made up.
    """
    if not path:
        print(f"No data in the node config: {PATIENTS[client]} patients of {HOSPITALS[client]} are made up.")
        return made_up(client)
    if not Path(path).is_file():
        raise ValueError(f"The node config says data={path!r}, which is not a file; give this hospital's CSV file.")
    table = np.genfromtxt(path, delimiter=",", missing_values="?")
    if table.ndim != 2 or table.shape[1] != 14:
        raise ValueError(f"{path} must have 14 values between commas on each line, one line a patient.")
    return table


def encode(table: Table) -> tuple[Table, NDArray[np.int32]]:
    """Return features and labels; a missing value becomes the usual one of the same hospital."""
    table = table.copy()
    for j in ZERO_IS_MISSING:
        table[table[:, j] == 0, j] = np.nan
    columns = []
    for j, (centre, scale) in MEASURED.items():
        known = table[:, j][~np.isnan(table[:, j])]
        usual = np.median(known) if len(known) else centre
        columns.append((np.where(np.isnan(table[:, j]), usual, table[:, j]) - centre) / scale)
    for j, values in CATEGORIES.items():
        counts = [np.sum(table[:, j] == value) for value in values]
        filled = np.where(np.isnan(table[:, j]), values[int(np.argmax(counts))], table[:, j])
        columns += [(filled == value).astype(np.float64) for value in values[1:]]
    return np.column_stack(columns), (table[:, 13] > 0).astype(np.int32)


def made_up(client: int) -> Table:
    """Return patients in the format of the files: hospitals differ in age and in how ill people are who come."""
    rng = np.random.default_rng(client)
    n = PATIENTS[client]
    table = np.full((n, 14), np.nan)
    for j, (centre, scale) in MEASURED.items():
        table[:, j] = np.round(rng.normal(centre + (client - 1.5) * scale / 4, scale, n), 1)
    for j, values in CATEGORIES.items():
        table[:, j] = rng.choice(values, n)
    risk = (table[:, 0] - 50) / 10 + 1.5 * (table[:, 2] == 4) + table[:, 8] + (table[:, 9] - 1) - 1 + 0.5 * client
    table[:, 13] = rng.random(n) < 1 / (1 + np.exp(-risk))
    table[rng.random((n, 14)) < np.array([0.03] * 13 + [0.0])] = np.nan
    return table
