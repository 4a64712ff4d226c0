"""Options that every engine has, validated in one place."""

from typing import Any, Literal, NamedTuple

from feddr.validation import scalars

OnBadClient = Literal["stop", "skip"]
"""What to do about a client that sends a NaN or an infinity."""


def check_on_bad_client(on_bad_client: str, algorithm: Any) -> None:
    """Refuse to leave clients out where the algorithm needs every one of them."""
    if on_bad_client not in ("stop", "skip"):
        raise ValueError(f'on_bad_client must be "stop" or "skip", got {on_bad_client!r}.')
    if on_bad_client == "skip" and not algorithm.partial:
        name = type(algorithm).__name__
        raise ValueError(f'{name} needs every client in every round, got on_bad_client="skip"; use FedDR, or "stop".')


class Counts(NamedTuple):
    """The whole numbers that every engine is given."""

    rounds: int
    evaluate_every: int
    seed: int


def check_settings(rounds: int, evaluate_every: int, seed: int, name: str = "rounds") -> Counts:
    """Return the numbers of a run; refuse those that cannot be run. ``name`` is what its rounds are called."""
    return Counts(
        scalars.whole(name, rounds, 0),
        scalars.whole("evaluate_every", evaluate_every, 1),
        scalars.whole("seed", seed, 0),
    )
