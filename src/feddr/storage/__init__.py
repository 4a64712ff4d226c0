"""Storage: atomic writes, locks, limits and untrusted files; for checkpoints, run folders, deployments, searches.

The modules::

    files        atomic replacement of a file (fsync, rename), and a lock on a folder
    limits       limits on sizes and memory
    untrusted    small files that somebody else may have written: read up to a limit, no symbolic links
"""
