"""Limits on sizes and memory: what is too large is refused before it is read, expanded or allocated."""

import os

CONFIG = 2**20
"""Bytes of an experiment in TOML."""

NESTING = 32
"""Tables and lists within each other in an experiment."""

NAME = 150
"""Bytes of a name that becomes a folder; file systems allow 255, and some files have the name with more around it."""

DATA = 2 * 2**30
"""Bytes of a file with samples, when it is expanded; a larger one must be split by its owner."""

LINE = 64 * 2**20
"""Bytes of a line of text with samples."""

RECORD = 256 * 2**20
"""Bytes of a file that feddr has written about a run and reads again; the largest of them is a long history."""

TRIALS = 10_000
"""Settings that a search tries for each algorithm."""

COPIES = 8
"""How often a model is in memory while it is trained, at least: start, server, gradients, clients."""


def cores() -> int:
    """Return how many cores there are for this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory() -> int:
    """Return the bytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_memory(what: str, needed: int, remedy: str) -> None:
    """Refuse what cannot fit into memory."""
    has = memory()
    if needed > has:
        raise ValueError(f"{what} needs about {needed / 1e9:,.3g} GB, this machine has {has / 1e9:,.3g}; {remedy}.")
