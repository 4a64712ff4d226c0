"""A grammar of broken data files: small ones in every format that is read, of which some bytes or numbers are wrong."""

import bz2
import gzip
import io
import json
import lzma
import random
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st

from feddr.datasets.heart_disease import HOSPITALS
from tests.datasets.formats import Digits, idx_bytes
from tests.fuzz.bad_input import BLOCKED, Case
from tests.fuzz.broken_configs import BASES
from tests.fuzz.literals import document

Files = dict[str, bytes]

DIGITS = Digits(size=12, test_size=6)
CSV = b"who,x,w,y\na,1,p,0\nb,2.5,q,1\na,3e1,q,1\nb,-4,p,0\n"
SVM = b"1 1:2 # first\n-1 2:3.5\n1 1:1 2:-1e3\n-1 1:1\n"
TRACE = b"client,start,duration,send,lost\n0,0,1,0,0\n1,0.5,2,1,1\n0,2,1,0,0\n"
PATIENT = b"63,1,1,145,233,1,2,150,0,2.3,3,0,6,0\n41,0,2,130,?,0,2,172,0,1.4,1,?,3,1\n"
PIXELS = [round(i / 784, 3) for i in range(784)]


def leaf(users: Mapping[str, Any] | None = None, /, **changes: Any) -> bytes:
    """Return a file of LEAF."""
    users = {"u": {"x": [[1, 2], [3, 4]], "y": [0, 1]}, "v": {"x": [[5, 6]], "y": [1]}} if users is None else users
    whole = {"users": list(users), "num_samples": [len(user["y"]) for user in users.values()], "user_data": users}
    return json.dumps(whole | changes).encode()


def npz(**arrays: Any) -> bytes:
    """Return a file of NumPy."""
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def digits_npz(**changes: Any) -> bytes:
    size = len(DIGITS.labels)
    whole = {"X": DIGITS.images, "y": DIGITS.labels, "writer": DIGITS.writers, "is_test": np.arange(size) > 8}
    return npz(**(whole | changes))


LETTERS = np.repeat(np.arange(36, 46), 2)
WRITER = {"w": {"x": [PIXELS, PIXELS], "y": [0, 61]}}
WHOLE: dict[str, tuple[tuple[str, ...], Files]] = {
    "csv": (("csv", "path=f.csv", "client=who", "label=y", 'categorical=["w"]'), {"f.csv": CSV}),
    "csv.gz": (("csv", "path=f.csv.gz", "client=who", "label=y", 'numeric=["x"]'), {"f.csv.gz": gzip.compress(CSV)}),
    "libsvm": (("libsvm", "path=f", "num_clients=2"), {"f": SVM}),
    "libsvm.bz2": (("libsvm", "path=f.bz2", "num_clients=2", "labels=numbers"), {"f.bz2": bz2.compress(SVM)}),
    "libsvm.xz": (("libsvm", "path=f.xz", "num_clients=2", "first_index=0"), {"f.xz": lzma.compress(SVM)}),
    "leaf": (("leaf", "path=f.json", "test_share=0.5"), {"f.json": leaf()}),
    "leaf.gz": (("leaf", "path=f.json.gz"), {"f.json.gz": gzip.compress(leaf())}),
    "leaf halves": (("leaf", "path=d"), {"d/train/a.json": leaf(), "d/test/a.json": leaf()}),
    "heart": (("heart_disease", "data_dir=d"), {f"d/processed.{name}.data": PATIENT for name in HOSPITALS}),
    "idx": (
        ("mnist", "data_dir=d", "num_clients=2", "test=official"),
        {f"d/{name.removesuffix('.gz')}": data for name, data in DIGITS.files().items()},
    ),
    "idx.gz": (
        ("mnist", "data_dir=d", "partition=writer"),
        {f"d/{name}": gzip.compress(data) for name, data in DIGITS.files().items()},
    ),
    "npz": (("mnist", "data_dir=d", "partition=writer"), {"d/mnist_writers.npz": digits_npz()}),
    "femnist": (("femnist", "data_dir=d"), {"d/train/a.json": leaf(WRITER), "d/test/a.json": leaf(WRITER)}),
    "emnist.npz": (
        ("femnist", "data_dir=d", "layout=fedprox", "num_clients=2"),
        {"d/emnist.npz": npz(X=np.zeros((20, 28, 28), np.uint8), y=LETTERS)},
    ),
}
"""Whole files in every format, and the words after ``feddr data`` that read them."""


def command(words: tuple[str, ...], files: Mapping[str, bytes], out: str = BLOCKED) -> Case:
    """Return the case in which the files are read."""
    sets = [word for one in words[1:] for word in ("--set", one)]
    return Case(("data", words[0], *sets, "--out", out), files)


