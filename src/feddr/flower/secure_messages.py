"""Messages of secure rounds: what the server asks of a site at a stage, and the site's answer."""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from feddr.flower.messages import ARRAYS, FIELDS, Note, TaskHeader
from feddr.flower.refused import Reason, Refused
from feddr.secure import ProtocolError
from feddr.secure.refusal import Cause
from feddr.secure.ring import Residues, Ring

SECURE = "secure"
"""The record of a task that says what the site is to do in a secure round; what any task says is beside it."""

NAME, ENCODING = "masked", "feddr.masked"

LONGEST = 2**24
"""Characters of the text of a message, at most."""

REASONS: dict[Cause, Reason] = {
    "malformed": "malformed",
    "replayed": "repeated",
    "changed-key": "changed-key",
    "wrong-share": "wrong-share",
    "too-few": "malformed",
}


@dataclass(frozen=True)
class SecureTask(Note):
    """What a site is to do in a secure round.

    Parameters
    ----------
    stage
        ``"keys"``, ``"shares"``, ``"masked"``, ``"agree"`` or ``"unmask"``.
    serial
        Grows with every attempt at a round.
    settings
        The server's ``SecureAggregation``, which must be the site's.
    weight
        The site's weight in the sum, relative to a unit that no weight exceeds.
    enrolment, member, counted
        Which count of the sites this is, whether the server counts this site in it, and the serial of the round in
        which it has counted it last.
    text
        The stage's own fields, as JSON.
    """

    stage: str
    serial: int
    settings: str
    weight: float
    enrolment: int
    member: bool
    counted: int
    text: str

    def with_task(self, task: TaskHeader, arrays: ArrayRecord | None = None) -> RecordDict:
        """Return what travels: this, what any task says, and the broadcast where the site is to train."""
        content = task.content(arrays)
        values: dict[str, Any] = asdict(self)
        content[SECURE] = ConfigRecord(values)
        return content


@dataclass(frozen=True)
class SecureAnswer(Note):
    """A site's answer.

    Parameters
    ----------
    lost
        At the first stage, whether the site has lost what the server counts for it.
    text
        As in ``SecureTask``.
    """

    run: str
    uid: str
    ticket: str
    client: int
    serial: int
    stage: str
    lost: bool
    text: str


def read_task(content: RecordDict) -> tuple[TaskHeader, SecureTask]:
    """Return both parts of a message of the server."""
    secure = content.get(SECURE)
    if not isinstance(secure, ConfigRecord):
        raise Refused("malformed", f"a task of a secure round needs a record called {SECURE!r}")
    return TaskHeader.read(content), SecureTask.read(RecordDict({FIELDS: secure}))


def loads(text: str) -> Any:
    """Return what a text of JSON holds; Refused where it is none, or too long."""
    if len(text) > LONGEST:
        raise Refused("oversized", f"a text must have at most {LONGEST} characters, got {len(text)}")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Refused("malformed", "a text must be JSON") from None


def encode(masked: Residues) -> ArrayRecord:
    """Return a masked vector as it travels."""
    return ArrayRecord({NAME: Array(str(masked.dtype), masked.shape, ENCODING, masked.tobytes())})


def checksum(data: bytes) -> str:
    """Return the digest of a masked vector: nobody could see in its numbers that they were damaged."""
    return hashlib.sha256(data).hexdigest()


def decode(content: RecordDict, ring: Ring, length: int, digest: str) -> Residues:
    """Return the masked vector of an answer; Refused where it is none of this length, or has been damaged."""
    record = content.get(ARRAYS)
    if not isinstance(record, ArrayRecord) or set(record) != {NAME} or set(content) != {FIELDS, ARRAYS}:
        raise Refused("misshapen", f"an answer with a masked vector needs one array, called {NAME!r}")
    array, size = record[NAME], ring.word * length
    if (array.dtype, array.stype) != (str(ring.dtype), ENCODING):
        raise Refused("wrong-type", f"masked numbers must be {ring.dtype}, got {array.dtype[:40]!r}")
    if len(array.data) > size or tuple(array.shape) > (length,):
        raise Refused("oversized", f"a masked vector takes {size} bytes, {len(array.data)} were sent")
    if len(array.data) != size or tuple(array.shape) != (length,):
        raise Refused("misshapen", f"a masked vector has {length} numbers, got the shape {array.shape[:20]}")
    if digest != checksum(array.data):
        raise Refused("malformed", "the checksum of a masked vector does not fit its bytes")
    return np.frombuffer(array.data, ring.dtype)


def refused(error: ProtocolError) -> Refused:
    """Return what the log of the run calls it."""
    return Refused(REASONS[error.cause], error.detail)
