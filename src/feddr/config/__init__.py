"""Experiments as TOML: a file becomes frozen dataclasses, and those the problem and the runs that it describes.

A table names a function or a class and gives its arguments, as in Python (``parts.TABLE`` has the names)::

    name = "first"                  # also seed, init_seed, weights, precision, evaluate_every, personal: see Config
    rounds = 200

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
    lr = 0.01
    batch_size = "none"             # TOML has no None

    [sampling]                      # Full by default
    name = "Uniform"
    m = 10

    [[algorithm]]                   # [algorithm] if there is just one
    name = "FedDR"
    eta = 10.0
    label = "ours"                  # optional, for legends and folders
    sampling = {name = "Full"}      # optional, instead of the shared one; local likewise

JAX is imported only when all that can be checked without it is right.
"""

from feddr.config.build import Run, build
from feddr.config.parts import ConfigError, Part
from feddr.config.schema import Config, Method, dumps, load, parse

__all__ = ["Config", "ConfigError", "Method", "Part", "Run", "build", "dumps", "load", "parse"]
