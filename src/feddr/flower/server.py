"""``server_app``: the server's side of a deployment, as a Flower ServerApp."""

from dataclasses import replace
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from feddr.algorithms import Algorithm
from feddr.early_stopping import StopWhen
from feddr.flower.federation import Federation
from feddr.flower.run import serve
from feddr.flower.settings import FromContext, Settings, from_context
from feddr.sampling import Full, Sampling
from feddr.secure import SecureAggregation


def server_app(
    federation: FromContext[Federation],
    algorithm: FromContext[Algorithm],
    *,
    name: str = "feddr",
    rounds: int = 100,
    sampling: FromContext[Sampling] | None = None,
    seed: int = 0,
    precision: str = "float32",
    evaluate_every: int = 1,
    deadline: float | None = None,
    min_replies: int | None = None,
    max_distance: float | None = None,
    broadcast: str = "auto",
    ttl: float = 43200.0,
    patience: float | None = None,
    folder: str | Path | None = None,
    stop_when: StopWhen | str | None = None,
    late: str = "drop",
    secure: FromContext[SecureAggregation | None] = None,
) -> ServerApp:
    """Return a Flower ServerApp that serves a run.

    ``AsyncFedDR``, ``FedAsync``, ``FedBuff`` and ``CA2FL`` run asynchronously, the other methods in rounds. A run that
    is submitted again under its name resumes where it stopped; its ledger is on the disk before an update counts.

    Parameters
    ----------
    federation, algorithm, sampling
        What the server knows of the problem, the method, and who takes part in a round (everybody by default); or
        functions from Flower's context to them. The nodes need the same algorithm. Where its eta or alpha is "auto",
        nodes report the length of their local work, which must be fixed (SGD, optax), and the run waits until all have.
    name
        Of the run, and of its folder.
    rounds
        Rounds in all, or updates of the server where clients do not wait for each other.
    seed, precision
        As in ``simulate``; nodes receive both.
    evaluate_every
        Rounds or updates between rows of the history.
    deadline
        Seconds after which a round ends without those who are late, if ``min_replies`` (one by default) have answered;
        else it waits until they have.
    max_distance
        The largest distance of an upload from the broadcast that it was computed from; others are refused.
    broadcast
        ``"auto"`` leaves out the zeros of a sparse xbar where this saves bytes; ``"dense"`` is for Flower mods that
        read arrays. An algorithm's ``download`` takes its place where clients train.
    ttl
        Seconds that a task may take before it is sent again.
    patience
        Seconds without an accepted update after which the run ends with ``Abandoned``; None to wait for ever.
    folder
        Where runs are kept; $FEDDR_HOME by default, else ~/.local/state/feddr.
    stop_when
        When to end before the last round, as in ``simulate``: a time or bytes, or a metric that the federation's
        ``evaluation`` measures. What nodes measure arrives a little later than the round that it is about.
    late
        What becomes of answers that come after the deadline of their round: ``"drop"``, or ``"count"`` them in the
        round in which they arrive, for ``FedDR(mean="all")``; until then their client is asked for nothing else.
    secure
        ``feddr.secure.SecureAggregation``, or a function from Flower's context to it: the server learns the weighted
        sum of the sites' changes and no site's own (docs/SECURE.md). The nodes need the same. A ``deadline`` is then
        that of each of the five stages of a round.

    Notes
    -----
    The run config may set each of the plain values as ``feddr.name``, ``feddr.rounds``, ``feddr.evaluate-every`` and so
    on, in which 0 and "" stand for None.

    Examples
    --------
    >>> import feddr
    >>> from feddr import flower
    >>> model = feddr.models.linear(13)
    >>> hospitals = flower.Federation(init=model.init(0), clients=4, g=feddr.prox.L1(0.01))
    >>> app = flower.server_app(hospitals, feddr.FedDR(), name="hearts", rounds=50)
    """
    settings = Settings(
        name,
        rounds,
        seed,
        precision,
        evaluate_every,
        deadline,
        min_replies,
        max_distance,
        broadcast,
        ttl,
        patience,
        folder,
        None if stop_when is None else str(StopWhen.of(stop_when)),
        late,
    )
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        chosen = replace(settings.overridden(context.run_config), secure=from_context(secure, context))
        scheme = Full() if sampling is None else from_context(sampling, context)
        serve(grid, from_context(federation, context), from_context(algorithm, context), scheme, chosen)

    return app
