"""Operation on real machines: TLS certificates, checks before the start, and supervised Flower processes.

The modules::

    certs           a CA, the server's certificate and the nodes' key pairs
    check           feddr deploy check; check_certs, check_link and check_site hold groups of its checks
    finding         the result of one check
    server          a supervised SuperLink; gate limits what the network may reach of it
    gate            the access control in front of the SuperLink
    long_poll       a node that asks for work is answered when there is some, not every three seconds
    node            a supervised SuperNode
    supervise       restart with growing pauses (retry with back-off), and a clean stop
    events          the log of a supervised process, one line of JSON for each event
    address         host and port, and when TLS is required
    experiment      an experiment over the sites' own tables, from a config
    bundle          its Flower app, the same few lines for every experiment, and the check of one that arrives
    app             server and client of such an experiment
    example         the files of the tutorial
    run             feddr deploy run: submits an experiment, and follows it
    client_process  at a site with a file, apps are checked before they run
    environment     the environment variables and folders of Flower's processes
"""
