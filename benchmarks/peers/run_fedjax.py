"""FedJAX's own federated averaging.

Its ``jit`` backend takes one compiled step at a time, one client after the other. The ``pmap`` backend (``--pmap``),
with as many host devices as threads, pads clients to the longest in a block.
"""

import os
import sys
from importlib.metadata import version
from typing import Any

import measure

work = measure.load(sys.argv[1])
pmap = "--pmap" in sys.argv
if pmap:
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={work.threads}"

import fedjax  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from fedjax.algorithms import fed_avg  # noqa: E402


def loss(params: Any, batch: Any) -> Any:
    """Mean cross-entropy of the network on a batch."""
    scores = batch["x"]
    for i, layer in enumerate(params):
        scores = scores @ layer["weight"] + layer["bias"]
        if i < len(params) - 1:
            scores = jax.nn.relu(scores)
    chosen = jnp.take_along_axis(scores, batch["y"][:, None], axis=-1)[:, 0]
    return jnp.mean(jax.nn.logsumexp(scores, axis=-1) - chosen)


def main() -> None:
    fedjax.set_for_each_client_backend("pmap" if pmap else "jit")
    algorithm = fed_avg.federated_averaging(
        lambda params, batch, _: jax.grad(loss)(params, batch),
        fedjax.optimizers.sgd(work.lr),
        fedjax.optimizers.sgd(1.0),
        fedjax.ShuffleRepeatBatchHParams(work.batch_size, num_epochs=work.epochs),
    )
    datasets = [fedjax.ClientDataset(dict(zip("xy", work.client(i), strict=True))) for i in range(work.num_clients)]
    state = algorithm.init([{"weight": jnp.asarray(weight), "bias": jnp.asarray(bias)} for weight, bias in work.init])
    clock, k, stop = measure.Clock(work), 0, False
    while not stop:
        cohort = work.cohort(k)
        keys = jax.random.split(jax.random.PRNGKey(k), len(cohort))
        state, _ = algorithm.apply(state, [(i, datasets[i], key) for i, key in zip(cohort, keys, strict=True)])
        for layer in state.params:
            layer["weight"].block_until_ready()
        k += 1
        stop = clock.tick(sum(map(work.steps, cohort)), len(cohort))
        if clock.loss is None:
            clock.loss = work.loss([(layer["weight"], layer["bias"]) for layer in state.params])
            clock.resume()
    setup = f"pmap backend, {work.threads} devices" if pmap else "jit backend"
    clock.report(setup, {"fedjax": version("fedjax"), "jax": jax.__version__})


main()
