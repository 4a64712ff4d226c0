"""A site of a deployment: its own file with its data and its rules, and the log of everything that leaves it.

A node that is started with ``feddr deploy node --site SITE.toml`` reads its rows as the file says and refuses what the
file does not allow; ``feddr deploy check --site SITE.toml`` checks both before anything is sent. The modules::

    site        the file: where the data are, what their columns are called here, and the rules
    rules       the rules of a site, and their check
    rows        a site's rows with the columns that all sites have agreed on, checked column by column
    audit       the log of what leaves a site: append-only, each line with the hash of the one before
"""

from feddr.sites.audit import AuditLog, AuditSummary, verify
from feddr.sites.rows import TableSchema, complaints, read_rows
from feddr.sites.rules import SiteRefusal, SiteRules
from feddr.sites.site import Site

__all__ = [
    "AuditLog",
    "AuditSummary",
    "Site",
    "SiteRefusal",
    "SiteRules",
    "TableSchema",
    "complaints",
    "read_rows",
    "verify",
]
