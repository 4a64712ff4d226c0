"""Regularisers g: each has ``value(x)`` and ``prox(x, eta)``, which minimises g(u) + ||u - x||^2 / (2 eta) over u.

They take any tree of arrays and act on the whole of it as one vector, whatever its layers; ``mask`` says which
parameters to leave alone, for instance ``L1(1e-4, mask=leave("bias"))``. With t = eta strength and (a)_+ = max(a, 0):

======================  =====================================  ==================================================
name                    g(x)                                   prox(x)
======================  =====================================  ==================================================
Zero()                  0                                      x
L1(strength)            strength ||x||_1                       sign(x) (|x| - t)_+
L2(strength)            strength ||x||_2                       (1 - t / ||x||_2)_+ x
SquaredL2(strength)     strength / 2 ||x||_2^2                 x / (1 + t)
ElasticNet(l1, l2)      l1 ||x||_1 + l2 / 2 ||x||_2^2          sign(x) (|x| - eta l1)_+ / (1 + eta l2)
LInf(strength)          strength max |x_j|                     x - projection of x onto ||u||_1 <= t
GroupL2(strength)       strength sum over groups of ||x_G||_2  (1 - t / ||x_G||_2)_+ x_G
Nuclear(strength)       strength sum of singular values        U diag((s - t)_+) V^T for X = U diag(s) V^T
Box(lower, upper)       0 if lower <= x <= upper, else inf     min(max(x, lower), upper)
NonNegative()           0 if x >= 0, else inf                  (x)_+
Simplex(radius)         0 if x >= 0, sum x = radius, else inf  (x - s)_+, s such that the sum is the radius
L1Ball(radius)          0 if ||x||_1 <= radius, else inf       sign(x) (|x| - s)_+, s >= 0 least such that it fits
L2Ball(radius)          0 if ||x||_2 <= radius, else inf       min(1, radius / ||x||_2) x
Scaled(g, factor)       factor g(x)                            prox of g at step factor eta
Translated(g, shift)    g(x - shift)                           shift + prox of g at x - shift
Parts({name: g, ...})   sum over parts of g_p(x_p)             prox of g_p at x_p, part by part
======================  =====================================  ==================================================

The modules::

    regulariser     the protocol Regulariser, and checks, sparsity and reprs that all share
    masks           which parameters a regulariser acts on; sums and maps over those
    norms           Zero, L1, L2, SquaredL2, ElasticNet, LInf
    groups          GroupL2, Nuclear
    constraints     Box, NonNegative, Simplex, L1Ball, L2Ball
    compositions    Scaled, Translated, Parts
    compiled        the prox as the server calls it, compiled in float64

References
----------
Parikh and Boyd (2014), Proximal algorithms. Duchi, Shalev-Shwartz, Singer and Chandra (2008), Efficient projections
onto the l1-ball for learning in high dimensions. Yuan and Lin (2006), Model selection and estimation in regression with
grouped variables. Zou and Hastie (2005), Regularization and variable selection via the elastic net. Cai, Candes and
Shen (2010), A singular value thresholding algorithm for matrix completion.
"""

from feddr.prox.compositions import Parts, Scaled, Translated
from feddr.prox.constraints import Box, L1Ball, L2Ball, NonNegative, Simplex
from feddr.prox.groups import GroupL2, Nuclear
from feddr.prox.masks import Mask, leave
from feddr.prox.norms import L1, L2, ElasticNet, LInf, SquaredL2, Zero, soft_threshold
from feddr.prox.regulariser import Regulariser

__all__ = [
    "L1",
    "L2",
    "Box",
    "ElasticNet",
    "GroupL2",
    "L1Ball",
    "L2Ball",
    "LInf",
    "Mask",
    "NonNegative",
    "Nuclear",
    "Parts",
    "Regulariser",
    "Scaled",
    "Simplex",
    "SquaredL2",
    "Translated",
    "Zero",
    "leave",
    "soft_threshold",
]
