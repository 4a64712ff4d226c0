"""Server and client of an experiment from a config, as Flower apps."""

from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from feddr import flower
from feddr.deploy.experiment import TableExperiment
from feddr.flower.guard import site_of
from feddr.flower.journal import Journal
from feddr.flower.run import serve
from feddr.sites import read_rows
from feddr.validation.messages import one_line, reason


def client_app(path: Path) -> ClientApp:
    """Return the ClientApp of the experiment of a file, whose rows are those of the site's own file."""
    experiment = TableExperiment.read(path)

    def rows(client: int, context: Context) -> Any:
        site = site_of(context)
        if site is None:
            raise ValueError(
                f"Client {client} needs the file of its site to find its rows, it has none; start the node with --site."
            )
        return read_rows(site, experiment.schema)

    problem = experiment.table.problem(rows)
    return flower.client_app(
        problem, experiment.algorithm, experiment.local, experiment=experiment.digest, secure=experiment.secure
    )


def server_app(path: Path) -> ServerApp:
    """Return the ServerApp of the experiment of a file; where it fails, the log of the run says why."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        experiment = TableExperiment.read(path)
        settings = experiment.settings.overridden(context.run_config)
        try:
            serve(grid, experiment.federation, experiment.algorithm, experiment.sampling, settings)
        except Exception as error:
            Journal(settings.run_folder / "log.jsonl").write("failed", reason=one_line(reason(error)))
            raise

    return app
