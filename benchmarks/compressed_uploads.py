"""What compression does to F, in the settings of the reproduction with fewer rounds.

python benchmarks/compressed_uploads.py uploads         # FedDR() with uploads of 4 bits beside every bit
python benchmarks/compressed_uploads.py downloads       # FedDR() with clients that read a rounded xbar
python benchmarks/compressed_uploads.py uploads --only writers --seeds 0,1

A table in Markdown is printed, for docs/COMPRESSION.md. MNIST by writer needs its file (docs/DATA.md).
"""

import argparse
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

import feddr
from feddr.compress import Quantised, Rounded
from feddr.history import Row


class Setting(NamedTuple):
    """A federation with the local work of the reproduction."""

    layers: tuple[int, ...]
    lr: float
    sampled: int
    rounds: int

    def problem(self, name: str, seed: int) -> feddr.Problem:
        """Return the problem of a draw."""
        if name == "writers":
            data = feddr.datasets.mnist("writer", num_clients=40, seed=seed)
        else:
            r = float(name)
            data = feddr.datasets.synthetic(r, r, num_clients=30, seed=seed)
        return feddr.Problem.classification(feddr.models.mlp(self.layers), data, weights="samples", seed=seed)

    def play(self, problem: feddr.Problem, seed: int, **compression: Any) -> list[Row]:
        """Return the rows of the last fifth of FedDR()'s rounds."""
        result = feddr.simulate(
            problem,
            feddr.FedDR(**compression),
            local=feddr.local.SGD(lr=self.lr, epochs=20, batch_size=10),
            sampling=feddr.sampling.Uniform(self.sampled),
            rounds=self.rounds,
            evaluate_every=self.rounds // 20,
            seed=seed,
            progress=False,
        )
        return result.history.rows[-5:]


SYNTHETIC = Setting((60, 32, 10), lr=0.01, sampled=10, rounds=100)
SETTINGS = dict.fromkeys(("0", "0.5", "1"), SYNTHETIC) | {
    "writers": Setting((784, 128, 10), lr=0.003, sampled=10, rounds=50)
}
TITLES = {
    "0": "synthetic-(0,0), 10 of 30, round 100",
    "0.5": "synthetic-(0.5,0.5), 10 of 30, round 100",
    "1": "synthetic-(1,1), 10 of 30, round 100",
    "writers": "MNIST by writer, 10 of 40, round 50",
}


def compare(name: str, ways: Mapping[str, dict[str, Any]], seeds: list[int]) -> dict[str, list[list[Row]]]:
    """Return the last rows of FedDR() with each compression, a list for each seed."""
    rows: dict[str, list[list[Row]]] = {way: [] for way in ways}
    for seed in seeds:
        problem = SETTINGS[name].problem(name, seed)
        for way, compression in ways.items():
            rows[way].append(SETTINGS[name].play(problem, seed, **compression))
            last = rows[way][-1][-1]
            each = " ".join(f"{row.F:.5f}" for row in rows[way][-1])
            print(f"# {name} seed {seed} {way}: F {each}, up {last.bytes_up:,}, down {last.bytes_down:,}", flush=True)
    return rows


def uploads(names: list[str], seeds: list[int]) -> list[str]:
    """Return a table of uploads of 4 bits beside every bit; 16 bits show what any change of last digits does."""
    ways = {"every bit": {}, "16 bits": {"upload": Quantised(16)}, "4 bits": {"upload": Quantised(4)}}
    lines = [
        "| set | F, every bit | F, 16 bits | F, 4 bits | to every bit, each seed: 16 bits | 4 bits | bytes of 4 bits |",
        "|---" * 7 + "|",
    ]
    for name in names:
        rows = compare(name, ways, seeds)
        last = {way: np.array([each[-1].F for each in rows[way]]) for way in ways}
        ratios = [last[way] / last["every bit"] for way in list(ways)[1:]]
        words = [spread(last[way]) for way in ways] + [", ".join(f"{one:.3f}" for one in each) for each in ratios]
        share = rows["4 bits"][0][-1].bytes_up / rows["every bit"][0][-1].bytes_up
        lines.append(f"| {' | '.join([TITLES[name], *words])} | {share:.4f} |")
    return lines


def downloads(names: list[str], seeds: list[int]) -> list[str]:
    """Return a table of what clients read: F in relation to that with every bit, mean and range over the seeds."""
    ways: dict[str, dict[str, Any]] = {
        "every bit": {},
        "float16": {"download": Rounded("float16")},
        "bfloat16": {"download": Rounded("bfloat16")},
        "8 bits": {"download": Quantised(8)},
    }
    lines = [f"| set | {' | '.join(ways)} |", "|---" * (len(ways) + 1) + "|"]
    for name in names:
        rows = compare(name, ways, seeds)
        fifth = {way: np.array([np.mean([row.F for row in each]) for each in rows[way]]) for way in ways}
        share = {way: rows[way][0][-1].bytes_down / rows["every bit"][0][-1].bytes_down for way in ways}
        words = [spread(fifth["every bit"])]
        for way in list(ways)[1:]:
            ratios = fifth[way] / fifth["every bit"]
            words.append(f"{ratios.mean():.3f} ({ratios.min():.3f} to {ratios.max():.3f}), bytes {share[way]:.3f}")
        lines.append(f"| {TITLES[name]} | {' | '.join(words)} |")
    return lines


def spread(values: Any) -> str:
    """Return mean and standard deviation."""
    return f"{values.mean():.4f} +- {values.std(ddof=1) if len(values) > 1 else 0.0:.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description="What compression does to F")
    parser.add_argument("part", choices=("uploads", "downloads"))
    parser.add_argument("--only", choices=SETTINGS)
    parser.add_argument("--seeds", default="0,1,2,3,4")
    options = parser.parse_args()
    names, seeds = [options.only] if options.only else list(SETTINGS), [int(seed) for seed in options.seeds.split(",")]
    print("\n".join({"uploads": uploads, "downloads": downloads}[options.part](names, seeds)))


if __name__ == "__main__":
    main()
