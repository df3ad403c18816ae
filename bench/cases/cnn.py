"""The CNN of TensorFlow's guide to Estimators, on images like MNIST's."""

import numpy as np
from bench.cases._shared import Layer, conv, dense, start

BATCH = 64
STEPS = 300
LEARNING_RATE = 0.05
LAYERS = (
    conv(BATCH, 28, 1, 32, padding="valid", trains_input=False),
    Layer(inputs=BATCH * 26 * 26 * 32, outputs=BATCH * 13 * 13 * 32),  # max pooling
    dense(BATCH, 5408, 64),
    dense(BATCH, 64, 10),
)


def data(batches):
    rng = np.random.default_rng(0)
    images = rng.random((batches * BATCH, 28, 28, 1), np.float32)
    labels = np.argmax(images.reshape(-1, 784) @ rng.standard_normal((784, 10), np.float32), axis=1)
    return images, labels.astype(np.int32)


def keras_model(keras):
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Conv2D(32, 3, activation="relu", kernel_initializer=start(1)),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu", kernel_initializer=start(2)),
            layers.Dense(10, kernel_initializer=start(3)),
        ]
    )


def torch_model(torch, load):
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = load(nn.Conv2d(1, 32, 3), start(1)((3, 3, 1, 32)))
            self.hidden = load(nn.Linear(5408, 64), _channels_first(start(2)((5408, 64))))
            self.logits = load(nn.Linear(64, 10), start(3)((64, 10)))

        def forward(self, images):
            x = nn.functional.max_pool2d(torch.relu(self.conv(images)), 2)
            return self.logits(torch.relu(self.hidden(x.flatten(1))))

    return Net()


def _channels_first(kernel):
    """Reorder the rows of the kernel after Keras' flattened (13, 13, 32) to PyTorch's (32, 13, 13)."""
    return kernel.reshape(13, 13, 32, 64).transpose(2, 0, 1, 3).reshape(5408, 64)
