"""The books: whole or as they were before, whatever happens to files and processes."""

import json
from pathlib import Path

import numpy as np
import optax
import pytest

import feddr
from feddr import tree
from feddr.algorithms import Deployable, Roles
from feddr.flower import DamagedError, Refused
from feddr.flower.ledger import Ledger
from feddr.storage import atomic, tensors

X0 = {"w": np.array([1.0, -2.0, 0.5]), "b": np.array(0.25)}
WEIGHTS = [0.5, 0.3, 0.2]
LASSO = feddr.FedDR(eta=0.5, alpha=1.0)
SETTINGS = {"algorithm": repr(LASSO), "seed": 0}


def identity(x: tree.Tree, eta: float) -> tree.Tree:
    del eta
    return x


def opened(folder: Path, algorithm: Deployable = LASSO) -> Ledger:
    found = Ledger.resume(folder, algorithm, identity, X0, SETTINGS)
    roles = Roles(algorithm, np.array(WEIGHTS))
    return Ledger.start(folder, roles, identity, X0, SETTINGS) if found is None else found


def value(seed: int) -> tree.Tree:
    rng = np.random.default_rng(seed)
    return tree.map(lambda a: np.asarray(rng.normal(size=a.shape)), X0)


def same(a: Ledger, b: Ledger) -> bool:
    files = tree.norm(tree.sub(tensors.flatten(a.server), tensors.flatten(b.server)))
    return files == 0 and (a.version, a.entries, a.pending, a.uid) == (b.version, b.entries, b.pending, b.uid)


def test_what_was_not_committed_does_not_count(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    ledger.accept(0, 1, value(0), X0)
    ledger.step()
    again = opened(tmp_path)
    assert same(again, ledger)
    ledger.accept(1, 1, value(1), X0)
    assert same(opened(tmp_path), again)
    ledger.commit()
    assert same(opened(tmp_path), ledger)
    assert [one.client for one in ledger.pending] == [1]


def test_an_open_round_resumes_with_what_has_arrived(tmp_path: Path) -> None:
    one, two = opened(tmp_path / "one"), opened(tmp_path / "two")
    for client in (2, 0, 1):
        one.accept(client, 1, value(client), X0)
        two.accept(client, 1, value(client), X0)
        two.commit()
        two = opened(tmp_path / "two")
    one.step([0, 1, 2])
    two.step([0, 1, 2])
    for ours, theirs in zip(tree.leaves(one.server), tree.leaves(two.server), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert one.audit() <= 1e-15


@pytest.mark.parametrize(
    "algorithm",
    [feddr.FedAvgM(), feddr.FedAdam(), feddr.FedYogi(), feddr.FedAdagrad(), feddr.FedOpt(optax.nadam(0.1))],
    ids=repr,
)
def test_the_books_hold_the_memory_of_the_server_s_optimiser(tmp_path: Path, algorithm: Deployable) -> None:
    """A server that is started anew before every step ends where one that never stopped does, bit for bit."""
    one = opened(tmp_path / "one", algorithm)
    for number in (1, 2, 3):
        two = opened(tmp_path / "two", algorithm)
        for client in (0, 2):
            one.accept(client, number, value(10 * number + client), X0)
            two.accept(client, number, value(10 * number + client), X0)
        one.step()
        two.step()
    again = opened(tmp_path / "two", algorithm)
    assert again.version == 3
    assert again.audit() == 0
    for ours, theirs in zip(tree.leaves(again.server), tree.leaves(one.server), strict=True):
        assert (type(ours), ours.dtype) == (np.ndarray, theirs.dtype)
        np.testing.assert_array_equal(ours, theirs)


def test_a_number_counts_once(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    ledger.accept(0, 3, value(0), X0)
    for number in (3, 2, 1):
        with pytest.raises(Refused, match="stale"):
            ledger.accept(0, number, value(1), X0)
    ledger.step()
    with pytest.raises(Refused, match="stale"):
        ledger.accept(0, 3, value(1), X0)
    np.testing.assert_array_equal(ledger.value(0)["w"], value(0)["w"])


def test_a_spoilt_state_falls_back_on_the_one_before(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    for number in (1, 2, 3):
        ledger.accept(0, number, value(number), X0)
        ledger.step()
    path = ledger.states.path(ledger.serial)
    path.write_bytes(path.read_bytes()[:-1] + b"\x00")
    again = opened(tmp_path)
    assert (again.version, again.number(0)) == (2, 2)
    assert again.audit() <= 1e-15
    again.accept(0, 3, value(4), X0)
    again.step()
    assert same(opened(tmp_path), again)


def test_a_spoilt_table_falls_back_too_and_else_says_so(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    for number in (1, 2):
        ledger.accept(0, number, value(number), X0)
        ledger.step()
    (tmp_path / ledger.entries[0].accepted).write_bytes(b"")
    assert opened(tmp_path).version == 1
    for path in (tmp_path / "table").iterdir():
        path.write_bytes(b"")
    with pytest.raises(DamagedError, match="another name"):
        opened(tmp_path)


def test_books_that_do_not_add_up_are_refused(tmp_path: Path) -> None:
    lazy = feddr.FedDR(eta=0.5, alpha=1.0, init="lazy")  # which counts everybody from the start
    ledger = opened(tmp_path, lazy)
    ledger.accept(0, 1, value(0), X0)
    ledger.step()
    for number, record in list(ledger.states.undamaged()):
        arrays = {name: np.asarray(array + 1e-9 * name.startswith("xtilde")) for name, array in record.arrays.items()}
        atomic.write(ledger.states.path(number), tensors.pack(record.header, arrays))
    with pytest.raises(DamagedError, match="xtilde is"):
        opened(tmp_path, lazy)


def test_a_crash_leaves_no_files_for_ever(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    for number in range(1, 6):
        for client in range(3):
            ledger.accept(client, number, value(number), X0)
            ledger.commit()
        ledger.step()
    assert len(list((tmp_path / "table").iterdir())) <= 6
    assert len(list((tmp_path / "pending").iterdir())) <= 3
    ledger.accept(0, 6, value(6), X0)
    opened(tmp_path)
    named = {Path(file).name for entry in ledger.entries.values() for file in (entry.accepted,) if file}
    left = {path.name for path in (tmp_path / "table").iterdir()}
    assert "0-6.safetensors" in named
    assert "0-6.safetensors" not in left


def test_other_settings_are_another_run(tmp_path: Path) -> None:
    opened(tmp_path)
    with pytest.raises(ValueError, match=r"seed was 0 in .* and is 1 now; give the new run another name"):
        Ledger.resume(tmp_path, LASSO, identity, X0, SETTINGS | {"seed": 1})


def test_a_state_that_is_not_finite_is_never_written(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    ledger.accept(0, 1, tree.map(lambda a: np.full_like(a, np.inf), X0), X0)
    with pytest.raises(feddr.DivergedError):
        ledger.step()
    assert opened(tmp_path).version == 0


def test_the_log_is_one_object_a_line_without_control_characters(tmp_path: Path) -> None:
    from feddr.flower.journal import LONGEST, Journal

    journal = Journal(tmp_path / "log.jsonl")
    journal.write("error", reason="a\nb\x1b[31m" + "x" * 1000, code=2)
    journal.write("end", version=3)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines] == ["error", "end"]
    assert len(lines[0]["reason"]) == LONGEST
    assert lines[0]["reason"].isprintable()
