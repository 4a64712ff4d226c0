"""A deployment that is pushed around: what the stateful tests do to it, and what must hold all the time.

Clients have quadratic losses f_i(x) = ||x - a_i||^2 / 2, solved in closed form plus a little noise that depends on the
update's own randomness, so that an update done twice, or with another's number, shows.
"""

import copy
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import feddr
from feddr import flower
from feddr.algorithms import Deployable
from feddr.flower import node as node_module
from feddr.flower import rounds, run
from feddr.flower.deployment import Deployment
from feddr.flower.ledger import Ledger
from feddr.flower.settings import Settings
from feddr.local import Solution, Subproblem
from feddr.storage import atomic
from tests.flower.fake_grid import Crash, FakeGrid, FakeNode, Fate
from tests.flower.federations import QUIET, app_for

CLIENTS, SEED = 3, 5
TARGETS = np.array([[1.0, 0.0], [0.0, 2.0], [-3.0, 1.0]])
WEIGHTS = [0.5, 0.3, 0.2]
LOCAL = feddr.local.SGD(lr=0.1)  # named in apps, and replaced by the closed form below
SHARED_MEMORY = Path("/dev/shm")


def solve(client: int, sub: Subproblem, rng: np.random.Generator) -> Solution:
    eta, center = (sub.eta, sub.center) if sub.center is not None else (np.inf, 0.0)
    x = (TARGETS[client] + center / eta) / (1 + 1 / eta) + 0.01 * rng.normal(size=2)
    return Solution(x, 1, np.nan, x - TARGETS[client])


def closed_form(problem: feddr.Problem, *_: Any) -> Any:
    client = int(problem.data.train.samples["i"][0])
    return lambda __, sub, rng, *___: solve(client, sub, rng)


@cache
def problem() -> feddr.Problem:
    data = feddr.FederatedData.from_clients([{"i": np.array([i])} for i in range(CLIENTS)])
    return feddr.Problem(lambda x, batch: 0.0 * batch["i"] + x[0], data, np.array([0.5, -0.5]), weights=WEIGHTS)


FATES = st.one_of(
    st.builds(Fate, delay=st.sampled_from([0.1, 1.0, 3.0, 20.0, 200.0])),
    st.builds(Fate, delay=st.sampled_from([0.1, 2.0]), lost=st.sampled_from(["task", "reply"])),
    st.builds(Fate, error=st.sampled_from([2, 3, 8])),
    st.builds(Fate, repeat=st.integers(1, 2)),
)


