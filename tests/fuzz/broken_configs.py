"""A grammar of broken configs: whole ones, of which a few settings are wrong, or a few bytes."""

import copy
import random
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from feddr.config.components import TABLE
from feddr.config.labels import OWN
from tests.fuzz.bad_input import BLOCKED, TAKEN, Case
from tests.fuzz.component_grammar import part
from tests.fuzz.literals import HUGE, SMALL, WRONG, Value, document, gentle, wild

IRIS = {"name": "bundled", "which": "iris", "num_clients": 2, "test_share": 0.2}
SOFTMAX = {"name": "softmax", "num_features": 4, "num_classes": 3}
SGD = {"name": "SGD", "lr": 0.1, "epochs": 1, "batch_size": 8}
EXACT = {"name": "Accelerated", "stopping": {"name": "Tolerance", "tol": 0.01}, "max_steps": 50}
UNIFORM = {"name": "UniformSpeed", "low": 1.0, "high": 2.0}
FEDDR = {"name": "FedDR", "eta": 1.0, "alpha": 1.0}
SERVER = {"name": "FedOpt", "optimiser": "adam", "lr": 0.01}
PLAIN: dict[str, Any] = {"name": "small", "rounds": 1, "data": IRIS, "model": SOFTMAX, "local": SGD}

EVERYTHING = {"seed": 3, "init_seed": 1, "weights": "samples", "precision": "float64", "evaluate_every": 1}
EVERYTHING |= {"personal": True, "certify": True, "on_bad_client": "skip"}
CLOCK = {"engine": "clock", "updates": 3, "evaluate_every_updates": 1, "concurrency": 2, "deadline": 9.0}
L2 = {"name": "L2", "strength": 0.1}

BASES: list[dict[str, Any]] = [
    {**PLAIN, "algorithm": [FEDDR]},
    {
        **PLAIN,
        **EVERYTHING,
        "model": {"name": "mlp", "sizes": [4, 3, 3], "activation": "tanh"},
        "g": {"name": "ElasticNet", "l1": 0.01, "l2": 0.01, "leave": ["bias"]},
        "sampling": {"name": "Uniform", "m": 1},
        "algorithm": [{**FEDDR, "init": "full", "label": "ours", "sampling": {"name": "Full"}}],
    },
    {
        **PLAIN,
        "local": EXACT,
        "g": {"name": "Parts", "parts": {"weight": {"name": "Scaled", "factor": 2.0, "g": L2}}},
        "algorithm": [FEDDR],
    },
    {
        **PLAIN,
        "local": {"name": "Optax", "optimiser": "adam", "lr": 0.01},
        "algorithm": [FEDDR, {"name": "FedAvg"}, {"name": "FedProx", "mu": 0.1}, {"name": "Scaffold"}, SERVER],
    },
    {
        **PLAIN,
        **CLOCK,
        "delays": {"name": "Combined", "models": [UNIFORM, {"name": "Dropout", "probability": 0.1}]},
        "algorithm": [{"name": "AsyncFedDR", "eta": 1.0, "tau": 3}, {"name": "FedBuff", "buffer": 2}, FEDDR],
    },
    {
        **PLAIN,
        "data": {"name": "csv", "path": "a.csv", "client": "who", "label": "y", "categorical": ["w"]},
        "model": {"name": "linear", "num_features": 3},
        "algorithm": [{"name": "FedDR", "eta": "auto", "alpha": "auto"}],
        "tune": {"grid": {"algorithm.eta": [1, 2]}, "seeds": [0], "metric": "F", "at": "last"},
    },
    {
        **PLAIN,
        "data": {"name": "libsvm", "path": "a.svm", "num_clients": 2, "partition": "dirichlet", "beta": 0.5},
        "model": {"name": "linear", "num_features": 2},
        "algorithm": [{"name": "FedSplit", "eta": 1.0}, {"name": "MimeLite"}, {"name": "FedDyn", "eta": 1.0}],
        "tune": {"random": {"local.lr": "log:0.001:0.1"}, "trials": 2, "unequal": True},
    },
]
BESIDE = {
    "a.csv": b"who,x,w,y\n" + b"a,1,p,0\nb,2,q,1\na,3,q,1\n" * 2,
    "a.svm": b"1 1:2\n-1 2:3\n1 1:1 2:1\n-1 1:1\n" * 2,
}
LONG = ("rounds", "updates", "epochs", "max_steps", "num_clients", "evaluate_every")
"""Settings that make a run long; a case that may run leaves them alone."""

