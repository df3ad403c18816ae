"""``keras.wrappers.scikit_learn`` of Keras 2: Keras' models as scikit-learn's estimators.

scikit-learn itself is imported when it asks for an estimator's tags.

Source: keras/wrappers/scikit_learn.py of Keras 2.11, and ``sklearn.base``.
"""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from muster import keras

_METHODS = ("fit", "predict", "evaluate")


def _named(function: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return what a function has arguments for."""
    parameters = inspect.signature(function).parameters
    return {name: value for name, value in given.items() if name in parameters}


class _Wrapper:
    """A model that is built for each `fit`.

    Args:
        build_fn: Returns a compiled model; a function or an object. Without one the class has ``__call__``.
        **sk_params: Arguments of ``build_fn`` and of the model's ``fit``, ``evaluate`` and ``predict``.

    Raises:
        ValueError: None of these has an argument of that name.
    """

    _kind: str

    def __init__(self, build_fn: Callable[..., Any] | None = None, **sk_params: Any) -> None:
        self.build_fn = build_fn
        self.sk_params = sk_params
        self.check_params(sk_params)

    def _builds(self) -> Callable[..., Any]:
        """Return what builds the model; without ``build_fn`` this object, whose class has ``__call__``."""
        return self.build_fn if self.build_fn is not None else self  # type: ignore[return-value]

    def check_params(self, params: dict[str, Any]) -> None:
        """Raise an error for a name that no function has."""
        functions = [self._builds(), *(getattr(keras.Sequential, name) for name in _METHODS)]
        for name in params:
            if not any(_named(each, {name: None}) for each in functions):
                raise ValueError(
                    f"{name!r} is not a legal parameter: neither build_fn nor the model's fit, evaluate and "
                    "predict have it."
                )

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all arguments of the constructor."""
        return {**self.sk_params, "build_fn": self.build_fn}

    def set_params(self, **params: Any) -> Any:
        """Replace arguments, and return this object."""
        self.check_params({name: value for name, value in params.items() if name != "build_fn"})
        self.build_fn = params.pop("build_fn", self.build_fn)
        self.sk_params.update(params)
        return self

    def filter_sk_params(self, fn: Callable[..., Any], override: dict[str, Any] | None = None) -> Any:
        """Return those arguments that a function takes, and others."""
        return {**_named(fn, self.sk_params), **(override or {})}

    def fit(self, x: Any, y: Any, **kwargs: Any) -> Any:
        """Build the model, train it, and return what its ``fit`` does."""
        self.model = self._builds()(**self.filter_sk_params(self._builds()))
        return self.model.fit(x, self._targets(y), **self.filter_sk_params(keras.Sequential.fit, kwargs))

    def _targets(self, y: Any) -> np.ndarray:
        targets: np.ndarray = np.asarray(y)
        loss = self.model.loss
        if getattr(loss, "__name__", loss) == "categorical_crossentropy" and targets.ndim != 2:
            targets = np.asarray(keras.utils.to_categorical(targets))
        return targets

    def _predicted(self, x: Any, given: dict[str, Any]) -> np.ndarray:
        kwargs = self.filter_sk_params(keras.Sequential.predict, given)
        return np.asarray(self.model.predict(x, **kwargs))

    def _evaluated(self, x: Any, y: Any, given: dict[str, Any]) -> dict[str, float]:
        kwargs = self.filter_sk_params(keras.Sequential.evaluate, given)
        return self.model.evaluate(x, self._targets(y), **{**kwargs, "return_dict": True})  # type: ignore[no-any-return]

    @property
    def _estimator_type(self) -> str:  # asked by scikit-learn before 1.6
        return self._kind

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model")

    def __sklearn_tags__(self) -> Any:
        from sklearn import base

        mixin = base.ClassifierMixin if self._kind == "classifier" else base.RegressorMixin
        return type("Tagged", (mixin, base.BaseEstimator), {})().__sklearn_tags__()


class KerasClassifier(_Wrapper):
    """A model of probabilities: of one class, or of each.

    After `fit` ``classes_`` has the labels, and ``model`` the model.
    """

    _kind = "classifier"

    def fit(self, x: Any, y: Any, **kwargs: Any) -> Any:
        """Build the model, train it, and return what its ``fit`` does.

        Args:
            x: The examples.
            y: Labels of shape (examples,) or (examples, 1); or (examples, classes), ones and zeros.

        Raises:
            ValueError: ``y`` has another shape.
        """
        y = np.asarray(y)
        if y.ndim == 2 and y.shape[1] > 1:
            self.classes_ = np.arange(y.shape[1])
        elif y.ndim in (1, 2):
            self.classes_ = np.unique(y)
            y = np.searchsorted(self.classes_, y)
        else:
            raise ValueError(f"Invalid shape for y: {y.shape}. It has one or two dimensions.")
        self.n_classes_ = len(self.classes_)
        return super().fit(x, y, **kwargs)

    def predict(self, x: Any, **kwargs: Any) -> np.ndarray:
        """Return the most probable label of each example."""
        found = self._predicted(x, kwargs)
        several = found.shape[-1] > 1
        classes: np.ndarray = self.classes_[found.argmax(-1) if several else (found > 0.5).astype("int32")]
        return classes

    def predict_proba(self, x: Any, **kwargs: Any) -> np.ndarray:
        """Return probabilities, of shape (examples, classes)."""
        found = self._predicted(x, kwargs)
        return np.hstack([1 - found, found]) if found.shape[1] == 1 else found

    def score(self, x: Any, y: Any, **kwargs: Any) -> float:
        """Return the accuracy.

        Raises:
            ValueError: The model was compiled without it.
        """
        y = np.asarray(y)
        if y.ndim == 1 or y.shape[1] == 1:
            y = np.searchsorted(self.classes_, y)
        values = self._evaluated(x, y, kwargs)
        for name in ("accuracy", "acc"):
            if name in values:
                return values[name]
        raise ValueError(
            f"The model computes {', '.join(values)}, not accuracy. Pass metrics=['accuracy'] to its compile."
        )


class KerasRegressor(_Wrapper):
    """A model of numbers."""

    _kind = "regressor"

    def predict(self, x: Any, **kwargs: Any) -> np.ndarray:
        """Return the prediction for each example; of shape (examples,) for a model of one output."""
        return np.squeeze(self._predicted(x, kwargs))

    def score(self, x: Any, y: Any, **kwargs: Any) -> float:
        """Return the loss times -1, so that more is better."""
        return -self._evaluated(x, y, kwargs)["loss"]
