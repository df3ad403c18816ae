"""TensorFlow 2's ParameterServerStrategy: its arguments, and variables as the coordinator sees them."""

import json

import numpy as np
import pytest
from memory_store import resolver, with_memory

import recorded
from muster import GradientTape, function
from muster._errors import ClusterError
from muster._keras import keras
from muster.cluster import ClusterSpec, SimpleClusterResolver, TFConfigClusterResolver
from muster.distribute import (
    FixedShardsPartitioner,
    ParameterServerStrategy,
    ShardedVariable,
    get_strategy,
    in_cross_replica_context,
)
from muster.estimator import RunConfig
from muster.program.variables import together
from object_checkpoints import ObjectCheckpoint
from shard_cases import DEPARTURES, partitioner_of, values_of

# Keras' own:
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

X = np.linspace(-1, 1, 24, dtype="float32").reshape(8, 3)


def cluster(**jobs):
    tasks = {job: [f"{job}{i}:1" for i in range(count)] for job, count in jobs.items()}
    return SimpleClusterResolver(ClusterSpec(tasks))


def test_a_closure_has_one_replica():
    found = resolver(servers=2, workers=3)
    strategy = ParameterServerStrategy(found, max_staleness=4)
    assert strategy.cluster_resolver is found
    assert strategy.num_replicas_in_sync == 1
    assert strategy.max_staleness == 4


def test_it_reads_tf_config(monkeypatch):
    tasks = {"chief": ["c:1"], "worker": ["w:1"], "ps": ["p:1"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": tasks, "task": {"type": "chief", "index": 0}}))
    strategy = ParameterServerStrategy(TFConfigClusterResolver())
    assert set(strategy.cluster.jobs) == {"chief", "ps", "worker"}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (cluster(worker=1), "There must be at least one ps."),
        (cluster(ps=1), "There must be at least one worker."),
        (cluster(ps=1, worker=1, chief=2), "There must be at most one 'chief' job."),
        (cluster(), "Cluster spec must be non-empty"),
        (cluster(ps=1, workers=1), "Disallowed task type found in cluster spec"),
    ],
)
def test_wrong_clusters_are_refused(wrong, says):
    with pytest.raises(ClusterError, match=says):
        ParameterServerStrategy(wrong)


@pytest.mark.parametrize("kind", ["ps", "worker"])
def test_servers_and_workers_are_no_coordinators(kind):
    spec = ClusterSpec({"ps": ["p:1"], "worker": ["w:1"]})
    with pytest.raises(ClusterError, match=rf"This is {kind} 0 of the cluster.*Run Server\(\.\.\.\)\.join"):
        ParameterServerStrategy(SimpleClusterResolver(spec, task_type=kind, task_id=0))


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"cluster_resolver": "here"}, TypeError, "cluster_resolver must be a ClusterResolver"),
        ({"variable_partitioner": 2}, TypeError, "variable_partitioner must be a function"),
        ({"variable_partitioner": FixedShardsPartitioner}, TypeError, r"such as FixedShardsPartitioner\(2\)"),
        ({"max_staleness": "2"}, TypeError, "max_staleness must be an integer or None"),
        ({"max_staleness": -1}, ValueError, "max_staleness should be >= 0, given: -1"),
    ],
)
def test_wrong_settings_are_refused(options, error, says):
    with pytest.raises(error, match=says):
        ParameterServerStrategy(**{"cluster_resolver": resolver(), **options})


def test_estimators_take_that_of_tensorflow_1():
    strategy = ParameterServerStrategy(resolver())
    for name in ("train_distribute", "eval_distribute"):
        with pytest.raises(ValueError, match=f"{name} must not be ParameterServerStrategy"):
            RunConfig(**{name: strategy})


@pytest.mark.parametrize(
    "case", recorded.cases("partitioners", lambda case: case["name"].startswith("ps_div/"), DEPARTURES)
)
def test_variables_are_divided_as_in_tensorflow(case):
    asked, expect = case["input"], case["expect"]
    strategy, store = with_memory(asked["num_ps"], partitioner_of(asked))
    values = values_of(asked)
    if values is None:
        with strategy.scope():
            kept = [keras.Variable(1.0) for _ in range(5)]
        assert list(store.servers.values()) == expect["ps_task"]
        assert len(kept) == 5
        return
    with strategy.scope():
        if "error" in expect:
            with pytest.raises(ValueError) as raised:  # noqa: PT011  # compared below
                keras.Variable(values.astype("float32"), name="v")
            recorded.check_error(expect["error"], raised.value)
            return
        variable = keras.Variable(values.astype("float32"), name="v")
    placed = strategy.storage.rows_of(variable)
    found = {
        "sharded": len(placed) > 1,
        "values": [store.values[each.array.key].tolist() for each in placed],
        "ps_task": [each.array.server for each in placed],
    }
    if found["sharded"]:
        found["sizes"] = [each.array.shape[0] for each in placed]
        found["offsets"] = [each.start for each in placed]
    # How often TensorFlow calls an initializer, and how it calls shards, is not a matter of where rows are.
    others = ("init_calls", "name", "names")
    recorded.check_same(found, {key: value for key, value in expect.items() if key not in others})


