"""Options that travel with a dataset."""

import enum
from dataclasses import dataclass, field, fields
from typing import Any


class AutoShardPolicy(enum.IntEnum):
    """What a strategy divides among its workers: the files of a dataset, or the rows of its batches.

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
    """How a strategy distributes a dataset.

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


@dataclass
class Options(_Checked):
    """Options of a dataset; set its attributes and hand it to `Dataset.with_options`.

    Attributes:
        experimental_distribute: How a strategy distributes the dataset.
        deterministic: Accepted and ignored; the order is always deterministic.
        experimental_deterministic: Accepted and ignored.
        experimental_slack: Accepted and ignored.

    Source: tensorflow/python/data/ops/options.py, ``Options``.
    """

    experimental_distribute: DistributeOptions = field(default_factory=DistributeOptions)
    deterministic: bool | None = None
    experimental_deterministic: bool | None = None
    experimental_slack: bool | None = None
