"""Configs: what they mean, and that writing one loses nothing."""

import copy
import datetime
import inspect
import tomllib
from collections.abc import Mapping
from typing import Any

import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

import feddr
from feddr import algorithms, config, datasets, delays, models, prox, sampling
from feddr.config import Component, ConfigError, components, toml
from feddr.experiments import FOLDER

SMALL: Mapping[str, Any] = {
    "name": "small",
    "rounds": 2,
    "data": {"name": "synthetic", "r": 1, "s": 1.0, "num_clients": 3},
    "model": {"name": "softmax", "num_features": 60, "num_classes": 10},
    "algorithm": {"name": "FedDR", "eta": 10, "alpha": 1.5},
    "local": {"name": "SGD", "lr": 0.01},
}
TWO = [{"name": "FedDR", "eta": 1.0}, {"name": "FedPD", "eta": 2.0}]


def changed(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(dict(SMALL)), **changes}


def test_a_config_builds_what_the_same_python_builds() -> None:
    problem, runs = config.build(config.parse(SMALL))
    data = datasets.synthetic(1, 1, num_clients=3, seed=0)
    expected = feddr.Problem.classification(models.softmax(60, 10), data)
    assert problem.F(problem.init) == expected.F(expected.init)
    assert runs == (("FedDR", feddr.FedDR(eta=10.0, alpha=1.5), feddr.local.SGD(lr=0.01), sampling.Full()),)


def test_defaults() -> None:
    parsed = config.parse(SMALL)
    assert (parsed.seed, parsed.init_seed, parsed.evaluate_every, parsed.personal) == (0, 0, 10, False)
    assert (parsed.precision, parsed.weights, parsed.g, parsed.sampling) == (
        "float32",
        "uniform",
        None,
        Component("Full"),
    )


def test_the_data_take_the_seed_of_the_experiment_unless_they_have_their_own() -> None:
    assert config.parse(changed(seed=7)).data.arguments["seed"] == 7
    assert config.parse(changed(seed=7, data={**SMALL["data"], "seed": 3})).data.arguments["seed"] == 3


def test_init_seed_draws_the_start_and_seed_does_not() -> None:
    mlp = {"name": "mlp", "sizes": [60, 4, 10]}

    def start(**seeds: int) -> Any:
        problem, _ = config.build(config.parse(changed(model=mlp, **seeds)))
        return problem.init["layer0"]["weight"]

    assert (start(seed=1) == start(seed=2)).all()
    assert (start(init_seed=1) != start(init_seed=2)).any()


def test_an_algorithm_may_have_its_own_local_solver_and_sampling() -> None:
    own = {**TWO[1], "local": {"name": "SGD", "lr": 0.5}, "sampling": {"name": "Full"}}
    raw = changed(algorithm=[TWO[0], own], sampling={"name": "Uniform", "m": 2})
    _, (first, second) = config.build(config.parse(raw))
    assert (first.local, first.sampling) == (feddr.local.SGD(lr=0.01), sampling.Uniform(2))
    assert (second.local, second.sampling) == (feddr.local.SGD(lr=0.5), sampling.Full())


def test_regularisers_with_a_mask_and_within_each_other() -> None:
    parts_of = {"weight": {"name": "L1", "strength": 1}, "bias": {"name": "SquaredL2", "strength": 2}}
    built = {
        "masked": {"name": "L1", "strength": 1e-4, "leave": ["bias"]},
        "scaled": {"name": "Scaled", "factor": 2, "g": {"name": "L2", "strength": 1, "leave": ["bias"]}},
        "parts": {"name": "Parts", "parts": parts_of},
        "tree": {"name": "L1", "strength": {"weight": 1, "bias": 0}},
    }
    g = {key: config.build(config.parse(changed(g=table)))[0].g for key, table in built.items()}
    assert g["masked"] == prox.L1(1e-4, mask=prox.leave("bias"))
    assert g["scaled"] == prox.Scaled(prox.L2(1.0, mask=prox.leave("bias")), 2.0)
    assert g["parts"] == prox.Parts({"weight": prox.L1(1.0), "bias": prox.SquaredL2(2.0)})
    assert g["tree"] == prox.L1({"weight": 1.0, "bias": 0.0})


