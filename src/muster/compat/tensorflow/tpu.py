"""``tf.tpu``: what programs call before they build a TPUStrategy."""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any

from muster.compat.ops._missing import Names as _Names
from muster.compat.ops._missing import missing as _missing


def _initialize_tpu_system(cluster_resolver: Any = None) -> None:
    """Nothing: JAX sets the TPUs of a host up when it looks for devices."""


def _shutdown_tpu_system(cluster_resolver: Any = None) -> None:
    """Nothing: they are given back when the process ends."""


experimental = _Names(
    "tf.tpu.experimental",
    initialize_tpu_system=_initialize_tpu_system,
    shutdown_tpu_system=_shutdown_tpu_system,
)

if not _TYPE_CHECKING:  # so that type checkers know what is not there, too

    def __getattr__(name: str) -> None:
        raise _missing("tf.tpu", name)
