"""The laws of an algorithm: pure rules that every engine runs alike, and a ledger that adds up."""

import contextlib
import functools
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from feddr import tree
from feddr.algorithms import Algorithm, Asynchronous, Deployable, Roles, Uploads, check
from feddr.algorithms.step_sizes import StepSizes
from feddr.checkpoint import Checkpoint
from feddr.data import FederatedData
from feddr.delays import Fixed
from feddr.engines.asynchronous import simulate_async
from feddr.engines.clock.settings import Clock
from feddr.engines.reference import reference
from feddr.engines.result import Result
from feddr.engines.simulate import simulate
from feddr.local import SGD, Solution
from feddr.problem import Problem
from feddr.prox import NonNegative
from feddr.sampling import Full, Sampling, Uniform
from feddr.testing.laws import at_most, broken, copies, same, structure
from feddr.theory.advice import resolve
from feddr.tree import Tree

TOLERANCE = 1e-9
FALL = 0.95
"""What is left of the distance to the solution, at most."""
CLIENTS = 4
ROUNDS = 4
MANY = 40
SOME_STEPS = SGD(lr=0.05, epochs=2, batch_size=3)
MANY_STEPS = SGD(lr=0.1, epochs=10, batch_size=None)


def check_algorithm(algorithm: Algorithm) -> None:
    """Check that an algorithm keeps the laws that engines rely on, in float64 on small data of the function's own.

    - ``hyper-parameters``: they are frozen and can be hashed;
    - ``pure rules``: a rule called twice gives the same result and leaves its arguments as they were;
    - ``server state``: it has ``xbar``, finite, in float64 and of the structure of x^0;
    - ``absolute uploads``, ``recovery``, ``invariant``: of ``Deployable`` ones, what the server works out from absolute
      values is what ``finish`` returned, a client that lost its state can continue, and the invariant gap is 0;
    - ``flags``: what ``composite`` and ``partial`` exclude is refused, and a constraint g holds at xbar where they do
      not;
    - ``reference``: ``simulate`` agrees with the plain loop, with everybody and with some of the clients; for
      ``Asynchronous`` ones updates computed late agree with those computed at once;
    - ``threads``: their number changes no bit;
    - ``resume``: a run that was interrupted and resumed ends in the same bits;
    - ``descent``: with equal clients and many local steps on least squares, xbar comes nearer to the solution.

    Parameters
    ----------
    algorithm
        Any object with the rules of ``feddr.algorithms.Algorithm``; ``Asynchronous`` ones run in ``simulate_async``,
        too.

    Raises
    ------
    AssertionError
        At the first law that does not hold, with its name, the value found and the tolerance.

    Notes
    -----
    A descent says little about convergence: also show a case in which the method is one that you know, and a problem
    whose solution it must reach.

    Examples
    --------
    >>> import feddr
    >>> class Forgetful(feddr.FedAvg):
    ...     calls = []
    ...     def broadcast(self, s):
    ...         self.calls.append(s)
    ...         return tree.scale(len(self.calls), s.xbar)
    >>> feddr.testing.check_algorithm(Forgetful())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: Forgetful() breaks the law 'pure rules': broadcast returned two results for the same arguments.

    One that keeps all of them takes some seconds:

    >>> feddr.testing.check_algorithm(feddr.FedDR(eta=1.0, alpha=1.2))  # doctest: +SKIP
    """
    _hyper_parameters(algorithm)
    eta = getattr(algorithm, "eta", None)
    clients = len(eta) if isinstance(eta, StepSizes) else CLIENTS
    problem = _problem(clients)
    algorithm = resolve(algorithm, problem, _sampling(algorithm), SOME_STEPS).algorithm
    _rules(algorithm, problem)
    _flags(algorithm, problem)
    _agreement(algorithm, problem)
    _same_bits(algorithm, problem)
    _constraint(algorithm, clients)
    _descent(algorithm, clients)


@functools.cache
def _problem(clients: int, equal: bool = False, constrained: bool = False) -> Problem:
    """Return least squares of condition number one for each client, with solutions near -1."""
    rng = np.random.default_rng(0)

    def client(i: int) -> dict[str, Any]:
        draw = np.random.default_rng(1) if equal else rng
        x, _ = np.linalg.qr(draw.normal(size=(6 if equal else 5 + i % 3, 3)))
        x *= np.sqrt(len(x))
        return {"x": x, "y": -x @ draw.uniform(0.5, 1.5, 3) + 0.1 * draw.normal(size=len(x))}

    data = FederatedData.from_clients([client(i) for i in range(clients)])
    return Problem(_squares, data, np.zeros(3), NonNegative() if constrained else None, "samples")


def _squares(params: Tree, batch: Any) -> Any:
    return 0.5 * (batch["x"] @ params - batch["y"]) ** 2


def _sampling(algorithm: Algorithm) -> Sampling:
    return Uniform(2) if algorithm.partial and not isinstance(algorithm, Asynchronous) else Full()