Path = tuple[str | int, ...]


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the paths to everything in nested tables and lists."""
    if path:
        yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield from places(entry, (*path, key))


def at(tables: dict[str, Any], path: Path) -> tuple[Any, Any]:
    """Return what holds the entry at a path, and its key there."""
    holder: Any = tables
    for step in path[:-1]:
        holder = holder[step]
    return holder, path[-1]


@st.composite
def tables(draw: st.DrawFn, may_run: bool) -> dict[str, Any]:
    """Draw an experiment with a part or some settings that are wrong, or at least unusual."""
    found, odd = copy.deepcopy(draw(st.sampled_from(BASES))), gentle if may_run else wild
    if may_run:
        del found["algorithm"][draw(st.integers(1, 2)) :]
    kind = draw(st.sampled_from([None, None, *TABLE]))
    if kind is not None:
        holder = found["algorithm"][0] if kind in OWN and draw(st.booleans()) else found
        new = draw(part(kind, odd))
        holder[kind] = [new] if kind == "algorithm" else new
    for _ in range(draw(st.sampled_from([0, 1] if may_run else [0, 1, 1, 2] if kind else [1, 1, 2, 3]))):
        paths = [path for path in places(found) if not (may_run and path[-1] in LONG)]
        changes = ["replace"] * 4 + ["remove", "rename", "add", "wrap", "list", "other", "twice"]
        change = draw(st.sampled_from(changes[:5] if may_run else changes))
        alter(draw, at(found, draw(st.sampled_from(paths))), change, draw(odd))
    return found


def alter(draw: st.DrawFn, place: tuple[Any, Any], change: str, value: Value) -> None:
    """Do something wrong to an entry of a table or a list."""
    holder, key = place
    if change == "replace":
        holder[key] = value
    elif change == "remove" and len(holder) > 1:
        del holder[key]
    elif change == "wrap":
        holder[key] = {draw(st.sampled_from(["name", "value", "", "é", "a.b"])): holder[key]}
    elif change == "list":
        holder[key] = [holder[key]]
    elif change == "twice" and isinstance(holder, list):
        holder.append(copy.deepcopy(holder[key]))
    elif change == "other":
        holder[key] = draw(st.sampled_from([name for kind in TABLE for name in TABLE[kind][1]]))
    elif isinstance(holder, dict):
        name = draw(st.sampled_from(["", "nme", "name", "label", "local", "leave", "mask", "seed", "tune", "é", key]))
        holder[name] = value if change == "add" else holder.pop(key)


@st.composite
def spoilt(draw: st.DrawFn) -> bytes:
    """Draw the bytes of a file that is no TOML any more, or not in UTF-8, or still is."""
    text = document(draw(st.sampled_from(BASES))).encode()
    for _ in range(draw(st.integers(1, 2))):
        start = draw(st.integers(0, len(text)))
        stop = draw(st.integers(start, min(len(text), start + 40)))
        put = draw(st.one_of(st.binary(max_size=8), st.sampled_from([b"\n", b"=", b"[", b'"', b"\x00", b"\xff", b"#"])))
        how = draw(st.sampled_from(["cut", "put", "remove", "double", "mark", "lines"]))
        text = {
            "cut": text[:start],
            "put": text[:start] + put + text[start:],
            "remove": text[:start] + text[stop:],
            "double": text[:stop] + text[start:],
            "mark": b"\xef\xbb\xbf" + text,
            "lines": text.replace(b"\n", b"\r\n"),
        }[how]
    return text


@st.composite
def overrides(draw: st.DrawFn, may_run: bool) -> list[str]:
    """Draw assignments for ``--set``, most of them wrong."""
    found = []
    for _ in range(draw(st.integers(0, 1 if may_run else 2))):
        named = [".".join(map(str, path)) for base in BASES for path in places(base)]
        names = [name for name in sorted(set(named)) if not (may_run and name.rpartition(".")[2] in LONG)]
        key = draw(st.one_of(st.sampled_from(names), st.sampled_from(["", ".", "a..b", "algorithm.FedDR.eta", '"é"'])))
        sign = draw(st.sampled_from(["=", "=", "=", " = ", "", "=="]))
        found.append(f"{key}{sign}{draw(gentle if may_run else wild)}".replace("\x00", "\x01"))
    return found


@st.composite
def configs(draw: st.DrawFn) -> Case:
    """Draw a case: an experiment, and a command that reads it."""
    found = draw(tables(may_run=False)) if draw(st.integers(0, 6)) else {}
    text = document(found).encode("utf-8", "surrogatepass") if found else draw(spoilt())
    changes = draw(overrides(may_run=False)) if draw(st.integers(0, 2)) == 2 else []
    command = draw(st.sampled_from(["compare", "compare", "run", "data", "tune" if "tune" in found else "compare"]))
    # Where the folder for results cannot be had, everything is checked and nothing is run.
    out = BLOCKED if command == "data" else TAKEN
    more = {"data": [], "tune": ["--quiet", "--workers", "0"]}.get(command, ["--quiet", "--threads", "1"])
    return Case((command, "case.toml", *_set(changes), "--out", out, *more), {"case.toml": text, **BESIDE})


@st.composite
def runs(draw: st.DrawFn) -> Case:
    """Draw a small experiment that is run, if it can be."""
    text = document(draw(tables(may_run=True))).encode("utf-8", "surrogatepass")
    words = ("compare", "case.toml", *_set(draw(overrides(may_run=True))), "--out", "new", "--quiet", "--threads", "1")
    return Case(words, {"case.toml": text, **BESIDE})


def _set(assignments: list[str]) -> list[str]:
    return [word for one in assignments for word in ("--set", one)]


def systematic(seed: int) -> Iterator[Case]:
    """Yield every value of the lists in every place of every experiment, and without it, in an order by the seed."""
    changes: list[tuple[int, Path, str | None]] = []
    for number, base in enumerate(BASES):
        for path in places(base):
            changes += [(number, path, value) for value in (None, *SMALL, *HUGE, *WRONG)]
    random.Random(seed).shuffle(changes)
    for number, path, value in changes:
        found = copy.deepcopy(BASES[number])
        holder, key = at(found, path)
        if value is None:
            del holder[key]
        else:
            holder[key] = Value(value)
        tuning = path[0] == "tune" or (number + len(path)) % 5 == 0
        command = ("tune", "--workers", "0") if tuning and "tune" in found else ("compare", "--threads", "1")
        text = document(found).encode("utf-8", "surrogatepass")
        yield Case((*command, "case.toml", "--out", TAKEN, "--quiet"), {"case.toml": text, **BESIDE})


def by_hand() -> Iterator[Case]:
    """Yield files that are no experiment, for every command that reads one."""
    for content in (b"", b"\n", b"\x00", b"\xff\xfe", b"name", b"[", b"[[a]]\n[a]", b"a=1\na=2", b"\xef\xbb\xbfa = 1"):
        for command in ("run", "compare", "data", "theory", "tune"):
            yield Case((command, "case.toml"), {"case.toml": content})
