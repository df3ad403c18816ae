"""An Estimator whose variables are on servers trains as one without."""

import jax
import numpy as np
import pytest
from estimator_runs import X, Y, model_fn_of

import muster
from muster._errors import NanLossDuringTrainingError
from muster._keras import keras
from muster.data import Dataset
from muster.distribute import Strategy
from muster.distribute.engine import _shards
from muster.distribute.engine._placement import Placement
from muster.distribute.engine._served import ServedEngine
from muster.distribute.strategies._programs import traced_program
from muster.estimator import Estimator, EstimatorSpec, ModeKeys, RunConfig
from muster.program.trace import Program
from noted_losses import Losses
from served_in_memory import MemoryServers, place
from sparse_steps import FACTORS
from sparse_steps import IDS as IDS_OF_STEPS
from sparse_steps import step as sparse_step

pytestmark = pytest.mark.usefixtures("compiled_once")


@pytest.mark.samples("Adam")
@pytest.mark.parametrize("kind", [keras.optimizers.Adam, keras.optimizers.SGD])
def test_an_estimator_trains_as_without_servers(tmp_path, kind):
    def trained(folder, strategy):
        hook = Losses()
        estimator = Estimator(
            model_fn_of(lambda: kind(0.01)), folder, RunConfig(tf_random_seed=1, train_distribute=strategy)
        )
        estimator.train(lambda: Dataset.from_tensor_slices((X, Y)).batch(64).repeat(), hooks=[hook], steps=20)
        return hook.losses, {
            name: estimator.get_variable_value(name) for name in estimator.get_variable_names()
        }

    servers = MemoryServers()
    losses, values = trained(tmp_path / "served", Strategy(Placement(None), ServedEngine(servers, place)))
    expected, of_one = trained(tmp_path / "one", None)
    np.testing.assert_allclose(losses, expected, atol=1e-5)
    assert values.keys() == of_one.keys()
    for name, value in of_one.items():
        np.testing.assert_allclose(values[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
    assert servers.pushes == 20


def test_a_step_whose_loss_is_no_number_is_not_pushed(tmp_path):
    features = X.copy()
    features[2 * 64] = np.nan  # in the third batch
    servers = MemoryServers()
    estimator = Estimator(
        model_fn_of(lambda: keras.optimizers.Adam(0.01)),
        tmp_path,
        RunConfig(tf_random_seed=1, train_distribute=Strategy(Placement(None), ServedEngine(servers, place))),
    )
    with pytest.raises(NanLossDuringTrainingError):
        estimator.train(lambda: Dataset.from_tensor_slices((features, Y)).batch(64), steps=20)
    assert servers.pushes == 2
    assert all(np.isfinite(buffer).all() for buffer in jax.tree.leaves(servers.read()))


IDS = np.random.default_rng(1).integers(0, 9000, 64 * 10)


def with_table(optimizer):
    """A model of a table of 1.1 MB, which is looked up twice, and of a dense layer."""

    def model_fn(features, labels, mode):
        table = keras.layers.Embedding(9000, 32, name="table")
        pooled = table(features) + keras.ops.flip(table(features // 2), axis=-1)
        logits = keras.layers.Dense(3)(pooled)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, logits)
        train_op = None
        if mode == ModeKeys.TRAIN:
            train_op = muster.minimize(optimizer(), loss, muster.get_or_create_global_step())
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


@pytest.mark.parametrize(
    ("kind", "by_rows"), [(keras.optimizers.Adagrad, True), (keras.optimizers.Adam, False)]
)
def test_rows_of_a_table_travel_where_the_optimizer_leaves_the_others(tmp_path, kind, by_rows, caplog):
    caplog.set_level("INFO")

    def trained(folder, strategy):
        estimator = Estimator(
            with_table(lambda: kind(0.1)),
            folder,
            RunConfig(tf_random_seed=1, train_distribute=strategy),
        )
        estimator.train(lambda: Dataset.from_tensor_slices((IDS, IDS % 3)).batch(60))  # the last one has 40
        names = estimator.get_variable_names()
        return {name: estimator.get_variable_value(name) for name in names}

    servers = MemoryServers()
    values = trained(tmp_path / "served", Strategy(Placement(None), ServedEngine(servers, place)))
    for name, expected in trained(tmp_path / "one", None).items():
        np.testing.assert_allclose(values[name], expected, rtol=1e-4, atol=1e-5, err_msg=name)
    says = "Rows of table/embeddings travel alone" if by_rows else "So all of its 1.2 MB travel"
    assert caplog.text.count(says) == 1
    assert bool(servers.looked_up) is by_rows
    assert sum(len(plan.tables) for plan in servers.plans) == (2 if by_rows else 0)


@pytest.mark.parametrize("is_known", [True, False])
def test_rows_of_the_next_batch_come_with_the_answer_to_a_push(is_known, monkeypatch):
    monkeypatch.setattr(_shards, "LEAST_ROWS_BYTES", 1)
    batches = [(ids, factors) for ids, factors in zip(IDS_OF_STEPS, FACTORS, strict=True)]
    program = Program(lambda batch: sparse_step(*batch), batches[0])
    servers = MemoryServers()
    engine = ServedEngine(servers, place)
    step = engine.compile(traced_program(program, Strategy(Placement(None), engine), "loss"), {})
    whole, state, expected = jax.jit(program.step), program.initial, program.initial
    for batch, following in zip(batches, [*batches[1:], None], strict=True):
        servers.current, servers.upcoming = batch, following if is_known else None
        state, results = step(state, (), (*batch,))
        expected, outputs = whole(expected, batch)
        np.testing.assert_allclose(results["loss"], outputs["loss"], rtol=1e-5, atol=1e-6)
        assert (state.ahead is None) == (servers.upcoming is None)
        if batch is batches[1]:
            state = state.renewed()  # what was fetched is older than these values
            assert state.ahead is None
    assert servers.lookups == (2 if is_known else len(batches))
    for path, value in expected.items():
        np.testing.assert_allclose(state[path], value, rtol=1e-4, atol=1e-6, err_msg=path)


@pytest.mark.parametrize(
    "wrong", [(np.array([1, 99] * 4, np.int32), FACTORS[0]), (IDS_OF_STEPS[0][:4], FACTORS[0][:4])]
)
def test_a_batch_that_cannot_be_looked_up_ahead_leaves_the_step_before_alone(wrong, monkeypatch):
    monkeypatch.setattr(_shards, "LEAST_ROWS_BYTES", 1)
    batch = IDS_OF_STEPS[0], FACTORS[0]
    program = Program(lambda batch: sparse_step(*batch), batch)
    servers = MemoryServers()
    engine = ServedEngine(servers, place)
    step = engine.compile(traced_program(program, Strategy(Placement(None), engine), "loss"), {})
    servers.upcoming = wrong  # an id of no row, or another shape
    state, _ = step(program.initial, (), batch)
    assert servers.pushes == 1
    assert state.ahead is None
