"""Virtual time until FedDR in rounds and AsyncFedDR reach an accuracy, for several seeds.

    python benchmarks/async_vs_rounds.py

Twenty clients with synthetic data, the fastest up to twice as fast as the slowest, the same local work and step sizes
for both. The seed draws data, speeds and batches. A method has reached an accuracy when it stays at or above it for
three evaluations in a row; "-" stands for never within the time.
"""

import statistics

import feddr

CLIENTS, TIME, TARGETS = 20, 150.0, (0.70, 0.75, 0.80)


def reached(history: feddr.History, target: float) -> float:
    accuracy, time = history.column("train_accuracy"), history.column("time")
    for k in range(len(time) - 2):
        if min(accuracy[k : k + 3]) >= target:
            return time[k]
    return float("nan")


def histories(seed: int, eta: float, alpha: float) -> tuple[feddr.History, feddr.History]:
    data = feddr.datasets.synthetic(0.5, 0.5, num_clients=CLIENTS, seed=seed)
    problem = feddr.Problem.classification(feddr.models.mlp([60, 32, 10]), data, weights="samples")
    local = feddr.local.SGD(lr=0.01, epochs=5, batch_size=10)
    speeds = feddr.delays.UniformSpeed(1.0, 2.0)
    rounds = feddr.simulate(
        problem,
        feddr.FedDR(eta=eta, alpha=alpha),
        local=local,
        rounds=int(TIME / 2),
        evaluate_every=1,
        seed=seed,
        clock=feddr.Clock(speeds),
    )
    clock = feddr.simulate_async(
        problem,
        feddr.AsyncFedDR(eta=eta, alpha=alpha),
        local=local,
        updates=int(TIME * CLIENTS / 1.5),
        evaluate_every=CLIENTS,
        seed=seed,
        clock=feddr.Clock(speeds),
    )
    return rounds.history, clock.history


def main() -> None:
    header = " ".join(f"{f'{100 * target:.0f} %: FedDR':>13} {'Async':>6}" for target in TARGETS)
    print(f"{'eta':>5} {'alpha':>6} {'seed':>5} {header}   (virtual time)")
    for eta, alpha in ((3.0, 1.0), (10.0, 1.0)):
        ratios: dict[float, list[float]] = {target: [] for target in TARGETS}
        for seed in range(5):
            pair = histories(seed, eta, alpha)
            cells = []
            for target in TARGETS:
                a, b = (reached(history, target) for history in pair)
                ratios[target].append(a / b)
                cells.append(f"{'-' if a != a else f'{a:.1f}':>13} {'-' if b != b else f'{b:.1f}':>6}")
            print(f"{eta:>5} {alpha:>6} {seed:>5} {' '.join(cells)}", flush=True)
        for target, found in ratios.items():
            known = [ratio for ratio in found if ratio == ratio]
            if known:
                wins = sum(ratio > 1 for ratio in known)
                median = statistics.median(known)
                print(
                    f"  {100 * target:.0f} %: AsyncFedDR first in {wins} of {len(known)}, median speed-up {median:.2f}"
                )


if __name__ == "__main__":
    main()
