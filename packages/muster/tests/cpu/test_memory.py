"""Temporaries of a step stay with the process, unless the user has settings of their own."""

import concurrent.futures
import ctypes
import os
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.processes,
    pytest.mark.alone,
    pytest.mark.optimized,
    pytest.mark.skipif(
        not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="only glibc has these settings"
    ),
]

# XLA keeps 56 MiB between the products, more than malloc adapts to; or 225 MiB, more than a thread's heap
# has, if JAX has not started before. Prints the page faults of a step.
PROGRAM = """
import resource, statistics, sys
import jax, jax.numpy as jnp
import muster.cpu
from muster.distribute.engine._compiled import compiled

if "off" in sys.argv:
    muster.config.use_cpu_lowerings(False)

def function(x):
    return jnp.sum((x @ x.T) @ x)

rows = 3840
if "large" in sys.argv:
    muster.cpu.share_heap()
    rows *= 2
x = jnp.ones((rows, 4))
step = compiled(function, (x,), {}, ())
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    jax.block_until_ready(step(x))
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(statistics.median(faults() for _ in range(15)))  # a thread's first step has to get its memory
"""
TEMPORARY_PAGES = 3840 * 3840 * 4 / os.sysconf("SC_PAGE_SIZE")


def faults_per_step(*args: str, **settings: str) -> float:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    command = [sys.executable, "-c", PROGRAM, *args]
    env |= {"JAX_PLATFORMS": "cpu", **settings}
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    return float(ended.stdout)


# Arguments and environment of the program that measures.
OURS: tuple[tuple[str, ...], dict[str, str]] = ((), {})
LARGE: tuple[tuple[str, ...], dict[str, str]] = (("large",), {})
OF_THE_USER: list[tuple[tuple[str, ...], dict[str, str]]] = [
    (("off",), {}),
    ((), {"MALLOC_TRIM_THRESHOLD_": "1000000"}),
    ((), {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=1000000"}),
]


@pytest.fixture(scope="module")
def faults() -> list[float]:
    """Those of a step with our settings, with each of a user's, and of a large one; two at a time."""
    programs = [OURS, *OF_THE_USER, LARGE]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda given: faults_per_step(*given[0], **given[1]), programs))


@pytest.mark.slow
def test_pages_of_temporaries_are_used_again(faults):
    assert faults[0] < 0.1 * TEMPORARY_PAGES
    assert faults[-1] < 0.1 * TEMPORARY_PAGES


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, 1 + len(OF_THE_USER)), ids=lambda n: str(OF_THE_USER[n - 1]))
def test_settings_of_the_user_stay(faults, number):
    assert faults[number] > 0.9 * TEMPORARY_PAGES
