"""A residual network of eight blocks with batch normalization, on colour images of 32 by 32 pixels."""

from bench.cases._shared import Layer, colour_images, conv, dense, start

BATCH = 32
STEPS = 15
LEARNING_RATE = 0.001
WIDTHS = (16, 16, 16, 32, 32, 32, 64, 64)  # of the blocks; one that widens halves the image
_MOMENTUM = 0.99
_EPSILON = 1e-3


def blocks(widths=WIDTHS):
    """Return each block's number, input size, input channels, width and stride."""
    found, size, channels = [], 32, widths[0]
    for number, width in enumerate(widths):
        stride = 1 if width == channels else 2
        found.append((number, size, channels, width, stride))
        size, channels = size // stride, width
    return found


def _layers():
    def norm(size, width):
        return Layer(inputs=BATCH * size * size * width, outputs=BATCH * size * size * width)

    yield from (conv(BATCH, 32, 3, 16, trains_input=False), norm(32, 16))
    for _, size, channels, width, stride in blocks():
        small = size // stride
        yield from (conv(BATCH, size, channels, width, stride=stride), norm(small, width))
        yield from (conv(BATCH, small, width, width), norm(small, width))
        if stride > 1:
            yield conv(BATCH, size, channels, width, kernel=1, stride=stride)
    yield dense(BATCH, WIDTHS[-1], 10)


LAYERS = tuple(_layers())


def data(batches):
    return colour_images(batches * BATCH)


def keras_model(keras, widths=WIDTHS):
    layers = keras.layers

    def conv_norm(x, seed, width, kernel, stride):
        x = layers.Conv2D(width, kernel, stride, "same", use_bias=False, kernel_initializer=start(seed))(x)
        return layers.BatchNormalization(momentum=_MOMENTUM, epsilon=_EPSILON)(x)

    inputs = keras.Input((32, 32, 3))
    x = layers.Activation("relu")(conv_norm(inputs, 1, widths[0], 3, 1))
    for number, _, _, width, stride in blocks(widths):
        seed, shortcut = 10 * (number + 1), x
        if stride > 1:
            shortcut = layers.Conv2D(width, 1, stride, kernel_initializer=start(seed))(x)
        x = layers.Activation("relu")(conv_norm(x, seed + 1, width, 3, stride))
        x = layers.Activation("relu")(layers.Add()([conv_norm(x, seed + 2, width, 3, 1), shortcut]))
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(10, kernel_initializer=start(2))(x))


def torch_model(torch, load, widths=WIDTHS):
    nn = torch.nn

    class ConvNorm(nn.Module):
        def __init__(self, seed, channels, width, stride):
            super().__init__()
            self.stride = stride
            unloaded = nn.Conv2d(channels, width, 3, stride, padding=1 if stride == 1 else 0, bias=False)
            self.conv = load(unloaded, start(seed)((3, 3, channels, width)))
            self.norm = nn.BatchNorm2d(width, eps=_EPSILON, momentum=1 - _MOMENTUM)

        def forward(self, x):
            if self.stride > 1:  # TensorFlow's "same" pads after the image alone
                x = nn.functional.pad(x, (0, 1, 0, 1))
            return self.norm(self.conv(x))

    class Block(nn.Module):
        def __init__(self, number, _, channels, width, stride):
            super().__init__()
            seed = 10 * (number + 1)
            self.one = ConvNorm(seed + 1, channels, width, stride)
            self.two = ConvNorm(seed + 2, width, width, 1)
            self.shortcut = nn.Identity()
            if stride > 1:
                unloaded = nn.Conv2d(channels, width, 1, stride)
                self.shortcut = load(unloaded, start(seed)((1, 1, channels, width)))

        def forward(self, x):
            return torch.relu(self.two(torch.relu(self.one(x))) + self.shortcut(x))

    return nn.Sequential(
        ConvNorm(1, 3, widths[0], 1),
        nn.ReLU(),
        *(Block(*block) for block in blocks(widths)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        load(nn.Linear(widths[-1], 10), start(2)((widths[-1], 10))),
    )
