"""Checkpoints: a run that is cut off at any moment goes on as if nothing had happened.

``saved`` keeps a few checkpoints in a folder and refuses what is not one, ``settings`` says which runs are the same.
What a checkpoint holds is the engines' affair (``engines.keep``).
"""

from feddr.checkpoint.folder import CheckpointError, Checkpoints, CheckpointWarning, Saved

__all__ = ["CheckpointError", "CheckpointWarning", "Checkpoints", "Saved"]
