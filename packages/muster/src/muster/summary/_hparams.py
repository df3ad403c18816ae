"""Hyperparameters of runs, which TensorBoard compares in its HParams tab.

Source: tensorboard/plugins/hparams/summary_v2.py; the messages are those of plugin_data.proto and api.proto.
"""

import functools
import hashlib
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias

from muster._protobuf import message_class

EXPERIMENT_TAG = "_hparams_/experiment"
SESSION_START_TAG = "_hparams_/session_start_info"
SESSION_END_TAG = "_hparams_/session_end_info"

HParamValue: TypeAlias = bool | int | float | str

_SUCCEEDED = 1
_TEXT, _BOOL, _NUMBER = 1, 2, 3
_KINDS: dict[type, int] = {str: _TEXT, bool: _BOOL, int: _NUMBER, float: _NUMBER}
_DESCRIPTION = """
name: "hparams.proto" package: "tensorboard.hparams" syntax: "proto3"
message_type {
  name: "HParamsPluginData" oneof_decl { name: "data" }
  field { name: "version" number: 1 type: TYPE_INT32 }
  field { name: "experiment" number: 2 type: TYPE_MESSAGE type_name: "Experiment" oneof_index: 0 }
  field { name: "session_start_info" number: 3 type: TYPE_MESSAGE type_name: "Start" oneof_index: 0 }
  field { name: "session_end_info" number: 4 type: TYPE_MESSAGE type_name: "End" oneof_index: 0 }
}
message_type {
  name: "Start"
  field { name: "hparams" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: "Entry" }
  field { name: "group_name" number: 4 type: TYPE_STRING }
  field { name: "start_time_secs" number: 5 type: TYPE_DOUBLE }
}
message_type {
  name: "End"
  field { name: "status" number: 1 type: TYPE_INT32 }
  field { name: "end_time_secs" number: 2 type: TYPE_DOUBLE }
}
message_type {
  name: "Entry"
  field { name: "key" number: 1 type: TYPE_STRING }
  field { name: "value" number: 2 type: TYPE_MESSAGE type_name: "Value" }
}
message_type {
  name: "Value" oneof_decl { name: "kind" }
  field { name: "number_value" number: 2 type: TYPE_DOUBLE oneof_index: 0 }
  field { name: "string_value" number: 3 type: TYPE_STRING oneof_index: 0 }
  field { name: "bool_value" number: 4 type: TYPE_BOOL oneof_index: 0 }
}
message_type {
  name: "Values"
  field { name: "values" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: "Value" }
}
message_type {
  name: "Interval"
  field { name: "min_value" number: 1 type: TYPE_DOUBLE }
  field { name: "max_value" number: 2 type: TYPE_DOUBLE }
}
message_type {
  name: "HParamInfo" oneof_decl { name: "domain" }
  field { name: "name" number: 1 type: TYPE_STRING }
  field { name: "display_name" number: 2 type: TYPE_STRING }
  field { name: "description" number: 3 type: TYPE_STRING }
  field { name: "type" number: 4 type: TYPE_INT32 }
  field { name: "domain_discrete" number: 5 type: TYPE_MESSAGE type_name: "Values" oneof_index: 0 }
  field { name: "domain_interval" number: 6 type: TYPE_MESSAGE type_name: "Interval" oneof_index: 0 }
}
message_type {
  name: "MetricName"
  field { name: "group" number: 1 type: TYPE_STRING }
  field { name: "tag" number: 2 type: TYPE_STRING }
}
message_type {
  name: "MetricInfo"
  field { name: "name" number: 1 type: TYPE_MESSAGE type_name: "MetricName" }
  field { name: "display_name" number: 3 type: TYPE_STRING }
  field { name: "description" number: 4 type: TYPE_STRING }
  field { name: "dataset_type" number: 5 type: TYPE_INT32 }
}
message_type {
  name: "Experiment"
  field { name: "time_created_secs" number: 3 type: TYPE_DOUBLE }
  field { name: "hparam_infos" number: 4 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: "HParamInfo" }
  field { name: "metric_infos" number: 5 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: "MetricInfo" }
}
"""