def test_a_divided_variable_is_used_as_a_whole():
    strategy, store = with_memory(2, FixedShardsPartitioner(2))
    with strategy.scope():
        variable = keras.Variable([1.0, 2.0, 3.0, 4.0, 5.0], name="v")
    assert len(strategy.storage.rows_of(variable)) == 2
    store.asked.clear()

    @function
    def add():
        variable.assign_add(keras.ops.ones(5))
        return keras.ops.take(variable, np.array([4, 0, 2]), axis=0)

    assert add().tolist() == [6, 2, 4]
    assert store.asked == ["read", "assign"]
    assert keras.ops.convert_to_tensor(variable).tolist() == [2, 3, 4, 5, 6]
    variable.assign([0.0, 0, 0, 0, 1])
    assert store.asked == ["read", "assign", "read", "assign"]
    variable.assign_sub(keras.ops.zeros(5))
    variable.assign_add(np.arange(5))
    assert store.asked[4:] == ["add", "add"]
    assert np.asarray(variable).tolist() == [0, 1, 2, 3, 5]


def test_what_is_added_is_not_read():
    strategy, store = with_memory()
    with strategy.scope():
        table = keras.Variable([1.0, 2.0], name="table")
        count = keras.Variable(1, dtype="int32", name="count")
        metric = keras.metrics.Mean()
    store.asked.clear()
    count.assign_add(2)
    table.assign_sub([1.0, 1.0])
    assert store.asked == ["add", "add"]
    assert (int(count), table.numpy().tolist()) == (3, [0, 1])
    store.asked.clear()
    metric.update_state([2.0, 4.0])
    assert store.asked == ["add", "add"]
    assert float(metric.result()) == 3


def test_what_is_written_and_added_together_is_in_order():
    strategy, store = with_memory()
    with strategy.scope():
        one, other = keras.Variable([1.0, 2.0]), keras.Variable(1.0)
    store.asked.clear()
    with together([one, other]):
        one.assign_add([1.0, 1.0])
        other.assign(5.0)
        assert store.asked == []
        assert one.numpy().tolist() == [2, 3]
        one.assign([0.0, 0.0])
        one.assign_add([1.0, 2.0])
        one.assign_add([1.0, 2.0])
        other.assign_add(1.0)
        other.assign(7.0)
    assert (one.numpy().tolist(), float(other)) == ([2, 4], 7)


def test_a_sharded_variable_in_a_layer_is_tracked_by_shards():
    strategy, _ = with_memory(2, FixedShardsPartitioner(2))

    class Table(keras.Layer):
        def __init__(self):
            super().__init__()
            shards = [keras.Variable(np.ones((2, 2)), name=f"part_{number}") for number in range(2)]
            self.rows = ShardedVariable(shards, name="rows")

        def call(self, ids):
            return self.rows.sparse_read(ids)

    with strategy.scope():
        layer = Table()
    assert [each.path for each in layer.trainable_variables] == ["part_0", "part_1"]
    assert layer(np.array([0, 3])).tolist() == [[1, 1], [1, 1]]


def test_run_and_reduce_work_on_the_coordinator():
    strategy, _ = with_memory()
    with strategy.scope():
        variable = keras.Variable(2.0)
    assert strategy.run(lambda: 1.0) == 1.0
    assert float(strategy.run(lambda x: x * variable, args=(3.0,))) == 6
    assert float(strategy.reduce("SUM", 3.0, axis=None)) == 3
    assert strategy.gather(np.array([1, 2]), axis=0).tolist() == [1, 2]
    with strategy.scope():
        assert get_strategy() is strategy
        assert in_cross_replica_context()


