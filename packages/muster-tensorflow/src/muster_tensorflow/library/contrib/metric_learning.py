"""``tf.contrib.losses.metric_learning``: metric learning losses, such as the triplet loss, for embeddings.

Source: tensorflow/contrib/losses/python/metric_learning/metric_loss_ops.py of TensorFlow 1.15.
"""

import jax
import jax.numpy as jnp

from muster.extend import ratio, root
from muster_tensorflow.library.ops._arrays import ArrayLike, as_array


def contrastive_loss(
    labels: ArrayLike, embeddings_anchor: ArrayLike, embeddings_positive: ArrayLike, margin: float = 1.0
) -> jax.Array:
    """Return the mean of squared distances of pairs of one kind, and of what others lack of a margin.

    Args:
        labels: 1 for each pair of one kind, else 0; shape (batch,).
        embeddings_anchor: Float, shape (batch, size).
        embeddings_positive: The others of the pairs, likewise.
        margin: How far pairs of two kinds should be apart.
    """
    apart = _floats(embeddings_anchor) - _floats(embeddings_positive)
    distance, alike = root(jnp.sum(apart**2, 1)), _floats(labels)
    return jnp.mean(alike * distance**2 + (1 - alike) * jnp.maximum(margin - distance, 0) ** 2)


def npairs_loss(
    labels: ArrayLike,
    embeddings_anchor: ArrayLike,
    embeddings_positive: ArrayLike,
    reg_lambda: float = 3e-3,
    print_losses: bool = False,
) -> jax.Array:
    """Return the cross entropy of finding each anchor's pair among all, and a penalty of long embeddings.

    Args:
        labels: Integers, shape (batch,).
        embeddings_anchor: Float, shape (batch, size).
        embeddings_positive: The others of the pairs, likewise.
        reg_lambda: The weight of the penalty.
        print_losses: Unused.
    """
    anchors, others, kinds = _floats(embeddings_anchor), _floats(embeddings_positive), _kinds(labels)
    penalty = 0.25 * reg_lambda * sum(jnp.mean(jnp.sum(each**2, 1)) for each in (anchors, others))
    alike = (kinds[:, None] == kinds).astype("float32")
    wanted = alike / jnp.sum(alike, 1, keepdims=True)
    return penalty - jnp.mean(jnp.sum(wanted * jax.nn.log_softmax(anchors @ others.T), 1))


def triplet_semihard_loss(labels: ArrayLike, embeddings: ArrayLike, margin: float = 1.0) -> jax.Array:
    """Return the mean of ``max(0, margin + d(anchor, positive) - d(anchor, negative))``.

    The d are squared distances. The mean is over all pairs of two examples of one label. The negative is the
    nearest example of another label that is farther from the anchor than the positive; or else the farthest.

    Args:
        labels: Integers, shape (batch,).
        embeddings: Float, shape (batch, size), of length 1.
        margin: Added to each squared distance of two of the same label.
    """
    points, kinds = _floats(embeddings), _kinds(labels)
    lengths, count = jnp.sum(points**2, 1), len(points)
    distance = jnp.maximum(lengths[:, None] - 2 * points @ points.T + lengths, 0) * (1 - jnp.eye(count))
    alike = kinds[:, None] == kinds
    farther = ~alike[:, None, :] & (distance[:, None, :] > distance[:, :, None])
    nearest = jnp.min(jnp.where(farther, distance[:, None, :], jnp.inf), 2)
    low = jnp.min(distance, 1, keepdims=True)
    farthest = jnp.max(jnp.where(alike, 0, distance - low), 1, keepdims=True) + low
    other = jnp.where(jnp.any(farther, 2), nearest, farthest)
    pairs = alike & ~jnp.eye(count, dtype=bool)
    lacking = jnp.where(pairs, jnp.maximum(margin + distance - other, 0), 0)
    return ratio(jnp.sum(lacking), jnp.sum(pairs))


def _floats(values: ArrayLike) -> jax.Array:
    return jnp.asarray(as_array(values), "float32")


def _kinds(labels: ArrayLike) -> jax.Array:
    return jnp.ravel(jnp.asarray(as_array(labels)))
