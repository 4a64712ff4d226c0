"""Hundreds of random histories of faults; ``state_machine`` has the faults, and what must hold after each of them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import invariant

import feddr
from feddr.algorithms import Algorithm, Roles
from feddr.compress import Quantised, TopK
from feddr.engines.shared.aggregation import WeightedUpload, weighted_sum
from feddr.engines.shared.randomness import client_rng, sampling_rng, upload_draw
from feddr.engines.shared.shards import shard_of
from feddr.flower import rounds
from tests.flower.quadratic_clients import CLIENTS, WEIGHTS, quadratic_problem, solve
from tests.flower.state_machine import SEED, FaultyDeployment

pytestmark = pytest.mark.slow


def undisturbed(algorithm: Algorithm, sampling: feddr.sampling.Sampling, rounds: int) -> Any:
    """Return xbar of the rules in a plain loop."""
    roles = Roles(algorithm, np.array(WEIGHTS))
    x0 = quadratic_problem().init
    server = algorithm.server(x0)
    clients: dict[int, Any] = {}
    updates = dict.fromkeys(range(CLIENTS), 0)
    for k in range(1, rounds + 1):
        xbar, uploads = algorithm.broadcast(server), []
        for i in sampling.draw(CLIENTS, sampling_rng(SEED, k)).tolist():
            new, rules = i not in clients, roles.client(i)
            c = clients.get(i) or rules.client(x0, xbar)
            sub = rules.subproblem(c, xbar)
            solution = solve(i, sub, client_rng(SEED, i, updates[i]))
            solution = solution._replace(draw=upload_draw(SEED, i, updates[i]))
            clients[i], upload = rules.finish(c, xbar, sub, solution)
            uploads.append(WeightedUpload(shard_of(i, len(WEIGHTS)), roles.mean_weights[i], WEIGHTS[i], new, upload))
            updates[i] += 1
        server = roles.server.aggregate(server, weighted_sum(uploads), lambda x, _: x)
    return server.xbar


class Rounds(FaultyDeployment):
    """Two of three clients a round; whatever happened on the way, the run ends as if nothing had."""

    method = feddr.FedDR(eta=[0.8, 0.3, 1.7], alpha=1.4, init="joining")
    sampling = feddr.sampling.Uniform(2)
    settings = {"rounds": 4, "evaluate_every": 2}  # noqa: RUF012

    @invariant()
    def each_update_counts_once(self) -> None:
        """A round has two updates, so the numbers of all clients add up to twice the rounds and what is waiting."""
        if self.server is not None:
            ledger = self.server.ledger
            self.assert_updates(2 * ledger.version + len(ledger.pending))

    def check_end(self) -> None:
        self.stop_faults()
        self.run_for(5000.0)
        assert self.server is not None
        assert rounds.finished(self.server)
        self.each_update_counts_once()
        if not self.state_was_lost and not self.began_again:
            xbar = undisturbed(self.method, self.sampling, 4)
            np.testing.assert_allclose(self.server.ledger.server.xbar, xbar, rtol=0, atol=1e-12)


class Async(FaultyDeployment):
    """A step for each arrival; the version is the number of accepted updates, and nobody is forgotten."""

    method = feddr.AsyncFedDR(eta=[0.8, 0.3, 1.7], alpha=0.9)
    settings = {"rounds": 10_000, "evaluate_every": 5_000}  # noqa: RUF012

    @invariant()
    def each_update_counts_once(self) -> None:
        if self.server is not None:
            self.assert_updates(self.server.ledger.version)
            assert not self.server.ledger.pending

    def check_end(self) -> None:
        self.stop_faults(usual_delay=40.0)
        self.run_for(700.0)  # longer than any fault or pause lasts
        assert self.server is not None
        before = dict(self.server.ledger.entries)
        self.run_for(150.0)
        ledger = self.server.ledger
        assert all(ledger.number(i) >= before[i].number + 3 for i in range(CLIENTS))
        self.each_update_counts_once()
        self.the_ledger_adds_up()


class Buffered(FaultyDeployment):
    """A step for every two arrivals, which are on the disk in between."""

    method = feddr.AsyncFedDR(eta=0.8, alpha=0.9, buffer=2, init="full")
    settings = {"rounds": 10_000, "evaluate_every": 5_000}  # noqa: RUF012

    @invariant()
    def each_update_counts_once(self) -> None:
        if self.server is not None and self.server.ledger.version >= 0:
            ledger = self.server.ledger
            self.assert_updates(CLIENTS + 2 * ledger.version + len(ledger.pending))

    def check_end(self) -> None:
        self.stop_faults(usual_delay=40.0)
        self.run_for(200.0)
        self.each_update_counts_once()
        self.the_ledger_adds_up()


class CompressedRounds(Rounds):
    """The same with uploads that are the way from what the server counts."""

    method = feddr.FedDR(eta=[0.8, 0.3, 1.7], alpha=1.4, init="joining", upload=Quantised(3, stochastic=True))


class CompressedAsync(Async):
    """The same for each arrival."""

    method = feddr.AsyncFedDR(eta=[0.8, 0.3, 1.7], alpha=0.9, upload=TopK(0.5, Quantised(4)))


def steps(examples: int) -> settings:
    return settings(
        max_examples=examples, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )


TestRounds = Rounds.TestCase
TestRounds.settings = steps(120)
TestAsync = Async.TestCase
TestAsync.settings = steps(80)
TestCompressedRounds = CompressedRounds.TestCase
TestCompressedRounds.settings = steps(80)
TestCompressedAsync = CompressedAsync.TestCase
TestCompressedAsync.settings = steps(60)
TestBuffered = Buffered.TestCase
TestBuffered.settings = steps(40)
