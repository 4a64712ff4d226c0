"""Metrics of a model on a part of the data: ready-made ones by name, and functions of (outputs, batch).

The outputs are scores: one number a sample where there are two classes (above 0 for class 1), one number a class where
there are more, and the prediction itself in a regression. A metric is computed over all samples of a part at once, so
it need not be a mean over samples. Its column is named after the part: ``test_f1``, or ``train_f1`` where there is no
test part. The modules::

    metric    what a metric is, which ones a run is to compute, and which end of a column is the better one
    ready     f1, auc, log_loss, r2 and calibration_error
    sums      those of them that follow from a few sums of each place, as deployments compute them
    outputs   predicted classes, log-probabilities, and labels that are checked
"""

from feddr.metrics.metric import READY, Metric, better, choose, named, statistics
from feddr.metrics.ready import auc, calibration_error, f1, log_loss, r2

__all__ = [
    "READY",
    "Metric",
    "auc",
    "better",
    "calibration_error",
    "choose",
    "f1",
    "log_loss",
    "named",
    "r2",
    "statistics",
]
