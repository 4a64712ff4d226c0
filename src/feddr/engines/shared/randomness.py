"""Deterministic randomness: a generator for each (seed, client, update) and each (seed, round)."""

import numpy as np

_CLIENT, _SAMPLING, _UPLOAD, _NOISE = 0, 1, 2, 3


def client_rng(seed: int, client: int, update: int) -> np.random.Generator:
    """Return the randomness of a client's k-th update: the same in every engine, order and thread."""
    return _rng(_CLIENT, seed, client, update)


def sampling_rng(seed: int, round_: int) -> np.random.Generator:
    """Return the randomness that draws the active clients of a round."""
    return _rng(_SAMPLING, seed, round_)


def upload_draw(seed: int, client: int, update: int) -> int:
    """Return the number from which random choices of a client's k-th upload follow, where it is compressed."""
    return int(np.random.SeedSequence((_UPLOAD, seed, client, update)).generate_state(1, np.uint64)[0])


def noise_rng(seed: int, client: int, update: int) -> np.random.Generator:
    """Return the randomness of the noise of a client's k-th update, in simulations: whoever knows the seed knows it."""
    return _rng(_NOISE, seed, client, update)


def _rng(*key: int) -> np.random.Generator:
    """Return ``np.random.default_rng(key)``, faster where the numbers are small, as they almost always are."""
    words = np.array(key, np.uint32) if max(key) < 2**32 else key
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))
