"""Time the convolutions of ``resnet`` in muster or, if this Python has it, in PyTorch.

``python -m bench._peers.convolutions`` prints milliseconds for the forward pass, and for forward and backward
pass, of each 3x3 kernel alone, for a batch of 32 with channels last.
"""

import statistics
import time

import numpy as np

BATCH = 32
# size of the image, features, filters, size of the kernel, strides; and how often the model has it
SHAPES = {
    (32, 3, 16, 3, 1): 1,
    (32, 16, 16, 3, 1): 6,
    (32, 16, 32, 3, 2): 1,
    (16, 32, 32, 3, 1): 5,
    (16, 32, 64, 3, 2): 1,
    (8, 64, 64, 3, 1): 3,
}
ROUNDS, CALLS = 7, 40


def in_torch(size, features, filters, kernel, stride):
    """Return a function for the forward pass, and one for both passes."""
    inputs = torch.rand(BATCH, features, size, size).to(memory_format=torch.channels_last)
    layer = torch.nn.Conv2d(features, filters, kernel, stride, kernel // 2, bias=False)
    layer = layer.to(memory_format=torch.channels_last)
    inputs.requires_grad_(features > 3)
    gradient = torch.rand_like(layer(inputs))

    def forward():
        with torch.no_grad():
            layer(inputs)

    def both():
        layer(inputs).backward(gradient)
        inputs.grad = layer.weight.grad = None

    return forward, both


def in_muster(size, features, filters, kernel, stride):
    """Return a function for the forward pass, and one for both passes."""
    cpu.prepare()
    cpu.keep_memory()
    rng = np.random.default_rng(0)
    inputs = jax.device_put(rng.random((BATCH, size, size, features), np.float32))
    weights = jax.device_put(rng.random((kernel, kernel, features, filters), np.float32))

    def layer(weights, inputs):
        numbers = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(
            inputs, weights, (stride, stride), "SAME", dimension_numbers=numbers
        )

    gradient = jax.device_put(rng.random(jax.eval_shape(layer, weights, inputs).shape, np.float32))

    def backward(weights, inputs, gradient):
        if features > 3:
            outputs, pull_back = jax.vjp(layer, weights, inputs)
        else:
            outputs, pull_back = jax.vjp(lambda weights: layer(weights, inputs), weights)
        return outputs, pull_back(gradient)

    def ready(function, *args):
        lowered = jax.jit(function).lower(*args)
        compiled = lowered.compile(compiler_options=cpu.compiler_options(lowered.as_text()))
        return lambda: jax.block_until_ready(compiled(*args))

    return ready(layer, weights, inputs), ready(backward, weights, inputs, gradient)


def ms(call):
    """Return the median milliseconds of several rounds."""
    for _ in range(5):
        call()
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(CALLS):
            call()
        times.append((time.perf_counter() - began) / CALLS * 1e3)
    return statistics.median(times)


def main():
    """Print a table."""
    totals = np.zeros(2)
    print("| image, features, filters, kernel, strides | times | forward, ms | forward and backward, ms |")
    print("|---|---|---|---|")
    for shape, count in SHAPES.items():
        found = np.array([ms(call) for call in make(*shape)])
        totals += count * found
        print(f"| {', '.join(map(str, shape))} | {count} | {found[0]:.2f} | {found[1]:.2f} |")
    print(f"| all of them | | {totals[0]:.1f} | {totals[1]:.1f} |")


try:
    import torch

    make = in_torch
except ImportError:
    import jax

    from muster import cpu

    make = in_muster

if __name__ == "__main__":
    main()
