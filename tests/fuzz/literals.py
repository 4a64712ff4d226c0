"""Values that nobody should type, written as TOML, and a writer that takes them."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st


class Value(str):
    """A value as it stands in a file, right or wrong."""

    __slots__ = ()


DEEP = Value("[" * 3000 + "]" * 3000)

SMALL = [
    *("nan", "inf", "-inf", "-nan", "-1", "-0.0", "0", "1", "2", "0.5", "1.0", "1e-320", "-1e308", "1e308", "1e-45"),
    *("true", "false", '""', '" "', '"none"', '"auto"', '"nan"', '"FedDR"', '"L1"', '"first"', '"bias"', '"weight"'),
    *('"../up"', '"/tmp/x"', '".."', '"a/b"', '"C:\\\\x"', '"~/x"', '"file.txt"', '"taken"', '"."', '"-"', '"$x^$"'),
    *('"[red]"', '"{0}"', '"%s"', '"a\\nb"', '"\\u0000"', '"\\u202e"', '"é"', '"\\U0001F600"', '"\\u001b[31m"'),
    *("[]", "[[]]", "[[[]]]", "[1]", "[0, 1]", "[1, 2, 3]", "[0.5, 0.5]", "[nan]", "[-1]", '["a"]', '["weight"]'),
    *("[true]", "[{}]", '[1, "a"]', "[[0], [1]]", "[[0, 1]]", "[[0, 0]]", "[[1.5]]", "[[[0, 1]]]", "[[[1, 0]]]"),
    *("{}", "{a = 1}", '{name = "L1"}', '{name = "L1", strength = 1}', '{name = "FedDR", eta = 1}', "{name = 3}"),
    *('{name = "Full"}', '{name = "SGD", lr = 0.1}', '[{name = "Uniform"}]', '[{name = "PerStep", seconds = 1}]'),
    *('{weight = {name = "L1", strength = 1}}', "{weight = 1.0}", "{weight = [1]}", "{bias = {bias = {bias = 1}}}"),
    *("1979-05-27", "07:32:00", "1979-05-27T07:32:00Z", "1979-05-27 00:32:00.999999", "0x1f", "1_000", "'''x'''"),
]
"""Values that a run that takes them ends soon with."""

HUGE = [
    *("2147483647", "2147483648", "4294967296", "9223372036854775807", "9223372036854775808", "-9223372036854775809"),
    *("1" + "0" * 30, "1" + "0" * 400, "-1" + "0" * 400, "9" * 5000, "0x" + "f" * 5000, "1e400", "-1e400"),
    *('"' + "x" * 300 + '"', '"' + "é" * 120 + '"', '"' + "x" * 70_000 + '"', "[" + "1, " * 5000 + "1]"),
    *("[9223372036854775808]", "[60, 2147483648, 10]", "[4, 4294967296, 3]", "[1" + "0" * 400 + "]"),
    *("[[9223372036854775808]]", "{a = 1" + "0" * 400 + "}", "[" * 60 + "]" * 60, "{a = " * 60 + "1" + "}" * 60),
    *(DEEP, "{a = " * 3000 + "1" + "}" * 3000),
]
"""Values that would take all memory, or all time, or the stack."""

WRONG = [
    *("", "nan nan", '"open', "'open", "[1", "{a = 1", "tru", "01", "1__0", "1.", ".5", "1e", "0x", '"\\q"', "=", "#"),
    *("1979-13-40", "\x00", '"\x00"', "\ud800", "[,]", "{,}", "+", "None", "1 2", '"""open', "{a.b = 1, a = 2}"),
]
"""What is no value at all."""

numbers = st.one_of(
    st.integers(-(10**6), 50).map(str),
    st.floats(allow_subnormal=True, width=64).map(lambda value: _float(value)),
    st.fractions(0, 3, max_denominator=7).map(lambda value: str(float(value))),
)
texts = st.one_of(
    st.text(max_size=12).map(lambda text: _quoted(text)),
    st.from_regex(r"[A-Za-z0-9_.,=+#()/ -]{1,12}", fullmatch=True).map(lambda text: _quoted(text)),
)
gentle = st.sampled_from(["0", "1", "2", "0.5", "1e-3", "30.0", "1e30", "-1", "true", '"auto"', '"none"']).map(Value)
"""Values that many settings take, with which a run is short."""

mild = st.one_of(st.sampled_from(SMALL), numbers, texts).map(Value)
"""Values of all types, none of them large."""

wild = st.integers(0, 9).flatmap(
    lambda k: st.sampled_from(WRONG).map(Value) if k == 9 else st.sampled_from(HUGE).map(Value) if k >= 6 else mild
)
"""Any values; an integer between a small one and a huge one would be a long run instead of a wrong one."""


def literal(value: Any) -> str:
    """Return a value as TOML."""
    if isinstance(value, Value):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {literal(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(literal, value)) + "]"
    return _float(value) if isinstance(value, float) else str(value)


def document(tables: Mapping[str, Any]) -> str:
    """Return tables as TOML, those of the top level below their headings."""
    lines = []
    for key, value in sorted(tables.items(), key=lambda item: _is_table(item[1])):
        if isinstance(value, Mapping):
            lines += [f"[{_key(key)}]", *(f"{_key(name)} = {literal(entry)}" for name, entry in value.items())]
        elif _is_table(value):
            for table in value:
                lines += [f"[[{_key(key)}]]", *(f"{_key(name)} = {literal(entry)}" for name, entry in table.items())]
        else:
            lines.append(f"{_key(key)} = {literal(value)}")
    return "\n".join(lines) + "\n"


def _is_table(value: Any) -> bool:
    listed = isinstance(value, list) and bool(value) and all(isinstance(entry, Mapping) for entry in value)
    return isinstance(value, Mapping) or listed


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else _quoted(key)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _float(value: float) -> str:
    if math.isnan(value):
        return "nan"
    return ("inf" if value > 0 else "-inf") if math.isinf(value) else repr(float(value))
