"""Keras 2's spellings on Keras' models: ``fit_generator``, ``fit(workers=…)``, ``reset_states``.

The names are ones that Keras 3 lacks or refuses; what it takes means what it meant.
"""

import functools
import json
import math
from collections.abc import Callable
from typing import Any, NoReturn

import jax
import numpy as np

from muster import cpu, keras
from muster_tensorflow.library.keras2.losses._results import result_names
from muster_tensorflow.library.keras2.models._compiled import CompiledLoss, CompiledMetrics
from muster_tensorflow.patches import change, wrap
from muster_tensorflow.programs.v2.saved._keras2_saved_models import is_saved_model, load_saved_model
from muster_tensorflow.programs.v2.saved._model_signatures import input_structure
from muster_tensorflow.programs.v2.saved_model import archive_in
from muster_tensorflow.programs.v2.saved_model import save as export_model

# Names of losses that Keras does not find by themselves.
_SHORT_LOSSES = {
    "mse": "mean_squared_error",
    "mae": "mean_absolute_error",
    "mape": "mean_absolute_percentage_error",
    "msle": "mean_squared_logarithmic_error",
    "kld": "kl_divergence",
    "bce": "binary_crossentropy",
}
_STEPS = ("steps_per_epoch", "validation_steps", "steps")
# How Keras 2 reads generators and Sequences, which Keras 3 asks of PyDatasets themselves.
_READING = ("workers", "use_multiprocessing", "max_queue_size")


class Replaceable:
    """A property that a model may replace by an attribute of its own.

    Args:
        get: Returns its value for a model.
    """

    def __init__(self, get: Callable[[Any], Any]) -> None:
        self._get = get
        self.__doc__ = get.__doc__

    def __get__(self, model: Any, owner: type) -> Any:
        return self if model is None else self._get(model)


class Gone:
    """A method that Keras 3 has no more: to ask for it raises an error that says what to use."""

    def __init__(self, instead: str) -> None:
        self._instead = instead

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, model: Any, owner: type) -> NoReturn:
        raise AttributeError(f"Models have no {self._name} since Keras 2.6. {self._instead}", name=self._name)


class _Sequential:
    """Methods for `keras.Sequential`, which Keras had up to 2.5."""

    def predict_classes(self: Any, x: Any, batch_size: int = 32, verbose: Any = 0) -> np.ndarray:
        """Return the most probable class of each row; of one probability, whether it is above a half."""
        found = self.predict_proba(x, batch_size, verbose)
        classes: np.ndarray = found.argmax(-1) if found.shape[-1] > 1 else (found > 0.5).astype("int32")
        return classes

    def predict_proba(self: Any, x: Any, batch_size: int = 32, verbose: Any = 0) -> np.ndarray:
        """Return what `predict` does."""
        return np.asarray(self.predict(x, batch_size=batch_size, verbose=verbose))


