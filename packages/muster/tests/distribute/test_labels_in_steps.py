"""A label that is no class is an error in fit, and in functions, on one replica and on several."""

import os

import numpy as np
import pytest

import muster
from muster._errors import DatasetError
from muster._keras import keras
from muster.data import Dataset
from muster.distribute import MirroredStrategy, OneDeviceStrategy, function

STRATEGIES = {
    "one device": lambda: OneDeviceStrategy("/cpu:0"),
    "mirrored 2": lambda: MirroredStrategy(["/cpu:0", "/cpu:1"]),
}


@pytest.fixture(params=STRATEGIES)
def strategy(request):
    return STRATEGIES[request.param]()


def data():
    labels = np.arange(64) % 5
    labels[45] = 5
    return np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32), labels


def model(strategy):
    with strategy.scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(5)])
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def test_fit_names_the_label_before_a_callback_reads_garbage(strategy):
    read = []
    reads = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: read.append(reads.model.weights[0].value)
    )
    with pytest.raises(DatasetError, match="label value of 5 which is outside .* Label values: 0 1 2 3 4"):
        model(strategy).fit(*data(), batch_size=8, verbose=0, callbacks=[reads], shuffle=False)
    assert len(read) == 5


def test_evaluate_names_the_label(strategy):
    with pytest.raises(DatasetError, match="label value of 5 which is outside"):
        model(strategy).evaluate(Dataset.from_tensor_slices(data()).batch(8), verbose=0)


def by_weights(trained, path):
    trained.save_weights(f"{path}.weights.h5")


def by_model(trained, path):
    trained.save(f"{path}.keras")


@pytest.mark.parametrize("save", [by_weights, by_model])
def test_a_function_names_the_label_before_a_model_is_saved(strategy, tmp_path, save):
    trained = model(strategy)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)

    def step(images, labels):
        with muster.GradientTape() as tape:
            loss = keras.ops.sum(loss_of(labels, trained(images))) / 8
        variables = trained.trainable_variables
        trained.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    @function
    def train(batch):
        strategy.run(step, args=batch)

    def train_and_save():
        for batch in strategy.experimental_distribute_dataset(Dataset.from_tensor_slices(data()).batch(8)):
            train(batch)
            save(trained, tmp_path / str(len(os.listdir(tmp_path))))

    with pytest.raises(DatasetError, match="label value of 5 which is outside"):
        train_and_save()
    assert len(os.listdir(tmp_path)) == 5
