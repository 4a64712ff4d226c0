"""Reports: runs as one self-contained HTML page with curves, clients, certificates and settings.

The modules::

    gather        from run folders to the values that a page shows
    clients       the table of clients: samples, participation, staleness
    client_metrics    how each client fares with the global model
    placement     the workers of a cluster: machines, shards, time
    program       source code that repeats a run started from Python
    page          the HTML file, with its style, script and data inside
    live          a local HTTP server whose page follows a run
    reading       untrusted files of a run, read up to a limit
    formatting    settings as Python would write them
"""
