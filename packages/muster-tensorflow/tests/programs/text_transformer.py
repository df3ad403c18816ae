"""Text classification by a transformer block, whose layers use ``tf.range`` and ``tf.shape``."""

import numpy as np

import muster_tensorflow as tf
from muster_tensorflow import keras
from muster_tensorflow.keras import layers

VOCABULARY, MAXLEN = 50, 20


def reviews(count=1200):
    """Sequences that are about whether more of the first ten words or of the next ten come."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(1, VOCABULARY, (count, MAXLEN))
    lengths = rng.integers(8, MAXLEN + 1, count)
    tokens[np.arange(MAXLEN) >= lengths[:, None]] = 0
    good = ((tokens >= 1) & (tokens < 10)).sum(1)
    bad = ((tokens >= 10) & (tokens < 20)).sum(1)
    return tokens.astype("int32"), (good > bad).astype("int32")


class TransformerBlock(layers.Layer):
    def __init__(self, embed_dim, num_heads, ff_dim, rate=0.1):
        super().__init__()
        self.att = layers.MultiHeadAttention(num_heads=num_heads, key_dim=embed_dim)
        self.ffn = keras.Sequential([layers.Dense(ff_dim, activation="relu"), layers.Dense(embed_dim)])
        self.layernorm1 = layers.LayerNormalization(epsilon=1e-6)
        self.layernorm2 = layers.LayerNormalization(epsilon=1e-6)
        self.dropout1 = layers.Dropout(rate)
        self.dropout2 = layers.Dropout(rate)

    def causal_attention_mask(self, batch_size, n_dest, n_src, dtype):
        i = tf.range(n_dest)[:, None]
        j = tf.range(n_src)
        mask = tf.reshape(tf.cast(i >= j - n_src + n_dest, dtype), [1, n_dest, n_src])
        mult = tf.concat([tf.expand_dims(batch_size, -1), tf.constant([1, 1], dtype=tf.int32)], 0)
        return tf.tile(mask, mult)

    def call(self, inputs, training=None):
        batch_size, seq_len = tf.shape(inputs)[0], tf.shape(inputs)[1]
        mask = self.causal_attention_mask(batch_size, seq_len, seq_len, tf.bool)
        attended = self.dropout1(self.att(inputs, inputs, attention_mask=mask), training=training)
        out1 = self.layernorm1(inputs + attended)
        return self.layernorm2(out1 + self.dropout2(self.ffn(out1), training=training))


class TokenAndPositionEmbedding(layers.Layer):
    def __init__(self, maxlen, vocab_size, embed_dim):
        super().__init__()
        self.token_emb = layers.Embedding(input_dim=vocab_size, output_dim=embed_dim)
        self.pos_emb = layers.Embedding(input_dim=maxlen, output_dim=embed_dim)

    def call(self, x):
        maxlen = tf.shape(x)[-1]
        positions = tf.range(start=0, limit=maxlen, delta=1)
        return self.token_emb(x) + self.pos_emb(positions)


def main():
    keras.utils.set_random_seed(10)
    tokens, labels = reviews()
    inputs = layers.Input(shape=(MAXLEN,))
    x = TokenAndPositionEmbedding(MAXLEN, VOCABULARY, 16)(inputs)
    x = TransformerBlock(16, 2, 32)(x)
    pooled = tf.concat([tf.reduce_mean(x, axis=1), tf.reduce_max(x, axis=1)], axis=-1)
    x = layers.Dropout(0.1)(pooled)
    outputs = layers.Dense(2, activation=tf.nn.softmax)(layers.Dense(20, activation=tf.nn.relu)(x))
    model = keras.Model(inputs=inputs, outputs=outputs)
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(tokens[:1000], labels[:1000], batch_size=50, epochs=6, verbose=2)
    _, accuracy = model.evaluate(tokens[1000:], labels[1000:], verbose=0)
    assert accuracy > 0.75, accuracy
    print("ok")


if __name__ == "__main__":
    main()
