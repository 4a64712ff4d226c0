"""What the trained model of a deployment is, so that its folder can be loaded as that of any run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feddr.inference import Predictor, files
from feddr.inference.forward import Rows
from feddr.models import Model
from feddr.preparation import Category, Preparation
from feddr.problem import Problem, Task
from feddr.storage import atomic, tensors
from feddr.tree import Tree


@dataclass(frozen=True, eq=False)
class ModelDescription:
    """The model that nodes train, which the server itself need not know in order to average.

    Parameters
    ----------
    model
        That of the nodes' problems.
    task
        ``"classification"``, ``"regression"``, or None, where predictions are the outputs as they are.
    features, classes
        Names of the features, and labels of the classes 0, 1, ...; empty where they have none.
    shape
        Of a row of features; one number for each of the ``features`` by default.
    whole
        Whether rows hold whole numbers, such as tokens.
    preparation
        How raw rows become features, None where they are features already.

    Raises
    ------
    ValueError
        Where there is neither a shape nor names of features.

    Examples
    --------
    >>> import feddr
    >>> model = feddr.models.linear(2)
    >>> described = ModelDescription(model, "classification", features=("age", "pressure"), classes=("no", "yes"))
    >>> described.predictor(model.init(0)).predict([[61.0, 140.0]]).tolist()
    ['no']
    """

    model: Model
    task: Task | None = None
    features: tuple[str, ...] = ()
    classes: tuple[Category, ...] = ()
    shape: tuple[int, ...] | None = None
    whole: bool = False
    preparation: Preparation | None = None

    def __post_init__(self) -> None:
        if self.shape is None and not self.features:
            raise ValueError("A description needs the shape of a row, or names of features, got neither; give shape=.")
        if self.task == "classification" and not self.classes:
            object.__setattr__(self, "classes", tuple(range(self.model.num_outputs or 2)))

    def predictor(self, params: Tree) -> Predictor:
        """Return the model with these parameters, ready to predict."""
        rows = Rows(self.shape or (len(self.features),), self.whole)
        known = (self.model.num_outputs, self.model.is_linear, tuple(self.features), tuple(self.classes))
        return Predictor(params, self.model.apply, self.task, rows, *known, self.preparation)


class ModelWriter:
    """Keeps the model in a run's folder up to date, with its description where there is one.

    Parameters
    ----------
    described
        A description; or a problem of the server's own, which has the same model.
    """

    def __init__(self, folder: Path, described: ModelDescription | Problem | None) -> None:
        self.folder, self.described = folder, described
        self._stored: bytes | None = None

    def save(self, params: Tree) -> None:
        """Write the parameters, and what they are."""
        described: Any = self.described
        if described is None or described.model is None:
            atomic.write(self.folder / files.WEIGHTS, tensors.dumps(tensors.flatten(params)))
            return
        predictor = Predictor.of(described, params) if isinstance(described, Problem) else described.predictor(params)
        # The forward function of a model that is not ready-made takes seconds to write, and does not change.
        self._stored = files.write(self.folder, predictor, described.model, self._stored)
