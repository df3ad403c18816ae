"""Check the private parts of Keras that muster depends on."""

import operator
import random
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from muster._keras import keras
from muster.program.trace._program import Program
from muster.program.variables.keras_internals import (
    compile_arguments,
    compiled_metrics,
    forget_state,
    fresh_names,
    global_seed_state,
    keep_no_state,
    keras_step,
    loop_further,
    loop_step_again,
    note_state,
    note_synced,
    predictions,
    replace_build,
    replace_results,
    search_no_state,
    set_global_seed_state,
    set_values,
    setting_of_every_step,
    slice_fast,
    values_of,
)


def test_automatic_names_start_afresh_and_go_on_afterwards():
    keras.layers.Dense(1)
    before = keras.layers.Dense(1).name
    number = int(before.removeprefix("dense_"))
    with fresh_names():
        assert keras.layers.Dense(1).name == "dense"
        assert keras.layers.Dense(1).name == "dense_1"
    assert keras.layers.Dense(1).name == f"dense_{number + 1}"


def initial_values(seed: int | None) -> dict[str, list[float]]:
    """Return the initial values of a layer with dropout that is built in a step."""

    def build() -> tuple[dict[str, Any], None]:
        x = keras.layers.Dense(3)(jnp.ones((2, 3)))
        return {"y": keras.layers.Dropout(0.5)(x, training=True)}, None

    return {path: value.tolist() for path, value in Program(build, seed=seed).initial.items()}


def test_a_given_seed_leaves_the_processs_random_numbers_alone():
    random.seed(1)
    expected = [random.random() for _ in range(2)]
    random.seed(1)
    drawn = [random.random()]
    initial_values(seed=7)
    drawn.append(random.random())
    assert drawn == expected


def test_without_a_seed_that_of_the_process_counts():
    keras.utils.set_random_seed(5)
    first = initial_values(None)
    assert initial_values(None) != first
    keras.utils.set_random_seed(5)
    assert initial_values(None) == first


def test_running_a_recorded_step_draws_nothing_from_the_process():
    program = Program(lambda: ({"y": keras.layers.Dense(3)(jnp.ones((2, 3)))}, None))
    before = random.getstate()
    program.step(program.initial)
    program.step_eagerly(program.initial)
    assert random.getstate() == before


def test_threads_that_build_at_once_get_the_values_of_their_own_seeds():
    alone = [initial_values(seed) for seed in range(4)]
    random.seed(1)
    before = random.getstate()
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(initial_values, list(range(4)) * 5))
    assert together == alone * 5
    assert random.getstate() == before


def test_a_trainer_holds_its_last_state_until_it_is_told_to_forget_it():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.train_on_batch(jnp.ones((4, 2)), jnp.ones((4, 1)))
    states = [
        value for value in vars(model).values() if isinstance(value, dict) and "trainable_variables" in value
    ]
    held = [value for state in states for value in state["trainable_variables"]]
    assert held[0] is model.trainable_variables[0].value
    forget_state(model)
    assert not any(value is state for state in states for value in vars(model).values())
    model.train_on_batch(jnp.ones((4, 2)), jnp.ones((4, 1)))


def test_no_layers_are_searched_for_in_the_state_of_a_trainer():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    search_no_state(model)
    before = {**vars(model)}
    model.train_on_batch(jnp.ones((4, 2)), jnp.ones((4, 1)))
    new = [value for name, value in vars(model).items() if value is not before.get(name)]
    states = [value for value in new if isinstance(value, Mapping) and "trainable_variables" in value]
    assert [type(state["trainable_variables"]) for state in states] == [list]
    model.jax_state_sync()
    assert model.trainable_variables[0].value is states[0]["trainable_variables"][0]


