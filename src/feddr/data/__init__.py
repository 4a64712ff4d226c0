"""Federated data: the samples of all clients in one array, with the offsets where each client begins.

Clients may differ in size by any factor; nothing is padded. A federation that does not fit, or need not be there at
once, makes the samples of a client when they are needed. The modules::

    federated    FederatedData: training, validation and test samples of each client, and what they are called
    samples      the samples of clients in memory, or made on demand
    partition    which samples go to which client: shards, Dirichlet, few labels
    split        a partition by name; training, validation and test rows of each client
    held_out     FederatedData.with_validation: a validation part for data that have none yet
    tables       from a table, or from arrays, to features, labels, weights and the rows of each client
    construct    FederatedData.from_frame and from_arrays
    weighting    weights of samples and classes in the loss
    adapters     from torch Datasets and Hugging Face data sets to arrays
"""

from feddr.data.federated import FederatedData
from feddr.data.samples import ClientSamples, OnDemand, Samples

__all__ = ["ClientSamples", "FederatedData", "OnDemand", "Samples"]