def trained(strategy, steps=5):
    """Return what a loop without workers gives: losses, the model's weights, slots, and a metric."""
    keras.utils.set_random_seed(3)
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.Input((3,)),
                keras.layers.Dense(8, activation="relu"),
                keras.layers.BatchNormalization(),
                keras.layers.Dropout(0.3),
                keras.layers.Dense(1),
            ]
        )
        optimizer, metric = keras.optimizers.Adam(0.01), keras.metrics.Mean()

    @function
    def step(x):
        with GradientTape() as tape:
            loss = keras.ops.mean((model(x, training=True) - keras.ops.sum(x, 1, keepdims=True)) ** 2)
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        metric.update_state(loss)
        return loss

    with strategy.scope():
        losses = [float(step(X)) for _ in range(steps)]
    return losses, model, optimizer, metric


@pytest.mark.samples("split")
@pytest.mark.parametrize("partitioner", [None, FixedShardsPartitioner(3)], ids=["whole", "split"])
def test_a_loop_on_the_coordinator_gives_what_one_process_gives(partitioner):
    strategy, store = with_memory(2, partitioner)
    losses, model, optimizer, metric = trained(strategy)
    same = trained(get_strategy())
    np.testing.assert_allclose(losses, same[0], rtol=1e-5)
    for found, expected in ((model, same[1]), (optimizer, same[2]), (metric, same[3])):
        for one, other in zip(found.variables, expected.variables, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-6, err_msg=one.path)
    assert losses[-1] < losses[0]
    weights = [each for each in model.variables if "seed" not in each.path]
    assert len(weights) == 8
    assert all(strategy.storage.rows_of(each) for each in (*weights, *optimizer.variables))


def test_models_are_read_and_set_in_few_messages(tmp_path):
    strategy, store = with_memory(2, FixedShardsPartitioner(2))
    _, model, optimizer, _ = trained(strategy, steps=1)
    weights = {}

    def asked(call):
        store.asked.clear()
        weights["found"] = call()
        return store.asked.copy()

    assert asked(model.get_weights) == ["read"]
    before = weights["found"]
    assert asked(lambda: model.save_weights(tmp_path / "m.weights.h5")) == ["read"]
    assert asked(lambda: model.set_weights([each * 0 for each in before])) == ["assign"]
    assert not any(np.any(each) for each in model.get_weights()[:2])
    assert asked(lambda: model.load_weights(tmp_path / "m.weights.h5")) == ["assign"]
    for one, other in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(one, other)
    assert set(asked(lambda: model.save(tmp_path / "m.keras"))) == {"read"}
    assert len(store.asked) < 4
    loaded = keras.models.load_model(tmp_path / "m.keras")  # by a program without servers
    np.testing.assert_allclose(loaded(X), model(X), rtol=1e-6)


def test_checkpoints_are_saved_and_restored_in_few_messages(tmp_path):
    strategy, store = with_memory(2, FixedShardsPartitioner(2))
    _, model, optimizer, metric = trained(strategy, steps=2)
    with strategy.scope():
        table = keras.Variable(np.arange(6.0, dtype="float32"), name="table")
    checkpoint = ObjectCheckpoint(model=model, optimizer=optimizer, metric=metric, table=table)
    store.asked.clear()
    path = checkpoint.save(tmp_path, max_to_keep=2)
    assert store.asked == ["read"]
    expected = [each.numpy() for each in (*model.variables, *optimizer.variables)]
    for each in (*model.variables, *optimizer.variables):
        each.assign(np.zeros(each.shape, each.dtype))
    table.assign(np.zeros(6))
    store.asked.clear()
    checkpoint.restore(path)
    assert store.asked == ["assign"]
    for each, value in zip((*model.variables, *optimizer.variables), expected, strict=True):
        np.testing.assert_array_equal(each.numpy(), value, err_msg=each.path)
    assert np.asarray(table).tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.slow
def test_a_checkpoint_of_one_process_is_restored_to_servers_and_back(tmp_path):
    _, model, optimizer, _ = trained(get_strategy())
    path = ObjectCheckpoint(model=model, optimizer=optimizer).save(tmp_path / "one")
    strategy, _ = with_memory(3, FixedShardsPartitioner(2))
    _, served, others, _ = trained(strategy, steps=1)
    ObjectCheckpoint(model=served, optimizer=others).restore(path)
    again = ObjectCheckpoint(model=served, optimizer=others).save(tmp_path / "two")
    _, back, slots, _ = trained(get_strategy(), steps=1)
    ObjectCheckpoint(model=back, optimizer=slots).restore(again)
    for here, there, then in zip(
        (*model.variables, *optimizer.variables),
        (*served.variables, *others.variables),
        (*back.variables, *slots.variables),
        strict=True,
    ):
        np.testing.assert_array_equal(here.numpy(), there.numpy(), err_msg=here.path)
        np.testing.assert_array_equal(here.numpy(), then.numpy(), err_msg=here.path)
