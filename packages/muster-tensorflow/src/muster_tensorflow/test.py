"""``tf.test``: device queries, and unit tests that compare arrays."""

from typing import Any

from muster_tensorflow.names._names import missing as _missing
from muster_tensorflow.programs.v2.config import gpu_device_name as gpu_device_name
from muster_tensorflow.programs.v2.config import is_built_with_cuda as is_built_with_cuda
from muster_tensorflow.programs.v2.config import is_built_with_cuda as is_built_with_gpu_support
from muster_tensorflow.programs.v2.config import is_gpu_available as is_gpu_available


def __getattr__(name: str) -> Any:
    if name not in ("TestCase", "main"):
        raise _missing("tf.test", name)
    from muster_tensorflow.programs.v2 import _test_case

    return getattr(_test_case, name)
