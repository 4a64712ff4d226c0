"""A mod that misbehaves on purpose, as the first word of the file ``faults`` in the node's folder says."""

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp.typing import ClientAppCallable

GIGABYTES_10 = 10 * 2**30


def misbehave(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Train as told, except that something may happen before or after."""
    if not message.metadata.message_type.startswith("train"):
        return call_next(message, context)
    folder = Path(str(context.node_config["feddr-folder"]))
    fault, _, more = _next(folder / "faults").partition(" ")
    time.sleep(float(context.node_config.get("delay", 0.0)))
    if fault == "hold-before":
        _hold(folder, more)
    reply = call_next(message, context)
    if fault == "hold-after":
        _hold(folder, more)
    if fault == "drop":
        os._exit(9)
    if fault == "sleep":
        time.sleep(float(more))
    previous = folder / "previous"
    content = _repeated(previous) if fault == "repeat" else _spoil(fault, reply.content)
    _keep(previous, reply.content)
    return Message(content, reply_to=message)


def _next(path: Path) -> str:
    """Take the first line of a file."""
    words = path.read_text().splitlines() if path.exists() else []
    if words:
        path.write_text("\n".join(words[1:]))
    return words[0] if words else ""


def _hold(folder: Path, which: str) -> None:
    """Say who waits, and wait to be killed or released."""
    (folder / f"held{which}").write_text(str(os.getpid()))
    while not (folder / f"release{which}").exists():
        time.sleep(0.05)


def _spoil(fault: str, content: RecordDict) -> RecordDict:
    fields: dict[str, Any] = dict(content["feddr"])
    arrays: dict[str, Array] = dict(content.array_records["arrays"])
    name, array = next(iter(arrays.items()))
    small = array.data
    spoilt = {
        "nan": lambda: Array(np.full_like(array.numpy(), np.nan)),
        "infinity": lambda: Array(np.full_like(array.numpy(), np.inf)),
        "shape": lambda: Array(np.zeros((*array.shape, 2))),
        "type": lambda: Array(array.numpy().astype(np.float32)),
        "announce": lambda: Array("float64", (GIGABYTES_10 // 8,), "numpy.ndarray", small),
        "header": lambda: Array("float64", array.shape, "numpy.ndarray", _header(GIGABYTES_10 // 8)),
        "garbage": lambda: Array("float64", array.shape, "numpy.ndarray", b"\x80\x04pickle?"),
        "damage": lambda: Array(array.dtype, array.shape, array.stype, small[:-1] + bytes([small[-1] ^ 1])),
    }
    if fault in spoilt:
        arrays[name] = spoilt[fault]()
    if fault == "foreign":
        fields["uid"] = "another-run"
    if fault == "stale":
        fields["number"] = max(0, fields["number"] - 1)
    return RecordDict({"feddr": ConfigRecord(fields), "arrays": ArrayRecord(arrays)})


def _header(count: int) -> bytes:
    """Return the head of a file in NumPy's format that promises more than it holds."""
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({count},), }}".encode()
    text = text.ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(32)


def _keep(path: Path, content: RecordDict) -> None:
    arrays = {
        name: [a.dtype, list(a.shape), a.stype, a.data.hex()] for name, a in content.array_records["arrays"].items()
    }
    path.write_text(json.dumps({"fields": dict(content["feddr"]), "arrays": arrays}))


def _repeated(path: Path) -> RecordDict:
    kept = json.loads(path.read_text())
    arrays = {name: Array(a[0], tuple(a[1]), a[2], bytes.fromhex(a[3])) for name, a in kept["arrays"].items()}
    return RecordDict({"feddr": ConfigRecord(kept["fields"]), "arrays": ArrayRecord(arrays)})
