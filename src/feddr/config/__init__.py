"""Experiments as TOML: a file becomes frozen dataclasses, and those the problem and the runs that it describes.

A table names a function or a class and gives its arguments, as in Python (``components.TABLE`` has the names)::

    name = "first"                  # also seed, init_seed, weights, class_weight, precision, evaluate_every, personal,
                                    # certify, on_bad_client
    rounds = 200
    metrics = ["f1", "auc"]         # optional: names of feddr.metrics
    per_client = true               # optional: the metrics of each client, too
    stop_when = "test_accuracy>=0.9, seconds=600"    # optional: end early; also patience, bytes, see feddr.StopWhen
    engine = "clock"                # optional: virtual time, see below
    updates = 2000                  # of asynchronous methods; also concurrency, deadline, evaluate_every_updates

    [data]
    name = "synthetic"              # its seed is that of the experiment unless it has its own
    r = 1.0
    s = 1.0

    [model]
    name = "mlp"
    sizes = [60, 32, 10]

    [g]                             # optional
    name = "L1"
    strength = 1e-4
    leave = ["bias"]                # mask=feddr.prox.leave("bias")

    [local]
    name = "SGD"
    lr = 0.01                       # or {name = "Cosine", lr = 0.1, rounds = 200, end = 0.001}; also Step
    batch_size = "none"             # TOML has no None

    [sampling]                      # Full by default
    name = "Uniform"
    m = 10

    [delays]                        # of all methods; one second a job by default
    name = "Combined"
    models = [{name = "UniformSpeed", low = 1.0, high = 2.0}, {name = "Dropout", probability = 0.05, pause = 3.0}]

    [[algorithm]]                   # [algorithm] if there is just one
    name = "FedDR"
    eta = 10.0
    label = "ours"                  # optional, for legends and folders
    sampling = {name = "Full"}      # optional, instead of the shared one; local likewise

Data whose labels are numbers to predict (``regression = true`` of csv, diabetes of bundled) make a regression, all
others a classification.

With ``engine = "clock"`` all methods share one virtual time: asynchronous ones (AsyncFedDR, CA2FL, FedAsync, FedBuff)
run until ``updates`` uploads have arrived, the others for ``rounds`` rounds that last as long as their slowest client
or until the ``deadline``.

A table ``[tune]`` is for ``feddr tune``; everything else passes over it.

JAX is imported only when all that can be checked without it is right. The modules::

    schema        the schema: frozen dataclasses, read from TOML and written back
    components    the table from names to classes, and the check of arguments
    labels        labels of algorithms, for legends and folders
    overrides     --set key=value
    toml          TOML values and Python annotations
    build         from a config to the problem, the algorithms and the call of an engine
"""

from feddr.config.build import ClusterArguments, RunArguments, build, build_clock, length, perform
from feddr.config.components import Component, ConfigError
from feddr.config.schema import EXAMPLE, Config, Method, dumps, load, parse, read

__all__ = [
    "EXAMPLE",
    "ClusterArguments",
    "Component",
    "Config",
    "ConfigError",
    "Method",
    "RunArguments",
    "build",
    "build_clock",
    "dumps",
    "length",
    "load",
    "parse",
    "perform",
    "read",
]