class _Methods:
    """Methods for `keras.Model`."""

    inputs: Any = None  # of a model with a call of its own
    outputs: Any = None

    predict_classes = Gone(
        "Use np.argmax(model.predict(x), axis=-1), or model.predict(x) > 0.5 for one output."
    )
    predict_proba = Gone("Use predict.")

    def to_yaml(self: Any, **options: Any) -> str:
        """Return what ``to_json`` does, as YAML.

        Args:
            options: Further arguments of ``yaml.safe_dump``.

        Source: tensorflow/python/keras/engine/training.py of TensorFlow 2.5, ``Model.to_yaml``.
        """
        import yaml

        text: str = yaml.safe_dump(json.loads(self.to_json()), **options)
        return text

    def fit_generator(self: Any, generator: Any, *args: Any, **kwargs: Any) -> Any:
        """Train by batches of a generator: ``fit``, with Keras 2's order of arguments."""
        return self.fit(generator, **_named(_FIT_GENERATOR, args, kwargs))

    def evaluate_generator(self: Any, generator: Any, *args: Any, **kwargs: Any) -> Any:
        """Evaluate batches of a generator: ``evaluate``, with Keras 2's order of arguments."""
        return self.evaluate(generator, **_named(_RUN_GENERATOR, args, {"verbose": 0, **kwargs}))

    def predict_generator(self: Any, generator: Any, *args: Any, **kwargs: Any) -> Any:
        """Predict batches of a generator: ``predict``, with Keras 2's order of arguments."""
        return self.predict(generator, **_named(_RUN_GENERATOR, args, {"verbose": 0, **kwargs}))

    def export(
        self: Any, filepath: Any, format: str = "tf_saved_model", verbose: Any = None, **kwargs: Any
    ) -> None:
        """Save what the model computes by `tf.saved_model.save`: Keras' own export needs TensorFlow."""
        if format != "tf_saved_model" or kwargs:
            unknown = f"format={format!r}" if format != "tf_saved_model" else f"{min(kwargs)}="
            raise ValueError(
                f"export got {unknown}. It writes the format tf_saved_model, whose signatures are given to "
                "tf.saved_model.save(model, path, signatures=...)."
            )
        export_model(self, filepath)

    def save_spec(self: Any, dynamic_batch: bool = True) -> Any:
        """Return the specs of the arguments of the model's ``call``, and of named ones; None before a call.

        Args:
            dynamic_batch: Unused: the specs are for any number of rows.

        Source: keras/src/engine/training.py of Keras 2, ``Model.save_spec``.
        """
        return ([input_structure(self)], {}) if self.built else None

    def reset_states(self: Any) -> None:
        """Set the states of stateful recurrent layers to 0."""
        for layer in self.layers:
            if isinstance(layer, keras.Model) or getattr(layer, "stateful", False):
                layer.reset_states()

    @Replaceable
    def compiled_loss(self: Any) -> CompiledLoss:
        """The loss of ``compile``, to be called by a ``train_step`` of one's own."""
        return CompiledLoss(self)

    @Replaceable
    def compiled_metrics(self: Any) -> CompiledMetrics:
        """The metrics of ``compile``, to be updated by a ``train_step`` of one's own."""
        return CompiledMetrics(self)

    @property
    def metrics_names(self: Any) -> list[str]:
        """The names of what ``evaluate`` returns, in its order."""
        return result_names(self)


_FIT_GENERATOR = (
    *("steps_per_epoch", "epochs", "verbose", "callbacks", "validation_data", "validation_steps"),
    *("validation_freq", "class_weight", *_READING[2:], *_READING[:2], "shuffle", "initial_epoch"),
)
_RUN_GENERATOR = ("steps", "callbacks", "max_queue_size", "workers", "use_multiprocessing", "verbose")


