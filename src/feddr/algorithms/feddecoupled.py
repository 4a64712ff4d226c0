"""FedDecoupled: corrected steps, and a prox decoupled from what travels (Zhang, Hu and Johansson 2023)."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from feddr import tree
from feddr.algorithms.algorithm import Uploads
from feddr.algorithms.uploading import CompressedUploads
from feddr.compress import feedback
from feddr.local import Solution, Subproblem
from feddr.local.descent import Decoupled
from feddr.prox.regulariser import Prox
from feddr.tree import Tree
from feddr.validation import scalars


class FedDecoupledMessage(NamedTuple):
    """What the server sends: the point z before the prox, and the step size eta of the prox."""

    z: Tree
    eta: Any


class FedDecoupledUpload(NamedTuple):
    """What a client sends: the mean direction of its steps, and the length of its steps together, lr K_i."""

    direction: Tree
    length: Any


class FedDecoupledClient(NamedTuple):
    """State of a client: where its last steps began, and the mean of the gradients of f_i along them, as counted."""

    began: Tree
    gradient: Tree


class FedDecoupledServer(NamedTuple):
    """State of the server: the model, the point z and the step size eta: xbar = prox_{eta g}(z)."""

    xbar: Tree
    z: Tree
    eta: float


@dataclass(frozen=True, repr=False)
class FedDecoupled(CompressedUploads):
    """A composite method whose clients correct their drift: the joint solution, at one model a round each way.

    Each client i takes K steps from xbar with the step size lr of its local solver, and then the server one:

        z_i  := z_i - lr (grad f_i(prox_{t lr g}(z_i)) + c_i),   for t = 0, ..., K - 1, started at xbar
        z    := xbar + server_lr (mean of z_i - xbar, weighted by w_i)
        c_i  := (xbar - z) / eta - mean of the gradients of f_i along the way,   eta = server_lr lr K
        xbar := prox_{eta g}(z)

    where all c_i begin at 0, so that sum_i w_i c_i = 0 after every round. The server sends z, of which a client knows
    both c_i and xbar.

    Parameters
    ----------
    server_lr
        Step size of the server.
    upload
        How clients compress the change of their mean gradient (``feddr.compress``); lr K_i travels as it is. The mean
        gradient is then what the server counts, so that the sum of the c_i stays 0 and what was left out is in the next
        difference (EF21). None for every bit.

    Notes
    -----
    It settles at solutions of the joint problem. At a stationary x of F put d = grad f(x) and c_i = d - grad f_i(x).
    Then -d is a subgradient of g at x, so that prox_{t lr g}(x - t lr d) = x for every t: by induction z_i = x - t lr d
    after t steps, all gradients are taken at x, z = x - eta d, the c_i stay, and xbar = x. Conversely, where nothing
    changes from one round to the next and all gradients are taken at xbar, the change of each c_i being 0 says that
    grad f_i(xbar) + c_i = (xbar - z) / eta, the mean of which over the clients is d = grad f(xbar), so that
    xbar = prox_{eta g}(xbar - eta d), which says that xbar is stationary.

    Where it is from: the paper's abstract, and the fixed point above, which leaves the t-th step no other prox than
    that of t lr g. The paper's own listing was not at hand. Compared line by line was a program of Algorithm 1 in the
    authors' next paper, which has projections where this one has proximal operators (``RFedProj_.m`` in
    github.com/zhenwei-huang/RFedAGS): steps, mean and corrections are those above. There the first round begins at the
    projection of the start, here at the start itself. Tests hold the rule to both written out by hand, and to
    scikit-learn's lasso.

    The paper gives it no name; this one is ours. With one step of everybody it is the proximal gradient method. With
    g = 0 and server_lr = 1 it is SCAFFOLD with everybody in every round, at half of its bytes.

    In the paper all clients take K steps. Where they differ, clients send the mean direction of their steps, and the
    server takes the mean of those times the mean length, as FedNova does; the sum of the c_i stays 0 and the limit is
    the same. With equal K_i this is the rule above.

    There is no ``download``: where clients read z rounded, the sum of the c_i would move in every round, for good.

    It needs ``local.SGD`` without momentum: the server must know lr. In single precision rounding lets the sum of the
    c_i drift by some 1e-7 ||xbar|| / eta a round.

    References
    ----------
    J. Zhang, J. Hu, M. Johansson. Composite Federated Learning with Heterogeneous Data. arXiv:2309.01795, 2023
    (ICASSP 2024).

    J. Zhang, J. Hu, A. M.-C. So, M. Johansson. Nonconvex Federated Learning on Compact Smooth Submanifolds With
    Heterogeneous Data. NeurIPS 2024.

    Examples
    --------
    >>> FedDecoupled(server_lr=0.5)
    FedDecoupled(server_lr=0.5)
    >>> FedDecoupled().composite, FedDecoupled().partial
    (True, False)
    """

    server_lr: float = 1.0

    composite: ClassVar[bool] = True
    partial: ClassVar[bool] = False
    full_start: ClassVar[bool] = False
    needs_gradient: ClassVar[bool] = True

    def __post_init__(self) -> None:
        scalars.positive(self, "server_lr")

    def server(self, x0: Tree) -> FedDecoupledServer:
        return FedDecoupledServer(xbar=x0, z=x0, eta=0.0)

    def broadcast(self, s: FedDecoupledServer) -> FedDecoupledMessage:
        return FedDecoupledMessage(s.z, s.eta)

    def client(self, x0: Tree, message: FedDecoupledMessage) -> FedDecoupledClient:
        return FedDecoupledClient(message.z, tree.zeros_like(x0))

    def subproblem(self, c: FedDecoupledClient, message: FedDecoupledMessage) -> Subproblem:
        eta = float(message.eta)
        per_length = 1.0 / eta if eta > 0 else 0.0  # there was no round before the first
        correction = tree.map(
            lambda began, z, gradient: (began - z) * per_length - gradient, c.began, message.z, c.gradient
        )
        return Subproblem(start=message.z, linear=correction, descent=Decoupled(message.eta))

    def finish(
        self, c: FedDecoupledClient, message: FedDecoupledMessage, sub: Subproblem, solution: Solution
    ) -> tuple[FedDecoupledClient, FedDecoupledUpload]:
        direction = tree.add(solution.gradient, sub.linear)
        length = np.asarray(solution.length, np.float64)
        began = tree.axpy(float(length), direction, solution.x)  # xbar, which only the solver has computed
        gradient = feedback(self.upload, solution.gradient, c.gradient, solution.draw)
        if self.upload is not None:
            direction = tree.add(gradient, sub.linear)
        return FedDecoupledClient(began, gradient), FedDecoupledUpload(direction, length)

    def parts(self, upload: FedDecoupledUpload) -> tuple[Tree, ...]:
        return (upload.direction,)

    def aggregate(self, s: FedDecoupledServer, uploads: Uploads, prox: Prox) -> FedDecoupledServer:
        mean: FedDecoupledUpload = tree.scale(1.0 / uploads.weight, uploads.sum)
        # Rounded, so that clients in single precision divide by the same number, or the sum of the c_i would drift.
        eta = float(np.float32(self.server_lr * float(mean.length)))
        z = tree.axpy(-eta, mean.direction, s.xbar)
        return FedDecoupledServer(prox(z, eta), z, eta)
