"""One sparse risk model over four hospitals: who has a narrowed coronary artery, and does sharing help to tell.

No hospital shows its patients to another. Together they fit a logistic model with few coefficients, which a doctor can
read: once with an l1 penalty, and once with w >= 0 as well, on features turned so that more of them means more risk.

Two questions. Is it the model that one table with all patients would have given? The distance is printed. And does it
serve each hospital better than that hospital's own model? AUC and calibration are those of patients who were kept out
of training, over several random splits, because one split of so few patients proves nothing.

The picture: the coefficients, the AUC in each hospital, and observed against predicted risk.

    python examples/heart_disease.py [--data-dir FOLDER] [--quick] [--out DIR]
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import common
import jax
import numpy as np
import pandas as pd
from common import BLACK, BLUE, GREEN, GREY, ORANGE, PINK
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import mannwhitneyu

import feddr
from feddr.prox import L1, NonNegative, Regulariser, leave

Array = NDArray[np.float64]
AUCs = dict[tuple[str, str], Array]
"""By penalty and model, an array (hospitals, splits)."""

HOSPITALS = ("Cleveland", "Budapest", "Switzerland", "Long Beach")
MODELS = ("federated", "pooled", *HOSPITALS)
# 1 where more is known to mean more risk, -1 for what is turned round: pain other than typical angina, and a high peak
# heart rate. To come without pain is a sign of risk here: something else was alarming enough to look into the artery.
TURN = {"age": 1, "male": 1, "atypical angina": -1, "non-anginal pain": -1, "no chest pain": 1, "blood pressure": 1}
TURN |= {"cholesterol": 1, "blood sugar": 1, "ST-T abnormal": 1, "hypertrophy": 1, "peak heart rate": -1}
TURN |= {"exercise angina": 1, "ST depression": 1}
NAMES = [name if sign > 0 else f"minus {name}" for name, sign in TURN.items()]
STRENGTH = 0.005


@dataclass(frozen=True)
class NonNegativeL1:
    """strength ||w||_1 on w >= 0. Both act entry by entry, so the prox is one after the other: max(w - t, 0)."""

    strength: float
    mask: Any = None

    def value(self, x: Any) -> jax.Array:
        """Return g(x)."""
        return L1(self.strength, mask=self.mask).value(x) + NonNegative(mask=self.mask).value(x)

    def prox(self, x: Any, eta: float | jax.Array) -> Any:
        """Return max(x - eta strength, 0), but for what the mask leaves alone."""
        return NonNegative(mask=self.mask).prox(L1(self.strength, mask=self.mask).prox(x, eta), eta)


PENALTIES: dict[str, Regulariser] = {
    "l1": L1(STRENGTH, mask=leave("bias")),
    "l1, w >= 0": NonNegativeL1(STRENGTH, mask=leave("bias")),
}


@dataclass(frozen=True)
class Findings:
    """How far federated models are from pooled ones, the least coefficient where w >= 0, and mean AUCs by model."""

    distance: float
    least: float
    auc: AUCs


def patients(data_dir: str | None, seed: int) -> feddr.FederatedData:
    """Return the hospitals, a third of the patients of each kept for testing, features turned towards risk."""
    data = feddr.datasets.heart_disease(data_dir, test_share=1 / 3, seed=seed) if data_dir else made_up(seed)
    assert data.test is not None
    for part in (data.train, data.test):
        part.samples["x"] = part.samples["x"].astype(np.float64) * np.array(list(TURN.values()))
    return data


def made_up(seed: int) -> feddr.FederatedData:
    """Return patients in the same spirit: some features count, hospitals differ in age and in how ill people are."""
    measured = np.isin(list(TURN), ["age", "blood pressure", "cholesterol", "peak heart rate", "ST depression"])
    train, test = [], []
    for i, (size, shift) in enumerate(zip((303, 294, 123, 200), (-1.6, -2.1, 1.3, -0.4), strict=True)):
        rng = np.random.default_rng(i)
        x = np.where(measured, rng.normal(0.2 * i, 1.0, (size, 13)), rng.random((size, 13)) < 0.4)
        risk = x @ np.array([0.3, 0.6, -0.4, 0, 1.2, 0, 0, 0, 0, 0, -0.5, 0.6, 0.6]) + shift
        y = (rng.random(size) < expit(risk)).astype(np.int32)
        kept = np.random.default_rng([seed, i]).permutation(size) < size // 3
        train.append({"x": x[~kept], "y": y[~kept]})
        test.append({"x": x[kept], "y": y[kept]})
    return feddr.FederatedData.from_clients(train, test)


def federated(data: feddr.FederatedData, g: Regulariser) -> Array:
    """Return weights and intercept; hospitals send models, and no patient leaves them."""
    result = feddr.simulate(
        feddr.Problem.classification(feddr.models.linear(13), data, g=g, weights="samples"),
        feddr.FedDR(eta=10.0, alpha=1.9),
        local=feddr.local.Accelerated(tol=1e-10),
        rounds=2000,
        evaluate_every=20,
        precision="float64",
        callback=lambda progress: progress.row is not None and progress.row.gradient_mapping < 1e-10,
    )
    return np.append(result.params["weight"], result.params["bias"])


def one_table(samples: Mapping[str, Any], strength: float, least: float) -> Array:
    """Return weights and intercept for patients in one table: FISTA in NumPy, which shares no code with feddr."""
    x, y = samples["x"], samples["y"]
    a = np.column_stack([x, np.ones(len(x))])
    step = 4 * len(y) / np.linalg.norm(a, 2) ** 2
    threshold, floor = np.full(a.shape[1], step * strength), np.full(a.shape[1], least)
    threshold[-1], floor[-1] = 0.0, -np.inf  # the intercept is free
    w = v = np.zeros(a.shape[1])
    t, moved = 0, 1.0
    while moved > 1e-14:
        u = v - step * a.T @ (expit(a @ v) - y) / len(y)
        new = np.maximum(u - np.clip(u, -threshold, threshold), floor)
        t = 0 if (v - new) @ (new - w) > 0 else t + 1  # restart of momentum that leads uphill
        v, moved, w = new + t / (t + 3) * (new - w), np.abs(new - w).max(), new
    return w


def fit(data: feddr.FederatedData, penalty: str) -> Array:
    """Return a row of coefficients for each of the MODELS."""
    least = 0.0 if ">=" in penalty else -np.inf
    tables = [data.train.samples, *(data.train.client(i) for i in range(4))]
    return np.array([federated(data, PENALTIES[penalty]), *(one_table(table, STRENGTH, least) for table in tables)])


def odds(model: Array, samples: Mapping[str, Any]) -> tuple[Array, Array]:
    """Return the log odds that a model gives patients, and who is ill."""
    return samples["x"] @ model[:-1] + model[-1], samples["y"]


def auc(z: Array, y: Array) -> float:
    """Return how often the ill one of a pair of patients has the higher odds; NaN where there is no pair."""
    ill, healthy = z[y == 1], z[y == 0]
    return mannwhitneyu(ill, healthy).statistic / (len(ill) * len(healthy)) if len(ill) and len(healthy) else np.nan


def recentred(model: Array, samples: Mapping[str, Any]) -> Array:
    """Return the model with the intercept with which the mean risk of these patients is right."""
    z, y = odds(model, samples)
    return model + np.eye(14)[13] * brentq(lambda c: np.mean(expit(z + c) - y), -20, 20)


def calibration(pairs: Sequence[tuple[Array, Array]]) -> dict[str, float]:
    """Return predicted and observed risk, the slope of the true log odds in the predicted ones, and Brier's score."""
    z, y = map(np.concatenate, zip(*pairs, strict=True))
    slope = one_table({"x": z[:, None], "y": y}, 0.0, -np.inf)[0]
    means = {"predicted %": 100 * expit(z).mean(), "observed %": 100 * y.mean()}
    return means | {"slope": slope, "Brier": np.mean((expit(z) - y) ** 2)}


