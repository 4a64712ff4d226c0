"""Experiments from a config over the tables of real sites: a private one, and an asynchronous one."""

import json
import math
import subprocess
from pathlib import Path

import dp_accounting
import numpy as np
import pytest

import feddr
from feddr.deploy import example
from feddr.flower import private
from feddr.sites import verify
from tests.deploy.conftest import SITES
from tests.deploy.harness import BIN, Federation
from tests.deploy.outcome import counted_once

pytestmark = [pytest.mark.deploy, pytest.mark.xdist_group("five sites")]

NOISE, DELTA, ROUNDS = 4.0, 1e-3, 2


def experiment(federation: Federation, name: str, length: str, algorithm: str, evaluate_every: int = 1) -> Path:
    """Write the tutorial's experiment over five sites, with another method."""
    head, _, _ = example.EXPERIMENT.partition("[algorithm]")
    for old, new in (
        ('name = "hospitals"', f'name = "{name}"'),
        ("sites = 4", f"sites = {SITES}"),
        ("rounds = 5", length),
        ("evaluate_every = 5", f"evaluate_every = {evaluate_every}"),
    ):
        assert head.count(old) == 1
        head = head.replace(old, new)
    path = federation.folder / f"{name}.toml"
    path.write_text(f"{head}[algorithm]\n{algorithm}\n", encoding="utf-8")
    return path


def feddr_program(*words: object, timeout: float = 2400.0) -> "subprocess.CompletedProcess[str]":
    command = [str(BIN / "feddr"), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


def by_hand(releases: int) -> float:
    """Return the epsilon of so many Gaussian mechanisms: replacing a site's data moves an upload by 2 clips at most."""
    if releases == 0:
        return 0.0
    return float(dp_accounting.get_epsilon_gaussian(NOISE / (2.0 * math.sqrt(releases)), DELTA))


def releases(federation: Federation) -> list[float]:
    """Return how often each site has released its data, by the account on its own disk."""
    accounts = [private.account(federation.node_state(i), i) for i in range(SITES)]
    return [account.spent * NOISE**2 / 4.0 for account in accounts]


def test_a_private_run_ends_at_its_budget_and_so_does_each_site(five_sites: Federation) -> None:
    """The server begins no round beyond it; another server, to which nothing was sent yet, is refused by the sites."""
    federation, budget = five_sites, by_hand(ROUNDS) * (1 + 1e-9)
    assert by_hand(ROUNDS) < budget < by_hand(ROUNDS + 1)
    method = (
        'name = "FedDR"\nprivacy = {name = "SiteLevel", '
        f"clip = 0.5, noise = {NOISE}, delta = {DELTA}, budget = {budget!r}}}"
    )
    done = feddr_program(
        "deploy", "run", experiment(federation, "private", "rounds = 9", method), "--state", federation.state
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{federation.explain()}"
    assert f"ends after round {ROUNDS}, a further round would make epsilon" in " ".join(done.stderr.split())

    folder = federation.run_folder("private")
    history = feddr.History.from_csv(folder / "history.csv")
    assert [row.round for row in history.rows] == [*range(ROUNDS + 1)]
    np.testing.assert_allclose(history.column("epsilon"), [by_hand(k) for k in range(ROUNDS + 1)], rtol=1e-9)
    assert history.column("delta") == [DELTA] * (ROUNDS + 1)
    assert "a further round would make epsilon" in json.loads((folder / "settings.json").read_text())["stopped"]
    assert releases(federation) == pytest.approx([ROUNDS] * SITES, rel=1e-12)

    again = experiment(federation, "again", "rounds = 1", method)
    refused = feddr_program("deploy", "run", again, "--state", federation.state)
    assert refused.returncode == 1, f"{refused.stdout}{refused.stderr}\n{federation.explain()}"
    assert "A site keeps to its budget, a further round would make epsilon" in " ".join(refused.stderr.split())
    events = federation.log("again")
    assert not [event for event in events if event["event"] == "accepted"]
    assert {event["client"] for event in events if event["event"] == "error"} == {*range(SITES)}
    assert releases(federation) == pytest.approx([ROUNDS] * SITES, rel=1e-12)
    for i in range(SITES):
        left = verify(federation.node_state(i) / "audit" / "log.jsonl").kinds
        assert left["private", "train"][0] == ROUNDS
        assert ("again", "train") not in left


def test_an_asynchronous_experiment_ends_well_with_history_and_report(five_sites: Federation) -> None:
    federation, updates, every = five_sites, 15, 5
    method = 'name = "AsyncFedDR"\neta = 5.0'
    config = experiment(federation, "arrivals", f"updates = {updates}", method, every)
    done = feddr_program("deploy", "run", config, "--state", federation.state)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{federation.explain()}"

    folder, log = federation.run_folder("arrivals"), federation.log("arrivals")
    accepted = [line for line in log if line["event"] == "accepted"]
    assert (len(accepted), log[-1]["event"]) == (updates, "end")
    assert {line["client"] for line in accepted} == {*range(SITES)}
    counted_once(log, folder)
    assert all(line["error"] <= 1e-6 for line in log if line["event"] == "audit")  # float32
    history = feddr.History.from_csv(folder / "history.csv")
    assert [row.round for row in history.rows] == [*range(0, updates + 1, every)]
    assert history.last.F < history.rows[0].F
    assert max(row.staleness_max for row in history.rows[1:]) == max(line["staleness"] for line in accepted) > 0
    written = feddr_program("report", folder)
    assert written.returncode == 0, written.stderr
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "AsyncFedDR" in page
    predicted = feddr_program("predict", folder, federation.folder / "sites" / "new-patients.csv", "--proba")
    assert predicted.returncode == 0, predicted.stderr
    assert len(predicted.stdout.splitlines()) == 1 + 5
