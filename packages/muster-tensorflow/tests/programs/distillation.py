"""Knowledge distillation: a student learns from a teacher, in a model's own steps with compile arguments."""

from sklearn.datasets import load_digits

import muster_tensorflow as tf
from muster_tensorflow import keras


class Distiller(keras.Model):
    def __init__(self, student, teacher):
        super().__init__()
        self.teacher = teacher
        self.student = student
        self.distillation_tracker = keras.metrics.Mean(name="distillation_loss")
        self.student_tracker = keras.metrics.Mean(name="student_loss")
        self.accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")

    def compile(self, optimizer, student_loss_fn, distillation_loss_fn, alpha=0.1, temperature=3):
        super().compile(optimizer=optimizer)
        self.student_loss_fn = student_loss_fn
        self.distillation_loss_fn = distillation_loss_fn
        self.alpha = alpha
        self.temperature = temperature

    @property
    def metrics(self):
        return [self.distillation_tracker, self.student_tracker, self.accuracy]

    def call(self, inputs):
        return self.student(inputs)

    def train_step(self, data):
        x, y = data
        teacher_predictions = self.teacher(x, training=False)
        with tf.GradientTape() as tape:
            student_predictions = self.student(x, training=True)
            student_loss = self.student_loss_fn(y, student_predictions)
            distillation_loss = (
                self.distillation_loss_fn(
                    tf.nn.softmax(teacher_predictions / self.temperature, axis=1),
                    tf.nn.softmax(student_predictions / self.temperature, axis=1),
                )
                * self.temperature**2
            )
            loss = self.alpha * student_loss + (1 - self.alpha) * distillation_loss
        trainable_vars = self.student.trainable_variables
        gradients = tape.gradient(loss, trainable_vars)
        self.optimizer.apply_gradients(zip(gradients, trainable_vars, strict=True))
        self.distillation_tracker.update_state(distillation_loss)
        self.student_tracker.update_state(student_loss)
        self.accuracy.update_state(y, student_predictions)
        return {metric.name: metric.result() for metric in self.metrics}

    def test_step(self, data):
        x, y = data
        predictions = self.student(x, training=False)
        self.student_tracker.update_state(self.student_loss_fn(y, predictions))
        self.accuracy.update_state(y, predictions)
        return {metric.name: metric.result() for metric in (self.student_tracker, self.accuracy)}


def network(name, width):
    return keras.Sequential(
        [
            keras.Input(shape=(8, 8, 1)),
            keras.layers.Conv2D(width, 3, padding="same"),
            keras.layers.LeakyReLU(0.2),
            keras.layers.MaxPooling2D(2),
            keras.layers.Flatten(),
            keras.layers.Dense(10),
        ],
        name=name,
    )


def main():
    keras.utils.set_random_seed(5)
    data = load_digits()
    images = (data.images[..., None] / 16.0).astype("float32")
    train, test = (images[:1400], data.target[:1400]), (images[1400:], data.target[1400:])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    teacher = network("teacher", 32)
    teacher.compile(keras.optimizers.Adam(0.005), loss, metrics=["accuracy"])
    teacher.fit(*train, epochs=6, verbose=2)
    before = [weight.copy() for weight in teacher.get_weights()]

    distiller = Distiller(network("student", 8), teacher)
    distiller.compile(
        optimizer=keras.optimizers.Adam(0.01),
        student_loss_fn=loss,
        distillation_loss_fn=keras.losses.KLDivergence(),
    )
    history = distiller.fit(*train, epochs=8, verbose=2).history
    assert history["distillation_loss"][-1] < history["distillation_loss"][0] / 3, history
    results = distiller.evaluate(*test, return_dict=True, verbose=0)
    assert results["accuracy"] > 0.8, results
    assert all((one == other).all() for one, other in zip(before, teacher.get_weights(), strict=True))
    print("ok")


if __name__ == "__main__":
    main()
