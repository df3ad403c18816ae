"""Export the text code of a model_fn: traced on examples, run on the host for each request."""

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from muster._errors import SavedModelError
from muster.data import TensorSpec, sample_texts
from muster.estimator._words import Passed
from muster.estimator.export._model_inputs import ModelInputs
from muster.estimator.loop._batch import StepBatch
from muster.estimator.loop._host_part import HostPart
from muster.program import HostPlace, HostValue, host_computed, host_place
from muster.saved_model import Axes, Output, named_axes, symbolic_arguments

# How often a model_fn is traced to find out what the host is to do for it.
_TRACES = 10
# What no 32 bits hold.
_LARGE = 1 << 40


class RequestHost(HostPart):
    """Shows a model_fn requests with text, and learns what the host is to compute of them.

    Args:
        examples: The values of an example, by the keys of a batch.
        wide: The keys of integers that may not fit into 32 bits, and stay here.
    """

    def __init__(self, examples: Mapping[str, Any], wide: Collection[str] = ()) -> None:
        super().__init__()
        self.work.wide |= {*wide}
        self._examples = dict(examples)

    def _known(self, example: StepBatch) -> dict[str, Any]:
        return self._examples


@dataclasses.dataclass(frozen=True)
class ComputedOfText:
    """Computes, of the features of a request, what the model_fn needs of the host.

    Args:
        places: What it needs.
        keys: The keys that features have in a batch.
    """

    places: Sequence[HostPlace]
    keys: Mapping[str, str]

    def __call__(self, features: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of the module by key."""
        values = {key: _as_text(np.asarray(features[name])) for name, key in self.keys.items()}
        return host_computed(values, self.places)


def with_own_code(
    inputs: ModelInputs, trace: Callable[[StepBatch, HostPart], object], *, keeps_integers: bool
) -> Iterator[ModelInputs]:
    """Yield the inputs of a model_fn that reads text with what the host is to compute of it.

    In the first, each feature has free sizes of its own. In the second, which is for a model_fn that needs
    it so, those of axes of one number are the same.

    Args:
        inputs: The inputs without that.
        trace: Traces the model_fn on a batch that a host's part shows it.
        keeps_integers: Whether the host keeps integers of 64 bits, too, which no step holds.

    Raises:
        Exception: Whatever the model_fn raises with text of any kind.
    """
    specs = dict(inputs.for_own_code)
    wide = {inputs.batch_keys[key] for key, each in specs.items() if keeps_integers and _is_wide(each)}
    failures: list[Exception] = []
    for texts in sample_texts():
        examples = [_example(specs, number, text) for number, text in enumerate(texts)]
        for example in examples:
            example.update({key: _large(example[key]) for key in example if inputs.batch_keys[key] in wide})
        try:
            places = _places(inputs, examples[0], trace, wide)
        except Exception as exc:
            failures.append(exc)
            continue
        made = [host_computed(_by_batch_key(inputs, each), places) for each in examples]
        break
    else:
        raise failures[0]
    computed = {key: TensorSpec(None, value.dtype) for key, value in made[0].items()}
    names = {key: name for name, key in inputs.batch_keys.items()}
    sources = {place.key: sorted(names[key] for key in place.sources()) for place in places}
    read = {key: spec for key, spec in specs.items() if key in inputs.arguments}
    for shared in (False, True):
        axes = named_axes(specs, shared=shared)
        for key in computed:
            axes[key] = _axes(key, [value[key] for value in made], examples, axes, sources[key])
        yield dataclasses.replace(
            inputs,
            arguments=symbolic_arguments(read | computed, (), None, axes),
            own_code=ComputedOfText(places, inputs.batch_keys) if places else None,
            computed=tuple(computed),
            host=RequestHost(_by_batch_key(inputs, examples[0]), wide),
        )


def _places(
    inputs: ModelInputs,
    example: Mapping[str, Any],
    trace: Callable[[StepBatch, HostPart], object],
    wide: Collection[str],
) -> tuple[HostPlace, ...]:
    """Return what the model_fn needs of the host."""
    values = _by_batch_key(inputs, example)
    host = RequestHost(values, wide)
    arguments = {key: value for key, value in example.items() if key in inputs.arguments}
    for _ in range(_TRACES):
        batch = inputs.batch(arguments)._replace(computed=host.work.computed(values))
        trace(host.widened(batch), host)
        if not host.work.learn():
            break
    return host.work.places


def _large(numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return numbers.astype(np.int64) + _LARGE


def _is_wide(spec: TensorSpec) -> bool:
    return spec.dtype.kind in "iu" and jax.dtypes.canonicalize_dtype(spec.dtype) != spec.dtype


def _by_batch_key(inputs: ModelInputs, example: Mapping[str, Any]) -> dict[str, Any]:
    return {key: example[name] for name, key in inputs.batch_keys.items()}


def _example(specs: Mapping[str, TensorSpec], number: int, text: bytes) -> dict[str, Any]:
    """Return values of features: one of two examples, which differ in all sizes that are free."""
    sizes = {key: _sizes(key, specs, number) for key in specs}
    return {key: _value(key, specs, sizes, text) for key in specs}


def _sizes(key: str, specs: Mapping[str, TensorSpec], number: int) -> tuple[int, ...]:
    # Sizes of axes with one number are equal: else features could not be put together.
    return tuple(
        size if size is not None else (2 if axis == 0 else 3 + 4 * axis) + number
        for axis, size in enumerate(specs[key].shape or ())
    )


def _value(
    key: str, specs: Mapping[str, TensorSpec], sizes: Mapping[str, tuple[int, ...]], text: bytes
) -> Any:
    shape, dtype = sizes[key], specs[key].dtype
    if dtype.kind == "U":
        texts = np.empty(shape, object)
        texts.fill(text)  # np.full drops zeros
        return _as_text(texts)
    # Whole numbers may be lengths of the rows of another feature.
    longer = [other for other, each in sizes.items() if each[:-1] == shape and specs[other].dtype.kind == "U"]
    fill = sizes[longer[0]][-1] if longer and dtype.kind in "iu" else 1
    return np.full(shape, fill, jax.dtypes.canonicalize_dtype(dtype))


def _axes(
    key: str,
    values: Sequence[np.ndarray[Any, Any]],
    examples: Sequence[Mapping[str, Any]],
    axes_of: Mapping[str, Axes],
    sources: Sequence[str],
) -> Axes:
    """Return the axes of what the host computes: those of features whose sizes it has, or its own.

    Its sources come first. Others have the sizes, too, that were given as lengths.
    """
    symbol = "".join(letter if letter.isalnum() else "_" for letter in f"size_{key}")
    known: dict[tuple[int, int], str] = {}
    for name in (*sources, *(each for each in examples[0] if each not in sources)):
        sizes = zip(axes_of[name], examples[0][name].shape, examples[1][name].shape, strict=True)
        for axis, first, second in sizes:
            if isinstance(axis, str):
                known.setdefault((first, second), axis)
    return tuple(
        first if first == second else known.get((first, second), f"{symbol}_{axis}")
        for axis, (first, second) in enumerate(zip(values[0].shape, values[1].shape, strict=True))
    )


def _as_text(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return text as input pipelines have it; bytes with zeros, such as those of images, are none."""
    if array.dtype.kind != "O" or any(b"\0" in each for each in array.ravel().tolist()):
        return array
    words = [each.decode("utf-8", "surrogateescape") for each in array.ravel().tolist()]
    return np.array(words, str).reshape(array.shape)


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
