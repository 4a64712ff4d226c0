"""Source code that repeats a run started from Python; the problem and the user's own functions are its parameters."""

import ast
from collections.abc import Mapping
from typing import Any

from feddr.config.components import TABLE
from feddr.metrics import named

HOMES = {
    "algorithm": dict.fromkeys(TABLE["algorithm"][1], "feddr"),
    "local": {name: TABLE[kind][0] for kind in ("local", "schedule", "stopping") for name in TABLE[kind][1]},
    "sampling": dict.fromkeys(TABLE["sampling"][1], "feddr.sampling"),
    "delays": dict.fromkeys(TABLE["delays"][1], "feddr.delays"),
}
"""Where the classes of a setting are found."""

ALLOWED = (
    ast.Expression,
    ast.Call,
    ast.Name,
    ast.Load,
    ast.keyword,
    ast.Constant,
    ast.Tuple,
    ast.List,
    ast.UnaryOp,
    ast.USub,
)
"""What the words of a setting may consist of."""

ENGINES = {"clock": "simulate_async", "reference": "reference"}

TEXTS = ("local", "sampling", "concurrency", "rounds", "updates", "evaluate_every")
"""Arguments that settings have as Python would write them."""

VALUES = ("seed", "precision", "personal", "per_client", "stop_when", "certify", "on_bad_client")
"""Arguments that settings have as they are."""


class _UnknownError(Exception):
    """A setting has a name that is not one of feddr's."""


def program(settings: Mapping[str, Any]) -> str:
    """Return a program with a function that repeats a run started from Python, from its settings.json.

    The problem is an argument of the function, and so is what has no words, such as a function of the user's.

    Examples
    --------
    >>> print(program({"algorithm": "FedDR(eta=1.0)", "local": "SGD(lr=0.1)", "rounds": 3, "seed": 0}))
    import feddr
    <BLANKLINE>
    <BLANKLINE>
    def run_again(problem):
        return feddr.simulate(
            problem,
            feddr.FedDR(eta=1.0),
            local=feddr.local.SGD(lr=0.1),
            rounds=3,
            seed=0,
        )
    """
    parameters = ["problem"]

    def words(name: str, text: Any) -> str:
        try:
            return _qualified(str(text), HOMES.get(name, {}))
        except (SyntaxError, ValueError, _UnknownError, RecursionError):
            parameters.append(name)
            return name

    def metric(name: str) -> str:
        try:
            named(name)
        except ValueError:
            parameters.append(name)
            return name
        return repr(name)

    lines = ["problem", words("algorithm", settings.get("algorithm", "?"))]
    lines += [f"{name}={words(name, settings[name])}" for name in TEXTS if settings.get(name) is not None]
    if settings.get("delays") is not None:
        until = settings.get("deadline")
        deadline = "" if until is None else f", deadline={until!r}"
        lines.append(f"clock=feddr.Clock({words('delays', settings['delays'])}{deadline})")
    lines += [f"{name}={settings[name]!r}" for name in VALUES if settings.get(name) is not None]
    asked = settings.get("metrics")
    names = [name for name in asked if str(name).isidentifier()] if isinstance(asked, list) else []
    lines += [f"metrics=[{', '.join(map(metric, names))}]"] if names else []
    function = ENGINES.get(str(settings.get("engine")), "simulate")
    body = "".join(f"\n        {line}," for line in lines)
    return f"import feddr\n\n\ndef run_again({', '.join(parameters)}):\n    return feddr.{function}({body}\n    )"


def _qualified(text: str, homes: Mapping[str, str]) -> str:
    """Return an expression with the modules of its classes before them."""
    expression = ast.parse(text, mode="eval")
    if not all(isinstance(node, ALLOWED) for node in ast.walk(expression)):
        raise _UnknownError(text)
    return ast.unparse(_Qualify(homes).visit(expression))


class _Qualify(ast.NodeTransformer):
    """Puts the module of a class before its name; other names are not known."""

    def __init__(self, homes: Mapping[str, str]) -> None:
        self.homes = homes

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if not isinstance(node.func, ast.Name):
            raise _UnknownError
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in ("inf", "nan"):
            return ast.parse(f"float({node.id!r})", mode="eval").body
        if node.id not in self.homes:
            raise _UnknownError(node.id)
        return ast.parse(f"{self.homes[node.id]}.{node.id}", mode="eval").body
