"""feddr: one model from data that stays with its owners, sparse or constrained if it must be.

minimise F(x) = sum_i w_i f_i(x) + g(x) with FedDR and the methods that people compare it with. Everything below is
imported when it is first used, so that ``import feddr`` and ``feddr --help`` do not wait for JAX. The packages and
modules are listed in docs/ARCHITECTURE.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.6.0"

if TYPE_CHECKING:
    from feddr import (
        certify,
        compress,
        datasets,
        delays,
        local,
        metrics,
        models,
        plots,
        preparation,
        privacy,
        prox,
        sampling,
        testing,
        theory,
    )
    from feddr import estimators as estimators  # not in __all__: it needs an extra
    from feddr import flower as flower  # not in __all__: it needs an extra
    from feddr import secure as secure  # not in __all__: it needs an extra
    from feddr.algorithms import (
        CA2FL,
        AsyncFedDR,
        FedAdagrad,
        FedAdam,
        FedAsync,
        FedAvg,
        FedAvgM,
        FedBuff,
        FedDecoupled,
        FedDR,
        FedDualAvg,
        FedDyn,
        FedMid,
        FedNova,
        FedOpt,
        FedPD,
        FedProx,
        FedSplit,
        FedYogi,
        MimeLite,
        Scaffnew,
        Scaffold,
    )
    from feddr.checkpoint import Checkpoint
    from feddr.data import FederatedData
    from feddr.early_stopping import StopWhen
    from feddr.engines.asynchronous import simulate_async
    from feddr.engines.clock.settings import Clock
    from feddr.engines.cluster import simulate_cluster
    from feddr.engines.reference import reference
    from feddr.engines.result import Result
    from feddr.engines.shared.errors import DivergedError
    from feddr.engines.simulate import simulate
    from feddr.history import History
    from feddr.inference import Predictor, load
    from feddr.problem import Problem
    from feddr.runs.compare import Comparison, compare

_HOMES = {
    "feddr.algorithms": (
        *("AsyncFedDR", "CA2FL", "FedAdagrad", "FedAdam", "FedAsync", "FedAvg", "FedAvgM", "FedBuff", "FedDR"),
        *("FedDecoupled", "FedDualAvg", "FedDyn", "FedMid", "FedNova", "FedOpt", "FedPD", "FedProx", "FedSplit"),
        *("FedYogi", "MimeLite", "Scaffnew", "Scaffold"),
    ),
    "feddr.checkpoint": ("Checkpoint",),
    "feddr.data": ("FederatedData",),
    "feddr.early_stopping": ("StopWhen",),
    "feddr.engines.asynchronous": ("simulate_async",),
    "feddr.engines.cluster": ("simulate_cluster",),
    "feddr.engines.clock.settings": ("Clock",),
    "feddr.engines.reference": ("reference",),
    "feddr.engines.result": ("Result",),
    "feddr.engines.shared.errors": ("DivergedError",),
    "feddr.engines.simulate": ("simulate",),
    "feddr.history": ("History",),
    "feddr.inference": ("Predictor", "load"),
    "feddr.problem": ("Problem",),
    "feddr.runs.compare": ("Comparison", "compare"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = (
    *("certify", "compress", "config", "datasets", "delays", "estimators", "flower", "inference", "local", "metrics"),
    *("models", "plots", "preparation", "privacy", "prox", "sampling", "secure", "testing", "theory", "torch", "tune"),
)

__all__ = [
    "CA2FL",
    "AsyncFedDR",
    "Checkpoint",
    "Clock",
    "Comparison",
    "DivergedError",
    "FedAdagrad",
    "FedAdam",
    "FedAsync",
    "FedAvg",
    "FedAvgM",
    "FedBuff",
    "FedDR",
    "FedDecoupled",
    "FedDualAvg",
    "FedDyn",
    "FedMid",
    "FedNova",
    "FedOpt",
    "FedPD",
    "FedProx",
    "FedSplit",
    "FedYogi",
    "FederatedData",
    "History",
    "MimeLite",
    "Predictor",
    "Problem",
    "Result",
    "Scaffnew",
    "Scaffold",
    "StopWhen",
    "certify",
    "compare",
    "compress",
    "datasets",
    "delays",
    "load",
    "local",
    "metrics",
    "models",
    "plots",
    "preparation",
    "privacy",
    "prox",
    "reference",
    "sampling",
    "simulate",
    "simulate_async",
    "simulate_cluster",
    "testing",
    "theory",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"feddr.{name}")
    if name == "trackers":
        return import_module("feddr.runs.trackers")
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'feddr' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
