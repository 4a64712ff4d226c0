"""Secure rounds: the run is that of the plain loop with the same fixed point, and the server has no site's vector."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ConfigRecord, Message

import feddr
from feddr import flower
from feddr.flower.secure_ledger import TOTAL
from feddr.flower.secure_site import LEVELS
from feddr.secure import SecureAggregation
from feddr.secure.server import STAGES
from feddr.storage import atomic, tensors
from tests.flower.fake_grid import FakeGrid, FakeNode, Fate
from tests.flower.federations import app_for, deploy, distance, events, federation_of, populated, xbar_of
from tests.flower.secure_federations import (
    JOINING,
    LOCAL,
    METHOD,
    SECURE,
    SITES,
    five,
    is_balanced,
    levels_of,
    losing,
    run,
    server_state,
    site_folder,
    stage_of,
)

POINT = SECURE.fixed_point(weight=0.8)  # v_i = 1/5, and the unit is 1/4


def reference(method: Any, problem: feddr.Problem, rounds: int = 3, **more: Any) -> Any:
    chosen = dataclasses.replace(method, upload=POINT)
    arguments: dict[str, Any] = {"local": LOCAL, "rounds": rounds, "seed": 3, "precision": "float64", **more}
    return feddr.reference(problem, chosen, **arguments).state.server.xbar


@pytest.mark.parametrize(
    ("method", "g"), [(METHOD, True), (JOINING, True), (feddr.FedAvg(), False), (feddr.FedAvgM(), False)], ids=repr
)
def test_a_run_is_that_of_the_plain_loop_with_the_same_fixed_point(tmp_path: Path, method: Any, g: bool) -> None:
    problem = five(g)
    run(FakeGrid(), tmp_path, method, problem)
    assert distance(xbar_of(tmp_path), reference(method, problem)) < 1e-12
    assert [event["clients"] for event in events(tmp_path, "counted")] == [[*range(SITES)]] * 3
    assert not events(tmp_path, "refused")
    if g:
        is_balanced(tmp_path, method)


def test_only_those_who_are_drawn_take_part(tmp_path: Path) -> None:
    sampling = feddr.sampling.Uniform(4)
    run(FakeGrid(), tmp_path, JOINING, sampling=sampling, rounds=4)
    assert distance(xbar_of(tmp_path), reference(JOINING, five(), 4, sampling=sampling)) < 1e-12
    assert {len(event["clients"]) for event in events(tmp_path, "counted")} == {4}
    is_balanced(tmp_path, JOINING)


def test_weights_of_their_own_and_float32_keep_the_balance_exact(tmp_path: Path) -> None:
    """The sites' xhat_i are float32, and are made anew from whole numbers after every update."""
    problem = dataclasses.replace(five(), weights="samples")
    run(FakeGrid(), tmp_path, METHOD, problem, precision="float32", rounds=6)
    is_balanced(tmp_path, METHOD, problem)
    plain = feddr.simulate(problem, METHOD, local=LOCAL, rounds=6, seed=3).params
    assert distance(xbar_of(tmp_path), plain) < 1e-5


def test_what_exceeds_the_clip_is_carried_over(tmp_path: Path) -> None:
    """It is error feedback as in the plain loop: no number moves by more than the clip in a round, and none is lost."""
    small = SecureAggregation(threshold=3, bits=24, clip=0.125)
    point = small.fixed_point(weight=0.8)
    grid = populated(FakeGrid(), app_for(five(), METHOD, LOCAL, secure=small), range(SITES), tmp_path)
    run(grid, tmp_path, secure=small, rounds=4)
    fullest = max(np.abs(levels_of(tmp_path, i)).max() for i in range(SITES))
    assert 3 * point.largest < fullest <= 4 * point.largest
    clipped = feddr.reference(
        five(), dataclasses.replace(METHOD, upload=point), local=LOCAL, rounds=4, seed=3, precision="float64"
    )
    assert distance(xbar_of(tmp_path), clipped.params) < 1e-12
    is_balanced(tmp_path)


