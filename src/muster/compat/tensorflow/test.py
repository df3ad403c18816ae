"""``tf.test``: which devices there are."""

from muster.compat.v2.config import gpu_device_name as gpu_device_name
from muster.compat.v2.config import is_built_with_cuda as is_built_with_cuda
from muster.compat.v2.config import is_gpu_available as is_gpu_available
