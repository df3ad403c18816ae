"""The input of one step of a model_fn."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class StepBatch(NamedTuple):
    """The input of one step: arrays whose first axis counts examples.

    Attributes:
        features: A nested structure of arrays, per worker.
        labels: A nested structure of arrays, per worker; or None.
        computed: What the host has computed for the model_fn of values that are no arrays of numbers.
        given: In prediction, the features as the input_fn gave them, by key: what predictions may pass on. A
            step gets `OnHost` in place of each.
        kept: Integers that no step gets, by their names: what is computed of them may change.
    """

    features: Any
    labels: Any
    computed: Mapping[str, Any] = {}
    given: Mapping[str, Any] = {}
    kept: Mapping[str, Any] = {}
