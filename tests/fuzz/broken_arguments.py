"""A grammar of wrong words on the command line, for every command: its options, with what they should not have."""

import functools
import random
from collections.abc import Iterator, Sequence

import click
import typer
from hypothesis import strategies as st

from feddr.commands import main
from feddr.config.components import TABLE
from tests.fuzz.bad_input import BLOCKED, FILE, TAKEN, Case
from tests.fuzz.broken_configs import BASES, BESIDE
from tests.fuzz.literals import document

PATHS = [
    *("missing", "missing.toml", "case.toml", "several.toml", "tune.toml", FILE, BLOCKED, TAKEN, ".", "..", "/", ""),
    *("ended", "begun", "search", "run.toml", "a.csv", "/proc/x", "/dev/null", "/dev/zero", "x" * 300, "x/" * 3000),
    *("é", "\U0001f600", "\udcff", "a\nb", "\x1b[31m", "~", "~nobody/x", "new", "new/er", "case.toml/x", "link"),
    *("loop", "-", " "),
]
NUMBERS = [
    *("0", "1", "-1", "2", "3", "nan", "inf", "-inf", "1e308", "1e-320", "-0", "1.5", "1e400", "9" * 30, "9" * 5000),
    *(
        "x",
        "",
        " ",
        "0x10",
        "1_0",
        "٣",
        "1e",
        "NaN",
        "--",
        "-",
        "true",
        "2147483648",
        "9223372036854775808",
        "0.5",
        "1e-30",
    ),
]
SETS = [
    *("rounds=1", "rounds", "=", "=1", "a=", "a.b.c.d=1", 'name="../x"', "name=../x", "local.lr=nan", "[x]=1"),
    *(
        "algorithm.eta=0",
        'algorithm={name="FedAvg"}',
        "algorithm=[]",
        "algorithm=1",
        "data=1",
        "data.name=csv",
        "é=1",
        '"a b".c=1',
    ),
    *("rounds=1\nseed=2", "seed=" + "[" * 3000, "seed=" + "9" * 400, "name=" + "x" * 400, "\udcff=1", "name=\udcff"),
]
VALUES: dict[str, Sequence[str]] = {
    "--set": SETS,
    "--checkpoint-every": ("0", "-1", "60s", "s", "1e3s", "1.5", "٣", "9" * 5000, "", "nan", "infs", "5 s"),
    "--grid": ("algorithm.eta=1,2", "algorithm.eta=", "algorithm.eta=log:1:10:1e9", "=", "seed=1,2", "local.lr=[]"),
    "--random": ("algorithm.eta=log:0:1", "algorithm.eta=lin:1:2", "algorithm.eta=int:1:inf", "local.lr=nan", "=", "a"),
    "--space": ("paper", "papr", ""),
    "--seeds": ("0", "0,1", "", ",", "a", "-1", "1,1", "9" * 5000, "1.5", "٣,٤"),
    "--metric": ("F", "f", "loss", "", "personal_train_loss", "round"),
    "--at": ("last", "best", "worst", ""),
    "--host": ("127.0.0.1", "", "é", "a b", "x" * 300, "::1", "*", "\udcff"),
    "--superlink": ("", "x", "x:0", "x:99999", ":8000", "é:é", "[::1]", "127.0.0.1:1"),
    "--listen": ("", "x", "x:0", "127.0.0.1:99999", "[", "é:1"),
    "--config": ("a", "=", "a=", "x" * 300),
}
"""What some options take; others take numbers or paths by their type."""

ELSEWHERE = ("--ray", "--tensorboard", "--mlflow")
STRAY = ("--bogus", "-x", "--", "é", "--no", "--=1")
FIRST: dict[str, Sequence[str]] = {
    "data": (*TABLE["data"][1], "mnits", *PATHS),
    "reproduce": ("synthetic", "sparsity", "async", "syntetic", "", "é", "../x"),
}
NEEDED: dict[str, Sequence[str]] = {
    "run": ("case.toml",),
    "compare": ("several.toml",),
    "tune": ("tune.toml",),
    "data": ("bundled",),
    "theory": ("--L", "1", "--n", "4"),
    "report": ("ended",),
    "deploy certs": ("new",),
    "deploy server": ("--state", "s"),
    "deploy node": ("--superlink", "x:1", "--partition", "0", "--state", "s"),
}
"""What a command cannot do without."""

