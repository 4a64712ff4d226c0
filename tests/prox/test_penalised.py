"""Which entries a regulariser acts on: those that its prox can change, and among which zeros are counted."""

import jax
import numpy as np
import pytest

from feddr.prox.regulariser import penalised, sparsity
from tests.prox.cases import CASES, TREE, Case, N, flat, unflat


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_g_acts_on_the_entries_that_its_prox_changes(case: Case) -> None:
    keeps = zip(penalised(case.g, TREE), jax.tree.leaves(TREE), strict=True)
    acted = flat([np.broadcast_to(keep, np.shape(leaf)) for keep, leaf in keeps])
    if case.name.startswith("Zero"):
        np.testing.assert_array_equal(acted, case.inside)
        return
    prox = jax.jit(case.g.prox)
    for k in range(N):
        # The one large entry is made smaller by every regulariser that sees it.
        x = np.where(np.arange(N) == k, -30.0, 0.1).astype(np.float32)
        assert (flat(prox(unflat(x, TREE), 1.0))[k] != x[k]) == acted[k], k


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_only_zeros_on_which_g_acts_are_counted(case: Case) -> None:
    keeps = zip(penalised(case.g, TREE), jax.tree.leaves(TREE), strict=True)
    acted = flat([np.broadcast_to(keep, np.shape(leaf)) for keep, leaf in keeps])
    half = np.where(np.cumsum(acted) % 2, 0.0, 1.0)
    for elsewhere in (0.0, 1.0):
        assert sparsity(case.g, unflat(np.where(acted, half, elsewhere), TREE)) == np.mean(half[acted] == 0)
