"""Log one line about a ``fit`` that Ctrl-C ended, instead of Keras' traceback."""

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import jax

from muster._interrupts import is_told, mark_told
from muster._keras import keras

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def told_of_interrupts(callbacks: Any) -> Iterator[None]:
    """Log in a line what Ctrl-C has ended in this block, which then ends the program without a traceback.

    Args:
        callbacks: The callbacks that ``fit`` was given.
    """
    try:
        yield
    except KeyboardInterrupt as exc:
        if not is_told(exc):
            _log.warning("%s", _what_is_left(callbacks))
            mark_told(exc)
        raise


def _what_is_left(callbacks: Any) -> str:
    for each in jax.tree.leaves(callbacks):
        if isinstance(each, keras.callbacks.BackupAndRestore):
            return f"Interrupted; run again to go on from the last backup in {each.backup_dir}."
    return "Interrupted: a new fit starts anew, for this one had no BackupAndRestore callback."
