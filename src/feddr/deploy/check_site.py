"""Checks of a site before anything is sent: its own file, its data, and whether its rules allow an experiment."""

from collections.abc import Iterator
from pathlib import Path

from feddr.deploy.finding import Finding
from feddr.sites import Site, SiteRefusal, complaints, read_rows

SHOWN = 20
"""Columns with problems that are shown."""


def site_data(site: Path | None, config: Path | None) -> Iterator[Finding]:
    """Look at a site's file, and compare its columns with those of an experiment.

    Parameters
    ----------
    site
        SITE.toml; None to look at the experiment alone.
    config
        CONFIG.toml; None to look at the site alone.
    """
    own = None
    if site is not None:
        try:
            own = Site.read(site)
        except ValueError as error:
            yield Finding("site", "problem", str(error), "correct the file")
        else:
            rules = [name for name, value in vars(own.rules).items() if value is not None and name != "beyond_norm"]
            yield Finding("site", "ok", f"rules: {', '.join(rules) or 'none'}")
    if config is None:
        if own is not None and own.data is not None and not own.data.is_file():
            yield Finding("data", "problem", f"{own.data} is not there", "correct data in the site's file")
        return
    from feddr.deploy.experiment import TableExperiment

    try:
        experiment = TableExperiment.read(config)
    except ValueError as error:
        yield Finding("experiment", "problem", str(error), "ask who has made the file")
        return
    yield Finding("experiment", "ok", experiment.digest)
    if own is None:
        return
    try:
        own.rules.check_experiment(experiment.digest)
    except SiteRefusal:
        yield Finding("experiment", "problem", "the site's rules do not list it", "add its hash to experiments")
    try:
        wrong = complaints(own, experiment.schema)
        for name, text in wrong[:SHOWN]:
            yield Finding(f"column {name}", "problem", text)
        if not wrong:
            rows = len(read_rows(own, experiment.schema))
            yield Finding("data", "ok", f"{rows:,} rows with the columns {', '.join(experiment.schema.names)}")
    except ValueError as error:
        yield Finding("data", "problem", str(error), "correct data or columns in the site's file")
