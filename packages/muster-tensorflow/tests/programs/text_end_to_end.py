"""Classify texts by a recurrent model that reads them itself, and wrap a trained model to read raw text."""

import tempfile

import numpy as np

import muster_tensorflow as tf

tf.keras.utils.set_random_seed(2)
rng = np.random.default_rng(0)
GOOD = ["great", "lovely", "moving", "funny", "brilliant"]
BAD = ["dull", "awful", "slow", "boring", "poor"]
OTHER = ["the", "film", "was", "a", "story,", "actors", "scene!"]


def reviews(count):
    labels = rng.integers(0, 2, count)
    texts = [
        " ".join(rng.permutation([*rng.choice(OTHER, 8), *rng.choice(GOOD if y else BAD, 3)])) for y in labels
    ]
    return tf.data.Dataset.from_tensor_slices((texts, labels))


train_dataset = reviews(320).shuffle(320).batch(32).prefetch(tf.data.AUTOTUNE)
test_dataset = reviews(128).batch(32).prefetch(tf.data.AUTOTUNE)

encoder = tf.keras.layers.TextVectorization(max_tokens=1000)
encoder.adapt(train_dataset.map(lambda text, label: text))
vocab = np.array(encoder.get_vocabulary())
example = next(iter(train_dataset))[0]
encoded_example = encoder(example)[:3].numpy()
assert vocab[encoded_example[0][0]] == example[0].numpy().decode().split()[0].strip(",!")

model = tf.keras.Sequential(
    [
        encoder,
        tf.keras.layers.Embedding(input_dim=len(encoder.get_vocabulary()), output_dim=16, mask_zero=True),
        tf.keras.layers.Bidirectional(tf.keras.layers.LSTM(16)),
        tf.keras.layers.Dense(16, activation="relu"),
        tf.keras.layers.Dense(1),
    ]
)
model.compile(
    loss=tf.keras.losses.BinaryCrossentropy(from_logits=True),
    optimizer=tf.keras.optimizers.Adam(0.01),
    metrics=["accuracy"],
)
history = model.fit(train_dataset, epochs=4, validation_data=test_dataset, validation_steps=2, verbose=0)
loss, accuracy = model.evaluate(test_dataset, verbose=0)
print("accuracy", accuracy)
assert accuracy > 0.9
predictions = model.predict(np.array(["a great and funny film", "an awful, dull story"]), verbose=0)
assert predictions[0, 0] > 0 > predictions[1, 0]

# A functional model, whose part behind the texts is trained alone, and which is saved with its vocabulary.
inputs = tf.keras.Input(shape=(1,), dtype=tf.string, name="text")
x = tf.keras.layers.TextVectorization(output_mode="multi_hot", vocabulary=vocab[2:])(inputs)
bag = tf.keras.Model(inputs, tf.keras.layers.Dense(1, activation="sigmoid")(x))
bag.compile("adam", "binary_crossentropy", metrics=["accuracy"])
bag.fit(train_dataset, epochs=1, verbose=0)
with tempfile.TemporaryDirectory() as folder:
    bag.save(f"{folder}/bag.keras")
    loaded = tf.keras.models.load_model(f"{folder}/bag.keras")
np.testing.assert_allclose(
    loaded.predict(test_dataset, verbose=0), bag.predict(test_dataset, verbose=0), rtol=1e-5
)
print("ok")
