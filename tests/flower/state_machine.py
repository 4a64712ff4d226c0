"""A deployment under faults in any order: the faults as rules of a state machine, and the invariants that must hold."""

import copy
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
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
from feddr.flower import rounds, run, validate
from feddr.flower.deployment import Deployment
from feddr.flower.ledger import Ledger
from feddr.flower.secure_round import SecureRound
from feddr.flower.settings import Settings
from feddr.storage import atomic, tensors
from tests.flower.fake_grid import Crash, FakeGrid, FakeNode, Fate
from tests.flower.federations import QUIET, app_for
from tests.flower.quadratic_clients import CLIENTS, WEIGHTS, ClosedFormClients, quadratic_problem

SEED = 5
LOCAL = feddr.local.SGD(lr=0.1)  # named in apps, and replaced by the closed form
SHARED_MEMORY = Path("/dev/shm")
NODES_AT_MOST = 12

SLOW = st.builds(Fate, delay=st.sampled_from([0.1, 1.0, 3.0, 20.0, 200.0]))
LOST = st.builds(Fate, delay=st.sampled_from([0.1, 2.0]), lost=st.sampled_from(["task", "reply"]))
FAILED = st.builds(Fate, error=st.sampled_from([2, 3, 8]))
REPEATED = st.builds(Fate, repeat=st.integers(1, 2))
SOME_CLIENT = st.integers(0, CLIENTS - 1)


def temporary_folder() -> Path:
    """Return a new folder, in memory where there is a file system for that."""
    return Path(tempfile.mkdtemp(dir=SHARED_MEMORY if SHARED_MEMORY.is_dir() else None))


def federation() -> flower.Federation:
    """Return what the server knows of the quadratic clients."""
    return flower.Federation(quadratic_problem().init, CLIENTS, weights=WEIGHTS)


class MessageFaults:
    """Decides what happens to each task: the faults in the queue come first, then tasks take the usual time."""

    def __init__(self) -> None:
        self.queue: list[Fate] = []
        self.replay_old_upload = False
        self.usual_delay = 0.5
        self.replies: list[Message] = []

    def __call__(self, _: FakeNode, message: Message) -> Fate:
        """Return the fate of a message, as ``FakeGrid`` asks for it; only tasks have faults."""
        if message.metadata.message_type != "train":
            return Fate(delay=0.1)
        fate = self.queue.pop(0) if self.queue else Fate(delay=self.usual_delay)
        fate.change = self.record_or_replay
        return fate

    def record_or_replay(self, reply: Message) -> Message:
        """Record a reply, or put the content of the first one into it where that was asked for."""
        if self.replay_old_upload and self.replies:
            self.replay_old_upload = False
            reply.content = copy.deepcopy(self.replies[0].content)
        else:
            self.replies.append(reply)
        return reply

    def stop(self, usual_delay: float) -> None:
        """Let there be no more faults."""
        self.queue, self.replay_old_upload, self.usual_delay = [], False, usual_delay


def record_accepted_uploads(patch: pytest.MonkeyPatch) -> dict[tuple[int, int], bytes]:
    """Return a mapping that gets the value of every upload that a ledger accepts, by client and update number."""
    accept, accepted = Ledger.accept, dict[tuple[int, int], bytes]()

    def recording(ledger: Ledger, client: int, number: int, counted: Any, *more: Any) -> None:
        accept(ledger, client, number, counted, *more)
        accepted[client, number] = np.asarray(counted).tobytes()

    patch.setattr(Ledger, "accept", recording)
    return accepted


def compare_both_sides(patch: pytest.MonkeyPatch) -> None:
    """Let every upload fail that makes the server count another xhat_i than the client that sent it, by one bit."""
    train, read, on_nodes = node_module.Node.train, validate.read, dict[str, bytes]()

    def training(node: node_module.Node, task: Any, arrays: Any) -> Any:
        upload, sent = train(node, task, arrays)
        folder = node.folder(task.run) / "state"
        on_nodes[upload.ticket] = tensors.read(tensors.Generations(folder).path(upload.number)).arrays["xhat"].tobytes()
        return upload, sent

    def reading(content: Any, *more: Any) -> Any:
        upload, value = read(content, *more)
        assert np.asarray(value).tobytes() == on_nodes[upload.ticket]
        return upload, value

    patch.setattr(node_module.Node, "train", training)
    patch.setattr(validate, "read", reading)


