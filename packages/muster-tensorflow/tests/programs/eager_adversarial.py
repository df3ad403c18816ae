"""Deceive a classifier by the sign of the loss's gradient with respect to the image."""

import numpy as np
from sklearn.datasets import load_digits

import muster_tensorflow as tf

tf.keras.utils.set_random_seed(1)
images, labels = load_digits(return_X_y=True)
images = (images / 16.0).astype("float32").reshape(-1, 8, 8, 1)

pretrained_model = tf.keras.Sequential(
    [
        tf.keras.layers.Conv2D(8, 3, activation="relu"),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(10, activation="softmax"),
    ]
)
optimizer = tf.keras.optimizers.Adam(0.01)
pretrained_model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
pretrained_model.fit(images[:1500], labels[:1500], epochs=8, batch_size=50, verbose=0)
pretrained_model.trainable = False

loss_object = tf.keras.losses.CategoricalCrossentropy()


def create_adversarial_pattern(input_image, input_label):
    with tf.GradientTape() as tape:
        tape.watch(input_image)
        prediction = pretrained_model(input_image)
        loss = loss_object(input_label, prediction)
    gradient = tape.gradient(loss, input_image)
    signed_grad = tf.sign(gradient)
    return signed_grad


image = tf.convert_to_tensor(images[1500:1501])
probabilities = pretrained_model.predict(image, verbose=0)
label = tf.one_hot(int(labels[1500]), probabilities.shape[-1])
label = tf.reshape(label, (1, probabilities.shape[-1]))
perturbations = create_adversarial_pattern(image, label)
assert set(np.unique(perturbations.numpy())) <= {-1.0, 0.0, 1.0}

confidences = []
for eps in (0, 0.05, 0.15, 0.3):
    adversarial = tf.clip_by_value(image + eps * perturbations, 0, 1)
    found = pretrained_model.predict(adversarial, verbose=0)
    confidences.append(found[0, labels[1500]])
    print(f"epsilon = {eps:0.2f}: {found[0].argmax()}, {found[0].max() * 100:.1f} % sure")
assert confidences[0] > 0.5
assert confidences[-1] < confidences[0] / 2, confidences

# Batches of a dataset can be watched as they are.
dataset = tf.data.Dataset.from_tensor_slices((images[1500:], labels[1500:])).batch(99)
before, after, total = 0, 0, 0
for batch, truth in dataset:
    pattern = create_adversarial_pattern(batch, tf.one_hot(truth, 10))
    moved = tf.clip_by_value(batch + 0.2 * pattern, 0, 1)
    before += int(np.sum(np.argmax(pretrained_model(batch).numpy(), axis=1) == truth.numpy()))
    after += int(np.sum(np.argmax(pretrained_model(moved).numpy(), axis=1) == truth.numpy()))
    total += len(truth)
print(f"accuracy {before / total:.2f}, on changed images {after / total:.2f}")
assert total == 297
assert before / total > 0.8
assert after < before / 2
print("ok")
