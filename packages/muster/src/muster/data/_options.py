"""Options that travel with a dataset."""

import enum
from dataclasses import dataclass, field, fields, make_dataclass
from typing import Any


class AutoShardPolicy(enum.IntEnum):
    """Policies for sharding a dataset among workers: by files, or by rows of batches.

    Attributes:
        OFF: Nothing: each worker takes its batches from the whole dataset.
        AUTO: As FILE if the dataset reads only files, at least one for each worker; else as DATA.
        FILE: Each worker reads its share of the files.
        DATA: Each worker reads the whole dataset, and takes its share of the rows of each batch.
        HINT: Refused when the dataset is distributed: use `Dataset.shard` and OFF.

    Source: tensorflow/python/data/ops/options.py, ``AutoShardPolicy``.
    """

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


class _Checked:
    """A dataclass that refuses attributes without a field."""

    def __setattr__(self, name: str, value: Any) -> None:
        known = [option.name for option in fields(self)]  # type: ignore[arg-type]
        if name not in known:
            raise AttributeError(
                f"Cannot set {name!r} to {value!r}: {type(self).__name__} has {', '.join(known)}. What "
                "TensorFlow has besides makes its pipelines faster, and means nothing here.",
                name=name,
            )
        super().__setattr__(name, value)


@dataclass
class DistributeOptions(_Checked):
    """Options for distributing a dataset by a strategy.

    Attributes:
        auto_shard_policy: How the dataset is divided among workers.
        dispatch: ``"dynamic"`` lets workers that train beside parameter servers share one pass: each batch is
            handed out to one of them. None lets each read all, or what its code chooses.

    Raises:
        TypeError: `auto_shard_policy` is not an `AutoShardPolicy`.
        ValueError: `dispatch` is neither ``"dynamic"`` nor None.
    """

    auto_shard_policy: AutoShardPolicy = AutoShardPolicy.AUTO
    dispatch: str | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "auto_shard_policy" and not isinstance(value, AutoShardPolicy):
            policies = ", ".join(policy.name for policy in AutoShardPolicy)
            raise TypeError(f"auto_shard_policy is an AutoShardPolicy ({policies}), got {value!r}.")
        if name == "dispatch" and value not in (None, "dynamic"):
            raise ValueError(
                'dispatch is "dynamic", for workers that share one pass over the data, or None, got '
                f"{value!r}."
            )
        super().__setattr__(name, value)


def _ignored(name: str, names: str, what: str) -> Any:
    """Return the class of options that are accepted and ignored."""
    made = make_dataclass(name, [(each, Any, None) for each in names.split()], bases=(_Checked,))
    made.__module__, made.__doc__ = __name__, f"Accepted and ignored: {what}"
    return made


# Source: tensorflow/python/data/ops/options.py, the classes of these names.
ThreadingOptions = _ignored(
    "ThreadingOptions",
    "max_intra_op_parallelism private_threadpool_size",
    "how many threads TensorFlow's pipelines have.",
)
AutotuneOptions = _ignored(
    "AutotuneOptions",
    "enabled cpu_budget ram_budget autotune_algorithm",
    "how TensorFlow's pipelines choose their own parallelism.",
)
OptimizationOptions = _ignored(
    "OptimizationOptions",
    "apply_default_optimizations autotune autotune_buffers autotune_cpu_budget autotune_ram_budget "
    "filter_fusion filter_parallelization inject_prefetch map_and_batch_fusion map_and_filter_fusion "
    "map_fusion map_parallelization noop_elimination parallel_batch shuffle_and_repeat_fusion",
    "which operations TensorFlow's pipelines rewrite.",
)


@dataclass
class Options(_Checked):
    """Options of a dataset; set its attributes and hand it to `Dataset.with_options`.

    Attributes:
        experimental_distribute: How a strategy distributes the dataset.
        deterministic: Accepted and ignored; the order is always deterministic.
        experimental_deterministic: Accepted and ignored.
        experimental_slack: Accepted and ignored, as all below: it makes TensorFlow's pipelines faster.
        threading: Ignored; likewise ``experimental_threading``, its older name.
        autotune: Ignored.
        experimental_optimization: Ignored.
        experimental_external_state_policy: Ignored.

    Source: tensorflow/python/data/ops/options.py, ``Options``.
    """

    experimental_distribute: DistributeOptions = field(default_factory=DistributeOptions)
    deterministic: bool | None = None
    experimental_deterministic: bool | None = None
    experimental_slack: bool | None = None
    threading: Any = field(default_factory=ThreadingOptions)
    experimental_threading: Any = field(default_factory=ThreadingOptions)
    autotune: Any = field(default_factory=AutotuneOptions)
    experimental_optimization: Any = field(default_factory=OptimizationOptions)
    experimental_external_state_policy: Any = None
