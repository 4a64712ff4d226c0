"""The compilation cache: compiled code is kept on disk, so that only the first run of a kind waits for the compiler."""

import os
from pathlib import Path
from typing import Any

SWITCH = "FEDDR_COMPILATION_CACHE"


def folder() -> Path | None:
    """Return where compiled code is kept: $FEDDR_COMPILATION_CACHE, else the user's cache folder; None for "off"."""
    chosen = os.environ.get(SWITCH)
    if chosen is not None:
        return None if chosen in ("", "0", "off") else Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "feddr" / "compiled"


def enable() -> None:
    """Turn on JAX's compilation cache, unless the user has set its folder, switched it off, or cannot write there."""
    import jax

    config: Any = jax.config
    cache = folder()
    if cache is None or config.jax_compilation_cache_dir:
        return
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError:
        return  # a run without the cache is slower to start, and nothing else
    config.update("jax_compilation_cache_dir", str(cache))
    config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
