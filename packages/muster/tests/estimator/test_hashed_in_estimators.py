"""Hashed tables in Estimators: in one process, and on servers in this process, reached over sockets."""

import contextlib

import numpy as np
import pytest
from local_servers import servers

import muster
from muster import keras
from muster._errors import TraceError
from muster.checkpoint import checkpoint_path, latest_checkpoint, read_checkpoint
from muster.checkpoint._manifest import read_manifest
from muster.data import Dataset, Options, wide_ids
from muster.distribute import MirroredStrategy
from muster.estimator import Estimator, EstimatorSpec, ModeKeys, RunConfig, SessionRunHook
from muster.ps import Plan, PlanTable, fingerprint
from muster.ps.contents import StoredHash, TableUse
from muster.ps.tables import TableSpec, Uniform

pytestmark = pytest.mark.usefixtures("compiled_once")

KEYS = np.random.default_rng(0).integers(-(2**62), 2**62, 40)
IDS = KEYS[np.random.default_rng(1).integers(0, 40, (64, 3))]
IDS[::5, 2] = -1  # none
Y = (np.abs(IDS[:, 0]) % 7).astype("float32")
EPOCH = 4  # steps

one_process = contextlib.nullcontext
RUNNERS = {"one process": one_process, "one server": lambda: servers(1), "two servers": lambda: servers(2)}


def model_fn(features, labels, mode, params):
    rows = muster.layers.HashEmbedding(4, combiner="mean", name="table", **params.get("table", {}))(features)
    outputs = keras.layers.Dense(1)(keras.layers.Dense(8, activation="relu")(rows))[:, 0]
    if mode == ModeKeys.PREDICT:
        return EstimatorSpec(mode, predictions={"outputs": outputs, "rows": rows})
    loss = keras.ops.mean((outputs - labels) ** 2)
    optimizer = keras.optimizers.get(params.get("optimizer", "adagrad"))
    optimizer.learning_rate = 0.1
    step = muster.minimize(optimizer, loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=step)


def batches():
    return Dataset.from_tensor_slices((wide_ids(IDS), Y)).batch(16).repeat()


def estimator(folder, params=None, strategy=None, **config):
    run_config = RunConfig(tf_random_seed=1, train_distribute=strategy, log_step_count_steps=None, **config)
    return Estimator(model_fn, str(folder), run_config, params or {})


def train(folder, runner, steps, params=None, **config):
    with RUNNERS[runner]() as strategy:
        estimator(folder, params, strategy, **config).train(batches, max_steps=steps)
    return read_checkpoint(latest_checkpoint(folder)).variables


def by_id(variables, column="table/embeddings"):
    """The rows of a table, or their slots, by id."""
    return dict(zip(variables["table/embeddings#ids"].tolist(), variables[column], strict=True))


