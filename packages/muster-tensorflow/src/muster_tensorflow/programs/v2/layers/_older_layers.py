"""Layers of Keras 2 that Keras 3 does not have, a constraint, and the base of cells.

Source: keras/src/layers/locally_connected/, activation/thresholded_relu.py, kernelized.py,
rnn/abstract_rnn_cell.py, rnn/cudnn_lstm.py, rnn/cudnn_gru.py and keras/src/constraints.py of Keras 2.15.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from muster import keras
from muster_tensorflow.programs.v2.backend._backend_layers import data_format_or_default
from muster_tensorflow.programs.v2.backend._backend_volumes import local_conv

_serializable = keras.saving.register_keras_serializable("muster")
_KINDS = {
    "initializer": keras.initializers,
    "regularizer": keras.regularizers,
    "constraint": keras.constraints,
}


def _cauchy(shape: Sequence[int], dtype: Any = None) -> Any:
    return keras.ops.tan(np.pi * keras.initializers.RandomUniform(-0.5, 0.5)(shape, dtype))


_FEATURES = {"gaussian": keras.initializers.RandomNormal(stddev=1.0), "laplacian": _cauchy}


class _LocallyConnected(keras.layers.Layer):  # type: ignore[misc]  # keras is untyped
    """A convolution with another kernel at each place.

    Args:
        filters: The number of results at each place.
        kernel_size: The size of windows.
        strides: How far apart they are.
        padding: ``valid``, or with an ``implementation`` other than 1 also ``same``.
        data_format: ``channels_last`` or ``channels_first``.
        activation: Applied to the results.
        use_bias: Whether each place has a bias.
        kernel_initializer: For the kernels.
        bias_initializer: For biases.
        kernel_regularizer: Likewise.
        bias_regularizer: Likewise.
        activity_regularizer: Of the results.
        kernel_constraint: Likewise.
        bias_constraint: Likewise.
        implementation: 1, 2 or 3: how Keras 2 computed it. All have the kernels of 1 here, of shape (places,
            size of a window times channels, filters).
        **kwargs: As of ``keras.layers.Layer``.

    Raises:
        ValueError: There is no such padding or implementation.
    """

    _axes = 1

    def __init__(
        self,
        filters: int,
        kernel_size: int | Sequence[int],
        strides: int | Sequence[int] = 1,
        padding: str = "valid",
        data_format: str | None = None,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        implementation: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        padding = padding.lower()
        if implementation not in (1, 2, 3):
            raise ValueError(f"implementation is 1, 2 or 3, got {implementation!r}.")
        if padding not in (("valid",) if implementation == 1 else ("valid", "same")):
            raise ValueError(
                f"padding is 'valid', or 'same' if implementation is 2 or 3: got {padding!r} and "
                f"implementation={implementation}."
            )
        self.filters = filters
        self.kernel_size = self._sizes(kernel_size)
        self.strides = self._sizes(strides)
        self.padding = padding
        self.data_format = data_format_or_default(data_format)
        self.activation = keras.activations.get(activation)
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        self.kernel_constraint = keras.constraints.get(kernel_constraint)
        self.bias_constraint = keras.constraints.get(bias_constraint)
        self.implementation = implementation
        self.input_spec = keras.layers.InputSpec(ndim=self._axes + 2)

    def _sizes(self, value: int | Sequence[int]) -> tuple[int, ...]:
        return (value,) * self._axes if isinstance(value, int) else tuple(value)

    def _places(self, shape: Sequence[Any]) -> tuple[int, ...]:
        """Return how many windows there are along each axis."""
        first = self.data_format == "channels_first"
        inner = tuple(shape[2:] if first else shape[1:-1])
        if None in inner or shape[1 if first else -1] is None:
            raise ValueError(f"{self.name} needs inputs of a known size, got the shape {tuple(shape)}.")
        same = self.padding == "same"
        return tuple(
            -(-(size if same else size - kernel + 1) // step)
            for size, kernel, step in zip(inner, self.kernel_size, self.strides, strict=True)
        )

    def build(self, input_shape: Sequence[Any]) -> None:
        """Make the variables."""
        places = self._places(input_shape)
        channels = input_shape[1 if self.data_format == "channels_first" else -1]
        self.kernel = self.add_weight(
            shape=(int(np.prod(places)), int(np.prod(self.kernel_size)) * channels, self.filters),
            initializer=self.kernel_initializer,
            name="kernel",
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                shape=(*places, self.filters),
                initializer=self.bias_initializer,
                name="bias",
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )

    def call(self, inputs: Any) -> Any:
        """Convolve."""
        places = self._places(inputs.shape)
        first = self.data_format == "channels_first"
        if self.padding == "same":
            inner = inputs.shape[2:] if first else inputs.shape[1:-1]
            missing = [
                max((n - 1) * step + kernel - size, 0)
                for n, step, kernel, size in zip(places, self.strides, self.kernel_size, inner, strict=True)
            ]
            sides: list[tuple[int, int]] = [(each // 2, each - each // 2) for each in missing]
            sides.insert(0 if first else len(sides), (0, 0))
            inputs = keras.ops.pad(inputs, [(0, 0), *sides])
        found = local_conv(inputs, self.kernel, self.kernel_size, self.strides, places, self.data_format)
        if self.bias is not None:
            # Keras 2 reads the numbers in another order there.
            found = found + (keras.ops.reshape(self.bias, (self.filters, *places)) if first else self.bias)
        return self.activation(found)

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> tuple[int | None, ...]:
        """Return the shape of the results."""
        places = self._places(input_shape)
        if self.data_format == "channels_first":
            return (input_shape[0], self.filters, *places)
        return (input_shape[0], *places, self.filters)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments."""
        names = ("filters", "kernel_size", "strides", "padding", "data_format", "use_bias", "implementation")
        config = {name: getattr(self, name) for name in names}
        config["activation"] = keras.activations.serialize(self.activation)
        for kind, module in _KINDS.items():
            for of in ("kernel", "bias"):
                config[f"{of}_{kind}"] = module.serialize(getattr(self, f"{of}_{kind}"))
        config["activity_regularizer"] = keras.regularizers.serialize(self.activity_regularizer)
        return {**super().get_config(), **config}


