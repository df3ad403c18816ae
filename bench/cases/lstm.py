"""A text classifier: an embedding of 20,000 words, and an LSTM over sequences of 100."""

import numpy as np
from bench.cases._shared import Layer, dense, embedding, start

BATCH = 64
STEPS = 40
LEARNING_RATE = 0.5
VOCABULARY = 20_000
LENGTH = 100
UNITS = 64
LAYERS = (
    embedding(BATCH * LENGTH, UNITS),
    Layer(
        multiply_adds=BATCH * LENGTH * 2 * UNITS * 4 * UNITS,
        inputs=BATCH * LENGTH * UNITS,
        outputs=BATCH * LENGTH * 6 * UNITS,  # four gates, the carry and the output of each step
        weights=2 * UNITS * 4 * UNITS,
    ),
    dense(BATCH, UNITS, 2),
)


def data(batches):
    rng = np.random.default_rng(0)
    words = (rng.random((batches * BATCH, LENGTH)) ** 3 * VOCABULARY).astype(np.int32)
    labels = (rng.standard_normal(VOCABULARY)[words[:, -10:]].sum(axis=1) > 0).astype(np.int32)
    return words, labels


def keras_model(keras):
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Embedding(VOCABULARY, UNITS, embeddings_initializer=start(1, 1.0)),
            layers.LSTM(UNITS, kernel_initializer=start(2), recurrent_initializer=start(3)),
            layers.Dense(2, kernel_initializer=start(4)),
        ]
    )


def torch_model(torch, load):
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(VOCABULARY, UNITS, sparse=True)
            self.lstm = nn.LSTM(UNITS, UNITS, batch_first=True)
            self.logits = load(nn.Linear(UNITS, 2), start(4)((UNITS, 2)))
            with torch.no_grad():
                self.embedding.weight.copy_(torch.tensor(start(1, 1.0)((VOCABULARY, UNITS))))
                self.lstm.weight_ih_l0.copy_(torch.tensor(start(2)((UNITS, 4 * UNITS)).T))
                self.lstm.weight_hh_l0.copy_(torch.tensor(start(3)((UNITS, 4 * UNITS)).T))
                # Both have the gates in the same order, and Keras' forget gate starts with a bias of one.
                self.lstm.bias_ih_l0.zero_()[UNITS : 2 * UNITS] = 1
                # Keras has one bias where PyTorch adds two, and both would learn.
                self.lstm.bias_hh_l0.zero_()
            self.lstm.bias_hh_l0.requires_grad_(False)

        def forward(self, words):
            outputs, _ = self.lstm(self.embedding(words))
            return self.logits(outputs[:, -1])

    return Net()
