"""The count of all cases, printed at the end."""

import os
import resource
from collections.abc import Iterator

import pytest

from tests.fuzz.bad_input import Tally


@pytest.fixture(scope="session")
def tally() -> Iterator[Tally]:
    """Count cases, and print the counts when all tests of this folder have ended."""
    found = Tally()
    yield found
    print(f"\nfuzz: FEDDR_FUZZ_SEED={os.environ.get('FEDDR_FUZZ_SEED', '0')}", end="")
    for line in found.lines():
        print(f"\n{line}", end="")
    print(f"\nfuzz: at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB of memory")