@contextmanager
def crash_at_write(number: int, leaves_half: bool) -> Iterator[None]:
    """Raise Crash at the server's n-th write, which leaves half of a temporary file behind or nothing."""
    write, count = atomic.write, 0

    def crashing(path: Path, data: bytes) -> None:
        nonlocal count
        if "server" in path.parts:
            count += 1
            if count == number:
                if leaves_half:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.with_name(f".{path.name}.part").write_bytes(data[: len(data) // 2])
                raise Crash
        write(path, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(atomic, "write", crashing)
        yield


class FaultyDeployment(RuleBasedStateMachine):
    """A server and three nodes in virtual time; subclasses say which method runs and how it must end."""

    method: Deployable
    sampling: feddr.sampling.Sampling = feddr.sampling.Full()
    settings: dict[str, Any]

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr("os.fsync", lambda _: None)
        self.patch.setattr(node_module, "CompiledClients", ClosedFormClients)
        self.accepted = record_accepted_uploads(self.patch)
        compare_both_sides(self.patch)
        self.folder = temporary_folder()
        self.faults = MessageFaults()
        self.grid = FakeGrid(fate=self.faults)
        self.app = app_for(quadratic_problem(), self.method, LOCAL)
        self.state_was_lost = False
        self.server: Deployment | None = None
        self.turn: rounds.Round | SecureRound | rounds.Arrivals | None = None

    def disk(self, client: int) -> Path:
        """Return the folder of a client's node."""
        return self.folder / f"disk-{client}"

    def start_server(self) -> None:
        settings = Settings(folder=self.folder, seed=SEED, precision="float64", **self.settings)
        scheme, clock = self.sampling, self.grid.clock
        self.server = run.open_run(self.grid, federation(), self.method, scheme, settings, clock, QUIET)
        self.turn = None

    def poll_server(self) -> None:
        """Let the server do what it does between two waits."""
        assert self.server is not None
        if self.turn is None:
            if rounds.finished(self.server):
                return
            self.turn = rounds.next_turn(self.server)
        if self.turn.look():
            self.turn = None

    @initialize()
    def nodes_and_server_start(self) -> None:
        for client in range(CLIENTS):
            self.grid.add(client, self.app, self.disk(client))
        self.start_server()

    # What may happen, in any order

    @rule(seconds=st.sampled_from([0.1, 0.5, 1.0, 5.0, 30.0, 150.0]), times=st.integers(1, 4))
    def time_passes(self, seconds: float, times: int) -> None:
        for _ in range(times):
            self.grid.clock.sleep(seconds)
            if self.server is not None:
                self.poll_server()

    @rule(fates=st.lists(st.one_of(SLOW, LOST, FAILED, REPEATED), min_size=1, max_size=4))
    def the_next_messages_suffer(self, fates: list[Fate]) -> None:
        self.faults.queue += fates

    @rule()
    def an_old_upload_is_sent_again(self) -> None:
        self.faults.replay_old_upload = True

    @precondition(lambda self: self.server is not None)
    @rule()
    def the_server_is_killed(self) -> None:
        self.server = None
        self.grid.restart_server()

    @precondition(lambda self: self.server is not None)
    @rule(write=st.integers(1, 6), leaves_half=st.booleans())
    def the_server_is_killed_while_it_writes(self, write: int, leaves_half: bool) -> None:
        try:
            with crash_at_write(write, leaves_half):
                for _ in range(4):
                    self.grid.clock.sleep(1.0)
                    self.poll_server()
        except Crash:
            self.the_server_is_killed()

    @precondition(lambda self: self.server is None)
    @rule()
    def the_run_is_submitted_again(self) -> None:
        self.start_server()

    @rule(client=SOME_CLIENT, keeps_number=st.booleans())
    def a_node_is_restarted(self, client: int, keeps_number: bool) -> None:
        for number, node in list(self.grid.nodes.items()):
            if node.client == client and node.alive:
                node.alive = False
                self.grid.add(client, self.app, node.disk, number if keeps_number else None)

    @rule(client=SOME_CLIENT)
    def a_second_node_of_a_client_appears(self, client: int) -> None:
        if len(self.grid.nodes) < NODES_AT_MOST:
            self.grid.add(client, self.app, self.disk(client))

    @rule(client=SOME_CLIENT)
    def a_disk_is_lost(self, client: int) -> None:
        shutil.rmtree(self.disk(client), ignore_errors=True)
        self.state_was_lost = True

    # What must hold after each of them

    @invariant()
    def the_ledger_adds_up(self) -> None:
        """(INV), in memory and from the files alone."""
        if self.server is not None:
            assert self.server.ledger.audit() <= 1e-12
            assert flower.audit(self.folder / "server" / "feddr", self.method, federation()) <= 1e-12

    @invariant()
    def the_table_holds_what_was_sent(self) -> None:
        """For each client the value of its last accepted update, to the last bit."""
        if self.server is not None:
            for client, entry in self.server.ledger.entries.items():
                value = np.asarray(self.server.ledger.value(client))
                assert value.tobytes() == self.accepted[client, entry.number]

    def assert_updates(self, expected: int) -> None:
        """Assert that the update numbers of all clients add up to what was accepted: each update counts once.

        Where a client has lost its state, and then the reply of its next update was lost, too, it continues from there,
        and a number is skipped.
        """
        assert self.server is not None
        total = sum(map(self.server.ledger.number, range(CLIENTS)))
        assert total == expected or (self.state_was_lost and total > expected)

    # The end of a history

    @property
    def began_again(self) -> bool:
        """Whether a client restarted at xbar: its state was lost, or overwritten by a task that came after its time."""
        assert self.server is not None
        return '"rejoined": true' in self.server.journal.path.read_text()

    def stop_faults(self, usual_delay: float = 0.5) -> None:
        """Let there be no more faults, start the server if it is down, and let tasks take so many seconds."""
        self.faults.stop(usual_delay)
        if self.server is None:
            self.start_server()

    def run_for(self, seconds: float) -> None:
        """Let time pass, until the run has finished."""
        end = self.grid.clock.now() + seconds
        assert self.server is not None
        while self.grid.clock.now() < end and not rounds.finished(self.server):
            self.grid.clock.sleep(max(1.0, self.faults.usual_delay / 8))
            self.poll_server()

    def check_end(self) -> None:
        """Check what must hold at the end."""

    def teardown(self) -> None:
        try:
            if self.grid.nodes:  # else nothing has begun
                self.check_end()
        finally:
            self.patch.undo()
            shutil.rmtree(self.folder)