class Domain(Protocol):
    """The values that a hyperparameter may take."""

    @property
    def dtype(self) -> type:
        """The type of the values: float, int, bool or str."""

    def sample_uniform(self, rng: Any = random) -> HParamValue:
        """Draw a value; ``rng`` is a ``random.Random``, or the module."""

    def described(self) -> dict[str, Any]:
        """Return the fields of ``HParamInfo``."""


@dataclass(frozen=True)
class _Interval:
    min_value: Any
    max_value: Any

    _kind: ClassVar[type] = float

    def __post_init__(self) -> None:
        for name in ("min_value", "max_value"):
            if not isinstance(value := getattr(self, name), self._kind):
                raise TypeError(f"{name} must be of type {self._kind.__name__}, got {value!r}.")
        if self.min_value > self.max_value:
            raise ValueError(
                f"min_value must be <= max_value, got {self.min_value!r} and {self.max_value!r}."
            )

    @property
    def dtype(self) -> type:
        """The type of the values."""
        return self._kind

    def described(self) -> dict[str, Any]:
        """Return the fields of ``HParamInfo``."""
        return {
            "type": _NUMBER,
            "domain_interval": {"min_value": self.min_value, "max_value": self.max_value},
        }


class RealInterval(_Interval):
    """All real numbers from a least one to a greatest one, both of them floats."""

    def sample_uniform(self, rng: Any = random) -> float:
        """Draw a value; ``rng`` is a ``random.Random``, or the module."""
        return float(rng.uniform(self.min_value, self.max_value))


class IntInterval(_Interval):
    """All integers from a least one to a greatest one."""

    _kind: ClassVar[type] = int

    def sample_uniform(self, rng: Any = random) -> int:
        """Draw a value; ``rng`` is a ``random.Random``, or the module."""
        return int(rng.randint(self.min_value, self.max_value))


class Discrete:
    """Some values of one type.

    Args:
        values: The values: texts, numbers or truth values.
        dtype: Their type, if there are none; None takes that of the first.

    Raises:
        TypeError: A value is of another type.
        ValueError: There is no value, and no type; or values of this type cannot be hyperparameters.
    """

    def __init__(self, values: Iterable[Any], dtype: type | None = None) -> None:
        listed = list(values)
        if not listed and dtype is None:
            raise ValueError("A domain without values needs a dtype.")
        self._dtype = type(listed[0]) if dtype is None else dtype
        if self._dtype not in _KINDS:
            raise ValueError(f"Hyperparameters are of type int, float, bool or str, got {self._dtype!r}.")
        if wrong := [each for each in listed if not isinstance(each, self._dtype)]:
            raise TypeError(f"All values of this domain are {self._dtype.__name__}, but not {wrong[0]!r}.")
        self._values = sorted(listed)

    def __repr__(self) -> str:
        return f"Discrete({self._values!r})"

    @property
    def dtype(self) -> type:
        """The type of the values."""
        return self._dtype

    @property
    def values(self) -> list[Any]:
        """The values, in order."""
        return list(self._values)

    def sample_uniform(self, rng: Any = random) -> HParamValue:
        """Draw a value; ``rng`` is a ``random.Random``, or the module."""
        return rng.choice(self._values)  # type: ignore[no-any-return]

    def described(self) -> dict[str, Any]:
        """Return the fields of ``HParamInfo``."""
        values = [_as_value("a domain", each) for each in self._values]
        return {"type": _KINDS[self._dtype], "domain_discrete": {"values": values}}


@dataclass(frozen=True)
class HParam:
    """A hyperparameter of an experiment.

    Attributes:
        name: Its name, of which there is one in an experiment.
        domain: The values that it may take; None for any.
        display_name: The name to show.
        description: A text about it, in Markdown.
    """

    name: str
    domain: Domain | None = None
    display_name: str | None = None
    description: str | None = None


