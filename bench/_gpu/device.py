"""Say which device JAX computes on, and fail unless it is the one that was asked for."""

import os
import subprocess

import jax
import jax.numpy as jnp
from bench._gpu._part import this_part

from bench import _results

QUERY = "name,driver_version,memory.total,memory.used,power.limit"
PACKAGES = ("jax", "jaxlib", "keras", "torch", "jax-cuda12-plugin", "jax-cuda13-plugin")


def card() -> str | None:
    """Return what NVIDIA's driver says of the cards, or None if its command is not here."""
    command = ["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or done.stderr.strip()


if __name__ == "__main__":
    part = this_part()
    part.note(versions={name: _results.version(name) for name in PACKAGES}, nvidia_smi=card())
    devices = jax.devices()
    part.note(devices=[f"{each.platform}:{each.id} {each.device_kind}" for each in devices])
    wanted = os.environ["JAX_PLATFORMS"].partition(",")[0]
    if devices[0].platform != {"cuda": "gpu"}.get(wanted, wanted):
        part.fail(f"JAX's first device is {devices[0]}, and {wanted} was asked for.")
    total = float(jax.jit(lambda x: jnp.sum(x @ x))(jnp.ones((64, 64), jnp.bfloat16)))
    if total != 64.0**3:
        part.fail(f"A product of matrices of ones adds up to {total}, and not to {64.0**3}.")
    part.end()
