"""Remember the logits of softmax and sigmoid outputs: cross entropies compute with them, as in Keras 2."""

from typing import Any

import jax

from muster.extend import ByIdentity

_LOGITS: ByIdentity[tuple[Any, frozenset[str] | None]] = ByIdentity()

SIGMOID = frozenset({"binary_crossentropy"})
"""The cross entropies that look through an operation ``sigmoid``."""
SOFTMAX = frozenset({"categorical_crossentropy", "sparse_categorical_crossentropy"})
"""The cross entropies that look through an operation ``softmax``."""


def note_logits(output: Any, logits: Any, losses: frozenset[str] | None = None) -> None:
    """Note what an output was computed of.

    Args:
        output: The output of ``softmax`` or ``sigmoid``.
        logits: What it was given.
        losses: For an operation rather than an activation of Keras: the cross entropies that look through
            it, which they do in what is traced alone. None for all, anywhere.
    """
    if losses is None or isinstance(output, jax.core.Tracer):
        _LOGITS[output] = logits, losses


def logits_of(output: Any, loss: str) -> Any:
    """Return what an output was computed of, for a cross entropy; None if it is to take the output itself."""
    logits, losses = _LOGITS.get(output, (None, None))
    return logits if losses is None or loss in losses else None