@dataclass(frozen=True)
class Metric:
    """A number by which runs are compared: that of a scalar summary.

    Attributes:
        tag: The tag of the summary.
        group: The folder below that of the run that has the summary, such as ``train``.
        display_name: The name to show.
        description: A text about it, in Markdown.
        dataset_type: ``Metric.TRAINING`` or ``Metric.VALIDATION``.
    """

    tag: str
    group: str | None = None
    display_name: str | None = None
    description: str | None = None
    dataset_type: int | None = None

    TRAINING: ClassVar[int] = 1
    VALIDATION: ClassVar[int] = 2


def values_by_name(hparams: Mapping[Any, Any]) -> dict[str, HParamValue]:
    """Return the values of hyperparameters by name, as Python's own numbers.

    Args:
        hparams: Name or `HParam` -> value.

    Raises:
        TypeError: A value is neither a text nor one number.
        ValueError: Two keys have the same name.
    """
    found: dict[str, HParamValue] = {}
    for key, value in hparams.items():
        name = key.name if isinstance(key, HParam) else key
        if name in found:
            raise ValueError(f"There are several values of the hyperparameter {name!r}.")
        if not isinstance(value, bool | int | float | str) and hasattr(value, "item"):
            value = value.item()
        _as_value(name, value)
        found[name] = value
    return found


def started(hparams: Mapping[Any, Any], trial_id: str | None, start_time_secs: float) -> bytes:
    """Return the message that a run with these hyperparameters starts.

    Args:
        hparams: Name or `HParam` -> value.
        trial_id: The name of all runs with these values; None takes a hash of them.
        start_time_secs: When it started, in seconds since the epoch.

    Raises:
        TypeError: A value is neither a text nor one number.
        ValueError: Two keys have the same name.
    """
    values = values_by_name(hparams)
    if trial_id is None:
        text = json.dumps(values, sort_keys=True, separators=(",", ":"))
        trial_id = hashlib.sha256(text.encode()).hexdigest()
    entries = [{"key": name, "value": _as_value(name, values[name])} for name in sorted(values)]
    info = {"hparams": entries, "group_name": trial_id, "start_time_secs": start_time_secs}
    return _encoded(session_start_info=info)


def ended(end_time_secs: float) -> bytes:
    """Return the message that a run has ended well, at this time in seconds since the epoch."""
    return _encoded(session_end_info={"status": _SUCCEEDED, "end_time_secs": end_time_secs})


def experiment(hparams: Sequence[HParam], metrics: Sequence[Metric], time_created_secs: float) -> bytes:
    """Return the message that describes the hyperparameters and metrics of all runs."""
    infos = [
        {
            **_given(each, "name", "display_name", "description"),
            **(each.domain.described() if each.domain else {}),
        }
        for each in hparams
    ]
    of_metrics = [
        {
            "name": _given(each, "group", "tag"),
            **_given(each, "display_name", "description", "dataset_type"),
        }
        for each in metrics
    ]
    return _encoded(
        experiment={
            "hparam_infos": infos,
            "metric_infos": of_metrics,
            "time_created_secs": time_created_secs,
        }
    )


def _given(each: Any, *names: str) -> dict[str, Any]:
    return {name: value for name in names if (value := getattr(each, name)) is not None}


def _as_value(name: str, value: Any) -> dict[str, HParamValue]:
    match value:
        case bool():
            return {"bool_value": value}
        case int() | float():
            return {"number_value": value}
        case str():
            return {"string_value": value}
    raise TypeError(
        f"The hyperparameter {name!r} must be a number, a truth value or a text, got {value!r}: give one of "
        "these, such as str(value)."
    )


def _encoded(**fields: Any) -> bytes:
    data: bytes = _plugin_data()(**fields).SerializeToString()
    return data


@functools.cache
def _plugin_data() -> Any:
    return message_class(_DESCRIPTION, "tensorboard.hparams.HParamsPluginData")
