"""What a site's rules leave of an update and of an evaluation."""

import dataclasses
import math
from typing import Any

import numpy as np

from feddr import tree
from feddr.algorithms import CA2FL
from feddr.flower.messages import Metrics
from feddr.sites import SiteRefusal, SiteRules
from feddr.tree import Tree


def bounded(rules: Any, state: Any, x: Tree, message: Tree, limits: SiteRules) -> tuple[Tree, float]:
    """Return what the server is to count for a client, and how far it is from the message that the client had.

    Parameters
    ----------
    rules, state, x
        The algorithm, the client's new state, and the model that it has computed.
    message
        The broadcast; CA2FL's clients send changes, whose distance is that from zero.
    limits
        The rules of the site. What is clipped lies on the way from the message to the update.

    Raises
    ------
    SiteRefusal
        Where it is beyond ``maximal_norm``, and is not to be clipped or, being compressed, cannot be.
    """
    counted = rules.absolute_upload(state, x)
    base = tree.zeros_like(counted) if isinstance(rules, CA2FL) else message
    away = tree.increment(counted, base)
    norm = tree.norm(away)
    share = limits.clipped(norm)
    if share == 1.0:
        return counted, norm
    if getattr(rules, "upload", None) is not None:
        raise SiteRefusal(
            f"This site sends updates of norm {limits.maximal_norm:g} or less, this one is larger, and a compressed "
            "update cannot be clipped, nor one under masks; use an algorithm without upload=, or smaller steps."
        )
    clipped = tree.map(
        lambda from_, step, like: (np.asarray(from_, np.float64) + share * step).astype(np.asarray(like).dtype),
        base,
        away,
        counted,
    )
    return clipped, norm * share


def disclosed(metrics: Metrics, limits: SiteRules) -> Metrics:
    """Return the means of a client without those over fewer records than its site tells of: NaN of 0 records."""
    if not limits.may_tell(metrics.samples):
        metrics = dataclasses.replace(metrics, loss=math.nan, accuracy=math.nan, samples=0)
    if not limits.may_tell(metrics.test_samples):
        metrics = dataclasses.replace(metrics, test_accuracy=math.nan, test_samples=0)
    return metrics
