"""Federated algorithms: each method as pure rules from state to state, in a file of its own.

An algorithm owns no loop, no randomness, no transport and no data; engines call its rules. Adding one is a file, its
test and a line here (docs/ADDING.md). Its modules::

    algorithm      the protocols Algorithm, Asynchronous and Deployable, and the check of what goes together
    step_sizes     step sizes eta_i of each client, and the weights v_i of the server's mean
    uploading      the base of methods that may compress uploads
    feddr          FedDR
    async_feddr    AsyncFedDR: the same rules, one upload at a time
    splitting      the rules that FedPD and FedSplit share
    fedavg         FedAvg
    fedprox        FedProx
    fedpd          FedPD
    feddyn         FedDyn
    scaffold       Scaffold
    fednova        FedNova
    fedopt         FedOpt, FedAvgM, FedAdam, FedYogi, FedAdagrad
    scaffnew       Scaffnew
    mime_lite      MimeLite
    fedsplit       FedSplit
    fedmid         FedMid
    feddualavg     FedDualAvg
    feddecoupled   FedDecoupled
    fedasync       FedAsync
    fedbuff        FedBuff
    ca2fl          CA2FL
"""

from feddr.algorithms.algorithm import Algorithm, Asynchronous, Deployable, Uploads, check
from feddr.algorithms.async_feddr import AsyncFedDR
from feddr.algorithms.ca2fl import CA2FL
from feddr.algorithms.fedasync import FedAsync
from feddr.algorithms.fedavg import FedAvg
from feddr.algorithms.fedbuff import FedBuff
from feddr.algorithms.feddecoupled import FedDecoupled
from feddr.algorithms.feddr import FedDR
from feddr.algorithms.feddualavg import FedDualAvg
from feddr.algorithms.feddyn import FedDyn
from feddr.algorithms.fedmid import FedMid
from feddr.algorithms.fednova import FedNova
from feddr.algorithms.fedopt import FedAdagrad, FedAdam, FedAvgM, FedOpt, FedYogi
from feddr.algorithms.fedpd import FedPD
from feddr.algorithms.fedprox import FedProx
from feddr.algorithms.fedsplit import FedSplit
from feddr.algorithms.mime_lite import MimeLite
from feddr.algorithms.scaffnew import Scaffnew
from feddr.algorithms.scaffold import Scaffold
from feddr.algorithms.step_sizes import Roles

__all__ = [
    "CA2FL",
    "Algorithm",
    "AsyncFedDR",
    "Asynchronous",
    "Deployable",
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
    "MimeLite",
    "Roles",
    "Scaffnew",
    "Scaffold",
    "Uploads",
    "check",
]
