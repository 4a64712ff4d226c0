"""Sampling schemes: what is drawn agrees with the probabilities that are promised."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feddr.sampling import DoublyUniform, Full, Independent, Partitioned, Sampling, Systematic, Uniform, p_hat

N = 12
SIZES = [1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144]
RAMP = tuple(np.linspace(0.05, 1, N))

SCHEMES: dict[str, Sampling] = {
    "full": Full(),
    "uniform": Uniform(5),
    "uniform, one": Uniform(1),
    "independent, one p": Independent(0.3),
    "independent": Independent(RAMP),
    "partitioned, number": Partitioned(5),
    "partitioned, blocks": Partitioned([[11, 0], [1, 2, 3, 4], [5], [6, 7, 8, 9, 10]]),
    "doubly uniform": DoublyUniform([0.2, 0.0, 0.5, 0.3]),
    "systematic": Systematic([0.25, 0.75] * 6),
    "systematic, proportional": Systematic.proportional(SIZES, 4),
}
SIZE_LAW: dict[str, set[int]] = {
    "full": {N},
    "uniform": {5},
    "uniform, one": {1},
    "partitioned, number": {2, 3},
    "partitioned, blocks": {1, 2, 4, 5},
    "doubly uniform": {0, 2, 3},
    "systematic": {6},
    "systematic, proportional": {4},
}


def assert_is_a_set_of_clients(active: np.ndarray, n: int) -> None:
    assert active.dtype == np.int64
    assert np.all(np.diff(active) > 0)
    assert np.all((active >= 0) & (active < n))


def membership(sampling: Sampling, n: int, draws: int, seed: int = 0) -> np.ndarray:
    """One row for each draw, with True for the clients that were drawn."""
    rng = np.random.default_rng(seed)
    drawn = np.zeros((draws, n), bool)
    for row in drawn:
        row[sampling.draw(n, rng)] = True
    return drawn


def assert_frequencies(counts: np.ndarray, probability: np.ndarray, draws: int) -> None:
    """Binomial counts lie within five standard deviations of their means, and exactly there where p is 0 or 1."""
    deviation = np.sqrt(draws * probability * (1 - probability))
    assert np.all(np.abs(counts - draws * probability) <= 5 * deviation + 1e-6)


@pytest.mark.parametrize("name", SCHEMES)
def test_clients_are_drawn_as_often_as_promised(name: str) -> None:
    draws = 4000
    assert_frequencies(membership(SCHEMES[name], N, draws).sum(0), SCHEMES[name].probabilities(N), draws)


@pytest.mark.parametrize("name", SIZE_LAW)
def test_sizes_are_those_of_the_scheme(name: str) -> None:
    assert set(membership(SCHEMES[name], N, 400).sum(1)) == SIZE_LAW[name]


@pytest.mark.parametrize("name", SCHEMES)
def test_mean_size_is_the_sum_of_the_probabilities(name: str) -> None:
    draws = 4000
    sizes = membership(SCHEMES[name], N, draws, seed=1).sum(1)
    assert abs(sizes.mean() - SCHEMES[name].probabilities(N).sum()) <= 5 * sizes.std() / np.sqrt(draws) + 1e-9


@pytest.mark.parametrize("name", SCHEMES)
def test_draws_are_sets_of_clients_and_follow_the_generator(name: str) -> None:
    def draws(seed: int) -> list[list[int]]:
        rng = np.random.default_rng(seed)
        sets = [SCHEMES[name].draw(N, rng) for _ in range(50)]
        for active in sets:
            assert_is_a_set_of_clients(active, N)
        return [active.tolist() for active in sets]

    assert draws(3) == draws(3)
    if name != "full":
        assert draws(3) != draws(4)


def test_uniform_draws_every_set_equally_often() -> None:
    draws, n, m = 6000, 5, 2
    drawn = membership(Uniform(m), n, draws)
    sets, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(sets) == 10
    assert_frequencies(counts, np.full(10, 0.1), draws)


@pytest.mark.parametrize("sampling", [Independent(0.3), Independent([0.3, 0.3, 0.3])])
def test_independent_draws_every_set_as_often_as_coins_do(sampling: Independent) -> None:
    draws = 6000
    sets, counts = np.unique(membership(sampling, 3, draws), axis=0, return_counts=True)
    assert len(sets) == 8
    assert_frequencies(counts, 0.3 ** sets.sum(1) * 0.7 ** (3 - sets.sum(1)), draws)


def test_doubly_uniform_sizes_follow_q() -> None:
    draws, q = 4000, np.array([0.2, 0.0, 0.5, 0.3])
    sizes = membership(DoublyUniform(tuple(q)), N, draws).sum(1)
    assert_frequencies(np.bincount(sizes, minlength=4), q, draws)


def test_partition_by_number_takes_every_kth_client() -> None:
    rng = np.random.default_rng(0)
    blocks = {tuple(Partitioned(3).draw(7, rng).tolist()) for _ in range(50)}
    assert blocks == {(0, 3, 6), (1, 4), (2, 5)}


def test_systematic_survives_rounding_at_the_ends() -> None:
    class Edge(np.random.Generator):
        def random(self, *_: object, **__: object) -> float:  # type: ignore[override]
            return float(np.nextafter(1, 0))

    # u + 1 rounds to 2, the end of the second interval; taken literally it would select the third client.
    for p in ([1.0] * 6, [1.0, 1.0, 0.9, 0.1, 1.0], [0.7, 0.2, 0.1], [0.1] * 10):
        active = Systematic(p).draw(len(p), Edge(np.random.PCG64(0)))
        assert_is_a_set_of_clients(active, len(p))
        assert len(active) == round(sum(p))


def test_p_hat_is_the_smallest_probability() -> None:
    assert p_hat(Full(), 3) == 1
    assert p_hat(Uniform(3), 12) == 0.25
    assert p_hat(Independent([0.5, 0.1, 1.0]), 3) == 0.1
    assert p_hat(Partitioned(4), 10) == 0.25
    assert p_hat(DoublyUniform([0, 0.5, 0.5]), 3) == pytest.approx(0.5)


def test_lists_tuples_and_arrays_make_equal_hashable_schemes() -> None:
    assert hash(Independent([0.5, 1])) == hash(Independent(np.array([0.5, 1.0]))) == hash(Independent((0.5, 1.0)))  # type: ignore[arg-type]
    assert Partitioned([[2, 0], [1]]) == Partitioned(((0, 2), (1,)))
    arrays: list[Any] = [np.array([[2, 0], [1, 3]]), [np.array([2, 0]), np.array([1, 3])]]
    assert all(Partitioned(blocks) == Partitioned([[0, 2], [1, 3]]) for blocks in arrays)
    assert DoublyUniform([0, 1]) == DoublyUniform((0.0, 1.0))
    assert len({Systematic([0.5, 0.5]), Systematic((0.5, 0.5))}) == 1


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "no client": (lambda: Full().check(0), "at least 1, got 0"),
    "m zero": (lambda: Uniform(0), "m must be at least 1, got 0"),
    "m a truth value": (lambda: Uniform(True), "m must be a whole number, got True"),
    "m not whole": (lambda: Uniform(2.5), "got 2.5"),  # type: ignore[arg-type]
    "m above n": (lambda: Uniform(5).check(4), "m=5 for n=4"),
    "p zero": (lambda: Independent(0.0), "p=0.0"),
    "p no number": (lambda: Independent(cast(Any, 1j)), "p must be a number, got 1j"),
    "p text": (lambda: Independent(cast(Any, "0.5")), "p must be a number, got '0.5'"),
    "p of texts": (lambda: Independent(cast(Any, ["a"])), "A probability 0 < p_i <= 1 must be a number, got 'a'"),
    "p above one": (lambda: Independent(1.5), "p=1.5"),
    "p not a number": (lambda: Independent(float("nan")), "p=nan"),
    "a client's p zero": (lambda: Independent([0.5, 0.0]), "client 1 has 0.0"),
    "a client's p above one": (lambda: Independent([0.5, 0.1, 1.1]), "client 2 has 1.1"),
    "independent, length": (lambda: Independent([0.5, 0.5]).check(3), "2 clients, got n=3"),
    "no blocks": (lambda: Partitioned(0), "number of blocks must"),
    "an empty list of blocks": (lambda: Partitioned([]), "a client in each"),
    "more blocks than clients": (lambda: Partitioned(5).check(4), "5 blocks for n=4"),
    "an empty block": (lambda: Partitioned([[0], []]), "a client in each"),
    "ids without blocks": (lambda: Partitioned(np.array([0, 1])), r"blocks of client ids, .* got \[0, 1\]"),  # type: ignore[arg-type]
    "half an id": (lambda: Partitioned([[0.5], [1]]), "blocks of client ids"),  # type: ignore[list-item]
    "a client in two blocks": (lambda: Partitioned([[0, 1], [1, 2]]), "got 1 twice"),
    "a client in no block": (lambda: Partitioned([[0], [2]]), "client 1 is in no block"),
    "a negative client": (lambda: Partitioned([[0], [-1]]), "got -1"),
    "blocks, length": (lambda: Partitioned([[0], [1]]).check(3), "2 clients, got n=3"),
    "q sums to 0.9": (lambda: DoublyUniform([0.4, 0.5]), "sum to 1"),
    "q empty": (lambda: DoublyUniform([]), "sum to 1"),
    "q negative": (lambda: DoublyUniform([0.5, 1.0, -0.5]), "q_j >= 0"),
    "q never draws": (lambda: DoublyUniform([1.0, 0.0]), "client 0 has p_i = 0"),
    "q draws more than n": (lambda: DoublyUniform([0, 0.5, 0, 0.5]).check(2), "up to 3 distinct clients, got n=2"),
    "systematic, sum": (lambda: Systematic([0.5, 0.7]), "a whole sum_i p_i >= 1, got 1.2"),
    "systematic, nothing": (lambda: Systematic([]), "a whole sum_i p_i >= 1, got 0"),
    "systematic, next to nothing": (lambda: Systematic([1e-12] * 3), "a whole sum_i"),
    "systematic, zero": (lambda: Systematic([1.0, 0.0, 1.0]), "client 1 has 0.0"),
    "systematic, length": (lambda: Systematic([0.5, 0.5]).check(3), "2 clients, got n=3"),
    "proportional, m above n": (lambda: Systematic.proportional([1, 1], 3), "m=3 for n=2"),
    "proportional, m zero": (lambda: Systematic.proportional([1, 1], 0), "got 0"),
    "proportional, an empty client": (lambda: Systematic.proportional([1, 0], 1), "client 1 has 0"),
    "proportional, all negative": (lambda: Systematic.proportional([-1, -1], 1), "client 0 has -1"),
    "proportional, infinite": (lambda: Systematic.proportional([1, float("inf")], 1), "client 1 has inf"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses(case: str) -> None:
    make, message = REFUSED[case]
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        make()


@pytest.mark.parametrize(
    "sampling", [Uniform(9), Independent([0.5] * 9), Partitioned(9), DoublyUniform([0.5] + [0] * 8 + [0.5]), Full()]
)
def test_draw_and_probabilities_refuse_what_does_not_fit(sampling: Sampling) -> None:
    n = 0 if sampling == Full() else 8
    with pytest.raises(ValueError, match=f"got {n}|n={n}"):
        sampling.draw(n, np.random.default_rng(0))
    with pytest.raises(ValueError, match=f"got {n}|n={n}"):
        sampling.probabilities(n)


def test_unlikely_sizes_beyond_n_do_not_matter_when_impossible() -> None:
    DoublyUniform([0, 1.0, 0, 0, 0]).check(1)


sizes = st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=30)
shares = st.floats(0.01, 1)


@st.composite
def schemes(draw: st.DrawFn) -> tuple[Sampling, int]:
    """Any valid scheme, with the number of clients that it is for."""
    n = draw(st.integers(1, 30))
    m = draw(st.integers(1, n))
    q = np.array([*draw(st.lists(st.floats(0, 1), min_size=m, max_size=m)), 0.5])
    order = draw(st.permutations(range(n)))
    each = st.lists(shares, min_size=n, max_size=n)
    options: list[Sampling] = [
        Full(),
        Uniform(m),
        Independent(draw(shares)),
        Independent(draw(each)),
        Partitioned(m),
        Partitioned([order[k::m] for k in range(m)]),
        DoublyUniform(tuple(q / q.sum())),
        Systematic.proportional(draw(each), m),
    ]
    return draw(st.sampled_from(options)), n


@settings(deadline=None, max_examples=100)
@given(schemes(), st.integers(0, 2**32))
def test_any_valid_scheme_keeps_its_promises(scheme: tuple[Sampling, int], seed: int) -> None:
    sampling, n = scheme
    sampling.check(n)
    p = sampling.probabilities(n)
    assert p.shape == (n,)
    assert np.all((p > 0) & (p <= 1 + 1e-12))
    active = sampling.draw(n, np.random.default_rng(seed))
    assert_is_a_set_of_clients(active, n)
    assert set(np.flatnonzero(p == 1)) <= set(active)
    if isinstance(sampling, Systematic):
        assert len(active) == round(p.sum())


@settings(deadline=None, max_examples=200)
@given(sizes, st.data())
def test_proportional_probabilities_follow_the_sizes(sizes: list[float], data: st.DataObject) -> None:
    m = data.draw(st.integers(1, len(sizes)))
    p = np.asarray(Systematic.proportional(sizes, m).p)
    assert p.sum() == pytest.approx(m, rel=1e-12)
    assert p.max() <= 1
    assert np.all(np.diff(p[np.argsort(sizes, kind="stable")]) >= 0)
    free = p < 1
    if free.any():
        c = p[free] / np.asarray(sizes)[free]
        np.testing.assert_allclose(c, c[0], rtol=1e-9)
        assert np.all(c[0] * np.asarray(sizes)[~free] >= 1 - 1e-9)
