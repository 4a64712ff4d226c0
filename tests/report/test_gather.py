"""From folders to what the page shows."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from feddr.history import COLUMNS, History, Row
from feddr.report.gather import MOST_ROWS, gather, sources
from feddr.runs.stored import Live
from tests.report.folders import CERTIFICATE, CLUSTER, experiment, method, rows


def only(folder: Path) -> dict[str, Any]:
    (run,) = gather([folder])["runs"]
    found: dict[str, Any] = run
    return found


def test_methods_come_in_the_order_of_the_config_with_what_was_measured(tmp_path: Path) -> None:
    run = only(experiment(tmp_path / "run", ["b", "a"]))
    assert [one["label"] for one in run["methods"]] == ["b", "a"]
    columns = run["methods"][0]["columns"]
    assert columns["round"] == [row.round for row in rows()]
    assert columns["F"] == pytest.approx([row.F for row in rows()], rel=1e-6)
    assert "personal_train_loss" not in columns
    assert dict(run["settings"]) == {
        "name": "small",
        "seed": "0",
        "init_seed": "5",
        "rounds": "40",
        "data.seed": "7",
        "data": "synthetic(seed=7, num_clients=4)",
        "model": "softmax(num_features=60, num_classes=3)",
        "g": "L1(strength=0.001)",
    }
    json.dumps(run, allow_nan=False)


def test_the_command_can_be_pasted_into_a_shell(tmp_path: Path) -> None:
    folder = experiment(tmp_path / "it's $HOME", ["a"])
    assert only(folder)["commands"] == [f"feddr run '{tmp_path}/it'\"'\"'s $HOME/config.toml'"]
    assert only(experiment(tmp_path / "two"))["commands"] == [f"feddr compare {tmp_path}/two/config.toml"]


def test_clients_are_sorted_by_size_and_summed(tmp_path: Path) -> None:
    clients = only(experiment(tmp_path / "run"))["clients"]
    assert clients["names"] == ["client 1", "client 3", "client 0", "client 2"]
    assert clients["columns"] == ["cat", "dog", "cow"]
    assert clients["counts"][0] == [40, 0, 0]
    assert clients["samples"] == {"train": 76, "test": 14}
    assert clients["size"] == [6, 15, 40]


def test_a_client_that_never_took_part_counts(tmp_path: Path) -> None:
    part = only(experiment(tmp_path / "run", clock=True))["methods"][0]["participation"]
    assert (part["clients"], part["active"], part["total"]) == (4, 3, 16)
    assert part["by_client"] == [8, 3, 0, 5]
    assert part["updates"] == [0, 4, 8]
    assert part["staleness"] == [1.5, 3.0]
    assert part["mean"] == [1.5, 1.5, None, 1.5]


def test_the_workers_of_a_run_come_with_what_they_did(tmp_path: Path) -> None:
    folder = experiment(tmp_path / "run")
    shutil.rmtree(folder / "FedDR")
    method(folder / "FedDR", rows(), {"cluster": CLUSTER})
    one, other = only(folder)["methods"]
    assert one["placement"] == CLUSTER | {"machines": 2}
    assert other["placement"] is None
    single = tmp_path / "single"
    method(single, rows(), {"cluster": CLUSTER})
    assert "cluster" not in dict(only(single)["settings"])


@pytest.mark.parametrize(
    ("part", "value"),
    [("shards", [0]), ("shards", "ab"), ("seconds", float("nan")), ("seconds", "1"), ("clients", -1), ("process", 0.5)],
)
def test_workers_that_feddr_has_not_written_are_refused(tmp_path: Path, part: str, value: Any) -> None:
    method(tmp_path / "run", rows(), {"cluster": CLUSTER | {"workers": [CLUSTER["workers"][0] | {part: value}]}})
    with pytest.raises(ValueError, match=r"settings.json: is not what feddr has written"):
        gather([tmp_path / "run"])


@pytest.mark.parametrize("clients", [2999, 3000, 3001])
def test_of_many_clients_neighbours_are_put_together(tmp_path: Path, clients: int) -> None:
    lines = [f"c{i},{i + 1},0,0.5,{i + 1},0" for i in range(clients)]
    folder = experiment(tmp_path / "run", ["a"])
    (folder / "clients.csv").write_text("client,train,test,label_skew,0,1\n" + "\n".join(lines) + "\n")
    parts = "\n".join(f"{i},{i % 7},0,nan,nan" for i in range(clients))
    header = "client,updates,measured,staleness_mean,staleness_max"
    (folder / "a" / "participation.csv").write_text(f"{header}\n{parts}\n")
    run = only(folder)
    assert len(run["clients"]["names"]) <= 300
    assert run["clients"]["total"] == clients
    assert run["clients"]["size"] == [1, (clients + 1) / 2, clients]
    assert len(run["methods"][0]["participation"]["by_client"]) <= 301
    assert run["methods"][0]["participation"]["total"] == sum(i % 7 for i in range(clients))


@pytest.mark.parametrize("number", [1, MOST_ROWS, MOST_ROWS + 1, 3 * MOST_ROWS + 7])
def test_long_histories_keep_their_ends(tmp_path: Path, number: int) -> None:
    folder = experiment(tmp_path / "run", ["a"])
    History([Row(round=k, F=float(k)) for k in range(number)]).to_csv(folder / "a" / "history.csv")
    one = only(folder)["methods"][0]
    shown = one["columns"]["round"]
    assert one["rows"] == number
    assert len(shown) <= MOST_ROWS + 1
    assert (shown[0], shown[-1]) == (0, number - 1)
    assert shown == sorted(set(shown))


def test_what_has_become_of_methods_is_known(tmp_path: Path) -> None:
    folder = experiment(tmp_path / "run", ["done", "bad", "cut", "going", "waiting"])
    (folder / ".checkpoints").mkdir()
    notes = {"done": {"status": "finished", "reason": ""}, "bad": {"status": "diverged in round 3", "reason": "lr"}}
    (folder / ".checkpoints" / "progress.json").write_text(json.dumps(notes))
    for label in ("going", "waiting"):
        (folder / label / "history.csv").unlink()
    live = Live(folder / ".checkpoints" / "going.csv")
    for row in rows(3):
        live.add(row)
    run = only(folder)
    statuses = {one["label"]: (one["status"], one["reason"], one["rows"]) for one in run["methods"]}
    assert statuses == {
        "done": ("finished", "", 9),
        "bad": ("diverged in round 3", "lr", 9),
        "cut": ("interrupted", "", 9),
        "going": ("unfinished", "", 3),
    }
    assert run["unfinished"]
    assert run["commands"][1] == f"feddr compare --resume {folder}"


def test_the_newer_of_saved_and_live_rows_is_shown(tmp_path: Path) -> None:
    """A run that was interrupted, and then resumed: first its history, then its rows, are the newest."""
    folder = experiment(tmp_path / "run", ["a"])
    (folder / ".checkpoints").mkdir()
    live, saved = folder / ".checkpoints" / "a.csv", folder / "a" / "history.csv"
    Live(live).add(rows(1)[0])
    os.utime(saved, ns=(10**18, 10**18))
    for time, expected in ((10**18 - 1, ("interrupted", 9)), (10**18 + 1, ("unfinished", 1))):
        os.utime(live, ns=(time, time))
        one = only(folder)["methods"][0]
        assert (one["status"], one["rows"]) == expected


def test_an_older_history_with_fewer_columns_is_shown(tmp_path: Path) -> None:
    folder = experiment(tmp_path / "run", ["a"])
    (folder / "a" / "history.csv").write_text("round,F,retired\n0,2.5,1\n5,1.5,1\n")
    assert only(folder)["methods"][0]["columns"] == {"round": [0, 5], "F": [2.5, 1.5]}


def test_what_result_save_leaves_is_shown_with_the_call_that_repeats_it(tmp_path: Path) -> None:
    method(tmp_path / "mine", rows(), {"precision": "float64", "rounds": 40, "sampling": "Full()"})
    run = only(tmp_path / "mine")
    assert [one["label"] for one in run["methods"]] == ["FedDR"]
    (call,) = run["commands"]
    expected = (
        "import feddr def run_again(problem): return feddr.simulate( problem, feddr.FedDR(eta=3.0), "
        "local=feddr.local.SGD(lr=0.01), sampling=feddr.sampling.Full(), rounds=40, seed=0, precision='float64', )"
    )
    assert " ".join(call.split()) == expected


def test_one_method_of_an_experiment_can_be_asked_for(tmp_path: Path) -> None:
    run = only(experiment(tmp_path / "run") / "FedAvg")
    assert (run["name"], [one["label"] for one in run["methods"]]) == ("small", ["FedAvg"])


def test_a_deployed_run_is_shown_while_it_is_in_progress(tmp_path: Path) -> None:
    method(tmp_path / "live", rows(3))
    for name in ("settings.json", "participation.csv"):
        (tmp_path / "live" / name).unlink()
    start = {"event": "start", "name": "hospitals", "algorithm": "AsyncFedDR(eta=5.0)", "clients": 2, "seed": 1}
    accepted = {"event": "accepted", "client": 1, "number": 1, "staleness": 2}
    log = tmp_path / "live" / "log.jsonl"
    log.write_text(f"{json.dumps(start)}\n{json.dumps(accepted)}\n")
    run = only(tmp_path / "live")
    (one,) = run["methods"]
    assert (run["name"], one["label"], one["status"], run["unfinished"]) == (
        "hospitals",
        "AsyncFedDR",
        "unfinished",
        True,
    )
    assert one["participation"]["by_client"] == [0, 1]
    log.write_text(log.read_text() + '{"event": "end", "version": 3}\n')
    assert only(tmp_path / "live")["methods"][0]["status"] == "ended"


def test_runs_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    folders = [experiment(tmp_path / "a", seed=0), experiment(tmp_path / "b", seed=1)]
    data = gather(folders)
    assert [run["name"] for run in data["runs"]] == [str(folder) for folder in folders]
    assert gather([folders[0]])["title"] == "small"


def test_a_certificate_is_passed_on(tmp_path: Path) -> None:
    folder = experiment(tmp_path / "run", ["a"])
    assert only(folder)["methods"][0]["certificate"] is None
    (folder / "a" / "certificate.json").write_text(json.dumps(CERTIFICATE))
    assert only(folder)["methods"][0]["certificate"] == CERTIFICATE


WRONG = {
    "config.toml": ("name = ", "is not what feddr has written"),
    "clients.csv": ("client,train\n", "its first line must begin with client,train,test,label_skew"),
    "FedDR/history.csv": ("a,b\n1,2\n", "a history has a column round"),
    "FedDR/settings.json": ("[]", "a JSON object is needed, got list"),
    "FedDR/certificate.json": ("{", "is not what feddr has written"),
    "FedDR/participation.csv": ("client\n", "its first line must be client,updates"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_is_wrong_is_named(tmp_path: Path, name: str) -> None:
    folder = experiment(tmp_path / "run")
    content, message = WRONG[name]
    (folder / name).write_text(content)
    with pytest.raises(ValueError, match=message) as refused:
        gather([folder])
    assert str(folder / name) in str(refused.value)


def test_impossible_numbers_of_clients_are_refused(tmp_path: Path) -> None:
    folder = experiment(tmp_path / "run", ["a"])
    header = "client,updates,measured,staleness_mean,staleness_max"
    (folder / "a" / "participation.csv").write_text(f"{header}\n1000000000000,1,0,nan,nan\n")
    with pytest.raises(ValueError, match="room for 10,000,000 clients"):
        gather([folder])


def test_the_files_of_a_page_change_with_new_rows(tmp_path: Path) -> None:
    folder = experiment(tmp_path / "run")
    before = sources([folder])
    assert sources([folder]) == before
    assert {Path(name).name for name, _, _ in before} >= {"history.csv", "config.toml", "clients.csv"}
    with open(folder / "FedDR" / "history.csv", "a") as file:
        file.write(",".join("0" for _ in COLUMNS) + "\n")
    assert sources([folder]) != before


def test_a_method_has_one_colour_in_all_runs_and_each_line_its_own_dashes(tmp_path: Path) -> None:
    one = experiment(tmp_path / "one", ["FedAvg", "FedDR", "FedDR, tuned"])
    two = experiment(tmp_path / "two", ["FedDR", "FedAvg"])
    methods = [method for run in gather([one, two])["runs"] for method in run["methods"]]
    colours: dict[str, set[int]] = {}
    for method_ in methods:
        colours.setdefault(method_["label"].split(",")[0], set()).add(method_["colour"])
    assert colours == {"FedDR": {0}, "FedAvg": {6}}
    assert len({(method_["colour"], method_["dash"]) for method_ in methods}) == len(methods)