@pytest.mark.parametrize("lost", [(2,), (0, 4)], ids=str)
@pytest.mark.parametrize("stage", STAGES)
def test_sites_that_are_lost_leave_an_exact_sum_of_the_others(
    tmp_path: Path, stage: str, lost: tuple[int, ...]
) -> None:
    """One, and as many as the threshold allows, whose tasks are lost in the first round."""
    run(FakeGrid(fate=losing(stage, lost)), tmp_path, JOINING, deadline=20.0)
    counted = [event["clients"] for event in events(tmp_path, "counted")]
    left = [i for i in range(SITES) if i not in lost or stage in ("agree", "unmask")]
    assert counted == [left, [*range(SITES)], [*range(SITES)]]
    assert not events(tmp_path, "given_up")
    is_balanced(tmp_path, JOINING)


def test_a_site_whose_answer_was_lost_goes_on_from_what_was_counted(tmp_path: Path) -> None:
    """It has trained and written its state; its sum was taken without it, and its next update is its first again."""
    run(FakeGrid(fate=losing("masked", (1,), lost="reply")), tmp_path, deadline=20.0, rounds=2)
    assert flower.read_run(tmp_path / "server" / "feddr").numbers == {0: 2, 1: 1, 2: 2, 3: 2, 4: 2}
    is_balanced(tmp_path)


@pytest.mark.parametrize("stage", STAGES)
def test_below_the_threshold_a_round_is_given_up_and_nothing_is_lost(tmp_path: Path, stage: str) -> None:
    """The attempts after it come to the run that was not disturbed, to the last digits."""
    grid = FakeGrid(fate=losing(stage, (0, 1, 3), lost="reply"))
    run(grid, tmp_path, deadline=20.0)
    (given_up,) = events(tmp_path, "given_up")
    assert given_up["stage"] == stage
    assert given_up["answered"] == [2, 4]
    assert distance(xbar_of(tmp_path), reference(METHOD, five())) < 1e-12
    assert flower.read_run(tmp_path / "server" / "feddr").numbers == dict.fromkeys(range(SITES), 3)
    is_balanced(tmp_path)


def test_a_server_that_is_killed_begins_the_round_again(tmp_path: Path) -> None:
    from tests.flower.fake_grid import Crash

    for pull in (3, 5, 7, 9):
        folder = tmp_path / str(pull)
        grid = FakeGrid()
        grid.crash_at(pull)
        with pytest.raises(Crash):
            run(grid, folder)
        del grid.pull_messages
        grid.restart_server()
        run(grid, folder)
        assert distance(xbar_of(folder), reference(METHOD, five())) < 1e-12
        is_balanced(folder)


@pytest.mark.parametrize("whose", ["gone", "of a round that was not counted"])
def test_a_site_that_has_lost_its_state_makes_all_join_again(tmp_path: Path, whose: str) -> None:
    """So does one whose state has the right number and comes from another round, as after a copy was put back."""
    grid = FakeGrid()
    run(grid, tmp_path, JOINING, rounds=2)
    for path in list((site_folder(tmp_path, 3) / "state").iterdir()):
        record = tensors.read(path)
        path.unlink()
        if whose != "gone":
            atomic.write(path, tensors.pack({**record.header, "serial": 7}, record.arrays))
    run(grid, tmp_path, JOINING, rounds=3)
    (enrolled,) = events(tmp_path, "enrolled")
    assert enrolled["lost"] == [3]
    is_balanced(tmp_path, JOINING)
    fresh = server_state(tmp_path)
    assert fresh.header["secure"]["enrolment"] == 1
    assert fresh.arrays["weight"] == pytest.approx(1.0, abs=1e-15)
    run(grid, tmp_path, JOINING, rounds=8)
    arrays = xbar_of(tmp_path)
    assert five().F(arrays["xbar"]) < five().F(reference(JOINING, five(), 3))
    is_balanced(tmp_path, JOINING)


def test_with_a_lazy_start_a_site_without_its_state_stays_as_it_was(tmp_path: Path) -> None:
    grid = FakeGrid()
    run(grid, tmp_path, rounds=2)
    before = levels_of(tmp_path, 3)
    kept = {path: path.read_bytes() for path in (site_folder(tmp_path, 3) / "state").iterdir()}
    for path in kept:
        path.unlink()
    run(grid, tmp_path, rounds=4, deadline=10.0)
    assert [event["left_out"] for event in events(tmp_path, "counted")] == [[], [], [3], [3]]
    assert "init='joining'" in events(tmp_path, "error")[0]["reason"]
    total = sum(levels_of(tmp_path, i) for i in (0, 1, 2, 4)) + before
    np.testing.assert_array_equal(server_state(tmp_path).arrays[TOTAL], total)
    for path, data in kept.items():  # a copy of its disk is put back, and it goes on
        path.write_bytes(data)
    run(grid, tmp_path, rounds=5, deadline=400.0)
    assert events(tmp_path, "counted")[-1]["clients"] == [*range(SITES)]
    is_balanced(tmp_path)


