"""FedOpt: an optimiser on the server, with FedAvgM, FedAdam, FedYogi and FedAdagrad (Reddi et al. 2021)."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
import optax

from feddr import precision, tree
from feddr.algorithms.algorithm import Uploads
from feddr.algorithms.fedavg import FedAvg
from feddr.prox.regulariser import Prox
from feddr.tree import Tree
from feddr.validation import scalars


class FedOptServer(NamedTuple):
    """State of the server: the model, and the memory of its optimiser."""

    xbar: Tree
    memory: Any


@dataclass(frozen=True, repr=False)
class _Stepping(FedAvg):
    """The rules that all of this file share: FedAvg's clients, and a server that takes a step of an optimiser."""

    def transformation(self) -> optax.GradientTransformation:
        """Return the optimiser of the server."""
        raise NotImplementedError

    def server(self, x0: Tree) -> FedOptServer:
        with precision.scope(np.float64):
            return FedOptServer(x0, tree.map(np.asarray, self.transformation().init(x0)))

    def aggregate(self, s: FedOptServer, uploads: Uploads, prox: Prox) -> FedOptServer:
        gradient = tree.map(lambda xbar, x: xbar - x / uploads.weight, s.xbar, uploads.sum)
        with precision.scope(np.float64):  # outside of it JAX would make float32 of the server's state
            server: FedOptServer = tree.map(np.asarray, _step(self, gradient, s))
        return server


@partial(jax.jit, static_argnums=0)
def _step(rules: _Stepping, gradient: Tree, s: FedOptServer) -> FedOptServer:
    """Return the state after one step; rules with the same numbers share the compiled code."""
    updates, memory = rules.transformation().update(gradient, s.memory, s.xbar)
    return FedOptServer(optax.apply_updates(s.xbar, updates), memory)


def _check(server_lr: float, tau: float = 1.0, **decays: float) -> None:
    if not 0 < server_lr < float("inf"):
        raise ValueError(f"server_lr must be positive, got {server_lr}; 0.01 to 0.1 are usual, 1 for FedAvgM.")
    if not 0 < tau < float("inf"):
        raise ValueError(f"tau must be positive, got {tau}; 1e-3 is usual.")
    for name, decay in decays.items():
        if not 0 <= decay < 1:
            raise ValueError(f"{name} must be at least 0 and below 1, got {decay}; 0 for no memory.")


@dataclass(frozen=True, repr=False)
class FedOpt(_Stepping):
    """FedAvg whose server takes a step of any optimiser of optax instead of the mean.

    Each active client minimises f_i from xbar. The server computes

        D    := mean over active of x_i - xbar, weighted by w_i
        xbar := one step of the optimiser from xbar, as if -D were the gradient there

    With ``optax.sgd(1.0)`` it is FedAvg. The memory of the optimiser stays on the server, in float64.

    Parameters
    ----------
    optimiser
        Such as ``optax.adam(0.01)``.
    name
        Words for the optimiser, such as ``"adam(0.01)"``, since a function of optax has none. Checkpoints and
        deployments know by them whether a run resumes with the same one; without any, two optimisers look alike.

    Notes
    -----
    As with FedAvg, clients that differ and take several steps lead elsewhere than to the joint solution. In a config,
    ``optimiser = "adam"`` and ``lr = 0.01``, as for the local solver ``Optax``.

    References
    ----------
    S. J. Reddi, Z. Charles, M. Zaheer, Z. Garrett, K. Rush, J. Konecny, S. Kumar, H. B. McMahan. Adaptive Federated
    Optimization. ICLR 2021.

    Examples
    --------
    >>> import optax
    >>> algorithm = FedOpt(optax.lion(0.01), name="lion(0.01)")
    """

    optimiser: optax.GradientTransformation = field(repr=False)  # its words hold addresses, new in each process
    name: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.optimiser, optax.GradientTransformation):
            raise ValueError(f"optimiser must be one of optax, got {self.optimiser!r}; such as optax.adam(0.01).")

    def transformation(self) -> optax.GradientTransformation:
        return self.optimiser


