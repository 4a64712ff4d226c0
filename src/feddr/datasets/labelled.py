"""A federation whose features, classes and clients have names."""

from dataclasses import dataclass

from feddr.data import FederatedData


@dataclass(frozen=True)
class Described(FederatedData):
    """What a loader returns: the data, and what they are called.

    Parameters
    ----------
    features
        Names of the columns of ``x``, empty for pixels and the like.
    classes
        Names of the labels 0, 1, ...; empty where ``y`` is a number to predict.
    clients
        Names of the clients: writers, hospitals, users.
    """

    features: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        columns = self.train.samples["x"].shape[1]
        for what, names, wanted in (("features", self.features, columns), ("clients", self.clients, self.num_clients)):
            if names and len(names) != wanted:
                raise ValueError(f"{what} needs a name for each of {wanted}, got {len(names)}.")
