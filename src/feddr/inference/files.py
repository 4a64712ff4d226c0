"""The files of a saved model, and ``load``, which needs nothing but them.

``model.safetensors`` has the parameters by name. ``model.json`` says what they are: structure, spec of a ready model,
rows that it takes, features, classes, preparation; and size and checksum of the other files. ``model.stablehlo`` has
the forward function of a model that is not ready-made. ``model.json`` is written last, so that files of two models that
are found together are noticed.
"""

import hashlib
import json
import warnings
from pathlib import Path
from typing import Any

import feddr
from feddr import tree
from feddr.inference import forward, structure
from feddr.inference.forward import Forward, Rows
from feddr.inference.predictor import Predictor
from feddr.models import Model
from feddr.preparation import Preparation
from feddr.problem import Problem
from feddr.storage import atomic, limits, tensors, untrusted
from feddr.storage.tensors import DamagedError
from feddr.tree import Tree

WEIGHTS, FORWARD, DESCRIPTION = "model.safetensors", "model.stablehlo", "model.json"
FORMAT = 1
"""Of model.json; a reader refuses a larger one."""


class ModelWarning(UserWarning):
    """A saved model lacks something that it could have.

    Examples
    --------
    >>> import warnings
    >>> warnings.simplefilter("error", ModelWarning)
    """


def save(folder: Path, problem: Any, params: Tree) -> None:
    """Write the model of a problem, with these parameters, into a folder that is there.

    A model whose forward function cannot be stored is saved without it, with a ``ModelWarning``.
    """
    write(folder, Predictor.of(problem, params), problem.model if isinstance(problem, Problem) else None)


def write(folder: Path, predictor: Predictor, model: Model | None, stored: bytes | None = None) -> bytes | None:
    """Write a model into a folder that is there, and return its forward function where that had to be stored.

    Parameters
    ----------
    model
        That of the predictor; None where the problem has none.
    stored
        What an earlier call has returned for this model, so that it need not be made again.
    """
    params = predictor.params
    files = {WEIGHTS: tensors.dumps(tree.named(params))}
    spec = model.spec if model is not None and model.spec is not None and model.spec["name"] in forward.READY else None
    missing = predictor.forward if isinstance(predictor.forward, str) else ""
    if not missing and spec is None:
        assert model is not None
        assert predictor.rows is not None
        try:
            files[FORWARD] = stored or forward.dumps(model.apply, params, predictor.rows)
        except ValueError as error:
            missing = str(error)
            warnings.warn(f"{folder} is saved without its forward function. {missing}", ModelWarning, stacklevel=4)
    description = {
        "format": FORMAT,
        "feddr": feddr.__version__,
        "task": predictor.task,
        "spec": None if spec is None else dict(spec),
        "missing": missing,
        "num_outputs": predictor.num_outputs,
        "is_linear": predictor.is_linear,
        "rows": None if predictor.rows is None else {"shape": predictor.rows.shape, "whole": predictor.rows.whole},
        "features": predictor.features,
        "classes": predictor.classes,
        "preparation": None if predictor.preparation is None else predictor.preparation.to_dict(),
        "parameters": list(tree.named(params)),
        "structure": structure.describe(params),
        "files": {name: {"bytes": len(data), "sha256": _digest(data)} for name, data in files.items()},
    }
    for name, data in files.items():
        atomic.replace(folder / name, data)
    if FORWARD not in files:
        (folder / FORWARD).unlink(missing_ok=True)
    atomic.replace(folder / DESCRIPTION, (json.dumps(description, indent=1, allow_nan=False) + "\n").encode())
    return files.get(FORWARD)


