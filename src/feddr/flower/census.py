"""Census: numbers that the server needs from every client before the first update, samples and lengths of local work.

Each is one number, sent with the answer to the greeting, and asked for only where the run depends on it: the samples
for ``weights="samples"``, the length T_i = lr x steps of the client's work for ``eta="auto"`` and ``alpha="auto"``.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from feddr.algorithms import Deployable, Roles
from feddr.flower import steps
from feddr.flower.deployment import LONGEST_WAIT, Abandoned
from feddr.flower.federation import Federation
from feddr.flower.mailbox import TimeSource
from feddr.flower.membership import Membership
from feddr.flower.progress import ProgressTable
from feddr.flower.settings import Settings
from feddr.sampling import Sampling
from feddr.theory import fixed_work

REMIND = 60.0
"""Seconds between lines that say who is waited for."""


class Settled(NamedTuple):
    """The algorithm with numbers and the weights, and how the numbers were chosen (an empty text if by the user)."""

    roles: Roles
    words: str = ""


def settle(
    federation: Federation,
    algorithm: Deployable,
    sampling: Sampling,
    settings: Settings,
    membership: Membership,
    clock: TimeSource,
    progress: ProgressTable,
) -> Settled:
    """Wait until every client has sent the numbers that the run needs, and return the weights and step sizes.

    Raises
    ------
    Abandoned
        Where a client has not answered within the run's patience.
    ValueError
        Where step sizes are to follow from the length of the work, and a client's solver has none.
    """
    _wait(algorithm, federation.clients, settings, membership, clock, progress)
    presences = [membership.presences[i] for i in sorted(membership.presences)]
    weights = federation.known_weights() or federation.sample_weights({one.client: one.samples for one in presences})
    chosen: Any = algorithm
    words = ""
    if membership.work:
        participation = float(np.mean(sampling.probabilities(federation.clients)))
        known = fixed_work.StepSizeInputs(np.array(weights), participation, federation.regulariser, federation.init)
        chosen, words = fixed_work.choose(algorithm, np.array([one.work for one in presences]), known)
        fixed_work.warn(chosen, participation)
    membership.samples = membership.work = False  # whoever comes later need not say it again
    return Settled(Roles(steps.settled(chosen, {}), np.array(weights)), words)


def _wait(
    algorithm: Deployable,
    clients: int,
    settings: Settings,
    membership: Membership,
    clock: TimeSource,
    progress: ProgressTable,
) -> None:
    begin = clock.now()
    remind = begin + REMIND
    while (membership.samples or membership.work) and len(membership.presences) < clients:
        membership.refresh()
        for answer in membership.mailbox.answers():
            membership.take(answer)
        _check_work(algorithm, membership)
        missing = sorted(set(range(clients)) - set(membership.presences))
        if settings.patience is not None and clock.now() - begin > settings.patience:
            needed, remedy = _needed(algorithm, membership)
            raise Abandoned(
                f"{needed}, clients {missing[:10]} were not heard from within {settings.patience:g} s; start their "
                f"nodes, or {remedy}."
            )
        if clock.now() >= remind and missing:
            remind += REMIND
            needed, _ = _needed(algorithm, membership)
            progress.say(f"{needed}, waiting for clients {missing[:10]}; look at {membership.journal.path}")
        clock.sleep(LONGEST_WAIT)


def _needed(algorithm: Deployable, membership: Membership) -> tuple[str, str]:
    """Return what the run waits for, and how to do without it."""
    work = f'"auto" in {algorithm} needs the length of every client\'s local work', "give eta and alpha numbers"
    samples = "weights='samples' needs every client's number of samples", "give the weights"
    if membership.work and membership.samples:
        return f"{samples[0]} and {work[0]}", f"{samples[1]}, and {work[1]}"
    return work if membership.work else samples


def _check_work(algorithm: Deployable, membership: Membership) -> None:
    """Refuse "auto" where a client's solver has no fixed work: the theory would ask for the data of all at once."""
    without = [i for i, one in sorted(membership.presences.items()) if membership.work and math.isnan(one.work)]
    if without:
        raise ValueError(
            f'"auto" in a deployment follows from the length of local work, lr x steps, which must be fixed, got '
            f"{algorithm} and a local solver without it from clients {without[:10]}; use SGD or Optax there, give the "
            "solver a method work(size), or give eta and alpha the numbers that feddr.theory.recommend says for data "
            "like theirs."
        )
