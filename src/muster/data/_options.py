"""Options that travel with a dataset."""

import enum
from dataclasses import dataclass, field


class AutoShardPolicy(enum.IntEnum):
    """How a dataset is divided among workers.

    Source: tensorflow/python/data/ops/options.py, ``AutoShardPolicy``.
    """

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


@dataclass
class DistributeOptions:
    """What a strategy does with a dataset."""

    auto_shard_policy: AutoShardPolicy = AutoShardPolicy.AUTO


@dataclass
class Options:
    """Options of a dataset; set its attributes and hand it to `Dataset.with_options`.

    Source: tensorflow/python/data/ops/options.py, ``Options``. Order is always deterministic here.
    """

    experimental_distribute: DistributeOptions = field(default_factory=DistributeOptions)
