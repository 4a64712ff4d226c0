"""Sites that are lost in secure rounds on real processes, at every stage: the sum is that of the others, exactly."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import feddr
from feddr import flower
from feddr.flower.secure_ledger import TOTAL
from feddr.flower.secure_site import LEVELS
from feddr.secure import SecureAggregation
from feddr.storage import tensors
from tests.deploy.app.faults.silence import STAGES
from tests.deploy.app.faults.task import LOCAL, problem
from tests.deploy.conftest import SITES
from tests.deploy.faults import record
from tests.deploy.harness import Federation, wait_for
from tests.deploy.outcome import APP

pytestmark = [pytest.mark.deploy, pytest.mark.xdist_group("five sites")]

SECURE = SecureAggregation(3, bits=28, clip=4.0)
METHOD = feddr.FedDR(0.5, 1.5, "lazy", mean="all")
SETTINGS = {"clients": SITES, "threshold": SECURE.threshold, "feddr__deadline": 900.0}

LOST: list[dict[str, list[int]]] = [
    {},
    {"keys": [1, 2]},
    {"shares": [0, 3]},
    {"masked": [2, 3]},
    {"agree": [0, 1]},
    {"unmask": [3, 4]},
    {"keys": [0], "masked": [3]},
    {"shares": [4], "agree": [1]},
    {"unmask": [2]},
    {},
]
"""The sites that are lost at each stage of each round: none, one, and the two that rounds of five can do without."""

SUMMED = [
    [i for i in range(SITES) if not any(i in lost.get(stage, ()) for stage in ("keys", "shares", "masked"))]
    for lost in LOST
]
"""The sites in the sum of each round: those whose vector had arrived, though they were lost after that."""


def schedule(rounds: list[dict[str, list[int]]], more: str = "") -> str:
    """Return what the run config says of it."""
    return " ".join(
        f"{k}/{stage}/{'+'.join(map(str, clients))}{more}"
        for k, lost in enumerate(rounds, start=1)
        for stage, clients in lost.items()
    )


class Recorded:
    """Sampling of those whose updates were counted, round by round."""

    def __init__(self, rounds: list[list[int]]) -> None:
        self.rounds = iter(rounds)

    def check(self, n: int) -> None:
        assert n == SITES

    def draw(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        del n, rng
        return np.array(next(self.rounds))

    def probabilities(self, n: int) -> NDArray[np.float64]:
        return np.ones(n)


def plain_loop(rounds: list[list[int]]) -> Any:
    """Return xbar of the plain loop in which just these take part; weights are 1/5, the unit is 1/4."""
    method = feddr.FedDR(0.5, 1.5, "lazy", mean="all", upload=SECURE.fixed_point(weight=0.8))
    return feddr.reference(
        problem(list(range(SITES))),
        method,
        local=LOCAL,
        rounds=len(rounds),
        sampling=Recorded(rounds),
        seed=0,
        precision="float64",
    ).params


def adds_up(federation: Federation, run: str) -> None:
    """The server's whole numbers are the sum of those on the sites' disks, of the updates that it says it has counted.

    A mask that was not taken off in any round would leave numbers there that look random.
    """
    folder = federation.run_folder(run)
    state = next(tensors.Generations(folder / "state").undamaged())[1]
    total = np.zeros_like(state.arrays[TOTAL])
    for client, serial in state.header["secure"]["members"].items():
        number = state.header["clients"][client][0]
        own = federation.node_state(int(client)) / "node" / run / f"client-{client}" / "state"
        kept = tensors.read(own / f"{number}{tensors.SUFFIX}")
        assert kept.header["serial"] == serial
        total += np.asarray(kept.arrays[LEVELS], np.int64)
    np.testing.assert_array_equal(state.arrays[TOTAL], total)
    hospitals = flower.Federation(problem([0]).init, SITES, g=problem([0]).g)
    assert flower.audit(folder, METHOD, hospitals) <= 1e-14


def xbar(folder: Path) -> NDArray[np.float64]:
    return np.asarray(flower.read_run(folder).server["xbar"])


def test_sites_that_are_lost_at_any_stage_leave_the_sum_of_the_others(five_sites: Federation) -> None:
    """None, one and as many as may be, at each of the five stages: before they do their work, and after it."""
    federation, name = five_sites, "lost"
    federation.submit(APP, **SETTINGS, feddr__rounds=len(LOST), feddr__name=name, losses=schedule(LOST))
    federation.wait_event(name, "end", 400)
    log, folder = federation.log(name), federation.run_folder(name)

    assert [line["clients"] for line in log if line["event"] == "counted"] == SUMMED
    assert not [line for line in log if line["event"] in ("given_up", "enrolled", "refused")]
    failed = {(line["client"], line["reason"]) for line in log if line["event"] == "error"}
    assert failed
    assert all("This site is lost" in reason for _, reason in failed)
    adds_up(federation, name)
    np.testing.assert_allclose(xbar(folder), plain_loop(SUMMED), rtol=0, atol=1e-12)
    assert {stage for lost in LOST for stage in lost} == {*STAGES}
    record(
        68,
        "secure rounds: one site of five lost, and two, at each of the five stages",
        "error 2; those who are lost after their vector was sent are in the sum",
        "each sum is that of the others' integers, exactly; the plain loop with those who stayed, to 1e-12",
    )


def test_below_the_threshold_a_round_is_given_up_and_goes_on_when_the_sites_are_back(five_sites: Federation) -> None:
    """Three nodes of five are killed when they have masked their vectors, and written their states."""
    federation, name, lost = five_sites, "below", [0, 1, 3]
    joined = {i: len(federation.node_events(i, "joined")) for i in lost}
    federation.submit(
        APP, **SETTINGS, feddr__rounds=2, feddr__name=name, losses=schedule([{"masked": lost}], more="/held")
    )
    for i in lost:
        held = federation.node_state(i) / "held"
        wait_for(lambda held=held: held.exists() and held.read_text() != "", 150, str(held), federation.explain)  # type: ignore[misc]
        federation.kill_node(i)
    (given_up,) = federation.wait_event(name, "given_up", 90)
    assert (given_up["stage"], set(given_up["answered"])) == ("masked", {2, 4})
    assert flower.read_run(federation.run_folder(name)).version == 0
    for i in lost:
        federation.wait_joined(i, joined[i] + 1, timeout=120)
    federation.wait_event(name, "end", 300)
    log, folder = federation.log(name), federation.run_folder(name)

    everybody = [[*range(SITES)]] * 2
    assert [line["clients"] for line in log if line["event"] == "counted"] == everybody
    assert len([line for line in log if line["event"] == "given_up"]) == 1
    assert flower.read_run(folder).numbers == dict.fromkeys(range(SITES), 2), "no update was counted twice"
    adds_up(federation, name)
    np.testing.assert_allclose(xbar(folder), plain_loop(everybody), rtol=0, atol=1e-12)
    record(
        69,
        "secure rounds: kill -9 of three nodes of five when they had masked their vectors, with a threshold of three",
        "the round is given up: `given_up` at the stage `masked`",
        "it begins again with new keys when the nodes are back: the undisturbed run, to 1e-12",
    )
