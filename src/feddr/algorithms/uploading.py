"""``Uploading``: the base of methods whose clients may compress what they send, with error feedback."""

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

    def upload_bytes(self, upload: Tree, dtype: Any) -> int:
        """Return the bytes of an upload as it travels, in a run whose numbers are of this type."""
        if self.upload is None:
            return tree.size(upload) * int(np.dtype(dtype).itemsize)
        return self.upload.num_bytes(
            tree.map(lambda leaf: np.broadcast_to(np.zeros((), dtype), np.shape(leaf)), upload)
        )


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
