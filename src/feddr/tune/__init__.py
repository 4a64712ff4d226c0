"""Hyper-parameter search: every combination of a grid, or random samples, each with several seeds.

Any key of a config may vary, as for ``--set``. The modules::

    axes       the values that one key may take: a list or a range
    space      the search space: which keys of which algorithm vary
    paper      the grids of the paper, ready-made
    plan       a search as it was asked for: config, command line, or both
    jobs       one run: a trial with one seed, and its record
    search     the loop: runs that are missing go to an executor, records are stored at once
    pool       executors on this machine: this process, or one worker process for each core
    cluster    the executor on a Ray cluster
    worker     the worker process
    store      the folder of a search: append-only records, a lock, resume
    ranking    settings of each algorithm by mean metric over the seeds
    output     CSV tables, the best settings as a config, figures
    view       progress on the terminal
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
