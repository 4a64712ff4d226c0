"""What a run on real processes must come to: the books balance, and the solution is the right one."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

import feddr
from feddr import flower
from tests.deploy.app.faults.task import LOCAL, problem, solution

APP = Path(__file__).parent / "app"


def invariant(folder: Path) -> float:
    """Return ||xtilde - sum_i v_i xhat_i||, relative, from the files alone.

    x^0 = 0 stands for those not heard from. An upload of an open round is in the table and not in xtilde yet; the books
    name the file that is.
    """
    books = flower.read_run(folder)
    counted = {i: entry.counted for i, entry in books.entries.items() if entry.counted}
    total = sum(books.mean_weights[i] * load_file(folder / file)["x"] for i, file in counted.items())
    xtilde = books.server["xtilde"]
    return float(np.linalg.norm(xtilde - total) / max(1.0, float(np.linalg.norm(xtilde))))


def reference(rounds: int, clients: int, participants: int = 0, bits: int = 0) -> NDArray[np.float64]:
    """Return xbar of the plain loop, undisturbed; uploads have so many bits, all of them with 0."""
    sampling = feddr.sampling.Uniform(participants) if participants else feddr.sampling.Full()
    pooled = problem(list(range(clients)))
    result = feddr.reference(
        pooled,
        feddr.FedDR(0.5, 1.5, "lazy", mean="all", upload=feddr.compress.Quantised(bits) if bits else None),
        local=LOCAL,
        rounds=rounds,
        sampling=sampling,
        seed=0,
        precision="float64",
    )
    return np.asarray(result.params)


def is_the_reference_run(folder: Path, rounds: int, clients: int, participants: int = 0, bits: int = 0) -> None:
    """The run ends where the plain loop does; sums are taken in another order, so not to the last bit."""
    xbar = flower.read_run(folder).server["xbar"]
    np.testing.assert_allclose(xbar, reference(rounds, clients, participants, bits), rtol=0, atol=1e-12)


def counted_once(log: list[dict[str, Any]], folder: Path) -> None:
    """No update number of a client is accepted twice, and the books hold the last of each."""
    accepted = [(line["client"], line["number"]) for line in log if line["event"] == "accepted"]
    assert len(accepted) == len(set(accepted)), accepted
    last = {client: max(n for c, n in accepted if c == client) for client, _ in accepted}
    assert flower.read_run(folder).numbers == last


def was_missed(log: list[dict[str, Any]], client: int) -> bool:
    """Return whether the server saw that a client's node was gone: by looking who is there, or by Flower's error 5."""
    own = [line for line in log if line.get("client") == client]
    return any(line["event"] == "gone" or (line["event"] == "error" and line["code"] == 5) for line in own)


def distance(folder: Path, clients: int) -> float:
    """Return how far xbar is from the solution of the pooled problem."""
    return float(np.linalg.norm(flower.read_run(folder).server["xbar"] - solution(clients)))