LAST: dict[str, Sequence[str]] = {
    "run": ("--out", TAKEN, "--quiet"),
    "compare": ("--out", TAKEN, "--quiet"),
    "tune": ("--out", TAKEN, "--quiet", "--workers", "0"),
    "data": ("--out", BLOCKED),
    "reproduce": ("--list",),
    "report": ("--out", f"{BLOCKED}.html"),
    "deploy certs": ("--nodes", "-1"),
    "deploy check": ("--listen", "x"),
    "deploy server": ("--certs", "missing"),
    "deploy node": ("--certs", "missing"),
}
"""Words at the end of a command line with which no command works for long: the results have no place to go to."""

RUNNABLE = ("case.toml", "several.toml", "tune.toml")
LATE = {**BASES[0], "local": {"name": "Accelerated"}, "algorithm": [{"name": "FedAvg"}]}
"""An experiment that its first round refuses, when the folder for the results is there already."""

FILES = {
    "late.toml": document(LATE).encode(),
    "case.toml": document(BASES[0]).encode(),
    "several.toml": document(BASES[3]).encode(),
    "tune.toml": document(BASES[5]).encode(),
    "ended/config.toml": document(BASES[0]).encode(),
    "begun/config.toml": document(BASES[0]).encode(),
    "begun/.checkpoints/progress.json": b'{"FedDR": 3}',
    "search/search.json": b"{}",
    **BESIDE,
}
LINKS = {"link": TAKEN, "loop": "loop"}


@functools.cache
def commands() -> dict[str, click.Command]:
    """Return every command by its words."""
    found: dict[str, click.Command] = {}
    group = typer.main.get_command(main.app)
    assert isinstance(group, click.Group)
    for name, command in group.commands.items():
        inner = command.commands if isinstance(command, click.Group) else {}
        found |= {f"{name} {word}": one for word, one in inner.items()} or {name: command}
    return found


def options(name: str) -> list[click.Parameter]:
    """Return the options and arguments of a command, but for those that other programs answer."""
    return [option for option in commands()[name].params if option.opts[0] not in ELSEWHERE]


def values(option: click.Parameter) -> Sequence[str]:
    """Return what is tried for an option or an argument."""
    if option.opts[0] in VALUES:
        return VALUES[option.opts[0]]
    return NUMBERS if isinstance(option.type, click.types.IntParamType | click.types.FloatParamType) else PATHS


@st.composite
def arguments(draw: st.DrawFn) -> Case:
    """Draw a command with some of its options, in any order, and now and then words that are none of its own."""
    name = draw(st.sampled_from(sorted(commands())))
    words = list(NEEDED.get(name, ())) if draw(st.integers(0, 3)) else []
    for option in draw(st.lists(st.sampled_from(options(name)), max_size=4)):
        if getattr(option, "is_flag", False):
            words.append(option.opts[0])
        elif isinstance(option, click.Argument):
            words.append(draw(st.sampled_from(FIRST.get(name, values(option)))))
        else:
            words += [option.opts[0], draw(st.sampled_from(values(option)))]
    if draw(st.integers(0, 9)) == 9:
        words.insert(draw(st.integers(0, len(words))), draw(st.sampled_from(STRAY)))
    return command(name, words)


def command(name: str, words: Sequence[str]) -> Case:
    """Return a command as a case; its last words see to it that it ends soon."""
    last = LAST.get(name, ())
    if name in ("run", "compare"):
        last = ("--quiet",) if {"--resume", "--out"} & set(words) else last
        words = ["late.toml" if "--out" in words and word in RUNNABLE else word for word in words]
    split = words.index("--") if "--" in words else len(words)
    return Case((*name.split(), *words[:split], *last, *words[split:]), FILES, LINKS)


def systematic(seed: int) -> Iterator[Case]:
    """Yield every option of every command with each of its values, in an order by the seed."""
    cases = []
    for name in commands():
        cases += [command(name, []), command(name, ["--bogus"]), Case((*name.split(), "--help"))]
        for option in options(name):
            if getattr(option, "is_flag", False):
                continue
            given = [] if isinstance(option, click.Argument) else [option.opts[0]]
            first = NEEDED.get(name, ()) if given and "--resume" not in given else ()
            tried = values(option) if given else FIRST.get(name, values(option))
            cases += [command(name, [*first, *given, value]) for value in tried]
    random.Random(seed).shuffle(cases)
    yield from cases


def by_hand() -> Iterator[Case]:
    """Yield words that are no command at all."""
    for words in (["frobnicate"], ["--bogus"], ["runn"], ["-"], ["é"], ["deploy", "x"], ["run", "run"], ["--version"]):
        yield Case(tuple(words))
