"""The result of one check of a deployment."""

from typing import NamedTuple


class Finding(NamedTuple):
    """What was looked at, ``"ok"``, ``"note"`` or ``"problem"``, the observation, and the remedy."""

    what: str
    verdict: str
    observed: str
    remedy: str = ""
