"""The base class of distributions."""

from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from muster_tensorflow.library.distributions._divergence import kl_divergence
from muster_tensorflow.library.ops._arrays import Array, ArrayLike, DTypeLike, as_array, as_shape
from muster_tensorflow.library.ops.arrays._array_shape import ArrayShape
from muster_tensorflow.programs.v1.operations._assertions import assert_


class ReparameterizationType:
    """A constant that says if gradients pass through samples to the parameters.

    Args:
        rep_type: The name, which is shown.
    """

    def __init__(self, rep_type: str) -> None:
        self._rep_type = rep_type

    def __repr__(self) -> str:
        return f"<Reparameterization Type: {self._rep_type}>"


FULLY_REPARAMETERIZED = ReparameterizationType("FULLY_REPARAMETERIZED")
NOT_REPARAMETERIZED = ReparameterizationType("NOT_REPARAMETERIZED")


class Distribution:
    """A batch of distributions: ``batch_shape`` of them, each of values of ``event_shape``.

    Those of a program's own define ``_sample``, ``_log_prob``, and what else of the methods with an
    underscore they have.

    Args:
        dtype: The dtype of samples.
        reparameterization_type: Whether gradients pass through samples.
        validate_args: Check parameters whose values are known.
        allow_nan_stats: Return NaN for what is not defined, such as a mean, rather than raise.
        parameters: Name -> value of what the distribution was made with.
        batch_shape: The shape of the parameters, without the axes of an event.
        event_shape: The shape of a value.
        name: The distribution's name; None for its class'.

    Source: tensorflow/python/ops/distributions/distribution.py, ``Distribution``.
    """

    def __init__(
        self,
        dtype: DTypeLike,
        reparameterization_type: ReparameterizationType,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        parameters: dict[str, Any] | None = None,
        batch_shape: Any = (),
        event_shape: Any = (),
        name: str | None = None,
    ) -> None:
        self.dtype: Any = np.dtype(dtype)
        self.reparameterization_type = reparameterization_type
        self.validate_args = validate_args
        self.allow_nan_stats = allow_nan_stats
        self.parameters = dict(parameters or {})
        self.batch_shape = ArrayShape(as_shape(batch_shape))
        self.event_shape = ArrayShape(as_shape(event_shape))
        self.name = f"{name or type(self).__name__}/"

    def __repr__(self) -> str:
        return (
            f"tf.distributions.{type(self).__name__}({self.name!r}, batch_shape={tuple(self.batch_shape)}, "
            f"event_shape={tuple(self.event_shape)}, dtype={self.dtype})"
        )

    def _sample(self, shape: tuple[int, ...], seed: int | None) -> Array:
        """Draw values of shape ``shape``, then ``batch_shape``, then ``event_shape``."""
        raise self._missing("sample")

    def _log_prob(self, value: Array) -> Array:
        raise self._missing("log_prob")

    def _cdf(self, value: Array) -> Array:
        raise self._missing("cdf")

    def _quantile(self, value: Array) -> Array:
        raise self._missing("quantile")

    def _entropy(self) -> Array:
        raise self._missing("entropy")

    def _mean(self) -> Array:
        raise self._missing("mean")

    def _mode(self) -> Array:
        raise self._missing("mode")

    def _variance(self) -> Array:
        raise self._missing("variance")

    def _stddev(self) -> Array:
        return jnp.sqrt(self._variance())

    def _covariance(self) -> Array:
        raise self._missing("covariance")

    def sample(self, sample_shape: Any = (), seed: int | None = None, name: str = "sample") -> Array:
        """Draw values, in the way of ``tf.random.uniform``.

        Args:
            sample_shape: How many: a number, or a shape. () for one of each distribution.
            seed: Seeds a sequence of its own; None takes the one that all calls share.
            name: Unused.

        Returns:
            Of shape ``sample_shape``, then ``batch_shape``, then ``event_shape``.
        """
        sizes = (
            np.atleast_1d(np.asarray(sample_shape, np.int32)) if np.ndim(sample_shape) == 0 else sample_shape
        )
        return as_array(self._sample(as_shape(sizes), seed), self.dtype)

    def log_prob(self, value: ArrayLike, name: str = "log_prob") -> Array:
        """Return the logarithms of the densities, or of the probabilities of what is discrete, at values."""
        return self._log_prob(self._converted(value))

    def prob(self, value: ArrayLike, name: str = "prob") -> Array:
        """Return the densities, or the probabilities of what is discrete, at values."""
        return jnp.exp(self.log_prob(value))

    def cdf(self, value: ArrayLike, name: str = "cdf") -> Array:
        """Return the probabilities of values up to these."""
        return self._cdf(self._converted(value))

    def log_cdf(self, value: ArrayLike, name: str = "log_cdf") -> Array:
        """Return the logarithms of `cdf`."""
        return jnp.log(self.cdf(value))

    def survival_function(self, value: ArrayLike, name: str = "survival_function") -> Array:
        """Return the probabilities of values above these."""
        return 1 - self.cdf(value)

    def log_survival_function(self, value: ArrayLike, name: str = "log_survival_function") -> Array:
        """Return the logarithms of `survival_function`."""
        return jnp.log(self.survival_function(value))

    def quantile(self, value: ArrayLike, name: str = "quantile") -> Array:
        """Return the values that samples stay below with these probabilities."""
        return self._quantile(self._converted(value))

    def entropy(self, name: str = "entropy") -> Array:
        """Return the entropies in nats, of shape ``batch_shape``."""
        return self._in_batch(self._entropy())

    def mean(self, name: str = "mean") -> Array:
        """Return the means, of shape ``batch_shape`` and then ``event_shape``."""
        return self._of_events(self._mean())

    def mode(self, name: str = "mode") -> Array:
        """Return the values that are most likely."""
        return self._of_events(self._mode())

    def variance(self, name: str = "variance") -> Array:
        """Return the variances."""
        return self._of_events(self._variance())

    def stddev(self, name: str = "stddev") -> Array:
        """Return the standard deviations."""
        return self._of_events(self._stddev())

    def covariance(self, name: str = "covariance") -> Array:
        """Return the covariances of the parts of a value, where values are vectors."""
        return self._covariance()

    def cross_entropy(self, other: "Distribution", name: str = "cross_entropy") -> Array:
        """Return the mean of ``-other.log_prob(x)`` over this distribution's values."""
        return self.entropy() + self.kl_divergence(other)

    def kl_divergence(self, other: "Distribution", name: str = "kl_divergence") -> Array:
        """Return the Kullback-Leibler divergence of this distribution from another one."""
        return kl_divergence(self, other)

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Array:
        """Return ``batch_shape`` as an int32 array."""
        return np.asarray(self.batch_shape, np.int32)

    def event_shape_tensor(self, name: str = "event_shape_tensor") -> Array:
        """Return ``event_shape`` as an int32 array."""
        return np.asarray(self.event_shape, np.int32)

    def is_scalar_batch(self, name: str = "is_scalar_batch") -> bool:
        """Return whether this is one distribution."""
        return self.batch_shape == ()

    def is_scalar_event(self, name: str = "is_scalar_event") -> bool:
        """Return whether values are single numbers."""
        return self.event_shape == ()

    def copy(self, **override_parameters_kwargs: Any) -> Self:
        """Return a distribution with some other parameters."""
        return type(self)(**(self.parameters | override_parameters_kwargs))

    def _converted(self, value: ArrayLike) -> Array:
        return as_array(value) if hasattr(value, "dtype") else as_array(value, self.dtype)

    def _in_batch(self, value: Array) -> Array:
        return jnp.broadcast_to(value, tuple(self.batch_shape))

    def _of_events(self, value: Array) -> Array:
        return jnp.broadcast_to(value, (*self.batch_shape, *self.event_shape))

    def _missing(self, what: str) -> NotImplementedError:
        return NotImplementedError(f"{what} is not implemented: {type(self).__name__}")

    def _where_defined(self, defined: Any, value: Any, what: str) -> Array:
        """Return a value where it is defined, else NaN, or raise an error if that was asked for."""
        if not self.allow_nan_stats:
            assert_(jnp.all(defined), [f"{type(self).__name__} has no {what} for these parameters."])
        return jnp.where(defined, value, jnp.nan)

    def _require_positive(self, **parameters: Array) -> None:
        if self.validate_args:
            for name, value in parameters.items():
                assert_(jnp.all(jnp.asarray(value) > 0), [f"{name} must be positive."])


def parameter(value: ArrayLike, like: Array | None = None) -> jax.Array:
    """Return a parameter as a JAX array: float32, unless it, or the other one, has a dtype of its own."""
    dtype = None if like is None or hasattr(value, "dtype") else like.dtype
    array = as_array(value, dtype)
    return jnp.asarray(array if array.dtype.kind not in "iub" else as_array(array, np.float32))
