"""Whether JAX's runtime is started over several workers: only for devices that need XLA's collectives."""

import itertools
from types import SimpleNamespace

import jax
import pytest

from linked import together
from muster._errors import MismatchError
from muster.distribute.workers import _jax_runtime
from muster.distribute.workers._jax_runtime import check_runtimes, connect_runtimes


@pytest.fixture
def machine(monkeypatch):
    """Of one CPU device; called, it gets what else is given."""

    def of(plugins=(), devices=(), flags="", platforms=None, cpu_devices=-1):
        monkeypatch.setattr(_jax_runtime, "entry_points", lambda group: [*map(named, plugins)])
        monkeypatch.setattr(_jax_runtime.pkgutil, "iter_modules", lambda places: [])
        monkeypatch.setattr(_jax_runtime.importlib.util, "find_spec", lambda name: None)
        monkeypatch.setattr(_jax_runtime, "_NVIDIA", devices)
        monkeypatch.setenv("XLA_FLAGS", flags)
        config = SimpleNamespace(jax_platforms=platforms, jax_num_cpu_devices=cpu_devices)
        monkeypatch.setattr(_jax_runtime.jax, "config", config)

    def named(plugin):
        return SimpleNamespace(value=plugin)

    return of


def divided(count):
    return f"--xla_a=1 --xla_force_host_platform_device_count={count}"


CUDA = "jax_cuda12_plugin"


@pytest.mark.parametrize(
    ("found", "needs"),
    [
        ({}, False),
        ({"flags": divided(1)}, False),
        ({"flags": divided(2)}, True),
        ({"flags": divided(2), "cpu_devices": 1}, False),
        ({"cpu_devices": 2}, True),
        ({"platforms": "cpu"}, False),
        ({"platforms": "cpu", "cpu_devices": 2}, True),
        ({"platforms": "cuda,cpu"}, True),
        ({"plugins": [CUDA]}, False),
        ({"plugins": [CUDA], "devices": ["/dev/null"]}, True),
        ({"plugins": [CUDA], "devices": ["/dev/null"], "platforms": "cpu"}, False),
        ({"plugins": ["jax_metal"]}, True),
    ],
)
def test_what_jax_would_find_is_known_without_asking_it(machine, found, needs):
    machine(**found)
    assert _jax_runtime._may_need_xla() is needs


def test_nothing_is_started_for_workers_with_a_cpu_device(machine):
    machine()
    together(2, lambda link: connect_runtimes(link, "localhost:1"))
    assert not jax.distributed.is_initialized()


def test_all_programs_or_none_start_it(monkeypatch):
    answers = itertools.cycle([True, False])
    monkeypatch.setattr(jax.distributed, "is_initialized", lambda: next(answers))
    for error in together(2, lambda link: connect_runtimes(link, "localhost:1")):
        assert isinstance(error, MismatchError)
        assert "The calls of jax.distributed.initialize of worker 0 and worker 1 differ" in str(error)


def test_devices_that_were_not_expected_are_an_error():
    second = SimpleNamespace(rank=1, size=2, names=("worker 0", "worker 1"))
    with pytest.raises(RuntimeError, match="JAX has found 8 devices here, the first of which is cpu:0"):
        check_runtimes(second)


def test_a_program_must_number_its_processes_as_the_cluster_does(monkeypatch):
    monkeypatch.setattr(jax.distributed, "is_initialized", lambda: True)
    second = SimpleNamespace(rank=1, size=2, names=("worker 0", "worker 1"))
    with pytest.raises(ValueError, match="as process 0 of 1, in worker 1. Give it process_id=1 and num_pro"):
        check_runtimes(second)
