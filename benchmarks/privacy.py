"""What privacy of sites and of records costs on the hospitals: the tables of docs/DIFFERENTIAL_PRIVACY.md.

python benchmarks/privacy.py --data-dir FOLDER [--level site|record] [--splits 10]
"""

import argparse
from typing import Any

import numpy as np

import feddr
from feddr.privacy import RecordLevel, SiteLevel, noise_for

CLIP, DELTA, ROUNDS, EPOCHS = 0.2, 1e-3, 5, 5
LOCAL = feddr.local.SGD(lr=0.5, epochs=EPOCHS, batch_size=None)
BUDGETS = {"site": (None, 64.0, 16.0, 4.0, 1.0), "record": (None, 16.0, 4.0, 1.0, 0.25)}
LINES = {
    "site": ("FedAvg", "FedDR", "FedAvg, models"),
    "record": ("FedAvg, records", "FedDR, records"),
}
RECORD_CLIP, RECORD_DELTA = 0.3, 1e-4


def problem(folder: str, seed: int) -> feddr.Problem:
    """Return the hospitals with a third of the patients of each for testing."""
    data = feddr.datasets.heart_disease(folder, test_share=1 / 3, seed=seed)
    return feddr.Problem.classification(feddr.models.linear(13), data, weights="samples")


def method(line: str, budget: float | None, weights: Any) -> Any:
    """Return a method whose noise spends the budget to the end."""
    privacy: Any = None
    if budget is not None and line in LINES["record"]:
        noise = noise_for(budget, RECORD_DELTA, ROUNDS * EPOCHS)
        privacy = RecordLevel(RECORD_CLIP, noise, RECORD_DELTA, budget, EPOCHS)
    elif budget is not None:
        noise, sees = noise_for(budget, DELTA, ROUNDS), "uploads"
        if line == "FedAvg, models":
            noise, sees = noise * float(weights.max() / np.linalg.norm(weights)) * (1 + 1e-9), "models"
        privacy = SiteLevel(CLIP, noise, DELTA, budget, sees)  # type: ignore[arg-type]
    if line.startswith("FedDR"):
        return feddr.FedDR(eta=10.0, alpha=1.9, init="lazy", mean="all", privacy=privacy)
    return feddr.FedAvg(privacy=privacy)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--level", choices=list(LINES), default="site")
    parser.add_argument("--splits", type=int, default=10)
    options = parser.parse_args()
    hospitals = [problem(options.data_dir, seed) for seed in range(options.splits)]
    for budget in BUDGETS[options.level]:
        for line in LINES[options.level]:
            values = []
            for seed, one in enumerate(hospitals):
                rules = method(line, budget, one.client_weights)
                more: dict[str, Any] = {"evaluate_every": ROUNDS, "metrics": ["auc"], "progress": False}
                last = feddr.simulate(one, rules, local=LOCAL, rounds=ROUNDS, seed=seed, **more).history.last
                assert last.round == ROUNDS, "the budget is for all rounds"
                values.append((last.value("auc"), last.test_accuracy, last.F))
            means, spread = np.mean(values, axis=0), np.std(values, axis=0)
            numbers = "  ".join(f"{m:.3f} ± {s:.3f}" for m, s in zip(means, spread, strict=True))
            print(f"epsilon {budget or 'none'!s:>5}  {line:15} AUC, accuracy, F: {numbers}", flush=True)


if __name__ == "__main__":
    main()
