"""Validation of an upload before it reaches the ledger: run, client, task, version, precision, shape, range."""

import math
from typing import Any

from flwr.app import ArrayRecord

from feddr import tree
from feddr.flower import compressed, messages, private, wire
from feddr.flower.ledger import Ledger
from feddr.flower.mailbox import Sent
from feddr.flower.messages import UploadHeader
from feddr.flower.refused import Refused
from feddr.flower.settings import Settings
from feddr.tree import Tree

MOST = 2**53


def read(content: Any, sent: Sent, ledger: Ledger, settings: Settings) -> tuple[UploadHeader, Tree]:
    """Return an upload and the value that is to be counted, if it is the answer to what was sent; Refused otherwise.

    What was sent says which client must answer, from which version, and with which ticket, so that an upload can stand
    for one task only, and for one time.
    """
    upload = UploadHeader.read(content)
    if (upload.run, upload.uid) != (settings.name, ledger.uid):
        raise Refused("foreign", f"it belongs to the run {upload.run[:64]!r} {upload.uid[:16]!r}")
    if upload.client != sent.client:
        raise Refused("foreign", f"client {sent.client} was asked, client {upload.client} has answered")
    if upload.ticket != sent.ticket:
        raise Refused("repeated", "it answers another task than the one that was sent")
    if upload.version != sent.version:
        raise Refused("malformed", f"it was computed from version {upload.version}, sent was {sent.version}")
    if upload.precision != settings.precision:
        raise Refused(
            "wrong-type", f"the run computes in {settings.precision}, the client in {upload.precision[:16]!r}"
        )
    if not (0 < upload.number < MOST and 0 <= upload.steps < MOST and (math.isnan(upload.error) or upload.error >= 0)):
        raise Refused("malformed", "numbers of updates and steps, and errors, are not negative, and not absurd")
    private.check_number(upload.spent, getattr(ledger.algorithm, "privacy", None))
    arrays = messages.arrays(content)
    if ledger.compresses:
        value = _counted(arrays, upload, sent, ledger)
    else:
        value = wire.decode(arrays, ledger.initial, settings.dtype)
    if settings.max_distance is not None:
        distance = tree.norm(tree.increment(value, sent.message))
        if not distance <= settings.max_distance:
            raise Refused("too-far", f"it is {distance:.4g} from the broadcast, allowed is {settings.max_distance:g}")
    return upload, value


def _counted(arrays: ArrayRecord, upload: UploadHeader, sent: Sent, ledger: Ledger) -> Tree:
    """Return the value to which a compressed upload leads from what the ledger has for its client."""
    rules: Any = ledger.algorithm
    number = ledger.number(sent.client)
    if upload.number != number + 1:
        raise Refused("stale", f"it is the way from update {upload.number - 1}, counted is update {number}")
    changes = compressed.decode(arrays, rules.upload, rules.parts(ledger.initial))
    if upload.rejoined:
        before = rules.absolute_upload(rules.recover(sent.message), ledger.x0)
    else:
        before = ledger.value(sent.client)
    value = rules.counted(changes, before, sent.message)
    wire.check_range(value)
    return value
