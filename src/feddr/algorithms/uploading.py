"""``Uploading``: the base of methods that may compress what clients send and read, and make it private."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from feddr import tree
from feddr.compress import Compressor, Nonzero, Quantised, Rounded
from feddr.privacy import SiteLevel
from feddr.tree import Tree


@dataclass(frozen=True, repr=False)
class Uploading:
    """What methods with compressed uploads share.

    Parameters
    ----------
    upload
        How clients compress what they send: ``feddr.compress.Quantised(4)``, say; None for every bit. What is left out
        of one upload is made up for in later ones.
    download
        How the server rounds what it broadcasts: ``feddr.compress.Rounded("float16")``, ``Quantised(8)`` or
        ``Nonzero()``; None for every bit. Clients read the rounded model; the server, and every metric, keeps its own.
    privacy
        How a site's model is clipped and made noisy before these rules see it, and the budget: ``feddr.privacy``; None
        for no privacy.
    """

    upload: Compressor | None = field(default=None, kw_only=True)
    download: Compressor | None = field(default=None, kw_only=True)
    privacy: SiteLevel | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        """Show the settings, and compressors and privacy only where there are any: runs without keep their names."""
        ways = ("upload", "download", "privacy")
        shown = [one.name for one in fields(self) if one.repr and one.name not in ways]
        shown += [way for way in ways if getattr(self, way) is not None]
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


def check(algorithm: Any) -> None:
    """Refuse what cannot compress the one way or the other.

    Examples
    --------
    >>> import feddr
    >>> check(feddr.FedDR(upload=feddr.compress.Quantised(4), download=feddr.compress.Rounded()))
    >>> check(feddr.FedDR(download=feddr.compress.TopK(0.1)))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: download must be Rounded, ..., got TopK(share=0.1, values_as=None); clients read nothing else of xbar.
    """
    upload, download = getattr(algorithm, "upload", None), getattr(algorithm, "download", None)
    if upload is not None and (not isinstance(upload, Compressor) or isinstance(upload, Nonzero)):
        raise ValueError(
            f"upload must be Quantised, Rounded, TopK or RandomK, got {upload!r}; uploads are all of one length."
        )
    inner = download.values_as if isinstance(download, Nonzero) else download
    if download is not None and (
        not isinstance(download, Rounded | Quantised | Nonzero) or getattr(inner, "stochastic", False)
    ):
        raise ValueError(
            f"download must be Rounded, Quantised that is not stochastic, or Nonzero, got {download!r}; clients read "
            "nothing else of xbar."
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
    compressed = compressor.compress(wanted, draw or 0)
    return compressed, tree.sub(wanted, compressed)