@_serializable
class LocallyConnected1D(_LocallyConnected):
    __doc__ = _LocallyConnected.__doc__


@_serializable
class LocallyConnected2D(_LocallyConnected):
    __doc__ = _LocallyConnected.__doc__
    _axes = 2


@_serializable
class ThresholdedReLU(keras.layers.Layer):  # type: ignore[misc]  # keras is untyped
    """Lets values above a threshold through, and 0 for others.

    Args:
        theta: The threshold.
        **kwargs: As of ``keras.layers.Layer``.

    Raises:
        ValueError: The threshold is below 0, or None.
    """

    def __init__(self, theta: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if theta is None or theta < 0:
            raise ValueError(f"theta is a number of at least 0, got {theta!r}.")
        self.theta = float(theta)
        self.supports_masking = True

    def call(self, inputs: Any) -> Any:
        """Return values above the threshold."""
        return inputs * keras.ops.cast(inputs > self.theta, inputs.dtype)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments."""
        return {**super().get_config(), "theta": self.theta}


@_serializable
class RandomFourierFeatures(keras.layers.Layer):  # type: ignore[misc]  # keras is untyped
    """Random features whose inner products come near to a kernel of two examples.

    Args:
        output_dim: The number of features.
        kernel_initializer: ``gaussian`` or ``laplacian``; or an initializer of what features weigh.
        scale: How wide the kernel is; None is the root of half the inputs' size for ``gaussian``, else 1.
        trainable: Whether the scale is trained.
        name: The name of the layer.
        **kwargs: As of ``keras.layers.Layer``.

    Raises:
        ValueError: There are no features, there is no such kernel, or the scale is not above 0.
    """

    def __init__(
        self,
        output_dim: int,
        kernel_initializer: Any = "gaussian",
        scale: float | None = None,
        trainable: bool = False,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        if output_dim <= 0:
            raise ValueError(f"output_dim is a number of at least 1, got {output_dim!r}.")
        if isinstance(kernel_initializer, str) and kernel_initializer.lower() not in _FEATURES:
            raise ValueError(f"kernel_initializer is one of {[*_FEATURES]}, got {kernel_initializer!r}.")
        if scale is not None and scale <= 0:
            raise ValueError(f"scale is a number above 0, or None: got {scale!r}.")
        super().__init__(trainable=trainable, name=name, **kwargs)
        self.output_dim = output_dim
        if not isinstance(kernel_initializer, str):
            kernel_initializer = keras.initializers.get(kernel_initializer)
        self.kernel_initializer = kernel_initializer
        self.scale = scale

    def build(self, input_shape: Sequence[Any]) -> None:
        """Make the variables.

        Raises:
            ValueError: Inputs are not vectors of a known size.
        """
        if len(input_shape) != 2 or input_shape[-1] is None:
            raise ValueError(
                f"{self.name} needs inputs of a shape (batch, size), size known: got {tuple(input_shape)}."
            )
        size = input_shape[-1]
        self.input_spec = keras.layers.InputSpec(ndim=2, axes={1: size})
        known = self.kernel_initializer.lower() if isinstance(self.kernel_initializer, str) else None
        self.unscaled_kernel = self.add_weight(
            shape=(size, self.output_dim),
            dtype="float32",
            initializer=_FEATURES[known] if known else self.kernel_initializer,
            trainable=False,
            name="unscaled_kernel",
        )
        self.bias = self.add_weight(
            shape=(self.output_dim,),
            dtype="float32",
            initializer=keras.initializers.RandomUniform(0.0, 2 * np.pi),
            trainable=False,
            name="bias",
        )
        if self.scale is None:
            self.scale = float(np.sqrt(size / 2)) if known == "gaussian" else 1.0
        self.kernel_scale = self.add_weight(
            shape=(1,),
            dtype="float32",
            initializer=keras.initializers.Constant(self.scale),
            constraint="non_neg",
            name="kernel_scale",
        )

    def call(self, inputs: Any) -> Any:
        """Return the features, of type float32."""
        kernel = self.unscaled_kernel / self.kernel_scale
        return keras.ops.cos(keras.ops.matmul(keras.ops.cast(inputs, "float32"), kernel) + self.bias)

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> tuple[int | None, ...]:
        """Return the shape of the features."""
        return (input_shape[0], self.output_dim)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments."""
        kernel = self.kernel_initializer
        if not isinstance(kernel, str):
            kernel = keras.initializers.serialize(kernel)
        own = {"output_dim": self.output_dim, "kernel_initializer": kernel, "scale": self.scale}
        return {**super().get_config(), **own}


class AbstractRNNCell(keras.layers.Layer):  # type: ignore[misc]  # keras is untyped
    """The base of cells for ``keras.layers.RNN``, which have ``call(inputs, states)``."""

    def call(self, inputs: Any, states: Any) -> Any:
        """Return the output and the states of a time.

        Raises:
            NotImplementedError: The class does not say it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no call(inputs, states).")

    @property
    def state_size(self) -> Any:
        """The sizes of the states.

        Raises:
            NotImplementedError: The class does not say it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no state_size.")

    @property
    def output_size(self) -> Any:
        """The size of the output.

        Raises:
            NotImplementedError: The class does not say it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no output_size.")

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
        """Return zeros, for a batch or for as many examples as there are inputs."""
        if inputs is not None:
            batch_size, dtype = keras.ops.shape(inputs)[0], dtype or inputs.dtype

        def zeros(size: Any) -> Any:
            return keras.ops.zeros((batch_size, *np.atleast_1d(size).tolist()), dtype or self.compute_dtype)

        many = isinstance(self.state_size, list | tuple)
        return [zeros(each) for each in self.state_size] if many else zeros(self.state_size)


@_serializable
class CuDNNLSTM(keras.layers.LSTM):  # type: ignore[misc]  # keras is untyped
    """``keras.layers.LSTM``, with one bias for each gate."""


@_serializable
class CuDNNGRU(keras.layers.GRU):  # type: ignore[misc]  # keras is untyped
    """``keras.layers.GRU`` with its defaults, which computes what cuDNN does."""


@_serializable
class RadialConstraint(keras.constraints.Constraint):  # type: ignore[misc]  # keras is untyped
    """Makes the weights of a kernel equal that are in one ring around its middle."""

    def __call__(self, w: Any) -> Any:
        """Return the kernel with the values of its diagonal from before the middle on: one for each ring.

        Raises:
            ValueError: Its shape is not (size, size, channels, filters).
        """
        shape = tuple(w.shape)
        if len(shape) != 4 or shape[0] != shape[1]:
            raise ValueError(f"The kernel has a shape (size, size, channels, filters), got {shape}.")
        size, half = shape[0], shape[0] // 2
        away = np.abs(np.arange(size) - (size - 1) / 2)
        rings = np.maximum(away[:, None], away).astype(int)  # 0 in the middle
        places = np.array([half - 1, *range(half if size % 2 else half + 1, 2 * half)])
        return keras.ops.convert_to_tensor(w)[places, places][rings]


def deserialize(config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Any:
    """Make a layer of its configuration, of which Keras 2 needs no more than class name and arguments.

    Args:
        config: ``{"class_name": ..., "config": ...}``, or what ``tf.keras.layers.serialize`` returned.
        custom_objects: Classes and functions by the names that the configuration has for them.

    Source: keras/layers/serialization.py of Keras 2.15, ``deserialize``.
    """
    name = config.get("class_name")
    if "module" not in config and isinstance(name, str) and hasattr(keras.layers, name):
        if keras.saving.get_registered_object(name, custom_objects) is None:
            config = {"module": "keras.layers", "registered_name": None, **config}
    return keras.layers.deserialize(config, custom_objects)
