"""``tf.nn``: connectionist temporal classification (CTC) loss and decoders."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster import keras
from muster.data import SparseTensor
from muster.program import SparseRows
from muster_tensorflow.library.ops._arrays import ArrayLike, as_array
from muster_tensorflow.library.ops._operation import operation


@operation
def ctc_loss(
    labels: Any,
    logits: ArrayLike,
    label_length: ArrayLike | None,
    logit_length: ArrayLike,
    logits_time_major: bool = True,
    unique: None = None,
    blank_index: int | None = None,
    name: str | None = None,
) -> jax.Array:
    """Return the connectionist temporal classification loss of each example.

    Args:
        labels: Classes, shape (batch, most labels), or a sparse tensor of that shape.
        logits: Shape (steps, batch, classes); (batch, steps, classes) unless ``logits_time_major``.
        label_length: How many labels each example has, shape (batch,); None for those of a sparse tensor.
        logit_length: How many steps, likewise.
        logits_time_major: Whether the first axis counts steps.
        unique: Unused.
        blank_index: The class that stands for no label; None is 0.
        name: Unused.

    Source: tensorflow/python/ops/ctc_ops.py, ``ctc_loss_v3``.
    """
    scores = jnp.asarray(as_array(logits))
    scores = jnp.swapaxes(scores, 0, 1) if logits_time_major else scores
    blank = (blank_index or 0) % scores.shape[-1]
    if isinstance(labels, SparseRows):
        label_length, labels = labels.row_lengths, labels.by_rows(0)
    elif isinstance(labels, SparseTensor):
        label_length = np.bincount(labels.indices[:, 0], minlength=labels.dense_shape[0])
        labels = labels.to_dense()
    loss: jax.Array = keras.ops.ctc_loss(
        jnp.asarray(as_array(labels), jnp.int32),
        scores,
        jnp.asarray(as_array(label_length), jnp.int32),
        jnp.asarray(as_array(logit_length), jnp.int32),
        mask_index=blank,
    )
    return loss


def ctc_loss_of_sparse_labels(
    labels: Any,
    inputs: ArrayLike | None = None,
    sequence_length: ArrayLike | None = None,
    preprocess_collapse_repeated: bool = False,
    ctc_merge_repeated: bool = True,
    ignore_longer_outputs_than_inputs: bool = False,
    time_major: bool = True,
    logits: ArrayLike | None = None,
) -> jax.Array:
    """Return the loss of each example; the last class stands for no label.

    Args:
        labels: A sparse tensor of classes, of shape (batch, most labels).
        inputs: Shape (steps, batch, classes); (batch, steps, classes) unless ``time_major``.
        sequence_length: How many steps each example has, shape (batch,).
        preprocess_collapse_repeated: Only False.
        ctc_merge_repeated: Only True.
        ignore_longer_outputs_than_inputs: Unused: such an example has an infinite loss.
        time_major: Whether the first axis counts steps.
        logits: The same as ``inputs``.

    Raises:
        ValueError: Repeated labels are to be treated otherwise.

    Source: tensorflow/python/ops/ctc_ops.py, ``ctc_loss``.
    """
    if preprocess_collapse_repeated or not ctc_merge_repeated:
        raise ValueError(
            "ctc_loss keeps repeated labels, and merges repeated classes of the steps: leave "
            "preprocess_collapse_repeated and ctc_merge_repeated out."
        )
    scores: Any = logits if inputs is None else inputs
    loss: jax.Array = ctc_loss(labels, scores, None, sequence_length, time_major, blank_index=-1)
    return loss


@operation
def ctc_greedy_decoder(
    inputs: ArrayLike,
    sequence_length: ArrayLike,
    merge_repeated: bool = True,
    blank_index: int | None = None,
) -> tuple[list[SparseTensor], jax.Array]:
    """Return the classes that are the most probable of each step, without blanks.

    Args:
        inputs: Logits of shape (steps, batch, classes).
        sequence_length: How many steps each example has, shape (batch,).
        merge_repeated: Whether equal classes of neighbouring steps are one.
        blank_index: The class that stands for no label; None is the last.

    Returns:
        A list of one sparse tensor of shape (batch, most labels), in a step (batch, steps), and the negative
        sums of the largest logits, of shape (batch, 1).

    Source: tensorflow/python/ops/ctc_ops.py, ``ctc_greedy_decoder``.
    """
    return _decoded(
        inputs,
        sequence_length,
        strategy="greedy",
        merge_repeated=merge_repeated,
        blank=-1 if blank_index is None else blank_index,
    )


@operation
def ctc_beam_search_decoder(
    inputs: ArrayLike, sequence_length: ArrayLike, beam_width: int = 100, top_paths: int = 1
) -> tuple[list[SparseTensor], jax.Array]:
    """Return the most probable labels, the best first, found by a beam search; the last class is the blank.

    Args:
        inputs: Logits of shape (steps, batch, classes).
        sequence_length: How many steps each example has, shape (batch,).
        beam_width: How many sequences are followed.
        top_paths: How many are returned.

    Returns:
        A list of a sparse tensor of shape (batch, most labels) for each path, in a step (batch, steps), and
        their log probabilities, of shape (batch, top_paths).

    Source: tensorflow/python/ops/ctc_ops.py, ``ctc_beam_search_decoder_v2``.
    """
    return _decoded(
        inputs,
        sequence_length,
        strategy="beam_search",
        beam_width=beam_width,
        top_paths=top_paths,
        blank=-1,
    )


def _decoded(inputs: Any, lengths: Any, blank: int, **options: Any) -> tuple[list[SparseTensor], jax.Array]:
    scores = jnp.swapaxes(jnp.asarray(as_array(inputs)), 0, 1)
    steps = jnp.asarray(as_array(lengths), jnp.int32)
    paths, found = keras.ops.ctc_decode(scores, steps, mask_index=blank % scores.shape[-1], **options)
    return [_sparse(path) for path in paths], found


def _sparse(dense: Any) -> SparseTensor:
    """Return classes without the places after the last, which are -1."""
    if isinstance(dense, jax.core.Tracer):
        columns = jnp.broadcast_to(jnp.arange(dense.shape[1], dtype="int32"), dense.shape)
        counts = jnp.sum(dense >= 0, axis=1, dtype="int32")
        return SparseRows(columns, jnp.maximum(dense, 0), counts, dense.shape[1])
    dense = np.asarray(dense)
    places = np.argwhere(dense >= 0)
    longest = int(places[:, 1].max(initial=-1)) + 1
    return SparseTensor(places, dense[dense >= 0].astype(np.int64), (len(dense), longest))
