"""Bases of methods with compressed uploads, and of those that may read rounded models and be private, too."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np

from feddr import tree
from feddr.compress import Compressor, Nonzero, Quantised, Rounded
from feddr.privacy import RecordLevel, SiteLevel
from feddr.tree import Tree


@dataclass(frozen=True, repr=False)
class CompressedUploads:
    """What methods with compressed uploads share.

    Parameters
    ----------
    upload
        How clients compress what they send: ``feddr.compress.Quantised(4)``, say; None for every bit. What is left out
        of one upload is made up for in later ones.
    """

    upload: Compressor | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        """Show the settings, and those that are mostly None only where they are not: runs without keep their names."""
        ways = ("alpha_decay", "upload", "download", "privacy")
        shown = [one.name for one in fields(self) if one.repr and one.name not in ways]
        shown += [way for way in ways if getattr(self, way, None) is not None]
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def parts(self, upload: Tree) -> tuple[Tree, ...]:
        """Return the trees of an upload that are compressed each on its own, in the order in which ``finish`` does.

        What is in none of them, such as a length, travels as it is.
        """
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
        itemsize = int(np.dtype(dtype).itemsize)
        if self.upload is None:
            return tree.size(upload) * itemsize
        like = tree.map(lambda leaf: np.broadcast_to(np.zeros((), dtype), np.shape(leaf)), upload)
        parts = self.parts(like)
        rest = tree.size(upload) - sum(map(tree.size, parts))
        return sum(map(self.upload.num_bytes, parts)) + rest * itemsize


@dataclass(frozen=True, repr=False)
class Uploading(CompressedUploads):
    """What methods share whose clients may read a rounded broadcast, too, and may be private.

    Parameters
    ----------
    download
        How the server rounds what it broadcasts: ``feddr.compress.Rounded("float16")``, ``Quantised(8)`` or
        ``Nonzero()``; None for every bit. Clients read the rounded model; the server, and every metric, keeps its own.
    privacy
        How a site's model, or each local step, is clipped and made noisy before these rules see it, and the budget:
        ``feddr.privacy.SiteLevel`` or ``RecordLevel``; None for no privacy.
    """

    download: Compressor | None = field(default=None, kw_only=True)
    privacy: SiteLevel | RecordLevel | None = field(default=None, kw_only=True)


class LeftOut(NamedTuple):
    """State of a client that compresses and keeps nothing else: what its uploads have left out so far."""

    error: Tree


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


def remembering(
    compressor: Compressor | None, change: Tree, c: LeftOut | None, draw: int | None
) -> tuple[Tree, LeftOut | None]:
    """Return what is sent of a change, and the state of a client that keeps what was left out; all of it without c.

    Examples
    --------
    >>> from feddr.compress import TopK
    >>> remembering(TopK(0.5), np.array([1.0, 2.0]), LeftOut(np.zeros(2)), draw=0)
    (array([0., 2.]), LeftOut(error=array([1., 0.])))
    >>> remembering(None, np.array([1.0, 2.0]), None, draw=None)
    (array([1., 2.]), None)
    """
    if compressor is None or c is None:
        return change, c
    compressed, error = sent(compressor, change, c.error, draw)
    return compressed, LeftOut(error)
