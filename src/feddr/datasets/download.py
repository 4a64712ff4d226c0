"""Download of data files over HTTP into a cache folder: from the first mirror that works, checked by SHA-256.

The folder is $FEDDR_DATA, else feddr/data in the user's cache folder, with a folder in it for each data set.
"""

import contextlib
import hashlib
import http.client
import logging
import os
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

TIMEOUT = 30.0
"""Seconds without an answer after which a mirror is given up."""

LARGEST = 200 * 2**20
"""Bytes of a download; none of the files here has a tenth of it."""

log = logging.getLogger("feddr")


@dataclass(frozen=True)
class Remote:
    """A file that can be downloaded.

    Parameters
    ----------
    mirrors
        Folders, ending in a slash, that are tried one after the other.
    algorithm, digest
        The checksum: ``"sha256"``, or ``"md5"`` where the publisher gives no other.
    """

    mirrors: tuple[str, ...]
    digest: str
    algorithm: str = "sha256"


def folder(name: str, data_dir: str | None) -> Path:
    """Return the folder of a data set: ``data_dir``, else its place in the user's cache folder."""
    if data_dir is not None:
        path = Path(data_dir).expanduser()
        if not path.is_dir():
            raise ValueError(f"data_dir must be a folder, {path} is not.")
        return path
    chosen = os.environ.get("FEDDR_DATA")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return (Path(chosen).expanduser() if chosen else cache / "feddr" / "data") / name


def find(folder: Path, names: Sequence[str]) -> Path | None:
    """Return the first of these files that is there."""
    return next((folder / name for name in names if (folder / name).is_file()), None)


def obtain(folder: Path, wanted: Mapping[str, Sequence[str]], table: Mapping[str, Remote] | None) -> list[Path]:
    """Return files, after a download of those that are missing.

    Parameters
    ----------
    folder
        The folder.
    wanted
        The names of the files, each with other names under which it may be there.
    table
        From where; None where nothing may be downloaded, because the user named a folder with files of his own.
    """
    names = {name: [name, *others] for name, others in wanted.items()}
    missing = [name for name, known in names.items() if find(folder, known) is None]
    if missing and table is None:
        raise ValueError(f"{folder} has no {_list(missing)}; put it there, or leave out data_dir to download it.")
    while missing and table is not None:
        reasons = []
        for mirror in table[missing[0]].mirrors:
            try:
                _download(mirror + missing[0], folder / missing[0], table[missing[0]])
                break
            except (OSError, http.client.HTTPException, _UnfitError) as error:
                reason = " ".join(str(getattr(error, "reason", None) or error).split()) or type(error).__name__
                reasons.append(f"{urllib.parse.urlsplit(mirror).netloc}: {reason}")
        else:
            raise ValueError(
                f"{missing[0]} could not be downloaded ({'; '.join(reasons)}); put {_list(missing)} in {folder}, or "
                "give a folder that has it as data_dir."
            )
        del missing[0]
    return [path for known in names.values() if (path := find(folder, known)) is not None]


def _list(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


class _UnfitError(Exception):
    """What was sent is not the file."""


def _download(url: str, target: Path, remote: Remote) -> Path:
    log.info("downloading %s", url)
    made = [parent for parent in target.parents if not parent.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
        part = Path(file.name)
        try:
            # The mirrors are constants of this package; urllib follows redirections to http, https and ftp only.
            with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
                length = answer.headers.get("Content-Length")
                got, digest = _copy(answer, file, remote.algorithm)
            if length is not None and str(got) != length:
                raise _UnfitError(f"the transfer broke off after {got} of {length} bytes")
            if digest != remote.digest:
                raise _UnfitError(f"its {remote.algorithm} is {digest} instead of {remote.digest}")
            file.close()
            part.chmod(0o644)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # a folder with the file in it, or another one, stays
                for parent in made:
                    parent.rmdir()
    return target


def _copy(source: http.client.HTTPResponse, target: IO[bytes], algorithm: str) -> tuple[int, str]:
    """Copy in pieces and return how many bytes there were, and their checksum."""
    digest, total = hashlib.new(algorithm, usedforsecurity=False), 0
    while chunk := source.read(2**18):
        total += len(chunk)
        if total > LARGEST:
            raise _UnfitError(f"it has more than {LARGEST:,} bytes")
        digest.update(chunk)
        target.write(chunk)
    return total, digest.hexdigest()
