"""Counter-based random numbers: each is a pure function of whole numbers such as (seed, client, job).

A generator for each job would cost more than all the rest of an event; a hash of (seed, client, job) costs a
microsecond.

References
----------
G. L. Steele, D. Lea, C. H. Flood (2014). Fast splittable pseudorandom number generators. OOPSLA. (SplitMix64.)
"""

from functools import lru_cache

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


def uniform(run: tuple[int, ...], *key: int) -> float:
    """Return a number in (0, 1), equidistributed over keys and the same for the same key.

    ``run`` is the part of the key that stays for a whole run.
    """
    return ((_hash(_stream(run), key) >> 11) + 0.5) * 2.0**-53


@lru_cache(maxsize=256)
def _stream(run: tuple[int, ...]) -> int:
    return _hash(0, run)


def _hash(h: int, key: tuple[int, ...]) -> int:
    for word in key:
        h = (h + (word + 1) * _GOLDEN) & _MASK
        h = ((h ^ (h >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        h = ((h ^ (h >> 27)) * 0x94D049BB133111EB) & _MASK
        h ^= h >> 31
    return h
