"""A site in secure rounds: its answer to each of the five questions of a round.

The server counts a site by numbers alone: which of its updates is in the sum. The site keeps its state before its
newest update, as in plain runs, and each task says which one was counted, and in which round. So a site's xhat_i goes
forward only with a round that was counted, and after one that was given up it is where it was.

What a site counts for itself is exact: the sum of its levels, whole numbers, from which its xhat_i is made again after
every update. The sum of those of all sites is the server's, to the last bit.
"""

import copy
import dataclasses
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from flwr.app import ArrayRecord, RecordDict

from feddr import precision as precisions
from feddr import tree
from feddr.algorithms import Deployable, FedDR
from feddr.compress import FixedPoint
from feddr.compress.compressor import Flat
from feddr.flower import limits, private, secure_messages
from feddr.flower.messages import ARRAYS, TaskHeader
from feddr.flower.refused import Refused
from feddr.flower.secure_messages import SecureAnswer, SecureTask
from feddr.flower.secure_store import SecureStore
from feddr.secure import ProtocolError, SecureAggregation, SiteSession, encoding
from feddr.secure.keys import RoundName
from feddr.secure.notes import Advertisement, signatures
from feddr.secure.ring import Levels
from feddr.storage import lock, tensors
from feddr.tree import Tree

LEVELS = "secure_levels"
"""The name, among the arrays of a client's state, of the sum of the levels that were counted for it."""

MOST = 2**53
"""No sum of levels is larger, so that it is exact in float64, too."""


class CountedState(NamedTuple):
    """What a site goes on from: its state, the number of its update, and the levels that the server counts."""

    state: Any
    number: int
    levels: Levels


def answer(node: Any, content: RecordDict) -> RecordDict:
    """Return a node's answer to a question of a secure round; ValueError where it has none."""
    task, question = secure_messages.read_task(content)
    if task.client != node.client:
        raise ValueError(f"This node is client {node.client}, the task is for client {task.client}.")
    secure = node.secure
    if secure is None or question.settings != repr(secure):
        raise ValueError(
            f"Server and sites must agree on secure rounds, this site has {secure}, the server "
            f"{question.settings[:200]}; give both apps the same."
        )
    folder = node.folder(task.run)
    with lock.locked(folder):
        site = SecureSite(node, secure, task, question)
        fields, arrays = site.reply(content)
    own = SecureAnswer(
        run=task.run,
        uid=task.uid,
        ticket=task.ticket,
        client=node.client,
        serial=question.serial,
        stage=question.stage,
        lost=site.lost,
        text=json.dumps(fields),
    )
    return own.content(arrays)


