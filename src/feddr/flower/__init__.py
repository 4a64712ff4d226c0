"""FedDR and its peers on real machines, over Flower: asynchronous or in rounds, with nothing lost or counted twice.

Flower carries the messages, with TLS and node authentication. This package adds what it does not have: an asynchronous
mode, a composite server step, and state that survives a crash of either side. It needs the extra ``flower``.

What travels is the value xhat_i that the server is to count for a client, never its change, so uploads are idempotent:
a message that is lost, repeated or late does no harm (``node`` has the argument). The modules::

    server        server_app: the Flower ServerApp
    client        client_app: the Flower ClientApp
    node          one client, its data and its state on disk
    guard         the rules of a site's file around the app, and the log of what leaves the site
    limits        what a site's rules leave of an update and of an evaluation
    federation    what the server knows of the problem
    settings      the arguments of server_app, and their names in Flower's run config
    run           a run from start or resume to its end
    rounds        the two schedules: synchronous rounds, and arrivals
    deployment    a run in progress: sends tasks, accepts or refuses uploads, steps the server
    mailbox       messages that are awaited, over Flower's grid, with a time to live
    membership    which node is which client; pauses before a retry
    checkup       the heartbeat: asks silent nodes whether they still work, and gives up lost tasks
    shared_table  SharedTable: tables of the same columns at every site, and a site's answers about its rows
    agreement     the preparation that all sites of a shared table agree on, before the first update
    census        numbers of samples and lengths of work, asked of all clients before the first update
    messages      the fields of each message, and their check
    wire          models as arrays on the wire, dense or sparse; the decoder checks before it reads
    private       privacy: a site's account of its releases, and how the server ends in time
    compressed    compressed messages on the wire, and who counts what
    validate      checks of an upload before the ledger sees it
    refused       the reasons for which an upload is refused
    ledger        the server's state and each client's accepted value, written atomically before it counts
    leaving       clients that leave for good, by a request in the run's folder
    records       entries, pending uploads and counters of the ledger; which files to delete
    journal       the log of a run, one line of JSON for each event
    metrics       the history of a deployed run
    site_metrics  metrics over the samples of all sites, from the sums that each of them tells
    stopping      ends a run early, by the rule of feddr.StopWhen
    description   what the trained model is, so that feddr.load reads the run's folder
    progress      the table that a person sees
    inspect       reads the folder of a run, and audits it, without changing it
    secure_round  a secure round on the server: five questions, and the sum of the changes
    secure_site   a site's answers in secure rounds
    secure_store  a site's own files of secure rounds: identity, trusted keys, the round that it is in
    secure_ledger  what the server counts when it knows no site's value
    secure_messages  the messages of secure rounds
    identity      folders, names, and the digest that server and nodes compare
    steps         step sizes between server and nodes
"""

try:
    import flwr as _flwr  # noqa: F401
except ImportError as error:
    raise ImportError("feddr.flower needs Flower; install it with: pip install 'feddr[flower]'") from error

from feddr.flower.client import client_app
from feddr.flower.deployment import Abandoned
from feddr.flower.description import ModelDescription
from feddr.flower.federation import Federation
from feddr.flower.inspect import LedgerSnapshot, audit, read_run
from feddr.flower.leaving import leave
from feddr.flower.refused import REASONS, Refused
from feddr.flower.server import server_app
from feddr.flower.shared_table import SharedTable
from feddr.storage.tensors import DamagedError

__all__ = [
    "REASONS",
    "Abandoned",
    "DamagedError",
    "Federation",
    "LedgerSnapshot",
    "ModelDescription",
    "Refused",
    "SharedTable",
    "audit",
    "client_app",
    "leave",
    "read_run",
    "server_app",
]
