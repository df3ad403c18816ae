"""``tf.compat.v1.ConfigProto``, for programs that set options of TensorFlow's runtime."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class GPUOptions:
    """Accepted without effect: environment variables of XLA say how memory is taken.

    Source: tensorflow/core/protobuf/config.proto, ``GPUOptions``.
    """

    allow_growth: bool = False
    per_process_gpu_memory_fraction: float = 0.0
    visible_device_list: str = ""


@dataclass(slots=True)
class ConfigProto:
    """Accepted without effect: JAX has no sessions, and ``muster run`` gives each task its cores.

    Source: tensorflow/core/protobuf/config.proto, ``ConfigProto``.
    """

    device_count: dict[str, int] = field(default_factory=dict)
    device_filters: list[str] = field(default_factory=list)
    allow_soft_placement: bool = False
    log_device_placement: bool = False
    inter_op_parallelism_threads: int = 0
    intra_op_parallelism_threads: int = 0
    operation_timeout_in_ms: int = 0
    isolate_session_state: bool = False
    gpu_options: GPUOptions = field(default_factory=GPUOptions)
