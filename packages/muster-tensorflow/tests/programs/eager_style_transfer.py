"""Carry the style of one image over to another: gradients with respect to an image."""

import numpy as np

import muster_tensorflow as tf

tf.keras.utils.set_random_seed(4)
rng = np.random.default_rng(4)
rows, columns = np.mgrid[0:32, 0:32]
disc = ((rows - 16) ** 2 + (columns - 16) ** 2 < 80).astype("float32")
content_image = tf.constant(np.repeat(disc[None, ..., None], 3, axis=3))
stripes = (columns // 4 % 2).astype("float32")
style_image = tf.constant(np.stack([stripes, 1 - stripes, 0.5 * stripes], axis=-1)[None])


def features():
    inputs = tf.keras.Input((32, 32, 3))
    x = tf.keras.layers.Conv2D(8, 3, padding="same", activation="relu", name="block1")(inputs)
    x = tf.keras.layers.AveragePooling2D(2)(x)
    x = tf.keras.layers.Conv2D(16, 3, padding="same", activation="relu", name="block2")(x)
    return tf.keras.Model(inputs, x)


net = features()
net.trainable = False
style_layers, content_layers = ["block1"], ["block2"]
chosen = [net.get_layer(name).output for name in style_layers + content_layers]
extractor = tf.keras.Model([net.input], chosen)


def gram_matrix(input_tensor):
    result = tf.linalg.einsum("bijc,bijd->bcd", input_tensor, input_tensor)
    input_shape = tf.shape(input_tensor)
    num_locations = tf.cast(input_shape[1] * input_shape[2], tf.float32)
    return result / num_locations


def extract(image):
    outputs = extractor(image * 2.0 - 1.0)
    style, content = outputs[: len(style_layers)], outputs[len(style_layers) :]
    return {
        "style": dict(zip(style_layers, [gram_matrix(each) for each in style], strict=True)),
        "content": dict(zip(content_layers, content, strict=True)),
    }


style_targets = extract(style_image)["style"]
content_targets = extract(content_image)["content"]
for name, output in sorted(extract(content_image)["style"].items()):
    print(name, "shape:", output.numpy().shape, "min:", output.numpy().min(), "mean:", output.numpy().mean())


def style_content_loss(outputs):
    style = tf.add_n(
        [tf.reduce_mean((outputs["style"][name] - style_targets[name]) ** 2) for name in style_layers]
    )
    content = tf.add_n(
        [tf.reduce_mean((outputs["content"][name] - content_targets[name]) ** 2) for name in content_layers]
    )
    return style + 0.1 * content


def total_variation(image):
    x_var = image[:, :, 1:, :] - image[:, :, :-1, :]
    y_var = image[:, 1:, :, :] - image[:, :-1, :, :]
    return tf.reduce_mean(tf.abs(x_var)) + tf.reduce_mean(tf.abs(y_var))


def clip_0_1(image):
    return tf.clip_by_value(image, clip_value_min=0.0, clip_value_max=1.0)


opt = tf.keras.optimizers.Adam(learning_rate=0.02)


def train_step(image):
    with tf.GradientTape() as tape:
        loss = style_content_loss(extract(image)) + 0.01 * total_variation(image)
    grad = tape.gradient(loss, image)
    opt.apply_gradients([(grad, image)])
    image.assign(clip_0_1(image))
    return loss


image = tf.Variable(content_image)
losses = [train_step(image).numpy() for _ in range(25)]
print("losses:", losses[0], losses[-1])
assert losses[-1] < 0.7 * losses[0]
assert image.numpy().min() >= 0
assert image.numpy().max() <= 1
assert np.abs(image.numpy() - content_image.numpy()).max() > 0.05
assert net.trainable_variables == []
print("ok")
