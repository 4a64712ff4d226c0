"""Delays: how long clients take, when they are there, and what gets lost, in virtual time.

A model of delays fills in a part of the timing of a job (see ``Timing``); ``Combined`` puts several together::

    delays.UniformSpeed(1.0, 2.0)                             # the fastest client up to twice as fast as the slowest
    delays.Combined([
        delays.PerStep(1e-3), delays.LogNormal(0.5),          # computing: factors that are multiplied
        delays.Network(latency=0.1, bandwidth=1e6),           # receiving and sending
        delays.Periodic(period=24.0, online=8.0),             # when a client is there
        delays.Dropout(0.05, pause=10.0),                     # an update that is lost
    ])

All draws come from (seed, client, number of the job), so they depend neither on the order of events nor on each other,
and a synchronous and an asynchronous run with the same seed meet the same clients. The modules::

    delay           the protocol Delay, the Job that it is asked about, and its Timing
    speed           computing time: Fixed, UniformSpeed, PerStep, LogNormal, Pareto
    network         latency and bandwidth
    availability    when clients are online, and updates that are lost
    trace           durations from a file
    combined        several models at once
    draw            random numbers as a hash of (seed, client, job)
"""

from feddr.delays.availability import Dropout, Periodic, Windows
from feddr.delays.combined import Combined
from feddr.delays.delay import Delay, Job, Timing
from feddr.delays.network import Network
from feddr.delays.speed import Fixed, LogNormal, Pareto, PerStep, UniformSpeed
from feddr.delays.trace import Trace

__all__ = [
    "Combined",
    "Delay",
    "Dropout",
    "Fixed",
    "Job",
    "LogNormal",
    "Network",
    "Pareto",
    "PerStep",
    "Periodic",
    "Timing",
    "Trace",
    "UniformSpeed",
    "Windows",
]
