"""Functions that create variables in their first run and use them from then on, and what may not change."""

import contextlib

import numpy as np
import pytest

import muster
from muster import keras
from muster._errors import VariableMismatchError
from muster.data import Dataset
from muster.distribute import CentralStorageStrategy, MirroredStrategy

STRATEGIES = {
    "alone": lambda: None,
    "mirrored": lambda: MirroredStrategy(["/cpu:0"]),
    "mirrored2": lambda: MirroredStrategy(["/cpu:0", "/cpu:1"]),
    "central2": lambda: CentralStorageStrategy(["/cpu:0", "/cpu:1"]),
}
TWO = np.float32(2)


@pytest.fixture(params=STRATEGIES)
def strategy(request):
    return STRATEGIES[request.param]()


@pytest.fixture(params=["mirrored", "mirrored2", "central2"])
def replicas(request):
    return STRATEGIES[request.param]()


def test_what_is_assigned_from_the_second_run_on_counts(strategy):
    class Average:
        value = None

        @muster.function
        def update(self, x):
            if self.value is None:
                self.value = keras.Variable(np.zeros(2, np.float32), aggregation="mean")
            else:
                self.value.assign(0.5 * self.value + 0.5 * x)
            return self.value.value

    average = Average()
    with contextlib.nullcontext() if strategy is None else strategy.scope():
        found = [float(average.update(np.ones(2, np.float32))[0]) for _ in range(3)]
    assert found == [0.5, 0.75, 0.875]


@pytest.mark.parametrize("synchronization", ["auto", "on_read"])
@pytest.mark.parametrize("runs_at_first", [True, False])
def test_replicas_may_have_no_part_in_the_first_run(replicas, synchronization, runs_at_first):
    made = []

    @muster.function
    def add(x):
        if made:
            replicas.run(lambda: made[0].assign_add(x))
            return "added"
        with replicas.scope():
            for name in "total", "unused":
                made.append(
                    keras.Variable(
                        0.0, trainable=False, synchronization=synchronization, aggregation="sum", name=name
                    )
                )
        if runs_at_first:
            replicas.run(lambda: made[1].assign_add(x))
        return "created"

    for call in range(1, 4):
        assert add(TWO) == "added"
        assert [float(variable) for variable in made] == [2 * call * replicas.num_replicas_in_sync, 0]


@pytest.mark.parametrize("drawn_at_first", [0, 1, 3])
def test_each_call_takes_the_batches_that_it_takes_from_then_on(replicas, drawn_at_first):
    made = []

    @muster.function
    def take(iterator):
        if not made:
            for _ in range(drawn_at_first):
                next(iterator)
            with replicas.scope():
                made.append(keras.Variable(0, dtype="int32", aggregation="sum", trainable=False))
        else:
            replicas.run(
                lambda x: made[0].assign_add(keras.ops.cast(keras.ops.sum(x), "int32")),
                args=(next(iterator),),
            )

    iterator = iter(replicas.experimental_distribute_dataset(Dataset.range(16).batch(4)))
    for expected in (6, 28, 66, 120):
        take(iterator)
        assert int(made[0]) == expected


def test_what_a_failed_first_run_created_has_its_initial_values():
    model = keras.Sequential([keras.layers.Dense(2), keras.layers.BatchNormalization()])
    made, x = [], np.ones((4, 3), np.float32)

    @muster.function
    def step(mistaken):
        if not made:
            made.append(keras.Variable(1.0))
        made[0].assign_add(1.0)
        outputs = model(x, training=True)
        return keras.ops.sum(outputs + np.ones((7, 9), np.float32) if mistaken else outputs)

    with pytest.raises(TypeError, match="incompatible shapes"):
        step(True)
    assert float(made[0]) == 1
    assert [np.asarray(each).tolist() for each in model.layers[1].weights] == [[1, 1], [0, 0], [0, 0], [1, 1]]
    assert np.isfinite(step(False))
    assert float(made[0]) == 2


def test_what_is_created_and_not_used_is_where_the_strategy_wants_it(replicas):
    made = {}

    @muster.function
    def step(x):
        if not made:
            with replicas.scope():
                made["used"], made["unused"] = (keras.Variable(1.0, trainable=False) for _ in range(2))
        return replicas.reduce("SUM", replicas.run(lambda: x * made["used"]))

    assert float(step(TWO)) == 2 * replicas.num_replicas_in_sync
    assert made["unused"].value.sharding == made["used"].value.sharding


@pytest.mark.parametrize(
    ("assigns", "says"),
    [
        (lambda run: run > 1, "assigns to variable.* and did not when"),
        (lambda run: run == 1, "does not assign to variable.* as often"),
    ],
    ids=["then", "first"],
)
def test_to_assign_to_others_when_it_is_traced_again_is_refused(assigns, says):
    variable, runs = keras.Variable(0.0), []

    @muster.function
    def change():
        runs.append(0)
        if assigns(len(runs)):
            variable.assign(10.0)
        return variable.value

    with pytest.raises(VariableMismatchError, match=says):
        change()
    assert float(variable.value) == 0
    # The next call is another first one.
    assert float(change()) == (10 if assigns(len(runs)) else 0)


def test_metrics_that_keras_builds_when_they_are_updated_first():
    """What is assigned more often when it is traced again is what counts from then on."""
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="zeros")])
    model.compile("sgd", "mse", metrics=[keras.metrics.MeanSquaredError()])

    @muster.function
    def evaluate(x, y):
        model.reset_metrics()
        return model.compute_metrics(x, y, model(x))["mean_squared_error"]

    for expected in (1, 4, 9):
        y = np.full((4, 1), np.sqrt(expected), np.float32)
        assert float(evaluate(np.ones((4, 3), np.float32), y)) == pytest.approx(expected)


def test_to_assign_once_more_when_it_is_traced_first_is_refused():
    """Its effect would be lost, without a word."""
    made = {}

    @muster.function
    def change():
        if "variable" not in made:
            made["variable"] = keras.Variable(0.0)
        elif "begun" not in made:
            made["begun"] = True
            made["variable"].assign(10.0)
        made["variable"].assign_add(1.0)

    with pytest.raises(VariableMismatchError, match="does not assign to variable.* as often"):
        change()
    assert float(made["variable"]) == 0


def test_a_strategy_may_have_a_part_in_the_first_run_only(replicas):
    with replicas.scope():
        model = keras.Sequential([keras.layers.Dense(1)])

    @muster.function
    def build(x):
        if not model.built:
            replicas.run(model, args=(x,))

    build(np.ones((4, 3), np.float32))
    assert [weight.value.sharding for weight in model.weights] == [replicas.placement.sharding] * 2


def test_what_was_reduced_once_may_be_kept(replicas):
    kept = []

    @muster.function
    def scaled(x):
        if not kept:
            kept.append(replicas.num_replicas_in_sync)
            replicas.reduce("MEAN", np.float32(1), axis=None)
        return x * kept[0]

    assert float(scaled(TWO)) == 2 * replicas.num_replicas_in_sync


def test_to_run_on_replicas_only_when_it_is_traced_again_is_refused(replicas):
    with replicas.scope():
        total = keras.Variable(0.0, aggregation="sum", trainable=False)
    runs = []

    @muster.function
    def change():
        runs.append(0)
        if len(runs) > 1:
            replicas.run(lambda: total.assign_add(1.0))
        else:
            total.assign_add(1.0)

    with pytest.raises(VariableMismatchError, match="uses .*Strategy.* this time, and None when"):
        change()
    assert float(total) == 0
