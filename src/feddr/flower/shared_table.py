"""Tables with the same columns at every site, which agree on one preparation without a row leaving its site.

Both apps are given the same ``SharedTable``. Before the first update the server asks every node for counts, means and
sums of squares (and, where missing numbers are replaced by medians, for counts of values below thresholds), makes the
preparation of the pooled rows from them (``agreement``), and sends it with each task.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from flwr.app import Context

from feddr import models
from feddr.algorithms.algorithm import ProblemLike
from feddr.data import FederatedData, tables
from feddr.data.split import split
from feddr.flower.messages import TableAnswer, TableQuestion
from feddr.models import Model
from feddr.preparation import Category, Preparation, SiteStatistics, columns, count_at_most, site_statistics
from feddr.preparation.preparation import as_column
from feddr.problem import Problem

FEWEST_ROWS = 10
"""Training rows of a site that tells statistics about them: of fewer, they would say much about each row."""


@dataclass(frozen=True)
class SharedTable:
    """What the sites of a deployment have in common: columns, how they become features, and the model.

    Parameters
    ----------
    label
        The column to predict.
    numeric, categorical
        The columns to predict it from; others that a site has are left out.
    model
        From the preparation that the sites agree on to the model, such as
        ``lambda preparation: feddr.models.mlp([len(preparation.features), 32, 2])``; by default ``models.linear`` for
        two classes and for a regression, and ``models.softmax`` for more classes.
    sample_weight, regression, standardise, missing, reference, unknown
        As in ``FederatedData.from_frame``, over the training rows of all sites.
    test_share, validation_share, stratify, seed
        As in ``FederatedData.from_frame``, for each site: client i draws the rows that it would draw there.
    init_seed
        Draws the start of the model.
    fewest_rows
        A site with fewer training rows refuses to tell statistics of them.

    Examples
    --------
    >>> hospitals = SharedTable("ill", ["age", "pressure"], ["smoker"], standardise=True, missing="median")
    >>> from feddr import flower
    >>> federation = flower.Federation(hospitals, clients=4, weights="samples")  # for server_app
    >>> problem = hospitals.problem(lambda client, context: None)  # for client_app, with a function that reads the rows
    """

    label: str
    numeric: Sequence[str]
    categorical: Sequence[str] = ()
    model: Callable[[Preparation], Model] | None = None
    sample_weight: str | None = None
    regression: bool = False
    standardise: bool = True
    missing: Literal["refuse", "median"] = "refuse"
    reference: Literal["first", "none"] | Mapping[str, Category] = "none"
    unknown: Literal["refuse", "zeros"] = "refuse"
    test_share: float = 0.1
    validation_share: float = 0.0
    stratify: bool = False
    seed: int = 0
    init_seed: int = 0
    fewest_rows: int = FEWEST_ROWS

    def __post_init__(self) -> None:
        for name in ("numeric", "categorical"):
            if isinstance(getattr(self, name), str):
                raise ValueError(
                    f"{name} must be a list of columns, got {getattr(self, name)!r}; write it in brackets."
                )
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not (*self.numeric, *self.categorical):
            raise ValueError(
                "A shared table needs columns to predict from, got none; name numeric or categorical ones."
            )
        split(
            [np.arange(2)], self.test_share, self.seed, self.validation_share
        )  # refuses shares that do not go together
        if self.regression and self.stratify:
            raise ValueError("stratify needs classes, got a regression; leave one of them out.")

    @property
    def digest(self) -> str:
        """What server and nodes compare: all settings but the model, whose start they compare later."""
        fields = {name: value for name, value in vars(self).items() if name != "model"}
        return hashlib.sha256(repr(sorted(fields.items())).encode()).hexdigest()

    def problem(self, read: Callable[[int, Context], Any]) -> "TableProblem":
        """Return what ``client_app`` takes, given a function from (client, context) to the site's own DataFrame."""
        return TableProblem(self, read)

    def build(self, preparation: Preparation) -> Model:
        """Return the model for the features and classes that the sites agree on."""
        if self.model is not None:
            return self.model(preparation)
        features, classes = len(preparation.features), len(preparation.classes)
        return models.linear(features) if self.regression or classes <= 2 else models.softmax(features, classes)


