"""FedDR and its peers on real machines, over Flower, with nothing lost and nothing counted twice.

Flower carries the messages, with TLS and node authentication. This package adds what it does not have: an asynchronous
mode, a composite server step, and state that outlives a crash of either side.

What travels is the value xhat_i that the server is to count for a client, never its change, so that a message that is
lost, repeated or late does no harm; ``node`` has the argument, ``ledger`` the books, ``intake`` and ``refused`` what is
not taken in. It needs the extra ``flower``.
"""

try:
    import flwr as _flwr  # noqa: F401
except ImportError as error:
    raise ImportError("feddr.flower needs Flower; install it with: pip install 'feddr[flower]'") from error

from feddr.flower.deployment import Abandoned
from feddr.flower.federation import Federation
from feddr.flower.inspect import Books, audit, read_run
from feddr.flower.node import client_app
from feddr.flower.refused import REASONS, Refused
from feddr.flower.server import server_app
from feddr.storage.tensors import DamagedError

__all__ = [
    "REASONS",
    "Abandoned",
    "Books",
    "DamagedError",
    "Federation",
    "Refused",
    "audit",
    "client_app",
    "read_run",
    "server_app",
]
