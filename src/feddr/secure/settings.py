"""``SecureAggregation``: what server and sites of secure rounds agree on."""

from dataclasses import dataclass

from feddr.compress import FixedPoint, fixed_point
from feddr.secure.refusal import ProtocolError
from feddr.secure.ring import Ring
from feddr.validation import scalars

FEWEST = 3
"""Sites in a sum, at least: with two, each of them learns what the other sent."""


@dataclass(frozen=True)
class SecureAggregation:
    """Rounds in which the server learns the weighted sum of the sites' changes, and no site's own.

    Parameters
    ----------
    threshold
        Sites that must stay to the end of a round, so that the masks of the others can be taken off: more than half of
        those that begin it. So many, less two, may pool what they know with the server, and learn of the others only
        the sum over two sites or more.
    bits
        Of a number under its mask, from 8 to 40.
    clip
        The largest change of a number in one round, for the site of the largest weight. What exceeds it is sent in
        later rounds.
    listed
        Whether sites take part only with sites whose keys are in the list that their own operators have made; else a
        key is trusted when it is first seen, and from then on no other one of that site.

    Raises
    ------
    ValueError
        Where one of them is out of its range.

    Examples
    --------
    >>> secure = SecureAggregation(threshold=3, bits=24, clip=0.5)
    >>> secure.check_group(5)
    >>> secure.check_group(6)
    Traceback (most recent call last):
    feddr.secure.refusal.ProtocolError: too-few: the threshold must be more than half of the 6 sites of a round, got 3
    """

    threshold: int
    bits: int = 24
    clip: float = 1.0
    listed: bool = False

    def __post_init__(self) -> None:
        scalars.count(self, "threshold", 2)
        fixed_point.check(self)
        if type(self.listed) is not bool:
            raise ValueError(f"listed must be True or False, got {self.listed!r}.")

    @property
    def fewest(self) -> int:
        """How many sites must be in a sum: the threshold, and three."""
        return max(self.threshold, FEWEST)

    def check_group(self, size: int) -> None:
        """Refuse a round that so many sites begin; ProtocolError."""
        self.check_sum(size)
        if 2 * self.threshold <= size:
            raise ProtocolError(
                "too-few",
                f"the threshold must be more than half of the {size} sites of a round, got {self.threshold}",
            )

    def check_sum(self, size: int) -> None:
        """Refuse a sum over so many sites; ProtocolError."""
        if size < self.fewest:
            raise ProtocolError("too-few", f"a sum needs at least {self.fewest} sites, got {size}")

    def ring(self, size: int) -> Ring:
        """Return the smallest ring that holds the sum of so many sites.

        Examples
        --------
        >>> SecureAggregation(threshold=3, bits=30).ring(4).word, SecureAggregation(threshold=3, bits=30).ring(5).word
        (4, 8)
        """
        return Ring(4 if self.bits + (size - 1).bit_length() <= 32 else 8)

    def fixed_point(self, weight: float = 1.0) -> FixedPoint:
        """Return how a site of this weight, relative to a unit that no weight exceeds, writes its numbers."""
        return FixedPoint(self.bits, self.clip, weight)
