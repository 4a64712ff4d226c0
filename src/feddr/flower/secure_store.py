"""A site's own files of secure rounds: its identity, the keys that it trusts, and the round that it is in.

They hold secrets, so only their owner may read them. A state is written before the answer that it stands for leaves, so
that a process that is killed repeats its answer, and never gives a second one that differs.
"""

import json
import os
from pathlib import Path
from typing import Any

from feddr.flower.journal import Journal
from feddr.secure import SecureAggregation, SiteSession
from feddr.secure.encoding import blob, by_client
from feddr.secure.keys import IDENTITY, SiteIdentity
from feddr.storage import atomic, untrusted

LARGEST = 2**26
"""Bytes of a file of JSON, at most."""


class SecureStore:
    """The files of one client in one run.

    Parameters
    ----------
    folder
        Of the client in the run; the files are in its ``secure``.
    identity
        The file of the site's identity key, which it keeps from run to run.
    """

    def __init__(self, folder: Path, identity: Path) -> None:
        self.folder, self._identity = folder / "secure", identity
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.journal = Journal(self.folder / "log.jsonl")

    def identity(self) -> SiteIdentity:
        """Return the identity of the site, which is made when it is asked for first; its public key is beside it."""
        if not self._identity.exists():
            made = SiteIdentity.new()
            self._identity.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            atomic.write(self._identity.with_suffix(".pub"), f"{made.public.hex()}\n".encode())
            _write(self._identity, made.secret)
        secret = self._identity.read_bytes()
        if len(secret) != IDENTITY:
            raise ValueError(
                f"{self._identity} must hold {IDENTITY} bytes, got {len(secret)}; put back a copy, or remove it and "
                "let the other sites remove the old key from their lists."
            )
        return SiteIdentity(secret)

    def pins(self) -> dict[int, bytes]:
        """Return the identity keys that this site trusts; its operators may have listed them in ``pins.json``."""
        path = self.folder / "pins.json"
        listed = untrusted.json(path, LARGEST) if path.exists() else {}
        return {client: blob(key, IDENTITY) for client, key in by_client(listed).items()}

    def pin(self, pins: dict[int, bytes]) -> None:
        """Write the list of the keys that are trusted, where it has grown."""
        if pins != self.pins():
            listed = {str(client): key.hex() for client, key in sorted(pins.items())}
            atomic.write(self.folder / "pins.json", f"{json.dumps(listed, indent=2)}\n".encode())

    def session(self, secure: SecureAggregation) -> SiteSession | None:
        """Return the round that this site was in last, None before the first."""
        path = self.folder / "session.json"
        return SiteSession.from_dict(untrusted.json(path, LARGEST), secure) if path.exists() else None

    def save(self, session: SiteSession) -> None:
        """Write the state of a round."""
        _write(self.folder / "session.json", json.dumps(session.to_dict()).encode())

    def masked(self) -> bytes:
        """Return the masked vector that was sent in this round."""
        return (self.folder / "masked").read_bytes()

    def keep_masked(self, data: bytes) -> None:
        """Write the masked vector that is to be sent."""
        _write(self.folder / "masked", data)

    def log(self, event: str, **more: Any) -> None:
        """Write down what was told to the server, for the site's own operators."""
        self.journal.write(event, **more)


def _write(path: Path, data: bytes) -> None:
    """Write a file that only its owner may read, atomically."""
    with atomic.replacing(path) as beside:
        beside.touch(mode=0o600)
        os.chmod(beside, 0o600)  # also where a killed process has left one behind
        beside.write_bytes(data)
