"""A deployed run from its first message to its last: open or resume the ledger, play the rounds, save the results."""

import hashlib
import json
from pathlib import Path
from typing import Any

from flwr.serverapp import Grid

from feddr import tree
from feddr.algorithms import Algorithm, Asynchronous, Deployable, step_sizes, uploading
from feddr.flower import agreement, census, identity, private, rounds, secure_ledger, secure_round, steps, stopping
from feddr.flower.deployment import Deployment, Services
from feddr.flower.federation import Federation
from feddr.flower.journal import Journal, plain
from feddr.flower.mailbox import Mailbox, Monotonic, TimeSource
from feddr.flower.membership import Membership
from feddr.flower.metrics import MetricsWriter
from feddr.flower.progress import ProgressTable
from feddr.flower.settings import Settings
from feddr.history import History
from feddr.prox import Zero
from feddr.prox.compiled import compiled_prox
from feddr.sampling import Full, Sampling
from feddr.storage import atomic, lock
from feddr.xla import compilation_cache


def serve(
    grid: Grid,
    federation: Federation,
    algorithm: Algorithm,
    sampling: Sampling,
    settings: Settings,
    clock: TimeSource | None = None,
    progress: ProgressTable | None = None,
) -> History:
    """Serve a run to its end, and return its history; the arguments are those of ``server_app``."""
    clock = Monotonic() if clock is None else clock
    deployable = check(federation, algorithm, sampling, settings)
    compilation_cache.enable()
    busy = RuntimeError(
        f"The run {settings.name!r} is being served by another process; wait for it, or choose another name."
    )
    what = "update" if isinstance(algorithm, Asynchronous) else "round"
    with (
        lock.locked(settings.run_folder, busy),
        progress or ProgressTable(settings.name, what, settings.rounds) as shown,
    ):
        federation = agreement.agreed(grid, federation, settings, clock, shown)
        run = open_run(grid, federation, deployable, sampling, settings, clock, shown)
        rounds.play(run)
        run.finish()
        _save_settings(settings.run_folder, run)
        _save_picture(settings.run_folder, run)
        run.journal.write("end", version=run.ledger.version)  # whoever waits for it finds all files
        return run.metrics.history


def check(federation: Federation, algorithm: Algorithm, sampling: Sampling, settings: Settings) -> Deployable:
    """Refuse settings that exclude each other, and return the algorithm."""
    name = type(algorithm).__name__
    if not isinstance(algorithm, Deployable):
        raise ValueError(
            f"A deployment needs a method whose uploads can be absolute, {name} has no such rules; "
            "use FedDR or AsyncFedDR."
        )
    uploading.check(algorithm)
    private.check(algorithm, federation.evaluation)
    if not algorithm.composite and not isinstance(federation.regulariser, Zero):
        raise ValueError(f"{name} has no composite step, got g={federation.g}; use FedDR, or g=None.")
    if not algorithm.partial and not isinstance(sampling, Full):
        raise ValueError(f"{name} needs every client in every round, got {sampling}; use FedDR, or Full().")
    if isinstance(algorithm, Asynchronous) and not isinstance(sampling, Full):
        raise ValueError(f"{name} takes clients as they come, got {sampling}; leave it out, or use FedDR.")
    stopping.check(settings.stopping, federation)
    sampling.check(federation.clients)
    step_sizes.check(algorithm, federation.clients)
    settings.check(algorithm, federation.clients)
    if settings.secure is not None:
        secure_round.check(settings.secure, federation, algorithm, sampling, settings)
    return algorithm


def open_run(
    grid: Grid,
    federation: Federation,
    algorithm: Deployable,
    sampling: Sampling,
    settings: Settings,
    clock: TimeSource,
    progress: ProgressTable,
) -> Deployment:
    """Open or create the ledger, and everything else that a run needs."""
    folder, x0 = settings.run_folder, tree.cast(federation.init, settings.dtype)
    journal = Journal(folder / "log.jsonl")
    mailbox = Mailbox(grid, clock, settings.ttl, journal)
    rules = identity.rules(algorithm, settings.precision, federation.init)
    asked = _identity(federation, algorithm, sampling, settings, rules)
    prox = compiled_prox(federation.regulariser)
    kind = secure_ledger.kind(asked)
    ledger = kind.resume(folder, algorithm, prox, x0, asked)
    event, new = ("start", True) if ledger is None else ("resume", False)
    samples, work = new and federation.weights == "samples", new and steps.is_open(algorithm)
    preparation = federation.preparation_text
    membership = Membership(mailbox, journal, clock, settings.name, federation.clients, samples, work, preparation)
    if ledger is None:
        roles, words = census.settle(federation, algorithm, sampling, settings, membership, clock, progress)
        ledger = kind.start(folder, roles, prox, x0, asked, words)
    journal.write(event, name=settings.name, uid=ledger.uid, version=ledger.version, **asked)
    journal.write("audit", error=ledger.audit())
    if ledger.words:
        journal.write("step_sizes", words=ledger.words, **steps.numbers(ledger.roles.algorithm))
        progress.say(f"{type(algorithm).__name__}: {ledger.words}")

    def withheld(client: int, metric: str, reason: str) -> None:
        journal.write("withheld", client=client, metric=metric, reason=reason)
        progress.say(f"client {client} tells no {metric}: {plain(reason)}")

    metrics = MetricsWriter(folder, federation, settings.dtype, ledger.weights, withheld)
    metrics.left = ledger.left
    metrics.resume(ledger.version)
    services = Services(clock, mailbox, membership, journal, progress)
    return Deployment(federation, algorithm, sampling, settings, ledger, metrics, services)


def _identity(
    federation: Federation, algorithm: Deployable, sampling: Sampling, settings: Settings, rules: str
) -> dict[str, Any]:
    """Return what must be the same when a run resumes; how far it goes may change."""
    weights, preparation = federation.weights, federation.preparation_text
    return {
        **({"preparation": hashlib.sha256(preparation.encode()).hexdigest()} if preparation else {}),
        "algorithm": repr(algorithm),
        "g": repr(federation.regulariser),
        "weights": weights if isinstance(weights, str) else [float(w) for w in weights],
        "clients": federation.clients,
        "seed": settings.seed,
        "precision": settings.precision,
        "sampling": repr(sampling),
        "rules": rules,
        **secure_ledger.plain_settings(settings.secure),
    }


def _save_settings(folder: Path, run: Deployment) -> None:
    settings = {**run.ledger.settings, "rounds": run.ledger.version, "evaluate_every": run.settings.evaluate_every}
    if run.ledger.words:
        settings["step_sizes"] = run.ledger.words
    if run.settings.stop_when is not None:
        settings["stop_when"] = run.settings.stop_when
    if run.end.reason:
        settings["stopped"] = f"in round {run.ledger.version}, {run.end.reason}"
    text = json.dumps({"engine": "flower", "name": run.settings.name, **settings}, indent=2)
    atomic.write(folder / "settings.json", f"{text}\n".encode())


def _save_picture(folder: Path, run: Deployment) -> None:
    from feddr import plots

    histories = {type(run.algorithm).__name__: run.metrics.history}
    if plots.has_curves(histories):  # a server without metrics of its nodes has none
        plots.save(plots.curves(histories), folder / "curves.png")
