"""Encoding of checkpoints: the state of a run as named arrays, and back, bit for bit."""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import jax
import numpy as np
from numpy.typing import NDArray

from feddr.engines.clock.events import Event
from feddr.history import COLUMNS, COUNTERS, History, Row
from feddr.storage import tensors
from feddr.storage.tensors import Arrays as Arrays
from feddr.tree import Tree

SEGMENT = 32 * 2**20
"""Bytes of client states that are packed at a time, about."""

KINDS = ("receiving", "computing", "sending", "lost", "idle", "offline", "server")


class Stateful(Protocol):
    """A part of a run that a checkpoint holds."""

    def state_dict(self) -> Arrays:
        """Return everything that the rest of the run depends on."""

    def load_state_dict(self, arrays: Arrays) -> None:
        """Load what ``state_dict`` returned, in a new run with the same settings."""


def flatten(name: str, a: Tree) -> Arrays:
    """Return the leaves of a tree as ``name.0``, ``name.1``, ..."""
    return {f"{name}.{j}": np.asarray(leaf) for j, leaf in enumerate(jax.tree.leaves(a))}


def unflatten(name: str, template: Tree, arrays: Arrays) -> Tree:
    """Return the tree that ``flatten`` took apart; the template has its structure."""
    return tensors.rebuild(template, [arrays[f"{name}.{j}"] for j, _ in enumerate(jax.tree.leaves(template))])


def add_prefix(name: str, arrays: Arrays) -> Arrays:
    """Return the arrays with their names under another one."""
    return {f"{name}/{key}": array for key, array in arrays.items()}


def strip_prefix(name: str, arrays: Arrays) -> Arrays:
    """Return the arrays whose names are under another one, without it."""
    return {key.removeprefix(f"{name}/"): array for key, array in arrays.items() if key.startswith(f"{name}/")}


def history(rows: History) -> Arrays:
    """Return the columns of a history, its metrics, and the tables of its clients."""
    kinds = {name: np.int64 if name in COUNTERS else np.float64 for name in COLUMNS}
    arrays = {name: np.array(rows.column(name), kind) for name, kind in kinds.items()}
    for j, name in enumerate(rows.metrics):  # numbered, since files do not keep the order
        arrays[f"metrics/{j}/{name}"] = np.array(rows.column(name), np.float64)
    for number, table in rows.clients.tables.items():
        for j, (name, column) in enumerate(table.items()):
            arrays[f"clients/{number}/{j}/{name}"] = column
    return arrays


def rows(arrays: Arrays) -> History:
    """Return the history whose columns ``history`` returned."""
    columns = [arrays[name].tolist() for name in COLUMNS]
    further = {name: array.tolist() for name, array in _in_order(strip_prefix("metrics", arrays))}
    restored = History([Row(*values) for values in zip(*columns, strict=True)])
    if further:
        each = ({name: values[j] for name, values in further.items()} for j in range(len(restored)))
        restored.rows = [replace(row, metrics=values) for row, values in zip(restored.rows, each, strict=True)]
    clients = strip_prefix("clients", arrays)
    for number in sorted({int(key.partition("/")[0]) for key in clients}):
        restored.clients.add(number, dict(_in_order(strip_prefix(str(number), clients))))
    return restored


def _in_order(arrays: Arrays) -> list[tuple[str, NDArray[Any]]]:
    """Return arrays under numbers in the order of these, by name."""
    keys = sorted(arrays, key=lambda key: int(key.partition("/")[0]))
    return [(key.partition("/")[2], arrays[key]) for key in keys]


def timeline(events: Sequence[Event]) -> Arrays:
    """Return events as two tables."""
    code = {kind: j for j, kind in enumerate(KINDS)}
    integers = [(event.client, code[event.kind], event.read, event.arrived) for event in events]
    times = [(event.start, event.end) for event in events]
    return {"whole": np.array(integers, np.int64).reshape(-1, 4), "times": np.array(times, np.float64).reshape(-1, 2)}


def events(arrays: Arrays) -> list[Event]:
    """Return the events from the tables of ``timeline``."""
    return [
        Event(client, KINDS[kind], start, end, read, arrived)
        for (client, kind, read, arrived), (start, end) in zip(
            arrays["whole"].tolist(), arrays["times"].tolist(), strict=True
        )
    ]


def pairs(mapping: Mapping[int, Any], dtype: Any) -> Arrays:
    """Return a mapping from clients to numbers as two arrays."""
    return {"keys": np.array(list(mapping), np.int64), "values": np.array(list(mapping.values()), dtype)}


def mapping(arrays: Arrays) -> dict[int, Any]:
    """Return the mapping from the arrays of ``pairs``, in its order."""
    return dict(zip(arrays["keys"].tolist(), arrays["values"].tolist(), strict=True))


def segments(clients: Mapping[int, Any]) -> Iterator[Arrays]:
    """Yield the states of clients in segments, so that they are not in memory twice."""
    ids: list[int] = []
    states: list[list[NDArray[Any]]] = []
    size = 0
    for i, state in clients.items():
        ids.append(i)
        states.append([np.asarray(leaf) for leaf in jax.tree.leaves(state)])
        size += sum(leaf.nbytes for leaf in states[-1])
        if size >= SEGMENT:
            yield _stack(ids, states)
            ids, states, size = [], [], 0
    if ids:
        yield _stack(ids, states)


def fill(clients: MutableMapping[int, Any], template: Any, stored: Iterable[Arrays]) -> None:
    """Put the states that ``segments`` yielded into a store, in their order."""
    size = len(jax.tree.leaves(template))
    for segment in stored:
        for row, i in enumerate(segment["clients"].tolist()):
            clients[i] = tensors.rebuild(template, [segment[f"leaf.{j}"][row] for j in range(size)])


def _stack(ids: list[int], states: list[list[NDArray[Any]]]) -> Arrays:
    columns = {f"leaf.{j}": np.stack(column) for j, column in enumerate(zip(*states, strict=True))}
    return {"clients": np.array(ids, np.int64), **columns}
