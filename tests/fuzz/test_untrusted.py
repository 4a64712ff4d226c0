"""Files that somebody else has made: nothing in them is run, nothing is written elsewhere, nothing explodes."""

import ast
import bz2
import gzip
import hashlib
import io
import json
import lzma
import pickle
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save

import feddr
from feddr.checkpoint import CheckpointError, Checkpoints
from feddr.checkpoint.folder import MANIFEST, STATE, _sealed
from feddr.config import ConfigError
from feddr.config.labels import check_file_name
from feddr.datasets import files
from feddr.storage import limits, untrusted
from feddr.storage.tensors import Arrays
from tests.checkpoint.small_runs import classes, go
from tests.datasets.formats import idx_bytes
from tests.fuzz.bad_input import BLOCKED, Case, attempt
from tests.fuzz.broken_configs import BASES
from tests.fuzz.broken_files import DIGITS, WHOLE, command, digits_npz
from tests.fuzz.literals import document

SOURCES = Path(feddr.__file__).parent
RUNS_CODE = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "yaml"}
CALLS = {"eval", "exec", "compile", "np.load", "numpy.load", "np.loadtxt", "np.genfromtxt", "pd.read_pickle"}
PLAIN = document(BASES[0]).encode()
DEEP = b"[" * 100_000


def refused(case: Case) -> str:
    ended = attempt(case)
    assert ended.how == "refused"
    return ended.stderr


def test_no_module_can_run_what_a_file_says() -> None:
    """No pickle in any disguise, no eval, and no loader of NumPy that could come to it."""
    sources = sorted(SOURCES.rglob("*.py"))
    assert len(sources) > 100
    for path in sources:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name.split(".")[0] for alias in node.names} | {str(getattr(node, "module", ""))}
                assert not names & RUNS_CODE, f"{path} imports {names & RUNS_CODE}"
            elif isinstance(node, ast.Call):
                assert ast.unparse(node.func) not in CALLS, f"{path}, line {node.lineno}: {ast.unparse(node.func)}"


class Touch:
    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return Path.touch, (Path("pwned"),)  # type: ignore[return-value]


def test_pickles_in_arrays_are_not_opened() -> None:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.array([Touch()], object), allow_pickle=True)
    assert b"touch" in stream.getvalue()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name in ("X", "y", "writer", "is_test"):
            file.writestr(f"{name}.npy", stream.getvalue())
    assert "holds Python objects, which are never loaded" in refused(
        command(WHOLE["npz"][0], {"d/mnist_writers.npz": archive.getvalue()})
    )
    for kind in ("npz", "leaf", "libsvm", "csv", "idx"):
        words, whole = WHOLE[kind]
        refused(command(words, dict.fromkeys(whole, pickle.dumps(Touch()))))


@given(st.one_of(st.text(max_size=20), st.from_regex(r"[\w ./\\~:-]{1,20}", fullmatch=True)))
def test_names_are_one_step_in_a_path(name: str) -> None:
    try:
        check_file_name("name", name)
    except ConfigError:
        return
    place = Path("runs", name)
    assert place.name == name
    assert place.resolve().parent == Path("runs").resolve()
    assert not name.startswith((".", "~", "-"))
    assert not set(name) & set("/\\:\0")


ESCAPES = ["../up", "/tmp/up", "a/../../up", "..", ".", "", "~", "a\\b", "up\n", "up/", ".checkpoints", "a\0b", "-rf"]


@pytest.mark.parametrize("name", ESCAPES)
def test_names_in_configs_do_not_leave_the_folder(name: str) -> None:
    for change in ({"name": name}, {"algorithm": [{**BASES[0]["algorithm"][0], "label": name}]}):
        text = document({**BASES[0], **change}).encode()
        for words in (["run", "c.toml"], ["data", "c.toml"], ["tune", "c.toml", "--grid", "local.lr=1,2"]):
            assert "must be a plain name for a folder" in refused(Case(tuple(words), {"c.toml": text}))


BEGUN = {"begun/config.toml": PLAIN, "begun/.checkpoints/progress.json": b"{}", "else/where.txt": b"precious"}


