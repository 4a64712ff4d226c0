"""Preparation of tables: from raw columns to features and labels, the same for every client and for new rows.

The modules::

    columns        numbers and categories as people write them, and the features that they become
    preparation    all columns of a table together, as an object that can be stored
    statistics     counts, means and categories of a site's own rows
    common         the preparation that all sites agree on from their statistics
"""

from feddr.preparation.columns import CategoricalColumn, Category, NumericColumn
from feddr.preparation.common import common_medians, common_preparation, count_at_most
from feddr.preparation.preparation import Preparation
from feddr.preparation.statistics import Moments, SiteStatistics, site_statistics

__all__ = [
    "CategoricalColumn",
    "Category",
    "Moments",
    "NumericColumn",
    "Preparation",
    "SiteStatistics",
    "common_medians",
    "common_preparation",
    "count_at_most",
    "site_statistics",
]
