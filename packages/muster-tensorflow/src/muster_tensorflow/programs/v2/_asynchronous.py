"""``tf.experimental.async_scope``: JAX computes asynchronously anyway.

Source: tensorflow/python/eager/context.py.
"""

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def async_scope() -> Iterator[None]:
    """Run operations as they always run: an error is raised where a result is used."""
    yield


def async_clear_error() -> None:
    """Forget errors of operations, of which JAX keeps none."""
