"""Differential privacy: what a site sends is clipped and noisy, and what that costs is accounted.

Its modules::

    site_level    SiteLevel: the Gaussian mechanism on a site's model, and its budget
    record_level  RecordLevel: the Gaussian mechanism on the gradients of records, in each local step (DP-SGD)
    accounting    epsilon after so many releases, by dp-accounting (extra dp), and the noise that a budget needs

docs/DIFFERENTIAL_PRIVACY.md has the argument: what is released, to whom, and for which neighbouring federations.
"""

from feddr.privacy.accounting import epsilon_of_models, epsilon_of_uploads, noise_for
from feddr.privacy.record_level import RecordLevel
from feddr.privacy.site_level import SiteLevel

__all__ = ["RecordLevel", "SiteLevel", "epsilon_of_models", "epsilon_of_uploads", "noise_for"]
