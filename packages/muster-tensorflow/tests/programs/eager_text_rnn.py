"""Generate text by a recurrent network of characters: an eager train_step, then sampling letter by letter."""

import numpy as np

import muster_tensorflow as tf

tf.keras.utils.set_random_seed(7)
text = "the cat sat on the mat. the dog sat on the log. " * 20
vocab = sorted(set(text))
char2idx = {letter: i for i, letter in enumerate(vocab)}
idx2char = np.array(vocab)
text_as_int = np.array([char2idx[c] for c in text])
SEQ_LENGTH, BATCH_SIZE, RNN_UNITS = 24, 8, 48

char_dataset = tf.data.Dataset.from_tensor_slices(text_as_int)
for i in char_dataset.take(3):
    print(idx2char[i.numpy()], end=" ")
sequences = char_dataset.batch(SEQ_LENGTH + 1, drop_remainder=True)
for item in sequences.take(2):
    print(repr("".join(idx2char[item.numpy()])))


def split_input_target(chunk):
    return chunk[:-1], chunk[1:]


dataset = sequences.map(split_input_target).shuffle(100, seed=1).batch(BATCH_SIZE, drop_remainder=True)


class MyModel(tf.keras.Model):
    def __init__(self, vocab_size, embedding_dim, rnn_units):
        super().__init__()
        self.embedding = tf.keras.layers.Embedding(vocab_size, embedding_dim)
        self.gru = tf.keras.layers.GRU(rnn_units, return_sequences=True, return_state=True)
        self.dense = tf.keras.layers.Dense(vocab_size)

    def call(self, inputs, states=None, return_state=False, training=False):
        x = self.embedding(inputs, training=training)
        x, states = self.gru(x, initial_state=states, training=training)
        x = self.dense(x, training=training)
        return (x, states) if return_state else x


model = MyModel(len(vocab), 16, RNN_UNITS)
for inputs, _ in dataset.take(1):
    predictions = model(inputs)
    assert predictions.shape == (BATCH_SIZE, SEQ_LENGTH, len(vocab))
    assert predictions.shape[1:].as_list() == [SEQ_LENGTH, len(vocab)]

loss_object = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.Adam(0.02)


def train_step(inputs, targets):
    with tf.GradientTape() as tape:
        loss = loss_object(targets, model(inputs, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    gradients, _ = tf.clip_by_global_norm(gradients, 5.0)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return {"loss": loss}


means = []
for epoch in range(6):
    mean = tf.metrics.Mean()
    for batch_n, (inputs, targets) in enumerate(dataset):
        logs = train_step(inputs, targets)
        mean.update_state(logs["loss"])
        if batch_n % 50 == 0:
            print(f"Epoch {epoch + 1} Batch {batch_n} Loss {logs['loss']:.4f}")
    means.append(mean.result().numpy())
assert means[0] > 1.5
assert means[-1] < 0.8, means

states, next_char = None, tf.constant([[char2idx["t"]]])
generated = ["t"]
for _ in range(40):
    logits, states = model(next_char, states=states, return_state=True)
    index = tf.argmax(logits[:, -1, :], axis=-1)
    next_char = tf.expand_dims(index, 0)
    generated.append(idx2char[index.numpy()[0]])
print("".join(generated))
assert "the" in "".join(generated)
print("ok")
