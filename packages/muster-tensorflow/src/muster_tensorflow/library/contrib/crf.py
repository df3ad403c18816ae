"""``tf.contrib.crf``: linear-chain conditional random fields over sequences of tags.

Source: tensorflow/contrib/crf/python/ops/crf.py of TensorFlow 1.15.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster_tensorflow.library.ops._arrays import ArrayLike, as_array
from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.programs.v1.variables._variables import get_variable


@operation
def crf_unary_score(tag_indices: ArrayLike, sequence_lengths: ArrayLike, inputs: ArrayLike) -> jax.Array:
    """Return the sum of the scores of the tags of each sequence: shape (batch,).

    Args:
        tag_indices: Integers of shape (batch, time).
        sequence_lengths: Integers of shape (batch,).
        inputs: Scores of shape (batch, time, tags).
    """
    scores = jnp.asarray(as_array(inputs))
    tags = jnp.asarray(as_array(tag_indices))
    taken = jnp.take_along_axis(scores, tags[..., None], axis=2)[..., 0]
    return jnp.sum(jnp.where(_mask(sequence_lengths, tags.shape[1]), taken, 0), axis=1)


@operation
def crf_binary_score(
    tag_indices: ArrayLike, sequence_lengths: ArrayLike, transition_params: ArrayLike
) -> jax.Array:
    """Return the sum of the scores of the transitions of each sequence: shape (batch,).

    Args:
        tag_indices: Integers of shape (batch, time).
        sequence_lengths: Integers of shape (batch,).
        transition_params: Scores of shape (tags, tags), from row to column.
    """
    tags = jnp.asarray(as_array(tag_indices))
    taken = jnp.asarray(as_array(transition_params))[tags[:, :-1], tags[:, 1:]]
    return jnp.sum(jnp.where(_mask(sequence_lengths, tags.shape[1])[:, 1:], taken, 0), axis=1)


def crf_sequence_score(
    inputs: ArrayLike, tag_indices: ArrayLike, sequence_lengths: ArrayLike, transition_params: ArrayLike
) -> Any:
    """Return the score of each sequence of tags, that of its tags and of its transitions: shape (batch,)."""
    unary = crf_unary_score(tag_indices, sequence_lengths, inputs)
    return unary + crf_binary_score(tag_indices, sequence_lengths, transition_params)


@operation
def crf_log_norm(inputs: ArrayLike, sequence_lengths: ArrayLike, transition_params: ArrayLike) -> jax.Array:
    """Return the logarithm of the sum of exp(score) over all sequences of tags: shape (batch,).

    Args:
        inputs: Scores of shape (batch, time, tags).
        sequence_lengths: Integers of shape (batch,); 0 gives 0.
        transition_params: Scores of shape (tags, tags), from row to column.
    """
    steps = jnp.swapaxes(jnp.asarray(as_array(inputs)), 0, 1)
    lengths = jnp.asarray(as_array(sequence_lengths))
    transitions = jnp.asarray(as_array(transition_params))

    def step(alphas: jax.Array, now: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        time, scores = now
        new = scores + jax.nn.logsumexp(alphas[:, :, None] + transitions, axis=1)
        return jnp.where((time < lengths)[:, None], new, alphas), None

    alphas, _ = jax.lax.scan(step, steps[0], (jnp.arange(1, steps.shape[0]), steps[1:]))
    return jnp.where(lengths > 0, jax.nn.logsumexp(alphas, axis=1), 0)


def crf_log_likelihood(
    inputs: Any, tag_indices: ArrayLike, sequence_lengths: ArrayLike, transition_params: Any = None
) -> tuple[Any, Any]:
    """Return the log-likelihood of each sequence of tags, and the scores of transitions.

    Args:
        inputs: Scores of shape (batch, time, tags).
        tag_indices: Integers of shape (batch, time).
        sequence_lengths: Integers of shape (batch,).
        transition_params: Scores of shape (tags, tags), from row to column; None makes the variable
            ``transitions``.

    Returns:
        Shape (batch,), and the scores of transitions.
    """
    if transition_params is None:
        tags = inputs.shape[2]
        transition_params = get_variable("transitions", [tags, tags])
    score = crf_sequence_score(inputs, tag_indices, sequence_lengths, transition_params)
    return score - crf_log_norm(inputs, sequence_lengths, transition_params), transition_params


@operation
def crf_decode(
    potentials: ArrayLike, transition_params: ArrayLike, sequence_length: ArrayLike
) -> tuple[jax.Array, jax.Array]:
    """Find the sequence of tags with the highest score.

    Args:
        potentials: Scores of shape (batch, time, tags).
        transition_params: Scores of shape (tags, tags), from row to column.
        sequence_length: Integers of shape (batch,).

    Returns:
        The tags, int32 of shape (batch, time), 0 beyond the sequences' ends; and their scores, of shape
        (batch,).
    """
    steps = jnp.swapaxes(jnp.asarray(as_array(potentials)), 0, 1)
    lengths = jnp.maximum(jnp.asarray(as_array(sequence_length)), 1)
    transitions = jnp.asarray(as_array(transition_params))
    times = jnp.arange(steps.shape[0])

    def forward(best: jax.Array, now: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        time, scores = now
        to = best[:, :, None] + transitions
        going = (time < lengths)[:, None]
        onward = jnp.where(going, scores + jnp.max(to, axis=1), best)
        return jnp.where(time == 0, scores, onward), jnp.argmax(to, axis=1)

    best, origins = jax.lax.scan(forward, jnp.zeros_like(steps[0]), (times, steps))

    def backward(tag: jax.Array, now: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        time, origin = now
        before = jnp.take_along_axis(origin, tag[:, None], axis=1)[:, 0]
        return jnp.where(time < lengths, before, tag), jnp.where(time < lengths, tag, 0)

    _, found = jax.lax.scan(backward, jnp.argmax(best, axis=1), (times, origins), reverse=True)
    tags = jnp.swapaxes(found, 0, 1)
    return tags.astype(jnp.int32), jnp.max(best, axis=1)


def viterbi_decode(score: ArrayLike, transition_params: ArrayLike) -> tuple[list[int], Any]:
    """Find the sequence of tags with the highest score, on the host.

    Args:
        score: Scores of shape (time, tags), of one sequence.
        transition_params: Scores of shape (tags, tags), from row to column.

    Returns:
        The tags and their score.
    """
    rows, transitions = np.asarray(score), np.asarray(transition_params)
    best, origins = rows[0], []
    for row in rows[1:]:
        to = best[:, None] + transitions
        origins.append(to.argmax(0))
        best = row + to.max(0)
    tags = [int(best.argmax())]
    for origin in reversed(origins):
        tags.append(int(origin[tags[-1]]))
    return tags[::-1], best.max()


def _mask(lengths: ArrayLike, steps: int) -> jax.Array:
    return jnp.arange(steps) < jnp.asarray(as_array(lengths))[:, None]