def traced(content: bytes) -> Case:
    """Return the case in which the file is a trace of delays."""
    tables = {**BASES[4], "delays": {"name": "Trace", "path": "t.csv"}}
    return Case(
        ("compare", "case.toml", "--out", "taken", "--quiet"),
        {"case.toml": document(tables).encode(), "t.csv": content},
    )


WORDS = [
    *(b"", b"nan", b"inf", b"-1", b"1e999", b"9" * 400, b"0", b"x", b"?", b'"', b",", b":", b"\n", b"\r", b"\x00"),
    *(b"\xff", "٣".encode(), "é".encode(), b"[" * 2000, b"{}", b"null", b"true", b"1:1:1", b"4294967296:1"),
    *(b"-0", b"1e-400", b"0x1", b"1_0", b"#", b"$x$", b"\xef\xbb\xbf", b"," * 50, b"a" * 140_000),
]
"""What may stand in the place of a number."""


def spoil(data: bytes, how: str, place: float, word: bytes, size: int) -> bytes:
    """Return the bytes of a file with something wrong in them, at a place from 0 to 1."""
    start = int(place * len(data))
    text = {
        "cut": lambda: data[:start],
        "flip": lambda: (
            data[:start] + bytes(byte ^ (1 << size % 8) for byte in data[start : start + 1]) + data[start + 1 :]
        ),
        "put": lambda: data[:start] + word + data[start:],
        "over": lambda: data[:start] + word + data[start + len(word) :],
        "remove": lambda: data[:start] + data[start + size :],
        "double": lambda: data[: start + size] + data[start:],
        "end": lambda: data + word,
        "only": lambda: word,
        "number": lambda: _number(data, place, word),
        "zeros": lambda: data[:start] + bytes(size) + data[start + size :],
    }
    return text[how]()


def _number(data: bytes, place: float, word: bytes) -> bytes:
    """Replace what stands between two commas, colons, spaces or brackets."""
    ends = [i for i, letter in enumerate(data) if letter in b",: \n[]"]
    if not ends:
        return word
    i = min(int(place * len(ends)), len(ends) - 1)
    return data[: ends[i] + 1] + word + data[ends[i + 1] if i + 1 < len(ends) else len(data) :]


HOW = ("cut", "flip", "put", "over", "remove", "double", "end", "only", "number", "number", "zeros")
PACK: Mapping[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    ".gz": (gzip.compress, gzip.decompress),
    ".bz2": (bz2.compress, bz2.decompress),
    ".xz": (lzma.compress, lzma.decompress),
}


def _spoilt(data: bytes, suffix: str, inside: bool, *change: Any) -> bytes:
    pack, unpack = PACK.get(suffix, (bytes, bytes))
    return pack(spoil(unpack(data), *change)) if inside else spoil(data, *change)


@st.composite
def data_files(draw: st.DrawFn) -> Case:
    """Draw a set of files of which one is spoilt: as it is on the disk, or what was packed in it."""
    how, place = draw(st.sampled_from(HOW)), draw(st.floats(0, 1, exclude_max=True))
    word, size = draw(st.one_of(st.sampled_from(WORDS), st.binary(max_size=9))), draw(st.integers(0, 40))
    kind = draw(st.sampled_from([*WHOLE, "trace", "npz arrays", "npz header", "idx header", "leaf values"]))
    if kind == "trace":
        return traced(spoil(TRACE, how, place, word, size))
    if kind == "npz arrays":
        arrays = {draw(st.sampled_from(["X", "y", "writer", "is_test"])): draw(st.sampled_from(odd_arrays()))}
        return command(WHOLE["npz"][0], {"d/mnist_writers.npz": digits_npz(**arrays)})
    if kind == "npz header":
        return command(WHOLE["npz"][0], {"d/mnist_writers.npz": headed(draw(st.sampled_from(HEADERS)))})
    if kind == "idx header":
        sizes = draw(st.lists(st.sampled_from([0, 1, 12, 28, 2**16, 2**31, 2**32 - 1]), min_size=3, max_size=3))
        head = bytes([0, 0, draw(st.sampled_from([8, 9, 12, 13])), 3]) + np.array(sizes, ">u4").tobytes()
        packed = idx_bytes(DIGITS.images)[16:]
        return command(WHOLE["idx"][0], {**WHOLE["idx"][1], "d/train-images-idx3-ubyte": head + packed})
    if kind == "leaf values":
        return command(WHOLE["leaf"][0], {"f.json": draw(st.sampled_from(odd_leaves()))})
    words, files = WHOLE[kind]
    name = draw(st.sampled_from(sorted(files)))
    suffix = next((end for end in PACK if name.endswith(end)), "")
    changed = _spoilt(files[name], suffix, draw(st.booleans()), how, place, word, size)
    out = "new" if draw(st.integers(0, 24)) == 24 else BLOCKED
    return command(words, {**files, name: changed}, out)


