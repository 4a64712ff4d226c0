"""The arguments and options of ``feddr run`` and ``feddr compare``, with what --help says about each."""

from pathlib import Path
from typing import Annotated

import typer

File = Annotated[Path | None, typer.Argument(metavar="CONFIG")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a setting, as in rounds=5 or algorithm.eta=10."),
]
Out = Annotated[
    Path | None, typer.Option(metavar="DIR", help="A new or empty folder for the results, instead of runs/<name>.")
]
Threads = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Clients computed at a time, instead of one for each core.")
]
Resume = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Resume the run in this folder, instead of CONFIG and --out.")
]
Every = Annotated[
    str, typer.Option(metavar="N", help="Rounds between two checkpoints, or seconds as in 60s; never takes much time.")
]
Stop = Annotated[
    str | None,
    typer.Option(metavar="WHEN", help='End early, as in "test_accuracy>=0.9" or "metric=F, patience=5, seconds=600".'),
]
Seeds = Annotated[
    str | None, typer.Option(metavar="0,1,2", help="Run with each seed, into DIR/seed-0 and so on, and compare means.")
]
Board = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write the metrics for TensorBoard, too, into DIR/<name>/<method>.")
]
Flow = Annotated[str | None, typer.Option(metavar="URI", help="Log the metrics to MLflow, too, a run for each method.")]

Cluster = Annotated[
    str | None,
    typer.Option("--ray", metavar="ADDRESS", help="Compute clients on this Ray cluster; local starts one here."),
]
Workers = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="With --ray: workers, instead of one for each machine.")
]
