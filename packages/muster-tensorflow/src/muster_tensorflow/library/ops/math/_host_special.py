"""``tf.math.special``: differentiable functions that JAX lacks, computed by SciPy on the host."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from muster_tensorflow.library.ops._arrays import Array, ArrayLike, as_array
from muster_tensorflow.library.ops._operation import operation


def on_host(function: Callable[..., Any], dtype: Any, value: jax.Array) -> jax.Array:
    """Call a function of NumPy's arrays for each element, also in a step; the result has the same shape."""

    def compute(values: Any) -> Any:
        return np.asarray(function(np.asarray(values))).astype(dtype)

    kind = jax.ShapeDtypeStruct(value.shape, dtype)
    return jax.pure_callback(compute, kind, value, vmap_method="expand_dims")  # type: ignore[no-any-return]


def _special(name: str, what: str, derivative: Callable[[Any, Any], Any]) -> Callable[..., Array]:
    """Make an operation of a function of SciPy.

    Args:
        name: TensorFlow's name.
        what: What it returns, for the documentation.
        derivative: Gives the derivative of ``x`` and of the function's values there.
    """

    def function(x: Any) -> Any:
        return getattr(scipy.special, _OF_SCIPY.get(name, name))(x)

    @jax.custom_jvp
    def values_of(x: jax.Array) -> jax.Array:
        return on_host(lambda x: function(x.astype(np.float64)), x.dtype, x)

    def values_and_change(primals: Any, tangents: Any) -> Any:
        (x,), (change,) = primals, tangents
        values = values_of(x)
        return values, change * derivative(x, values)

    values_of.defjvp(values_and_change)
    _BY_NAME[name] = values_of

    def compute(x: ArrayLike, name: str | None = None) -> Array:
        return values_of(jnp.asarray(as_array(x)))

    compute.__name__ = compute.__qualname__ = name
    compute.__doc__ = f"Return {what}."
    return operation(compute)


_OF_SCIPY = {f"bessel_{kind}": kind for kind in ("j0", "j1", "k0", "k0e", "k1", "k1e", "y0", "y1")}
_BY_NAME: dict[str, Callable[..., Any]] = {}


def _other(name: str) -> Callable[..., Any]:
    return lambda x: _BY_NAME[name](x)


def _bessel(name: str, what: str, derivative: Callable[[Any, Any], Any]) -> Callable[..., Array]:
    return _special(f"bessel_{name}", f"the {what}", derivative)


_j0, _j1, _k0, _k1 = (_other(f"bessel_{kind}") for kind in ("j0", "j1", "k0", "k1"))
_k0e, _k1e, _y0, _y1 = (_other(f"bessel_{kind}") for kind in ("k0e", "k1e", "y0", "y1"))
_SECOND = "modified Bessel function of the second kind of order"
bessel_j0 = _bessel("j0", "Bessel function of order 0", lambda x, y: -_j1(x))
bessel_j1 = _bessel(
    "j1",
    "Bessel function of order 1",
    lambda x, y: jnp.where(x == 0, 0.5, _j0(x) - y / jnp.where(x == 0, 1, x)),
)
bessel_k0 = _bessel("k0", f"{_SECOND} 0", lambda x, y: -_k1(x))
bessel_k0e = _bessel("k0e", f"scaled {_SECOND} 0", lambda x, y: y - _k1e(x))
bessel_k1 = _bessel("k1", f"{_SECOND} 1", lambda x, y: -_k0(x) - y / x)
bessel_k1e = _bessel("k1e", f"scaled {_SECOND} 1", lambda x, y: y * (1 - 1 / x) - _k0e(x))
bessel_y0 = _bessel("y0", "Bessel function of the second kind of order 0", lambda x, y: -_y1(x))
bessel_y1 = _bessel("y1", "Bessel function of the second kind of order 1", lambda x, y: _y0(x) - y / x)
dawsn = _special("dawsn", "Dawson's integral", lambda x, y: 1 - 2 * x * y)

spence = _special(
    "spence",
    "Spence's integral",
    lambda x, y: jnp.where(x == 1, -1, jnp.log(x) / jnp.where(x == 1, 1, 1 - x)),
)


def _fresnel(name: str, which: int, derivative: Callable[[Any], Any]) -> Callable[..., Array]:
    @jax.custom_jvp
    def values_of(x: jax.Array) -> jax.Array:
        return on_host(lambda x: scipy.special.fresnel(x.astype(np.float64))[which], x.dtype, x)

    def values_and_change(primals: Any, tangents: Any) -> Any:
        (x,), (change,) = primals, tangents
        return values_of(x), change * derivative(np.pi / 2 * x**2)

    values_of.defjvp(values_and_change)

    def compute(x: ArrayLike, name: str | None = None) -> Array:
        return values_of(jnp.asarray(as_array(x)))

    compute.__name__ = compute.__qualname__ = name
    compute.__doc__ = f"Return Fresnel's {name.partition('_')[2]} integral."
    return operation(compute)


fresnel_cos = _fresnel("fresnel_cos", 1, jnp.cos)
fresnel_sin = _fresnel("fresnel_sin", 0, jnp.sin)
