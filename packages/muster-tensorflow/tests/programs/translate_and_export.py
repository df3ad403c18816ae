"""Translate number words by an encoder, a decoder with attention, and a loop in Python; export text to text."""

import os
import tempfile

import numpy as np

import muster_tensorflow as tf

tf.keras.utils.set_random_seed(5)
WORDS = {"one": "uno", "two": "due", "three": "tre", "four": "quattro", "five": "cinque"}


def pairs(count):
    rng = np.random.default_rng(count)
    sentences = [rng.choice(list(WORDS), rng.integers(1, 4)) for _ in range(count)]
    return [" ".join(s) for s in sentences], [" ".join(WORDS[w] for w in s) for s in sentences]


def standardize(text):
    text = tf.strings.lower(text)
    text = tf.strings.regex_replace(text, "[^ a-z]", "")
    return tf.strings.join(["[START]", tf.strings.strip(text), "[END]"], separator=" ")


context_raw, target_raw = pairs(256)
raw = tf.data.Dataset.from_tensor_slices((context_raw, target_raw)).shuffle(256).batch(32)
context_vectorizer = tf.keras.layers.TextVectorization(standardize=standardize, max_tokens=50, ragged=True)
context_vectorizer.adapt(raw.map(lambda context, target: context))
target_vectorizer = tf.keras.layers.TextVectorization(standardize=standardize, max_tokens=50, ragged=True)
target_vectorizer.adapt(raw.map(lambda context, target: target))


def prepare(context, target):
    context = context_vectorizer(context).to_tensor()
    target = target_vectorizer(target)
    return (context, target[:, :-1].to_tensor()), target[:, 1:].to_tensor()


train = raw.map(prepare, tf.data.AUTOTUNE)
UNITS = 24


class Encoder(tf.keras.layers.Layer):
    def __init__(self, vectorizer):
        super().__init__()
        self.vectorizer = vectorizer
        self.embedding = tf.keras.layers.Embedding(vectorizer.vocabulary_size(), UNITS, mask_zero=True)
        self.rnn = tf.keras.layers.Bidirectional(
            tf.keras.layers.GRU(UNITS, return_sequences=True), merge_mode="sum"
        )

    def call(self, x):
        return self.rnn(self.embedding(x))

    def convert_input(self, texts):
        texts = tf.convert_to_tensor(texts)
        if len(texts.shape) == 0:
            texts = tf.convert_to_tensor(texts)[tf.newaxis]
        return self(self.vectorizer(texts).to_tensor())


class Decoder(tf.keras.layers.Layer):
    def __init__(self, vectorizer):
        super().__init__()
        vocabulary = vectorizer.get_vocabulary()
        self.word_to_id = tf.keras.layers.StringLookup(
            vocabulary=vocabulary, mask_token="", oov_token="[UNK]"
        )
        self.id_to_word = tf.keras.layers.StringLookup(
            vocabulary=vocabulary, mask_token="", oov_token="[UNK]", invert=True
        )
        self.start, self.end = self.word_to_id("[START]"), self.word_to_id("[END]")
        self.embedding = tf.keras.layers.Embedding(vectorizer.vocabulary_size(), UNITS, mask_zero=True)
        self.rnn = tf.keras.layers.GRU(UNITS, return_sequences=True, return_state=True)
        self.attention = tf.keras.layers.MultiHeadAttention(1, UNITS)
        self.norm = tf.keras.layers.LayerNormalization()
        self.output_layer = tf.keras.layers.Dense(vectorizer.vocabulary_size())

    def call(self, context, x, state=None, return_state=False):
        x, state = self.rnn(self.embedding(x), initial_state=state)
        attended, scores = self.attention(query=x, value=context, return_attention_scores=True)
        self.last_scores = tf.reduce_mean(scores, axis=1)
        logits = self.output_layer(self.norm(x + attended))
        return (logits, state) if return_state else logits


class Translator(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = Encoder(context_vectorizer), Decoder(target_vectorizer)

    def call(self, inputs):
        context, x = inputs
        return self.decoder(self.encoder(context), x)

    def translate(self, texts, max_length=8):
        context = self.encoder.convert_input(texts)
        batch = tf.shape(context)[0]
        token = tf.fill([batch, 1], self.decoder.start)
        done, state = tf.zeros([batch, 1], dtype=tf.bool), tf.zeros([batch, UNITS])
        tokens = tf.TensorArray(tf.int64, size=1, dynamic_size=True)
        for t in tf.range(max_length):
            logits, state = self.decoder(context, token, state, return_state=True)
            token = tf.argmax(logits, axis=-1)
            done = done | (token == self.decoder.end)
            token = tf.where(done, tf.constant(0, dtype=tf.int64), token)
            tokens = tokens.write(t, token)
            if tf.reduce_all(done):
                break
        tokens = tf.transpose(tokens.stack(), [1, 2, 0])
        words = self.decoder.id_to_word(tf.squeeze(tokens, 1))
        return tf.strings.strip(tf.strings.reduce_join(words, axis=-1, separator=" "))


def masked_loss(y_true, y_pred):
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")(y_true, y_pred)
    mask = tf.cast(y_true != 0, loss.dtype)
    return tf.reduce_sum(loss * mask) / tf.reduce_sum(mask)


def masked_acc(y_true, y_pred):
    match = tf.cast(y_true == tf.cast(tf.argmax(y_pred, axis=-1), y_true.dtype), tf.float32)
    mask = tf.cast(y_true != 0, tf.float32)
    return tf.reduce_sum(match * mask) / tf.reduce_sum(mask)


model = Translator()
model.compile(optimizer=tf.keras.optimizers.Adam(0.01), loss=masked_loss, metrics=[masked_acc, masked_loss])
history = model.fit(train.repeat(), epochs=4, steps_per_epoch=20, verbose=0)
assert history.history["masked_acc"][-1] > 0.95, history.history

texts = ["two one", "Three!", "five four two"]
print(model.translate(texts))


class Export(tf.Module):
    def __init__(self, model):
        self.model = model

    @tf.function(input_signature=[tf.TensorSpec(dtype=tf.string, shape=[None])])
    def translate(self, texts):
        return self.model.translate(texts)


export = Export(model)
before = export.translate(tf.constant(texts)).numpy().tolist()
folder = os.path.join(tempfile.mkdtemp(), "translator")
tf.saved_model.save(export, folder)
reloaded = tf.saved_model.load(folder)
after = reloaded.translate(tf.constant(texts)).numpy().tolist()
assert before == after
assert after[:2] == [b"due uno", b"tre"], after
print("ok")
