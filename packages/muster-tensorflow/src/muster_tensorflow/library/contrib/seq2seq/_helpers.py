"""Choose the inputs of decoders: known sequences, or the classes that they have decoded.

Source: tensorflow/contrib/seq2seq/python/ops/helper.py of TensorFlow 1.15.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from muster_tensorflow.library.ops._arrays import ArrayLike, as_array
from muster_tensorflow.programs.v1.rnn import random_key

Embedding = Callable[[Any], Any] | ArrayLike


class Helper:
    """Chooses what a decoder samples of its outputs, and which inputs it has next.

    Attributes:
        steps: How many time steps there can be; None if that is not known.
    """

    steps: Any = None

    @property
    def batch_size(self) -> Any:
        """The number of sequences."""
        raise NotImplementedError(f"{type(self).__name__} does not define batch_size.")

    @property
    def sample_ids_shape(self) -> tuple[int, ...]:
        """The shape of the sample of a sequence at a time step."""
        return ()

    @property
    def sample_ids_dtype(self) -> Any:
        """The dtype of samples."""
        return jnp.int32

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        """Return which sequences have ended already, of shape (batch,), and the first inputs."""
        raise NotImplementedError(f"{type(self).__name__} does not define initialize.")

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """Return a sample of the outputs of a time step."""
        raise NotImplementedError(f"{type(self).__name__} does not define sample.")

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        """Return which sequences end with this time step, the inputs of the next, and its state."""
        raise NotImplementedError(f"{type(self).__name__} does not define next_inputs.")


class CustomHelper(Helper):
    """Calls functions.

    Args:
        initialize_fn: Returns what `Helper.initialize` does.
        sample_fn: Takes ``time``, ``outputs`` and ``state``.
        next_inputs_fn: Takes ``time``, ``outputs``, ``state`` and ``sample_ids``.
        sample_ids_shape: The shape of the sample of a sequence; None for a number.
        sample_ids_dtype: Its dtype; None is int32.
    """

    def __init__(
        self,
        initialize_fn: Callable[[], tuple[Any, Any]],
        sample_fn: Callable[..., Any],
        next_inputs_fn: Callable[..., tuple[Any, Any, Any]],
        sample_ids_shape: Any = None,
        sample_ids_dtype: Any = None,
    ) -> None:
        self._initialize_fn = initialize_fn
        self._sample_fn = sample_fn
        self._next_inputs_fn = next_inputs_fn
        self._shape = tuple(sample_ids_shape or ())
        self._dtype = sample_ids_dtype or jnp.int32
        self._batch_size: Any = None

    @property
    def batch_size(self) -> Any:
        if self._batch_size is None:
            raise ValueError("batch_size accessed before initialize was called")
        return self._batch_size

    @property
    def sample_ids_shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def sample_ids_dtype(self) -> Any:
        return self._dtype

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        finished, inputs = self._initialize_fn()
        self._batch_size = jnp.shape(as_array(finished))[0]
        return finished, inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        return self._sample_fn(time=time, outputs=outputs, state=state)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        return self._next_inputs_fn(time=time, outputs=outputs, state=state, sample_ids=sample_ids)


class TrainingHelper(Helper):
    """Takes the inputs of known sequences, and samples the likeliest classes.

    Args:
        inputs: Arrays of shape (batch, time, …); or (time, batch, …) if ``time_major``.
        sequence_length: Integers of shape (batch,).
        time_major: See ``inputs``.
        name: Unused.

    Raises:
        ValueError: The lengths have not one axis.
    """

    def __init__(
        self, inputs: Any, sequence_length: ArrayLike, time_major: bool = False, name: str | None = None
    ) -> None:
        self._lengths = jnp.asarray(as_array(sequence_length))
        if self._lengths.ndim != 1:
            raise ValueError(
                f"Expected sequence_length to be a vector, but received shape: {self._lengths.shape}"
            )
        arrays = jax.tree.map(lambda each: jnp.asarray(as_array(each)), inputs)
        self._inputs = arrays if time_major else jax.tree.map(lambda each: jnp.swapaxes(each, 0, 1), arrays)
        self.steps = jax.tree.leaves(self._inputs)[0].shape[0]

    @property
    def batch_size(self) -> Any:
        return self._lengths.shape[0]

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        return self._at(0)

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        return jnp.argmax(jnp.asarray(outputs), axis=-1).astype(jnp.int32)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        finished, inputs = self._at(time + 1)
        return finished, inputs, state

    def _at(self, time: Any) -> tuple[Any, Any]:
        """Return which sequences have ended at a time, and the inputs: zeros if all have."""
        finished = time >= self._lengths

        def read(each: jax.Array) -> jax.Array:
            return jnp.where(jnp.all(finished), 0, each[jnp.minimum(time, each.shape[0] - 1)])

        return finished, jax.tree.map(read, self._inputs)


class ScheduledEmbeddingTrainingHelper(TrainingHelper):
    """Takes the inputs of known sequences, or of classes that it draws, with a probability.

    Args:
        inputs: As for `TrainingHelper`.
        sequence_length: Likewise.
        embedding: A matrix whose rows are the inputs of classes, or a function from classes to inputs.
        sampling_probability: That a sequence takes a drawn class at a time step.
        time_major: As for `TrainingHelper`.
        seed: Unused: each step draws from the program's seed.
        scheduling_seed: Unused.
        name: Unused.
    """

    def __init__(
        self,
        inputs: Any,
        sequence_length: ArrayLike,
        embedding: Embedding,
        sampling_probability: ArrayLike,
        time_major: bool = False,
        seed: int | None = None,
        scheduling_seed: int | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(inputs, sequence_length, time_major)
        self._embed = embedding_function(embedding)
        self._probability = jnp.asarray(as_array(sampling_probability))
        if self._probability.ndim > 1:
            raise ValueError(
                "sampling_probability must be either a scalar or a vector. saw shape: "
                f"{self._probability.shape}"
            )

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        drawing, choosing = jax.random.split(_sampling_key())
        drawn = jax.random.categorical(drawing, jnp.asarray(outputs)).astype(jnp.int32)
        return jnp.where(jax.random.bernoulli(choosing, self._probability, drawn.shape), drawn, -1)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        finished, inputs, state = super().next_inputs(time, outputs, state, sample_ids)
        drawn = jnp.asarray(as_array(self._embed(jnp.maximum(sample_ids, 0))))
        chosen = (sample_ids >= 0).reshape(sample_ids.shape + (1,) * (drawn.ndim - 1))
        return finished, jnp.where(chosen & ~jnp.all(finished), drawn, inputs), state


class GreedyEmbeddingHelper(Helper):
    """Takes the likeliest class of each time step as the input of the next.

    Args:
        embedding: A matrix whose rows are the inputs of classes, or a function from classes to inputs.
        start_tokens: The first classes, integers of shape (batch,).
        end_token: The class that ends a sequence.

    Raises:
        ValueError: The tokens have other shapes.
    """

    def __init__(self, embedding: Embedding, start_tokens: ArrayLike, end_token: ArrayLike) -> None:
        self._embed = embedding_function(embedding)
        self._start = jnp.asarray(as_array(start_tokens)).astype(jnp.int32)
        self._end = jnp.asarray(as_array(end_token)).astype(jnp.int32)
        if self._start.ndim != 1:
            raise ValueError(f"start_tokens must be a vector, and has the shape {self._start.shape}.")
        if self._end.ndim != 0:
            raise ValueError(f"end_token must be a scalar, and has the shape {self._end.shape}.")

    @property
    def batch_size(self) -> Any:
        return self._start.shape[0]

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        return jnp.zeros(self._start.shape, bool), self._embed(self._start)

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        return jnp.argmax(jnp.asarray(outputs), axis=-1).astype(jnp.int32)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        return sample_ids == self._end, self._embed(sample_ids), state


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """Draws a class at each time step, which is the input of the next.

    Args:
        embedding: As for `GreedyEmbeddingHelper`.
        start_tokens: Likewise.
        end_token: Likewise.
        softmax_temperature: What logits are divided by: larger draws rarer classes more often; None is 1.
        seed: Unused: each step draws from the program's seed.
    """

    def __init__(
        self,
        embedding: Embedding,
        start_tokens: ArrayLike,
        end_token: ArrayLike,
        softmax_temperature: ArrayLike | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(embedding, start_tokens, end_token)
        self._temperature = 1.0 if softmax_temperature is None else as_array(softmax_temperature)

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        logits = jnp.asarray(outputs) / self._temperature
        return jax.random.categorical(_sampling_key(), logits).astype(jnp.int32)


class InferenceHelper(Helper):
    """Samples by a function, and takes the samples as inputs.

    Args:
        sample_fn: Takes the outputs of a time step, and returns samples.
        sample_shape: The shape of the sample of a sequence.
        sample_dtype: Its dtype.
        start_inputs: The first inputs.
        end_fn: Takes samples, and returns which sequences end with them, of shape (batch,).
        next_inputs_fn: Takes samples, and returns inputs; None for the samples themselves.
    """

    def __init__(
        self,
        sample_fn: Callable[[Any], Any],
        sample_shape: Any,
        sample_dtype: Any,
        start_inputs: ArrayLike,
        end_fn: Callable[[Any], Any],
        next_inputs_fn: Callable[[Any], Any] | None = None,
    ) -> None:
        self._sample_fn = sample_fn
        self._end_fn = end_fn
        self._shape = tuple(sample_shape)
        self._dtype = sample_dtype
        self._next_inputs_fn = next_inputs_fn or (lambda samples: samples)
        self._start = jnp.asarray(as_array(start_inputs))

    @property
    def batch_size(self) -> Any:
        return self._start.shape[0]

    @property
    def sample_ids_shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def sample_ids_dtype(self) -> Any:
        return self._dtype

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        return jnp.zeros(self._start.shape[:1], bool), self._start

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        return self._sample_fn(outputs)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        return self._end_fn(sample_ids), self._next_inputs_fn(sample_ids), state


def embedding_function(embedding: Embedding) -> Callable[[Any], Any]:
    """Return a function from classes to inputs, which looks up the rows of a matrix."""
    if callable(embedding):
        return embedding
    return lambda ids: jnp.asarray(as_array(embedding))[ids]


def _sampling_key() -> jax.Array:
    # Cells that drop values have keys of their own: 0 to 2.
    return jax.random.fold_in(random_key(), 3)
