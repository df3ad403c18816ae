"""Functions that make datasets, as the input of `fit`."""

import numpy as np
import pytest
from fit_cases import X, Y, build, same, values

from muster import keras
from muster.data import Dataset
from muster.distribute import (
    CentralStorageStrategy,
    DatasetCreator,
    InputOptions,
    InputReplicationMode,
    MirroredStrategy,
    OneDeviceStrategy,
    get_strategy,
)

STRATEGIES = {
    "default": get_strategy,
    "one device": lambda: OneDeviceStrategy("/cpu:0"),
    "mirrored": lambda: MirroredStrategy(["/cpu:0", "/cpu:1"]),
    "central storage": lambda: CentralStorageStrategy(["/cpu:0"]),
}


@pytest.fixture(params=STRATEGIES.values(), ids=STRATEGIES)
def strategy(request):
    return request.param()


def creator(contexts, rows=64):
    """Batches of 16 rows for all replicas together, without end."""

    def dataset_fn(context):
        contexts.append(context)
        dataset = Dataset.from_tensor_slices((X[:rows], Y[:rows]))
        return dataset.repeat().batch(context.get_per_replica_batch_size(16))

    return DatasetCreator(dataset_fn)


@pytest.mark.samples("mirrored")
def test_fit_and_evaluate_see_the_batches_of_all_replicas(strategy):
    contexts = []
    model, expected = build(strategy), build(strategy)
    history = model.fit(creator(contexts), epochs=2, steps_per_epoch=4, verbose=0).history
    by_arrays = expected.fit(X[:64], Y[:64], batch_size=16, epochs=2, shuffle=False, verbose=0).history
    same(values(model), values(expected))
    assert history["loss"] == pytest.approx(by_arrays["loss"], rel=1e-4)
    assert {context.num_replicas_in_sync for context in contexts} == {strategy.num_replicas_in_sync}
    found = model.evaluate(creator([]), steps=4, verbose=0)
    assert found == pytest.approx(model.evaluate(X[:64], Y[:64], batch_size=16, verbose=0), rel=1e-4)


def test_predictions_are_in_the_order_of_the_data(strategy):
    model = build(strategy)
    inputs = DatasetCreator(
        lambda context: Dataset.from_tensor_slices(X[:64]).batch(context.get_per_replica_batch_size(16))
    )
    found = model.predict(inputs, steps=4, verbose=0)
    np.testing.assert_allclose(found, model.predict(X[:64], verbose=0), rtol=1e-4, atol=1e-6)


def test_an_epoch_goes_on_where_the_last_one_ended_and_a_validation_begins_anew():
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)])
    model.compile(keras.optimizers.SGD(0.0), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    data = creator([])
    history = model.fit(
        data, epochs=3, steps_per_epoch=1, validation_data=data, validation_steps=1, verbose=0
    ).history
    assert len(set(history["loss"])) == 3
    assert len(set(history["val_loss"])) == 1


def test_a_function_for_each_replica():
    strategy = STRATEGIES["mirrored"]()
    contexts = []
    made = creator(contexts)
    options = InputOptions(experimental_replication_mode=InputReplicationMode.PER_REPLICA)
    build(strategy).fit(DatasetCreator(made.dataset_fn, input_options=options), steps_per_epoch=2, verbose=0)
    assert [context.input_pipeline_id for context in contexts] == [0, 1]


@pytest.mark.parametrize(
    "call",
    [
        lambda model, data: model.fit(data),
        lambda model, data: model.fit(data, steps_per_epoch=1, validation_data=data),
        lambda model, data: model.evaluate(data),
        lambda model, data: model.predict(data),
    ],
    ids=["fit", "validation", "evaluate", "predict"],
)
def test_the_number_of_batches_must_be_given(call):
    with pytest.raises(ValueError, match="`steps_per_epoch`, `validation_steps` or `steps` must be"):
        call(build(STRATEGIES["mirrored"]()), creator([]))


def test_targets_are_in_the_dataset():
    with pytest.raises(ValueError, match="`y` should not be given"):
        build(STRATEGIES["mirrored"]()).fit(creator([]), Y, steps_per_epoch=1, verbose=0)


def test_what_the_function_returns_is_a_dataset():
    model = build(STRATEGIES["mirrored"]())
    with pytest.raises(TypeError, match=r"must return a Dataset\. It returns \[1\]"):
        model.fit(DatasetCreator(lambda context: [1]), steps_per_epoch=1, verbose=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([3], "`dataset_fn` for `DatasetCreator` must be a `callable`. Received: 3"),
        ([print, "options"], "`input_options` for `DatasetCreator` must be a `tf.distribute.InputOptions`"),
    ],
)
def test_arguments(arguments, message):
    with pytest.raises(TypeError, match=message):
        DatasetCreator(*arguments)
