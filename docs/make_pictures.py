"""The pictures of docs/REGULARISERS.md, drawn from the regularisers themselves: python docs/make_pictures.py."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from feddr import prox
from feddr.plots import COLOURS
from feddr.prox import Regulariser

FOLDER = Path(__file__).parent / "pictures" / "regularisers"
BLUE, RED, GREEN, WINE, *_, BLACK = COLOURS
SKY = "#56b4e9"
GREY = "#999999"
ETAS = ((0.5, BLUE, "-"), (1.0, RED, "--"), (2.0, GREEN, "-."))
X = np.array([0.2, -0.5, 2.1, 0.9, -1.4, 0.1, 1.6, -0.3])
"""A vector whose entries are shown before and after a prox."""

Draw = Callable[[Figure], None]


def main() -> None:
    """Write every picture."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        figure = Figure(figsize=(7.2, 2.7), layout="constrained")
        draw(figure)
        figure.savefig(FOLDER / f"{name}.png", dpi=100)


def apply(g: Regulariser, x: NDArray[Any], eta: float = 1.0) -> NDArray[Any]:
    """Return the prox of an array as an array."""
    return np.asarray(g.prox(x, eta))


def values(g: Regulariser, points: NDArray[Any]) -> NDArray[Any]:
    """Return g at each row."""
    return np.asarray(jax.vmap(g.value)(points))


def curves(g: Regulariser, *, steps: bool = True) -> Draw:
    """Draw a penalty of one number beside its prox, for three steps eta, or for one where eta makes no difference."""

    def draw(figure: Figure) -> None:
        left, right = panels(figure, "g(x)", "prox(x)")
        t = np.linspace(-3, 3, 601)
        value = values(g, t[:, None])
        inside = np.isfinite(value)
        left.plot(t[inside], value[inside], color=BLUE, linewidth=2)
        if not inside.all():
            left.fill_between(t, -0.1, 1, where=~inside, color=GREY, alpha=0.3, linewidth=0, step="mid")
            left.text(-2.9, 0.5, "infinite", color="#555555", fontsize=9)
        if value[inside].max() == 0:
            left.set_ylim(-0.1, 1)
        right.plot(t, t, color=GREY, linewidth=1, linestyle=":", label="x")
        for eta, colour, line in ETAS if steps else ((1.0, BLUE, "-"),):
            label = f"eta = {eta:g}" if steps else "any eta"
            right.plot(t, apply(g, t, eta), color=colour, linestyle=line, label=label, linewidth=1.8)
        right.legend(frameon=False, fontsize=8, loc="upper left")
        for axes in (left, right):
            axes.set_xlabel("x")

    return draw


def plane(g: Regulariser, boundary: NDArray[Any] | None = None) -> Draw:
    """Draw level sets, or a set, in the plane, with arrows from points to their prox; beside it a longer vector."""

    def draw(figure: Figure) -> None:
        left, right = panels(figure, "from x to prox(x), two entries", "eight entries", widths=(1, 1.7))
        if boundary is None:
            axis = np.linspace(-2.4, 2.4, 81)
            level = values(g, np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2))
            left.contour(axis, axis, level.reshape(81, 81), levels=6, colors=[SKY], linewidths=0.8)
        else:
            left.fill(*boundary.T, color=SKY, alpha=0.35, linewidth=0)
            left.plot(*np.vstack([boundary, boundary[:1]]).T, color=BLUE, linewidth=1.5)
        for angle in np.linspace(0, 2 * np.pi, 16, endpoint=False) + 0.13:
            for radius in (2.3, 1.2):
                arrow(left, radius * np.array([np.cos(angle), np.sin(angle)]), g)
        left.set(xlim=(-2.5, 2.5), ylim=(-2.5, 2.5), aspect="equal")
        bars(right, X, apply(g, X))

    return draw


def arrow(axes: Axes, start: NDArray[Any], g: Regulariser) -> None:
    """Draw where one point goes."""
    end = apply(g, start)
    if np.linalg.norm(end - start) < 1e-3:
        axes.plot(*start, marker="o", markersize=3, color=GREEN)
        return
    line = {"arrowstyle": "-|>", "color": RED, "linewidth": 0.9, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 8}
    axes.annotate("", (end[0], end[1]), (start[0], start[1]), arrowprops=line)


def bars(axes: Axes, before: NDArray[Any], after: NDArray[Any], colours: list[str] | str = BLUE) -> None:
    """Draw the entries of a vector before and after, and a ring where one has become zero."""
    places = np.arange(len(before))
    axes.bar(places, before, width=0.8, color="none", edgecolor=GREY, linewidth=1, label="x")
    axes.bar(places, after, width=0.5, color=colours, label="prox(x)")
    zeros = places[(after == 0) & (before != 0)]
    if len(zeros):
        axes.plot(zeros, np.zeros(len(zeros)), "o", color=RED, fillstyle="none", markersize=6, label="now zero")
    axes.axhline(0, color=BLACK, linewidth=0.6)
    axes.set_xticks([])
    axes.margins(y=0.15)
    axes.legend(frameon=False, fontsize=8, loc="lower right", ncols=3)


