"""``tf.keras.experimental.LinearModel`` and ``WideDeepModel``: Keras models like the canned Estimators.

Source: keras/premade_models/linear.py, wide_deep.py (Keras 2.15).
"""

from collections.abc import Mapping
from typing import Any

from muster import keras
from muster.program import GradientTape


@keras.saving.register_keras_serializable("muster")
class LinearModel(keras.Model):  # type: ignore[misc]  # keras is untyped
    """Adds up a linear function of each input, and a bias.

    Args:
        units: The size of the output.
        activation: Applied to the sum; None for none.
        use_bias: Whether there is a bias.
        kernel_initializer: For the weights of the inputs.
        bias_initializer: For the bias.
        kernel_regularizer: Likewise.
        bias_regularizer: Likewise.
        **kwargs: As of ``keras.Model``.
    """

    def __init__(
        self,
        units: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "zeros",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.activation = keras.activations.get(activation)
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        self.dense_layers: list[Any] = []
        self.bias: Any = None

    def build(self, input_shape: Any) -> None:
        """Create the weights of each input: a dict of shapes, a list of them, or one."""
        shapes = _by_name(input_shape)
        for name, shape in shapes.items():
            layer = keras.layers.Dense(
                self.units,
                use_bias=False,
                kernel_initializer=self.kernel_initializer,
                kernel_regularizer=self.kernel_regularizer,
                name=name,
            )
            layer.build(shape)
            self.dense_layers.append(layer)
        if self.use_bias:
            self.bias = self.add_weight(
                name="bias",
                shape=(self.units,),
                initializer=self.bias_initializer,
                regularizer=self.bias_regularizer,
            )
        self.built = True

    def call(self, inputs: Any) -> Any:
        """Return the sum, of shape (batch, units)."""
        if isinstance(inputs, Mapping):
            if missing := sorted({each.name for each in self.dense_layers} - inputs.keys()):
                raise ValueError(f"The inputs lack {', '.join(missing)}: there are {', '.join(inputs)}.")
            inputs = [inputs[layer.name] for layer in self.dense_layers]
        elif not isinstance(inputs, list | tuple):
            inputs = [inputs]
        result = sum(layer(each) for layer, each in zip(self.dense_layers, inputs, strict=True))
        return self.activation(result if self.bias is None else result + self.bias)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments."""
        of = {"initializer": keras.initializers, "regularizer": keras.regularizers}
        return {
            **super().get_config(),
            "units": self.units,
            "activation": keras.activations.serialize(self.activation),
            "use_bias": self.use_bias,
            **{
                f"{part}_{kind}": module.serialize(getattr(self, f"{part}_{kind}"))
                for part in ("kernel", "bias")
                for kind, module in of.items()
            },
        }


def _by_name(shapes: Any) -> dict[str | None, Any]:
    if isinstance(shapes, Mapping):
        return dict(sorted(shapes.items()))
    if isinstance(shapes, list | tuple) and shapes and isinstance(shapes[0], list | tuple):
        return {f"input_{number}": shape for number, shape in enumerate(shapes)}
    return {None: shapes}


@keras.saving.register_keras_serializable("muster")
class WideDeepModel(keras.Model):  # type: ignore[misc]  # keras is untyped
    """Adds up the outputs of a linear model and of a deep one, and trains both together.

    Inputs are a pair, for each of them; or the same for both. `compile` takes an optimizer, or a pair.

    Args:
        linear_model: A `LinearModel`.
        dnn_model: A ``keras.Model`` with outputs of the same shape.
        activation: Applied to the sum; None for none.
        **kwargs: As of ``keras.Model``.
    """

    def __init__(self, linear_model: Any, dnn_model: Any, activation: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.linear_model = linear_model
        self.dnn_model = dnn_model
        self.activation = keras.activations.get(activation)
        self._dnn_optimizer: Any = None

    def call(self, inputs: Any, training: Any = None) -> Any:
        """Return the sum."""
        pair = isinstance(inputs, list | tuple) and len(inputs) == 2
        linear_inputs, dnn_inputs = inputs if pair else (inputs, inputs)
        linear, deep = self.linear_model(linear_inputs), self.dnn_model(dnn_inputs, training=training)
        return keras.tree.map_structure(lambda x, y: self.activation(x + y), linear, deep)

    def compile(self, optimizer: Any = "rmsprop", *args: Any, **kwargs: Any) -> None:
        """Say how it is trained, as ``keras.Model.compile``: by one optimizer, or by one for each model."""
        optimizers = optimizer if isinstance(optimizer, list | tuple) else [optimizer]
        super().compile(optimizers[0], *args, **kwargs)
        same = len(optimizers) == 1 or optimizers[1] is optimizers[0]
        self._dnn_optimizer = None if same else keras.optimizers.get(optimizers[1])

    def train_step(self, data: Any) -> Any:
        """Train both models on a batch."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        with GradientTape() as tape:
            outputs = self(x, training=True)
            loss = self.compute_loss(x, y, outputs, sample_weight)
        linear, deep = self.linear_model.trainable_variables, self.dnn_model.trainable_variables
        gradients = tape.gradient(loss, [*linear, *deep])
        if self._dnn_optimizer is None:
            self.optimizer.apply_gradients(zip(gradients, [*linear, *deep], strict=True))
        else:
            self.optimizer.apply_gradients(zip(gradients[: len(linear)], linear, strict=True))
            self._dnn_optimizer.apply_gradients(zip(gradients[len(linear) :], deep, strict=True))
        next(each for each in self.metrics if each.name == "loss").update_state(loss)
        return self.compute_metrics(x, y, outputs, sample_weight)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments."""
        return {
            **super().get_config(),
            "linear_model": keras.saving.serialize_keras_object(self.linear_model),
            "dnn_model": keras.saving.serialize_keras_object(self.dnn_model),
            "activation": keras.activations.serialize(self.activation),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> "WideDeepModel":
        """Build a model of the same arguments."""
        models = {
            name: keras.saving.deserialize_keras_object(config[name], custom_objects)
            for name in ("linear_model", "dnn_model")
        }
        return cls(**{**config, **models})