def _named(order: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    if len(args) > len(order):
        raise TypeError(
            f"There are {len(args)} arguments after the generator. There are: {', '.join(order)}."
        )
    return {**kwargs, **dict(zip(order, args, strict=False))}


def _without(original: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """Wrap a method, so that it takes arguments of Keras 2, which do nothing."""

    @functools.wraps(original)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        for name in names:
            kwargs.pop(name, None)
        return original(self, *args, **kwargs)

    return run


def _of_steps(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``fit``, ``evaluate`` or ``predict``: numbers of steps may be floats, as of ``np.ceil``.

    Source: keras/src/engine/data_adapter.py of Keras 2.15, ``DataHandler.steps``, which compares with them.
    """

    @functools.wraps(original)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        for name in _STEPS:
            if isinstance(kwargs.get(name), float | np.floating):
                kwargs[name] = math.ceil(kwargs[name])
        return original(self, *args, **kwargs)

    return run


def _resetting(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``train_on_batch`` and ``test_on_batch``: metrics go on after ``reset_metrics=False``.

    Keras 3 resets them before each batch, and Keras 2 after those with ``reset_metrics=True``.

    Source: keras/src/engine/training.py of Keras 2.15, ``Model.test_on_batch``.
    """

    @functools.wraps(original)
    def run(self: Any, *args: Any, reset_metrics: bool = True, **kwargs: Any) -> Any:
        if not vars(self).get("_metrics_end", reset_metrics):
            object.__setattr__(self, "reset_metrics", lambda: None)
        try:
            return original(self, *args, **kwargs)
        finally:
            vars(self).pop("reset_metrics", None)
            object.__setattr__(self, "_metrics_end", reset_metrics)

    return run


def _named_functions(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``losses.deserialize``, by which Keras reads the loss of an .h5 file: ``"mse"`` fails there."""

    @functools.wraps(original)
    def deserialize(name: Any, custom_objects: Any = None) -> Any:
        if isinstance(name, str) and name in _SHORT_LOSSES and name not in (custom_objects or {}):
            return getattr(keras.losses, _SHORT_LOSSES[name])
        return original(name, custom_objects)

    return deserialize


class _Shapes:
    """The shapes of what a layer was called with, or returned, when a model was made of it.

    An attribute of that name, which a layer may set, goes first.
    """

    def __init__(self, tensors: str) -> None:
        self._tensors = tensors

    def __get__(self, layer: Any, owner: type) -> Any:
        if layer is None:
            return self
        return jax.tree.map(lambda tensor: tuple(tensor.shape), getattr(layer, self._tensors))


def _of_values(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap ``get_metrics_result``: the result of a metric may be a variable, which stands for its value."""

    @functools.wraps(original)
    def get_metrics_result(self: Any) -> Any:
        return jax.tree.map(
            lambda each: each.value if isinstance(each, keras.Variable) else each, original(self)
        )

    return get_metrics_result


def _with_signatures(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``Model.save``: with signatures it writes what `tf.saved_model.save` does."""

    @functools.wraps(original)
    def save(self: Any, filepath: Any, *args: Any, signatures: Any = None, **kwargs: Any) -> None:
        if signatures and str(filepath).endswith(".keras"):
            raise ValueError("A .keras file holds no signatures: save the model to a folder.")
        if signatures is None:
            original(self, filepath, *args, **kwargs)
        else:
            export_model(self, filepath, signatures)

    return save


def _saving(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``save_model``, so that it takes the names and arguments that ``Model.save`` takes."""

    @functools.wraps(original)
    def save_model(model: Any, filepath: Any, overwrite: bool = True, **kwargs: Any) -> None:
        if isinstance(model, keras.Model):
            model.save(filepath, overwrite=overwrite, **kwargs)
        else:
            original(model, filepath, overwrite=overwrite, **kwargs)

    return save_model


def _loading(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``load_model``: it takes ``options``, and folders of `export_model` and of Keras 2."""

    @functools.wraps(original)
    def load_model(filepath: Any, *args: Any, options: object = None, **kwargs: Any) -> Any:
        if str(filepath).startswith("hf://"):  # of Hugging Face, which Keras knows
            return original(filepath, *args, **kwargs)
        if is_saved_model(filepath):
            return load_saved_model(filepath, *args, **kwargs)
        return original(archive_in(filepath) or filepath, *args, **kwargs)

    return load_model


def _readying(original: Callable[[Any], None]) -> Callable[[Any], None]:
    """Wrap what builds the metrics of a model from an h5 file: it builds the optimizer, too.

    On JAX, Keras builds that of a functional model for no variables, and loses its state.
    """

    @functools.wraps(original)
    def build(model: Any) -> None:
        original(model)
        if model.built and model.optimizer is not None:
            model.optimizer.build(model.trainable_variables)

    return build


def _saying_inputs(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``Model.__init__``: Keras 1's arguments get an error that names those of today.

    A single argument of a program's own class means nothing, as in Keras 2: ``super().__init__("policy")``.
    """

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if type(self) is keras.Model and {"input", "output"} & kwargs.keys():
            raise TypeError("Model(input=…, output=…) is Keras 1's: write Model(inputs=…, outputs=…).")
        if len(args) == 1 and "outputs" not in kwargs and type(self) is not keras.Model:
            args = ()
        original(self, *args, **kwargs)

    return init


def _leaving_out(original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Wrap ``Functional._standardize_inputs``: data that no input has the name of is left out.

    Keras 3 warns of it, and then gives each input the data of another.
    """

    @functools.wraps(original)
    def standardize(self: Any, inputs: Any) -> Any:
        struct = self._inputs_struct
        if isinstance(inputs, dict) and isinstance(struct, dict) and struct.keys() < inputs.keys():
            inputs = {name: inputs[name] for name in struct}
        return original(self, inputs)

    return standardize


def _of_fewer_axes(original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Wrap ``Functional._adjust_input_rank``: inputs may lack the last axes, as in Keras 2.

    Layers then take what they get, such as the two axes of one example where a batch has three.
    """

    def adjust(self: Any, flat_inputs: list[Any]) -> Any:
        shapes = [each.shape for each in self._inputs]
        kept = {
            i: x
            for i, x in enumerate(flat_inputs)
            if x is not None and len(x.shape) < len(shapes[i]) and shapes[i][-1] != 1
            if all(one in (None, size) for one, size in zip(shapes[i], x.shape, strict=False))
        }
        adjusted = original(self, [None if i in kept else x for i, x in enumerate(flat_inputs)])
        return [kept.get(i, x) for i, x in enumerate(adjusted)]

    return adjust


def _of_metrics(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``compile``: metrics may be a single one, and are the third argument where it names some.

    Steps of no strategy, which Keras compiles, have the lowerings for CPU, too.

    Source: keras/engine/training.py of TensorFlow 2.15, ``Model.compile``.
    """

    @functools.wraps(original)
    def compiling(self: Any, optimizer: Any = "rmsprop", loss: Any = None, *args: Any, **kwargs: Any) -> Any:
        if args and any(map(_is_metric, keras.tree.flatten(args[0]))):
            by_name = dict(zip(("metrics", "loss_weights", "weighted_metrics"), args, strict=False))
            args, kwargs = (), {**by_name, **kwargs}
        for name in ("metrics", "weighted_metrics"):
            if _is_metric(kwargs.get(name)):
                kwargs[name] = [kwargs[name]]
        if len(args) > 4:
            args = (*args[:4], _steps_per_execution(args[4]), *args[5:])
        elif "steps_per_execution" in kwargs:
            kwargs["steps_per_execution"] = _steps_per_execution(kwargs["steps_per_execution"])
        kwargs.pop("pss_evaluation_shards", None)  # each example of an evaluation counts once anyway
        cpu.prepare()
        return original(self, optimizer, loss, *args, **kwargs)

    return compiling


def _steps_per_execution(value: Any) -> int:
    """Return how many steps are dispatched together: ``"auto"`` is one, as steps are dispatched ahead anyway.

    Raises:
        ValueError: It is neither a positive number nor ``"auto"``.

    Source: keras/src/engine/training.py of Keras 2.15, ``Model.compile``.
    """
    if value is None or isinstance(value, str) and value == "auto":
        return 1
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise ValueError(f'steps_per_execution is a positive number or "auto", got {value!r}.')
    return int(value) or 1


def _is_metric(value: Any) -> bool:
    return isinstance(value, str) or callable(value)


def patch() -> None:
    """Give Keras' models the names."""
    functional = keras.src.models.functional.Functional
    wrap(functional, "_standardize_inputs", _leaving_out)
    wrap(functional, "_adjust_input_rank", _of_fewer_axes)
    change(_defining("save"), "save", _with_signatures(keras.Model.save))
    wrap(keras.Model, "__init__", _saying_inputs)
    save_model, load_model = _saving(keras.saving.save_model), _loading(keras.saving.load_model)
    for module in (keras.models, keras.saving):
        change(module, "save_model", save_model)
        change(module, "load_model", load_model)
    in_h5_files = keras.src.legacy.saving.saving_utils
    wrap(in_h5_files, "try_build_compiled_arguments", _readying)
    for name, method in vars(_Methods).items():
        if not name.startswith("__"):
            change(_defining(name), name, method)
    for name in ("predict_classes", "predict_proba"):
        change(keras.Sequential, name, vars(_Sequential)[name])
    for name in ("fit", "evaluate", "predict"):
        change(_defining(name), name, _of_steps(_without(getattr(keras.Model, name), *_READING)))
    compiling = _without(keras.Model.compile, "experimental_run_tf_function")
    change(_defining("compile"), "compile", _of_metrics(compiling))
    for name in ("train_on_batch", "test_on_batch"):
        change(_defining(name), name, _resetting(getattr(keras.Model, name)))
    wrap(keras.src.losses, "deserialize", _named_functions)
    change(keras.layers.Layer, "input_shape", _Shapes("input"))
    change(keras.layers.Layer, "output_shape", _Shapes("output"))
    change(_defining("get_metrics_result"), "get_metrics_result", _of_values(keras.Model.get_metrics_result))


def _defining(name: str) -> Any:
    """Return the class that defines a method of models: Keras checks there whether a model overrides it."""
    return next((owner for owner in keras.Model.__mro__ if name in vars(owner)), keras.Model)