class SecureSite:
    """A node that answers one question."""

    def __init__(self, node: Any, secure: SecureAggregation, task: TaskHeader, question: SecureTask) -> None:
        self.node, self.secure, self.task, self.question = node, secure, task, question
        self.name = RoundName(task.run, task.uid, task.round, question.serial)
        folder = node.folder(task.run)
        self.store = SecureStore(folder, node.root / "node" / f"identity-{node.client}")
        self.states = tensors.Generations(folder / "state")
        self.lost = False

    def reply(self, content: RecordDict) -> tuple[dict[str, Any], ArrayRecord | None]:
        """Return what this stage asks for: fields, and the masked vector at the third."""
        session = self.store.session(self.secure)
        text = secure_messages.loads(self.question.text)
        if self.question.stage == "keys":
            return self._keys(session), None
        if session is None or session.name != self.name:
            raise ProtocolError("replayed", "this site is not in the round that it is asked about")
        if self.question.stage == "shares":
            return self._shares(session, text), None
        if self.question.stage == "masked":
            return self._masked(session, text, content)
        if self.question.stage == "agree":
            return self._agree(session, text), None
        if self.question.stage == "unmask":
            return self._unmask(session, text), None
        raise Refused("malformed", f"there is no stage {self.question.stage[:40]!r}")

    def _keys(self, session: SiteSession | None) -> dict[str, Any]:
        """Begin a round that is newer than any before, or repeat the keys of this one."""
        if session is not None and session.name != self.name:
            if self.question.serial <= session.name.serial:
                raise ProtocolError("replayed", f"this site has seen a round with the serial {session.name.serial}")
            if session.revealed:
                counted = self.question.counted == session.name.serial
                self.store.log("counted" if counted else "not_counted", serial=session.name.serial)
        rules: Any = self.node.algorithm
        self.lost = isinstance(rules, FedDR) and self.question.member and self._record() is None
        if self.lost and rules.settled(certified=False).init == "lazy":
            raise ValueError(
                f"The state of update {self.task.accepted} is gone, and with init='lazy' the server goes on with what "
                "it counts for this site, without it; put back a copy of its folder, or use init='joining'."
            )
        if session is None or session.name != self.name:
            session = SiteSession.begin(self.name, self.node.client, self.secure, self.store.identity())
            self.store.save(session)
        return session.own.to_dict()

    def _shares(self, session: SiteSession, text: Any) -> dict[str, Any]:
        listed = encoding.record(text, "roster")["roster"]
        if not isinstance(listed, list):
            raise ProtocolError("malformed", "the roster must be a list of keys")
        session, pins = session.deal([Advertisement.read(one) for one in listed], self.store.pins())
        self.store.pin(pins)
        self.store.save(session)
        assert session.dealt is not None
        return session.dealt.to_dict()

    def _masked(self, session: SiteSession, text: Any, content: RecordDict) -> tuple[dict[str, Any], ArrayRecord]:
        """Do the client's update, write its state, and return its levels under masks; repeat them if asked again.

        What a private method releases is noisy before it becomes levels. So these, and what rounding leaves out, are
        processing of a release, with which the site's account is charged whether the round is counted or not.
        """
        text = encoding.record(text, "partners", "sealed")
        sealed = {j: encoding.blob(one) for j, one in encoding.by_client(text["sealed"]).items()}
        session = session.receive(encoding.clients(text["partners"]), sealed)
        if session.masked:
            masked = np.frombuffer(self.store.masked(), self.secure.ring(len(session.roster)).dtype)
        else:
            session, masked = session.mask(self._update(content))
            self.store.keep_masked(masked.tobytes())
            self.store.save(session)
        signature = session.sign_partners(self.store.identity()).hex()
        private_method = getattr(self.node.algorithm, "privacy", None) is not None
        spent = private.account(self.node.root, self.node.client).spent if private_method else 0.0
        fields = {"sha256": secure_messages.checksum(masked.tobytes()), "signature": signature, "spent": spent}
        return fields, secure_messages.encode(masked)

    def _agree(self, session: SiteSession, text: Any) -> dict[str, Any]:
        text = encoding.record(text, "survivors", "signed")
        survivors, signed = encoding.clients(text["survivors"]), signatures(text["signed"])
        session, signature = session.agree(survivors, signed, self.store.identity())
        self.store.save(session)
        return {"signature": signature.hex()}

    def _unmask(self, session: SiteSession, text: Any) -> dict[str, Any]:
        signed = signatures(encoding.record(text, "signed")["signed"])
        session, revealed = session.reveal(signed)
        self.store.save(session)
        survivors = list(session.survivors)
        self.store.log("revealed", serial=session.name.serial, round=session.name.round, survivors=survivors)
        return revealed.to_dict()

    def _update(self, content: RecordDict) -> Levels:
        """Return the levels of the client's change, after writing the state in which they are counted."""
        task, node = self.task, self.node
        point, sent = self.secure.fixed_point(self.question.weight), list[Levels]()
        rules: Any = dataclasses.replace(node.rules(task), upload=_recording(point, sent))
        dtype = precisions.of(task.precision)
        x0 = tree.cast(node.problem.init, dtype)
        arrays = content.get(ARRAYS)
        if not isinstance(arrays, ArrayRecord):
            raise Refused("malformed", "a task to train needs the broadcast")
        message = node.read(arrays, x0, dtype, rules)
        standing = self._standing(rules, x0, message)
        state, solution, _ = node.solved(rules, standing.state, message, task, standing.number)
        _, norm = limits.bounded(rules, state, solution.x, message, node.site_rules)
        node.norms.append(norm)
        (levels,) = sent
        counted = standing.levels + levels
        if np.abs(counted).max(initial=0) > MOST:
            raise ValueError(
                f"The levels that are counted for a site must be at most 2^53, use a larger clip: {point}."
            )
        if isinstance(rules, FedDR):
            state = state._replace(xhat=_exact(rules, x0, message, counted, point))
        header = {
            "uid": task.uid,
            "number": standing.number + 1,
            "serial": self.question.serial,
            "enrolment": self.question.enrolment,
            "weight": self.question.weight,
        }
        self.states.save(standing.number + 1, header, {**tensors.flatten(state), LEVELS: counted})
        return levels

    def _standing(self, rules: Any, x0: Tree, message: Tree) -> CountedState:
        """Return what was counted last, or the state of a client that joins."""
        fresh = rules.client(x0, message)
        record = self._record() if self.question.member else None
        if record is None:
            if self.question.member and isinstance(rules, FedDR):
                raise ValueError(f"The state of update {self.task.accepted} is gone; the server must count anew.")
            return CountedState(fresh, self.task.accepted, np.zeros(tree.size(x0), np.int64))
        if record.header["weight"] != self.question.weight:
            raise ValueError(
                f"A site's weight stays the same while it is counted, it was {record.header['weight']} and is "
                f"{self.question.weight} now; begin a run under another name."
            )
        arrays = dict(record.arrays)
        levels = arrays.pop(LEVELS)
        return CountedState(tensors.restore(fresh, arrays), self.task.accepted, levels)

    def _record(self) -> tensors.Snapshot | None:
        """Return the state of the update that the server has counted last, None where it is not there."""
        wanted = {
            "uid": self.task.uid,
            "number": self.task.accepted,
            "serial": self.question.counted,
            "enrolment": self.question.enrolment,
        }
        for _, record in self.states.undamaged():
            if all(record.header.get(name) == value for name, value in wanted.items()):
                return record
        return None


def _recording(point: FixedPoint, sent: list[Levels]) -> FixedPoint:
    """Return the fixed point, which adds to a list the levels of what it is given; what is not finite has none."""

    def read(flat: Flat, lengths: Sequence[int], draw: int) -> Flat:
        del draw
        if not np.isfinite(flat).all():
            raise ValueError("A change must be finite to be masked, got a NaN or an infinity; take a smaller step.")
        sent.append(point.levels(flat))
        return point.values((sent[-1],), lengths, flat.dtype)

    recorder = copy.copy(point)
    object.__setattr__(recorder, "read", read)  # compressors are frozen; this copy is nobody else's
    return recorder


def _exact(rules: Deployable, x0: Tree, message: Tree, levels: Levels, point: FixedPoint) -> Tree:
    """Return the xhat_i that levels stand for, rounded once, however many rounds they come from."""
    start = rules.absolute_upload(rules.client(x0, message), x0)
    flat = np.concatenate([np.ravel(leaf) for leaf in tree.leaves(start)]).astype(np.float64)
    return tree.cast(tree.unravel(flat + levels * point.scale, start), tree.leaves(start)[0].dtype)