def test_a_trainer_without_a_state_leaves_values_where_they_are() -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    keep_no_state(model)
    value, states = model.trainable_variables[0].value, []

    def step(state: Any, iterator: Any) -> tuple[dict[str, Any], Any]:
        next(iterator)
        states.append(state)
        assert model.trainable_variables[0].value is value
        note_synced(model)
        return {"loss": jnp.float32(1.0)}, state

    model.make_train_function = lambda force=False: setattr(model, "train_function", step)
    model.fit(jnp.ones((8, 2)), jnp.ones((8, 1)), batch_size=4, verbose=0)
    assert states == [([], [], [], [])] * 2


def test_values_of_variables_are_those_that_keras_shows():
    variable = keras.Variable([1.0, 2.0])
    assert values_of([variable])[0] is variable.value
    set_values([variable], [jnp.array([3.0, 4.0])])
    assert variable.value.tolist() == [3.0, 4.0]


def test_how_a_model_was_compiled() -> None:
    def loss(y: Any, outputs: Any) -> Any:
        return keras.ops.mean(y - outputs)

    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
    model.compile(loss=loss, metrics=["mae"], weighted_metrics=["mse"], loss_weights=[2.0])
    assert compile_arguments(model) == {
        "loss": loss,
        "metrics": ["mae"],
        "weighted_metrics": ["mse"],
        "loss_weights": [2.0],
    }
    model.compute_metrics(None, jnp.ones((2, 1)), jnp.zeros((2, 1)), None)
    assert {name: metric.result() for name, metric in compiled_metrics(model).items()} == {"mae": 1, "mse": 1}
    plain = keras.Sequential([keras.layers.Dense(1)])
    plain.compile(loss=loss)
    assert compiled_metrics(plain) == {}


def test_settings_that_concern_all_elements_at_every_step():
    kernel, bias = keras.Variable(1.0, name="kernel"), keras.Variable(1.0, name="bias")
    plain, decayed = keras.optimizers.SGD(), keras.optimizers.AdamW(weight_decay=0.1)
    decayed.exclude_from_weight_decay(var_names=["bias"])
    scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(gradient_accumulation_steps=3))
    assert setting_of_every_step(plain, kernel) is None
    assert setting_of_every_step(decayed, kernel) == "weight_decay=0.1"
    assert setting_of_every_step(decayed, bias) is None
    assert setting_of_every_step(scaled, bias) == "gradient_accumulation_steps=3"
    assert setting_of_every_step(keras.optimizers.SGD(use_ema=True), bias) == "use_ema=True"


