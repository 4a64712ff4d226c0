"""Ends a run early, where it was asked to: the rule of ``feddr.StopWhen`` applied to a run in progress."""

import sys
from collections.abc import Sequence

from feddr.early_stopping import StopWhen
from feddr.engines.shared.recorder import Recorder
from feddr.engines.shared.state import RunState
from feddr.metrics import Metric, better


class Stopper:
    """Says when a run is to end, and remembers why; it depends on the history and on counters alone.

    So a run that resumes from a checkpoint stops where it would have stopped without the interruption.
    """

    def __init__(self, rule: StopWhen | None, metrics: Sequence[Metric] = (), verbose: bool = True) -> None:
        self.rule, self.verbose, self.reason = rule, verbose, ""
        self._better = None if rule is None or rule.metric is None else better(rule.metric, metrics)

    def spent(self, recorder: Recorder, state: RunState) -> bool:
        """Return whether time or bytes are used up; looked at after every round, before it is evaluated."""
        if self.rule is not None:
            self.reason = self.rule.spent(recorder.seconds, state.bytes_up + state.bytes_down)
        return bool(self.reason)

    def reached(self, recorder: Recorder) -> bool:
        """Return whether the newest row meets the rule, or ``spent`` has said so."""
        if self.rule is not None and recorder.history.rows:
            self.reason = self.reason or self.rule.reached(recorder.history, self._better)
        return bool(self.reason)

    def settings(self, name: str, k: int, last: int) -> dict[str, str]:
        """Return what settings say of the rule, and print why it ended early in round k, if verbose."""
        if self.rule is None:
            return {}
        if not self.reason or k >= last:
            return {"stop_when": str(self.rule)}
        if self.verbose:
            print(f"{name}: stopped in round {k}, {self.reason}.", file=sys.stderr)
        return {"stop_when": str(self.rule), "stopped": f"in round {k}, {self.reason}"}