def everything(grid_messages: list[Message]) -> bytes:
    """Return all bytes of all fields and arrays of messages."""
    found = bytearray()
    for message in grid_messages:
        for record in message.content.values():
            for value in record.values():
                found += value.data if isinstance(value, Array) else json.dumps(value, default=str).encode()
    return bytes(found)


def test_the_server_never_has_a_site_s_vector(tmp_path: Path) -> None:
    """In nothing that it receives or writes is a site's change or value: not as whole numbers, residues or floats."""
    replies: list[Message] = []

    def keep(message: Message) -> Message:
        replies.append(message)
        return message

    vectors: dict[tuple[int, int], Any] = {}

    def fate(node: FakeNode, message: Message) -> Fate:
        if stage_of(message) == "unmask":  # the site has written its state
            for path in (site_folder(tmp_path, node.client) / "state").glob("*"):
                record = tensors.read(path)
                vectors[node.client, record.header["number"]] = record.arrays
        return Fate(change=keep)

    run(FakeGrid(fate=fate), tmp_path, rounds=3)
    received = everything(replies)
    written = b"".join(path.read_bytes() for path in (tmp_path / "server").rglob("*") if path.is_file())
    assert len(vectors) == 3 * SITES
    sums = server_state(tmp_path).arrays[TOTAL]
    assert sums.tobytes() in written  # the search finds what is there
    masked = [one for reply in replies for record in reply.content.array_records.values() for one in record.values()]
    assert len(masked) == 3 * SITES
    assert masked[0].data in received
    for (client, number), arrays in vectors.items():
        before = vectors[client, number - 1] if number > 1 else {LEVELS: 0 * arrays[LEVELS], "xhat": 0 * arrays["xhat"]}
        change = arrays[LEVELS] - before[LEVELS]
        assert np.any(change != 0)
        forms = [arrays[name] for name in ("x", "y", "xhat")]
        forms += [
            arrays["xhat"] - before["xhat"],
            *(one.astype(f"<i{k}") for one in (change, arrays[LEVELS]) for k in (4, 8)),
        ]
        for form in forms:
            for data in (form.tobytes(), form.astype("<f4").tobytes()):
                assert data not in received
                assert data not in written
                assert data.hex().encode() not in received


def test_masks_of_two_rounds_differ_and_a_repeated_round_has_new_ones(tmp_path: Path) -> None:
    """The same update of the same site, given up and done again, travels under other masks."""
    seen: dict[int, list[bytes]] = {}

    def keep(message: Message) -> Message:
        fields: Any = message.content["feddr"]
        if fields.get("stage") == "masked":
            seen.setdefault(fields["client"], []).append(message.content.array_records["arrays"]["masked"].data)
        return message

    losses = losing("unmask", (0, 1, 3))

    def fate(node: FakeNode, message: Message) -> Fate:
        chosen = losses(node, message)
        chosen.change = keep
        return chosen

    run(FakeGrid(fate=fate), tmp_path, deadline=20.0, rounds=2)
    for vectors in seen.values():
        assert len(vectors) == 3
        numbers = [np.frombuffer(one, "<u4") for one in vectors]
        assert not any((numbers[a] == numbers[b]).any() for a, b in ((0, 1), (0, 2), (1, 2)))


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (feddr.AsyncFedDR(eta=1.0), {}, "need a method whose server adds up uploads, in rounds, got AsyncFedDR"),
    (feddr.FedPD(eta=1.0), {}, "adds up uploads, in rounds, got FedPD"),
    (dataclasses.replace(METHOD, upload=feddr.compress.Quantised(4)), {}, "have their own fixed point"),
    (METHOD, {"max_distance": 1.0}, "no max_distance, got 1.0; leave it out: nobody sees one upload"),
    (METHOD, {"min_replies": 3, "deadline": 1.0}, "no min_replies, got 3"),
    (METHOD, {"sampling": feddr.sampling.Independent([0.9] * 5)}, "fixed number of sites"),
    (METHOD, {"sampling": feddr.sampling.Uniform(2)}, "does not fit rounds of 2 sites"),
    (METHOD, {"secure": SecureAggregation(threshold=2)}, "does not fit rounds of 5 sites"),
]


