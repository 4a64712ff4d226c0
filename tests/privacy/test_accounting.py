"""Epsilon is what dp-accounting says when it is called by hand, and what the definition of privacy says."""

import builtins
import math
from typing import Any

import dp_accounting
import numpy as np
import pytest
from scipy.stats import norm

import feddr
from feddr.privacy import accounting, epsilon_of_models, epsilon_of_uploads, noise_for
from feddr.sampling import Full, Independent, Uniform


def exact_delta(epsilon: float, mean: float) -> float:
    """Delta of telling N(0, 1) from N(mean, 1), from its definition: sup over sets of P(S) - e^epsilon Q(S)."""
    return float(norm.cdf(mean / 2 - epsilon / mean) - math.exp(epsilon) * norm.cdf(-mean / 2 - epsilon / mean))


@pytest.mark.parametrize("releases", [1, 7, 100])
def test_uploads_cost_what_the_definition_says(releases: int) -> None:
    """k releases of N(c, (noise clip)^2) with means that are 2 clip apart are one with means sqrt(k) times as far."""
    noise, delta = 12.0, 1e-4
    epsilon = epsilon_of_uploads(noise, delta, releases)
    assert exact_delta(epsilon, math.sqrt(releases) * 2.0 / noise) == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize("releases", [1, 30])
def test_uploads_cost_what_dp_accounting_composes_by_hand(releases: int) -> None:
    """Its accountant by privacy loss distributions, whose noise is relative to what an added record moves."""
    noise, delta = 20.0, 1e-4
    by_hand = dp_accounting.pld.PLDAccountant(dp_accounting.NeighboringRelation.REPLACE_ONE)
    by_hand.compose(dp_accounting.GaussianDpEvent(noise), releases)
    assert epsilon_of_uploads(noise, delta, releases) == pytest.approx(by_hand.get_epsilon(delta), rel=1e-3)
    loose = dp_accounting.rdp.RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
    loose.compose(dp_accounting.GaussianDpEvent(noise / 2), releases)
    assert epsilon_of_uploads(noise, delta, releases) < loose.get_epsilon(delta)


def test_sampled_means_cost_what_dp_accounting_says_by_hand() -> None:
    by_hand = dp_accounting.rdp.RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
    event = dp_accounting.SampledWithoutReplacementDpEvent(20, 4, dp_accounting.GaussianDpEvent(6.0))
    by_hand.compose(dp_accounting.SelfComposedDpEvent(event, 15))
    ours = epsilon_of_models(6.0, 1e-5, 15, Uniform(4), [0.05] * 20)  # 6 sqrt(4) / 2 = 6
    assert ours == pytest.approx(by_hand.get_epsilon(1e-5), rel=1e-12)
    assert ours < epsilon_of_models(3.0, 1e-5, 15, Uniform(20), [0.05] * 20)  # its noise in the mean, without sampling
    assert epsilon_of_models(6.0, 1e-5, 0, Uniform(4), [0.05] * 20) == 0.0


def test_in_a_mean_the_noise_of_everybody_counts_and_the_largest_weight() -> None:
    weights = np.array([0.5, 0.3, 0.2])
    share = float(np.linalg.norm(weights) / 0.5)
    assert epsilon_of_models(8.0, 1e-5, 5, Full(), weights) == epsilon_of_uploads(8.0 * share, 1e-5, 5)
    one_alone = epsilon_of_models(8.0, 1e-5, 5, Full(), [1.0, 0.0])
    assert one_alone == epsilon_of_uploads(8.0, 1e-5, 5)


def test_means_of_which_nothing_is_known_are_refused() -> None:
    with pytest.raises(ValueError, match="accounted for Full and Uniform, got Independent"):
        epsilon_of_models(8.0, 1e-5, 5, Independent([0.5, 0.5]), [0.5, 0.5])
    with pytest.raises(ValueError, match="needs equal weights"):
        epsilon_of_models(8.0, 1e-5, 5, Uniform(1), [0.6, 0.4])


@pytest.mark.parametrize("budget", [0.5, 3.0, 20.0])
def test_the_noise_for_a_budget_is_enough_and_hardly_more(budget: float) -> None:
    noise = noise_for(budget, 1e-3, 25)
    assert 0.9999 * budget < epsilon_of_uploads(noise, 1e-3, 25) <= budget < epsilon_of_uploads(noise, 1e-3, 26)


def test_who_lacks_dp_accounting_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "dp_accounting":
            raise ModuleNotFoundError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    accounting._sampled.cache_clear()
    remedy = r"missing; pip install 'feddr\[dp\]'\.$"
    with pytest.raises(ValueError, match=remedy):
        epsilon_of_uploads(1.0, 1e-5, 1)
    with pytest.raises(ValueError, match=remedy):
        noise_for(1.0, 1e-5, 1)
    with pytest.raises(ValueError, match=remedy):
        epsilon_of_models(1.0, 1e-5, 1, Uniform(1), [0.5, 0.5])
    assert feddr.privacy.SiteLevel(1.0, 1.0, 1e-5).noise == 1.0  # without it, one can still write a config
