"""Line styles: a colour for each method, and dashes and markers as a second sign.

Pictures and report pages ask here, so that a method has one colour in all of them.
"""

from collections.abc import Sequence
from typing import NamedTuple

COLOURS = ("#1060c2", "#e96b0d", "#40a488", "#821066", "#615d00", "#ac7af3", "#1b1f24")
"""Blue, orange, green, wine, olive, violet and ink: one of a kind each, told apart with every common colour blindness.

Any two differ by 0.13 or more in OKLab, as normal, protanopic, deuteranopic and tritanopic eyes see them.
"""

LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (9, 3)), (0, (1, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

PREFERRED = {
    "FedDR": 0,
    "FedDyn": 1,
    "FedProx": 2,
    "FedPD": 3,
    "SCAFFOLD": 4,
    "FedAvgM": 5,
    "FedAvg": 6,
    "AsyncFedDR": 1,
    "FedBuff": 2,
    "FedAsync": 4,
    "CA2FL": 3,
    "FedMid": 1,
    "FedDualAvg": 2,
    "FedSplit": 3,
    "FedDecoupled": 3,
    "Scaffnew": 2,
    "FedNova": 4,
    "MimeLite": 4,
    "FedOpt": 5,
    "FedAdam": 5,
    "FedYogi": 2,
    "FedAdagrad": 3,
}
"""The colour that a method has unless another method beside it has it already; those that meet most often differ."""

NAMES = {name.lower(): name for name in PREFERRED}


class LineStyle(NamedTuple):
    """How a line is drawn: places in ``COLOURS``, and in both ``LINES`` and ``MARKERS``."""

    colour: int
    dash: int


def method_of(label: str) -> str:
    """Return the method with whose name a label begins, or the label itself.

    Examples
    --------
    >>> method_of("FedDR (published)"), method_of("FedDR()"), method_of("Scaffold"), method_of("lr = 0.1")
    ('FedDR', 'FedDR', 'SCAFFOLD', 'lr = 0.1')
    """
    word = label.split(" ")[0].split("(")[0].rstrip(",:")
    return NAMES.get(word.lower(), label)


def line_styles(labels: Sequence[str]) -> list[LineStyle]:
    """Return a style for each line, of which two are the same only where there are more than forty-nine.

    Lines of one method share a colour and differ in dashes and markers. Where two methods would have the same colour,
    the second takes one that is free, if there is one.

    Parameters
    ----------
    labels
        Names of methods, or labels that begin with one; each other label is a method of its own.

    Examples
    --------
    >>> [COLOURS[style.colour] for style in line_styles(["FedAvg", "FedDR (published)", "FedDR()"])]
    ['#1b1f24', '#1060c2', '#1060c2']
    >>> [style.dash for style in line_styles(["FedDR", "FedDR()", "mine", "yours"])]
    [0, 1, 1, 2]
    """
    methods = [method_of(label) for label in labels]
    taken: dict[str, int] = {}
    # Methods with a colour of their own choose first, so that a name of one's own does not push them aside.
    for method in sorted(dict.fromkeys(methods), key=lambda name: name not in PREFERRED):
        free = [i for i in range(len(COLOURS)) if i not in taken.values()]
        wanted = PREFERRED.get(method, free[0] if free else len(taken) % len(COLOURS))
        taken[method] = wanted if wanted in free or not free else free[0]
    styles = []
    for i, method in enumerate(methods):
        colour = taken[method]
        before = sum(taken[other] == colour for other in methods[:i])
        styles.append(LineStyle(colour, (colour + before) % len(LINES)))
    return styles