def _hyper_parameters(algorithm: Algorithm) -> None:
    law, name = "hyper-parameters", type(algorithm).__name__
    parameters = getattr(algorithm, "__dataclass_params__", None)
    if not isinstance(algorithm, tuple) and (parameters is None or not parameters.frozen):
        raise broken(algorithm, law, f"{name} can be changed; make it a frozen dataclass, @dataclass(frozen=True).")
    try:
        hash(algorithm)
    except TypeError as error:
        raise broken(algorithm, law, f"{name} cannot be hashed, {error}; use tuples for lists.") from error


def _rules(algorithm: Algorithm, problem: Problem) -> None:
    """Play three rounds by hand, with solutions drawn at random: everybody, and then some where they are enough."""
    rng = np.random.default_rng(2)
    x0, w = tree.cast(problem.init, np.float64), problem.client_weights
    roles, n = Roles(algorithm, w), len(w)
    v = roles.mean_weights

    def drawn() -> Tree:
        return tree.map(lambda a: rng.normal(size=np.shape(a)), x0)

    def call(rule: str, role: Any, *arguments: Any) -> Any:
        return _pure(algorithm, rule, getattr(role, rule), *arguments)

    s = call("server", roles.server, x0)
    clients: dict[int, Any] = {}
    counted: dict[int, Tree] = {}
    for k in range(3):
        _server_state(algorithm, s, x0)
        message = tree.cast(call("broadcast", roles.server, s), np.float64)
        active = range(n) if k == 0 or not algorithm.partial else (0, n - 1)
        uploads = []
        for i in active:
            rules = roles.client(i)
            if k == 0:
                clients[i] = call("client", rules, x0, message)
                if isinstance(rules, Deployable):
                    counted[i] = rules.absolute_upload(clients[i], x0)
            c = clients[i]
            sub = call("subproblem", rules, c, message)
            solution = Solution(drawn(), 5, float("nan"), drawn(), 0.25)
            clients[i], upload = call("finish", rules, c, message, sub, solution)
            uploads.append(tree.scale(float(v[i]), tree.cast(upload, np.float64)))
            if isinstance(rules, Deployable):
                now = call("absolute_upload", rules, clients[i], solution.x)
                increment = call("increment", rules, now, counted[i], message)
                at_most(
                    algorithm,
                    "absolute uploads",
                    "||increment(absolute values) - upload||",
                    tree.norm(tree.sub(increment, upload)),
                    TOLERANCE * (1 + tree.norm(upload)),
                )
                counted[i] = now
        weight = float(v[list(active)].sum())
        new = (weight, float(w[list(active)].sum())) if k == 0 else (0.0, 0.0)
        heard = Uploads(functools.reduce(tree.add, uploads), weight, *new)
        s = _pure(algorithm, "aggregate", lambda s, heard: roles.server.aggregate(s, heard, _no_prox), s, heard)
        if isinstance(algorithm, Deployable):
            total = functools.reduce(tree.add, (tree.scale(float(v[i]), counted[i]) for i in range(n)))
            gap = roles.server.invariant_gap(s, total)
            at_most(algorithm, "invariant", "invariant_gap", gap, TOLERANCE * (1 + tree.norm(total)))
    if isinstance(algorithm, Deployable):
        _recovery(algorithm, roles.client(0), clients[0], message, Solution(drawn(), 5, float("nan"), drawn(), 0.25))


def _no_prox(x: Tree, _: Any) -> Tree:
    return x


def _pure(algorithm: Algorithm, name: str, rule: Callable[..., Any], *arguments: Any) -> Any:
    before = copies(arguments)
    first = rule(*arguments)
    kept = copies(first)
    second = rule(*arguments)
    if not same(before, copies(arguments)):
        raise broken(algorithm, "pure rules", f"{name} changed its arguments.")
    if not same(first, second) or not same(kept, copies(second)):
        raise broken(algorithm, "pure rules", f"{name} returned two results for the same arguments.")
    return first


def _server_state(algorithm: Algorithm, s: Any, x0: Tree) -> None:
    law = "server state"
    if not hasattr(s, "xbar"):
        raise broken(algorithm, law, f"it has no xbar, got {type(s).__name__}; return a NamedTuple with that field.")
    if structure(s.xbar) != structure(x0):
        raise broken(algorithm, law, f"xbar is {structure(s.xbar)}, x^0 is {structure(x0)}.")
    for leaf in map(np.asarray, tree.leaves(s.xbar)):
        if leaf.dtype != np.float64 or not np.all(np.isfinite(leaf)):
            raise broken(algorithm, law, f"xbar must be finite and float64, got {leaf.dtype} {leaf.tolist()}.")


