"""Client sampling: which clients take part in a round, and how likely each one is.

Every scheme is proper (Tran-Dinh et al. 2021, Assumption 3): client i takes part in a round with probability p_i > 0.
Richtarik and Takac describe most of the schemes, Madow describes ``Systematic``. The modules::

    scheme         the protocol Sampling, p_hat, and what the schemes have in common
    uniform        Full, Uniform, DoublyUniform: all clients are alike
    unequal        Independent, Systematic: a probability for each client
    partitioned    Partitioned: one block of clients at a time

References
----------
P. Richtarik, M. Takac (2016). Parallel coordinate descent methods for big data optimization. Math. Program. 156.
W. G. Madow (1949). On the theory of systematic sampling, II. Ann. Math. Stat. 20.
"""

from feddr.sampling.partitioned import Partitioned
from feddr.sampling.scheme import Sampling, p_hat
from feddr.sampling.unequal import Independent, Systematic
from feddr.sampling.uniform import DoublyUniform, Full, Uniform

__all__ = ["DoublyUniform", "Full", "Independent", "Partitioned", "Sampling", "Systematic", "Uniform", "p_hat"]
