"""Names of variables: none that says nothing about what it holds."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "feddr"

VAGUE = {"found", "given", "place", "how", "told", "crew", "keeper", "post", "turns", "intake"}
"""A variable has the name of what it holds: matches, folder, axis, options; see docs/GLOSSARY.md."""


def named(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield what code gives a name to, with the line: variables, parameters, fields, functions, attributes of self."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.alias):
            yield node.asname or node.name, node.lineno
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name, node.lineno


@pytest.mark.parametrize(
    "code",
    [
        "found = 1",
        "for place in (): pass",
        "def f(given): pass",
        "def how(): pass",
        "[0 for told in ()]",
        "self.place = 1",
        "class Finding:\n    found: str",
        "import numpy as place",
        "with open('') as found: pass",
        "(found := 1)",
        "lambda *given: 0",
    ],
)
def test_every_way_to_give_a_name_is_seen(code: str) -> None:
    assert VAGUE & {name for name, _ in named(ast.parse(code))}


def test_names_say_what_they_hold() -> None:
    vague = [
        f"{path.relative_to(SOURCE)}:{line}: {name}"
        for path in sorted(SOURCE.rglob("*.py"))
        for name, line in named(ast.parse(path.read_text()))
        if name in VAGUE
    ]
    assert vague == [], "name it for what it holds"
