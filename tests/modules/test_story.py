"""A researcher's story: a PyTorch CNN on the digits of ten writers with few labels each, FedDR beside FedAvg."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feddr

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'feddr[torch]'")
if importlib.util.find_spec("torchax") is None:  # feddr imports it, and first switches its telemetry off
    pytest.skip("torchax is not installed: pip install 'feddr[torch]'", allow_module_level=True)
datasets: Any = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed")


def cnn() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 4 * 4, 10),
    )


def test_a_cnn_in_pytorch_from_images_to_the_accuracy_of_each_client(tmp_path: Path) -> None:
    digits = datasets.load_digits()
    images = (digits.images[:, None] / 16.0).astype(np.float32)  # (1797, 1, 8, 8)
    new, labels = images[-100:], digits.target[-100:]
    data = feddr.FederatedData.from_arrays(
        images[:-100],
        digits.target[:-100],
        partition="shards",  # sorted by label
        num_clients=10,
        shards_per_client=2,
        test_share=0.2,
        stratify=True,
    )
    assert max(len(np.unique(data.client(i)["y"])) for i in range(10)) <= 4
    net = cnn()
    problem = feddr.Problem.classification(feddr.models.from_torch(net, images[:1]), data, weights="samples")
    comparison = feddr.compare(
        problem,
        {"FedDR": feddr.FedDR(), "FedAvg": feddr.FedAvg()},
        local=feddr.local.SGD(lr=0.05, epochs=2, batch_size=10),
        rounds=12,
        per_client=True,
        sampling=feddr.sampling.Uniform(5),
    )
    ours, theirs = (comparison.results[name][0] for name in ("FedDR", "FedAvg"))
    row = {"FedDR": ours.history.last, "FedAvg": theirs.history.last}
    # The accuracy of each client is there, and its statistics are of these numbers.
    each = ours.history.clients.last["test_accuracy"]
    assert each.shape == (10,)
    assert row["FedDR"].metrics["worst_client_test_accuracy"] == pytest.approx(np.nanmin(each))
    # With two labels each, FedDR as it is comes at least as far as FedAvg in the same rounds.
    assert row["FedDR"].test_accuracy > 0.8
    assert row["FedDR"].test_accuracy >= row["FedAvg"].test_accuracy
    # On images that no client has, from the folder alone, and in PyTorch itself.
    loaded = feddr.load(ours.save(tmp_path))
    assert loaded.score(new, labels) > 0.75
    feddr.torch.load(net, ours.params)
    with torch.no_grad():
        scores = net(torch.tensor(new)).numpy()
    np.testing.assert_array_equal(loaded.predict(new), scores.argmax(axis=1))
