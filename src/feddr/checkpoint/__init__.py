"""Checkpoints: a run that is interrupted at any moment resumes as if nothing had happened.

manager      when a run is saved, and how it resumes
folder       the files of checkpoints: atomic, checksummed, the newest two are kept
encoding     the state of a run as named arrays, and back
identity     which settings a run and its checkpoints must share
"""

from feddr.checkpoint.folder import CheckpointError, Checkpoints, CheckpointWarning, Saved
from feddr.checkpoint.manager import Checkpoint

__all__ = ["Checkpoint", "CheckpointError", "CheckpointWarning", "Checkpoints", "Saved"]
