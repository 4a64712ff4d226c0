"""How a search ended: messages about failed runs, and the exit code."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from feddr.commands.console import FAILED, INTERRUPTED, REFUSED
from feddr.tune.jobs import RunRecord
from feddr.tune.plan import Search
from feddr.tune.ranking import RankedSetting, best, words
from feddr.tune.store import Store


class Verdict(NamedTuple):
    """Complaints, one line each, and the exit code."""

    complaints: tuple[str, ...]
    code: int


def verdict(search: Search, store: Store, ranking: Mapping[str, Sequence[RankedSetting]], again: str) -> Verdict:
    """Return the verdict on a search; some failed runs do not make it a failure.

    Parameters
    ----------
    again
        The command that resumes it.
    """
    lines = [line for label in ranking for line in _trouble(label, ranking[label])]
    records = [store.records[key] for key in search.run_keys() if key in store.records]
    if len(records) < search.size:
        kept = f"{len(records)} of {search.size} runs are kept"
        return Verdict((*lines, f"interrupted; {kept}, resume with: {again}"), INTERRUPTED)
    if any(record.status == "failed" for record in records):
        lines.append(f"runs that failed are tried again by: {again}")
    if best(ranking):
        return Verdict(tuple(lines), 0)
    if any(record.value is not None for record in records):
        return Verdict((*lines, "no trial came to its end with every seed, so there is no best one."), FAILED)
    if all(record.status == "refused" for record in records):
        return Verdict((*lines, "all runs were refused, so there is no best trial."), REFUSED)
    return Verdict(
        (*lines, f"no run came to its end: {counts(records)}. Lower lr or eta, or search elsewhere."), FAILED
    )


def counts(records: Iterable[RunRecord]) -> str:
    """Return how failed runs ended, as in "3 diverged, 1 refused"."""
    by_status = Counter(record.status for record in records if record.value is None)
    return ", ".join(f"{count} {status}" for status, count in by_status.items())


def _trouble(label: str, standings: Sequence[RankedSetting]) -> list[str]:
    records = [record for one in sorted(standings, key=lambda one: one.number) for record in one.records]
    bad = [record for record in records if record.value is None]
    if not bad:
        return []
    where = "" if bad[0].round is None else f" in round {bad[0].round}"
    first = f"the first, {words(bad[0].settings)}, seed {bad[0].seed}{where}"
    return [f"{label}: {counts(records)} of {len(records)} runs; {first}: {bad[0].brief}"]
