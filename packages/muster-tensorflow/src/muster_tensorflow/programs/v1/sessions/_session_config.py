"""``tf.compat.v1.ConfigProto``, for programs that set options of TensorFlow's runtime."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


@dataclass(slots=True)
class GPUOptions:
    """Accepted without effect: environment variables of XLA say how memory is taken.

    Source: tensorflow/core/protobuf/config.proto, ``GPUOptions``.
    """

    per_process_gpu_memory_fraction: float = 0.0
    allow_growth: bool = False
    allocator_type: str = ""
    deferred_deletion_bytes: int = 0
    visible_device_list: str = ""
    polling_active_delay_usecs: int = 0
    polling_inactive_delay_msecs: int = 0
    force_gpu_compatible: bool = False


@dataclass(slots=True)
class RunOptions:
    """Accepted without effect: XLA says what does not fit into memory, and ``ProfilerHook`` traces.

    Source: tensorflow/core/protobuf/config.proto, ``RunOptions``.
    """

    NO_TRACE = 0
    SOFTWARE_TRACE = 1
    HARDWARE_TRACE = 2
    FULL_TRACE = 3

    trace_level: int = NO_TRACE
    timeout_in_ms: int = 0
    inter_op_thread_pool: int = 0
    output_partition_graphs: bool = False
    report_tensor_allocations_upon_oom: bool = False


@dataclass(slots=True)
class OptimizerOptions:
    """Accepted without effect: XLA compiles every step.

    Source: tensorflow/core/protobuf/config.proto, ``OptimizerOptions``.
    """

    DEFAULT = 0
    OFF = -1
    ON_1 = 1
    ON_2 = 2
    L0 = -1
    L1 = 0

    do_common_subexpression_elimination: bool = False
    do_constant_folding: bool = False
    do_function_inlining: bool = False
    opt_level: int = 0
    global_jit_level: int = 0
    cpu_global_jit: bool = False


@dataclass(slots=True)
class GraphOptions:
    """Accepted without effect: there is no graph.

    Source: tensorflow/core/protobuf/config.proto, ``GraphOptions``.
    """

    optimizer_options: OptimizerOptions = field(default_factory=OptimizerOptions)
    rewrite_options: Any = field(default_factory=SimpleNamespace)
    build_cost_model: int = 0
    enable_recv_scheduling: bool = False
    infer_shapes: bool = False
    place_pruned_graph: bool = False


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
    share_cluster_devices_in_session: bool = False
    use_per_session_threads: bool = False
    placement_period: int = 0
    gpu_options: GPUOptions = field(default_factory=GPUOptions)
    graph_options: GraphOptions = field(default_factory=GraphOptions)
