"""Regularisers made of regularisers, where the prox of the whole follows from the proxes of its parts.

There is no sum: the prox of a sum does not follow from the two proxes. ElasticNet is the sum that has one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from feddr import tree
from feddr.prox.masks import per_leaf, real, wide
from feddr.prox.regulariser import Regulariser, Scalar, brief, check, eta_times, penalised
from feddr.tree import Tree


@dataclass(frozen=True)
class Scaled:
    """A multiple: factor g(x), with factor > 0 and prox_eta(x) = prox_{g, factor eta}(x). The mask is that of g.

    Examples
    --------
    >>> import feddr, numpy as np
    >>> Scaled(feddr.prox.L1(0.5), 2.0).prox(np.array([3.0, 0.5]), 1.0).tolist()
    [2.0, 0.0]
    """

    g: Regulariser
    factor: float

    def __post_init__(self) -> None:
        check(self, positive=True, factor=self.factor)

    def value(self, x: Tree) -> jax.Array:
        """Return factor g(x)."""
        return self.factor * self.g.value(x)

    def prox(self, x: Tree, eta: Scalar) -> Tree:
        """Return the prox of g at step factor eta."""
        return self.g.prox(x, eta_times(self, eta, self.factor))

    def penalised(self, x: Tree) -> list[NDArray[np.bool_]]:
        """Return what g acts on."""
        return penalised(self.g, x)

    __repr__ = brief


@dataclass(frozen=True)
class Translated:
    """Closeness to a point other than zero: g(x - shift), with prox(x) = shift + prox_g(x - shift).

    Parameters
    ----------
    g
        A regulariser; its mask is the mask of this one.
    shift
        A number, or a tree with the structure of the parameters, such as an earlier model. The difference x - shift
        is rounded, so for a constraint the shift should not exceed the size of the set by more than some ten times.

    Examples
    --------
    >>> import feddr, numpy as np
    >>> Translated(feddr.prox.L1(0.5), 1.0).prox(np.array([3.0, 1.25]), 1.0).tolist()
    [2.5, 1.0]
    """

    g: Regulariser
    shift: Tree

    def value(self, x: Tree) -> jax.Array:
        """Return g(x - shift)."""
        return self.g.value(self._difference(x))

    def prox(self, x: Tree, eta: Scalar) -> Tree:
        """Return shift + prox_g(x - shift)."""
        difference = self._difference(x)

        def back(leaf: jax.Array, shift: Any, d: jax.Array, u: jax.Array) -> jax.Array:
            # What g leaves alone stays exactly as it was, without the rounding of going there and back.
            # An infinity shows that the difference is larger than the largest float.
            return jnp.where((u == d) & jnp.isfinite(d), leaf, wide(u) + shift).astype(u.dtype)

        return tree.map(
            back, tree.map(real, x), per_leaf("shift", self.shift, x), difference, self.g.prox(difference, eta)
        )

    def penalised(self, x: Tree) -> list[NDArray[np.bool_]]:
        """Return what g acts on."""
        return penalised(self.g, x)

    def _difference(self, x: Tree) -> Tree:
        shift = per_leaf("shift", self.shift, x)
        return tree.map(lambda leaf, shift: (wide(leaf) - shift).astype(real(leaf).dtype), x, shift)

    __repr__ = brief


@dataclass(frozen=True)
class Parts:
    """Different regularisers for different parts of the parameters: the sum of g_p(x_p) over the parts p.

    Parameters
    ----------
    parts
        Regularisers by name. A name takes the parameter of that name and all below it: ``layer1`` takes
        ``layer1.weight`` and ``layer1.bias``. Where two names fit, the longer has it. What no name fits is left alone.

    Notes
    -----
    A regulariser sees the tree of the parameters with None in place of what is not in its part, so names stay what
    they are, and indices and trees of its own count only the part.

    Examples
    --------
    >>> from feddr.prox import L1, NonNegative
    >>> import jax.numpy as jnp
    >>> g = Parts({"a": L1(1.0), "b": NonNegative()})
    >>> x = {"a": jnp.array([3.0]), "b": jnp.array([-1.0]), "c": jnp.array([-2.0])}
    >>> {name: leaf.item() for name, leaf in g.prox(x, 1.0).items()}
    {'a': 2.0, 'b': 0.0, 'c': -2.0}
    """

    parts: Mapping[str, Regulariser]

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError("Parts needs one or more regularisers by name, got {}; use Zero() for none.")

    def value(self, x: Tree) -> jax.Array:
        """Return the sum of the values of the parts."""
        leaves, structure = jax.tree.flatten(x)
        values = [g.value(jax.tree.unflatten(structure, part)) for g, part in self._split(x, leaves)]
        return jnp.asarray(sum(values))

    def prox(self, x: Tree, eta: Scalar) -> Tree:
        """Return the proxes of the parts, side by side."""
        leaves, structure = jax.tree.flatten(tree.map(real, x))
        result = list(leaves)
        for g, part in self._split(x, leaves):
            new = iter(tree.leaves(g.prox(jax.tree.unflatten(structure, part), eta)))
            result = [old if own is None else next(new) for old, own in zip(result, part, strict=True)]
        return jax.tree.unflatten(structure, result)

    def penalised(self, x: Tree) -> list[NDArray[np.bool_]]:
        """Return what the parts act on, nothing elsewhere."""
        leaves, structure = jax.tree.flatten(x)
        result = [np.asarray(False)] * len(leaves)
        for g, part in self._split(x, leaves):
            new = iter(penalised(g, jax.tree.unflatten(structure, part)))
            result = [old if own is None else next(new) for old, own in zip(result, part, strict=True)]
        return result

    def _split(self, x: Tree, leaves: list[jax.Array]) -> list[tuple[Regulariser, list[jax.Array | None]]]:
        """Return each regulariser with the leaves of its part, None elsewhere."""
        names = list(tree.named(x))
        owners = [
            max((p for p in self.parts if f"{name}.".startswith(f"{p}.")), key=len, default=None) for name in names
        ]
        for part in self.parts:
            if part not in owners:
                raise ValueError(f"Parts needs names that own parameters, got {part!r} for the parameters {names}.")
        return [
            (g, [leaf if owner == part else None for leaf, owner in zip(leaves, owners, strict=True)])
            for part, g in self.parts.items()
        ]

    __repr__ = brief
