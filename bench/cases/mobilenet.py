"""A MobileNet of seven depthwise convolutions and as many pointwise, on colour images of 32 by 32 pixels."""

from bench.cases._shared import Layer, colour_images, conv, dense, start

BATCH = 32
STEPS = 15
LEARNING_RATE = 0.0003
WIDTH = 32  # of the first convolution
BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1))  # output features, strides
_MOMENTUM = 0.99
_EPSILON = 1e-3
_DEPTHWISE_SCALE = 1 / 3  # one divided by the root of its fan-in


def blocks():
    """Return each block's number, input size, input features, output features and strides."""
    size, features = 32, WIDTH
    for number, (width, stride) in enumerate(BLOCKS):
        yield number, size, features, width, stride
        size, features = size // stride, width


def _layers():
    def norm(size, width):
        return Layer(inputs=BATCH * size * size * width, outputs=BATCH * size * size * width)

    yield from (conv(BATCH, 32, 3, WIDTH, trains_input=False), norm(32, WIDTH))
    for _, size, features, width, stride in blocks():
        small = size // stride
        yield Layer(
            multiply_adds=BATCH * small * small * 9 * features,
            inputs=BATCH * size * size * features,
            outputs=BATCH * small * small * features,
            weights=9 * features,
        )
        yield from (norm(small, features), conv(BATCH, small, features, width, kernel=1), norm(small, width))
    yield dense(BATCH, BLOCKS[-1][0], 10)


LAYERS = tuple(_layers())


def data(batches):
    return colour_images(batches * BATCH)


def keras_model(keras):
    layers = keras.layers

    def normed(x):
        return layers.ReLU(6.0)(layers.BatchNormalization(momentum=_MOMENTUM, epsilon=_EPSILON)(x))

    inputs = keras.Input((32, 32, 3))
    x = normed(layers.Conv2D(WIDTH, 3, 1, "same", use_bias=False, kernel_initializer=start(1))(inputs))
    for number, _, _, width, stride in blocks():
        seed = 10 * (number + 1)
        depthwise = start(seed + 1, _DEPTHWISE_SCALE)
        x = layers.DepthwiseConv2D(3, stride, "same", use_bias=False, depthwise_initializer=depthwise)(x)
        x = layers.Conv2D(width, 1, use_bias=False, kernel_initializer=start(seed + 2))(normed(x))
        x = normed(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(10, kernel_initializer=start(2))(x))


def torch_model(torch, load):
    nn = torch.nn

    def normed(convolution):
        norm = nn.BatchNorm2d(convolution.out_channels, eps=_EPSILON, momentum=1 - _MOMENTUM)
        return convolution, norm, nn.ReLU6()

    def block(number, _, features, width, stride):
        seed = 10 * (number + 1)
        if stride > 1:  # TensorFlow's "same" pads after the image alone
            yield nn.ZeroPad2d((0, 1, 0, 1))
        padding = 1 if stride == 1 else 0
        depthwise = nn.Conv2d(features, features, 3, stride, padding, groups=features, bias=False)
        kernel = start(seed + 1, _DEPTHWISE_SCALE)((3, 3, features, 1))
        yield from normed(load(depthwise, kernel.swapaxes(2, 3)))
        pointwise = nn.Conv2d(features, width, 1, bias=False)
        yield from normed(load(pointwise, start(seed + 2)((1, 1, features, width))))

    return nn.Sequential(
        *normed(load(nn.Conv2d(3, WIDTH, 3, padding=1, bias=False), start(1)((3, 3, 3, WIDTH)))),
        *(layer for each in blocks() for layer in block(*each)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        load(nn.Linear(BLOCKS[-1][0], 10), start(2)((BLOCKS[-1][0], 10))),
    )
