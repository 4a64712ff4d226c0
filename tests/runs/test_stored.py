"""What a run leaves for its report."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feddr import FederatedData
from feddr.engines.clock.events import SERVER, Event
from feddr.history import History, read_rows
from feddr.runs.stored import (
    Contribution,
    Live,
    from_log,
    participation,
    read_participation,
    write_clients,
    write_participation,
)
from tests.report.folders import rows

JOBS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 50), st.integers(0, 9)), max_size=40)


@settings(deadline=None)
@given(jobs=JOBS)
def test_what_is_said_of_clients_adds_up_to_what_is_said_of_all(jobs: list[tuple[int, int, int]]) -> None:
    updates: dict[int, int] = {}
    for client, _, _ in jobs:
        updates[client] = updates.get(client, 0) + 1
    events = [Event(client, "sending", 0.0, 1.0, read, read + age) for client, read, age in jobs]
    others = [Event(0, "idle", 1.0, 2.0), Event(SERVER, "server", 1.0, 1.0, 3), Event(1, "lost", 0.0, 1.0, 2)]
    parts = participation(updates, [*events, *others])
    assert {part.client: part.updates for part in parts} == updates
    assert all(part.measured == part.updates for part in parts)
    total = sum(part.staleness_mean * part.measured for part in parts)
    assert total == pytest.approx(sum(age for _, _, age in jobs))
    assert max((part.staleness_max for part in parts), default=0) == max((age for _, _, age in jobs), default=0)


def test_participation_is_read_as_it_was_written(tmp_path: Path) -> None:
    parts = [Contribution(0, 3, 2, 1.5, 2.0), Contribution(7, 1, 1, 0.0, 0.0)]
    write_participation(tmp_path / "participation.csv", parts)
    assert read_participation(tmp_path / "participation.csv") == parts


def test_an_update_that_a_deployed_client_sent_twice_is_one(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    accepted = '{{"event": "accepted", "client": {}, "number": {}, "staleness": {}}}\n'
    lines = [accepted.format(*entry) for entry in [(0, 1, 4), (1, 1, 0), (0, 1, 2), (0, 2, 6)]]
    log.write_text('{"event": "start"}\n' + "".join(lines) + '{"event": "acc')
    assert from_log(log) == [Contribution(0, 2, 2, 4.0, 6), Contribution(1, 1, 1, 0.0, 0)]


def test_rows_of_a_run_in_progress_are_a_history(tmp_path: Path) -> None:
    live, made = Live(tmp_path / "FedDR.csv"), rows(4)
    for row in made:
        live.add(row)
    assert History.from_csv(tmp_path / "FedDR.csv").column("F") == [row.F for row in made]
    live.end()
    assert not any(tmp_path.iterdir())


def test_a_run_that_resumes_from_a_checkpoint_drops_the_rows_after_it(tmp_path: Path) -> None:
    made, path = rows(6), tmp_path / "FedDR.csv"
    for row in made[:4]:
        Live(path).add(row)
    again = Live(path)
    for row in made[2:]:
        again.add(row)
    assert History.from_csv(path).column("round") == [row.round for row in made]


def test_half_a_line_is_no_row(tmp_path: Path) -> None:
    path = tmp_path / "FedDR.csv"
    History(rows(3)).to_csv(path)
    whole = path.read_bytes()
    for end in (1, 2, 30):
        path.write_bytes(whole[:-end])
        assert [row["round"] for row in read_rows(path)] == [0, 5]


def test_a_disk_that_refuses_does_not_end_a_run(tmp_path: Path) -> None:
    Live(tmp_path / "nowhere" / "FedDR.csv").add(rows(1)[0])
    assert not any(tmp_path.iterdir())


def test_clients_are_described_unless_they_are_made_on_demand(tmp_path: Path, class_data: FederatedData) -> None:
    write_clients(tmp_path / "clients.csv", class_data)
    lines = (tmp_path / "clients.csv").read_text().splitlines()
    assert lines[0] == "client,train,test,label_skew,0,1,2"
    assert [int(line.split(",")[1]) for line in lines[1:]] == class_data.sizes.tolist()
    made = FederatedData.generated(class_data.train.client, class_data.sizes, panel=2)
    write_clients(tmp_path / "other.csv", made)
    assert not (tmp_path / "other.csv").exists()
