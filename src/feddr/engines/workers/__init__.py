"""The simulator over processes and machines: workers own shards of clients, the driver is the server.

Its modules::

    part         the samples of some shards, as a problem of its own
    placement    which worker has which shards
    worker       what a worker does: its clients' updates, sums over its shards, its clients' states
    plain        the clients of PyTorch problems, in plain loops
    pickling     how functions with a derivative of their own travel
    connection   to a Ray cluster, and the versions that its machines must have
    fleet        workers as actors of Ray: started, asked, replaced when they die
    recovery     what is needed to make the states of a lost worker again
    evaluation   metrics and certificates, from the sums that workers send
    states       the clients' states as the driver sees them
    run          the driver's side of a run
"""
