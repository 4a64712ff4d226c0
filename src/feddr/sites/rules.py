"""The rules of a site: what its node refuses, whatever the server asks for."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from feddr.validation.messages import hint

HASH = re.compile(r"sha256:[0-9a-f]{64}")
"""How an experiment is named, as ``feddr deploy run --hash`` prints it."""


class SiteRefusal(ValueError):  # noqa: N818  it is what a site answers, and reads as one
    """A site's node refuses what its own file does not allow; the text is what the server is told.

    Examples
    --------
    >>> raise SiteRefusal("This site takes part in rounds of at least 3 sites.")
    Traceback (most recent call last):
    feddr.sites.rules.SiteRefusal: This site takes part in rounds of at least 3 sites.
    """


@dataclass(frozen=True)
class SiteRules:
    """What a site's node refuses; None where there is no rule.

    Parameters
    ----------
    minimum_records
        A site with fewer training records answers no question about them and trains no model.
    minimum_sites
        The site trains only in rounds that end with the uploads of at least so many sites, as the server announces
        them. An asynchronous run makes a step of each upload, so it is refused from 2 on.
    experiments
        The hashes of the experiments that the site takes part in, as ``feddr deploy run --hash CONFIG`` prints them. An
        app with code of its own has no hash, and is refused where there is a list.
    largest_updates
        How many updates of one experiment may leave the site in all, under whatever name it runs.
    maximal_norm
        How far an update may be from the model that the site was sent (CA2FL: how large the change that it sends).
    beyond_norm
        What becomes of an update beyond it: ``"refuse"``, or ``"clip"`` it to that distance.
    fewest_records_evaluated
        Losses and accuracies of fewer records do not leave the site; those of its training and of its test records are
        looked at each by itself.

    Raises
    ------
    ValueError
        Where a number is out of its range.

    Examples
    --------
    >>> rules = SiteRules(minimum_records=50, minimum_sites=3)
    >>> rules.check_records(80)
    >>> rules.check_records(20)
    Traceback (most recent call last):
    feddr.sites.rules.SiteRefusal: This site takes part with at least 50 training records, it has fewer; leave it out.
    """

    minimum_records: int | None = None
    minimum_sites: int | None = None
    experiments: Sequence[str] | None = None
    largest_updates: int | None = None
    maximal_norm: float | None = None
    beyond_norm: Literal["refuse", "clip"] = "refuse"
    fewest_records_evaluated: int | None = None

    def __post_init__(self) -> None:
        for name in ("minimum_records", "minimum_sites", "largest_updates", "fewest_records_evaluated"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise ValueError(f"{name} must be a whole number from 1 on, got {value!r}; leave it out for no rule.")
        norm = self.maximal_norm
        number = isinstance(norm, int | float) and not isinstance(norm, bool)
        if norm is not None and not (number and 0 < norm < math.inf):
            raise ValueError(f"maximal_norm must be a positive number, got {norm!r}; leave it out for no rule.")
        if self.beyond_norm not in ("refuse", "clip"):
            raise ValueError(f'beyond_norm must be "refuse" or "clip", got {self.beyond_norm!r}.')
        if self.experiments is not None:
            listed = self.experiments
            if isinstance(listed, str) or not all(isinstance(one, str) and HASH.fullmatch(one) for one in listed):
                raise ValueError(
                    f"experiments must be a list of hashes such as sha256:0123..., got {listed!r}; "
                    "feddr deploy run --hash CONFIG prints that of an experiment."
                )
            object.__setattr__(self, "experiments", tuple(listed))

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> "SiteRules":
        """Return the rules of a table of TOML; an unknown one is refused, with the nearest that is known.

        Examples
        --------
        >>> SiteRules.of({"minimum_sites": 3}).minimum_sites
        3
        """
        known = [field.name for field in fields(cls)]
        for name in table:
            if name not in known:
                raise ValueError(f"rules.{name} is not a rule; there are {', '.join(known)}.{hint(name, known)}")
        try:
            return cls(**table)
        except ValueError as error:
            raise ValueError(f"rules.{error}") from None

    def check_experiment(self, experiment: str) -> None:
        """Refuse an experiment that is not listed; an app with code of its own has the hash ""."""
        if self.experiments is not None and experiment not in self.experiments:
            which = f"this one is {experiment}" if experiment else "this app has code of its own, and none of them"
            raise SiteRefusal(
                f"This site takes part in {len(self.experiments)} listed experiments, {which}; ask the site to list "
                "the hash under experiments."
            )

    def check_sites(self, sites: int) -> None:
        """Refuse a round, or common statistics, of too few sites."""
        if self.minimum_sites is not None and sites < self.minimum_sites:
            raise SiteRefusal(
                f"This site takes part in rounds of at least {self.minimum_sites} sites, this one ends with {sites}; "
                "ask more sites, or use an algorithm with rounds."
            )

    def check_records(self, records: int) -> None:
        """Refuse to use too few records."""
        if self.minimum_records is not None and records < self.minimum_records:
            raise SiteRefusal(
                f"This site takes part with at least {self.minimum_records} training records, it has fewer; leave it "
                "out."
            )

    def check_updates(self, sent: int) -> None:
        """Refuse one more update where so many have left the site."""
        if self.largest_updates is not None and sent >= self.largest_updates:
            raise SiteRefusal(
                f"This site sends at most {self.largest_updates} updates of an experiment, and has sent them; ask the "
                "site to raise largest_updates, or end the run."
            )

    def clipped(self, distance: float) -> float:
        """Return by what an update at this distance is to be scaled, 1 where it may leave as it is.

        Raises
        ------
        SiteRefusal
            Where it is too far away and is not to be clipped, or is not finite.

        Examples
        --------
        >>> SiteRules(maximal_norm=2.0, beyond_norm="clip").clipped(8.0)
        0.25
        """
        limit = self.maximal_norm
        if limit is None or distance <= limit:
            return 1.0
        if self.beyond_norm == "refuse" or not math.isfinite(distance):
            raise SiteRefusal(
                f"This site sends updates of norm {limit:g} or less, this one is larger; ask for smaller steps, or the "
                'site to set beyond_norm = "clip".'
            )
        return limit / distance

    def may_tell(self, records: int) -> bool:
        """Return whether an evaluation on so many records may leave the site."""
        return self.fewest_records_evaluated is None or records >= self.fewest_records_evaluated
