"""A classifier of signals: a GRU over sequences of 200 steps with 32 features."""

import numpy as np
from bench.cases._shared import Layer, dense, start

BATCH = 64
STEPS = 20
LEARNING_RATE = 0.1
LENGTH = 200
FEATURES = 32
UNITS = 64
LAYERS = (
    Layer(
        multiply_adds=BATCH * LENGTH * (FEATURES + UNITS) * 3 * UNITS,
        inputs=BATCH * LENGTH * FEATURES,
        outputs=BATCH * LENGTH * 4 * UNITS,  # two gates, the candidate and the output of each step
        weights=(FEATURES + UNITS) * 3 * UNITS,
    ),
    dense(BATCH, UNITS, 2),
)


def data(batches):
    rng = np.random.default_rng(0)
    signals = rng.standard_normal((batches * BATCH, LENGTH, FEATURES), np.float32)
    labels = (signals[:, -10:, 0].sum(axis=1) > 0).astype(np.int32)
    return signals, labels


def keras_model(keras):
    layers = keras.layers
    return keras.Sequential(
        [
            layers.GRU(UNITS, kernel_initializer=start(1), recurrent_initializer=start(2)),
            layers.Dense(2, kernel_initializer=start(3)),
        ]
    )


def torch_model(torch, load):
    nn = torch.nn

    def gates_in_order(kernel):
        """Bring Keras' gates for the update and the reset into PyTorch's order, which has the reset first."""
        update, reset, candidate = np.split(kernel, 3, axis=1)
        return torch.tensor(np.concatenate([reset, update, candidate], axis=1).T.copy())

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.gru = nn.GRU(FEATURES, UNITS, batch_first=True)
            self.logits = load(nn.Linear(UNITS, 2), start(3)((UNITS, 2)))
            with torch.no_grad():
                self.gru.weight_ih_l0.copy_(gates_in_order(start(1)((FEATURES, 3 * UNITS))))
                self.gru.weight_hh_l0.copy_(gates_in_order(start(2)((UNITS, 3 * UNITS))))
                self.gru.bias_ih_l0.zero_()
                self.gru.bias_hh_l0.zero_()

        def forward(self, signals):
            outputs, _ = self.gru(signals)
            return self.logits(outputs[:, -1])

    return Net()
