"""The record of a run: one row for each evaluation, always at xbar.

Its modules::

    history    Row and History, and reading them from files
    clients    metrics of each client at xbar
"""

from feddr.history.clients import CLIENT_METRICS, ClientHistory
from feddr.history.history import COLUMNS, COUNTERS, History, Row, read_rows

__all__ = ["CLIENT_METRICS", "COLUMNS", "COUNTERS", "ClientHistory", "History", "Row", "read_rows"]