def main(argv: Sequence[str] | None = None) -> Findings:
    """Fit every model on every split, print tables, draw the picture."""
    options = common.arguments(__doc__, argv, data=True)
    if not options.data_dir:
        print("No --data-dir: these patients are made up, and so is what comes out.\n")
    splits = [patients(options.data_dir, seed) for seed in range(1 if options.quick else 10)]
    fits = {penalty: np.array([fit(data, penalty) for data in splits]) for penalty in PENALTIES}
    tests = [[data.test.client(i) for data in splits if data.test] for i in range(4)]  # by hospital and split

    print(f"The federated model: mean coefficients over {len(splits)} splits, and in how many a feature survives")
    kept = {p: [f"{c.mean():6.2f} {np.sum(c != 0):3d}" for c in fits[p][:, 0, :-1].T] for p in PENALTIES}
    print(pd.DataFrame(kept, index=NAMES).to_string())

    print("\nAUC on test patients, mean and standard deviation over splits: a row is a model, a column who is tested")
    aucs = {}
    for penalty, models in fits.items():
        for name, rows in zip(MODELS, models.swapaxes(0, 1), strict=True):
            aucs[penalty, name] = np.array([[auc(*odds(*pair)) for pair in zip(rows, t, strict=True)] for t in tests])
    shown = {key: [f"{np.nanmean(a):.2f} ± {np.nanstd(a):.2f}" for a in values] for key, values in aucs.items()}
    print(pd.DataFrame(shown, index=HOSPITALS).T.to_string())

    print("\nCalibration of the l1 models on test patients")
    lines = {}
    for i, hospital in enumerate(HOSPITALS):
        shared, own = fits["l1"][:, 0], fits["l1"][:, MODELS.index(hospital)]
        moved = [recentred(model, data.train.client(i)) for model, data in zip(shared, splits, strict=True)]
        for name, rows in (("federated", shared), ("with its own intercept", moved), ("own model", own)):
            lines[hospital, name] = calibration([odds(*pair) for pair in zip(rows, tests[i], strict=True)])
    print(pd.DataFrame(lines).T.round(2).to_string())

    distance = max(float(np.abs(models[:, 0] - models[:, 1]).max()) for models in fits.values())
    print(f"\nNo coefficient of a federated model is further than {distance:.1e} from that of one table.")
    common.save(draw(fits, aucs, tests), options.out / "heart_disease.png")
    return Findings(distance, float(fits["l1, w >= 0"][:, 0, :-1].min()), aucs)