def odd_arrays() -> list[Any]:
    """Return arrays that no set of digits may have."""
    n = len(DIGITS.labels)
    return [
        *(np.zeros(0), np.zeros(()), np.zeros((n, 28, 28)), np.zeros(n), np.full(n, np.nan), np.full(n, np.inf)),
        *(np.zeros(n, complex), np.zeros(n, "U3"), np.zeros(n, "S3"), np.zeros(n, "M8[s]"), np.zeros(n, "m8[s]")),
        *(np.zeros(n, [("a", "i4"), ("b", "f8")]), np.zeros(n, object), np.zeros(n, "V4"), np.zeros(n, bool)),
        *(np.full(n, -1), np.full(n, 10), np.full(n, 2**63, np.uint64), np.zeros(n + 1, int), np.zeros((n, 1))),
        *(np.zeros((n, 28, 28), ">u2"), np.zeros((n, 28, 28), bool), np.zeros((1, 28, 28), np.uint8), np.ones(n, "f2")),
    ]


HEADERS = [
    *("{'descr': '|u1', 'fortran_order': False, 'shape': (4294967296, 28, 28)}", "{'descr': '|u1', 'shape': (1,)}"),
    *("{'descr': '|O', 'fortran_order': False, 'shape': (12, 28, 28)}", "", "{", "[" * 5000, "-" * 9000 + "1"),
    *("{'descr': '|u1', 'fortran_order': False, 'shape': (-1, 28, 28)}", "__import__('os').system('touch pwned')"),
    *("{'descr': 'x', 'fortran_order': False, 'shape': (1,)}", "{'descr': [], 'fortran_order': False, 'shape': (1,)}"),
    *("{'descr': '|u1', 'fortran_order': 3, 'shape': 'a'}", "{'descr': '|V0', 'fortran_order': False, 'shape': (0,)}"),
    *("{'descr': ('|u1', (2,)), 'fortran_order': False, 'shape': (12,)}", "{1: 2}", "None", "{'a'}", "\x00", "é"),
    *("{'descr': '|u1', 'fortran_order': True, 'shape': ()}", "(" * 150),
    "{'descr': '|S0', 'fortran_order': False, 'shape': (9999999999, 28, 28)}",
]


def headed(header: str) -> bytes:
    """Return a file of NumPy in which X has another header."""
    stream, text = io.BytesIO(), header.encode("latin1") + b"\n"
    with zipfile.ZipFile(io.BytesIO(digits_npz())) as whole, zipfile.ZipFile(stream, "w") as archive:
        for name in ("y.npy", "writer.npy", "is_test.npy"):
            archive.writestr(name, whole.read(name))
        head = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
        archive.writestr("X.npy", head + DIGITS.images.tobytes())
    return stream.getvalue()


def odd_leaves() -> list[bytes]:
    """Return JSON that no file of LEAF may be."""
    odd: list[Any] = [None, True, 3, -1, 1e999, "x", [], [[]], [None], ["a"], [[1], [1, 2]], {}, {"x": 1}, [1, 2]]
    found = [json.dumps(value).encode() for value in odd]
    for value in odd:
        found += [leaf(**{key: value}) for key in ("users", "num_samples", "user_data")]
        user = {"x": [[1, 2]], "y": [0]}
        found += [leaf(user_data={"u": {**user, key: value}, "v": user}) for key in ("x", "y")]
        found += [leaf(user_data={"u": value, "v": user})]
    return [*found, b"[" * 100_000, b'{"a":' * 100_000, leaf()[:-1] + b', "users": []}', b"\xff\xfe", b"9" * 5000]


def systematic(seed: int) -> Iterator[Case]:
    """Yield every kind of damage at some places of every file, and every odd array, header and JSON."""
    rng = random.Random(seed)
    cases = [command(WHOLE["leaf"][0], {"f.json": content}) for content in odd_leaves()]
    cases += [command(WHOLE["npz"][0], {"d/mnist_writers.npz": headed(header)}) for header in HEADERS]
    for name in ("X", "y", "writer", "is_test"):
        cases += [command(WHOLE["npz"][0], {"d/mnist_writers.npz": digits_npz(**{name: one})}) for one in odd_arrays()]
    cases += [traced(spoil(TRACE, "number", rng.random(), word, 3)) for word in WORDS]
    cases += [traced(spoil(TRACE, how, rng.random(), rng.choice(WORDS), 9)) for how in HOW for _ in range(3)]
    for words, files in WHOLE.values():
        for how in HOW:
            name = rng.choice(sorted(files))
            suffix = next((end for end in PACK if name.endswith(end)), "")
            for inside in (False, True):
                change = how, rng.random(), rng.choice(WORDS), rng.randrange(40)
                cases.append(command(words, {**files, name: _spoilt(files[name], suffix, inside, *change)}))
    rng.shuffle(cases)
    yield from cases
