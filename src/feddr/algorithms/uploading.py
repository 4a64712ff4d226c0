"""``Uploading``: the base of methods whose clients may compress what they send, with error feedback."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from feddr import tree
from feddr.compress import Compressor
from feddr.tree import Tree


@dataclass(frozen=True, repr=False)
class Uploading:
    """What methods with compressed uploads share.

    Parameters
    ----------
    upload
        How clients compress what they send: ``feddr.compress.Quantised(4)``, say; None for every bit. What is left out
        of one upload is made up for in later ones.
    """

    upload: Compressor | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        """Show the settings, and the compressor only where there is one, so that runs without one keep their names."""
        shown = [one.name for one in fields(self) if one.repr and one.name != "upload"]
        shown += [] if self.upload is None else ["upload"]
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def parts(self, upload: Tree) -> tuple[Tree, ...]:
        """Return the trees of an upload that are compressed each on its own, in the order in which ``finish`` does."""
        return (upload,)

    def base(self, before: Tree, message: Tree) -> Tree:
        """Return what a compressed upload is the way from: what the server has counted for the client before."""
        return before

    def counted(self, changes: Sequence[Tree], before: Tree, message: Tree) -> Tree:
        """Return what the server counts for a client, given the parts of its upload as they were decoded.

        It is what the client itself counts after ``finish``, to the last bit.

        Parameters
        ----------
        before
            What the server has counted so far.
        message
            What the client was sent.
        """
        sent = iter([leaf for change in changes for leaf in tree.leaves(change)])
        return tree.map(lambda leaf: leaf + next(sent), self.base(before, message))

    def upload_bytes(self, upload: Tree, dtype: Any) -> int:
        """Return the bytes of an upload as it travels, in a run whose numbers are of this type."""
        if self.upload is None:
            return tree.size(upload) * int(np.dtype(dtype).itemsize)
        like = tree.map(lambda leaf: np.broadcast_to(np.zeros((), dtype), np.shape(leaf)), upload)
        return sum(self.upload.num_bytes(part) for part in self.parts(like))


def sent(compressor: Compressor, change: Tree, error: Tree, draw: int | None) -> tuple[Tree, Tree]:
    """Return the compressed sum of a change and of what earlier uploads have left out, and what is left out now.

    Examples
    --------
    >>> from feddr.compress import TopK
    >>> first, error = sent(TopK(0.5), np.array([1.0, 2.0]), np.zeros(2), draw=0)
    >>> second, error = sent(TopK(0.5), np.array([1.5, 1.0]), error, draw=1)
    >>> first.tolist(), second.tolist(), error.tolist()
    ([0.0, 2.0], [2.5, 0.0], [0.0, 1.0])
    """
    wanted = tree.add(change, error)
    found = compressor.compress(wanted, draw or 0)
    return found, tree.sub(wanted, found)
