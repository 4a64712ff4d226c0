"""What a run returns, and how it is kept."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from feddr import tree
from feddr.algorithms import Algorithm
from feddr.engines.rounds import State
from feddr.history import History
from feddr.problem import Problem
from feddr.tree import Tree


@dataclass(frozen=True)
class Result:
    """A finished run.

    Parameters
    ----------
    params
        The global model xbar, in the precision of the run.
    history
        One row for each evaluation.
    state
        Server and clients at the end; ``state.clients`` holds those that have taken part.
    settings
        What the run was asked to do, in words and numbers.
    """

    params: Tree
    history: History
    state: State
    problem: Problem
    algorithm: Algorithm
    settings: dict[str, Any]

    def save(self, folder: str | Path) -> Path:
        """Write history.csv, model.safetensors, settings.json and curves.png into ``folder``, and return it."""
        from safetensors.numpy import save_file

        from feddr import plots

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.history.to_csv(folder / "history.csv")
        arrays = {name: np.ascontiguousarray(leaf) for name, leaf in tree.named(self.params).items()}
        save_file(arrays, folder / "model.safetensors")
        (folder / "settings.json").write_text(json.dumps(self.settings, indent=2) + "\n", encoding="utf-8")
        plots.save(plots.curves({type(self.algorithm).__name__: self.history}), folder / "curves.png")
        return folder