def _recovery(algorithm: Deployable, rules: Any, c: Any, message: Tree, solution: Solution) -> None:
    lost = _pure(algorithm, "recover", rules.recover, message)
    if structure(lost) != structure(c):
        raise broken(algorithm, "recovery", f"recover gives {structure(lost)}, a client has {c}.")
    sub = rules.subproblem(lost, message)
    _, upload = rules.finish(lost, message, sub, solution)
    if not all(np.all(np.isfinite(leaf)) for leaf in tree.leaves((sub.start, sub.center, sub.linear, upload))):
        raise broken(algorithm, "recovery", "the subproblem or the upload after recover is not finite.")


def _flags(algorithm: Algorithm, problem: Problem) -> None:
    constrained = _problem(problem.data.num_clients, constrained=True)
    for allowed, flag, p, sampling in (
        (algorithm.composite, "composite", constrained, Full()),
        (algorithm.partial, "partial", problem, Uniform(2)),
    ):
        if not isinstance(allowed, bool):
            raise broken(algorithm, "flags", f"{flag} is {allowed!r}, True or False is wanted.")
        with contextlib.suppress(ValueError):
            check(algorithm, p, sampling)
            if not allowed:
                raise broken(algorithm, "flags", f"{flag} is False, and {p.regulariser}, {sampling} is not refused.")


def _play(problem: Problem, algorithm: Algorithm, length: int, **more: Any) -> Result:
    """Run an algorithm on the engine that is meant for it."""
    more = {"local": SOME_STEPS, "seed": 1, "precision": "float64", "evaluate_every": MANY, "progress": False, **more}
    if isinstance(algorithm, Asynchronous):
        clock = Clock(Fixed([1.0 + 0.3 * i for i in range(problem.data.num_clients)]))
        return simulate_async(problem, algorithm, updates=length, clock=clock, **more)
    return simulate(problem, algorithm, rounds=length, **{"sampling": _sampling(algorithm), **more})


def _agreement(algorithm: Algorithm, problem: Problem) -> None:
    if isinstance(algorithm, Asynchronous):
        late, at_once = (_play(problem, algorithm, ROUNDS, eager=eager) for eager in (False, True))
        _equal(algorithm, "reference", "updates that are computed at once", late, at_once)
        return
    for sampling in (Full(), Uniform(2)) if algorithm.partial else (Full(),):
        arguments: dict[str, Any] = {"local": SOME_STEPS, "rounds": ROUNDS, "seed": 1, "precision": "float64"}
        arguments["progress"] = False
        ours = simulate(problem, algorithm, sampling=sampling, evaluate_every=MANY, threads=1, **arguments).params
        plain = reference(problem, algorithm, sampling=sampling, evaluate_every=MANY, **arguments).params
        what = f"||xbar of simulate - xbar of reference|| with {sampling}"
        gap = tree.norm(tree.sub(ours, plain))
        at_most(algorithm, "reference", what, gap, TOLERANCE * (1 + tree.norm(plain)))


def _same_bits(algorithm: Algorithm, problem: Problem) -> None:
    whole = _play(problem, algorithm, ROUNDS, threads=1)
    _equal(algorithm, "threads", "three threads", whole, _play(problem, algorithm, ROUNDS, threads=3))
    with tempfile.TemporaryDirectory() as folder:
        _play(problem, algorithm, ROUNDS // 2, checkpoint=folder)
        resumed = _play(problem, algorithm, ROUNDS, checkpoint=Checkpoint(folder, resume=True))
        _equal(algorithm, "resume", f"a stop after {ROUNDS // 2} of {ROUNDS} rounds", whole, resumed)


def _equal(algorithm: Algorithm, law: str, what: str, a: Result, b: Result) -> None:
    for name in ("server", "clients", "updates"):
        ours, theirs = getattr(a.state, name), getattr(b.state, name)
        if name != "server":
            ours, theirs = dict(ours), dict(theirs)
        if not same(ours, theirs):
            gap = tree.norm(tree.sub(a.params, b.params))
            raise broken(algorithm, law, f"{what} changed the state of the {name}, xbar by {gap:.3g}, 0 is allowed.")


def _constraint(algorithm: Algorithm, clients: int) -> None:
    if algorithm.composite:
        params = _play(_problem(clients, constrained=True), algorithm, ROUNDS).params
        below = max(float(np.max(-leaf)) for leaf in tree.leaves(params))
        what = "composite is True, and with g=NonNegative() the largest entry of -xbar"
        at_most(algorithm, "flags", what, below, TOLERANCE)


def _descent(algorithm: Algorithm, clients: int) -> None:
    problem = _problem(clients, equal=True)
    samples: Any = problem.data.client(0)
    solution = np.linalg.lstsq(samples["x"], samples["y"], rcond=None)[0]
    more = {} if isinstance(algorithm, Asynchronous) else {"sampling": Full()}
    params = _play(problem, algorithm, MANY, local=MANY_STEPS, **more).params
    before, after = np.linalg.norm(solution), float(np.linalg.norm(params - solution))
    what = f"||xbar - solution|| after {MANY} rounds, over that at the start"
    at_most(algorithm, "descent", what, after / float(before), FALL)
