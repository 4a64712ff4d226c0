"""Docstrings as Markdown, for the pages of docs/api: they are plain text with a little reStructuredText in it."""

import re
from typing import Any

import griffe

TABLE = re.compile(r"^ *=+ +=[= ]*\n.*?\n *=+ +=[= ]*\n(?:.*?\n *=+ +=[= ]*$)?", re.MULTILINE | re.DOTALL)
ROLE = re.compile(r":\w+:`([^`]+)`")
ANGLE = re.compile(r"<(?=[a-zA-Z/])")


class NamedTuples(griffe.Extension):
    """Give named tuples the signature that they have, so that their parameters are known."""

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Add the constructor of a named tuple."""
        if any(str(base).endswith("NamedTuple") for base in cls.bases):
            fields = [field for field in cls.attributes.values() if field.annotation is not None]
            kind = griffe.ParameterKind.positional_or_keyword
            known = [griffe.Parameter(f.name, annotation=f.annotation, kind=kind, default=f.value) for f in fields]
            own = griffe.Parameter("self", kind=kind)
            cls.set_member(
                "__init__", griffe.Function("__init__", parameters=griffe.Parameters(own, *known), parent=cls)
            )


class PlainText(griffe.Extension):
    """Keep tables and literal blocks as they stand, and show ``<v, x>`` instead of taking it for a tag."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of everything that has one."""
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)


def markdown(text: str) -> str:
    """Return a docstring with what Markdown would misread put right."""
    text = TABLE.sub(lambda table: f"```text\n{table[0]}\n```", text)
    text = ROLE.sub(r"`\1`", text)
    lines, fenced = [], False
    for line in text.split("\n"):
        fenced ^= line.startswith("```")
        if fenced or line.startswith(("    ", ">>>", "...", "```")):
            lines.append(line)
            continue
        prose = line[:-1] if line.endswith("::") else line
        lines.append("".join(_escaped(part) for part in re.split(r"(`+[^`]*`+)", prose)))
    return "\n".join(lines)


def _escaped(part: str) -> str:
    return part if part.startswith("`") else ANGLE.sub("&lt;", part)
