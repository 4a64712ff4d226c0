"""What the package imports is what its metadata asks for; what another package brings may be gone tomorrow."""

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BROUGHT = {"jaxlib": "jax", "PIL": "matplotlib", "grpc": "flwr", "cryptography": "flwr", "starlette": "flwr"}
"""Packages that are a part of another one, or that it cannot do without."""
IMPORTED_AS = {
    "dp_accounting": "dp-accounting",
    "mlflow": "mlflow-skinny",
    "tensorboardX": "tensorboardx",
    "sklearn": "scikit-learn",
}
RUNNING = {"IPython"}
"""Imported in notebooks only, where it runs already."""


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=!~;, ]", requirement)[0].lower() for requirement in requirements}


def imports(path: Path) -> dict[str, bool]:
    """The packages that a file imports, and whether already when it is imported itself."""
    tree = ast.parse(path.read_text())
    later = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) or _for_types(node)]
    late = {node for outer in later for node in ast.walk(outer)}
    found: dict[str, bool] = {}
    for node in ast.walk(tree):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            modules = [node.module or ""]
        for module in modules:
            top = module.split(".")[0]
            found[top] = found.get(top, False) or node not in late
    return {top: early for top, early in found.items() if top not in sys.stdlib_module_names and top != "feddr"}


def _for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def test_every_import_is_a_dependency() -> None:
    needed = names(PROJECT["dependencies"])
    optional = needed | RUNNING
    for extra in ("dp", "flower", "ray", "torch", "tensorboard", "mlflow", "modules", "onnx", "parquet", "sklearn"):
        optional |= names(PROJECT["optional-dependencies"][extra])
    missing = []
    for path in (ROOT / "src" / "feddr").rglob("*.py"):
        own = (
            path.parent.name in ("flower", "deploy", "secure", "estimators") or path.name == "torch.py"
        )  # an extra's own rooms
        for top, early in imports(path).items():
            package = IMPORTED_AS.get(top, BROUGHT.get(top, top))
            if package not in (needed if early and not own else optional):
                missing.append((top, path.name))
    assert not missing


def test_the_oldest_versions_that_are_tried_are_those_that_are_allowed() -> None:
    lines = (ROOT / "constraints-oldest.txt").read_text().splitlines()
    tried = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert tried.pop("jaxlib") == tried["jax"]  # a part of it
    allowed = dict(requirement.split(">=") for requirement in PROJECT["dependencies"])
    assert tried.keys() == allowed.keys()
    for name, least in allowed.items():
        assert tried[name] == least or re.fullmatch(rf"{re.escape(least)}(\.0)+", tried[name]), name


def test_the_oldest_versions_of_the_extras_are_those_that_are_allowed() -> None:
    """Flower, Ray, PyTorch and jax2onnx are tried in them by all tests, as constraints.txt has no others."""
    extras = ("flower", "ray", "torch", "tensorboard", "mlflow", "onnx", "parquet", "sklearn")
    lines = (ROOT / "constraints-oldest-extras.txt").read_text().splitlines()
    tried = {
        name.lower(): version for name, version in (line.split("==") for line in lines if not line.startswith("#"))
    }
    requirements = [one for extra in extras for one in PROJECT["optional-dependencies"][extra]]
    allowed = {}
    for requirement in requirements:
        found = re.match(r"([\w-]+)(?:>=|==)([\w.]+)", requirement)
        assert found is not None, requirement
        allowed[found[1].lower()] = found[2]
    assert tried.keys() == allowed.keys()
    for name, least in allowed.items():
        assert tried[name] == least or re.fullmatch(rf"{re.escape(least)}(\.0)+", tried[name]), name
    installed = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    for name in ("flwr", "ray", "torch", "torchax", "jax2onnx"):
        assert installed[name].split(";")[0].strip() == tried[name], f"{name} is not tried in its oldest version"
