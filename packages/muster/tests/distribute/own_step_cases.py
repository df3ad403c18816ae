"""Models with steps of their own, `train_step(self, data)`, as programs for TensorFlow define them.

Used by the tests of `fit` with such models, in this process, in jobs and with servers.
"""

import numpy as np
from fit_cases import BATCH, WEIGHTS, Losses, X, Y

from muster import GradientTape, function
from muster._keras import keras

layers, ops = keras.layers, keras.ops
ROWS, EPOCHS = 103, 3  # the last batch is a short one
DIES_AFTER = 6  # after how many steps a worker is killed
WIDTH, LATENT = X.shape[1], 4


class Classifier(keras.Model):
    """Does by hand what Keras' own step does."""

    def __init__(self):
        super().__init__()
        self.hidden = layers.Dense(16, activation="relu", kernel_regularizer=keras.regularizers.L2(0.01))
        self.norm = layers.BatchNormalization()
        self.dropout = layers.Dropout(0.2)
        self.out = layers.Dense(3)

    def call(self, x, training=False):
        return self.out(self.dropout(self.norm(self.hidden(x), training=training), training=training))


class OwnClassifier(Classifier):
    def __init__(self):
        super().__init__()
        self.loss_tracker = keras.metrics.Mean(name="loss")

    def train_step(self, data):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        with GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return self._results(loss, x, y, y_pred, sample_weight)

    def test_step(self, data):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        y_pred = self(x, training=False)
        loss = self.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight)
        return self._results(loss, x, y, y_pred, sample_weight)

    def predict_step(self, data):
        return self(data, training=False)

    def _results(self, loss, x, y, y_pred, sample_weight):
        self.loss_tracker.update_state(loss, sample_weight=ops.shape(x)[0])
        return {**self.compute_metrics(x, y, y_pred, sample_weight), "loss": self.loss_tracker.result()}


class GAN(keras.Model):
    """Two networks, two optimizers and two losses; `fit` gets rows without labels."""

    def __init__(self):
        super().__init__()
        self.generator = keras.Sequential([layers.Dense(8, activation="relu"), layers.Dense(WIDTH)])
        self.discriminator = keras.Sequential(
            [layers.Dense(8), layers.LeakyReLU(0.2), layers.Dropout(0.2), layers.Dense(1)]
        )
        self.noise = keras.random.SeedGenerator(3)
        self.d_loss = keras.metrics.Mean(name="d_loss")
        self.g_loss = keras.metrics.Mean(name="loss")

    @property
    def metrics(self):
        return [self.d_loss, self.g_loss]

    def compile(self, d_optimizer, g_optimizer, loss_fn, **arguments):
        super().compile(**arguments)
        self.d_optimizer, self.g_optimizer, self.loss_fn = d_optimizer, g_optimizer, loss_fn

    def train_step(self, real):
        batch = ops.shape(real)[0]
        noise = keras.random.normal((batch, LATENT), seed=self.noise)
        ones, zeros = ops.ones((batch, 1)), ops.zeros((batch, 1))
        with GradientTape() as d_tape, GradientTape() as g_tape:
            fake = self.generator(noise, training=True)
            of_real = self.discriminator(real, training=True)
            of_fake = self.discriminator(fake, training=True)
            d_loss = self.loss_fn(ones, of_real) + self.loss_fn(zeros, of_fake)
            g_loss = self.loss_fn(ones, of_fake)
        for optimizer, network, tape, loss in (
            (self.d_optimizer, self.discriminator, d_tape, d_loss),
            (self.g_optimizer, self.generator, g_tape, g_loss),
        ):
            gradients = tape.gradient(loss, network.trainable_variables)
            optimizer.apply_gradients(zip(gradients, network.trainable_variables, strict=True))
        self.d_loss.update_state(d_loss)
        self.g_loss.update_state(g_loss)
        return {m.name: m.result() for m in self.metrics}

    def test_step(self, real):
        score = self.loss_fn(ops.ones((ops.shape(real)[0], 1)), self.discriminator(real, training=False))
        self.g_loss.update_state(score)
        return {"loss": self.g_loss.result()}

    def predict_step(self, rows):
        return self.discriminator(rows, training=False)


class VAE(keras.Model):
    """The loss is made of `add_loss` and of what the step computes; none is given to compile."""

    def __init__(self):
        super().__init__()
        self.encoder = keras.Sequential([layers.Dense(8, activation="relu"), layers.Dense(2 * LATENT)])
        self.decoder = keras.Sequential([layers.Dense(8, activation="relu"), layers.Dense(WIDTH)])
        self.seeds = keras.random.SeedGenerator(5)

    def call(self, x):
        mean, log_variance = ops.split(self.encoder(x), 2, axis=1)
        self.add_loss(-0.05 * ops.mean(1.0 + log_variance - ops.square(mean) - ops.exp(log_variance)))
        noise = keras.random.normal(ops.shape(mean), seed=self.seeds)
        return self.decoder(mean + ops.exp(0.5 * log_variance) * noise)

    @function
    def train_step(self, data):
        x = data[0] if isinstance(data, tuple) else data
        with GradientTape() as tape:
            reconstruction = ops.mean(ops.square(x - self(x, training=True)))
            loss = reconstruction + sum(self.losses)
        gradients = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply(gradients, self.trainable_weights)
        return {"loss": loss, "reconstruction": reconstruction}

    def test_step(self, data):
        return {"loss": ops.mean(ops.square(data - self(data)))}


