"""What is proven about FedDR and asyncFedDR, as functions: admissible step sizes, constants, rounds for an accuracy.

Tran-Dinh, Pham, Phan, Nguyen, "FedDR - Randomized Douglas-Rachford Splitting Algorithms for Nonconvex Federated
Composite Optimization", NeurIPS 2021: `synchronous` is Theorem 3.1 and Corollary 3.1, `relative` the appendix's theorem
on relative accuracies, `asynchronous` Theorem 4.1. `recommend` chooses step sizes, `region` draws where they may lie.

The modules beside these three::

    rate          the rate that the three theorems share
    tuning        the step sizes with the best guarantee
    boundary      the admissible region of (alpha, eta), as curves
    advice        step sizes for a problem ("auto"), certified solvers
    fixed_work    step sizes for solvers of fixed work, a measured rule
    choice        step sizes that a user has chosen, checked and completed
    smoothness    bounds on the Hessians of the clients, known or estimated
    curvature     Hessian-vector products behind these estimates
    checks        checks of arguments

Assumed throughout: F = (1/n) sum_i f_i + g is bounded below by F*, every f_i is L-smooth (convex or not), g is closed
and convex, and a client is drawn with probability p_i >= p_hat > 0. What is bounded is the gradient mapping
G_eta(x) = (x - prox_{eta g}(x - eta grad f(x))) / eta. Below, u = L eta.

The gap and the start
---------------------
The proofs need xtilde^0 = (1/n) sum_i xhat_i^0, xbar^0 = prox_{eta g}(xtilde^0) and, where the prox is to be exact,
x_i^0 = prox_{eta f_i}(y_i^0). The bound is then in gap = V^0 - F*. The starts:

- gradient: x_i^0 = x^0 and y_i^0 = x^0 + eta grad f_i(x^0), with xtilde^0 and xbar^0 formed from them. All three hold,
  and V^0 is the forward-backward envelope of F at x^0, so V^0 <= F(x^0), and gap = F(x^0) - F* is right as printed. It
  costs one gradient of every client.
- full: x_i^0 = prox_{eta f_i}(x^0) and y_i^0 = x^0. All three hold, but V^0 may exceed F(x^0); it is at most
  F(x^0) + (1 / (n eta)) sum_i ||x^0 - x_i^0||^2.
- lazy: x_i^0 = y_i^0 = x^0. V^0 = F(x^0), but with the errors eps_{i,0} = ||x^0 - prox_{eta f_i}(x^0)||. So the
  inexact constants apply even if every later prox is exact (`synchronous.error_budget`), and the theorems of `relative`
  and `asynchronous` do not. And xbar^0 = prox_{eta g}(xtilde^0) only where x^0 minimises g (0 for a norm, any point of
  the set for a constraint); elsewhere the term k = 0 of the sum is not covered and must be left out. Where g is
  infinite at x^0 so is V^0: the theorem then holds from the first round on in which xbar is a prox, given that round.

With neither full nor lazy is Corollary 3.1 true for F(x^0) - F*: started at a minimiser of F, where that gap is 0, both
leave it when one of two different clients is sampled.

Weights
-------
With weights w_i, sum_i w_i = 1, take the inner product weighted by w_i in the consensus reformulation: the formulas of
`synchronous` and `relative` keep their shape with (1/n) sum_i replaced by sum_i w_i, and n occurs in none of them. For
`asynchronous` see there.

Where the printed formulas differ
---------------------------------
Every range is derived from the positivity of its descent and tested from both sides. The paper differs in

1.  the range of alpha of Algorithm 1: the bound with sqrt(17 + 64 gamma4) is spurious, and the proof has +16 for -16
    under the root of eta (`synchronous.alpha_max`, `synchronous.eta_max`);
2.  rho2: multiplying the bound on ||xbar^k - x_i^k||^2 by alpha^2 / (2 (1 + u^2) (1 + gamma1)) leaves the errors with
    the factor 2 / gamma1, not alpha^2 / ((1 + u^2) gamma1); the last term of rho2 becomes d / (alpha eta gamma1);
3.  C2 and C3: the term (1 + u)^2 (1 + gamma2) / (eta^2 gamma2) multiplies eps_{i,k}^2 in the proof, so it belongs to
    C2, not to C3; C2 + C3 stays;
4.  the accuracies eps_{i,k}^2 = M / (2 (k+1)^2): they sum to more than M when clients are sampled, because a client
    that is not sampled keeps its error (`synchronous.error_budget`);
5.  V^0 = F(x^0), which the printed start x_i^0 = prox_{eta f_i}(x^0), xtilde^0 = x^0 does not have (above);
6.  the relative constant: printed as its reciprocal; with p_hat^2 where p_hat suffices (keep p_i instead of bounding it
    by 1 and then by p_hat); with 1 + u^2 + 2 theta_hat for (1 + u^2) (1 + 4 theta_hat), which is item 2 again; and with
    an eta_max that contains eta through C_hat (`relative.eta_max`);
7.  asynchronous rho for 2 tau^2 > n: (2 tau^2 - n) / (2 n eta) times 2 (1 + u^2) / n^2, the factor of
    ||x_i^{k+1} - x_i^k||^2 in the bound on ||xbar^{k+1} - xbar^k||^2, is (2 tau^2 - n) (1 + u^2) / (n^3 eta). The print
    loses the factor 2; c is 2 (2 tau^2 - n) / n^2 here;
8.  asynchronous eta_max for 2 tau^2 > n: 7 + 12 c + 4 c^2, not 7 + 4 c + 4 c^2;
9.  the asynchronous Lyapunov value: the factor of its sum is tau / (n eta), printed as 1 / (n eta) in the statement and
    as tau / (eta n^2) in the proof;
10. asynchronous C_hat: each update lies in T + 1 of the windows k..k+T that are summed over k, so the factor T + 1 is
    needed; the printed sum telescopes only for T = 0, and round robin over 30 equal clients exceeds it more than twice;
11. the assumption that the active client has no delay, which would leave no delay at all and is not used.
"""

from feddr.theory import asynchronous, relative, synchronous
from feddr.theory.advice import recommend
from feddr.theory.asynchronous import AsyncConstants
from feddr.theory.boundary import Curve, region
from feddr.theory.relative import RelativeConstants
from feddr.theory.smoothness import Smoothness, smoothness
from feddr.theory.synchronous import Constants, Gammas
from feddr.theory.tuning import Recommendation, recommend_for

__all__ = [
    "AsyncConstants",
    "Constants",
    "Curve",
    "Gammas",
    "Recommendation",
    "RelativeConstants",
    "Smoothness",
    "asynchronous",
    "recommend",
    "recommend_for",
    "region",
    "relative",
    "smoothness",
    "synchronous",
]
