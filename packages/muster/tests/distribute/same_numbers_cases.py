"""Models whose training must end on the same numbers alone, on two devices and over two workers.

They train in double precision. Rounding in single precision depends on the order of sums, and grows from step
to step in recurrent networks, until trainings have nothing in common. Used by test_same_numbers.py and
test_same_numbers_multiprocess.py.
"""

import contextlib
from unittest import mock

import jax
import numpy as np

from muster._keras import keras

layers = keras.layers
ROWS, BATCH, EPOCHS, STEPS, WORDS = 103, 16, 4, 8, 40  # the last batch is a short one
TOLERANCE = 1e-11
RNG = np.random.default_rng(0)
IDS = RNG.integers(1, WORDS, (ROWS, STEPS))
LABELS = (IDS[:, :4].sum(1) > 4 * WORDS / 2).astype(float)
PADDED = np.where(np.arange(STEPS) < RNG.integers(3, STEPS, (ROWS, 1)), IDS, 0)
IMAGES = RNG.normal(size=(ROWS, 8, 8, 1)) + LABELS[:, None, None, None]


def text(*hidden, mask=False):
    """A model that looks up words, and has layers of sequences."""
    return [layers.Embedding(WORDS, 8, mask_zero=mask), *hidden, layers.Dense(1, activation="sigmoid")]


def two(kind, **options):
    return [kind(8, return_sequences=True, **options), kind(8, **options)]


def attention():
    words = keras.Input((STEPS,))
    x = layers.Embedding(WORDS, 8)(words)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 4, dropout=0.1)(x, x))
    x = layers.Dropout(0.1)(layers.GlobalAveragePooling1D()(x))
    return keras.Model(words, layers.Dense(1, activation="sigmoid")(x))


def functional(hidden, mask):
    words = keras.Input((STEPS,))
    outputs = words
    for layer in text(*hidden, mask=mask):
        outputs = layer(outputs)
    return keras.Model(words, outputs)


def encoder_decoder():
    encoder = layers.LSTM(8, return_state=True)
    words = keras.Input((STEPS,))
    x = layers.Embedding(WORDS, 8)(words)
    _, *state = encoder(x)
    decoded = layers.LSTM(8, return_sequences=True)(x, initial_state=state)
    return keras.Model(words, layers.Dense(1, activation="sigmoid")(layers.Flatten()(decoded)))


def stateful():
    words = keras.Input(batch_shape=(BATCH, STEPS))
    return keras.Sequential([words, *text(*two(layers.LSTM, stateful=True))])


def sequential(*parts):
    return keras.Sequential(list(parts))


def images():
    return keras.Sequential(
        [
            *(layers.Conv2D(4, 3, padding="same"), layers.BatchNormalization(), layers.ReLU()),
            *(layers.MaxPooling2D(), layers.SpatialDropout2D(0.2)),
            *(layers.Conv2D(4, 3, strides=2), layers.BatchNormalization(), layers.ReLU()),
            *(layers.GlobalAveragePooling2D(), layers.Dropout(0.2), layers.Dense(1, activation="sigmoid")),
        ]
    )


def of_text(*arguments, **options):
    return lambda: sequential(*text(*two(*arguments, **options)))


def both_ways():
    return sequential(
        *text(
            layers.Bidirectional(layers.LSTM(8, return_sequences=True)), layers.Bidirectional(layers.GRU(8))
        )
    )


# Each with the data that it takes.
CASES = {
    "lstm": (of_text(layers.LSTM), IDS),
    "lstm_dropout": (of_text(layers.LSTM, dropout=0.2, recurrent_dropout=0.2), IDS),
    "lstm_masked": (lambda: functional(two(layers.LSTM), True), PADDED),
    "lstm_stateful": (stateful, IDS[: 6 * BATCH]),
    "gru_masked": (lambda: functional(two(layers.GRU), True), PADDED),
    "both_ways": (both_ways, IDS),
    "encoder_decoder": (encoder_decoder, IDS),
    "attention": (attention, IDS),
    "images": (images, IMAGES),
}


@contextlib.contextmanager
def in_double():
    """Let what is in this block compute in double precision.

    Keras on JAX would take means in single precision all the same, and so losses, their gradients, the
    averages of batch normalization and of pooling.
    """
    before, policy = keras.config.floatx(), keras.config.dtype_policy()
    keras.config.set_floatx("float64")
    jax.config.update("jax_enable_x64", True)
    try:
        with mock.patch.dict(keras.src.backend.common.dtypes.BIT64_TO_BIT32_DTYPE, float64="float64"):
            assert keras.ops.mean(1.0 + 1e-12 * np.ones(2)) > 1
            yield
    finally:
        jax.config.update("jax_enable_x64", False)
        keras.config.set_floatx(before)
        keras.config.set_dtype_policy(policy)  # else Keras keeps the one that it made of this floatx


def outcome(strategy, name):
    """The losses and metrics of the epochs, and an evaluation."""
    make, x = CASES[name]
    y = LABELS[: len(x)]
    with in_double():
        keras.backend.clear_session()
        keras.utils.set_random_seed(5)
        with strategy.scope():
            model = make()
            model.compile(keras.optimizers.Adam(0.02), "binary_crossentropy", metrics=["accuracy"])
        shuffled = name != "lstm_stateful"
        history = model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, verbose=0, shuffle=shuffled).history
        evaluated = model.evaluate(x, y, batch_size=BATCH, verbose=0)
        return {
            "loss": list(map(float, history["loss"])),
            "accuracy": list(map(float, history["accuracy"])),
            "evaluated": list(map(float, evaluated)),
        }


def same(found, expected):
    """Compare what came of two trainings of a model."""
    assert expected["loss"][-1] < expected["loss"][0]
    for kind, values in expected.items():
        np.testing.assert_allclose(found[kind], values, rtol=TOLERANCE, atol=TOLERANCE, err_msg=kind)
