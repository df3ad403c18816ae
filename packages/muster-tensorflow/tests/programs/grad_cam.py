"""Which part of an image a class comes from: gradients of a class by a layer's output, by a tape."""

import numpy as np

import muster_tensorflow as tf
from muster_tensorflow import keras
from muster_tensorflow.keras import layers


def squares(count=400):
    """Images with a bright or a striped square somewhere; the class says which."""
    rng = np.random.default_rng(0)
    images = rng.normal(0, 0.1, (count, 16, 16, 1)).astype("float32")
    labels = rng.integers(0, 2, count)
    corners = rng.integers(0, 10, (count, 2))
    for image, label, (row, column) in zip(images, labels, corners, strict=True):
        image[row : row + 6, column : column + 6] += 1.0 if label else 0.0
        image[row : row + 6 : 2, column : column + 6] += 0.0 if label else 1.0
    return images, labels, corners


def build_model():
    inputs = layers.Input((16, 16, 1))
    x = layers.Conv2D(16, 3, padding="same", activation="relu")(inputs)
    x = layers.Conv2D(16, 3, padding="same", activation="relu", name="last_conv")(x)
    return keras.Model(inputs, layers.Dense(2)(layers.GlobalAveragePooling2D()(x)))


def make_gradcam_heatmap(img_array, model, last_conv_layer_name):
    grad_model = keras.models.Model(
        model.inputs[0], [model.get_layer(last_conv_layer_name).output, model.outputs[0]]
    )

    @tf.function
    def heatmap(images):
        with tf.GradientTape() as tape:
            last_conv_layer_output, preds = grad_model(images)
            pred_index = tf.argmax(preds[0])
            class_channel = tf.gather(preds, pred_index, axis=1)
        grads = tape.gradient(class_channel, last_conv_layer_output)
        pooled_grads = tf.reduce_mean(grads, axis=(0, 1, 2))
        weighted = last_conv_layer_output[0] @ pooled_grads[..., tf.newaxis]
        weighted = tf.maximum(tf.squeeze(weighted), 0)
        return weighted / tf.math.reduce_max(weighted)

    return np.asarray(heatmap(img_array))


def main():
    keras.utils.set_random_seed(11)
    images, labels, corners = squares()
    model = build_model()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
    model.fit(images, labels, epochs=12, verbose=2)
    assert model.evaluate(images, labels, verbose=0)[1] > 0.9

    inside, outside = [], []
    for image, label, (row, column) in zip(images[:20], labels[:20], corners[:20], strict=True):
        if label:
            heat = make_gradcam_heatmap(image[None], model, "last_conv")
            assert heat.shape == (16, 16)
            part = heat[row : row + 6, column : column + 6]
            inside.append(part.mean())
            outside.append((heat.sum() - part.sum()) / (heat.size - part.size))
    assert np.mean(inside) > 2 * np.mean(outside), (inside, outside)
    print("ok")


if __name__ == "__main__":
    main()
