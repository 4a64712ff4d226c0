"""The command ``feddr theory``: safe step sizes, their constants, and the rounds that an accuracy takes."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from feddr import config as configs
from feddr.commands import theory_answer
from feddr.commands.console import Sets
from feddr.commands.theory_answer import Setting

if TYPE_CHECKING:
    from feddr.algorithms import FedDR
    from feddr.sampling import Sampling

PICTURES = (".png", ".pdf", ".svg")


def _flag(name: str, text: str) -> Any:
    # Typer would make --l of L, and --t of T.
    return typer.Option(f"--{name}", help=text)


def theory(
    config: Annotated[Path | None, typer.Argument(metavar="[CONFIG]", help="An experiment that has L and n.")] = None,
    sets: Sets = None,
    L: Annotated[float | None, _flag("L", "Smoothness of the clients' losses.")] = None,
    n: Annotated[int | None, _flag("n", "Number of clients.")] = None,
    participation: Annotated[int | None, _flag("participation", "Clients a round; all of them by default.")] = None,
    eps: Annotated[float, _flag("eps", "Accuracy: E ||G_eta||^2 <= eps^2.")] = 1e-2,
    alpha: Annotated[float | None, _flag("alpha", "Relaxation to check, instead of the recommended one.")] = None,
    eta: Annotated[float | None, _flag("eta", "Step size to check, instead of the recommended one.")] = None,
    gamma4: Annotated[float | None, _flag("gamma4", "Room for errors of the prox, 0 for none.")] = None,
    M: Annotated[float, _flag("M", "Bound on the summed squared errors of the prox, 0 for an exact one.")] = 0.0,
    gap: Annotated[float | None, _flag("gap", "F(x^0) - F*; 1 by default, F(x^0) with CONFIG.")] = None,
    tau: Annotated[int | None, _flag("tau", "Largest delay, for asyncFedDR.")] = None,
    T: Annotated[int | None, _flag("T", "A client's turn comes within T + 1 updates; n - 1 by default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the region, to theory.png for one.")] = None,
) -> None:
    """Say which step sizes are safe, and how many rounds an accuracy takes: for numbers, or for CONFIG."""
    from feddr.theory import checks
    from feddr.theory.choice import choose

    checks.positive("eps", eps)
    if out is not None and out.suffix not in PICTURES:
        raise ValueError(f"--out must end in {', '.join(PICTURES)}, got {out}.")
    if tau is not None:
        checks.count("tau", tau, 0)
    elif T is not None:
        raise ValueError(f"T is for asyncFedDR, got T = {T} without tau; give --tau.")
    if config is not None:
        setting = _from_config(config, sets or [], L, n, participation, gap, tau)
    else:
        setting = _from_numbers(sets or [], L, n, participation, gap)
    T = setting.n - 1 if tau is not None and T is None else T

    def ask(tau: int | None, T: int | None) -> dict[str, Any]:
        recommendation = choose(
            setting.L,
            setting.n,
            setting.p_hat,
            alpha=alpha,
            eta=eta,
            gamma4=gamma4,
            gap=setting.gap,
            M=M,
            tau=tau,
            T=T,
        )
        return theory_answer.answer(setting, recommendation, eps, M)

    try:
        answers = [ask(tau, T)]
        if tau is not None:
            # What is admissible with delays is admissible without them, so FedDR can stand beside it.
            answers.insert(0, ask(None, None))
    except ArithmeticError:
        raise ValueError(
            f"These numbers lead beyond the largest or the least float, got L = {setting.L}, gap = {setting.gap}, "
            f"M = {M}, eps = {eps}, alpha = {alpha}, eta = {eta}; take less extreme ones."
        ) from None
    fixed = [name for name, value in (("alpha", alpha), ("eta", eta)) if value is not None]
    if out is not None:
        theory_answer.draw(answers[-1], fixed, out)
    if as_json:
        typer.echo(json.dumps(answers[-1], indent=2, allow_nan=False))
    else:
        theory_answer.show(answers, fixed, out)


def _from_numbers(
    sets: list[str], L: float | None, n: int | None, participation: int | None, gap: float | None
) -> Setting:
    from feddr.theory import checks

    if sets:
        raise ValueError(f"--set is for a CONFIG, got {sets[0]} without one; give its path.")
    if L is None or n is None:
        raise ValueError(f"theory needs --L and --n, or a CONFIG that has them, got L = {L}, n = {n}.")
    checks.positive("L", L)
    checks.count("n", n, 1)
    m = n if participation is None else participation
    if not 1 <= m <= n:
        raise ValueError(f"participation must lie in 1..{n}, got {m}; it is the number of clients in a round.")
    return Setting(L, n, m, m / n, 1.0 if gap is None else gap)


def _from_config(
    path: Path,
    sets: list[str],
    L: float | None,
    n: int | None,
    participation: int | None,
    gap: float | None,
    tau: int | None,
) -> Setting:
    """Take the numbers from the problem of an experiment, and from the sampling of its FedDR."""
    for name, value in (("n", n), ("participation", participation)):
        if value is not None:
            raise ValueError(f"{name} comes from {path}, got --{name} {value}; leave it out, or change it by --set.")
    config = configs.load(path, sets)
    if tau is not None and config.weights != "uniform":
        raise ValueError(f"Theorem 4.1 is for equal weights, got {config.weights}; use --set weights=uniform.")
    problem, runs = configs.build(config)

    from feddr.algorithms import Asynchronous, FedDR
    from feddr.sampling import p_hat
    from feddr.theory.advice import start_gap
    from feddr.theory.smoothness import smoothness

    run = next((run for run in runs if isinstance(run.algorithm, FedDR)), runs[0])
    clients, exact = problem.data.num_clients, None
    notes = [f"{path}: n = {clients} clients, and {run.label} has the sampling {run.sampling}."]
    known = None
    if L is None:
        known = smoothness(problem)
        L, exact = known.L, known.exact
        notes.append(f"{known.words(L)}.")
    if gap is None:
        gap, about_gap = start_gap(problem)
        if gap == 0:
            raise ValueError(f"gap must lie in (0, inf), {path} has F(x^0) = {gap}; give --gap.")
        notes.append(f"gap = F(x^0) - 0 = {gap:.4g}, because no loss and no g is below 0; --gap takes a better one.")
        notes.extend(about_gap)
    if isinstance(run.algorithm, FedDR) and not isinstance(run.algorithm, Asynchronous):
        per_client = [L] * clients if known is None else known.per_client.tolist()
        by = ", by this estimate" if exact is False else ""
        notes.append(f"{path}: {run.label} has {_verdict(run.algorithm, per_client, problem.client_weights)}{by}.")
    if not run.local.certified:
        solver = type(run.local).__name__
        notes.append(f"The theory needs an exact prox or a bound M on its errors, and {solver} certifies neither.")
    return Setting(L, clients, _expected(run.sampling, clients), p_hat(run.sampling, clients), gap, exact, tuple(notes))


def _verdict(algorithm: "FedDR", L: Sequence[float], weights: Any) -> str:
    """Say where the step sizes of an experiment lie, for clients of these smoothnesses and weights."""
    from feddr.algorithms import Roles
    from feddr.theory import synchronous

    alpha, roles = algorithm.alpha, Roles(algorithm, weights)
    pair = f"alpha = {alpha}, eta = {algorithm.eta}"
    if isinstance(alpha, str) or algorithm.eta == "auto":
        return pair
    if alpha >= synchronous.alpha_max():
        return f"{pair}, which is not admissible: alpha must stay below {synchronous.alpha_max():.4g}"
    # With step sizes of their own, clients are as if (eta_i / eta) L_i smooth: feddr.algorithms.step_sizes.
    eta, product = float(roles.server.eta), max(roles.eta(i) * one for i, one in enumerate(L))
    largest = synchronous.eta_max(alpha, product / eta)
    if eta < largest:
        return f"{pair}, which is admissible"
    if roles.etas is None:
        return f"{pair}, which is not admissible: eta must stay below {largest:.4g} for this alpha"
    return f"{pair}, which is not admissible: each must be {eta / largest:.3g} times smaller for this alpha"


def _expected(sampling: "Sampling", n: int) -> float:
    """Return the expected number of clients a round."""
    m = math.fsum(sampling.probabilities(n))
    return round(m) if abs(m - round(m)) < 1e-9 * n else m
