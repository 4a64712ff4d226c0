"""AsyncFedDR: FedDR's rules on another schedule (Tran-Dinh, Pham, Phan and Nguyen 2021, Algorithm 2)."""

from dataclasses import dataclass
from typing import ClassVar

from feddr.algorithms.feddr import FedDR
from feddr.validation import scalars


@dataclass(frozen=True, repr=False)
class AsyncFedDR(FedDR):
    """Asynchronous FedDR: one client at a time, with an xbar that may be stale.

    When client i, which began with the version xbar^{k-d}, has finished, it and the server compute

        y_i    := y_i + alpha (xbar^{k-d} - x_i)
        x_i    ~= argmin f_i(x) + ||x - y_i||^2 / (2 eta_i),   started at xbar^{k-d}, or at x_i
        xhat_i := 2 x_i - y_i
        xtilde := xtilde + v_i (xhat_i - its previous value)
        xbar   := prox_{eta g}(xtilde)

    which is FedDR with one active client and a delay d. At most one update of a client is under way, so a client's own
    variables are never stale, and xtilde = sum_i v_i xhat_i after every update.

    Parameters
    ----------
    eta, alpha_decay, init, start, mean, upload, download
        As in ``FedDR``; the mean is over all clients.
    alpha
        Relaxation; the theory asks for alpha < 1, and for less where updates are stale
        (``theory.asynchronous.alpha_max``).
    buffer
        Uploads that the server waits for before it aggregates: the general form with more than one client a step.
    tau
        The staleness that eta and alpha were chosen for. The engine warns once when an update is older.

    References
    ----------
    Q. Tran-Dinh, N. H. Pham, D. T. Phan, L. M. Nguyen. FedDR - Randomized Douglas-Rachford Splitting Algorithms for
    Nonconvex Federated Composite Optimization. NeurIPS 2021. As printed, its start xtilde = 0 breaks the identity for
    xtilde by a constant; FedDR's three starts keep it.

    Examples
    --------
    >>> AsyncFedDR(buffer=5)
    AsyncFedDR(eta='auto', alpha='auto', init='auto', start='xbar', mean='auto', buffer=5, tau=None)
    """

    buffer: int = 1
    tau: int | None = None

    mean_without_theory: ClassVar[str] = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mean == "active":
            raise ValueError(f"{type(self).__name__} hears from one client at a time, got mean='active'; use 'all'.")
        scalars.count(self, "buffer", 1)
        if self.tau is not None:
            scalars.count(self, "tau", 0, "None for no warning")

    def factor(self, staleness: int) -> float:
        """Return 1: an increment that counted for less would break the identity for xtilde."""
        return 1.0
