"""Distributions of real numbers.

Source: tensorflow/python/ops/distributions/, ``normal.py``, ``uniform.py``, ``laplace.py``, ``gamma.py``,
``exponential.py`` and ``student_t.py``.
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special
import jax.scipy.stats
import numpy as np

from muster_tensorflow.library.distributions._distribution import (
    FULLY_REPARAMETERIZED,
    Distribution,
    parameter,
)
from muster_tensorflow.library.distributions._divergence import RegisterKL
from muster_tensorflow.library.ops._arrays import Array, ArrayLike
from muster_tensorflow.library.ops.random import _random

_stats = jax.scipy.stats
_special = jax.scipy.special


class _OfNumbers(Distribution):
    """A distribution of single numbers, with parameters that broadcast against each other."""

    def __init__(
        self,
        given: dict[str, Any],
        values: list[Array],
        validate_args: bool,
        allow_nan_stats: bool,
        name: str,
    ) -> None:
        super().__init__(
            values[0].dtype,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given | {"validate_args": validate_args, "allow_nan_stats": allow_nan_stats, "name": name},
            np.broadcast_shapes(*(each.shape for each in values)),
            (),
            name,
        )

    def _sizes(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape, *self.batch_shape)


class Normal(_OfNumbers):
    """Normal distributions of a mean and a standard deviation.

    Args:
        loc: The means.
        scale: The standard deviations.
        validate_args: Check that known scales are positive.
        allow_nan_stats: Unused: all moments are defined.
        name: The distribution's name.
    """

    def __init__(
        self,
        loc: ArrayLike,
        scale: ArrayLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Normal",
    ) -> None:
        self.loc = parameter(loc)
        self.scale = parameter(scale, self.loc)
        super().__init__(
            {"loc": loc, "scale": scale}, [self.loc, self.scale], validate_args, allow_nan_stats, name
        )
        self._require_positive(scale=self.scale)

    def _sample(self, shape: tuple[int, ...], seed: int | None) -> Array:
        return _random.normal(self._sizes(shape), dtype=self.dtype, seed=seed) * self.scale + self.loc

    def _log_prob(self, value: Array) -> Array:
        return _stats.norm.logpdf(value, self.loc, self.scale)

    def _cdf(self, value: Array) -> Array:
        return _stats.norm.cdf(value, self.loc, self.scale)

    def log_cdf(self, value: ArrayLike, name: str = "log_cdf") -> Array:
        return _stats.norm.logcdf(self._converted(value), self.loc, self.scale)

    def _quantile(self, value: Array) -> Array:
        return _stats.norm.ppf(value, self.loc, self.scale)

    def _entropy(self) -> Array:
        return jnp.log(self.scale) + float(0.5 * np.log(2 * np.pi * np.e))

    def _mean(self) -> Array:
        return self.loc

    def _mode(self) -> Array:
        return self.loc

    def _stddev(self) -> Array:
        return self.scale

    def _variance(self) -> Array:
        return jnp.square(self.scale)


class Uniform(_OfNumbers):
    """Uniform distributions from ``low`` up to, but without, ``high``.

    Args:
        low: The lower bounds.
        high: The upper bounds.
        validate_args: Unused.
        allow_nan_stats: Unused: all moments are defined.
        name: The distribution's name.
    """

    def __init__(
        self,
        low: ArrayLike = 0.0,
        high: ArrayLike = 1.0,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Uniform",
    ) -> None:
        self.low = parameter(low)
        self.high = parameter(high, self.low)
        super().__init__(
            {"low": low, "high": high}, [self.low, self.high], validate_args, allow_nan_stats, name
        )
        self._require_positive(**{"high - low": self.range()})

    def range(self, name: str = "range") -> Array:
        """Return ``high - low``."""
        return jnp.subtract(self.high, self.low)

    def _sample(self, shape: tuple[int, ...], seed: int | None) -> Array:
        drawn = _random.uniform(self._sizes(shape), dtype=self.dtype, seed=seed)
        return self.low + self.range() * drawn

    def _log_prob(self, value: Array) -> Array:
        inside = (value >= self.low) & (value < self.high)
        return jnp.where(inside, -jnp.log(self.range()), -jnp.inf)

    def _cdf(self, value: Array) -> Array:
        return jnp.clip((value - self.low) / self.range(), 0, 1)

    def _quantile(self, value: Array) -> Array:
        return self.low + self.range() * value

    def _entropy(self) -> Array:
        return jnp.log(self.range())

    def _mean(self) -> Array:
        return (self.low + self.high) / 2

    def _variance(self) -> Array:
        return jnp.square(self.range()) / 12


class Laplace(_OfNumbers):
    """Laplace distributions: exponential on both sides of ``loc``.

    Args:
        loc: The means.
        scale: The mean distance from it.
        validate_args: Check that known scales are positive.
        allow_nan_stats: Unused: all moments are defined.
        name: The distribution's name.
    """

    def __init__(
        self,
        loc: ArrayLike,
        scale: ArrayLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Laplace",
    ) -> None:
        self.loc = parameter(loc)
        self.scale = parameter(scale, self.loc)
        super().__init__(
            {"loc": loc, "scale": scale}, [self.loc, self.scale], validate_args, allow_nan_stats, name
        )
        self._require_positive(scale=self.scale)

    def _sample(self, shape: tuple[int, ...], seed: int | None) -> Array:
        # Above -1, whose logarithm there is none of.
        low = np.nextafter(np.asarray(-1, self.dtype), np.asarray(0, self.dtype))
        drawn = jnp.asarray(_random.uniform(self._sizes(shape), low, 1.0, self.dtype, seed))
        return self.loc - self.scale * jnp.sign(drawn) * jnp.log1p(-jnp.abs(drawn))

    def _log_prob(self, value: Array) -> Array:
        return _stats.laplace.logpdf(value, self.loc, self.scale)

    def _cdf(self, value: Array) -> Array:
        return _stats.laplace.cdf(value, self.loc, self.scale)

    def _entropy(self) -> Array:
        return 1 + jnp.log(2 * self.scale)

    def _mean(self) -> Array:
        return self.loc

    def _mode(self) -> Array:
        return self.loc

    def _stddev(self) -> Array:
        return np.float32(np.sqrt(2)) * self.scale

    def _variance(self) -> Array:
        return 2 * jnp.square(self.scale)


class Gamma(_OfNumbers):
    """Gamma distributions of a shape and a rate.

    Args:
        concentration: The shapes, often called alpha.
        rate: The rates, often called beta.
        validate_args: Check that known parameters are positive.
        allow_nan_stats: Return NaN where there is no mode, rather than raise.
        name: The distribution's name.
    """

    def __init__(
        self,
        concentration: ArrayLike,
        rate: ArrayLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Gamma",
    ) -> None:
        self.concentration = parameter(concentration)
        self.rate = parameter(rate, self.concentration)
        super().__init__(
            {"concentration": concentration, "rate": rate},
            [self.concentration, self.rate],
            validate_args,
            allow_nan_stats,
            name,
        )
        self._require_positive(concentration=self.concentration, rate=self.rate)

    def _sample(self, shape: tuple[int, ...], seed: int | None) -> Array:
        return _random.gamma(shape, self.concentration, self.rate, self.dtype, seed)

    def _log_prob(self, value: Array) -> Array:
        return _stats.gamma.logpdf(value, self.concentration, scale=1 / self.rate)

    def _cdf(self, value: Array) -> Array:
        return _special.gammainc(self.concentration, self.rate * value)

    def _entropy(self) -> Array:
        shape = self.concentration
        return shape - jnp.log(self.rate) + _special.gammaln(shape) + (1 - shape) * _special.digamma(shape)

    def _mean(self) -> Array:
        return self.concentration / self.rate

    def _mode(self) -> Array:
        return self._where_defined(self.concentration > 1, (self.concentration - 1) / self.rate, "mode")

    def _variance(self) -> Array:
        return self.concentration / jnp.square(self.rate)


class Exponential(Gamma):
    """Exponential distributions of a rate: those of `Gamma` with a shape of 1.

    Args:
        rate: The rates.
        validate_args: Check that known rates are positive.
        allow_nan_stats: Unused: there is no mode, as in TensorFlow.
        name: The distribution's name.
    """

    def __init__(
        self,
        rate: ArrayLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Exponential",
    ) -> None:
        given = parameter(rate)
        super().__init__(jnp.ones((), given.dtype), given, validate_args, allow_nan_stats, name)
        del self.parameters["concentration"]

    def _sample(self, shape: tuple[int, ...], seed: int | None) -> Array:
        drawn = _random.uniform(self._sizes(shape), dtype=self.dtype, seed=seed)
        return -jnp.log1p(-jnp.asarray(drawn)) / self.rate


class StudentT(_OfNumbers):
    """Student's distributions.

    Args:
        df: The degrees of freedom.
        loc: The centres.
        scale: The factors of the distances from them.
        validate_args: Check that known degrees of freedom and scales are positive.
        allow_nan_stats: Return NaN where there is no mean or variance, rather than raise.
        name: The distribution's name.
    """

    def __init__(
        self,
        df: ArrayLike,
        loc: ArrayLike,
        scale: ArrayLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "StudentT",
    ) -> None:
        self.df = parameter(df)
        self.loc, self.scale = parameter(loc, self.df), parameter(scale, self.df)
        super().__init__(
            {"df": df, "loc": loc, "scale": scale},
            [self.df, self.loc, self.scale],
            validate_args,
            allow_nan_stats,
            name,
        )
        self._require_positive(df=self.df, scale=self.scale)

    def _sample(self, shape: tuple[int, ...], seed: int | None) -> Array:
        sizes = self._sizes(shape)
        drawn = _random.normal(sizes, dtype=self.dtype, seed=seed)
        halves = jnp.broadcast_to(self.df / 2, tuple(self.batch_shape))
        # Another sequence than that of the normal numbers.
        second = None if seed is None else (seed * 1000003 + 1) % 2**31
        spread = _random.gamma(shape, halves, 0.5, self.dtype, second)
        return self.loc + self.scale * drawn * jnp.sqrt(self.df / jnp.asarray(spread))

    def _log_prob(self, value: Array) -> Array:
        return _stats.t.logpdf(value, self.df, self.loc, jnp.abs(self.scale))

    def _cdf(self, value: Array) -> Array:
        distance = (value - self.loc) / jnp.abs(self.scale)
        tail = 0.5 * _special.betainc(0.5 * self.df, 0.5, self.df / (jnp.square(distance) + self.df))
        return jnp.where(distance < 0, tail, 1 - tail)

    def _entropy(self) -> Array:
        half, more = 0.5 * self.df, 0.5 * (self.df + 1)
        constant = 0.5 * jnp.log(self.df) + _special.betaln(0.5, half)
        spread = more * (_special.digamma(more) - _special.digamma(half))
        return jnp.log(jnp.abs(self.scale)) + constant + spread

    def _mean(self) -> Array:
        return self._where_defined(self.df > 1, self.loc, "mean")

    def _mode(self) -> Array:
        return self.loc

    def _variance(self) -> Array:
        # The other branch of a gradient must not divide by 0.
        over = jnp.where(self.df > 2, self.df - 2, 1)
        known = jnp.where(self.df > 2, jnp.square(self.scale) * self.df / over, jnp.inf)
        return self._where_defined(self.df > 1, known, "variance")


@RegisterKL(Normal, Normal)
def _of_normal(a: Normal, b: Normal, name: str | None = None) -> Array:
    ratio = jnp.square(a.scale / b.scale)
    return jnp.square((a.loc - b.loc) / b.scale) / 2 + 0.5 * (ratio - 1 - jnp.log(ratio))


@RegisterKL(Gamma, Gamma)
def _of_gamma(a: Gamma, b: Gamma, name: str | None = None) -> Array:
    return (
        (a.concentration - b.concentration) * _special.digamma(a.concentration)
        + _special.gammaln(b.concentration)
        - _special.gammaln(a.concentration)
        + b.concentration * (jnp.log(a.rate) - jnp.log(b.rate))
        + a.concentration * (b.rate / a.rate - 1)
    )