@pytest.mark.parametrize(("method", "settings", "message"), REFUSED, ids=[message for _, _, message in REFUSED])
def test_what_secure_rounds_cannot_do_is_refused(tmp_path: Path, method: Any, settings: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(FakeGrid(), tmp_path, method, five(g=False), **settings)


def test_metrics_of_nodes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing of a single site"):
        deploy(FakeGrid(), federation_of(five(), evaluation="nodes"), METHOD, tmp_path, secure=SECURE)


def test_a_secure_site_does_nothing_for_a_plain_server(tmp_path: Path) -> None:
    grid = populated(FakeGrid(), app_for(five(), METHOD, LOCAL, secure=SECURE), range(SITES), tmp_path)
    with pytest.raises(flower.Abandoned):
        deploy(grid, federation_of(five()), METHOD, tmp_path, rounds=1)
    assert not list(site_folder(tmp_path, 0).glob("state/*"))
    plain = populated(FakeGrid(), app_for(five(), METHOD, LOCAL), range(SITES), tmp_path)
    with pytest.raises(flower.Abandoned):
        deploy(plain, federation_of(five()), METHOD, tmp_path, rounds=1, secure=SECURE, name="two")


def test_both_sides_must_have_the_same_settings(tmp_path: Path) -> None:
    other = dataclasses.replace(SECURE, threshold=4)
    grid = populated(FakeGrid(), app_for(five(), METHOD, LOCAL, secure=other), range(SITES), tmp_path)
    with pytest.raises(flower.Abandoned, match="must agree on secure rounds"):
        run(grid, tmp_path)


def test_sites_take_part_with_those_that_their_operators_have_listed(tmp_path: Path) -> None:
    listed = dataclasses.replace(SECURE, listed=True)
    grid = populated(FakeGrid(), app_for(five(), METHOD, LOCAL, secure=listed), range(SITES), tmp_path)
    with pytest.raises(flower.Abandoned, match="is not in this site's list of identity keys"):
        run(grid, tmp_path, secure=listed, rounds=1)
    keys = {i: (tmp_path / f"disk-{i}" / "node" / f"identity-{i}.pub").read_text().strip() for i in range(SITES)}
    for i in range(SITES):
        (site_folder(tmp_path, i) / "secure" / "pins.json").write_text(json.dumps(keys))
    grid.restart_server()
    run(grid, tmp_path, secure=listed, rounds=1)
    assert [event["clients"] for event in events(tmp_path, "counted")] == [[*range(SITES)]]
    is_balanced(tmp_path)


def test_a_run_is_resumed_with_the_settings_that_it_began_with(tmp_path: Path) -> None:
    run(FakeGrid(), tmp_path, rounds=1)
    with pytest.raises(ValueError, match="secure was"):
        run(FakeGrid(), tmp_path, rounds=2, secure=dataclasses.replace(SECURE, clip=8.0))
    with pytest.raises(ValueError, match="secure was"):
        deploy(FakeGrid(), federation_of(five()), METHOD, tmp_path, rounds=2, seed=3, precision="float64")


def test_files_with_secrets_are_their_owner_s_alone(tmp_path: Path) -> None:
    run(FakeGrid(), tmp_path, rounds=1)
    secret = [site_folder(tmp_path, 0) / "secure" / name for name in ("session.json", "masked")]
    secret.append(tmp_path / "disk-0" / "node" / "identity-0")
    assert [path.stat().st_mode & 0o777 for path in secret] == [0o600] * 3
    kept = [path.read_bytes() for path in secret[2:]]
    logs = [path.read_bytes() for path in tmp_path.rglob("*.jsonl")]
    assert len(logs) == 1 + 2 * SITES  # the journal, and for each site what it revealed and what has left
    assert not any(secret.hex().encode() in log for secret in kept for log in logs)


def test_a_message_needs_all_its_records() -> None:
    from flwr.app import RecordDict

    from feddr.flower import secure_messages
    from feddr.flower.refused import Refused

    with pytest.raises(Refused, match="needs a record called 'secure'"):
        secure_messages.read_task(RecordDict({"feddr": ConfigRecord({})}))
    with pytest.raises(Refused, match="must be JSON"):
        secure_messages.loads("{")