LINKED = ["FedDR", ".checkpoints/FedDR", ".config.part.toml", "FedDR/history.csv", "clients.csv"]


@pytest.mark.parametrize("name", LINKED)
def test_a_run_is_not_resumed_through_links(name: str) -> None:
    target = "../" * (1 + name.count("/")) + ("else/where.txt" if "." in name[1:] else "else")
    message = refused(Case(("run", "--resume", "begun", "--quiet"), BEGUN, {f"begun/{name}": target}))
    assert "is a link, and results are not written through links; remove it." in message


def test_nor_is_a_search_nor_a_summary() -> None:
    found = {"c.toml": PLAIN, "found/search.json": b"{}", "else/where.txt": b"precious"}
    words: tuple[str, ...] = ("tune", "c.toml", "--grid", "local.lr=1,2", "--resume", "found")
    assert "is a link" in refused(Case(words, found, {"found/runs.jsonl": "../else/where.txt"}))
    assert "is a link" in refused(Case(("data", "bundled"), found, {"runs/data-bundled": "../else"}))
    words = ("reproduce", "synthetic", "--quick", "--quiet", "--workers", "0", "--out", "found")
    assert "is a link" in refused(Case(words, found, {"found/runs": "../else"}))


NESTED = {
    "a note": (("run", "--resume", "begun"), {**BEGUN, "begun/.checkpoints/progress.json": DEEP}),
    "a search": (
        ("tune", "c.toml", "--grid", "local.lr=1,2", "--resume", "f"),
        {"c.toml": PLAIN, "f/search.json": DEEP},
    ),
    "samples": (("data", "leaf", "--set", "path=f.json"), {"f.json": b'{"users":' + DEEP}),
    "a config": (("run", "c.toml"), {"c.toml": b"x = " + DEEP}),
}


@pytest.mark.parametrize("what", NESTED)
def test_files_nested_without_end(what: str) -> None:
    words, content = NESTED[what]
    assert "nested" in refused(Case((*words, *(["--out", BLOCKED] if words[0] == "data" else [])), content))


NOTES = [b"", b"[]", b"3", b'{"FedDR": 3}', b'{"FedDR": {}}', b'{"FedDR": {"status": 1, "reason": 2, "x": 3}}', b"\xff"]


@pytest.mark.parametrize("note", NOTES)
def test_notes_that_feddr_has_not_written(note: bytes) -> None:
    content = {**BEGUN, "begun/.checkpoints/progress.json": note, "begun/FedDR/history.csv": b"round\n"}
    refused(Case(("run", "--resume", "begun", "--quiet"), content))


def peak(case: Case) -> int:
    """Bytes that a case, which is refused, had reserved at most."""
    tracemalloc.start()
    try:
        assert "bytes" in refused(case)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)])
