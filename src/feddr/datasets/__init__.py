"""Data sets, each a function that returns a ``feddr.data.FederatedData``.

Data sets::

    synthetic        synthetic(r, s) and synthetic_iid, from alike to very different clients
    mnist            MNIST, by label, at random or by writer
    femnist          FEMNIST, 62 classes by writer, or 26 as in the FedProx experiments
    leaf             files in the format of LEAF
    heart_disease    patients of four hospitals
    libsvm           files in the format of LIBSVM
    tables           csv: a column names the client of each row
    client_files     a file for each client, read when the client takes part
    bundled          small sets that come with scikit-learn

What they are made of::

    federate         from samples and a partition to a federation, with a test split for each client
    summary          sizes, labels and heterogeneity of a federation in numbers
    download         the folder of data files; HTTP with a checksum
    files            untrusted files, compressed or not, read up to a limit
    npz, idx         readers of two formats of arrays
"""

from feddr.data import partition as partition
from feddr.datasets.bundled import bundled
from feddr.datasets.client_files import client_files
from feddr.datasets.femnist import femnist
from feddr.datasets.heart_disease import heart_disease
from feddr.datasets.leaf import leaf
from feddr.datasets.libsvm import libsvm
from feddr.datasets.mnist import mnist
from feddr.datasets.synthetic import synthetic, synthetic_iid
from feddr.datasets.tables import csv

__all__ = [
    "bundled",
    "client_files",
    "csv",
    "femnist",
    "heart_disease",
    "leaf",
    "libsvm",
    "mnist",
    "synthetic",
    "synthetic_iid",
]