def load(folder: str | Path, method: str | None = None) -> Predictor:
    """Return the model that a run has saved, ready to predict; nothing but the folder is needed.

    Parameters
    ----------
    folder
        That of ``result.save``, of ``feddr run`` or of ``feddr compare``, or that of a deployment's server.
    method
        Which of the methods of ``feddr compare``, by its name there.

    Returns
    -------
    Predictor
        With ``predict``, ``predict_proba``, ``score``, ``coefficients`` and ``params``.

    Raises
    ------
    ValueError
        Where there is no model, or several and no method was named.
    DamagedError
        Where a file is not what was written. Checksums find damage, not malice: load models of those whom you trust.

    Examples
    --------
    >>> import numpy as np, feddr, tempfile
    >>> data = feddr.FederatedData.from_clients([{"x": np.eye(2), "y": [0, 1]}] * 2)
    >>> problem = feddr.Problem.classification(feddr.models.softmax(2, 2), data)
    >>> result = feddr.simulate(problem, feddr.FedAvg(), local=feddr.local.SGD(lr=0.1), rounds=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     predictor = feddr.load(result.save(folder))
    >>> predictor.predict(np.eye(2)).tolist()
    [0, 1]
    """
    model_folder = find(Path(folder), method)
    path = model_folder / DESCRIPTION
    try:
        description = untrusted.json(path)
        if description["format"] > FORMAT:
            raise ValueError(f"{path} has the format {description['format']} of a newer feddr; update feddr.")
        return _read(model_folder, description)
    except (KeyError, TypeError, AttributeError, RecursionError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DamagedError(f"{path} is not what feddr writes: {type(error).__name__}.") from None


def find(folder: Path, method: str | None = None) -> Path:
    """Return the folder of the one model in a folder, or of the named method; refuse where that is not clear.

    Examples
    --------
    >>> find(Path("nowhere"))
    Traceback (most recent call last):
    ValueError: nowhere is not a folder; give the folder of a run, such as runs/first.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder; give the folder of a run, such as runs/first.")
    if (folder / DESCRIPTION).is_file():
        if method is not None:
            raise ValueError(f"{folder} has one model, got method={method!r}; leave the method out.")
        return folder
    methods = {path.parent.name: path.parent for path in sorted(folder.glob(f"*/{DESCRIPTION}"))}
    if not methods:
        old = any((candidate / WEIGHTS).is_file() for candidate in (folder, *folder.iterdir()))
        remedy = "give the folder of a run that has ended"
        if old:
            remedy = "run it again if it is of feddr 0.2.0 or older, or give a deployment's Federation a description"
        raise ValueError(f"{folder} has no model with a {DESCRIPTION}; {remedy}.")
    if method is None and len(methods) > 1:
        raise ValueError(f"{folder} has several models, {', '.join(methods)}; name one of them as method.")
    if method is not None and method not in methods:
        raise ValueError(f"{folder} has no method {method!r}; it has {', '.join(methods)}.")
    return next(iter(methods.values())) if method is None else methods[method]


def _read(folder: Path, description: Any) -> Predictor:
    arrays = tensors.loads(_checked(folder, description, WEIGHTS), folder / WEIGHTS)
    names, raw = description["parameters"], description["preparation"]
    if sorted(names) != sorted(arrays):
        raise DamagedError(f"{folder / DESCRIPTION} has other parameters than {WEIGHTS}.")
    shape = description["rows"]
    rows = None if shape is None else Rows(tuple(shape["shape"]), bool(shape["whole"]))
    params = structure.rebuild(description["structure"], arrays)
    num_outputs, is_linear = int(description["num_outputs"]), bool(description["is_linear"])
    function: Forward | str = str(description["missing"])
    if not function:
        assert rows is not None
        if description["spec"] is not None:
            function = forward.from_spec(description["spec"]).apply
        else:
            data = _checked(folder, description, FORWARD)
            named = {name: arrays[name] for name in names}
            function = forward.loads(data, named, rows, num_outputs, folder / FORWARD)
    if description["task"] not in ("classification", "regression", None):
        raise KeyError("task")
    return Predictor(
        params,
        function,
        description["task"],
        rows,
        num_outputs,
        is_linear,
        tuple(map(str, description["features"])),
        tuple(description["classes"]),
        None if raw is None else Preparation.from_dict(raw),
    )


def _checked(folder: Path, description: Any, name: str) -> bytes:
    """Return the bytes of a file that has the size and the checksum that were written down."""
    size, digest = int(description["files"][name]["bytes"]), description["files"][name]["sha256"]
    path = folder / name
    if size * tensors.COPIES > limits.memory():
        raise DamagedError(f"{path} has {size:,} bytes, more than this machine could have written.")
    data = untrusted.read(path, size)
    if len(data) != size or _digest(data) != digest:
        raise DamagedError(f"{path} is not the one that {DESCRIPTION} was written with; save the model again.")
    return data


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
