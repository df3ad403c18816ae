"""Answers of an exported model that its host has: features as requests have them, and text made of them."""

import dataclasses
from typing import Any

import numpy as np

from muster._errors import SavedModelError
from muster.data import TensorSpec
from muster.estimator._words import Passed
from muster.estimator.export._model_inputs import ModelInputs
from muster.estimator.export._own_code import ComputedOfText
from muster.program import HostPlace, HostValue, host_place
from muster.saved_model import Output


class PassedOn:
    """Finds the answers that are passed on, and what the host needs for them.

    Args:
        inputs: What the model computes with.
    """

    def __init__(self, inputs: ModelInputs) -> None:
        self._inputs = inputs
        self._features: set[str] = set()
        self._computed: dict[str, HostPlace] = {}

    def output(self, name: str, value: Any) -> Output | None:
        """Return the output of a signature that a value of a step is on the host; None if the step has it.

        Args:
            name: The name of the answer, for messages.
            value: What the model_fn answers.

        Raises:
            SavedModelError: The host does not have it.
        """
        place = HostPlace(value.key) if isinstance(value, Passed) else host_place(value)
        if place is None:
            return None
        if place.key in self._inputs.passable:
            key, feature = self._inputs.passable[place.key]
            self._features.add(key)
            return Output(key, spec=TensorSpec(feature.shape, feature.dtype))
        if isinstance(value, HostValue) and place.call is not None:
            self._computed[place.key] = place
            shape = (None,) * np.ndim(place.value(value.source.examples))
            return Output(place.key, spec=TensorSpec(shape, value.dtype))
        if not isinstance(value, Passed | HostValue):
            return None
        raise SavedModelError(
            f"The answer {name!r} is {place.key}, which a request does not have as it is: it is sparse, or "
            "computed of what a request has. Give it the receiver's own tensor, or leave it out."
        )

    def added(self) -> ModelInputs:
        """Return the inputs with what the host is to have or to compute for answers."""
        inputs = self._inputs.passing(self._features)
        if not self._computed:
            return inputs
        before = inputs.own_code.places if isinstance(inputs.own_code, ComputedOfText) else ()
        places = (*before, *self._computed.values())
        return dataclasses.replace(inputs, own_code=ComputedOfText(places, inputs.batch_keys))
