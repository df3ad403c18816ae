"""``tf.tpu``: what programs call before they build a TPUStrategy."""

from types import SimpleNamespace
from typing import Any


def _initialize_tpu_system(cluster_resolver: Any = None) -> None:
    """Nothing: JAX sets the TPUs of a host up when it looks for devices."""


experimental = SimpleNamespace(initialize_tpu_system=_initialize_tpu_system)
