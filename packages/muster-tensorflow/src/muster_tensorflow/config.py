"""``tf.config``: JAX's devices by TensorFlow's names."""

from muster.config import functions_run_eagerly as functions_run_eagerly
from muster.config import run_functions_eagerly as run_functions_eagerly
from muster_tensorflow.names._names import Names as _Names
from muster_tensorflow.programs.v2 import config as _config
from muster_tensorflow.programs.v2.config import LogicalDevice as LogicalDevice
from muster_tensorflow.programs.v2.config import LogicalDeviceConfiguration as LogicalDeviceConfiguration
from muster_tensorflow.programs.v2.config import PhysicalDevice as PhysicalDevice
from muster_tensorflow.programs.v2.config import (
    experimental_connect_to_cluster as experimental_connect_to_cluster,
)
from muster_tensorflow.programs.v2.config import get_visible_devices as get_visible_devices
from muster_tensorflow.programs.v2.config import list_logical_devices as list_logical_devices
from muster_tensorflow.programs.v2.config import list_physical_devices as list_physical_devices
from muster_tensorflow.programs.v2.config import (
    set_logical_device_configuration as set_logical_device_configuration,
)
from muster_tensorflow.programs.v2.config import set_soft_device_placement as set_soft_device_placement
from muster_tensorflow.programs.v2.config import set_visible_devices as set_visible_devices
from muster_tensorflow.programs.v2.devices import _device_memory
from muster_tensorflow.programs.v2.devices._device_memory import (
    get_soft_device_placement as get_soft_device_placement,
)

experimental_functions_run_eagerly = functions_run_eagerly
experimental_run_functions_eagerly = run_functions_eagerly
experimental = _Names(
    "tf.config.experimental",
    VirtualDeviceConfiguration=LogicalDeviceConfiguration,
    get_visible_devices=get_visible_devices,
    list_logical_devices=list_logical_devices,
    list_physical_devices=list_physical_devices,
    enable_op_determinism=_config.enable_op_determinism,
    enable_tensor_float_32_execution=_device_memory.enable_tensor_float_32_execution,
    get_device_details=_device_memory.get_device_details,
    get_memory_info=_device_memory.get_memory_info,
    get_memory_usage=_device_memory.get_memory_usage,
    tensor_float_32_execution_enabled=_device_memory.tensor_float_32_execution_enabled,
    get_memory_growth=_config.get_memory_growth,
    set_memory_growth=_config.set_memory_growth,
    set_virtual_device_configuration=set_logical_device_configuration,
    set_visible_devices=set_visible_devices,
)
optimizer = _Names(
    "tf.config.optimizer",
    get_experimental_options=_config.get_experimental_options,
    set_experimental_options=_config.set_experimental_options,
    set_jit=_config.set_jit,
)
threading = _Names(
    "tf.config.threading",
    get_inter_op_parallelism_threads=_device_memory.get_threads,
    get_intra_op_parallelism_threads=_device_memory.get_threads,
    set_inter_op_parallelism_threads=_config.set_threads,
    set_intra_op_parallelism_threads=_config.set_threads,
)