def assert_same(found, expected):
    """The same variables, of hashed tables by their ids."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if "#" in name:
            continue
        one, other = found[name], value
        if name.startswith("table/") or "table_embeddings" in name:
            ours, theirs = by_id(found, name), by_id(expected, name)
            assert ours.keys() == theirs.keys()
            one, other = (np.stack([each[key] for key in theirs]) for each in (ours, theirs))
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    return train(tmp_path_factory.mktemp("one") / "model", "one process", 2 * EPOCH)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("one process", "one process"),
        ("one process", "two servers"),
        ("two servers", "one server"),
        ("two servers", "one process"),
    ],
)
def test_training_goes_on_elsewhere_as_if_it_had_not_been_interrupted(tmp_path, first, then, uninterrupted):
    half = train(tmp_path, first, EPOCH)
    assert set(by_id(half)) <= {*KEYS.tolist()}
    assert_same(train(tmp_path, then, 2 * EPOCH), uninterrupted)


def test_without_a_seed_each_task_draws_one_for_the_rows_and_plans_agree():
    plans = []
    for seed in (1, 2):
        hashed = StoredHash(
            name="t", server=0, spec=TableSpec(name="t", shape=(2,), initial=Uniform(seed=seed))
        )
        table = PlanTable(columns=(), use=TableUse(columns=("t",)), hashed=hashed)
        plans.append(Plan(tables=(table,)))
    assert fingerprint(plans[0]) == fingerprint(plans[1]) != fingerprint(Plan())


KEEPING = {"admit_after": 2, "max_age": 3}


@pytest.mark.parametrize("runner", ["one process", "two servers"])
def test_ids_are_admitted_and_evicted_by_the_count_and_the_age_of_steps(tmp_path, runner):
    ids = np.array([[1, 2, -1], [1, 3, -1], [1, 2, -1], [4, -1, -1], [4, 1, -1], [1, -1, -1], [1, 4, -1]])

    def kept(ids, max_steps):
        def steps():
            return Dataset.from_tensor_slices((wide_ids(ids), np.ones(len(ids), "float32"))).batch(1)

        with RUNNERS[runner]() as strategy:
            estimator(tmp_path, {"table": KEEPING}, strategy).train(steps, max_steps=max_steps)
        return read_checkpoint(latest_checkpoint(tmp_path)).variables

    saved = kept(ids[:3], 3)
    assert sorted(by_id(saved)) == [1, 2]
    assert saved["table/embeddings#waiting"].tolist() == [3]
    saved = kept(ids[3:], 7)  # the counts and ages of before go on
    assert sorted(by_id(saved)) == [1, 4]
    assert by_id(saved, "table/embeddings#uses")[1].tolist()[1] == 6


def test_an_id_without_a_row_is_none_in_predictions(tmp_path):
    trained = estimator(tmp_path)
    trained.train(batches, steps=2)
    rows = by_id(read_checkpoint(latest_checkpoint(tmp_path)).variables)
    one, other = list(rows)[:2]
    ids = np.array([[one, -1, -1], [one, other, -1], [7, one, -1], [7, 7, 8]])
    found = trained.predict(lambda: Dataset.from_tensor_slices(wide_ids(ids)).batch(4))
    zeros = np.zeros(4, "float32")
    expected = [rows[one], (rows[one] + rows[other]) / 2, rows[one] / 2, zeros]
    np.testing.assert_allclose([each["rows"] for each in found], expected, rtol=1e-6)
    assert trained.evaluate(batches, steps=2)["global_step"] == 2


def test_steps_that_are_dispatched_together_train_the_same_rows(tmp_path, uninterrupted):
    assert_same(train(tmp_path, "one process", 2 * EPOCH, steps_per_execution=3), uninterrupted)


def test_a_hook_reads_and_sets_other_variables_while_a_table_is_trained(tmp_path):
    found = {}

    class Hook(SessionRunHook):
        def after_run(self, run_context, run_values):
            session = run_context.session
            found[session.global_step] = session.get_variable_value("dense/bias")
            session.set_variable_value("dense/bias", np.full(1, 7.0, "float32"))
            with pytest.raises(NotImplementedError, match="table/embeddings is of a hashed table"):
                session.state["table/embeddings"]

    estimator(tmp_path).train(batches, steps=2, hooks=[Hook()])
    assert abs(found[1][0]) < 1 < abs(found[2][0] - 7) + 1 < 2
    saved = read_checkpoint(latest_checkpoint(tmp_path)).variables
    np.testing.assert_array_equal(saved["dense/bias"], [7.0])


def test_a_table_without_any_rows_is_evaluated(tmp_path):
    found = estimator(tmp_path).predict(lambda: Dataset.from_tensor_slices(wide_ids(IDS[:3])).batch(3))
    assert not any(each["rows"].any() for each in found)


@pytest.mark.parametrize("runner", ["one process", "two servers"])
def test_rows_alone_are_trained_also_where_the_optimizer_changes_all(tmp_path, runner):
    saved = train(tmp_path, runner, 2, {"optimizer": "adam"})
    assert {name for name in saved if name.startswith("adam/table")} == {
        "adam/table_embeddings_momentum",
        "adam/table_embeddings_velocity",
    }
    assert all(row.any() for row in by_id(saved, "adam/table_embeddings_velocity").values())


@pytest.mark.parametrize("runner", ["one process", "two servers"])
def test_checkpoints_have_the_rows_that_changed_since_one_with_all(tmp_path, runner):
    def few():
        some = Dataset.from_tensor_slices((wide_ids(IDS[:1]), Y[:1])).batch(1).repeat(3)
        return Dataset.from_tensor_slices((wide_ids(IDS), Y)).batch(48).take(1).concatenate(some)

    with RUNNERS[runner]() as strategy:
        estimator(tmp_path, strategy=strategy, save_checkpoints_steps=1).train(few)
    records = read_manifest(checkpoint_path(tmp_path, 4)).variables
    assert all(piece.changes is not None for piece in records["table/embeddings"].pieces)
    variables = read_checkpoint(checkpoint_path(tmp_path, 4)).variables
    assert len(variables["table/embeddings#ids"]) == len({*IDS[:48].ravel().tolist()} - {-1})
    estimator(tmp_path / "again").train(few)
    again = read_checkpoint(latest_checkpoint(tmp_path / "again")).variables
    assert_same({name: variables[name] for name in again}, again)


def test_a_warm_start_takes_the_rows(tmp_path):
    before = by_id(train(tmp_path / "one", "one process", 3))
    config = RunConfig(tf_random_seed=2, log_step_count_steps=None)
    params = {"optimizer": "sgd"}
    warm = Estimator(model_fn, str(tmp_path / "two"), config, params, warm_start_from=str(tmp_path / "one"))
    warm.train(batches, steps=1)
    assert before.keys() == by_id(read_checkpoint(latest_checkpoint(tmp_path / "two")).variables).keys()


def test_what_cannot_train_a_hashed_table_is_named(tmp_path):
    strategy = MirroredStrategy(["CPU:0", "CPU:1"])
    with pytest.raises(
        NotImplementedError, match="table/embeddings is of a hashed table, .* not MirroredStrategy"
    ):
        estimator(tmp_path, strategy=strategy).train(batches, steps=1)
    assert latest_checkpoint(tmp_path) is None


def test_a_table_that_is_read_as_a_whole_is_refused(tmp_path):
    def with_penalty(features, labels, mode):
        layer = muster.layers.HashEmbedding(4, combiner="mean", name="table")
        loss = keras.ops.mean((layer(features)[:, 0] - labels) ** 2) + keras.ops.sum(layer.embeddings**2)
        step = muster.minimize(keras.optimizers.SGD(0.1), loss, muster.get_or_create_global_step())
        return EstimatorSpec(mode, loss=loss, train_op=step)

    with pytest.raises(TraceError, match="table/embeddings: its rows cannot be taken"):
        Estimator(with_penalty, str(tmp_path)).train(batches, steps=1)


def test_workers_that_share_their_batches_train_the_same_rows(tmp_path, uninterrupted):
    options = Options()
    options.experimental_distribute.dispatch = "dynamic"
    with servers(2) as strategy:
        shared = estimator(tmp_path, strategy=strategy)
        shared.train(lambda: batches().with_options(options), max_steps=2 * EPOCH)
    found = read_checkpoint(latest_checkpoint(tmp_path)).variables
    assert_same({name: each for name, each in found.items() if name in uninterrupted}, uninterrupted)
