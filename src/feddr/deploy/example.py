"""The files of the tutorial in docs/DEPLOYMENT.md: made-up patients of four hospitals, and an experiment."""

import csv
import io
from pathlib import Path

import numpy as np

from feddr.storage import atomic

EXPERIMENT = """\
name = "hospitals"
sites = 4
rounds = 5
weights = "samples"        # every patient counts alike
evaluate_every = 5

[table]                    # what all hospitals have agreed on
label = "ill"
numeric = ["age", "pressure"]
categorical = ["smoker"]
reference = {smoker = "never"}
test_share = 0.2

[table.categories]         # the words that these columns may have
smoker = ["never", "former", "now"]
ill = ["no", "yes"]

[g]
name = "L1"
strength = 0.01
leave = ["bias"]

[local]
name = "SGD"
lr = 0.1
epochs = 5
batch_size = 10

[algorithm]
name = "FedDR"
"""

SITE = """\
data = "{name}.csv"

[rules]
minimum_records = 20           # of training
minimum_sites = 3              # in a round
largest_updates = 100
maximal_norm = 50.0
beyond_norm = "clip"
fewest_records_evaluated = 10
"""

MAPPED = """\
delimiter = ";"

[columns]                      # own name = agreed name
Alter = "age"
Blutdruck = "pressure"
Raucher = "smoker"
krank = "ill"

[values.smoker]                # own word = agreed word
nie = "never"
"früher" = "former"
jetzt = "now"

[values.ill]
nein = "no"
ja = "yes"
"""
"""What a hospital adds to its file whose table has other names and words."""

HOSPITALS = (("basel", 240, 0), ("bern", 150, 4), ("chur", 60, 8), ("davos", 90, 2))
"""Name, patients, and by how many years they are older."""

OWN = "davos"
"""The hospital whose table has names and words of its own."""

OWN_NAMES = ("Alter", "Blutdruck", "Raucher", "krank")
OWN_WORDS = {"never": "nie", "former": "früher", "now": "jetzt", "no": "nein", "yes": "ja"}


def files(seed: int = 1) -> dict[str, str]:
    """Return the text of each file by its name.

    Parameters
    ----------
    seed
        Draws the patients.
    """
    rng, texts = np.random.default_rng(seed), {"experiment.toml": EXPERIMENT}
    for name, patients, older in HOSPITALS:
        names: tuple[str, ...] = ("age", "pressure", "smoker", "ill")
        rows = _patients(rng, patients, older)
        text = SITE.format(name=name)
        if name == OWN:
            names, rows = OWN_NAMES, [[OWN_WORDS.get(cell, cell) for cell in row] for row in rows]
            first, _, rules = text.partition("\n")
            text = f"{first}\n{MAPPED}{rules}"
        texts[f"{name}.csv"] = _csv(names, rows, ";" if name == OWN else ",")
        texts[f"{name}.toml"] = text
    new = [[row[0], row[1], row[2]] for row in _patients(rng, 5, 5)]
    return {**texts, "new-patients.csv": _csv(("age", "pressure", "smoker"), new, ",")}


def write(folder: Path) -> list[str]:
    """Write the files into a folder, and return their names; none that is there is overwritten."""
    texts = files()
    for name in texts:
        if (folder / name).exists():
            raise ValueError(f"The example overwrites nothing, {folder / name} is there already; take an empty folder.")
    for name, text in texts.items():
        with atomic.refusing(folder / name):
            atomic.write(folder / name, text.encode())
    return list(texts)


def _patients(rng: np.random.Generator, count: int, older: int) -> list[list[str]]:
    age = rng.normal(55 + older, 11, count).round()
    pressure = rng.normal(130, 18, count).round()
    smoker = rng.choice(["never", "former", "now"], count, p=[0.5, 0.3, 0.2])
    risk = 0.08 * (age - 55) + 0.03 * (pressure - 130) + 1.2 * (smoker == "now") - 0.7
    ill = np.where(rng.random(count) < 1 / (1 + np.exp(-risk)), "yes", "no")
    columns = zip(age, pressure, smoker, ill, strict=True)
    return [[f"{a:.0f}", f"{p:.0f}", str(s), str(i)] for a, p, s, i in columns]


def _csv(names: tuple[str, ...], rows: list[list[str]], delimiter: str) -> str:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)
    return text.getvalue()
