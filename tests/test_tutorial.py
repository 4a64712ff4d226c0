"""The tutorial notebook: its cells run one after the other, in a program of their own, and it shows what it says.

Its code is run without a kernel, so that the tests need no Jupyter: a cell is what Python executes, and what its last
line shows must have a picture or a table for notebooks.
"""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "tutorial.ipynb"
CELLS = [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def as_program() -> str:
    """Return all cells as one program, in which what the last line of a cell has for a notebook is asked for."""
    lines: list[str] = []
    for cell in CELLS:
        *before, last = ast.parse("".join(cell["source"])).body
        lines += map(ast.unparse, before)
        if isinstance(last, ast.Expr) and not ast.unparse(last).startswith("print("):
            lines.append(f"shown = {ast.unparse(last)}")
            lines.append("assert shown._repr_html_() or shown._repr_png_()")
            lines.append("print('shown', type(shown).__name__)")
        else:
            lines.append(ast.unparse(last))
    return "\n".join(lines)


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", as_program()],
        cwd=tmp_path_factory.mktemp("tutorial"),
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_cell_runs_and_shows_something(output: str) -> None:
    shown = [line.split()[1] for line in output.splitlines() if line.startswith("shown ")]
    assert shown == ["FederatedData", "Problem", "Result", "NotebookFigure", "DataFrame"]


def test_what_is_noise_gets_the_weight_zero(output: str) -> None:
    weights = {
        line.split("  ")[0]: float(line.split("(")[0].split()[-1]) for line in output.splitlines() if "(true" in line
    }
    assert weights["age"] > weights["pressure"] > weights["sugar"] > 0.3
    assert weights["height"] == weights["shoe size"] == weights["hour of birth"] == 0


def test_the_stored_outputs_are_those_of_this_code(output: str) -> None:
    stored = [text for cell in CELLS for out in cell["outputs"] if out.get("name") == "stdout" for text in out["text"]]
    assert "".join(stored).splitlines() == [line for line in output.splitlines() if not line.startswith("shown ")]
    assert any("image/png" in out.get("data", {}) for cell in CELLS for out in cell["outputs"])
