"""Preparation of tables: from raw columns to features and labels, the same for every client and for new rows.

The modules::

    columns        numbers and categories as people write them, and the features that they become
    preparation    all columns of a table together, as an object that can be stored
"""

from feddr.preparation.columns import CategoricalColumn, Category, NumericColumn
from feddr.preparation.preparation import Preparation

__all__ = ["CategoricalColumn", "Category", "NumericColumn", "Preparation"]