@dataclass(frozen=True)
class TableProblem:
    """A site's side of a shared table: its statistics, and its problem once there is a preparation.

    Parameters
    ----------
    table
        The server's, too.
    read
        From (client, context) to a DataFrame with this site's rows.
    """

    table: SharedTable
    read: Callable[[int, Context], Any]

    def statistics(self, client: int, context: Context) -> SiteStatistics:
        """Return counts, means, sums of squares and categories of the training rows.

        Raises
        ------
        ValueError
            Where there are too few rows, or a value is not what its column says.
        """
        table, (frame, roles) = self.table, self._rows(client, context)
        training = self._training(client, frame)
        if len(training) < table.fewest_rows:
            raise ValueError(
                f"Statistics need at least {table.fewest_rows} training rows, so that they do not tell of single ones, "
                f"client {client} has {len(training)}; leave it out, or set fewest_rows in both apps."
            )
        kinds: dict[str, Any] = {"regression": table.regression, "missing": table.missing, "rows": training}
        return site_statistics(frame, roles.numeric, roles.categorical, roles.label, **kinds)

    def training_size(self, client: int, context: Context) -> int:
        """Return how many training rows there are."""
        frame, _ = self._rows(client, context)
        return len(self._training(client, frame))

    def counts(self, client: int, context: Context, thresholds: Mapping[str, Sequence[float]]) -> dict[str, list[int]]:
        """Return how many training rows have a value of at most each threshold, for columns with missing numbers."""
        frame, roles = self._rows(client, context)
        strange = [name for name in thresholds if name not in roles.numeric]
        if strange or self.table.missing != "median":
            raise ValueError(
                f'Counts below thresholds are of numeric columns where missing="median", got {list(thresholds)[:5]}.'
            )
        return count_at_most(frame, thresholds, self._training(client, frame))

    def prepared(self, client: int, context: Context, preparation: Preparation) -> Problem:
        """Return the problem with this site's rows, prepared as all sites have agreed."""
        table, (frame, roles) = self.table, self._rows(client, context)
        own = tables.prepare(
            frame,
            [np.arange(len(frame))],
            roles,
            regression=table.regression,
            standardise=table.standardise,
            missing=table.missing,
            test_share=table.test_share,
            validation_share=table.validation_share,
            stratify=table.stratify,
            seed=table.seed,
            preparation=preparation,
            first_client=client,
        )
        data = FederatedData.from_rows(own.samples, own.rows, (), own.preparation)
        kind = Problem.regression if table.regression else Problem.classification
        return kind(table.build(preparation), data, seed=table.init_seed)

    def _rows(self, client: int, context: Context) -> tuple[Any, tables.ColumnRoles]:
        """Return the site's rows, and which of its columns are used for what."""
        table, frame = self.table, self.read(client, context)
        if not hasattr(frame, "columns") or len(frame) == 0:
            got = f"a {type(frame).__name__}" if not hasattr(frame, "columns") else "one without rows"
            raise ValueError(f"The function that reads a site's rows must return a DataFrame, got {got}.")
        used = (table.label, table.sample_weight, *table.numeric, *table.categorical)
        frame = frame[[name for name in frame.columns if name in used]].assign(**{OWNER: client})
        names: Any = (table.label, table.numeric, table.categorical, table.sample_weight)
        return frame, tables.check_roles(frame, OWNER, *names)

    def _training(self, client: int, frame: Any) -> Any:
        """Return the rows for training, as ``prepared`` draws them."""
        table = self.table
        strata = columns.distinct(as_column(frame[table.label]))[1] if table.stratify else None
        shares = (table.test_share, table.seed, table.validation_share)
        return split([np.arange(len(frame))], *shares, strata, client).train[0]


OWNER = "client (this site)"
"""The column that says whose rows these are."""


def answer(problem: Any, client: int, context: Context, question: TableQuestion) -> TableAnswer:
    """Return a node's answer to a question about its rows.

    Raises
    ------
    ValueError
        Where the node has no shared table, or another one than the server.
    """
    if not isinstance(problem, TableProblem):
        raise ValueError(
            "The server has a SharedTable, this node's problem is a function; give client_app table.problem(read)."
        )
    if question.table != problem.table.digest:
        raise ValueError("Server and node must have the same SharedTable, this node's differs; give both apps one.")
    if question.thresholds:
        content: Any = problem.counts(client, context, json.loads(question.thresholds))
    else:
        content = problem.statistics(client, context).to_dict()
    return TableAnswer(question.run, client, json.dumps(content, allow_nan=False))


def own_problem(problem: Any, client: int, context: Context, preparation: str) -> ProblemLike:
    """Return the problem of a node, with the preparation that came with the message where it has a shared table.

    Raises
    ------
    ValueError
        Where only one of server and node has a shared table.
    """
    if isinstance(problem, TableProblem) != bool(preparation):
        which = "node has a SharedTable and the server none" if not preparation else "server has a SharedTable alone"
        raise ValueError(f"Server and nodes need the same SharedTable, this {which}; give both apps one.")
    if isinstance(problem, TableProblem):
        return problem.prepared(client, context, Preparation.from_dict(json.loads(preparation)))
    own: ProblemLike = problem(client, context)
    return own
