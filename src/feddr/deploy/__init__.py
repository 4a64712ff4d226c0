"""Operation on real machines: TLS certificates, checks before the start, and supervised Flower processes.

The modules::

    certs           a CA, the server's certificate and the nodes' key pairs
    check           feddr deploy check; check_certs and check_link hold two groups of its checks
    finding         the result of one check
    server          a supervised SuperLink; gate limits what the network may reach of it
    gate            the access control in front of the SuperLink
    node            a supervised SuperNode
    supervise       restart with growing pauses (retry with back-off), and a clean stop
    events          the log of a supervised process, one line of JSON for each event
    address         host and port, and when TLS is required
    environment     the environment variables and folders of Flower's processes
"""
