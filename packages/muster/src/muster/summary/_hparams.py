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
_MESSAGES = """
message HParamsPluginData {
  int32 version = 1;
  oneof data { Experiment experiment = 2; Start session_start_info = 3; End session_end_info = 4; }
}
message Start { repeated Entry hparams = 1; string group_name = 4; double start_time_secs = 5; }
message End { int32 status = 1; double end_time_secs = 2; }
message Entry { string key = 1; Value value = 2; }
message Value { oneof kind { double number_value = 2; string string_value = 3; bool bool_value = 4; } }
message Values { repeated Value values = 1; }
message Interval { double min_value = 1; double max_value = 2; }
message HParamInfo {
  string name = 1; string display_name = 2; string description = 3; int32 type = 4;
  oneof domain { Values domain_discrete = 5; Interval domain_interval = 6; }
}
message MetricName { string group = 1; string tag = 2; }
message MetricInfo {
  MetricName name = 1; string display_name = 3; string description = 4; int32 dataset_type = 5;
}
message Experiment {
  double time_created_secs = 3; repeated HParamInfo hparam_infos = 4; repeated MetricInfo metric_infos = 5;
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
    return message_class(_MESSAGES, "tensorboard.hparams.HParamsPluginData")
