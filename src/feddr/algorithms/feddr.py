"""FedDR: randomised Douglas-Rachford splitting (Tran-Dinh, Pham, Phan and Nguyen 2021, Algorithm 1)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from feddr import tree
from feddr.algorithms.algorithm import ClientWeights, Uploads
from feddr.algorithms.step_sizes import StepSizes, check_start
from feddr.algorithms.uploading import Uploading
from feddr.compress import feedback
from feddr.local import Solution, Subproblem
from feddr.prox.regulariser import Prox
from feddr.tree import Tree
from feddr.validation import scalars

INITS = ("lazy", "full", "joining")
MEANS = ("all", "active")


class FedDRClient(NamedTuple):
    """State of a client: its model x_i, its residual y_i, xhat_i, what the server counts for it, and its updates."""

    x: Tree
    y: Tree
    xhat: Tree
    updates: Any


class FedDRServer(NamedTuple):
    """State of the server.

    Parameters
    ----------
    xtilde
        The mean of the xhat_i that the server counts.
    xbar
        The model.
    weight
        Sum of the mean's weights v_i over the clients that it counts.
    share
        Sum of the problem's weights w_i over the same clients.
    models
        With ``mean="active"`` the mean of the active clients' models, else an empty tree.
    updates
        With ``mean="active"`` how many updates a client of the mean has made, on average.
    """

    xtilde: Tree
    xbar: Tree
    weight: float
    share: float
    models: Tree = ()
    updates: float = 0.0


@dataclass(frozen=True, repr=False)
class FedDR(Uploading):
    """Randomised Douglas-Rachford splitting for nonconvex federated composite optimisation.

    Each active client i, and then the server, compute

        y_i    := y_i + alpha (xbar - x_i)
        x_i    ~= argmin f_i(x) + ||x - y_i||^2 / (2 eta_i),   started at xbar, or at x_i
        xhat_i := 2 x_i - y_i
        xtilde := xtilde + sum over active clients of v_i (xhat_i - its previous value)
        xbar   := prox_{eta g}(xtilde)

    so that xtilde = sum_i v_i xhat_i after every round. With one step size for all clients v_i = w_i; with step sizes
    of their own v_i is proportional to w_i / eta_i, and eta = 1 / sum_i (w_i / eta_i).

    That is ``mean="all"``, Algorithm 1, in which a client that is absent counts with its last x_i. With
    ``mean="active"`` the part of 2 x_i - y_i that holds what a client has learnt of f_i is remembered for everybody,
    and the models are those of the active clients, whose mean is m:

        xhat_i := x_i - y_i
        m      := xbar + mean over active clients of (xhat_i - its previous value) + (alpha - 1) (xbar - m)
        xbar   := prox_{eta g}(xtilde + m)

    The two are the same when everybody takes part, and have the same fixed points. With alpha = 1, g = 0 and one step
    size the second is FedDyn.

    Parameters
    ----------
    eta
        Step size of the proximal steps: one number for all clients, or a list with one for each. ``"auto"``: with a
        local solver of fixed work (SGD, optax) from the length of each client's work
        (``feddr.theory.fixed_work``), with a certified one what ``feddr.theory.recommend`` says. The theory asks for
        eta_i < (2 - alpha) / (2 L_i).
    alpha
        Relaxation, in (0, 2], or ``"auto"``. With a solver of fixed work 2 - alpha is the momentum of xbar.
    init
        ``"lazy"``: x_i = y_i = x^0 for everybody, and no start-up round.
        ``"full"``: a start-up round in which every client solves its subproblem at x^0.
        ``"joining"``: a client enters the mean when it is first heard from, starting at the xbar that it was sent, so
        that clients not heard from do not hold xtilde back at x^0. Once everybody has joined it is Algorithm 1.
        ``"auto"``: joining with a local solver of fixed work, lazy with a certified one.
    start
        Where the local solver starts: ``"xbar"``, at the model that the client was sent, or ``"own"``, at the client's
        last model x_i, as the authors' code does. With an exact prox it makes no difference; with a fixed amount of
        work ``"xbar"`` gives the better global model (docs/WHY.md).
    alpha_decay
        After how many of a client's updates alpha - 1 has become a quarter: its relaxation after k updates is
        1 + (alpha - 1) / (1 + k / alpha_decay)^2. None: alpha stays as it is, unless it is ``"auto"``, which chooses
        this, too. The theorems ask for None.
    mean
        Whose models x_i the server averages: ``"all"``, everybody's last ones, for which there are theorems, or those
        of the ``"active"`` clients, which does not hold xbar back at old models. ``"auto"``: the second with a local
        solver of fixed work, the first with a certified one.
    upload
        How clients compress what they send (``feddr.compress``): xhat_i is then what the server counts, xhat_i plus the
        compressed way to 2 x_i - y_i, and the identity for xtilde stays exact. None for every bit.
    download
        How the server rounds the xbar that clients read. None for every bit.

    Raises
    ------
    ValueError
        Where a parameter is out of its range.

    References
    ----------
    Q. Tran-Dinh, N. H. Pham, D. T. Phan, L. M. Nguyen. FedDR - Randomized Douglas-Rachford Splitting Algorithms for
    Nonconvex Federated Composite Optimization. NeurIPS 2021. As printed, its initialisation breaks the identity for
    xtilde by a constant; the three above keep it.

    Examples
    --------
    >>> FedDR()
    FedDR(eta='auto', alpha='auto', init='auto', start='xbar', mean='auto')
    >>> published = FedDR(eta=1000.0, alpha=1.95, start="own", mean="all")
    """

    eta: float | Literal["auto"] | Sequence[float] = "auto"
    alpha: float | Literal["auto"] = "auto"
    init: str = "auto"
    start: str = "xbar"
    mean: str = "auto"
    alpha_decay: float | None = field(default=None, kw_only=True)

    composite: ClassVar[bool] = True
    partial: ClassVar[bool] = True
    needs_gradient: ClassVar[bool] = False
    mean_without_theory: ClassVar[str] = "active"

    def __post_init__(self) -> None:
        several = (
            isinstance(self.eta, Iterable) and not isinstance(self.eta, bytes) and getattr(self.eta, "ndim", 1) > 0
        )
        scalars.numbers(self, *([] if several else ["eta"]), *([] if isinstance(self.alpha, str) else ["alpha"]))
        if not isinstance(self.eta, str | int | float):
            object.__setattr__(self, "eta", StepSizes(self.eta))
        elif self.eta != "auto" and (isinstance(self.eta, str) or not 0 < self.eta < float("inf")):
            raise ValueError(f'eta must be positive, one such number for each client, or "auto", got {self.eta!r}.')
        if self.alpha != "auto" and (isinstance(self.alpha, str) or not 0 < self.alpha <= 2):
            raise ValueError(f'alpha must be in (0, 2], or "auto", got {self.alpha!r}.')
        if self.alpha_decay is not None:
            scalars.numbers(self, "alpha_decay")
            if not self.alpha_decay > 0:
                raise ValueError(
                    f"alpha_decay must be positive, or None for an alpha that stays, got {self.alpha_decay}."
                )
        if self.init not in (*INITS, "auto"):
            raise ValueError(f'init must be one of {", ".join(INITS)}, or "auto", got {self.init!r}.')
        check_start(self.start)
        if self.mean not in (*MEANS, "auto"):
            raise ValueError(f'mean must be one of {", ".join(MEANS)}, or "auto", got {self.mean!r}.')

    def settled(self, certified: bool) -> Self:
        """Return the algorithm with init and mean in the place of "auto", for a local solver of this kind."""
        init = ("lazy" if certified else "joining") if self.init == "auto" else self.init
        mean = ("all" if certified else self.mean_without_theory) if self.mean == "auto" else self.mean
        return replace(self, init=init, mean=mean)

    @property
    def full_start(self) -> bool:
        return self.init == "full"

    def relaxation(self, updates: float) -> float:
        """Return the alpha of a client that has made so many updates.

        Examples
        --------
        >>> rules = FedDR(alpha=1.1, alpha_decay=10.0)
        >>> rules.relaxation(0.0), round(rules.relaxation(10.0), 6)
        (1.1, 1.025)
        """
        alpha = float(self.alpha)
        return alpha if self.alpha_decay is None else 1.0 + (alpha - 1.0) / (1.0 + updates / self.alpha_decay) ** 2

    @property
    def _reflection(self) -> float:
        """The factor of x_i in xhat_i."""
        return 2.0 if self.mean == "all" else 1.0

    def server(self, x0: Tree) -> FedDRServer:
        counted = 1.0 if self.init == "lazy" else 0.0
        xtilde = tree.scale(self._reflection - 1.0, x0)
        return FedDRServer(xtilde, x0, counted, counted, models=() if self.mean == "all" else x0)

    def broadcast(self, s: FedDRServer) -> Tree:
        return s.xbar

    def client(self, x0: Tree, xbar: Tree) -> FedDRClient:
        if self.init == "lazy":
            return FedDRClient(x0, x0, tree.scale(self._reflection - 1.0, x0), np.zeros(()))
        return FedDRClient(xbar, xbar, tree.zeros_like(xbar), np.zeros(()))  # the server counts nothing for it yet

    def subproblem(self, c: FedDRClient, xbar: Tree) -> Subproblem:
        alpha = self.relaxation(float(c.updates))
        y = tree.map(lambda y, xbar, x: alpha * (xbar - x) + y, c.y, xbar, c.x)
        return Subproblem(start=xbar if self.start == "xbar" else c.x, center=y, eta=_number(self.eta), last=c.x)

    def finish(self, c: FedDRClient, xbar: Tree, sub: Subproblem, solution: Solution) -> tuple[FedDRClient, Tree]:
        x, y = solution.x, sub.center
        xhat = tree.map(lambda a, b: self._reflection * a - b, x, y)
        xhat = feedback(self.upload, xhat, c.xhat, solution.draw)
        return FedDRClient(x, y, xhat, c.updates + 1), tree.increment(xhat, c.xhat)

    def absolute_upload(self, c: FedDRClient, x: Tree) -> Tree:
        return c.xhat

    def increment(self, xhat: Tree, before: Tree, xbar: Tree) -> Tree:
        return tree.increment(xhat, before)

    def recover(self, xbar: Tree) -> FedDRClient:
        # What a compressed upload is then the way from; the server works it out, too.
        return FedDRClient(xbar, xbar, tree.scale(self._reflection - 1.0, xbar), np.zeros(()))

    def invariant_gap(self, s: FedDRServer, total: Tree) -> float:
        return tree.norm(tree.sub(tree.scale(s.weight, s.xtilde), total))

    def leave(self, s: FedDRServer, counted: Tree | None, member: ClientWeights, prox: Prox) -> FedDRServer:
        """Return the server's state without a client, whose xhat_i is taken out of xtilde.

        With ``mean="all"`` xbar is the prox of the new xtilde; with ``"active"`` it stays until the next round.

        Parameters
        ----------
        counted
            The client's xhat_i; None where the mean does not have it yet.
        """
        if counted is None:
            return s
        weight, share = s.weight - member.weight, s.share - member.share
        xtilde = tree.map(
            lambda mean, xhat: (s.weight * mean - member.weight * np.asarray(xhat, np.float64)) / weight,
            s.xtilde,
            counted,
        )
        xbar = prox(xtilde, _number(self.eta) * share / weight) if self.mean == "all" else s.xbar
        return s._replace(xtilde=xtilde, xbar=xbar, weight=weight, share=share)

    def aggregate(self, s: FedDRServer, uploads: Uploads, prox: Prox) -> FedDRServer:
        joined = self.init != "lazy"
        weight, share = s.weight + joined * uploads.joined, s.share + joined * uploads.joined_share
        xtilde = tree.map(lambda mean, change: (s.weight * mean + change) / weight, s.xtilde, uploads.sum)
        # Of the clients counted so far: their share of F over the sum of their w_i / eta_i.
        eta = _number(self.eta) * share / weight
        if self.mean == "all":
            return FedDRServer(xtilde, prox(xtilde, eta), weight, share)
        # Of a client, xhat_i has changed by x_i - xbar + (alpha - 1) (its model before - xbar); the last mean of models
        # stands for those before, which it is where everybody takes part.
        pull = self.relaxation(s.updates) - 1.0
        models = tree.map(
            lambda xbar, change, before: xbar + change / uploads.weight + pull * (xbar - before),
            s.xbar,
            uploads.sum,
            s.models,
        )
        xbar = prox(tree.add(xtilde, models), eta)
        return FedDRServer(xtilde, xbar, weight, share, models, s.updates + uploads.weight / weight)


def _number(eta: float | str | Sequence[float]) -> float:
    """Return the step size of one client or of the server, which ``step_sizes.Roles`` has put in its place."""
    assert isinstance(eta, float | int), f"an engine replaces eta by a number, got {eta!r}"
    return float(eta)
