"""Options of a dataset."""

import pytest

from muster.data import AutoShardPolicy, Dataset, Options


def test_options_travel() -> None:
    options = Options()
    options.experimental_distribute.auto_shard_policy = AutoShardPolicy.DATA
    dataset = Dataset.range(3).with_options(options).batch(2)
    options.experimental_distribute.auto_shard_policy = AutoShardPolicy.OFF
    assert dataset.options().experimental_distribute.auto_shard_policy is AutoShardPolicy.DATA
    assert Dataset.range(3).options().experimental_distribute.auto_shard_policy is AutoShardPolicy.AUTO


def test_options_that_do_not_exist_are_refused() -> None:
    options = Options()
    options.deterministic = False
    options.experimental_distribute.auto_shard_policy = AutoShardPolicy.OFF
    assert Dataset.range(1).with_options(options).options() == options
    with pytest.raises(AttributeError, match="Cannot set 'auto_shard_policy'.* has experimental_distribute"):
        options.auto_shard_policy = AutoShardPolicy.OFF  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="Cannot set 'auto_shard_polcy'"):
        options.experimental_distribute.auto_shard_polcy = AutoShardPolicy.OFF  # type: ignore[attr-defined]
    for wrong in (-1, "OFF"):
        with pytest.raises(TypeError, match=rf"auto_shard_policy is .*OFF, AUTO.* got {wrong!r}"):
            options.experimental_distribute.auto_shard_policy = wrong  # type: ignore[assignment]


def test_dispatch_is_dynamic_or_nothing() -> None:
    options = Options()
    assert options.experimental_distribute.dispatch is None
    options.experimental_distribute.dispatch = "dynamic"
    assert Dataset.range(1).with_options(options).map(abs).options() == options
    with pytest.raises(ValueError, match="dispatch is \"dynamic\".* or None, got 'Dynamic'"):
        options.experimental_distribute.dispatch = "Dynamic"


def test_options_of_speed_are_accepted() -> None:
    options = Options()
    options.experimental_threading.private_threadpool_size = 8
    options.threading.max_intra_op_parallelism = 1
    options.experimental_optimization.map_parallelization = True
    options.autotune.enabled = False
    assert list(Dataset.range(2).with_options(options)) == [0, 1]
    with pytest.raises(AttributeError, match="ThreadingOptions has max_intra_op_parallelism"):
        options.threading.threads = 2
