"""The two schedules of a deployed run: synchronous rounds with a deadline, and uploads as they arrive."""

from feddr.algorithms import Asynchronous
from feddr.engines.shared.randomness import sampling_rng
from feddr.flower.deployment import Deployment
from feddr.flower.secure_round import SecureRound


def play(run: Deployment) -> None:
    """Run the remaining rounds or updates, from the state that the ledger has."""
    run.let_go()
    while not finished(run):
        turn = next_turn(run)
        if not isinstance(turn, Arrivals):
            # Who has sent an upload in this round already has spent what it costs.
            run.end.now(run.watch.refuses([0.0, *run.ledger.spent(turn.missing)]) if turn.missing else "")
            if run.end.reason:
                break
        while not turn.look():
            run.wait(turn.missing)
    run.report()


def finished(run: Deployment) -> bool:
    """Return whether the run has finished."""
    return run.ledger.version >= run.settings.rounds or bool(run.end.reason)


def next_turn(run: Deployment) -> "Round | SecureRound | Arrivals":
    """Return what comes next: a round, or arrivals up to the end of the run."""
    n, k = run.federation.clients, run.ledger.version + 1
    kind = Round if run.settings.secure is None else SecureRound
    if k == 0:
        return kind(run, list(range(n)))  # the start-up round, in which everybody takes part
    run.let_go()
    run.report()
    if isinstance(run.algorithm, Asynchronous):
        return Arrivals(run, run.algorithm.buffer)
    return kind(run, run.sampling.draw(n, sampling_rng(run.settings.seed, k)).tolist())


class Round:
    """A round: the active clients compute, then the server.

    It ends when all have answered, or at the deadline if enough have; until then those who fail are asked again. Who
    has not answered by then stays as it was: what it still sends is ignored, and its next task says to continue
    from the update that the server has accepted. With ``late="count"`` what it still sends counts in the round in
    which it arrives, as in AsyncFedDR, whether its client is active there or not. A round that was open when the server
    stopped continues with the uploads that are in the ledger.
    """

    def __init__(self, run: Deployment, active: list[int]) -> None:
        self.run, self.active = run, active
        self.deadline = run.settings.deadline if run.ledger.version >= 0 else None
        self.enough = min(run.settings.min_replies or 1, len(active))
        self.opened: float | None = None
        run.sites = len(active) if self.deadline is None else self.enough

    @property
    def missing(self) -> list[int]:
        """The active clients that have not answered."""
        received = {one.client for one in self.run.ledger.pending}
        return [i for i in self.active if i not in received | self.run.ledger.left]

    def look(self) -> bool:
        """Send tasks, process replies, and return whether the round has ended."""
        run = self.run
        run.let_go()
        if run.send(self.missing) and self.opened is None:
            self.opened = run.clock.now()
        for _ in run.arrivals():
            pass  # they are in the ledger
        missing = len(self.missing)
        received = sum(one.client in self.active for one in run.ledger.pending)
        if missing and not (self._late() and received >= min(self.enough, missing + received)):
            return False
        if run.settings.late == "drop":
            run.mailbox.forget(lambda sent: sent.kind == "train")
        run.step(self.active)
        return True

    def _late(self) -> bool:
        if self.deadline is None or self.opened is None:
            return False
        return self.run.clock.now() - self.opened >= self.deadline


class Arrivals:
    """Arrivals: the server aggregates each upload as it arrives, or every ``buffer`` of them.

    A client gets the newest xbar as soon as its upload is in the ledger.
    """

    def __init__(self, run: Deployment, buffer: int) -> None:
        self.run, self.buffer = run, buffer
        self.missing: list[int] = []
        run.sites = buffer

    def look(self) -> bool:
        """Send tasks, process replies, and return whether the run has ended."""
        run = self.run
        run.let_go()
        run.send(range(run.federation.clients))
        for i in run.arrivals(self.buffer):
            if finished(run):
                return True
            run.send([i])
        return finished(run)
