"""Labels of crowded points: none covers another one, a marker or the legend."""

import itertools

import pytest
from matplotlib.text import Annotation, Text

from feddr.plots import labels
from feddr.plots.reproduce import Dot, curve

STRENGTHS = ("0.0001", "0.0003", "0.001", "0.003", "0.01")


def line(zeros: list[float], accuracies: list[float]) -> list[Dot]:
    return [Dot(s, z, a, a - 0.006, a + 0.006) for s, z, a in zip(STRENGTHS, zeros, accuracies, strict=True)]


CROWDED = {
    "FedDR()": line([0.565, 0.91, 0.98, 0.991, 0.996], [0.939, 0.928, 0.90, 0.88, 0.83]),
    "FedMid": line([0.35, 0.80, 0.96, 0.987, 1.0], [0.92, 0.90, 0.86, 0.83, 0.10]),
    "FedDualAvg": line([0.258, 0.718, 0.964, 0.991, 0.9975], [0.929, 0.92, 0.89, 0.855, 0.82]),
}
SAME = {name: line([0.9] * 5, [0.5] * 5) for name in ("a", "b")}  # ten labels for one place


@pytest.mark.parametrize("dots", [CROWDED, SAME], ids=["crowded", "all in one place"])
def test_labels_are_apart(dots: dict[str, list[Dot]]) -> None:
    figure = curve(dots, "made up")
    figure.draw_without_rendering()
    axes = figure.axes[0]
    texts = [text for text in axes.texts if isinstance(text, Annotation)]
    assert sorted(text.get_text() for text in texts) == sorted(dot.row for found in dots.values() for dot in found)
    boxes = [labels.LabelBox(*Text.get_window_extent(text).extents) for text in texts]  # without the line to the point
    assert not [pair for pair in itertools.combinations(boxes, 2) if pair[0].overlaps(pair[1])]
    marks = [
        labels.LabelBox(x - 4, y - 4, x + 4, y + 4) for x, y in axes.transData.transform([text.xy for text in texts])
    ]
    assert not [1 for box in boxes for mark in marks if box.overlaps(mark)]
    legend = axes.get_legend()
    assert legend is not None
    assert not [1 for box in boxes if box.overlaps(labels.LabelBox(*legend.get_window_extent().extents))]
