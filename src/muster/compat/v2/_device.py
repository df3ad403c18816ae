"""``tf.device``: where eager computations run."""

import contextlib

import jax

from muster.distribute.strategies import device_of


def device(device_name: str | jax.Device | None) -> contextlib.AbstractContextManager[object]:
    """Make a device the default in a ``with`` block, for JAX's computations and Keras' variables.

    A compiled function runs where its strategy says. NumPy values stay on the host.

    Args:
        device_name: A TensorFlow device string such as ``"/GPU:0"``, or a ``jax.Device``; None changes
            nothing.

    Raises:
        RuntimeError: There is no such device.

    Source: tensorflow/python/framework/ops.py, ``device_v2``.
    """
    if device_name is None:
        return contextlib.nullcontext()
    try:
        device = device_of(device_name)
    except ValueError as exc:
        raise RuntimeError(str(exc)) from exc  # TensorFlow programs catch this error
    chosen: contextlib.AbstractContextManager[object] = jax.default_device(device)
    return chosen
