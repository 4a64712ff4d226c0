"""One virtual environment for each peer, with pinned versions, made once under ``benchmarks/.envs``."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks" / ".envs"

# FedJAX has not been released since 2023 and needs a jax and a haiku of its time. The simulation engine of Flower and
# pfl-research pull in what else they need.
PINS: dict[str, tuple[str, ...]] = {
    "fedjax": (
        "fedjax==0.0.17",
        "jax==0.4.30",
        "jaxlib==0.4.30",
        "dm-haiku==0.0.13",
        "numpy==1.26.4",
        "tensorflow-cpu==2.21.0",
    ),
    "pfl": ("pfl==0.6.0", "torch==2.13.0", "numpy==2.4.6"),
    "flower": ("flwr[simulation]==1.41.0", "ray==2.55.1", "torch==2.13.0", "numpy==2.4.6"),
    "torch": ("torch==2.13.0", "numpy==2.4.6"),
    "torchax": ("--constraint", str(ROOT / "constraints.txt"), "--editable", f"{ROOT}[ray,torch]"),
}


def bin_folder(name: str) -> Path:
    """Return the folder of an environment's programs; make the environment if it is not there or has other pins."""
    if name == "feddr":
        return Path(sys.executable).parent
    place, pins = FOLDER / name, "\n".join(PINS[name])
    ready = place / "ready"
    if not ready.exists() or ready.read_text() != pins:
        print(f"Setting up {place.relative_to(FOLDER.parents[1])} (once, some minutes) ...", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True)
        pip = [str(place / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, *PINS[name]], check=True)
        ready.write_text(pins)
    return place / "bin"