class Machine(RuleBasedStateMachine):
    """Faults in any order; subclasses say which method and how it ends."""

    method: Deployable
    sampling: feddr.sampling.Sampling = feddr.sampling.Full()
    settings: dict[str, Any]

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr("os.fsync", lambda _: None)
        self.patch.setattr(node_module, "CompiledClients", closed_form)
        self.folder = Path(tempfile.mkdtemp(dir=SHARED_MEMORY if SHARED_MEMORY.is_dir() else None))
        self.grid = FakeGrid(fate=self.decide)
        self.app = app_for(problem(), self.method, LOCAL)
        self.fates: list[Fate] = []
        self.replies: list[Message] = []
        self.replay = False
        self.usual = 0.5
        self.disturbed = False
        self.server: Deployment | None = None
        self.turn: Any = None
        self.taken: dict[tuple[int, int], bytes] = {}
        self.watch_ledger()

    def watch_ledger(self) -> None:
        """Remember the value of every upload that the books take in."""
        accept = Ledger.accept

        def watched(ledger: Ledger, client: int, number: int, counted: Any, *more: Any) -> None:
            accept(ledger, client, number, counted, *more)
            self.taken[client, number] = np.asarray(counted).tobytes()

        self.patch.setattr(Ledger, "accept", watched)

    def decide(self, node: FakeNode, message: Message) -> Fate:
        if message.metadata.message_type != "train":
            return Fate(delay=0.1)
        fate = self.fates.pop(0) if self.fates else Fate(delay=self.usual)

        def keep(reply: Message) -> Message:
            if self.replay and self.replies:
                self.replay = False
                reply.content = copy.deepcopy(self.replies[0].content)  # an old upload in place of the new one
            else:
                self.replies.append(reply)
            return reply

        fate.change = keep
        del node
        return fate

    @property
    def federation(self) -> flower.Federation:
        return flower.Federation(problem().init, CLIENTS, weights=WEIGHTS)

    def start_server(self) -> None:
        settings = Settings(folder=self.folder, seed=SEED, precision="float64", **self.settings)
        scheme, clock = self.sampling, self.grid.clock
        self.server = run.open_run(self.grid, self.federation, self.method, scheme, settings, clock, QUIET)
        self.turn = None

    def look(self) -> None:
        """Let the server do what it does between two waits."""
        assert self.server is not None
        if self.turn is None:
            if rounds.finished(self.server):
                return
            self.turn = rounds.next_turn(self.server)
        if self.turn.look():
            self.turn = None

    @initialize()
    def begin(self) -> None:
        for client in range(CLIENTS):
            self.grid.add(client, self.app, self.folder / f"disk-{client}")
        self.start_server()

    @rule(seconds=st.sampled_from([0.1, 0.5, 1.0, 5.0, 30.0, 150.0]), looks=st.integers(1, 4))
    def time_passes(self, seconds: float, looks: int) -> None:
        for _ in range(looks):
            self.grid.clock.sleep(seconds)
            if self.server is not None:
                self.look()

    @rule(fates=st.lists(FATES, min_size=1, max_size=4))
    def messages_suffer(self, fates: list[Fate]) -> None:
        self.fates += fates

    @rule()
    def an_old_upload_is_sent_again(self) -> None:
        self.replay = True

    @precondition(lambda self: self.server is not None)
    @rule()
    def the_server_is_killed(self) -> None:
        self.server = None
        self.grid.restart_server()

    @precondition(lambda self: self.server is not None)
    @rule(writes=st.integers(1, 6), half=st.booleans())
    def the_server_is_killed_while_it_writes(self, writes: int, half: bool) -> None:
        left, whole = [writes], atomic.write

        def write(path: Path, data: bytes) -> None:
            if "server" not in path.parts:
                return whole(path, data)
            left[0] -= 1
            if left[0] == 0 and half:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.with_name(f".{path.name}.part").write_bytes(data[: len(data) // 2])
            if left[0] == 0:
                raise Crash
            return whole(path, data)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(atomic, "write", write)
            try:
                for _ in range(4):
                    self.grid.clock.sleep(1.0)
                    self.look()
            except Crash:
                self.the_server_is_killed()

    @precondition(lambda self: self.server is None)
    @rule()
    def the_run_is_submitted_again(self) -> None:
        self.start_server()

    @rule(client=st.integers(0, CLIENTS - 1), same=st.booleans())
    def a_node_is_restarted(self, client: int, same: bool) -> None:
        for number, node in list(self.grid.nodes.items()):
            if node.client == client and node.alive:
                node.alive = False
                self.grid.add(client, self.app, node.disk, number if same else None)

    @rule(client=st.integers(0, CLIENTS - 1))
    def a_twin_appears(self, client: int) -> None:
        if len(self.grid.nodes) < 12:
            self.grid.add(client, self.app, self.folder / f"disk-{client}")

    @rule(client=st.integers(0, CLIENTS - 1))
    def a_disk_is_lost(self, client: int) -> None:
        shutil.rmtree(self.folder / f"disk-{client}", ignore_errors=True)
        self.disturbed = True

    @invariant()
    def the_books_balance(self) -> None:
        """(INV), in memory and from the files alone."""
        if self.server is not None:
            assert self.server.ledger.audit() <= 1e-12
            place = self.folder / "server" / "feddr"
            assert flower.audit(place, self.method, self.federation) <= 1e-12

    @invariant()
    def the_table_holds_what_was_sent(self) -> None:
        """For each client the value of its last accepted update, to the last bit."""
        if self.server is not None:
            for client, entry in self.server.ledger.entries.items():
                value = np.asarray(self.server.ledger.value(client))
                assert value.tobytes() == self.taken[client, entry.number]

    def adds_up(self, expected: int) -> None:
        """The numbers of all clients add up to what was accepted; each update counts once.

        Where a client has lost its state, and then the reply of its next update was lost, too, it goes on from there,
        and a number is skipped.
        """
        assert self.server is not None
        found = sum(map(self.server.ledger.number, range(CLIENTS)))
        assert found == expected or (self.disturbed and found > expected)

    def heal(self, usual: float = 0.5) -> None:
        """No more faults; a task takes so long."""
        self.fates, self.replay, self.usual = [], False, usual
        if self.server is None:
            self.start_server()

    def play_on(self, seconds: float) -> None:
        """Let time pass without faults, until the run has come to its end."""
        end = self.grid.clock.now() + seconds
        assert self.server is not None
        while self.grid.clock.now() < end and not rounds.finished(self.server):
            self.grid.clock.sleep(max(1.0, self.usual / 8))
            self.look()

    def end(self) -> None:
        """Check what must hold at the end."""

    def teardown(self) -> None:
        try:
            if self.grid.nodes:  # else nothing has begun
                self.end()
        finally:
            self.patch.undo()
            shutil.rmtree(self.folder)
