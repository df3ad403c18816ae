"""Short texts in images, read by a recurrent network with a CTC loss that a layer adds."""

import numpy as np
from sklearn.datasets import load_digits

import muster_tensorflow as tf
from muster_tensorflow import keras
from muster_tensorflow.keras import layers

LENGTH, CLASSES = 3, 4  # three digits of 0 to 3


def captchas(count=800):
    data = load_digits()
    rng = np.random.default_rng(0)
    digits = [data.images[data.target == digit] / 16.0 for digit in range(CLASSES)]
    labels = rng.integers(0, CLASSES, (count, LENGTH))
    images = [
        np.concatenate([digits[digit][rng.integers(len(digits[digit]))] for digit in row], axis=1)
        for row in labels
    ]
    return np.stack(images)[..., None].astype("float32"), labels.astype("int32")


class CTCLayer(layers.Layer):
    def __init__(self, name=None):
        super().__init__(name=name)

    def call(self, y_true, y_pred):
        batch_len = tf.shape(y_true)[0]
        input_length = tf.shape(y_pred)[1] * tf.ones(shape=(batch_len,), dtype=tf.int32)
        label_length = tf.shape(y_true)[1] * tf.ones(shape=(batch_len,), dtype=tf.int32)
        loss = tf.nn.ctc_loss(
            labels=tf.cast(y_true, tf.int32),
            logits=tf.math.log(y_pred + 1e-7),
            label_length=label_length,
            logit_length=input_length,
            logits_time_major=False,
            blank_index=CLASSES,
        )
        self.add_loss(tf.reduce_mean(loss))
        return y_pred


def build_model():
    images = layers.Input(shape=(8, 8 * LENGTH, 1), name="image", dtype="float32")
    labels = layers.Input(name="label", shape=(LENGTH,), dtype="int32")
    x = layers.Conv2D(16, 3, activation="relu", padding="same")(images)
    x = layers.MaxPooling2D((2, 2))(x)
    x = tf.transpose(x, [0, 2, 1, 3])  # along the width
    x = layers.Reshape(target_shape=(4 * LENGTH, 4 * 16))(x)
    x = layers.Dense(32, activation="relu")(x)
    x = layers.Bidirectional(layers.LSTM(16, return_sequences=True))(x)
    x = layers.Dense(CLASSES + 1, activation="softmax", name="dense2")(x)
    output = CTCLayer(name="ctc_loss")(labels, x)
    return keras.models.Model(inputs=[images, labels], outputs=output, name="ocr")


def decoded(predictions):
    """Take the best class of each step, drop repetitions and then blanks."""
    texts = []
    for best in np.argmax(predictions, -1):
        kept = [best[0], *(each for before, each in zip(best, best[1:], strict=False) if each != before)]
        texts.append([int(each) for each in kept if each != CLASSES])
    return texts


def main():
    keras.utils.set_random_seed(8)
    images, labels = captchas()
    model = build_model()
    model.compile(optimizer=keras.optimizers.Adam(0.01))
    dataset = tf.data.Dataset.from_tensor_slices((images[:700], labels[:700]))
    dataset = dataset.map(lambda image, label: {"image": image, "label": label}).batch(50)
    history = model.fit(dataset, epochs=14, verbose=2).history["loss"]
    assert history[-1] < history[0] / 3, history

    reader = keras.models.Model(model.inputs[0], model.get_layer(name="dense2").output)
    read = decoded(reader.predict(images[700:], verbose=0))
    right = np.mean([one == list(other) for one, other in zip(read, labels[700:], strict=True)])
    print(f"{right:.2f} of the texts are right")
    assert right > 0.6, right
    print("ok")


if __name__ == "__main__":
    main()
