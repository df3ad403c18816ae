"""Distributions of classes.

Source: tensorflow/python/ops/distributions/, ``bernoulli.py``, ``categorical.py`` and ``util.py``.
"""

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np

from muster_tensorflow.library.distributions._distribution import NOT_REPARAMETERIZED, Distribution, parameter
from muster_tensorflow.library.distributions._divergence import RegisterKL
from muster_tensorflow.library.ops._arrays import Array, ArrayLike, DTypeLike, as_array
from muster_tensorflow.library.ops.random import _random
from muster_tensorflow.programs.v1.operations._assertions import assert_


def _one_of(logits: ArrayLike | None, probs: ArrayLike | None, validate_args: bool) -> None:
    if (logits is None) == (probs is None):
        raise ValueError("Must pass probs or logits, but not both.")
    if probs is not None and validate_args:
        known = parameter(probs)
        assert_(jnp.all((known >= 0) & (known <= 1)), ["probs must be probabilities, from 0 to 1."])


class Bernoulli(Distribution):
    """Distributions of 0 and 1.

    Args:
        logits: The logarithms of the odds of 1; or
        probs: the probabilities of 1.
        dtype: The dtype of samples.
        validate_args: Check known probabilities.
        allow_nan_stats: Unused: all moments are defined.
        name: The distribution's name.
    """

    def __init__(
        self,
        logits: ArrayLike | None = None,
        probs: ArrayLike | None = None,
        dtype: DTypeLike = np.int32,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Bernoulli",
    ) -> None:
        _one_of(logits, probs, validate_args)
        if probs is None:
            self.logits: jax.Array = parameter(logits)
            self.probs: jax.Array = jax.nn.sigmoid(self.logits)
        else:
            self.probs = parameter(probs)
            self.logits = jnp.log(self.probs) - jnp.log1p(-self.probs)
        super().__init__(
            dtype,
            NOT_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            {
                "logits": logits,
                "probs": probs,
                "dtype": dtype,
                "validate_args": validate_args,
                "allow_nan_stats": allow_nan_stats,
                "name": name,
            },
            self.logits.shape,
            (),
            name,
        )

    def _sample(self, shape: tuple[int, ...], seed: int | None) -> Array:
        drawn = _random.uniform((*shape, *self.batch_shape), dtype=self.probs.dtype, seed=seed)
        return jnp.less(drawn, self.probs)

    def _log_prob(self, value: Array) -> Array:
        event = as_array(value, self.logits.dtype)
        one, zero = jax.nn.log_sigmoid(self.logits), jax.nn.log_sigmoid(-self.logits)
        return event * one + (1 - event) * zero

    def _entropy(self) -> Array:
        return jax.scipy.special.entr(self.probs) + jax.scipy.special.entr(1 - self.probs)

    def _mean(self) -> Array:
        return self.probs

    def _mode(self) -> Array:
        return as_array(self.probs > 0.5, self.dtype)

    def _variance(self) -> Array:
        return self.probs * (1 - self.probs)


class Categorical(Distribution):
    """Distributions of the numbers of classes.

    Args:
        logits: Of shape (…, classes), the logarithms of probabilities, plus any constant; or
        probs: the probabilities, which are divided by their sum.
        dtype: The dtype of samples.
        validate_args: Check known probabilities.
        allow_nan_stats: Unused.
        name: The distribution's name.
    """

    def __init__(
        self,
        logits: ArrayLike | None = None,
        probs: ArrayLike | None = None,
        dtype: DTypeLike = np.int32,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Categorical",
    ) -> None:
        _one_of(logits, probs, validate_args)
        if probs is None:
            self.logits: jax.Array = parameter(logits)
            self.probs: jax.Array = jax.nn.softmax(self.logits)
        else:
            self.probs = parameter(probs)
            self.logits = jnp.log(self.probs)
        super().__init__(
            dtype,
            NOT_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            {
                "logits": logits,
                "probs": probs,
                "dtype": dtype,
                "validate_args": validate_args,
                "allow_nan_stats": allow_nan_stats,
                "name": name,
            },
            self.logits.shape[:-1],
            (),
            name,
        )

    @property
    def event_size(self) -> int:
        """The number of classes."""
        return int(self.logits.shape[-1])

    def _sample(self, shape: tuple[int, ...], seed: int | None) -> Array:
        rows = self.logits.reshape(-1, self.event_size)
        drawn = _random.categorical(rows, int(np.prod(shape)), self.dtype, seed)
        return jnp.reshape(jnp.transpose(drawn), (*shape, *self.batch_shape))

    def _log_prob(self, value: Array) -> Array:
        classes = as_array(value, np.int32)
        shape = jnp.broadcast_shapes(classes.shape, self.logits.shape[:-1])
        logs = jnp.broadcast_to(jax.nn.log_softmax(self.logits), (*shape, self.event_size))
        chosen = jnp.broadcast_to(classes, shape)[..., None]
        return jnp.take_along_axis(logs, chosen, -1)[..., 0]

    def _cdf(self, value: Array) -> Array:
        below = jnp.arange(self.event_size) < jnp.asarray(value)[..., None]
        return jnp.sum(jax.nn.softmax(self.logits) * below, -1)

    def _entropy(self) -> Array:
        probabilities = jax.nn.softmax(self.logits)
        logs = jnp.where(probabilities > 0, jax.nn.log_softmax(self.logits), 0)
        return -jnp.sum(probabilities * logs, -1)

    def _mode(self) -> Array:
        return as_array(jnp.argmax(self.logits, -1), self.dtype)


@RegisterKL(Bernoulli, Bernoulli)
def _of_bernoulli(a: Bernoulli, b: Bernoulli, name: str | None = None) -> Array:
    one = jax.nn.softplus(-b.logits) - jax.nn.softplus(-a.logits)
    zero = jax.nn.softplus(b.logits) - jax.nn.softplus(a.logits)
    return jax.nn.sigmoid(a.logits) * one + jax.nn.sigmoid(-a.logits) * zero


@RegisterKL(Categorical, Categorical)
def _of_categorical(a: Categorical, b: Categorical, name: str | None = None) -> Array:
    logs = jax.nn.log_softmax(a.logits)
    return jnp.sum(jax.nn.softmax(a.logits) * (logs - jax.nn.log_softmax(b.logits)), -1)
