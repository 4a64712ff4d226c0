"""``Predictor``: a trained model that takes raw rows and answers in the user's own words."""

import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from feddr import precision, tree
from feddr.display import Card, as_html, as_text
from feddr.inference.forward import Forward, Rows
from feddr.preparation import Preparation
from feddr.problem import Problem, Task
from feddr.tree import Tree
from feddr.validation import arrays

if TYPE_CHECKING:
    import pandas as pd

CHUNK = 4096
"""Rows that are computed at a time."""

Label = str | int | float | bool
"""A class as the user calls it."""


@dataclass(frozen=True, eq=False)
class Predictor:
    """A trained model and all that it needs to predict: ``result.predictor``, or ``feddr.load(folder)``.

    Parameters
    ----------
    params
        The parameters, in their own structure.
    forward
        From (parameters, prepared rows) to outputs; a text that says why where there is none.
    task
        ``"classification"``, ``"regression"``, or None, where predictions are the outputs as they are.
    rows
        Shape and kind of a prepared row.
    num_outputs
        As in ``feddr.models.Model``.
    is_linear
        Whether the model is ``x . weight + bias``.
    features, classes
        Names of the features, and labels of the classes 0, 1, ...; empty where they have none.
    preparation
        How raw rows become features, None where they are features already.

    Examples
    --------
    >>> import numpy as np, feddr
    >>> data = feddr.FederatedData.from_clients([{"x": np.eye(2), "y": np.ones(2)}] * 2)
    >>> problem = feddr.Problem.regression(feddr.models.linear(2), data)
    >>> result = feddr.simulate(problem, feddr.FedDR(), local=feddr.local.SGD(lr=0.5, batch_size=None), rounds=50)
    >>> result.predict(np.eye(2)).round(2).tolist()
    [1.0, 1.0]
    >>> result.predictor.coefficients().index.tolist()
    ['x0', 'x1', 'intercept']
    """

    params: Tree
    forward: Forward | str
    task: Task | None
    rows: Rows | None
    num_outputs: int = 0
    is_linear: bool = False
    features: tuple[str, ...] = ()
    classes: tuple[Label, ...] = ()
    preparation: Preparation | None = None

    def _card(self) -> Card:
        facts = {
            "task": self.task or "none",
            "rows": "unknown" if self.rows is None else " x ".join(map(str, self.rows.shape)) or "one number",
            "raw columns": "" if self.preparation is None else ", ".join(self.preparation.names),
            "features": ", ".join(self.features),
            "classes": ", ".join(map(str, self.classes)),
            "parameters": f"{tree.size(self.params):,} in {', '.join(tree.named(self.params))}",
        }
        return Card("Predictor", {name: fact for name, fact in facts.items() if fact})

    __repr__, _repr_html_ = as_text, as_html

    @classmethod
    def of(cls, problem: Any, params: Tree) -> "Predictor":
        """Return the predictor of a problem's model with these parameters."""
        data = problem.data
        x = data.train.samples.get("x")
        rows = None if x is None else Rows(tuple(x.shape[1:]), not np.issubdtype(x.dtype, np.floating))
        if not isinstance(problem, Problem):
            reason = f"A {type(problem).__name__} computes in PyTorch; use feddr.torch.load(module, params)."
            return cls(params, reason, None, rows)
        model = problem.model
        if model is None or rows is None:
            reason = (
                "Predictions need the model, this problem has a loss alone; use Problem.classification or "
                "Problem.regression, or give Problem model= and task=."
            )
            return cls(params, reason, problem.task, rows)
        classes: tuple[Label, ...] = tuple(c.item() if isinstance(c, np.generic) else c for c in data.classes)
        if problem.task == "classification" and not classes:
            classes = tuple(range(model.num_outputs or 2))
        return cls(
            params,
            model.apply,
            problem.task,
            rows,
            model.num_outputs,
            model.is_linear,
            data.features,
            classes if problem.task == "classification" else (),
            data.preparation,
        )

    def outputs(self, x: Any, *, prepared: bool = False) -> NDArray[Any]:
        """Return the outputs of the model for rows: (rows,), or (rows, num_outputs).

        Parameters
        ----------
        x
            Raw rows, as the data were before they were prepared: a pandas DataFrame with their columns, in any order,
            or an array with these columns in their order. Where nothing was prepared, rows of features.
        prepared
            Whether ``x`` is an array of features already, as ``data.test.samples["x"]`` is.

        Raises
        ------
        ValueError
            Where columns are missing, rows do not fit the model, or the forward function is not known.
        """
        if isinstance(self.forward, str):
            raise ValueError(self.forward)
        features = self._features(x, prepared)
        dtype = np.result_type(*tree.leaves(self.params))
        if not len(features):
            return np.zeros((0, self.num_outputs) if self.num_outputs else 0, dtype)
        with precision.scope(dtype):
            inputs = precision.samples({"x": features}, dtype)["x"]
            chunks = [inputs[first : first + CHUNK] for first in range(0, len(inputs), CHUNK)]
            return np.concatenate([np.asarray(self._compiled(self.params, chunk)) for chunk in chunks])

    def predict(self, x: Any, *, prepared: bool = False) -> NDArray[Any]:
        """Return the label of the most likely class, or the predicted number, of each row; arguments as ``outputs``."""
        outputs = self.outputs(x, prepared=prepared)
        if self.task != "classification":
            return outputs[:, 0] if self.task == "regression" and outputs.ndim == 2 else outputs
        codes = np.argmax(outputs, axis=1) if self.num_outputs else (outputs > 0).astype(np.int64)
        return self._labels[codes]

    def predict_proba(self, x: Any, *, prepared: bool = False) -> NDArray[np.float64]:
        """Return the probability of each class, shape (rows, classes), in the order of ``classes``."""
        if self.task != "classification":
            raise ValueError(f"predict_proba is for classifications, this is {_a(self.task)}; use predict.")
        outputs = self.outputs(x, prepared=prepared).astype(np.float64)
        scores = outputs if self.num_outputs else np.column_stack([np.zeros_like(outputs), outputs])
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    def score(self, x: Any, y: ArrayLike, *, prepared: bool = False) -> float:
        """Return the accuracy of a classification on labels in the user's words, or R2 of a regression.

        Raises
        ------
        ValueError
            Where a label is none of the classes, or there is not one for each row.
        """
        if self.task is None:
            raise ValueError(f"score is for classifications and regressions, this is {_a(None)}; use outputs.")
        predicted, truth = self.predict(x, prepared=prepared), np.asarray(y)
        if truth.shape != predicted.shape:
            raise ValueError(f"y needs one value for each of {len(predicted)} rows, got the shape {truth.shape}.")
        if self.task == "classification":
            if self.preparation is not None and self.preparation.classes:
                truth = self._labels[self.preparation.labels(y)]  # it knows "1" and 1 for the same
            unknown = [value for value in np.unique(truth).tolist() if value not in self.classes]
            if unknown:
                raise ValueError(
                    f"y must hold labels of the classes {reprlib.repr(list(self.classes))}, got {unknown[0]!r}."
                )
            return float(np.mean(predicted == truth))
        total = float(np.sum((truth - truth.mean()) ** 2))
        return 1.0 - float(np.sum((truth - predicted) ** 2)) / total if total else float("nan")

    def coefficients(self, *, raw: bool = False) -> "pd.Series[float] | pd.DataFrame":
        """Return the weights of a linear model by the names of their features, and ``intercept``.

        Parameters
        ----------
        raw
            Whether in the units of the raw columns, where the features were centred and scaled: so much more output
            for one year, not for one standard deviation of years.

        Returns
        -------
        pandas.Series or pandas.DataFrame
            A number for each feature; a column for each class where there are scores of classes.

        Raises
        ------
        ValueError
            Where the model is not linear.
        """
        import pandas as pd

        if not self.is_linear or not isinstance(self.params, dict) or set(self.params) != {"weight", "bias"}:
            raise ValueError("coefficients is for linear models, this one is not; use models.linear or models.softmax.")
        weight, bias = (np.asarray(self.params[name], np.float64) for name in ("weight", "bias"))
        names = self.features or tuple(f"x{i}" for i in range(len(weight)))
        if raw and self.preparation is not None:
            if self.preparation.scale:
                weight = (weight.T / np.asarray(self.preparation.scale)).T
            if self.preparation.mean:
                bias = bias - np.asarray(self.preparation.mean) @ weight
        rows = [*names, "intercept"]
        if weight.ndim == 1:
            return pd.Series([*weight.tolist(), float(bias)], index=rows, name="coefficient")
        columns = list(self.classes) or list(range(weight.shape[1]))
        return pd.DataFrame(np.vstack([weight, bias]), index=rows, columns=pd.Index(columns))

    def to_onnx(self, path: Any) -> None:
        """Write the model as an ONNX file: prepared features in, outputs out; needs the extra ``onnx``.

        Raises
        ------
        ValueError
            Where the extra is missing, or the forward function is not known.
        """
        from feddr.inference import onnx_export

        if isinstance(self.forward, str) or self.rows is None:
            raise ValueError(str(self.forward))
        onnx_export.write(self.forward, self.params, self.rows, path)

    @cached_property
    def _compiled(self) -> Callable[[Tree, Any], Any]:
        assert not isinstance(self.forward, str)
        return jax.jit(self.forward)

    @cached_property
    def _labels(self) -> NDArray[Any]:
        """The classes as an array that does not turn one kind of label into another."""
        kinds = {type(label) for label in self.classes}
        return np.array(self.classes, dtype=None if len(kinds) == 1 else object)

    def _features(self, x: Any, prepared: bool) -> NDArray[Any]:
        """Return rows of features, as the model was trained with."""
        assert self.rows is not None
        if self.preparation is not None and not prepared:
            features: NDArray[Any] = self.preparation.transform(x)
        else:
            if hasattr(x, "columns") and self.features:
                missing = [name for name in self.features if name not in x.columns]
                if missing:
                    raise ValueError(f"Rows need the column {missing[0]!r}, got {reprlib.repr(list(x.columns))}.")
                x = x[list(self.features)]
            features = np.asarray(arrays.samples("x", x))
        if features.ndim == 0 or features.shape[1:] != self.rows.shape:
            wanted, remedy = self.rows.shape, "give the features of training"
            if features.shape == wanted:
                remedy = "give x[None] for one row"
            raise ValueError(f"The model takes rows of shape {wanted}, got x of shape {features.shape}; {remedy}.")
        if self.rows.whole and np.issubdtype(features.dtype, np.floating):
            raise ValueError(f"The model was trained on whole numbers, got x of type {features.dtype}; convert them.")
        return features


def _a(task: Task | None) -> str:
    return "a problem without a task" if task is None else f"a {task}"
