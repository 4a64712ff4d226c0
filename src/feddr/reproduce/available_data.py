"""Which data sets are there already; figures download nothing."""

from pathlib import Path

from feddr.datasets.download import folder

DATA = {
    "femnist": (("train",),),
    "mnist": (("mnist_writers.npz",), ("qmnist-train-labels*", "train-images*", "train-labels*")),
}
"""For each data set that needs files, sets of patterns of which one must be there as a whole."""


def present(name: str, data_dir: Path | None) -> Path | None:
    """Return the folder of a data set if its files are there.

    Parameters
    ----------
    data_dir
        A folder with a folder for each data set; None for the one that ``feddr.datasets`` uses.
    """
    place = folder(name, None) if data_dir is None else data_dir.expanduser() / name
    found = any(all(any(place.glob(pattern)) for pattern in patterns) for patterns in DATA[name])
    return place.absolute() if found else None
