"""What compression does to F, in the settings of the reproduction with fewer rounds.

python benchmarks/compressed_uploads.py uploads         # FedDR() with uploads of 4 bits beside every bit
python benchmarks/compressed_uploads.py asynchronous    # AsyncFedDR() on the virtual clock, as "uploads"
python benchmarks/compressed_uploads.py downloads       # FedDR() with clients that read a rounded xbar
python benchmarks/compressed_uploads.py uploads --only writers --seeds 0,1

A table in Markdown is printed, for docs/COMPRESSION.md. MNIST by writer needs its file (docs/DATA.md).
"""

import argparse
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

import feddr
from feddr.compress import Quantised, Rounded
from feddr.history import Row


class Setting(NamedTuple):
    """A federation with the local work of the reproduction."""

    layers: tuple[int, ...]
    lr: float
    clients: int
    sampled: int
    rounds: int

    def problem(self, name: str, seed: int) -> feddr.Problem:
        """Return the problem of a draw."""
        if name == "writers":
            data = feddr.datasets.mnist("writer", num_clients=self.clients, seed=seed)
        else:
            r = float(name)
            data = feddr.datasets.synthetic(r, r, num_clients=self.clients, seed=seed)
        return feddr.Problem.classification(feddr.models.mlp(self.layers), data, weights="samples", seed=seed)

    def play(self, problem: feddr.Problem, seed: int, **compression: Any) -> list[Row]:
        """Return the rows of the last fifth of FedDR()'s rounds."""
        result = feddr.simulate(
            problem,
            feddr.FedDR(**compression),
            local=self.local,
            sampling=feddr.sampling.Uniform(self.sampled),
            rounds=self.rounds,
            evaluate_every=self.rounds // 20,
            seed=seed,
            progress=False,
        )
        return result.history.rows[-5:]

    def play_on_a_clock(self, problem: feddr.Problem, seed: int, **compression: Any) -> list[Row]:
        """Return the rows of the last fifth of as many updates of AsyncFedDR(), the fastest client twice as fast."""
        updates = self.rounds * self.sampled
        result = feddr.simulate_async(
            problem,
            feddr.AsyncFedDR(**compression),
            local=self.local,
            updates=updates,
            clock=feddr.Clock(feddr.delays.UniformSpeed(1.0, 2.0)),
            evaluate_every=updates // 20,
            seed=seed,
            progress=False,
        )
        return result.history.rows[-5:]

    @property
    def local(self) -> feddr.local.SGD:
        """The local solver."""
        return feddr.local.SGD(lr=self.lr, epochs=20, batch_size=10)


SYNTHETIC = Setting((60, 32, 10), lr=0.01, clients=30, sampled=10, rounds=100)
SETTINGS = dict.fromkeys(("0", "0.5", "1"), SYNTHETIC) | {
    "writers": Setting((784, 128, 10), lr=0.003, clients=40, sampled=10, rounds=50)
}
SETS = {
    "0": "synthetic-(0,0)",
    "0.5": "synthetic-(0.5,0.5)",
    "1": "synthetic-(1,1)",
    "writers": "MNIST by writer",
}


def title(name: str, clock: bool = False) -> str:
    """Return what a line of a table is about."""
    set_, (_, _, clients, sampled, rounds) = SETS[name], SETTINGS[name]
    return f"{set_}, " + (f"{rounds * sampled:,} updates" if clock else f"{sampled} of {clients}, {rounds} rounds")


def compare(
    name: str, ways: Mapping[str, dict[str, Any]], seeds: list[int], clock: bool = False
) -> dict[str, list[list[Row]]]:
    """Return the last rows of FedDR(), or AsyncFedDR(), with each compression, a list for each seed."""
    rows: dict[str, list[list[Row]]] = {way: [] for way in ways}
    play = SETTINGS[name].play_on_a_clock if clock else SETTINGS[name].play
    for seed in seeds:
        problem = SETTINGS[name].problem(name, seed)
        for way, compression in ways.items():
            rows[way].append(play(problem, seed, **compression))
            last = rows[way][-1][-1]
            each = " ".join(f"{row.F:.5f}" for row in rows[way][-1])
            print(f"# {name} seed {seed} {way}: F {each}, up {last.bytes_up:,}, down {last.bytes_down:,}", flush=True)
    return rows


def uploads(names: list[str], seeds: list[int], clock: bool = False) -> list[str]:
    """Return a table of uploads of 4 bits beside every bit; in rounds 16 bits show what any change of last digits does.

    On the clock there are every bit and 4 bits alone.
    """
    ways: dict[str, dict[str, Any]] = {"every bit": {}, "16 bits": {"upload": Quantised(16)}}
    ways = ({"every bit": {}} if clock else ways) | {"4 bits": {"upload": Quantised(4)}}
    return [*head(ways), *(line(title(name, clock), compare(name, ways, seeds, clock)) for name in names)]


def head(ways: Iterable[str]) -> list[str]:
    """Return the head of the table of uploads."""
    cells = ["set", "F, every bit"]
    for way in list(ways)[1:]:
        cells += [f"{way}, at the end", "last fifth"]
    return [f"| {' | '.join([*cells, 'bytes of 4 bits'])} |", "|---" * (len(cells) + 1) + "|"]


def line(of: str, rows: Mapping[str, list[list[Row]]]) -> str:
    """Return a line of the table of uploads: F with every bit, and F in relation to it."""
    last, fifth = (
        {way: np.array([statistic([row.F for row in each]) for each in rows[way]]) for way in rows}
        for statistic in (lambda each: each[-1], np.mean)
    )
    cells = [of, spread(last["every bit"])]
    for way in list(rows)[1:]:
        cells += [relation(each[way], each["every bit"]) for each in (last, fifth)]
    share = rows["4 bits"][0][-1].bytes_up / rows["every bit"][0][-1].bytes_up
    return f"| {' | '.join(cells)} | {share:.4f} |"


def relation(values: Any, base: Any) -> str:
    """Return the ratio of the means over the seeds, and the ratio of each seed."""
    return f"{values.mean() / base.mean():.2f} ({', '.join(f'{one:.2f}' for one in values / base)})"


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
        lines.append(f"| {title(name)} | {' | '.join(words)} |")
    return lines


def spread(values: Any) -> str:
    """Return mean and standard deviation."""
    return f"{values.mean():.4f} +- {values.std(ddof=1) if len(values) > 1 else 0.0:.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description="What compression does to F")
    parser.add_argument("part", choices=("uploads", "asynchronous", "downloads"))
    parser.add_argument("--only", choices=SETTINGS)
    parser.add_argument("--seeds", default="0,1,2,3,4")
    options = parser.parse_args()
    names, seeds = [options.only] if options.only else list(SETTINGS), [int(seed) for seed in options.seeds.split(",")]
    if options.part == "downloads":
        print("\n".join(downloads(names, seeds)))
    else:
        print("\n".join(uploads(names, seeds, clock=options.part == "asynchronous")))


if __name__ == "__main__":
    main()
