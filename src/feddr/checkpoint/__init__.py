"""Checkpoints: a run that is killed at any moment resumes from its last checkpoint, bit for bit as if it had not been.

Engines write their state with ``state_dict`` and read it with ``load_state_dict``. The modules::

    manager     when to save and from which round to resume: Checkpoint, CheckpointManager, used by every engine
    folder      the files on disk: atomic writes, SHA-256 checksums, the two newest checkpoints of a run
    encoding    states, histories and events as named arrays, and back
    identity    the settings and the fingerprint of the data that a checkpoint and a resumed run must share
"""

from feddr.checkpoint.folder import CheckpointError, Checkpoints, CheckpointWarning, Saved
from feddr.checkpoint.manager import Checkpoint

__all__ = ["Checkpoint", "CheckpointError", "CheckpointWarning", "Checkpoints", "Saved"]