def groups(figure: Figure) -> None:
    """Draw a matrix some of whose rows vanish."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(8, 5)) * np.array([2, 0.3, 1.2, 0.2, 0.4, 1.8, 0.3, 1.0])[:, None]
    g = prox.GroupL2(1.0)
    left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1, 1.3))
    heat(left, x, "x: 8 inputs, 5 outputs")
    heat(middle, np.asarray(g.prox({"weight": x}, 1.0)["weight"]), "prox(x)")
    right.set_title("norms of the rows", fontsize=10)
    norms = [np.linalg.norm(a, axis=1) for a in (x, np.asarray(g.prox({"weight": x}, 1.0)["weight"]))]
    bars(right, *norms)
    right.legend(frameon=False, fontsize=8, loc="upper right")
    plain(right)


def nuclear(figure: Figure) -> None:
    """Draw a matrix that is of low rank but for noise, and its singular values."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 2)) @ rng.normal(size=(2, 8)) + 0.25 * rng.normal(size=(12, 8))
    after = np.asarray(prox.Nuclear(1.5).prox({"weight": x}, 1.0)["weight"])
    left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1, 1.3))
    heat(left, x, "x: rank 2 and noise")
    heat(middle, after, "prox(x): rank 2")
    right.set_title("singular values", fontsize=10)
    values = [np.linalg.svd(a, compute_uv=False) for a in (x, after)]
    bars(right, values[0], np.where(values[1] < 1e-5, 0, values[1]))
    right.legend(frameon=False, fontsize=8, loc="upper right")
    plain(right)


def parts(figure: Figure) -> None:
    """Draw three parts of a model, each with its own regulariser."""
    tree = {"a": X[:5], "b": X[[4, 2, 7]], "c": X[[1, 6]]}
    g = prox.Parts({"a": prox.L1(0.6), "b": prox.NonNegative()})
    after = {name: np.asarray(leaf) for name, leaf in g.prox(tree, 1.0).items()}
    colours = {"a": BLUE, "b": GREEN, "c": WINE}
    axes = figure.subplots()
    before = np.concatenate(list(tree.values()))
    bars(axes, before, np.concatenate(list(after.values())), [colours[name] for name in tree for _ in tree[name]])
    for name, place, words in (("a", 2, "L1(0.6)"), ("b", 6, "NonNegative()"), ("c", 8.5, "nothing")):
        axes.text(place, 2.6, f"{name}: {words}", ha="center", color=colours[name], fontsize=9)
    axes.set_ylim(-2.4, 3.1)
    plain(axes)


def heat(axes: Axes, x: NDArray[Any], title: str) -> None:
    """Draw a matrix, white for zero."""
    axes.imshow(x, cmap="RdBu_r", vmin=-2.5, vmax=2.5, aspect="auto")
    axes.set_title(title, fontsize=10)
    axes.set_xticks([])
    axes.set_yticks([])


def panels(figure: Figure, *titles: str, widths: tuple[float, float] = (1, 1)) -> list[Axes]:
    """Return a plain panel for each of two titles."""
    found = list(figure.subplots(1, 2, width_ratios=widths))
    for axes, title in zip(found, titles, strict=True):
        axes.set_title(title, fontsize=10)
        axes.grid(alpha=0.25, linewidth=0.6)
        plain(axes)
    return found


def plain(axes: Axes) -> None:
    """Leave out what says nothing."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)


def circle(radius: float) -> NDArray[Any]:
    """Return points of a circle."""
    angles = np.linspace(0, 2 * np.pi, 100)
    return radius * np.column_stack([np.cos(angles), np.sin(angles)])


PICTURES: dict[str, Draw] = {
    "Zero": curves(prox.Zero(), steps=False),
    "L1": curves(prox.L1(1.0)),
    "L2": plane(prox.L2(1.0)),
    "SquaredL2": curves(prox.SquaredL2(1.0)),
    "ElasticNet": curves(prox.ElasticNet(0.5, 0.5)),
    "LInf": plane(prox.LInf(1.0)),
    "GroupL2": groups,
    "Nuclear": nuclear,
    "Box": curves(prox.Box(-1.0, 2.0), steps=False),
    "NonNegative": curves(prox.NonNegative(), steps=False),
    "Simplex": plane(prox.Simplex(1.0), np.array([[1.0, 0.0], [0.0, 1.0]])),
    "L1Ball": plane(prox.L1Ball(1.5), 1.5 * np.array([[1.0, 0], [0, 1], [-1, 0], [0, -1]])),
    "L2Ball": plane(prox.L2Ball(1.5), circle(1.5)),
    "Scaled": curves(prox.Scaled(prox.L1(1.0), 0.5)),
    "Translated": curves(prox.Translated(prox.L1(1.0), 1.0)),
    "Parts": parts,
}
"""What each regulariser is drawn by; tests/test_docs.py holds this list to the regularisers that there are."""

if __name__ == "__main__":
    main()
