"""What the machine is, and how fast: the roofs under which every program runs."""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def describe() -> dict[str, Any]:
    """Return processor, cores, memory, software and load."""
    info = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in info if line.startswith("model name")), platform.machine())
    flags = next((line.split(":")[1].split() for line in info if line.startswith("flags")), [])
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": model,
        "vector": [name for name in ("avx2", "fma", "avx512f") if name in flags],
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load_at_start": os.getloadavg(),
    }


def roofs(threads: int) -> dict[str, float]:
    """Measure in a process of its own, which may use as many cores as threads."""
    done = subprocess.run([sys.executable, __file__, str(threads)], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError(f"The roofs could not be measured: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def best(work: Callable[[], Any], repetitions: int = 40) -> float:
    """Return the shortest time of a call: a limit is what the machine can do when nothing else runs."""
    work()
    times = []
    for _ in range(repetitions):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def _measure(threads: int) -> dict[str, float]:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    os.environ["OPENBLAS_NUM_THREADS"] = str(threads)
    import jax
    import numpy as np

    size = 2048
    a = np.random.default_rng(0).random((size, size), dtype=np.float32)
    on_device = jax.device_put(a)
    product = jax.jit(lambda u, v: u @ v)
    flops = 2 * size**3
    target, source = np.zeros(2**26, np.float32), np.ones(2**26, np.float32)
    parts = list(zip(np.array_split(target, threads), np.array_split(source, threads), strict=True))
    with ThreadPoolExecutor(threads) as pool:
        copy = best(lambda: list(pool.map(lambda pair: np.copyto(*pair), parts)))
    return {
        "numpy_gflops": flops / best(lambda: a @ a) / 1e9,
        "jax_gflops": flops / best(lambda: product(on_device, on_device).block_until_ready()) / 1e9,
        "copy_gb_per_s": 2 * target.nbytes / copy / 1e9,
    }


if __name__ == "__main__":
    print(json.dumps(_measure(int(sys.argv[1]))))
