"""Local steps a second of the virtual clock against the synchronous simulator, and the cost of an event.

    python benchmarks/async_throughput.py

The first table has the same problem, clients and number of local updates for both engines; what counts is the ratio,
which must be at least 0.8. The second has the schedule alone, with 10^5 clients in the heap and nothing to compute.
"""

import statistics
import time

import feddr
from feddr import delays
from feddr.delays import Job
from feddr.engines.clock import events
from feddr.engines.clock.schedule import Schedule

CLIENTS, ROUNDS, REPEATS = 20, 20, 5


def problem(hidden: int) -> feddr.Problem:
    data = feddr.datasets.synthetic(0.5, 0.5, num_clients=CLIENTS, seed=0)
    return feddr.Problem.classification(feddr.models.mlp([60, hidden, 10]), data, weights="samples")


def steps_per_second(row: feddr.History) -> float:
    return row.last.local_steps / (row.last.wall_time - row.rows[0].wall_time)


def throughput(hidden: int, epochs: int) -> tuple[float, float, float]:
    """Return the medians of both engines, and of the ratio of runs that stand side by side."""
    ours = problem(hidden)
    local = feddr.local.SGD(lr=0.01, epochs=epochs, batch_size=10)
    rounds, clock = [], []
    for repeat in range(REPEATS + 1):
        sync = feddr.simulate(
            ours, feddr.FedDR(eta=10.0), local=local, rounds=ROUNDS, seed=repeat, evaluate_every=ROUNDS
        )
        updates = ROUNDS * CLIENTS
        run = feddr.simulate_async(
            ours,
            feddr.AsyncFedDR(eta=10.0),
            local=local,
            updates=updates,
            clock=feddr.Clock(delays.UniformSpeed(1.0, 2.0)),
            seed=repeat,
            evaluate_every=updates,
        )
        if repeat:  # the first of each compiles
            rounds.append(steps_per_second(sync.history))
            clock.append(steps_per_second(run.history))
    ratio = statistics.median(b / a for a, b in zip(rounds, clock, strict=True))
    return statistics.median(rounds), statistics.median(clock), ratio


def event_cost(model: delays.Delay, n: int, concurrency: int, count: int = 200_000, most: int = 0) -> float:
    """Return the microseconds of an event: to take it from the heap, to begin the next job and to time it."""

    def describe(client: int, number: int) -> Job:
        return Job(0, client, number, 100, 10_000, 10_000)

    schedule = Schedule(n, model, 0, describe, concurrency, events.EventRecorder(most))
    schedule.begin(0)
    begin = time.perf_counter()
    for version in range(count):
        schedule.step()
        schedule.begin(version)
    return 1e6 * (time.perf_counter() - begin) / count


def main() -> None:
    print(f"{CLIENTS} clients, {ROUNDS} local updates of each; medians of {REPEATS} pairs of runs")
    print(f"{'model':>14} {'epochs':>7} {'simulate':>10} {'simulate_async':>15} {'ratio':>6}   (steps/s)")
    for hidden, epochs in ((32, 20), (32, 5), (128, 5)):
        rounds, clock, ratio = throughput(hidden, epochs)
        print(f"{f'60x{hidden}x10':>14} {epochs:>7} {rounds:>10,.0f} {clock:>15,.0f} {ratio:>6.2f}")
    n = 100_000
    rough = delays.Combined([delays.LogNormal(0.5), delays.Network(0.1, 1e6), delays.Dropout(0.1, 1.0)])
    print(f"\n{n:,} clients, the schedule alone")
    print(f"{'delays':>32} {'working':>8} {'events kept':>12} {'microseconds an event':>22}")
    for name, model, working, most in (
        ("Uniform", delays.UniformSpeed(1.0, 2.0), n, 0),
        ("Uniform", delays.UniformSpeed(1.0, 2.0), 1000, 0),
        ("LogNormal, Network, Dropout", rough, n, 0),
        ("LogNormal, Network, Dropout", rough, n, 10**7),
    ):
        cost = event_cost(model, n, working, most=most)
        print(f"{name:>32} {working:>8,} {'all' if most else 'none':>12} {cost:>22.1f}")


if __name__ == "__main__":
    main()
