"""The architecture: imports go downwards through the layers of docs/ARCHITECTURE.md, without cycles."""

import ast
import collections
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parents[1] / "src"

LAYERS = (
    # what everything may use
    ("display", "tree", "precision", "validation", "storage", "xla"),
    # the mathematics
    (
        *("preparation", "data", "datasets", "models", "prox", "problem", "sampling"),
        *("local", "algorithms", "delays", "metrics", "history", "early_stopping", "theory"),
        *("compress", "inference", "privacy"),
    ),
    ("torch",),
    # the engines
    ("engines.shared", "engines.clock", "engines.result", "checkpoint", "certify", "plots"),
    ("engines",),
    ("testing", "estimators"),
    # what is made of runs
    (
        "config",
        "experiments",
        "runs",
        "report",
        "tune",
        "reproduce",
        "sites",
        "secure",
        "flower",
        "deploy",
        "plots.tune",
        "plots.reproduce",
    ),
    # what people type
    ("commands",),
    ("__main__",),
)
"""From the lowest to the highest; a module belongs to its longest prefix."""


ACROSS = {"agreement", "fuzz", "modules", "reliability"}
"""Folders of tests that are not those of one package; docs/ARCHITECTURE.md says what they are for."""


class Import(NamedTuple):
    """A module, what it imports, the line, and whether only type checkers see it."""

    module: str
    imported: str
    line: int
    for_types: bool


def modules() -> dict[str, Path]:
    """Return the modules of the package by their dotted names without the first part."""
    found = {}
    for path in sorted((SOURCE / "feddr").rglob("*.py")):
        parts = path.relative_to(SOURCE / "feddr").with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def layer(module: str) -> int:
    """Return the layer of a module; -1 for the package itself, which imports nothing before it is asked to."""
    places = {name: k for k, names in enumerate(LAYERS) for name in names}
    while module:
        if module in places:
            return places[module]
        module = module.rpartition(".")[0]
    return -1


def imports(module: str) -> Iterator[Import]:
    """Yield everything of the package that a module imports, wherever the statement is."""
    source = ast.parse(MODULES[module].read_text())
    guarded = {
        id(node)
        for test in ast.walk(source)
        if isinstance(test, ast.If) and "TYPE_CHECKING" in ast.dump(test.test)
        for node in ast.walk(test)
    }
    for node in ast.walk(source):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        prefix = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        for name in (prefix + alias.name for alias in node.names):
            if name.split(".")[0] == "feddr":
                short = name.removeprefix("feddr").removeprefix(".")
                target = short if short in MODULES else short.rpartition(".")[0]
                yield Import(module, target, node.lineno, id(node) in guarded)


EVERYTHING = [found for module in MODULES for found in imports(module)]


def test_every_module_has_a_layer() -> None:
    assert [module for module in MODULES if layer(module) < 0] == [""]
    assert len(EVERYTHING) > 500


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_downwards(module: str) -> None:
    upwards = [
        f"{MODULES[module]}:{found.line} imports feddr.{found.imported}"
        for found in EVERYTHING
        if found.module == module != "" and layer(found.imported) > layer(module)
    ]
    assert upwards == []


def test_no_module_imports_itself_through_others() -> None:
    """Also where a function imports; what only type checkers see does not count."""
    graph = collections.defaultdict(set)
    for found in EVERYTHING:
        if not found.for_types and found.module and found.imported not in ("", found.module):
            graph[found.module].add(found.imported)
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, f"a cycle: {' -> '.join((*path[path.index(module) :], module))}"
        if module not in done:
            for other in sorted(graph[module]):
                visit(other, (*path, module))
            done.add(module)

    for module in MODULES:
        visit(module, ())


def test_tests_have_the_tree_of_the_source() -> None:
    tests = Path(__file__).parent
    folders = {str(path.parent.relative_to(tests)) for path in tests.rglob("test_*.py")} - {"."}
    packages = {name.replace(".", "/") for name, path in MODULES.items() if path.name == "__init__.py"}
    assert folders - packages == ACROSS
    assert [path.name for path in tests.glob("test_*.py") if path.stem.removeprefix("test_") in packages] == []


def test_no_class_name_is_used_twice() -> None:
    homes = collections.defaultdict(list)
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(module)
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}
