"""Validation of arguments: every refusal names the requirement, the value and the remedy.

The modules::

    scalars      whole numbers, real numbers, fields of frozen dataclasses
    arrays       samples and parameters as NumPy arrays, without loss
    kinds        instances, models of other libraries, missing packages
    messages     an error as one line that is safe to print
"""