def draw(fits: Mapping[str, Array], aucs: AUCs, tests: Sequence[Sequence[Any]]) -> Figure:
    """Draw coefficients, AUC and calibration."""
    figure, (left, middle, right) = common.panels([1.0, 1.15, 1.0], height=4.2)
    order = np.argsort(fits["l1"][:, 0, :-1].mean(axis=0))
    for penalty, colour, marker, up in (("l1", BLUE, "o", 0.16), ("l1, w >= 0", ORANGE, "s", -0.16)):
        weights, place = fits[penalty][:, 0, order], np.arange(13) + up
        left.hlines(place, weights.min(axis=0), weights.max(axis=0), color=colour, linewidth=2)
        left.plot(weights.mean(axis=0), place, marker, color=colour, markersize=4.5, label=penalty)
    left.axvline(0, color=GREY, linewidth=0.8)
    left.set_yticks(range(13), [NAMES[j] for j in order])
    left.set(xlabel="coefficient: mean, range over splits", title="Which features survive")
    left.legend(frameon=False, loc="lower right")

    for i, hospital in enumerate(HOSPITALS):
        for j, (name, colour) in enumerate((("federated", BLUE), ("pooled", BLACK), (hospital, ORANGE))):
            found = aucs["l1", name][i]
            label = ("federated", "pooled", "own patients only")[j] if i == 0 else None
            middle.errorbar(
                i + 0.2 * j - 0.2,
                np.nanmean(found),
                np.nanstd(found),
                fmt="osD"[j],
                color=colour,
                capsize=2,
                label=label,
            )
        others = [np.nanmean(aucs["l1", name][i]) for name in HOSPITALS if name != hospital]
        middle.plot([i + 0.4] * 3, others, "x", color=GREY, label=None if i else "another hospital's model")
    middle.set_xticks(range(4), ["Cleve-\nland", "Buda-\npest", "Switzer-\nland", "Long\nBeach"])
    middle.set(ylim=(0.3, 1.0), ylabel="AUC: mean, deviation over splits", title="Who is told apart")
    middle.legend(frameon=False, loc="lower left", fontsize=8.5)

    right.plot([0, 100], [0, 100], color=GREY, linewidth=0.8)
    for i, (hospital, colour, marker) in enumerate(zip(HOSPITALS, (BLUE, ORANGE, GREEN, PINK), "osD^", strict=True)):
        pairs = [odds(*pair) for pair in zip(fits["l1"][:, 0], tests[i], strict=True)]
        z, y = map(np.concatenate, zip(*pairs, strict=True))
        points = [(100 * expit(z[rows]).mean(), 100 * y[rows].mean()) for rows in np.array_split(np.argsort(z), 5)]
        right.plot(*zip(*points, strict=True), marker=marker, color=colour, markersize=4.5, label=hospital)
    right.set(xlabel="predicted risk (%), by fifths", ylabel="observed (%)", title="Is the federated risk right?")
    right.legend(frameon=False, loc="lower right", fontsize=8.5)
    return figure


if __name__ == "__main__":
    main()
