"""``ProtocolError``: why one side of a secure round does not go on with it."""

from typing import Literal

Cause = Literal["malformed", "replayed", "changed-key", "wrong-share", "too-few"]


class ProtocolError(ValueError):
    """A message of a secure round that must not be answered, or must not count.

    Parameters
    ----------
    cause
        malformed
            It does not fit what came before in this round.
        replayed
            It belongs to a round that is over, or asks for a second answer that differs from the first.
        changed-key
            A site's identity key is not the one that is pinned, or has not signed its round keys.
        wrong-share
            A share is not the one that was dealt, or shares do not make the secret that was announced.
        too-few
            Fewer sites than the threshold, or than three, would be in the sum.

    Examples
    --------
    >>> ProtocolError("too-few", "a sum needs at least 3 sites, got 2").cause
    'too-few'
    """

    def __init__(self, cause: Cause, detail: str) -> None:
        super().__init__(f"{cause}: {detail}")
        self.cause: Cause = cause
        self.detail = detail
