"""Features that an exported model's host computes from requests by the program's Python code."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from muster.data import (
    ComputedPlaceholder,
    HostPlaceholder,
    Placeholder,
    PlaceholderCall,
    RaggedTensor,
    SparseTensor,
    replaced,
    sources_of,
)
from muster.program import HostCall, HostPlace

_SOURCES = "request"


@dataclass(frozen=True)
class MadeFeatures:
    """Makes features of others.

    Args:
        places: What they are, by key.
    """

    places: Mapping[str, HostPlace]

    def __call__(self, features: Mapping[str, Any]) -> dict[str, Any]:
        """Return the features that are made, by key.

        Raises:
            ValueError: Something in them fails.
        """
        values = {  # of a single value NumPy has an array, and functions of datasets have the value
            key: value[()] if isinstance(value, np.ndarray) else value for key, value in features.items()
        }
        try:
            made = {key: place.value(values) for key, place in self.places.items()}
        except Exception as exc:
            raise ValueError(f"The model's features cannot be made of the inputs: {exc}") from exc
        return {
            key: value if isinstance(value, SparseTensor | RaggedTensor) else np.asarray(value)
            for key, value in made.items()
        }


def made_features(
    features: Mapping[str, Placeholder],
) -> tuple[dict[str, Placeholder], MadeFeatures | None]:
    """Return what of a request features are made of, by keys, and what makes the others of it.

    Args:
        features: The features by key.
    """
    made = {key: each for key, each in features.items() if isinstance(each, HostPlaceholder)}
    given = {key: each for key, each in features.items() if key not in made}
    if not made:
        return given, None
    sources = dict.fromkeys(source for each in made.values() for source in sources_of(each))
    keys = {source: f"{_SOURCES}/{number}" for number, source in enumerate(sources)}
    calls: dict[PlaceholderCall, HostCall] = {}

    def place(placeholder: Placeholder) -> HostPlace:
        if not isinstance(placeholder, HostPlaceholder | ComputedPlaceholder):
            return HostPlace(keys[placeholder])
        call = placeholder.call
        if call not in calls:
            args, kwargs = replaced((call.args, call.kwargs), Placeholder, place)
            calls[call] = HostCall(f"call/{len(calls)}", call.function, args, kwargs)
        return calls[call].place(placeholder.number)

    places = {key: place(each) for key, each in made.items()}
    return given | {key: source for source, key in keys.items()}, MadeFeatures(places)