def test_optimisers_of_optax() -> None:
    for name in components.OPTIMISERS:
        table = {"name": "Optax", "optimiser": name, "lr": 1e-3, "epochs": 2, "batch_size": "none"}
        _, (run,) = config.build(config.parse(changed(local=table)))
        assert isinstance(run.local, feddr.local.Optax)
        assert isinstance(run.local.optimiser, optax.GradientTransformation)
        assert (run.local.epochs, run.local.batch_size) == (2, None)


def test_optimisers_of_optax_on_the_server() -> None:
    for name in components.OPTIMISERS:
        table = {"name": "FedOpt", "optimiser": name, "lr": 1e-3}
        _, (run,) = config.build(config.parse(changed(algorithm=table)))
        assert isinstance(run.algorithm, feddr.FedOpt)
        assert isinstance(run.algorithm.optimiser, optax.GradientTransformation)
        assert run.algorithm.name == f"{name}(0.001)"


LABELS = [
    ([{"name": "FedAvg"}, {"name": "FedDR", "eta": 1}], ["FedAvg", "FedDR"]),
    ([{"name": "FedDR", "eta": 1}, {"name": "FedDR", "eta": 2}], ["FedDR eta=1", "FedDR eta=2"]),
    ([{"name": "FedDR", "eta": 1}, {"name": "FedDR", "eta": 1, "alpha": 2}], ["FedDR", "FedDR alpha=2"]),
    ([{"name": "FedAvg"}, {"name": "FedAvg", "local": {"name": "SGD", "lr": 1}}], ["FedAvg", "FedAvg #2"]),
    ([{"name": "FedAvg"}, {"name": "FedAvg", "label": "FedAvg"}], ["FedAvg #2", "FedAvg"]),
]


@pytest.mark.parametrize(("tables", "labels"), LABELS)
def test_labels_are_unique_and_say_what_differs(tables: list[dict[str, Any]], labels: list[str]) -> None:
    assert [method.label for method in config.parse(changed(algorithm=tables)).algorithms] == labels


ROUND_TRIPS: list[dict[str, Any]] = [
    {},
    {"seed": 3, "weights": "samples", "precision": "float64", "personal": True, "evaluate_every": 1, "init_seed": 5},
    {"g": {"name": "Parts", "parts": {"layer0.weight": {"name": "L1", "strength": 1e-7, "leave": ["a b", '"\\']}}}},
    {"g": {"name": "Box", "lower": -float("inf"), "upper": {"weight": 1, "bias": 2}}},
    {"algorithm": [{"name": "FedDR", "eta": 1}, {"name": "FedDR", "eta": 2}, {"name": "FedAvg", "label": "mean"}]},
    {
        "algorithm": [
            {"name": "FedDyn", "eta": 1},
            {"name": "FedOpt", "optimiser": "adam", "lr": 0.1},
            {"name": "FedAdam"},
        ]
    },
    {"algorithm": {"name": "FedAvg", "sampling": {"name": "Independent", "p": [0.5, 1, 0.1]}}},
    {
        "local": {"name": "SGD", "lr": 1, "batch_size": "none"},
        "sampling": {"name": "Partitioned", "blocks": [[0, 2], [1]]},
    },
    {
        "algorithm": {"name": "AsyncFedDR", "eta": 1, "tau": 3},
        "engine": "clock",
        "updates": 30,
        "concurrency": 2,
        "evaluate_every_updates": 5,
        "delays": {"name": "Combined", "models": [{"name": "UniformSpeed", "low": 1, "high": 2}, {"name": "Network"}]},
    },
    {"engine": "clock", "deadline": 2.5, "delays": {"name": "Windows", "windows": [[[0, 1], [2, float("inf")]], []]}},
]


@pytest.mark.parametrize("changes", ROUND_TRIPS)
def test_writing_a_config_loses_nothing(changes: dict[str, Any]) -> None:
    parsed = config.parse(changed(**changes))
    assert config.parse(tomllib.loads(config.dumps(parsed))) == parsed


