"""``Result``: what every engine returns (model, history, final state), and how it is saved to a folder."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike, NDArray

from feddr import tree
from feddr.algorithms import Algorithm
from feddr.algorithms.algorithm import ProblemLike
from feddr.display import Card, as_html, as_text
from feddr.engines.clock.events import Event
from feddr.engines.shared.state import RunState
from feddr.history import History
from feddr.history.clients import CLIENT_METRICS
from feddr.inference import Predictor, files
from feddr.local import LocalSolver
from feddr.sampling import Sampling
from feddr.storage import atomic
from feddr.tree import Tree

if TYPE_CHECKING:
    from feddr.certify import RoundMeasurements
    from feddr.engines.shared.options import EngineOptions


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
    local, sampling
        Who solved the subproblems, and who took part.
    watch
        What was measured in every round for ``feddr.certify.certificate``, if it was asked for.
    events
        What clients did when, where the engine has a clock: what ``plots.timeline`` draws.
    tau, T
        The largest staleness of an update, and the longest run of updates without some client, where clients do not
        wait for each other.

    Examples
    --------
    >>> import numpy as np, feddr
    >>> data = feddr.FederatedData.from_clients([{"x": np.eye(2), "y": np.ones(2)}] * 2)
    >>> problem = feddr.Problem.regression(feddr.models.linear(2), data)
    >>> result = feddr.simulate(problem, feddr.FedAvg(), local=feddr.local.SGD(lr=0.1), rounds=1)
    >>> result.params["weight"].shape, result.history.last.round, sorted(result.state.clients)
    ((2,), 1, [0, 1])
    """

    params: Tree
    history: History
    state: RunState
    problem: ProblemLike
    algorithm: Algorithm
    settings: dict[str, Any]
    local: LocalSolver | None = None
    sampling: Sampling | None = None
    watch: "RoundMeasurements | None" = None
    events: Sequence[Event] = ()
    tau: int | None = None
    T: int | None = None

    def _card(self) -> Card:
        last, history = self.history.last, self.history._card()
        facts = {
            "algorithm": repr(self.algorithm),
            "rounds": f"{last.round}, {len(self.history)} evaluations",
            **{name: text for name, text in history.facts.items() if name != "evaluations"},
            "parameters": f"{tree.size(self.params):,} in {', '.join(tree.named(self.params))}",
        }
        return Card("Result", facts, history.curves)

    __repr__, _repr_html_ = as_text, as_html

    @cached_property
    def predictor(self) -> Predictor:
        """The model with its parameters, features, classes and preparation: what ``feddr.load`` reads again."""
        return Predictor.of(self.problem, self.params)

    def predict(self, x: Any, *, prepared: bool = False) -> NDArray[Any]:
        """Return the label, or the number, that the global model predicts for each raw row; see ``Predictor``."""
        return self.predictor.predict(x, prepared=prepared)

    def predict_proba(self, x: Any, *, prepared: bool = False) -> NDArray[Any]:
        """Return the probability of each class for each raw row, shape (rows, classes)."""
        return self.predictor.predict_proba(x, prepared=prepared)

    def score(self, x: Any, y: ArrayLike, *, prepared: bool = False) -> float:
        """Return the accuracy of a classification, or R2 of a regression, on raw rows."""
        return self.predictor.score(x, y, prepared=prepared)

    def save(self, folder: str | Path) -> Path:
        """Write history.csv, the model, settings.json and curves.png into ``folder``, and return it.

        The model is what ``feddr.load`` reads: model.safetensors, model.json and, where it is not a ready one,
        model.stablehlo. A certificate is written to certificate.json; a run with a clock has time.png and
        timeline.png, too, and one with metrics of each client client_metrics.csv and clients.png.
        """
        from feddr import plots

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with atomic.replacing(folder / "history.csv") as path:
            self.history.to_csv(path)
        files.save(folder, self.problem, self.params)
        atomic.replace(folder / "settings.json", (json.dumps(self.settings, indent=2) + "\n").encode())
        if self.watch is not None:
            from feddr.certify import certificate

            text = json.dumps(certificate(self).to_dict(), indent=2)
            atomic.replace(folder / "certificate.json", (text + "\n").encode())
        name = type(self.algorithm).__name__
        plots.save(plots.curves({name: self.history}), folder / "curves.png")
        if plots.has_time({name: self.history}):
            plots.save(plots.time_curves({name: self.history}), folder / "time.png")
        if len(self.history.clients):
            with atomic.replacing(folder / CLIENT_METRICS) as path:
                self.history.clients.to_csv(path)
            plots.save(plots.clients(self.history), folder / "clients.png")
        if self.events:
            plots.save(plots.timeline(self.events, name), folder / "timeline.png")
        return folder


def describe(
    problem: ProblemLike, algorithm: Algorithm, local: LocalSolver, options: "EngineOptions", step_sizes: str
) -> dict[str, Any]:
    """Return what a run was asked to do, in words and numbers, and how the step sizes were chosen if they were."""
    weights = getattr(problem, "weights", None)
    return {
        "algorithm": repr(algorithm),
        **({"step_sizes": step_sizes} if step_sizes else {}),
        "local": repr(local),
        "g": repr(problem.regulariser),
        "weights": weights if isinstance(weights, str) else problem.client_weights.tolist(),
        "clients": problem.data.num_clients,
        "evaluated_on": len(problem.data.panel),
        "seed": options.seed,
        "precision": options.precision,
        "evaluate_every": options.evaluate_every,
        **({"personal": True} if options.personal else {}),
        **({"on_bad_client": options.on_bad_client} if options.on_bad_client != "stop" else {}),
        **options.asked,
    }
