"""Data sets of PyTorch and of Hugging Face become federations; small ones that the tests make."""

from typing import Any

import numpy as np
import pytest

from feddr import FederatedData

torch: Any = pytest.importorskip("torch", reason="needs PyTorch: pip install torch==2.13.0")


def test_a_tensor_dataset_is_split_as_pytorch_splits_it() -> None:
    x, y = torch.arange(24.0).reshape(8, 3), torch.arange(8) % 2
    whole = torch.utils.data.TensorDataset(x, y)
    parts = torch.utils.data.random_split(whole, [5, 3], torch.Generator().manual_seed(0))
    data = FederatedData.from_torch({"ann": parts[0], "bob": parts[1]})
    assert data.train.sizes.tolist() == [5, 3]
    assert data.classes == (0, 1)
    for i, part in enumerate(parts):
        mine = data.train.client(i)
        expected = {tuple(a.tolist()): int(b) for a, b in part}
        assert {tuple(a.tolist()): int(b) for a, b in zip(mine["x"], mine["y"], strict=True)} == expected


def test_images_and_a_module_go_together() -> None:
    from feddr.torch import TorchProblem

    class Digits(torch.utils.data.Dataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return 6

        def __getitem__(self, i: int) -> Any:
            return torch.full((1, 4, 4), 40 * i, dtype=torch.uint8), i % 3

    data = FederatedData.from_torch([Digits(), Digits()], test_share=0.3)
    assert data.train.samples["x"].shape[1:] == (1, 4, 4)
    assert data.train.samples["x"].max() <= 1
    module = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten(), torch.nn.Linear(8, 3))
    problem = TorchProblem(module, data)
    assert np.isfinite(problem.F(problem.init))


def test_hugging_face_data_sets_become_federations() -> None:
    datasets = pytest.importorskip("datasets", reason="needs Hugging Face's datasets: pip install datasets")
    features = datasets.Features(
        {
            "image": datasets.Array2D((2, 2), "uint8"),
            "label": datasets.ClassLabel(names=["cat", "dog"]),
            "writer": datasets.Value("string"),
        }
    )
    rows = {
        "image": [np.full((2, 2), 50 * i, np.uint8) for i in range(5)],
        "label": [0, 1, 1, 0, 1],
        "writer": ["bob", "ann", "bob", "ann", "bob"],
    }
    whole = datasets.Dataset.from_dict(rows, features=features)
    for given in (whole, whole.with_format("numpy")):
        data = FederatedData.from_huggingface(given, "image", "label", client="writer")
        assert (data.clients, data.classes) == (("ann", "bob"), ("cat", "dog"))
        assert data.train.sizes.tolist() == [2, 3]
        assert sorted(data.train.client(0)["y"].tolist()) == [0, 1]
        assert data.train.samples["x"].max() == np.float32(200 / 255)
    parts = [whole.filter(lambda row, w=w: row["writer"] == w) for w in ("ann", "bob")]
    same = FederatedData.from_huggingface(parts, "image", "label")
    for name in ("x", "y"):
        assert same.train.samples[name].tolist() == data.train.samples[name].tolist()
    with pytest.raises(ValueError, match="needs client, the column of owners, for a DatasetDict"):
        FederatedData.from_huggingface(datasets.DatasetDict(train=whole, test=whole), "image", "label")


def test_weights_that_no_loss_uses_are_named() -> None:
    from feddr.torch import TorchProblem, cross_entropy

    rows: dict[str, Any] = {"x": np.ones((2, 1), np.float32), "y": [0, 1], "sample_weight": [1.0, 2.0]}
    data = FederatedData.from_clients([rows])
    with pytest.warns(UserWarning, match="The array sample_weight is not used by the loss"):
        TorchProblem(torch.nn.Linear(1, 2), data)
    TorchProblem(torch.nn.Linear(1, 2), data, lambda out, batch: batch["sample_weight"] * cross_entropy(out, batch))
