"""Refusals: the reasons for which the server does not accept an upload."""

from typing import Literal, get_args

Reason = Literal[
    "malformed",
    "foreign",
    "unknown",
    "stale",
    "repeated",
    "misshapen",
    "wrong-type",
    "oversized",
    "not-finite",
    "too-far",
    "changed-key",
    "wrong-share",
]
REASONS: tuple[Reason, ...] = get_args(Reason)
"""Why an upload can be refused."""


class Refused(ValueError):  # noqa: N818  it is the answer to an upload, and reads as one
    """An upload, or another message, that leaves the state as it was.

    Parameters
    ----------
    reason
        malformed
            A field is missing or of the wrong kind, or bytes are not the array that they should be.
        foreign
            It belongs to another run, or to another client than the one that was asked.
        unknown
            The client is not one of the federation.
        stale
            The client's update number is not above the last one that was accepted from it.
        repeated
            The task that it answers has been answered.
        misshapen, wrong-type, oversized, not-finite
            The arrays have other names or shapes, another type, more bytes than the model, or a NaN, an infinity or
            an absurd number.
        too-far
            It is farther from the message that it was computed from than ``max_distance``.
        changed-key, wrong-share
            In a secure round, a site has another identity key than before, or a share is not the one that was dealt.

    Examples
    --------
    >>> Refused("stale", "update 3 of client 1, after 5").reason
    'stale'
    """

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason: Reason = reason
        self.detail = detail
