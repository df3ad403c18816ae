"""Distributions over probabilities: ``Beta`` for one, ``Dirichlet`` for those of several classes.

Source: tensorflow/python/ops/distributions/, ``beta.py`` and ``dirichlet.py``.
"""

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np

from muster_tensorflow.library.distributions._distribution import (
    FULLY_REPARAMETERIZED,
    Distribution,
    parameter,
)
from muster_tensorflow.library.distributions._divergence import RegisterKL
from muster_tensorflow.library.ops._arrays import Array, ArrayLike
from muster_tensorflow.library.ops.random import _random

_special = jax.scipy.special


class Beta(Distribution):
    """Beta distributions of two concentrations.

    Args:
        concentration1: Those of 1, often called alpha; None is 1.
        concentration0: Those of 0, often called beta; None is 1.
        validate_args: Check that known concentrations are positive.
        allow_nan_stats: Return NaN where there is no mode, rather than raise.
        name: The distribution's name.
    """

    def __init__(
        self,
        concentration1: ArrayLike | None = None,
        concentration0: ArrayLike | None = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Beta",
    ) -> None:
        self.concentration1 = parameter(1.0 if concentration1 is None else concentration1)
        self.concentration0 = parameter(
            1.0 if concentration0 is None else concentration0, self.concentration1
        )
        self.total_concentration = self.concentration1 + self.concentration0
        super().__init__(
            self.concentration1.dtype,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            {
                "concentration1": concentration1,
                "concentration0": concentration0,
                "validate_args": validate_args,
                "allow_nan_stats": allow_nan_stats,
                "name": name,
            },
            self.total_concentration.shape,
            (),
            name,
        )
        self._require_positive(concentration1=self.concentration1, concentration0=self.concentration0)

    def _sample(self, shape: tuple[int, ...], seed: int | None) -> Array:
        both = jnp.stack(jnp.broadcast_arrays(self.concentration1, self.concentration0), -1)
        drawn = jnp.asarray(_random.gamma(shape, both, 1.0, self.dtype, seed))
        return drawn[..., 0] / jnp.sum(drawn, -1)

    def _log_prob(self, value: Array) -> Array:
        one, zero = self.concentration1, self.concentration0
        return (
            _special.xlogy(one - 1, value) + _special.xlog1py(zero - 1, -value) - _special.betaln(one, zero)
        )

    def _cdf(self, value: Array) -> Array:
        return _special.betainc(self.concentration1, self.concentration0, value)

    def _entropy(self) -> Array:
        one, zero, total = self.concentration1, self.concentration0, self.total_concentration
        return (
            _special.betaln(one, zero)
            - (one - 1) * _special.digamma(one)
            - (zero - 1) * _special.digamma(zero)
            + (total - 2) * _special.digamma(total)
        )

    def _mean(self) -> Array:
        return self.concentration1 / self.total_concentration

    def _mode(self) -> Array:
        defined = (self.concentration1 > 1) & (self.concentration0 > 1)
        return self._where_defined(
            defined, (self.concentration1 - 1) / (self.total_concentration - 2), "mode"
        )

    def _variance(self) -> Array:
        mean = self._mean()
        return mean * (1 - mean) / (1 + self.total_concentration)


class Dirichlet(Distribution):
    """Dirichlet distributions, of vectors of probabilities.

    Args:
        concentration: Of shape (…, classes).
        validate_args: Check that known concentrations are positive.
        allow_nan_stats: Return NaN where there is no mode, rather than raise.
        name: The distribution's name.
    """

    def __init__(
        self,
        concentration: ArrayLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Dirichlet",
    ) -> None:
        self.concentration = parameter(concentration)
        self.total_concentration = jnp.sum(self.concentration, -1)
        super().__init__(
            self.concentration.dtype,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            {
                "concentration": concentration,
                "validate_args": validate_args,
                "allow_nan_stats": allow_nan_stats,
                "name": name,
            },
            self.concentration.shape[:-1],
            self.concentration.shape[-1:],
            name,
        )
        self._require_positive(concentration=self.concentration)

    def _sample(self, shape: tuple[int, ...], seed: int | None) -> Array:
        drawn = jnp.asarray(_random.gamma(shape, self.concentration, 1.0, self.dtype, seed))
        return drawn / jnp.sum(drawn, -1, keepdims=True)

    def log_normalizer(self) -> Array:
        """Return the logarithms of what densities are divided by, shape ``batch_shape``."""
        return jnp.sum(_special.gammaln(self.concentration), -1) - _special.gammaln(self.total_concentration)

    def _log_prob(self, value: Array) -> Array:
        return jnp.sum(_special.xlogy(self.concentration - 1, value), -1) - self.log_normalizer()

    def _entropy(self) -> Array:
        classes = self.concentration.shape[-1]
        return (
            self.log_normalizer()
            + (self.total_concentration - classes) * _special.digamma(self.total_concentration)
            - jnp.sum((self.concentration - 1) * _special.digamma(self.concentration), -1)
        )

    def _mean(self) -> Array:
        return self.concentration / self.total_concentration[..., None]

    def _mode(self) -> Array:
        classes = self.concentration.shape[-1]
        most = (self.concentration - 1) / (self.total_concentration[..., None] - classes)
        return self._where_defined(jnp.all(self.concentration > 1, -1, keepdims=True), most, "mode")

    def _variance(self) -> Array:
        mean = self._mean()
        return mean * (1 - mean) / (1 + self.total_concentration[..., None])

    def _covariance(self) -> Array:
        mean, classes = self._mean(), self.concentration.shape[-1]
        products = mean[..., :, None] * (np.eye(classes, dtype=self.dtype) - mean[..., None, :])
        return products / (1 + self.total_concentration[..., None, None])


@RegisterKL(Beta, Beta)
def _of_beta(a: Beta, b: Beta, name: str | None = None) -> Array:
    difference = b.total_concentration - a.total_concentration
    return (
        _special.betaln(b.concentration1, b.concentration0)
        - _special.betaln(a.concentration1, a.concentration0)
        - _special.digamma(a.concentration1) * (b.concentration1 - a.concentration1)
        - _special.digamma(a.concentration0) * (b.concentration0 - a.concentration0)
        + _special.digamma(a.total_concentration) * difference
    )


@RegisterKL(Dirichlet, Dirichlet)
def _of_dirichlet(a: Dirichlet, b: Dirichlet, name: str | None = None) -> Array:
    digammas = _special.digamma(a.concentration) - _special.digamma(a.total_concentration)[..., None]
    within = jnp.sum((a.concentration - b.concentration) * digammas, -1)
    return within - a.log_normalizer() + b.log_normalizer()
