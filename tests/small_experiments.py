"""One small experiment in TOML: softmax on a synthetic federation."""

from pathlib import Path

import pytest

FEDDR = 'name = "FedDR"\neta = 1.0\nalpha = 1.0'
FEDAVG, FEDPD = 'name = "FedAvg"', 'name = "FedPD"\neta = 1.0'


def toml(
    *algorithms: str,
    name: str = "small",
    rounds: int = 3,
    clients: int = 3,
    more: str = "evaluate_every = 2",
    local: str = "lr = 0.01",
    tables: str = "",
) -> str:
    """Return the experiment with these algorithms, FedDR by default.

    Parameters
    ----------
    more
        Further settings outside of any table.
    local
        Settings of SGD.
    tables
        Further tables.
    """
    return f"""\
name = "{name}"
rounds = {rounds}
{more}
[data]
name = "synthetic"
r = 1.0
s = 1.0
num_clients = {clients}
[model]
name = "softmax"
num_features = 60
num_classes = 10
[local]
name = "SGD"
{local}
{tables}
""" + "".join(f"[[algorithm]]\n{algorithm}\n" for algorithm in algorithms or (FEDDR,))


def work_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **experiments: str) -> Path:
    """Go to an empty folder, with experiments beside it, and return it."""
    for name, text in experiments.items():
        (tmp_path / f"{name}.toml").write_text(text)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work
