"""Around a node's app: refuses what its site's rules do not allow, and logs whatever leaves before it leaves."""

import hashlib
import json
import math
import traceback
from collections.abc import Mapping
from pathlib import Path

from flwr.app import Array, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp.typing import ClientAppCallable

from feddr.flower import identity, wire
from feddr.flower.mailbox import TYPES
from feddr.flower.messages import FIELDS
from feddr.sites import AuditLog, Site, SiteRefusal

SITE = "feddr-site"
"""The setting of a node that has the path of its site's file."""

KINDS = {flower: ours for ours, flower in TYPES.items()} | {
    TYPES["keys"]: "secure",
    TYPES["masked"]: "train",  # the update of a secure round, under masks
}
ABOUT_DATA = ("hello", "table", "train", "evaluate", "secure")
"""The kinds of messages whose answers say something about a site's rows."""


def site_of(context: Context) -> Site | None:
    """Return what the node's site says in its file; None where the node has none."""
    path = context.node_config.get(SITE)
    return None if path is None else Site.read(str(path))


class SiteGuard:
    """A Flower mod, the outermost of an app: what passes it is what leaves the site.

    An exception of the app leaves, too, as the text of an error. Where there is a site's file only a refusal keeps its
    text: that of another exception may quote a row, so it stays in the node's own log.

    Parameters
    ----------
    experiment
        The hash of the experiment that the app belongs to; "" where it has code of its own.
    folder
        As in ``client_app``.
    """

    def __init__(self, experiment: str, folder: str | Path | None) -> None:
        self.experiment, self.folder = experiment, folder
        self._norms: dict[str, float] = {}

    def note(self, message: Message, norm: float) -> None:
        """Note the norm of the update that answers a message, for the log."""
        self._norms[message.metadata.message_id] = norm

    def __call__(self, message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        """Let the app answer a message that the rules allow, and log the answer."""
        kind = KINDS.get(message.metadata.message_type, message.metadata.message_type)
        fields = message.content.get(FIELDS) if message.has_content() else None
        asked = dict(fields) if isinstance(fields, ConfigRecord) else {}
        log = audit_log(context, self.folder)
        entry = {
            "kind": kind,
            "run": str(asked.get("run", ""))[:80],
            "client": context.node_config.get("partition-id"),
            "experiment": self.experiment,
            "round": _whole(asked.get("round")),
            "version": _whole(asked.get("version")),
        }
        try:
            self._check(kind, asked, context, log)
            reply = call_next(message, context)
        except Exception as error:
            text = _told(error, SITE in context.node_config)
            sha = hashlib.sha256(text.encode()).hexdigest()
            size = len(text.encode())
            _append(log, {**entry, "kind": "error", "of": kind, "bytes": size, "norm": None, "sha256": sha})
            if text != str(error):
                traceback.print_exc()
                raise SiteRefusal(text) from None
            raise
        content, norm = reply.content, self._norms.pop(message.metadata.message_id, math.nan)
        known = norm if math.isfinite(norm) else None
        _append(log, {**entry, "bytes": wire.size(content), "norm": known, "sha256": content_digest(content)})
        return reply

    def _check(self, kind: str, asked: Mapping[str, object], context: Context, log: AuditLog) -> None:
        """Refuse what can be refused before the app looks at any row."""
        site = site_of(context)
        if site is None or kind not in ABOUT_DATA:
            return
        site.rules.check_experiment(self.experiment)
        if kind in ("train", "table"):
            site.rules.check_sites(_whole(asked.get("sites")) or 0)
        if kind == "train" and site.rules.largest_updates is not None:
            site.rules.check_updates(log.updates(self.experiment))


def audit_log(context: Context, folder: str | Path | None = None) -> AuditLog:
    """Return the log of what leaves this node."""
    return AuditLog(identity.root(context.node_config.get("feddr-folder"), folder) / "audit")


def _append(log: AuditLog, entry: Mapping[str, object]) -> None:
    """Log what is about to leave; where that cannot be done, it does not leave."""
    try:
        log.append(entry)
    except OSError:
        traceback.print_exc()
        raise SiteRefusal("The log of this site cannot be written, so nothing leaves; look at its disk.") from None


def _whole(value: object) -> int | None:
    """Return a number of a message that is a whole one; anything may stand there before the app has checked it."""
    return value if type(value) is int else None


def content_digest(content: RecordDict) -> str:
    """Return the SHA-256 of all names, types, shapes and bytes of a message, in the order of the names."""
    sha = hashlib.sha256()
    for name, record in sorted(content.items()):
        for key, value in sorted(record.items()):
            if isinstance(value, Array):
                head, data = [value.dtype, list(value.shape), value.stype], value.data
            else:
                head, data = [type(value).__name__], repr(value).encode()
            sha.update(json.dumps([name, key, *head, len(data)]).encode() + b"\n" + data)
    return sha.hexdigest()


def _told(error: Exception, has_site: bool) -> str:
    """Return what the server may read of an exception."""
    if has_site and not isinstance(error, SiteRefusal):
        return f"{type(error).__name__} at this site; the log of its node says more."
    return str(error)
