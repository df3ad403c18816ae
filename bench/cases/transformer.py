"""A text classifier: an encoder of six transformer layers of 128 features, 128 words, without dropout."""

import numpy as np
from bench.cases._shared import Layer, dense, embedding, start

BATCH = 16
STEPS = 10
LEARNING_RATE = 0.05
VOCABULARY = 20_000
LENGTH = 128
DEPTH = 6
UNITS = 128
HEADS = 4
INNER = 4 * UNITS
_TOKENS = BATCH * LENGTH
_EPSILON = 1e-5


def _layers():
    yield embedding(_TOKENS, UNITS)
    for _ in range(DEPTH):
        yield Layer(inputs=_TOKENS * UNITS, outputs=_TOKENS * UNITS)  # normalized
        yield from (dense(_TOKENS, UNITS, UNITS) for _ in range(3))
        for operands in (2, 1):  # queries with keys; scores with values
            yield Layer(
                multiply_adds=BATCH * LENGTH * LENGTH * UNITS,
                inputs=operands * _TOKENS * UNITS,
                outputs=_TOKENS * UNITS,  # scores are counted as fused
            )
        yield from (dense(_TOKENS, UNITS, UNITS), Layer(inputs=_TOKENS * UNITS, outputs=_TOKENS * UNITS))
        yield from (dense(_TOKENS, UNITS, INNER), dense(_TOKENS, INNER, UNITS))
    yield from (Layer(inputs=_TOKENS * UNITS, outputs=_TOKENS * UNITS), dense(BATCH, UNITS, 2))


LAYERS = tuple(_layers())


def data(batches):
    rng = np.random.default_rng(0)
    words = (rng.random((batches * BATCH, LENGTH)) ** 3 * VOCABULARY).astype(np.int32)
    labels = (rng.standard_normal(VOCABULARY)[words].sum(axis=1) > 0).astype(np.int32)
    return words, labels


def keras_model(keras):
    layers = keras.layers

    class Start(keras.initializers.Initializer):
        """`start` for the kernels of attention, which Keras makes a copy of for each."""

        def __init__(self, seed):
            self.seed = seed

        def __call__(self, shape, dtype=None, **kwargs):
            return start(self.seed, UNITS**-0.5)(shape)

        def get_config(self):
            return {"seed": self.seed}

    def norm(x):
        return layers.LayerNormalization(epsilon=_EPSILON)(x)

    words = keras.Input((LENGTH,), dtype="int32")
    x = layers.Embedding(VOCABULARY, UNITS, embeddings_initializer=start(1, 1.0))(words)
    for number in range(DEPTH):
        seed, y = 10 * (number + 1), norm(x)
        x += layers.MultiHeadAttention(HEADS, UNITS // HEADS, kernel_initializer=Start(seed + 1))(y, y)
        y = layers.Dense(INNER, "gelu", kernel_initializer=start(seed + 2))(norm(x))
        x += layers.Dense(UNITS, kernel_initializer=start(seed + 3))(y)
    x = layers.GlobalAveragePooling1D()(norm(x))
    return keras.Model(words, layers.Dense(2, kernel_initializer=start(2))(x))


def torch_model(torch, load):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, seed):
            super().__init__()
            self.norm_1, self.norm_2 = (nn.LayerNorm(UNITS, eps=_EPSILON) for _ in range(2))
            kernel = start(seed + 1, UNITS**-0.5)((UNITS, UNITS))
            self.joint = load(nn.Linear(UNITS, 3 * UNITS), np.concatenate([kernel] * 3, axis=1))
            self.output = load(nn.Linear(UNITS, UNITS), kernel)
            self.inner = load(nn.Linear(UNITS, INNER), start(seed + 2)((UNITS, INNER)))
            self.outer = load(nn.Linear(INNER, UNITS), start(seed + 3)((INNER, UNITS)))

        def forward(self, x):
            joint = self.joint(self.norm_1(x)).view(BATCH, LENGTH, 3, HEADS, -1)
            attended = nn.functional.scaled_dot_product_attention(*joint.permute(2, 0, 3, 1, 4))
            x = x + self.output(attended.transpose(1, 2).reshape(BATCH, LENGTH, UNITS))
            return x + self.outer(nn.functional.gelu(self.inner(self.norm_2(x))))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(VOCABULARY, UNITS, sparse=True)
            self.blocks = nn.Sequential(*(Block(10 * (number + 1)) for number in range(DEPTH)))
            self.norm = nn.LayerNorm(UNITS, eps=_EPSILON)
            self.logits = load(nn.Linear(UNITS, 2), start(2)((UNITS, 2)))
            with torch.no_grad():
                self.embedding.weight.copy_(torch.tensor(start(1, 1.0)((VOCABULARY, UNITS))))

        def forward(self, words):
            return self.logits(self.norm(self.blocks(self.embedding(words))).mean(1))

    return Net()