def test_bombs_do_not_go_off(suffix: str, pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of 1 MB stands for that of 2 GB; 32 MB are packed into a few kB."""
    monkeypatch.setattr(files, "LIMIT", 2**20)
    monkeypatch.setattr(files, "LONGEST_LINE", 2**20)
    bomb = pack(b"1" * (32 * 2**20))
    assert len(bomb) < 2**20
    path = f"path=f{suffix}"
    for words in (("libsvm", path), ("csv", path, "client=a", "label=b"), ("leaf", path)):
        # What expands a block of .xz or .bz2 takes some MB of its own, however little is asked for.
        assert peak(command(words, {f"f{suffix}": bomb})) < 20 * 2**20


def test_an_idx_header_that_announces_gigabytes() -> None:
    words, whole = WHOLE["idx"]
    head = bytes([0, 0, 8, 3]) + np.array([2**31, 28, 28], ">u4").tobytes()
    images = {**whole, "d/train-images-idx3-ubyte": head + idx_bytes(DIGITS.images)[16:]}
    assert peak(command(words, images)) < 2**24


def test_an_npz_that_announces_terabytes() -> None:
    good = digits_npz()
    with zipfile.ZipFile(io.BytesIO(good)) as archive:
        real = archive.getinfo("X.npy").file_size.to_bytes(4, "little")
    lying = good.replace(real, (2**31 - 1).to_bytes(4, "little"))
    assert lying != good
    refused(command(WHOLE["npz"][0], {"d/mnist_writers.npz": lying}))


def test_a_config_is_small() -> None:
    text = PLAIN + b"#" * limits.CONFIG
    assert f"has more than the {limits.CONFIG:,} bytes" in refused(Case(("run", "c.toml"), {"c.toml": text}))


def forged(folder: Path, data: bytes, *others: str, **changes: object) -> Checkpoints:
    """Return a checkpoint whose checksums are right, since whoever made it has made them, too."""
    folder.mkdir(exist_ok=True)
    checkpoints = Checkpoints(folder)
    checkpoints.save(1, {}, {"a": np.zeros(3)}, [])
    place = checkpoints.path(1)
    (place / STATE).write_bytes(data)
    body = json.loads((place / MANIFEST).read_text())["body"]
    listed = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    body["files"] = {STATE: listed} | dict.fromkeys(others, listed)
    (place / MANIFEST).write_text(_sealed(body | changes))
    return checkpoints


def header(**tensors: object) -> bytes:
    text = json.dumps(tensors).encode()
    return len(text).to_bytes(8, "little") + text + bytes(24)


TENSORS = {
    "more than there is": header(a={"dtype": "F64", "shape": [2**40], "data_offsets": [0, 2**43]}),
    "a shape that overflows": header(a={"dtype": "F64", "shape": [2**62, 2**62], "data_offsets": [0, 24]}),
    "another type": header(a={"dtype": "BF16", "shape": [12], "data_offsets": [0, 24]}),
    "a header longer than the file": (2**62).to_bytes(8, "little") + b"{}",
    "no header": b"",
    "a pickle": pickle.dumps(Touch()),
}


@pytest.mark.parametrize("what", TENSORS)
def test_tensors_that_are_not_there(what: str, tmp_path: Path) -> None:
    saved = forged(tmp_path, TENSORS[what]).check(1)
    with pytest.raises(CheckpointError, match="is damaged or not a file of feddr"):
        saved.state()


def test_a_manifest_cannot_name_other_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CheckpointError, match="lists a file that is none of a checkpoint"):
        forged(tmp_path / "a", b"", "../../secret").check(1)
    with pytest.raises(CheckpointError, match="is that of another one"):
        forged(tmp_path / "b", b"", round=2).check(1)
    monkeypatch.setattr(limits, "memory", lambda: 100)
    with pytest.raises(CheckpointError, match="more than fit into memory"):
        forged(tmp_path / "c", bytes(101)).check(1)


CHANGES: dict[str, Callable[[Arrays], Arrays]] = {
    "nothing": lambda _: {},
    "other shapes": lambda arrays: {name: array[..., None] for name, array in arrays.items()},
    "one array less": lambda arrays: dict(list(arrays.items())[1:]),
    "texts": lambda arrays: {name: np.frombuffer(array.tobytes(), np.uint8) for name, array in arrays.items()},
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_checkpoint_made_by_hand_is_refused(change: str, tmp_path: Path) -> None:
    """Its checksums are right, and what it holds is not the state of the run."""
    go(classes(), feddr.FedDR(eta=1.0), 2, checkpoint=tmp_path)
    place = Checkpoints(tmp_path).path(2)
    data = save(CHANGES[change](load((place / STATE).read_bytes())))
    (place / STATE).write_bytes(data)
    body = json.loads((place / MANIFEST).read_text())["body"]
    body["files"][STATE] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (place / MANIFEST).write_text(_sealed(body))
    with pytest.raises(CheckpointError, match="does not hold the state of this run"):
        go(classes(), feddr.FedDR(eta=1.0), 4, checkpoint=feddr.Checkpoint(tmp_path, resume=True))


def test_reading_ends_at_the_limit(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(11))
    assert len(untrusted.read(tmp_path / "a", 11)) == 11
    with pytest.raises(ValueError, match="has more than the 10 bytes that such a file may have"):
        untrusted.read(tmp_path / "a", 10)
