"""Search for good settings: every combination of a grid, or random draws, each with several seeds.

Any key of a config may vary, as for ``--set``. The rooms: ``axes`` (what a key may be), ``space`` (which keys of which
algorithm), ``paper`` (ready-made ones), ``plan`` (what was asked for), ``jobs`` (one run), ``pool`` and ``cluster``
(who runs them), ``store`` (what is kept), ``search`` (the loop), ``ranking`` (the verdict), ``output`` (files) and
``view`` (the terminal).
"""

from feddr.tune.cluster import Ray
from feddr.tune.jobs import BETTER, RunRecord, RunSpec, execute
from feddr.tune.plan import Search, plan
from feddr.tune.pool import Executor, Processes, serial
from feddr.tune.ranking import RankedSetting, best, rank
from feddr.tune.search import run, tune
from feddr.tune.store import Store

__all__ = [
    "BETTER",
    "Executor",
    "Processes",
    "RankedSetting",
    "Ray",
    "RunRecord",
    "RunSpec",
    "Search",
    "Store",
    "best",
    "execute",
    "plan",
    "rank",
    "run",
    "serial",
    "tune",
]