@dataclass(frozen=True, repr=False)
class FedAvgM(_Stepping):
    """FedAvg with momentum on the server.

    With D the mean over the active clients of x_i - xbar, weighted by w_i, the server computes

        u    := momentum u + D
        xbar := xbar + server_lr u

    Parameters
    ----------
    server_lr
        Step size of the server.
    momentum
        At least 0 and below 1. FedAvg is server_lr = 1 and momentum = 0.

    References
    ----------
    T.-M. H. Hsu, H. Qi, M. Brown. Measuring the Effects of Non-Identical Data Distribution for Federated Visual
    Classification. arXiv:1909.06335, 2019.

    Examples
    --------
    >>> algorithm = FedAvgM(momentum=0.9)
    """

    server_lr: float = 1.0
    momentum: float = 0.9

    def __post_init__(self) -> None:
        scalars.numbers(self, "server_lr", "momentum")
        _check(self.server_lr, momentum=self.momentum)

    def transformation(self) -> optax.GradientTransformation:
        return optax.sgd(self.server_lr, self.momentum)


@dataclass(frozen=True, repr=False)
class FedAdam(_Stepping):
    """FedAvg with Adam on the server.

    With D the mean over the active clients of x_i - xbar, weighted by w_i, the server computes in round t = 1, 2, ...

        m    := b1 m + (1 - b1) D
        v    := b2 v + (1 - b2) D^2
        xbar := xbar + server_lr m' / (sqrt(v') + tau),   m' = m / (1 - b1^t),  v' = v / (1 - b2^t)

    entry by entry, from m = v = 0.

    Parameters
    ----------
    server_lr
        Step size of the server; an entry moves by about so much in a round.
    b1, b2
        How much of m and v stays, at least 0 and below 1.
    tau
        Adaptivity: entries of D well below it move by server_lr / tau times D.

    Notes
    -----
    The paper has m and v where m' and v' are here, and begins with some v of at least tau^2. The division is that of
    Adam itself and of optax: it makes up for the start at 0, and fades in a few times 1 / (1 - b2) rounds.

    References
    ----------
    As ``FedOpt``. The defaults of b1, b2 and tau are the paper's; server_lr is best searched for, around 0.01.

    Examples
    --------
    >>> algorithm = FedAdam(server_lr=0.03)
    """

    server_lr: float = 0.01
    b1: float = 0.9
    b2: float = 0.99
    tau: float = 1e-3

    def __post_init__(self) -> None:
        scalars.numbers(self, "server_lr", "tau", "b1", "b2")
        _check(self.server_lr, self.tau, b1=self.b1, b2=self.b2)

    def transformation(self) -> optax.GradientTransformation:
        return optax.adam(self.server_lr, self.b1, self.b2, self.tau)


@dataclass(frozen=True, repr=False)
class FedYogi(FedAdam):
    """FedAvg with Yogi on the server: FedAdam whose v changes by no more than (1 - b2) D^2.

    As ``FedAdam``, but

        v := v - (1 - b2) sign(v - D^2) D^2

    so that v falls slowly after a large D.

    Parameters
    ----------
    server_lr, b1, b2, tau
        As in ``FedAdam``.

    Notes
    -----
    What is said of m' and v' for ``FedAdam`` holds here, too. ``optax.yogi`` itself begins with m = v = 1e-6, which
    would move entries that no client has touched; here both begin at 0.

    References
    ----------
    As ``FedOpt``.

    Examples
    --------
    >>> algorithm = FedYogi(server_lr=0.03)
    """

    def transformation(self) -> optax.GradientTransformation:
        yogi = optax.scale_by_yogi(self.b1, self.b2, self.tau, initial_accumulator_value=0.0)
        return optax.chain(yogi, optax.scale_by_learning_rate(self.server_lr))


@dataclass(frozen=True, repr=False)
class FedAdagrad(_Stepping):
    """FedAvg with Adagrad on the server.

    With D the mean over the active clients of x_i - xbar, weighted by w_i, the server computes, entry by entry,

        v    := v + D^2
        xbar := xbar + server_lr D / sqrt(v)

    from v = tau^2.

    Parameters
    ----------
    server_lr
        Step size of the server.
    tau
        Adaptivity: entries of D well below it move by server_lr / tau times D at first.

    Notes
    -----
    The paper adds tau to sqrt(v) once more; optax has it under the root alone. The steps here are longer than those, by
    a factor of 2 at most.

    References
    ----------
    As ``FedOpt``, whose FedAdagrad has no momentum either.

    Examples
    --------
    >>> algorithm = FedAdagrad(server_lr=0.1)
    """

    server_lr: float = 0.1
    tau: float = 1e-3

    def __post_init__(self) -> None:
        scalars.numbers(self, "server_lr", "tau")
        _check(self.server_lr, self.tau)

    def transformation(self) -> optax.GradientTransformation:
        return optax.adagrad(self.server_lr, initial_accumulator_value=self.tau**2, eps=0.0)
