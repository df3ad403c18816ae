"""The residual network and the transformer of ``bench.gpu``, in Keras and in PyTorch, with their sizes.

Both compute in bfloat16 and keep their weights in float32. Importing this needs neither library.
"""

import dataclasses
import math
from typing import Any

import numpy as np
from bench.cases import resnet


@dataclasses.dataclass(frozen=True, kw_only=True)
class ResidualNetwork:
    """ResNet-18 as it is used for colour images of 32 by 32 pixels, on one batch that stays on the device."""

    batch: int = 256
    widths: tuple[int, ...] = (64, 64, 128, 128, 256, 256, 512, 512)
    steps: int = 60

    def data(self) -> tuple[Any, Any]:
        rng = np.random.default_rng(0)
        labels = rng.integers(0, 10, self.batch).astype(np.int32)
        images = rng.standard_normal((self.batch, 32, 32, 3), np.float32)
        return images + rng.standard_normal((10, 1, 1, 3), np.float32)[labels], labels

    def keras_model(self, keras: Any) -> Any:
        return resnet.keras_model(keras, self.widths)

    def keras_optimizer(self, keras: Any) -> Any:
        return keras.optimizers.SGD(0.01, momentum=0.9)

    def torch_model(self, torch: Any, load: Any) -> Any:
        return resnet.torch_model(torch, load, self.widths)

    def torch_optimizer(self, torch: Any, parameters: Any, fused: bool) -> Any:
        return torch.optim.SGD(parameters, 0.01, momentum=0.9, fused=fused)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Transformer:
    """A decoder that predicts the next token, on one batch that stays on the device."""

    batch: int = 16
    length: int = 512
    words: int = 16384
    width: int = 512
    heads: int = 8
    layers: int = 6
    steps: int = 60

    def data(self) -> tuple[Any, Any]:
        tokens = np.random.default_rng(0).integers(0, self.words, (self.batch, self.length + 1))
        return tokens[:, :-1].astype(np.int32), tokens[:, 1:].astype(np.int32)

    def keras_model(self, keras: Any) -> Any:
        layers, ops, sizes = keras.layers, keras.ops, self
        drawn = keras.initializers.RandomNormal(stddev=0.02, seed=1)

        class Block(layers.Layer):
            def __init__(self) -> None:
                super().__init__()
                self.norms = [layers.LayerNormalization(epsilon=1e-5) for _ in range(2)]
                self.attention = layers.MultiHeadAttention(sizes.heads, sizes.width // sizes.heads)
                self.wide = layers.Dense(4 * sizes.width, activation="gelu")
                self.narrow = layers.Dense(sizes.width)

            def build(self, shape: Any) -> None:
                for norm in self.norms:
                    norm.build(shape)
                self.attention.build(shape, shape)
                self.wide.build(shape)
                self.narrow.build((*shape[:-1], 4 * sizes.width))

            def call(self, x: Any) -> Any:
                normed = self.norms[0](x)
                x = x + self.attention(normed, normed, use_causal_mask=True)
                return x + self.narrow(self.wide(self.norms[1](x)))

        class Decoder(keras.Model):
            def __init__(self) -> None:
                super().__init__()
                self.tokens = layers.Embedding(sizes.words, sizes.width, drawn)
                self.places = layers.Embedding(sizes.length, sizes.width, drawn)
                self.blocks = [Block() for _ in range(sizes.layers)]
                self.norm = layers.LayerNormalization(epsilon=1e-5)
                self.logits = layers.Dense(sizes.words, use_bias=False, kernel_initializer=drawn)

            def call(self, tokens: Any, training: bool = False) -> Any:
                x = self.tokens(tokens) + self.places(ops.arange(sizes.length))
                for block in self.blocks:
                    x = block(x)
                return self.logits(self.norm(x))

        model = Decoder()
        model(keras.Input((self.length,), dtype="int32"))  # builds it
        return model

    def keras_optimizer(self, keras: Any) -> Any:
        return keras.optimizers.Adam(1e-4)

    def torch_model(self, torch: Any, load: Any) -> Any:
        nn, sizes = torch.nn, self

        class Block(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.norms = nn.ModuleList(nn.LayerNorm(sizes.width) for _ in range(2))
                self.inward = nn.Linear(sizes.width, 3 * sizes.width)
                self.outward = nn.Linear(sizes.width, sizes.width)
                self.wide = nn.Linear(sizes.width, 4 * sizes.width)
                self.narrow = nn.Linear(4 * sizes.width, sizes.width)

            def forward(self, x: Any) -> Any:
                split = (len(x), sizes.length, 3, sizes.heads, sizes.width // sizes.heads)
                asked = self.inward(self.norms[0](x)).view(split).permute(2, 0, 3, 1, 4)
                seen = nn.functional.scaled_dot_product_attention(*asked, is_causal=True)
                x = x + self.outward(seen.transpose(1, 2).reshape(x.shape))
                return x + self.narrow(nn.functional.gelu(self.wide(self.norms[1](x))))

        class Decoder(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.tokens = nn.Embedding(sizes.words, sizes.width)
                self.places = nn.Embedding(sizes.length, sizes.width)
                self.blocks = nn.ModuleList(Block() for _ in range(sizes.layers))
                self.norm = nn.LayerNorm(sizes.width)
                self.logits = nn.Linear(sizes.width, sizes.words, bias=False)

            def forward(self, tokens: Any) -> Any:
                x = self.tokens(tokens) + self.places(torch.arange(sizes.length, device=tokens.device))
                for block in self.blocks:
                    x = block(x)
                return self.logits(self.norm(x))

        model = Decoder()
        for table in (model.tokens, model.places, model.logits):
            nn.init.normal_(table.weight, std=0.02)
        return model

    def torch_optimizer(self, torch: Any, parameters: Any, fused: bool) -> Any:
        return torch.optim.Adam(parameters, 1e-4, fused=fused)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GuidesNetwork:
    """The CNN of TensorFlow's guide to Estimators, which it trains on MNIST."""

    batch: int = 100
    hidden: int = 1024
    batches: int = 200
    steps: int = 500
    rate: float = 0.001

    def data(self) -> tuple[Any, Any]:
        rng = np.random.default_rng(0)
        images = rng.random((self.batch * self.batches, 28, 28, 1), np.float32)
        return images, rng.integers(0, 10, len(images)).astype(np.int32)

    def keras_model(self, keras: Any) -> Any:
        layers = keras.layers
        return keras.Sequential(
            [
                keras.Input((28, 28, 1)),
                layers.Conv2D(32, 5, padding="same", activation="relu"),
                layers.MaxPooling2D(2),
                layers.Conv2D(64, 5, padding="same", activation="relu"),
                layers.MaxPooling2D(2),
                layers.Flatten(),
                layers.Dense(self.hidden, activation="relu"),
                layers.Dropout(0.4),
                layers.Dense(10),
            ]
        )

    def keras_optimizer(self, keras: Any) -> Any:
        return keras.optimizers.SGD(self.rate)

    def torch_model(self, torch: Any, load: Any) -> Any:
        nn = torch.nn
        return nn.Sequential(
            nn.Conv2d(1, 32, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(7 * 7 * 64, self.hidden),
            nn.ReLU(),
            nn.Dropout(0.4),
            nn.Linear(self.hidden, 10),
        )

    def torch_optimizer(self, torch: Any, parameters: Any, fused: bool) -> Any:
        return torch.optim.SGD(parameters, self.rate, fused=fused)


FULL = {"cnn": GuidesNetwork(), "resnet": ResidualNetwork(), "transformer": Transformer()}
SMALL = {
    "cnn": GuidesNetwork(batch=2, hidden=8, batches=4, steps=2),
    "resnet": ResidualNetwork(batch=2, widths=(4,), steps=1),
    "transformer": Transformer(batch=1, length=8, words=16, width=8, heads=2, layers=1, steps=1),
}


def net(name: str, size: str) -> Any:
    """Return a net, ``full`` or ``small``."""
    return (FULL if size == "full" else SMALL)[name]


def weights_of(model: Any) -> int:
    """Return how many numbers a Keras model trains."""
    return sum(math.prod(variable.shape) for variable in model.trainable_variables)
