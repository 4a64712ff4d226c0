"""What the documentation says exists, runs and can be found; ``make docs`` builds the site, which no test needs."""

import ast
import doctest
import importlib
import importlib.util
import inspect
import os
import pkgutil
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import typer

import feddr
from feddr import algorithms, prox
from feddr.commands.main import app

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LEFT_OUT = {"site", "runs", "dist", "node_modules"}
PAGES = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not any(part.startswith(".") or part in LEFT_OUT for part in path.relative_to(ROOT).parts)
)
FENCE = re.compile(r"^( *)(`{3,})(\w*)[^\n]*\n(.*?)^\1\2 *$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^()\s]+(?:\([^()\s]*\))?)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
REGULARISERS = sorted(
    name for name in prox.__all__ if isinstance(found := getattr(prox, name), type) and "prox" in vars(found)
)
REGULARISERS.remove("Regulariser")  # the protocol


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def prose(path: Path) -> str:
    """Return a page without its code."""
    return re.sub(r"`[^`\n]*`", "``", FENCE.sub("", path.read_text(encoding="utf-8")))


def anchors(path: Path) -> set[str]:
    """Return the anchors of a page's headings, as repository viewers and mkdocs.yml make them."""
    found: set[str] = set()
    for title in HEADING.findall(FENCE.sub("", path.read_text(encoding="utf-8"))):
        slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        count = sum(name == slug or re.fullmatch(rf"{re.escape(slug)}-\d+", name) is not None for name in found)
        found.add(f"{slug}-{count}" if count else slug)
    return found


def blocks(path: Path, language: str) -> Iterator[tuple[int, str]]:
    """Return the code of a language on a page, each with its line."""
    text = path.read_text(encoding="utf-8")
    for block in FENCE.finditer(text):
        if block[3] == language:
            yield text.count("\n", 0, block.start()) + 2, block[4]


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(prose(page)):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        name, _, anchor = target.partition("#")
        file = Path(os.path.normpath(page.parent / name)) if name else page
        assert file.exists(), f"{named(page)} links to {target}, which is not there"
        assert "site" not in file.relative_to(ROOT).parts[:1], f"{named(page)} links to {target}, which is built"
        if anchor and file.suffix == ".md":
            documented = re.findall(r"^::: (\S+)", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in anchors(file) | set(documented), f"{named(page)} links to {target}, which has no such part"


def test_every_regulariser_has_a_section_with_formula_code_and_picture() -> None:
    text = (DOCS / "REGULARISERS.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert sorted(sections) == REGULARISERS
    for name, section in sections.items():
        assert "$$" in section, name
        assert re.search(rf"```python\ng = feddr\.prox\.{name}\(", section), name
        assert f"(pictures/regularisers/{name}.png)" in section, name


def test_every_regulariser_has_a_small_picture() -> None:
    drawn = runpy.run_path(str(DOCS / "make_pictures.py"))
    assert sorted(drawn["PICTURES"]) == REGULARISERS
    sizes = {path.stem: path.stat().st_size for path in drawn["FOLDER"].iterdir()}
    assert sorted(sizes) == REGULARISERS
    assert max(sizes.values()) < 60_000


def test_the_code_of_regularisers_runs() -> None:
    code = "\n".join(block for _, block in blocks(DOCS / "REGULARISERS.md", "python"))
    values: dict[str, Any] = {}
    exec(compile(code.replace("g = ", "g = made = "), "REGULARISERS.md", "exec"), values)
    assert isinstance(values["made"], prox.Regulariser)


def test_every_algorithm_has_a_row() -> None:
    text = (DOCS / "CHOOSING.md").read_text(encoding="utf-8")
    table = text.split("| method |")[1].split("\n\n")[0]
    rows = {name for line in table.splitlines() for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    protocols = {"Algorithm", "Asynchronous", "Deployable"}
    methods = {name for name in algorithms.__all__ if hasattr(getattr(algorithms, name), "composite")} - protocols
    assert rows == methods


@pytest.mark.parametrize("name", sorted({*feddr._MODULES, "algorithms", "config"}))
def test_every_module_has_a_page_with_all_its_names(name: str) -> None:
    documented = re.findall(r"^::: (\S+)", (DOCS / "api" / f"{name}.md").read_text(encoding="utf-8"), re.MULTILINE)
    source = ROOT / "src" / "feddr" / name
    if f"feddr.{name}" in documented and source.is_dir():
        # What reads the sources takes a function for the file of its own name, so it must be asked for in there.
        text = (source / "__init__.py").read_text(encoding="utf-8")
        public = ast.literal_eval(re.findall(r"__all__ = (\[.*?\])", text, re.DOTALL)[0])
        hidden = {f"feddr.{name}.{word}" for word in public if (source / f"{word}.py").exists()}
        assert hidden <= {path.rpartition(".")[0] for path in documented} | set(documented)
    else:
        assert documented


def written(file: Path) -> set[str]:
    """Return the functions, classes, methods and fields of a file, these two as Class.name."""
    found: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
            fields = [one.target for one in node.body if isinstance(one, ast.AnnAssign)]
            found |= {f"{node.name}.{field.id}" for field in fields if isinstance(field, ast.Name)}
    return found


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CHOOSING.md", "GLOSSARY.md"])
def test_files_and_names_of_the_map_exist(name: str) -> None:
    source = ROOT / "src" / "feddr"
    everything = {word for file in source.rglob("*.py") for word in written(file)}
    for span in set(re.findall(r"`([^`\n]+)`", (DOCS / name).read_text(encoding="utf-8"))):
        path, _, word = span.partition("::")
        if re.fullmatch(r"[\w./]+(\.py|/)", path):
            files = [place / path for place in (source, ROOT) if (place / path).exists()]
            assert files, f"{name} names {path}, which is not there"
            assert not word or word in written(files[0]), f"{name} names {span}, which is not there"
        elif re.fullmatch(r"[A-Z]\w+\.\w+", span):
            assert span in everything, f"{name} names {span}, which is not there"


@pytest.mark.parametrize("package", sorted((ROOT / "src" / "feddr").rglob("__init__.py")), ids=named)
def test_every_package_says_what_its_modules_are(package: Path) -> None:
    text = ast.get_docstring(ast.parse(package.read_text(encoding="utf-8"))) or ""
    modules = {path.stem for path in package.parent.glob("*.py")} - {"__init__", "__main__"}
    if package.parent.name != "feddr":  # whose map is docs/ARCHITECTURE.md
        assert {module for module in modules if not re.search(rf"\b{module}\b", text)} == set()
        lines = re.findall(r"^ {4}(\w+(?:, \w+)*) {2,}\w", text, re.MULTILINE)
        listed = {name for line in lines for name in line.split(", ")}
        assert listed, "no list of modules"
        assert listed - modules == set(), "listed, and not there"


def modules() -> Iterator[str]:
    """Return the modules of the package that have examples in their docstrings."""
    for found in pkgutil.walk_packages(feddr.__path__, "feddr."):
        spec = importlib.util.find_spec(found.name)
        assert spec is not None
        assert spec.origin is not None
        if ">>>" in Path(spec.origin).read_text(encoding="utf-8"):
            yield found.name


@pytest.mark.parametrize("name", sorted(modules()))
def test_examples_in_docstrings_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "feddr.torch":  # others skip their examples of PyTorch themselves
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    told: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    examples = [found for found in doctest.DocTestFinder().find(importlib.import_module(name)) if found.examples]
    assert examples
    for example in examples:
        runner.run(example, out=told.append)
    assert not runner.failures, "".join(told)
    assert not list(tmp_path.iterdir()), "an example leaves files behind"


PUBLIC = (
    *("algorithms", "certify", "checkpoint", "compress", "config", "data", "datasets", "delays"),
    *("early_stopping", "estimators", "flower", "history", "inference", "local", "metrics", "models", "plots"),
    *("preparation", "problem", "prox", "reproduce", "runs.trackers"),
    *("sampling", "testing", "theory", "tune"),
)


def test_every_public_function_and_class_has_an_example() -> None:
    """Those of ``__all__``, or, where a module has none, those that it defines."""
    without, count = [], 0
    for module in (feddr, *(importlib.import_module(f"feddr.{name}") for name in PUBLIC)):
        own = [name for name, thing in vars(module).items() if getattr(thing, "__module__", "") == module.__name__]
        for name in getattr(module, "__all__", own):
            thing = getattr(module, name)
            # Aliases and constants have no docstring that Python knows; protocols have one as other classes do.
            if not name.startswith("_") and str(getattr(thing, "__module__", "")).startswith("feddr"):
                count += 1
                if not re.search(r"^ *Examples\n *-{8}\n(.*\n)* *>>> ", thing.__doc__ or "", re.MULTILINE):
                    without.append(f"{module.__name__}.{name}")
    assert without == []
    assert count > 180


ADDING = list(blocks(DOCS / "ADDING.md", "python"))


def test_everything_that_can_be_added_is_shown() -> None:
    titles = HEADING.findall(FENCE.sub("", (DOCS / "ADDING.md").read_text(encoding="utf-8")))[1:]
    assert len(titles) == len(ADDING) == 8


@pytest.mark.parametrize(("line", "code"), ADDING, ids=[f"line {line}" for line, _ in ADDING])
def test_the_code_of_adding_your_own_runs(line: int, code: str, tmp_path: Path) -> None:
    program = tmp_path / f"adding_{line}.py"
    program.write_text("\n" * (line - 1) + code)
    runpy.run_path(str(program))


def test_train_on_your_own_data_runs_and_shows_what_it_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page is one program, from the files of four hospitals to a new patient, and an experiment in TOML."""
    page = DOCS / "TRAIN.md"
    text = page.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("\n".join(code for _, code in blocks(page, "python")))
    values = runpy.run_path("train.py")
    printed = capsys.readouterr().out.splitlines()
    shown = re.findall(r"^    (.*)$", FENCE.sub("", text), re.MULTILINE)
    assert len(shown) > 11
    assert [line for line in shown if line not in printed] == []
    ours, theirs = values["agreed"], values["data"].preparation
    assert (ours.names, ours.classes) == (theirs.names, theirs.classes)
    ((_, experiment),) = blocks(page, "toml")
    Path("ages.toml").write_text(experiment)
    problem, _ = feddr.config.build(feddr.config.load("ages.toml"))
    assert problem.data.clients == values["data"].clients


@pytest.mark.parametrize("page", ["COMPRESSION", "DIFFERENTIAL_PRIVACY", "FROM_FEDAVG"])
def test_the_code_of_a_short_page_runs(page: str) -> None:
    values: dict[str, Any] = {}
    exec(compile("\n".join(code for _, code in blocks(DOCS / f"{page}.md", "python")), page, "exec"), values)
    assert values["result"].history.last.F < values["result"].history.rows[0].F


def test_the_code_of_read_the_results_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is one program."""
    monkeypatch.chdir(tmp_path)
    values: dict[str, Any] = {}
    code = "\n".join(block for _, block in blocks(DOCS / "RESULTS.md", "python"))
    exec(compile(code, "RESULTS.md", "exec"), values)
    said = re.search(r"# (in round \d+, test_accuracy is )([\d.]+),", code)
    stopped = values["stopped"].settings["stopped"]
    assert said is not None
    assert stopped.startswith(said[1])
    assert float(stopped.removeprefix(said[1]).split(",")[0]) == pytest.approx(float(said[2]), abs=0.04)
    assert set(values["result"].history.metrics) >= {"test_f1", "test_auc", "test_loss", "worst_client_test_accuracy"}
    assert values["found"].table.index.tolist() == ["FedDR", "FedAvg"]


@pytest.mark.slow
def test_the_code_of_using_the_model_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, each block after those before it."""
    monkeypatch.chdir(tmp_path)
    values: dict[str, Any] = {}
    for line, code in blocks(DOCS / "USE.md", "python"):
        exec(compile("\n" * (line - 1) + code, "USE.md", "exec"), values)
    result, predictor = values["result"], values["predictor"]
    assert values["data"].num_clients == 4
    assert predictor.predict(values["new"]).tolist() == result.predict(values["new"]).tolist() == ["yes", "no"]
    assert pytest.approx(result.history.last.F, rel=1e-6) == values["longer"].history.rows[0].F
    assert values["model"].classes_.tolist() == ["no", "yes"]
    assert values["search"].best_params_


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_names_and_arguments_in_code_exist(page: Path) -> None:
    for line, code in blocks(page, "python"):
        for node in ast.walk(ast.parse(code, f"{page.name}, from line {line}")):
            if isinstance(node, ast.Attribute) and (path := dotted(node)) is not None:
                resolve(path)
            if isinstance(node, ast.Call) and (path := dotted(node.func)) is not None:
                called = resolve(path)
                known = {} if called is None else inspect.signature(called).parameters
                anything = any(one.kind is one.VAR_KEYWORD for one in known.values())  # passed on to another function
                wrong = [
                    one.arg for one in node.keywords if one.arg and known and not anything and one.arg not in known
                ]
                assert not wrong, f"{named(page)}, from line {line}: {path} has no {wrong}"


def dotted(node: ast.expr) -> str | None:
    """Return an expression that is a name of feddr, such as feddr.prox.L1."""
    words = []
    while isinstance(node, ast.Attribute):
        words.append(node.attr)
        node = node.value
    return (
        ".".join(["feddr", *reversed(words)]) if words and isinstance(node, ast.Name) and node.id == "feddr" else None
    )


def resolve(path: str) -> Any:
    """Return what a name of feddr stands for; None where a package that it needs is not there."""
    _, *words = path.split(".")
    if words[0] == "torch" and importlib.util.find_spec("torch") is None:
        return None
    found: Any = feddr
    for word in words:
        found = getattr(found, word)
    return found


COMMAND = re.compile(r"^(?:\$ )?(?:\w+=\S+ )*feddr ([a-z][^\n#]*)", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_and_options_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    code = [block for _, block in blocks(page, "sh")] + re.findall(r"(?:^    [^\n]*\n)+", text, re.MULTILINE)
    for block in code:
        for line in COMMAND.findall(re.sub(r"\\\n *", " ", re.sub(r"^    ", "", block, flags=re.MULTILINE))):
            words = line.split(" & ")[0].split()
            command: Any = typer.main.get_command(app)
            while isinstance(command, click.Group):
                assert words[0] in command.commands, f"{named(page)}: feddr {line}"
                command = command.commands[words.pop(0)]
            known = {option for parameter in command.params for option in parameter.opts}
            asked = {word.split("=")[0] for word in words if word.startswith("--")}
            assert asked <= known | {"--help"}, f"{named(page)}: feddr {line}"


def test_formulas_are_understood() -> None:
    hooks = runpy.run_path(str(DOCS / "hooks.py"))
    count = 0
    for page in sorted(DOCS.glob("*.md")):
        for display, inline in re.findall(r"\$\$\n(.*?)\n\$\$|\$(\S[^$\n]*)\$", prose(page), re.DOTALL):
            kind, ends = ("div", r"\[\]") if display else ("span", r"\(\)")
            marked = f'<{kind} class="arithmatex">\\{ends[1]}{display or inline}\\{ends[-1]}</{kind}>'
            shown = hooks["on_page_content"](marked)
            assert "<math" in shown, (page.name, marked)
            assert "\\" not in shown, (page.name, shown)
            count += 1
    assert count > 16


def test_links_out_of_the_documentation_become_paths() -> None:
    hook = runpy.run_path(str(DOCS / "hooks.py"))["on_page_markdown"]
    assert hook("see [batching.py](../src/feddr/xla/batching.py).") == "see `src/feddr/xla/batching.py`."
    assert hook("[`a/b`](../a/b/), [the gallery](../examples/README.md)") == "`a/b`, the gallery (`examples/README.md`)"
    assert hook("[Data](DATA.md#the-sets)") == "[Data](DATA.md#the-sets)"
