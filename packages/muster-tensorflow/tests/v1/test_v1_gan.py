"""``tf.contrib.gan``: losses of outputs and of models, training steps, and the Estimator."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from v1_steps import outputs_of

import muster_tensorflow.compat.v1 as tf

tfgan = tf.contrib.gan
REAL, FAKE = np.array([1.5, -0.5], np.float32), np.array([0.5, 2.0], np.float32)
R, F = REAL.astype(float), FAKE.astype(float)


def entropy(logits: Any, labels: float) -> Any:
    return np.mean(np.log1p(np.exp(-logits)) + (1 - labels) * logits)


@pytest.mark.parametrize(
    ("kind", "of_generator", "of_discriminator"),
    [
        ("wasserstein", -F.mean(), F.mean() - R.mean()),
        ("modified", entropy(F, 1), entropy(R, 0.875) + entropy(F, 0)),
        ("minimax", -entropy(np.ones(2), 1) - entropy(F, 0), entropy(R, 0.875) + entropy(F, 0)),
        ("least_squares", ((F - 1) ** 2).mean() / 2, ((R - 1) ** 2).mean() / 2 + (F**2).mean() / 2),
    ],
)
def test_losses_are_those_of_the_papers(kind: str, of_generator: float, of_discriminator: float) -> None:
    wargs = tfgan.losses.wargs
    generator, discriminator = jax.jit(
        lambda: (
            getattr(wargs, f"{kind}_generator_loss")(FAKE),
            getattr(wargs, f"{kind}_discriminator_loss")(REAL, FAKE),
        )
    )()
    assert float(generator) == pytest.approx(of_generator, rel=1e-5)
    assert float(discriminator) == pytest.approx(of_discriminator, rel=1e-5)


def generator_fn(noise: Any) -> Any:
    return tf.layers.dense(noise, 1, name="g", kernel_initializer=tf.ones_initializer())


def discriminator_fn(data: Any, noise: Any) -> Any:
    return tf.layers.dense(data, 1, name="d", kernel_initializer=tf.ones_initializer())


def test_steps_of_both_networks_are_taken_from_one_model() -> None:
    def step(x: Any) -> dict[str, Any]:
        model = tfgan.gan_model(generator_fn, discriminator_fn, tf.ones([4, 1]) * 3, tf.ones([4, 1]))
        loss = tfgan.gan_loss(model, gradient_penalty_weight=10.0, gradient_penalty_target=3.0)
        sgd = tf.train.GradientDescentOptimizer(0.1)
        done = tfgan.gan_train_ops(model, loss, sgd, sgd)
        g, d = (model.generator_variables[0], model.discriminator_variables[0])
        losses = {"g_loss": loss.generator_loss, "d_loss": loss.discriminator_loss}
        assert "generator_wasserstein_loss/generator_wass_loss" in tf.summary.merge_all()
        return {"g": g[0, 0], "d": d[0, 0], "step": done.global_step_inc_op, **losses}

    found = {name: float(value) for name, value in outputs_of(step).items()}
    # The generator makes 1 of 1, and the discriminator returns what it gets: its slope is 1, and not 3.
    penalty = (1 / 3 - 1) ** 2
    assert found["g_loss"] == pytest.approx(-1)
    assert found["d_loss"] == pytest.approx(1 - 3 + 10 * penalty, rel=1e-4)
    assert found["g"] == pytest.approx(1 + 0.1)
    assert found["d"] == pytest.approx(1 - 0.1 * (1 - 3 + 20 * (1 / 3 - 1) / 3), rel=1e-4)
    assert found["step"] == 1


def test_an_estimator_trains_evaluates_and_generates(tmp_path: Path) -> None:
    def in_mode(noise: Any, mode: str) -> Any:
        assert mode in ("train", "eval", "infer")
        return generator_fn(noise)

    def estimator(folder: str, **options: Any) -> Any:
        return tfgan.estimator.GANEstimator(
            str(tmp_path / folder),
            generator_fn=in_mode,
            discriminator_fn=discriminator_fn,
            generator_loss_fn=tfgan.losses.least_squares_generator_loss,
            discriminator_loss_fn=tfgan.losses.least_squares_discriminator_loss,
            generator_optimizer=lambda: tf.train.GradientDescentOptimizer(0.1),
            discriminator_optimizer=tf.train.GradientDescentOptimizer(0.1),
            **options,
        )

    def input_fn() -> Any:
        noise = np.full([4, 1], 2.0, np.float32)
        return tf.data.Dataset.from_tensors((noise, noise + 1)).repeat()

    plain = estimator(
        "one", get_eval_metric_ops_fn=lambda model: {"made": tf.metrics.mean(model.generated_data)}
    )
    plain.train(input_fn, steps=1)
    assert plain.get_variable_value("global_step") == 1
    # Generated: 2 of 2. The generator's slope is (2 - 1) * 2, its bias' 1; then it makes 2 * 0.8 - 0.1.
    assert plain.get_variable_value("Generator/g/kernel") == pytest.approx(1 - 0.1 * 2)
    made = 2 * 0.8 - 0.1
    slope = (3 - 1) * 3 + made * made
    assert plain.get_variable_value("Discriminator/d/kernel") == pytest.approx(1 - 0.1 * slope, rel=1e-5)
    results = plain.evaluate(input_fn, steps=1)
    assert results["made"] == pytest.approx(made, rel=1e-5)
    assert results["loss"] == pytest.approx(results["generator_loss"] + results["discriminator_loss"])
    predicted = next(plain.predict(lambda: tf.data.Dataset.from_tensors(np.ones([2, 1], np.float32))))
    np.testing.assert_allclose(predicted, [0.8 - 0.1], rtol=1e-5)

    steps = tfgan.get_sequential_train_hooks(tfgan.GANTrainSteps(0, 2))
    twice = estimator("two", get_hooks_fn=steps)
    twice.train(input_fn, steps=1)
    assert twice.get_variable_value("Generator/g/kernel") == 1
    kernel, bias = 1.0, 0.0
    for _ in range(2):
        on_real, on_fake = kernel * 3 + bias - 1, kernel * 2 + bias
        kernel, bias = kernel - 0.1 * (on_real * 3 + on_fake * 2), bias - 0.1 * (on_real + on_fake)
    assert twice.get_variable_value("Discriminator/d/kernel") == pytest.approx(kernel, rel=1e-4)

    class Seen(tf.train.SessionRunHook):
        ended = False

        def end(self, session: Any) -> None:
            self.ended = True

    seen = Seen()
    joint = tfgan.get_joint_train_hooks(tfgan.GANTrainSteps(2, 1))
    both = estimator("three", get_hooks_fn=lambda train_ops: [*joint(train_ops), seen])
    both.train(input_fn, steps=1)
    assert seen.ended
    # Both are trained on what the first generator has made, and then the generator by the new discriminator.
    kernel, bias = 1 - 0.1 * ((3 - 1) * 3 + 2 * 2), -0.1 * ((3 - 1) + 2)
    assert both.get_variable_value("Discriminator/d/kernel") == pytest.approx(kernel, rel=1e-5)
    made = 2 * 0.8 - 0.1
    slope = (kernel * made + bias - 1) * kernel
    assert both.get_variable_value("Generator/g/kernel") == pytest.approx(0.8 - 0.1 * slope * 2, rel=1e-4)


def test_hooks_of_another_estimator_take_the_step_of_its_model_fn(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> Any:
        model = tfgan.gan_model(generator_fn, discriminator_fn, labels, features)
        sgd = tf.train.GradientDescentOptimizer(0.1)
        done = tfgan.gan_train_ops(model, tfgan.gan_loss(model), sgd, sgd)
        hooks = tfgan.get_sequential_train_hooks(params["steps"])(done)
        loss = model.discriminator_real_outputs[0, 0]
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, train_op=done.global_step_inc_op, training_hooks=hooks
        )

    data = tf.data.Dataset.from_tensors((np.ones([4, 1], np.float32), np.ones([4, 1], np.float32) * 3))
    params = {"steps": tfgan.GANTrainSteps(1, 1)}
    estimator = tf.estimator.Estimator(model_fn, str(tmp_path / "one"), params=params)
    estimator.train(lambda: data, steps=1)
    assert estimator.get_variable_value("Generator/g/kernel") == pytest.approx(1.1)
    params = {"steps": tfgan.GANTrainSteps(1, 5)}
    estimator = tf.estimator.Estimator(model_fn, str(tmp_path / "two"), params=params)
    with pytest.raises(ValueError, match="hooks cannot run 5: let .*GANEstimator take them"):
        estimator.train(lambda: data, steps=1)


def test_wrong_arguments_of_the_estimator() -> None:
    with pytest.raises(ValueError, match="generator_fn must be callable"):
        tfgan.estimator.GANEstimator()
    functions: Any = dict.fromkeys(
        ("generator_fn", "discriminator_fn", "generator_loss_fn", "discriminator_loss_fn"), generator_fn
    )
    idle = tfgan.estimator.GANEstimator(**functions, get_hooks_fn=lambda ops: [])
    with pytest.raises(ValueError, match="that take steps, returned"):
        idle.train(lambda: tf.data.Dataset.from_tensors((np.ones([1, 1]), np.ones([1, 1]))), steps=1)
    with pytest.raises(ValueError, match="use_loss_summaries must be"):
        tfgan.estimator.GANEstimator(**functions, use_loss_summaries="no")
    with pytest.raises(TypeError, match="must be one of tf.contrib.gan.estimator.SummaryType"):
        tfgan.estimator.GANEstimator(**functions, add_summaries=[1])


def test_summaries_of_a_model(tmp_path: Path) -> None:
    images = np.linspace(-1, 1, 5 * 4 * 3 * 1).reshape(5, 4, 3, 1).astype(np.float32)
    kinds = tfgan.estimator.SummaryType

    def draw(images: Any) -> Any:
        return tf.layers.conv2d(images, 1, 1, name="g", kernel_initializer=tf.ones_initializer())

    estimator = tfgan.estimator.GANEstimator(
        str(tmp_path),
        generator_fn=draw,
        discriminator_fn=lambda data, images: tf.layers.dense(tf.layers.flatten(data), 1, name="d"),
        generator_loss_fn=tfgan.losses.wasserstein_generator_loss,
        discriminator_loss_fn=tfgan.losses.wasserstein_discriminator_loss,
        generator_optimizer=tf.train.GradientDescentOptimizer(0.1),
        discriminator_optimizer=tf.train.GradientDescentOptimizer(0.1),
        add_summaries=[kinds.IMAGES, kinds.IMAGE_COMPARISON, kinds.NONE],
    )
    estimator.train(lambda: tf.data.Dataset.from_tensors((images, images)), steps=1)
    found = {
        value.tag: value.tensor
        for path in tmp_path.glob("events*")
        for event in tf.train.summary_iterator(str(path))
        for value in event.summary.value
    }
    histograms = {tag for tag in found if "_variables/" in tag}
    assert len(histograms) == 4, histograms
    # Five images lie in rows of four, and of three kinds there are two each.
    sizes = {name: found[name].string_val[:2] for name in ("real_data", "generated_data", "image_comparison")}
    assert sizes == {
        "real_data": [b"12", b"8"],
        "generated_data": [b"12", b"8"],
        "image_comparison": [b"6", b"12"],
    }
    real = tf.image.decode_png(found["real_data"].string_val[2])
    # The last number that is shown is 1, which is white, and 0 is grey, also where there is no image.
    assert int(real[7, 2, 0]) == 255
    assert int(real[7, 11, 0]) in (127, 128)