def test_a_model_asks_where_keras_builds_it_and_for_the_results_of_an_epoch():
    model = keras.Sequential([keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    asked = []

    def build(keras_build, **given):
        asked.append(sorted(given))
        keras_build(**given)

    replace_build(model, build)
    replace_results(model, lambda keras_results, logs: {"loss": 7.0, "of Keras": keras_results(logs)["loss"]})
    x = jnp.ones((4, 3))
    history = model.fit(x, x[:, :2], verbose=0).history
    assert asked == [["iterator"]]
    assert model.built
    assert history["loss"] == [7.0]
    assert history["of Keras"][0] > 0
    model.train_on_batch(x, x[:, :2])
    assert asked[1:] == [["data_batch"]]


def test_predictions_and_loss_are_those_of_keras_step():
    class Model(keras.Model):
        def call(self, x, training=False):
            return 2.0 * x if training else x

    x, y = jnp.ones((4, 1)), jnp.zeros((4, 1))
    model = Model()
    model.compile("sgd", "mse")
    y_pred, loss = keras_step(model, x, y, None, training=True)
    assert float(loss) == 4.0
    assert y_pred.tolist() == [[2.0]] * 4
    assert float(model.get_metrics_result()["loss"]) == 4.0
    assert predictions(model, x, training=False).tolist() == x.tolist()
    assert predictions(keras.layers.Rescaling(3.0), x, training=True).tolist() == (3 * x).tolist()


def test_the_generator_of_keras_random_goes_on_from_a_state() -> None:
    before = global_seed_state()
    set_global_seed_state(None)
    assert global_seed_state() is None
    keras.random.uniform((1,))
    state = global_seed_state()
    drawn = [keras.random.uniform((3,)).tolist() for _ in range(2)]
    assert drawn[0] != drawn[1]
    set_global_seed_state(None)
    set_global_seed_state(state)
    assert [keras.random.uniform((3,)).tolist() for _ in range(2)] == drawn
    set_global_seed_state(before)


@pytest.mark.parametrize(
    "how", ["add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "lt", "ge"]
)
def test_variables_leave_operators_to_symbolic_tensors(how):
    operate = getattr(operator, how)
    variable, x = keras.Variable(np.full((2, 2), 3.0, np.float32)), np.full((2, 2), 2.0, np.float32)
    inputs = keras.Input((2,))
    model = keras.Model(inputs, operate(variable, inputs))
    np.testing.assert_allclose(model(x), operate(np.asarray(variable), x))
    variable.assign(2 * variable)
    np.testing.assert_allclose(model(x), operate(np.asarray(variable), x))


def epochs_of(shuffle: Any, data: Any) -> Any:
    return keras.src.backend.jax.trainer.JAXEpochIterator(*data, batch_size=4, shuffle=shuffle)


@pytest.mark.parametrize("shuffle", [False, True, "batch"])
def test_arrays_are_sliced_as_keras_does(shuffle: Any) -> None:
    data = {"b": np.arange(10.0), "a": np.arange(10)}, [jnp.arange(20).reshape(10, 2), np.ones(10)]
    passes = []
    for prepare in (lambda epochs: None, slice_fast):
        epochs = epochs_of(shuffle, data)
        prepare(epochs)
        np.random.seed(3)
        passes.append([next(iterator) for _ in range(2) for _, _, iterator in epochs])
        passes.append(np.random.randint(1000))
    batches, number, ours, our_number = passes
    assert our_number == number
    assert len(ours) == 6
    for batch, own in zip(batches, ours, strict=True):
        assert jax.tree.structure(batch) == jax.tree.structure(own)
        for leaf, own_leaf in zip(jax.tree.leaves(batch), jax.tree.leaves(own), strict=True):
            assert (type(leaf), leaf.dtype) == (type(own_leaf), own_leaf.dtype)
            np.testing.assert_array_equal(leaf, own_leaf)


def test_what_is_no_array_is_sliced_by_keras() -> None:
    sparse = pytest.importorskip("scipy.sparse").csr_matrix(np.eye(6))
    batches = []
    for prepare in (lambda epochs: None, slice_fast):
        epochs = epochs_of(False, (sparse, np.ones(6)))
        prepare(epochs)
        batches.append([next(iterator) for _, _, iterator in epochs])
    assert [x.todense().tolist() for x, _ in batches[1]] == [x.todense().tolist() for x, _ in batches[0]]


def test_keras_loop_is_taken_further_and_begins_a_step_again() -> None:
    epochs = epochs_of(False, (np.arange(10), np.ones(10)))
    begun = []
    for first, _, iterator in epochs:
        begun.append((first, len(next(iterator)[0])))
        if first == 0:
            step = loop_further(epochs)
            assert step is not None
            assert step[:2] == (1, 1)
            assert step[2] is iterator
            loop_step_again(epochs, step)
    assert begun == [(0, 4), (1, 4), (2, 2)]
    assert loop_further(epochs) is None


def test_a_models_trainer_takes_a_state() -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"])
    model.train_on_batch(np.ones((1, 2)), np.ones((1, 1)))
    groups = [model.trainable_variables, model.non_trainable_variables, model.metrics_variables]
    note_state(model, [[jnp.full(each.shape, 7, each.dtype) for each in group] for group in groups])
    model._jax_state_synced = False
    model.jax_state_sync()
    assert all((np.asarray(each) == 7).all() for group in groups for each in group)
    groups.insert(2, model.optimizer.variables)
    note_state(model, [[jnp.full(each.shape, 5, each.dtype) for each in group] for group in groups])
    model._jax_state_synced = False
    model.jax_state_sync()
    assert all((np.asarray(each) == 5).all() for group in groups for each in group)
