"""Error messages as one line that is safe to print: they quote files and arguments that anybody may have written."""

import difflib
from collections.abc import Iterable

LONGEST = 600
"""Characters of a line; of a longer one the middle is left out, since the remedy stands at its end."""


def one_line(message: object) -> str:
    r"""Return a message without line breaks, control characters and the middle of what is long.

    Examples
    --------
    >>> one_line("a name\nsuch as \x1b[31m")
    'a name such as \\x1b[31m'
    """
    text = " ".join(str(message).split())
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]} ... {text[-LONGEST // 2 :]}"
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def reason(error: Exception) -> str:
    """Return what an error says, also one of the system, which names a file, or of memory."""
    if isinstance(error, MemoryError):
        return f"More memory is needed than there is; take something smaller. {error}".rstrip()
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error) or type(error).__name__
    return f"{error.strerror}." if error.filename is None else f"{error.filename}: {error.strerror}."


def hint(word: str, words: Iterable[str]) -> str:
    """Return a question, if one of the words may have been meant.

    Examples
    --------
    >>> hint("acu", ["auc", "f1"])
    ' Did you mean auc?'
    """
    spelling = {known.casefold(): known for known in words}
    close = difflib.get_close_matches(word.casefold(), spelling, 1)
    return f" Did you mean {spelling[close[0]]}?" if close else ""