values = st.recursive(
    st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False) | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
)


@given(values)
def test_every_value_is_read_back_as_it_was_written(value: Any) -> None:
    assert tomllib.loads(f"value = {toml.text(value)}")["value"] == value


def test_the_experiments_of_the_project_are_right() -> None:
    paths = sorted(FOLDER.glob("*.toml"))
    assert paths
    for path in paths:
        config.build(config.load(path))


def test_a_stopping_rule_is_a_part_of_its_own() -> None:
    rule = {"name": "Relative", "theta_hat": 1e-3}
    raw = changed(local={"name": "Accelerated", "stopping": rule}, algorithm={"name": "FedDR", "eta": "auto"})
    parsed = config.parse(raw)
    _, runs = config.build(parsed)
    assert runs[0].local == feddr.local.Accelerated(stopping=feddr.local.Relative(1e-3))
    assert runs[0].algorithm == feddr.FedDR(eta="auto")
    assert config.parse(tomllib.loads(config.dumps(parsed))) == parsed


def test_the_table_has_everything_that_the_package_offers() -> None:
    def offered(module: Any, wanted: Any) -> set[str]:
        return {name for name, value in vars(module).items() if not name.startswith("_") and wanted(value)}

    def concrete(value: Any, *methods: str) -> bool:
        return (
            inspect.isclass(value)
            and not inspect.isabstract(value)
            and not getattr(value, "_is_protocol", False)
            and all(hasattr(value, method) for method in methods)
        )

    names = {kind: set(found) for kind, (_, found) in components.TABLE.items()}
    assert names["delays"] == offered(delays, lambda value: concrete(value, "apply"))
    assert set(components.ASYNCHRONOUS) == offered(algorithms, lambda value: concrete(value, "aggregate", "factor"))
    assert names["g"] == offered(prox, lambda value: concrete(value, "prox", "value"))
    assert names["algorithm"] == offered(algorithms, lambda value: concrete(value, "aggregate"))
    assert names["sampling"] == offered(sampling, lambda value: concrete(value, "draw"))
    assert names["local"] == offered(feddr.local, lambda value: concrete(value, "num_steps"))
    assert names["stopping"] == offered(feddr.local, lambda value: concrete(value, "holds"))
    assert names["data"] == set(datasets.__all__)
    assert names["model"] == {name for name in models.__all__ if name != "Model" and not name.startswith("from_")}


EVERY_SETTING = [
    (kind, name, setting, parameter.annotation)
    for kind, (_, names) in components.TABLE.items()
    for name in names
    for setting, parameter in components.settings(kind, name).items()
]


@pytest.mark.parametrize(("kind", "name", "setting", "annotation"), EVERY_SETTING)
def test_no_setting_takes_a_value_of_a_wrong_type(kind: str, name: str, setting: str, annotation: Any) -> None:
    for wrong in (datetime.date(2021, 12, 6), [datetime.date(2021, 12, 6)]):
        with pytest.raises(ConfigError, match=rf"^{kind}\.{setting} must be .*2021-12-06"):
            components.argument(f"{kind}.{setting}", wrong, annotation)
    assert name in components.TABLE[kind][1]


def test_delays_are_built_for_a_clock_only() -> None:
    models = [{"name": "UniformSpeed", "low": 1, "high": 2}, {"name": "Dropout", "probability": 0.5, "pause": 3}]
    clocked = changed(engine="clock", delays={"name": "Combined", "models": models})
    built = config.build_clock(config.parse(clocked))
    assert built == feddr.Clock(delays.Combined([delays.UniformSpeed(1.0, 2.0), delays.Dropout(0.5, 3.0)]))
    assert config.build_clock(config.parse(changed(engine="clock"))) == feddr.Clock(delays.Fixed(1.0))
    assert config.build_clock(config.parse(SMALL)) is None


def test_an_asynchronous_experiment_needs_no_rounds() -> None:
    raw = changed(engine="clock", updates=10, algorithm={"name": "FedBuff"})
    del raw["rounds"]
    assert config.parse(raw).updates == 10