class Contrastive(keras.Model):
    """Each row of a batch is compared with every other."""

    def __init__(self):
        super().__init__()
        self.encoder = keras.Sequential([layers.Dense(16, activation="relu"), layers.Dense(LATENT)])
        self.augmentation = layers.GaussianNoise(0.3, seed=2)
        self.contrast_loss = keras.metrics.Mean(name="loss")

    def _loss(self, rows, training):
        views = [
            ops.normalize(self.encoder(self.augmentation(rows, training=training)), axis=1) for _ in range(2)
        ]
        similarities = ops.matmul(views[0], ops.transpose(views[1])) / 0.5
        of_rows = ops.arange(ops.shape(rows)[0])
        return ops.mean(keras.losses.sparse_categorical_crossentropy(of_rows, similarities, from_logits=True))

    def train_step(self, rows):
        with GradientTape() as tape:
            loss = self._loss(rows, training=True)
        self.optimizer.apply_gradients(
            zip(tape.gradient(loss, self.trainable_variables), self.trainable_variables, strict=True)
        )
        self.contrast_loss.update_state(loss)
        return {"loss": self.contrast_loss.result()}

    def test_step(self, rows):
        self.contrast_loss.update_state(self._loss(rows, training=True))
        return {"loss": self.contrast_loss.result()}

    def predict_step(self, rows):
        return self.encoder(rows)


def compiled(kind, **arguments):
    """A compiled model, the same one each time."""
    keras.utils.set_random_seed(7)
    model = KINDS[kind]()
    if kind == "GAN":
        loss = keras.losses.BinaryCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(0.01), keras.optimizers.RMSprop(0.005), loss, **arguments)
    elif kind == "classifier":
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(
            keras.optimizers.Adam(0.01),
            loss,
            metrics=["accuracy"],
            weighted_metrics=["accuracy"],
            **arguments,
        )
    else:
        model.compile(optimizer=keras.optimizers.SGD(0.05, momentum=0.9), **arguments)
    return model


KINDS = {"classifier": OwnClassifier, "GAN": GAN, "VAE": VAE, "contrastive": Contrastive}


def data_of(kind):
    """What fit and evaluate are given."""
    given = {"x": X[:ROWS], "batch_size": BATCH}
    if kind == "classifier":
        given |= {"y": Y[:ROWS], "sample_weight": WEIGHTS[:ROWS]}
    return given


def outcome(strategy, kind, **arguments):
    """Train by fit, evaluate and predict, and say all that came of it, as JSON."""
    with strategy.scope():
        model = compiled(kind, **arguments)
    return trained(model, kind)


def trained(model, kind, **arguments):
    """Train a model as `outcome` does."""
    losses = Losses()
    given = data_of(kind)
    validation = tuple(given[name] for name in ("x", "y", "sample_weight") if name in given)
    history = model.fit(
        **given,
        epochs=EPOCHS,
        shuffle=False,
        verbose=0,
        callbacks=[losses],
        validation_data=validation if kind == "classifier" else X[:40],
        **arguments,
    ).history
    evaluated = model.evaluate(**given, verbose=0, return_dict=True)
    predicted = model.predict(X[:ROWS], batch_size=BATCH, verbose=0)
    return {
        "losses": losses.losses,
        "history": {name: list(map(float, values)) for name, values in history.items()},
        "evaluated": {name: float(value) for name, value in evaluated.items()},
        "predicted": predicted.tolist(),
        "weights": [np.asarray(each).tolist() for each in all_values(model)],
    }


def all_values(model):
    """The values of a model's weights and of all of its optimizers."""
    names = ("d_optimizer", "g_optimizer") if isinstance(model, GAN) else ("optimizer",)
    optimizers = [getattr(model, name) for name in names]
    return [v.value for v in [*model.weights, *[v for each in optimizers for v in each.variables]]]


def check_outcome(found, expected):
    """Compare two outcomes, up to rounding."""
    assert found.keys() == expected.keys()
    np.testing.assert_allclose(found["losses"], expected["losses"], rtol=1e-4, atol=1e-5)
    for part in ("history", "evaluated"):
        assert found[part].keys() == expected[part].keys()
        for name, values in expected[part].items():
            np.testing.assert_allclose(found[part][name], values, rtol=1e-4, atol=2e-5, err_msg=name)
    np.testing.assert_allclose(found["predicted"], expected["predicted"], rtol=2e-4, atol=5e-5)
    for one, other in zip(found["weights"], expected["weights"], strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=5e-5)
