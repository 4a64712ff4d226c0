"""Secure aggregation: the server of a round learns the sum of the sites' vectors, and no site's own.

The protocol of Bonawitz et al. (2017), without any network: states of a site and of the server, and what they send each
other. ``feddr.flower`` carries it; docs/SECURE.md has the threat model. It needs the extra ``flower``, whose code for
shares and key agreement it uses, with ``cryptography`` for everything else. The modules::

    settings  SecureAggregation: what server and sites agree on
    ring      whole numbers modulo 2^32 or 2^64, and masks from AES-256
    keys      identities that sign, keys of a round, and what two of them derive
    shares    shares of a secret, encrypted on their way, with a digest for each
    notes     what sites send: keys, encrypted shares, and at the end one of two shares
    site      SiteSession: a site in a round
    server    ServerSession: the server in a round
    encoding  bytes in JSON, and their check
    refusal   ProtocolError: why a message is not answered

A round of four sites, of which the last is lost when its shares are dealt::

    >>> import numpy as np
    >>> from feddr.secure.keys import RoundName, SiteIdentity
    >>> secure, name = SecureAggregation(threshold=3), RoundName("hearts", "a1", round=1, serial=1)
    >>> identities = [SiteIdentity.new() for _ in range(4)]
    >>> sites = [SiteSession.begin(name, i, secure, identities[i]) for i in range(4)]
    >>> server = ServerSession(name, secure)
    >>> for site in sites:
    ...     server.advertise(site.client, site.own)
    >>> server.close()
    >>> sites = [site.deal(server.roster, pins={})[0] for site in sites]
    >>> for site in sites:
    ...     server.deal(site.client, site.dealt)
    >>> server.close()
    >>> sites = [site.receive(server.partners, server.letters(site.client)) for site in sites[:3]]
    >>> for k, site in enumerate(sites):
    ...     sites[k], masked = site.mask(np.array([k, -10]))
    ...     server.upload(site.client, masked, site.sign_partners(identities[k]))
    >>> server.close()
    >>> for k, site in enumerate(sites):
    ...     sites[k], signature = site.agree(server.survivors, server.signed, identities[k])
    ...     server.agree(site.client, signature)
    >>> server.close()
    >>> for site in sites:
    ...     server.reveal(site.client, site.reveal(server.agreed)[1])
    >>> server.total().tolist()
    [3, -30]

References
----------
K. Bonawitz, V. Ivanov, B. Kreuter, A. Marcedone, H. B. McMahan, S. Patel, D. Ramage, A. Segal, K. Seth. Practical
Secure Aggregation for Privacy-Preserving Machine Learning. CCS 2017.
"""

try:
    import flwr as _flwr  # noqa: F401
except ImportError as error:
    raise ImportError("feddr.secure needs Flower; install it with: pip install 'feddr[flower]'") from error

from feddr.secure.refusal import ProtocolError
from feddr.secure.server import ServerSession
from feddr.secure.settings import SecureAggregation
from feddr.secure.site import SiteSession

__all__ = ["ProtocolError", "SecureAggregation", "ServerSession", "SiteSession"]
