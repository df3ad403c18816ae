"""Classify irises by a training loop in eager code, with metrics of the epoch and an evaluation."""

import numpy as np
from sklearn.datasets import load_iris

import muster_tensorflow as tf

tf.keras.utils.set_random_seed(3)
flowers = load_iris()
order = np.random.default_rng(0).permutation(len(flowers.target))
features, labels = flowers.data[order].astype(np.float32), flowers.target[order]
train_dataset = tf.data.Dataset.from_tensor_slices((features[:120], labels[:120]))
train_dataset = train_dataset.shuffle(120, seed=1).batch(32)
test_dataset = tf.data.Dataset.from_tensor_slices((features[120:], labels[120:])).batch(30)

model = tf.keras.Sequential(
    [
        tf.keras.layers.Dense(10, activation=tf.nn.relu, input_shape=(4,)),
        tf.keras.layers.Dense(10, activation=tf.nn.relu),
        tf.keras.layers.Dense(3),
    ]
)
loss_object = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

first_features, first_labels = next(iter(train_dataset))
predictions = model(first_features)
assert predictions.shape.as_list() == [32, 3]
print("predicted:", tf.argmax(predictions, axis=1).numpy()[:5], "labels:", first_labels.numpy()[:5])
np.testing.assert_allclose(tf.reduce_sum(tf.nn.softmax(predictions[:5]), axis=1).numpy(), 1, rtol=1e-5)


def loss(model, x, y, training):
    return loss_object(y_true=y, y_pred=model(x, training=training))


def grad(model, inputs, targets):
    with tf.GradientTape() as tape:
        loss_value = loss(model, inputs, targets, training=True)
    return loss_value, tape.gradient(loss_value, model.trainable_variables)


optimizer = tf.keras.optimizers.Adam(learning_rate=0.02)
loss_value, grads = grad(model, first_features, first_labels)
print(f"step {optimizer.iterations.numpy()}, first loss {loss_value.numpy():.4f}")
optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
assert optimizer.iterations.numpy() == 1
assert loss(model, first_features, first_labels, training=True).numpy() < loss_value.numpy()

train_losses = []
for epoch in range(31):
    epoch_loss = tf.keras.metrics.Mean()
    epoch_accuracy = tf.keras.metrics.SparseCategoricalAccuracy()
    for x, y in train_dataset:
        loss_value, grads = grad(model, x, y)
        optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
        epoch_loss.update_state(loss_value)
        epoch_accuracy.update_state(y, model(x, training=True))
    train_losses.append(epoch_loss.result().numpy())
    if epoch % 10 == 0:
        print(f"Epoch {epoch:03d}: Loss: {epoch_loss.result():.3f}, Accuracy: {epoch_accuracy.result():.3%}")
assert train_losses[-1] < train_losses[0] / 3

test_accuracy = tf.keras.metrics.Accuracy()
for x, y in test_dataset:
    prediction = tf.math.argmax(model(x, training=False), axis=1, output_type=tf.int64)
    test_accuracy(prediction, y)
print(f"Test set accuracy: {test_accuracy.result():.3%}")
assert test_accuracy.result().numpy() > 0.85

new = tf.convert_to_tensor([[5.1, 3.3, 1.7, 0.5], [6.9, 3.1, 5.4, 2.1]])
for i, logits in enumerate(model(new, training=False)):
    index = tf.math.argmax(logits).numpy()
    share = tf.nn.softmax(logits)[index]
    print(f"Example {i} prediction: {flowers.target_names[index]} ({100 * share:4.1f}%)")
assert tf.math.argmax(model(new), axis=1).numpy().tolist() == [0, 2]
print("ok")
