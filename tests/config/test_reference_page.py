"""The reference of the config: made from the code, complete, and every example of it is one."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

import feddr
from feddr.config import components, parse, schema, toml

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))
import make_config  # noqa: E402

BASE: dict[str, Any] = {
    **schema.EXAMPLE,
    "data": {"name": "synthetic", "r": 1.0, "s": 1.0, "num_clients": 3},
}
EXAMPLES = list(make_config.examples())
NEEDS_FILES = ("client_files", "csv", "femnist", "heart_disease", "leaf", "libsvm", "mnist", "Trace")


def with_example(kind: str, table: dict[str, Any]) -> dict[str, Any]:
    """Return an experiment with this table in the place where it belongs."""
    method = {"name": "FedDR", "eta": 1.0}
    if kind == "algorithm":
        clock = {"engine": "clock", "updates": 3} if table["name"] in components.ASYNCHRONOUS else {}
        return {**BASE, **clock, "algorithm": [table]}
    if kind in ("upload", "privacy"):
        return {**BASE, "algorithm": [{**method, kind: table}]}
    if kind == "schedule":
        return {**BASE, "local": {"name": "SGD", "lr": table}}
    if kind == "stopping":
        return {**BASE, "local": {"name": "Accelerated", "stopping": table}}
    if kind == "delays":
        return {**BASE, "engine": "clock", "delays": table}
    return {**BASE, kind: table}


def sections(page: str) -> dict[str, list[str]]:
    """Return the keys of the table under each heading."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in page.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        key = re.match(r"\| `(\w+)` \|", line)
        if key:
            found.setdefault(heading, []).append(key[1])
    return found


def test_the_page_is_what_the_code_says() -> None:
    assert make_config.PAGE.read_text() == make_config.page(), "run: python docs/make_config.py"


def test_no_key_is_missing_and_none_is_unknown() -> None:
    wanted = {"Keys of the experiment": list(schema.SCALARS)}
    for kind, (_, names) in components.TABLE.items():
        wanted |= {f"{kind} {name}": list(components.settings(kind, name)) for name in names}
    assert sections(make_config.PAGE.read_text()) == {heading: keys for heading, keys in wanted.items() if keys}


@pytest.mark.parametrize(("kind", "name", "table"), EXAMPLES, ids=[f"{kind}-{name}" for kind, name, _ in EXAMPLES])
def test_every_example_is_accepted(kind: str, name: str, table: dict[str, Any]) -> None:
    """As it stands on the page, read from TOML; what names no file is made, too."""
    page = make_config.PAGE.read_text()
    section = page.split(f"### {kind} {name}\n")[1].split("\n### ")[0]
    shown = re.findall(r"```toml\n(.*?)```", section, re.DOTALL)[0]
    read = toml.loads(shown)
    assert next(iter(read.values())) == table
    config = parse(with_example(kind, table))
    if name not in NEEDS_FILES and kind not in ("data", "model"):
        part = {"algorithm": config.algorithms[0].algorithm}.get(kind) or getattr(config, kind, None) or config.local
        assert isinstance(part, components.Component)
        key = kind if kind in ("algorithm", "g", "sampling", "delays", "local") else "local"
        assert feddr.config.build.__module__  # the builder of components is that of experiments
        from feddr.config.build import make

        assert make(key, part) is not None


@pytest.mark.parametrize("key", list(schema.SCALARS))
def test_every_example_of_a_key_is_accepted(key: str) -> None:
    row = next(line for line in make_config.PAGE.read_text().splitlines() if line.startswith(f"| `{key}` |"))
    shown = re.findall(rf"`({key} = [^`]*)`", row)[0]
    clock = {"engine": "clock"} if key in ("deadline", "concurrency") else {}
    config = parse({**BASE, **clock, **toml.loads(shown)})
    value = getattr(config, key)
    assert (list(value) if isinstance(value, tuple) else value) == make_config.KEYS[key][0]


def test_the_whole_experiment_runs() -> None:
    assert make_config.WHOLE in make_config.PAGE.read_text()
    config = parse({**toml.loads(make_config.WHOLE), "rounds": 1})
    problem, runs = feddr.config.build(config)
    assert [run.label for run in runs] == ["FedDR", "smaller steps", "FedMid"]
    result = feddr.config.perform(config, problem, runs[0])
    assert {"test_f1", "test_auc", "worst_client_test_accuracy"} <= set(result.history.last.metrics)
