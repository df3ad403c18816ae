"""``tf.DeviceSpec``: the parts of a device's name."""

from dataclasses import dataclass, fields, replace
from typing import Any

_TYPES = ("CPU", "GPU", "TPU")


@dataclass(frozen=True, repr=False)
class DeviceSpec:
    """The parts of a device's name, such as ``"/job:worker/task:1/device:GPU:0"``, each of which may be None.

    Args:
        job: The name of the job.
        replica: The number of the replica.
        task: The number of the task in the job.
        device_type: Such as ``"GPU"``.
        device_index: The number of the device among those of its type.

    Raises:
        ValueError: What has to be a number is none.

    Source: tensorflow/python/framework/device_spec.py, ``DeviceSpecV2``.
    """

    job: str | None = None
    replica: int | None = None
    task: int | None = None
    device_type: str | None = None
    device_index: int | None = None

    def __post_init__(self) -> None:
        for name in ("replica", "task", "device_index"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else int(value))
        if self.device_type is not None:
            object.__setattr__(self, "device_type", self.device_type.upper())

    @classmethod
    def from_string(cls, spec: str) -> "DeviceSpec":
        """Return the parts of a name.

        Raises:
            ValueError: A part is unknown, or there are two of the device.
        """
        found: dict[str, Any] = {}
        for part in filter(None, spec.split("/")):
            key, *values = part.split(":")
            if key in ("job", "replica", "task") and len(values) == 1:
                found[key] = values[0]
                continue
            kind, *index = values if key == "device" else (key, *values)
            if (key == "device" and len(index) != 1) or kind.upper() not in _TYPES or len(index) > 1:
                raise ValueError(f"Unknown part {part!r} of the device {spec!r}.")
            if "device_type" in found:
                raise ValueError(f"A device has one type, got {spec!r}.")
            found["device_type"] = kind
            found["device_index"] = None if index in ([], ["*"]) else index[0]
        return cls(**found)

    def parse_from_string(self, spec: str) -> "DeviceSpec":
        """Return the parts of a name; see `from_string`."""
        return self.from_string(spec)

    def make_merged_spec(self, dev: "DeviceSpec") -> "DeviceSpec":
        """Return a spec with the parts of another, and those of this one that the other does not have."""
        given = {each.name: getattr(dev, each.name) for each in fields(dev)}
        return self.replace(**{name: value for name, value in given.items() if value is not None})

    def replace(self, **parts: Any) -> "DeviceSpec":
        """Return a spec with other parts."""
        return replace(self, **parts)

    def to_string(self) -> str:
        """Return the name."""
        parts: dict[str, Any] = {"job": self.job, "replica": self.replica, "task": self.task}
        if self.device_type is not None:
            index = "*" if self.device_index is None else self.device_index
            parts["device"] = f"{self.device_type}:{index}"
        return "".join(f"/{name}:{value}" for name, value in parts.items() if value is not None)

    def __repr__(self) -> str:
        shown = ", ".join(f"{each.name}={getattr(self, each.name)}" for each in fields(self))
        return f"<DeviceSpec({shown})>"
