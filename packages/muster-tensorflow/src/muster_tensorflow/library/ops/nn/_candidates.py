"""Sampled softmax and NCE losses, and the samplers of their negative classes."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from muster.extend import local_path
from muster_tensorflow.library.ops._arrays import ArrayLike, as_array
from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.library.ops.nn._nn import embedding_lookup, sigmoid_cross_entropy_with_logits
from muster_tensorflow.library.ops.random._generators import next_key, numpy_generator, step_generator


class Candidates(NamedTuple):
    """A sample of classes.

    Attributes:
        sampled_candidates: Classes, int32 of shape (num_sampled,).
        true_expected_count: How often each of the true classes is expected in a sample: (batch, num_true).
        sampled_expected_count: Likewise each of the sampled ones: (num_sampled,).
    """

    sampled_candidates: Any
    true_expected_count: Any
    sampled_expected_count: Any


def _sample(
    function: str,
    true_classes: ArrayLike,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None,
    draw: Callable[[jax.Array, int], jax.Array],
    chance: Callable[[jax.Array], jax.Array],
) -> Candidates:
    """Draw classes.

    Args:
        function: The name of the sampler, for errors.
        true_classes: As for the samplers, and so are the next ones.
        num_sampled: See there.
        unique: See there.
        range_max: See there.
        seed: See there.
        draw: Draws a number of classes with a key.
        chance: Returns the probability of classes.
    """
    if unique and num_sampled > range_max:
        raise ValueError(
            f"Sampler's range is too small: {num_sampled} different classes of {range_max} are asked for."
        )
    generator = step_generator(function, seed)
    if generator is not None:
        key = next_key(generator)
    else:
        key = jax.random.key(numpy_generator(seed).randint(2**31))
    right = jnp.asarray(as_array(true_classes))
    return Candidates(*_sampled(draw, chance, num_sampled, range_max, unique)(key, right))


@functools.lru_cache(maxsize=64)
def _sampled(
    draw: Callable[[jax.Array, int], jax.Array],
    chance: Callable[[jax.Array], jax.Array],
    count: int,
    size: int,
    unique: bool,
) -> Callable[[jax.Array, jax.Array], tuple[jax.Array, ...]]:
    """Return what draws with a key: compiled once, since eager code may draw for each example."""

    @jax.jit
    def sample(key: jax.Array, right: jax.Array) -> tuple[jax.Array, ...]:
        if unique:
            sampled, tries = _different(draw, key, count, size)
        else:
            sampled, tries = draw(key, count), jnp.int32(count)

        def expected(classes: jax.Array) -> jax.Array:
            # Source: tensorflow/core/kernels/range_sampler.cc, ``ExpectedCountHelper``.
            p = chance(classes)
            return jnp.where(tries == count, p * count, -jnp.expm1(tries * jnp.log1p(-p)))

        return sampled, expected(right), expected(sampled)

    return sample


def _different(
    draw: Callable[[jax.Array, int], jax.Array], key: jax.Array, count: int, size: int
) -> tuple[jax.Array, jax.Array]:
    """Draw until there are as many different classes, and return them and the number of draws."""
    places = jnp.arange(count)

    def more(state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        key, seen, chosen, found, tries = state
        key, now = jax.random.split(key)
        drawn = draw(now, count)
        first = jnp.full(size, count).at[drawn].min(places)
        new = (first[drawn] == places) & ~seen[drawn]
        rank = jnp.where(new, found + jnp.cumsum(new) - 1, count)
        chosen = chosen.at[rank].set(drawn, mode="drop")
        found = found + jnp.sum(new)
        # Draws behind the one that completes the sample do not count.
        tries = tries + jnp.where(found < count, count, jnp.argmax(rank == count - 1) + 1)
        return key, seen.at[drawn].set(True), chosen, found, tries

    none = jnp.int32(0)
    start: tuple[jax.Array, ...] = (key, jnp.zeros(size, bool), jnp.zeros(count, jnp.int32), none, none)
    _, _, chosen, _, tries = jax.lax.while_loop(lambda state: state[3] < count, more, start)
    return chosen, tries


def log_uniform_candidate_sampler(
    true_classes: ArrayLike,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> Candidates:
    """Draw classes that are numbered by their frequency, the most frequent one first, by Zipf's law.

    Args:
        true_classes: The right classes, integers of shape (batch, num_true).
        num_true: The number of right classes of an example.
        num_sampled: The number of classes to draw.
        unique: Whether no class is drawn twice.
        range_max: The number of classes.
        seed: Seeds a sequence of its own; None takes the one that all calls share.
        name: Unused.

    Raises:
        ValueError: More classes are to be drawn than there are, none of them twice.

    Source: tensorflow/python/ops/candidate_sampling_ops.py.
    """
    draw, chance = _log_uniform(range_max)
    name = "log_uniform_candidate_sampler"
    return _sample(name, true_classes, num_sampled, unique, range_max, seed, draw, chance)


@functools.lru_cache(maxsize=64)
def _log_uniform(size: int) -> tuple[Callable[..., jax.Array], Callable[..., jax.Array]]:
    span = np.log(size + 1.0)

    def draw(key: jax.Array, count: int) -> jax.Array:
        drawn = jnp.exp(jax.random.uniform(key, (count,)) * span).astype(jnp.int32) - 1
        return jnp.clip(drawn, 0, size - 1)

    def chance(classes: jax.Array) -> jax.Array:
        return jnp.divide(jnp.log1p(1 / (classes + 1.0)), span)

    return draw, chance


def uniform_candidate_sampler(
    true_classes: ArrayLike,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> Candidates:
    """Draw classes, all with the same probability; arguments as for `log_uniform_candidate_sampler`."""
    draw, chance = _uniform(range_max)
    name = "uniform_candidate_sampler"
    return _sample(name, true_classes, num_sampled, unique, range_max, seed, draw, chance)


@functools.lru_cache(maxsize=64)
def _uniform(size: int) -> tuple[Callable[..., jax.Array], Callable[..., jax.Array]]:
    def draw(key: jax.Array, count: int) -> jax.Array:
        return jax.random.randint(key, (count,), 0, size)

    def chance(classes: jax.Array) -> jax.Array:
        return jnp.full(classes.shape, 1 / size)

    return draw, chance


def fixed_unigram_candidate_sampler(
    true_classes: ArrayLike,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    vocab_file: str = "",
    distortion: float = 1.0,
    num_reserved_ids: int = 0,
    num_shards: int = 1,
    shard: int = 0,
    unigrams: Sequence[float] = (),
    seed: int | None = None,
    name: str | None = None,
) -> Candidates:
    """Draw classes by their frequencies.

    Args:
        true_classes: As for `log_uniform_candidate_sampler`.
        num_true: See there.
        num_sampled: See there.
        unique: See there.
        range_max: See there.
        vocab_file: A CSV file whose last column has the frequencies, instead of ``unigrams``.
        distortion: The power that frequencies are raised to.
        num_reserved_ids: The number of classes before the first one that has a frequency; none is drawn.
        num_shards: 1: each worker draws of all classes.
        shard: 0.
        unigrams: The frequency of each class.
        seed: As for `log_uniform_candidate_sampler`.
        name: Unused.

    Raises:
        ValueError: There is not one frequency for each class, there are shards, or as for
            `log_uniform_candidate_sampler`.
    """
    if (num_shards, shard) != (1, 0):
        raise ValueError(f"Classes are not sharded here: num_shards is 1, got {num_shards}.")
    if vocab_file:
        with open(local_path(vocab_file)) as file:
            unigrams = [float(line.rsplit(",", 1)[-1]) for line in file if line.strip()]
    weights = np.concatenate([np.zeros(num_reserved_ids), np.power(unigrams, distortion)])
    if len(weights) != range_max:
        raise ValueError(f"There are {range_max} classes, and {len(weights)} frequencies and reserved ids.")
    chances = jnp.asarray(weights / weights.sum(), jnp.float32)
    bounds = jnp.asarray(np.cumsum(weights) / weights.sum(), jnp.float32)

    def draw(key: jax.Array, count: int) -> jax.Array:
        drawn = jnp.searchsorted(bounds, jax.random.uniform(key, (count,)), side="right")
        return jnp.minimum(drawn, range_max - 1).astype(jnp.int32)

    name = "fixed_unigram_candidate_sampler"
    return _sample(
        name, true_classes, num_sampled, unique, range_max, seed, draw, lambda classes: chances[classes]
    )


@operation
def nce_loss(
    weights: ArrayLike,
    biases: ArrayLike,
    labels: ArrayLike,
    inputs: ArrayLike,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    remove_accidental_hits: bool = False,
    name: str | None = None,
) -> jax.Array:
    """Return the noise-contrastive loss of each example: shape (batch,).

    Args:
        weights: A table of shape (classes, width).
        biases: Shape (classes,).
        labels: The right classes, integers of shape (batch, num_true).
        inputs: Shape (batch, width).
        num_sampled: The number of other classes that are drawn, by `log_uniform_candidate_sampler`.
        num_classes: The number of classes.
        num_true: The number of right classes of an example.
        sampled_values: `Candidates` that are drawn already.
        remove_accidental_hits: Whether drawn classes do not count for examples whose right class they are.
        name: Unused.

    Source: tensorflow/python/ops/nn_impl.py, ``nce_loss``.
    """
    logits, targets = _sampled_logits(
        *(weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values),
        remove_accidental_hits,
        None,
    )
    return jnp.sum(jnp.asarray(sigmoid_cross_entropy_with_logits(targets, logits)), axis=1)


@operation
def sampled_softmax_loss(
    weights: ArrayLike,
    biases: ArrayLike,
    labels: ArrayLike,
    inputs: ArrayLike,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    remove_accidental_hits: bool = True,
    seed: int | None = None,
    name: str | None = None,
) -> jax.Array:
    """Return the cross entropy of each example among its classes and drawn ones: shape (batch,).

    Args:
        weights: As for `nce_loss`, and so are the next ones.
        biases: See there.
        labels: See there.
        inputs: See there.
        num_sampled: See there.
        num_classes: See there.
        num_true: See there.
        sampled_values: See there.
        remove_accidental_hits: See there.
        seed: Seeds the sampler.
        name: Unused.

    Source: tensorflow/python/ops/nn_impl.py, ``sampled_softmax_loss``.
    """
    logits, targets = _sampled_logits(
        *(weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values),
        remove_accidental_hits,
        seed,
    )
    return -jnp.sum(targets * jax.nn.log_softmax(logits), axis=1)


def _sampled_logits(
    weights: ArrayLike,
    biases: ArrayLike,
    labels: ArrayLike,
    inputs: ArrayLike,
    num_sampled: int,
    num_classes: int,
    num_true: int,
    sampled_values: Any,
    remove_accidental_hits: bool,
    seed: int | None,
) -> tuple[jax.Array, jax.Array]:
    """Return the logits of right classes and drawn ones, (batch, num_true + num_sampled), and their labels.

    Source: tensorflow/python/ops/nn_impl.py, ``_compute_sampled_logits``.
    """
    values = jnp.asarray(as_array(inputs))
    right = jnp.asarray(as_array(labels)).astype(jnp.int32).reshape(-1, num_true)
    if sampled_values is None:
        sampled_values = log_uniform_candidate_sampler(right, num_true, num_sampled, True, num_classes, seed)
    sampled, *counts = (jax.lax.stop_gradient(jnp.asarray(as_array(each))) for each in sampled_values)
    sampled = sampled.astype(jnp.int32)
    ids = jnp.concatenate([right.reshape(-1), sampled])
    rows = embedding_lookup(weights, ids).astype(values.dtype)
    shifts = embedding_lookup(biases, ids).astype(values.dtype)
    of_right, of_sampled = rows[: right.size].reshape(*right.shape, -1), rows[right.size :]
    true_logits = jnp.sum(values[:, None] * of_right, axis=2) + shifts[: right.size].reshape(right.shape)
    sampled_logits = values @ of_sampled.T + shifts[right.size :]
    if remove_accidental_hits:
        hits = jnp.any(right[:, :, None] == sampled, axis=1)
        lowest = float(np.finfo(np.float32).min)
        sampled_logits = jnp.where(hits, sampled_logits + lowest, sampled_logits)
    logits = jnp.concatenate([true_logits - jnp.log(counts[0]), sampled_logits - jnp.log(counts[1])], 1)
    targets = jnp.concatenate([jnp.ones_like(true_logits) / num_true, jnp.zeros_like(sampled_logits)], 1)
    return logits, targets
