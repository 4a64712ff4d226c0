"""TLS and node keys: who is registered works, also after a kill; nobody else gets in, and the control path is shut."""

import http.client
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from feddr.deploy import certs
from feddr.deploy.address import free_port, parse
from feddr.deploy.check_link import link
from feddr.deploy.environment import environment
from tests.deploy.faults import record
from tests.deploy.harness import BIN, Federation, wait_for
from tests.deploy.outcome import APP, counted_once, invariant, is_the_reference_run, was_missed

pytestmark = pytest.mark.deploy


def test_only_registered_nodes_get_in_and_a_killed_one_gets_in_again(tmp_path: Path) -> None:
    certs.make(tmp_path / "trial", [], nodes=2)
    certs.make(tmp_path / "other", [], nodes=1)
    with Federation(tmp_path / "tls", certs=tmp_path / "trial") as federation:
        federation.start_server()
        federation.start_nodes(range(2))
        ca = tmp_path / "trial/node-0/ca.crt"
        assert [finding for finding in link(parse(federation.address), ca) if finding.verdict != "ok"] == []

        (federation.node_state(0) / "faults").write_text("\nhold-before")
        federation.submit(APP, clients=2, feddr__rounds=2, feddr__name="tls")
        wait_for((federation.node_state(0) / "held").exists, 60, "node 0 in its second update", federation.explain)
        federation.kill_node(0)
        strangers_are_refused(federation, tmp_path)

        federation.wait_joined(0, 2, timeout=120)
        federation.wait_event("tls", "end", 150)
        log, folder = federation.log("tls"), federation.run_folder("tls")
        assert len(federation.node_events(0, "refused")) == 1, "one refusal, then the wait is long enough"
        joined = {str(event["node"]) for event in federation.node_events(0, "joined")}

    assert len(joined) == 1, "a key keeps its node's identity"
    assert was_missed(log, client=0)
    assert not any(line["rejoined"] for line in log if line["event"] == "accepted")
    is_the_reference_run(folder, 2, 2)
    assert invariant(folder) <= 1e-15
    counted_once(log, folder)
    record(
        30,
        "kill -9 of a node in mid-update, with a registered key; its supervisor starts it again",
        "the node gone, after a minute; one refused rejoin",
        "the node is back after 65 s with its state, the update is done again: the undisturbed run, to 1e-12",
    )


def strangers_are_refused(federation: Federation, tmp_path: Path) -> None:
    """An unregistered key, no key, another CA and plain text: none of them becomes a node."""
    wrong_ca = tmp_path / "wrong-ca"
    shutil.copytree(tmp_path / "trial/node-1", wrong_ca)
    shutil.copy(tmp_path / "other/node-0/ca.crt", wrong_ca)
    ours, theirs = tmp_path / "trial/node-1", tmp_path / "other/node-0"
    federation.start_stranger("unregistered", ["--certs", str(ours), "--key", str(theirs / "node.key")])
    federation.start_stranger("wrong-ca", ["--certs", str(wrong_ca)])
    with (
        supernode(federation, tmp_path / "no-key", ["--root-certificates", str(ours / "ca.crt")]) as no_key,
        supernode(federation, tmp_path / "plain-text", ["--insecure"]) as plain,
    ):
        wait_for(lambda: "registered via the CLI" in no_key.read_text(), 40, "no key is refused", no_key.read_text)
        wait_for(lambda: "retrying" in plain.read_text(), 40, "plain text gets no answer", plain.read_text)
        for name, event in (("unregistered", "refused"), ("wrong-ca", "tls")):
            wait_for(lambda n=name, e=event: bool(federation.stranger_events(n, e)), 40, name, federation.explain)  # type: ignore[misc]
        for name in ("unregistered", "wrong-ca"):
            assert federation.stranger_events(name, "joined") == []
        for log in (no_key, plain):
            assert "SuperNode ID" not in log.read_text()
    activated = re.findall(r"Activated node_id=(\d+)", (federation.state / "superlink.log").read_text())
    assert len(set(activated)) == 2
    nothing = "never a node; the run is not touched"
    record(60, "a node with a key that is not registered", "refused by the SuperLink", nothing)
    record(61, "a node without a key", "refused by the SuperLink", nothing)
    record(62, "a node with another CA", "no connection: the node does not trust the SuperLink", nothing)
    record(63, "a node that speaks plain text", "no connection", nothing)


@contextmanager
def supernode(federation: Federation, folder: Path, options: list[str]) -> Iterator[Path]:
    """Run Flower's own program as somebody would who does not use ours; yields its log."""
    folder.mkdir()
    log = folder / "supernode.log"
    with open(log, "wb") as output:
        process = subprocess.Popen(
            [str(BIN / "flower-supernode"), "--superlink", federation.address, "--port", str(free_port()), *options],
            env=environment(folder),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield log
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


def test_the_control_path_is_shut_for_strangers(tmp_path: Path) -> None:
    """The real SuperLink; 127.0.0.2 plays the trusted machine, 127.0.0.1 and 127.0.0.3 play strangers."""
    port = free_port()
    options = ["--host", "127.0.0.1", "--port", str(port), "--insecure", "--isolation", "process"]
    log = tmp_path / "log"
    with open(log, "wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "feddr.deploy.gate", "--trusted", "127.0.0.2/32", "--", *options],
            env={**environment(tmp_path / "flwr"), "FORWARDED_ALLOW_IPS": "*"},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )

    def status(path: str, source: str, **headers: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5, source_address=(source, 0))
        try:
            connection.request("POST", path, b"", headers)
            return connection.getresponse().status
        finally:
            connection.close()

    try:
        wait_for(lambda: "Uvicorn running" in log.read_text(), 40, "the SuperLink runs", log.read_text)
        for path in ("/v1/control/start-run", "/v1/control/register-node", "/v1/runtime/acquire-task", "/docs"):
            assert status(path, "127.0.0.1") == 403
            assert status(path, "127.0.0.3", **{"X-Forwarded-For": "127.0.0.2"}) == 403
            assert status(path, "127.0.0.2") != 403
        for path in ("/v1/fleet/../control/start-run", "/v1/fleet/%2e%2e/control/start-run", "/v1/fleet//control"):
            assert status(path, "127.0.0.1") == 404
        assert status("/v1/fleet/pull-messages", "127.0.0.1") not in (403, 404)
        record(64, "a stranger who submits a run, registers a node or takes a task", "403 from the gate", "no run")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
