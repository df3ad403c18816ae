"""``tf.contrib.training.HParams``: parameters with attributes, which a text can change."""

import json
from collections.abc import Iterator, Mapping
from typing import Any


class HParams:
    """Parameters by name; each is an attribute, too.

    Args:
        **kwargs: The parameters and their values: numbers, texts, booleans, or lists of them.

    Source: tensorflow/contrib/training/python/training/hparam.py, ``HParams``.
    """

    def __init__(self, hparam_def: None = None, model_structure: None = None, **kwargs: Any) -> None:
        self._names: dict[str, type[Any]] = {}
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Add a parameter.

        Raises:
            ValueError: There is one of this name, or it is the name of a method.
        """
        if getattr(self, name, None) is not None:
            raise ValueError(f"Hyperparameter name is reserved: {name}")
        self._names[name] = type(value)
        setattr(self, name, list(value) if isinstance(value, tuple) else value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Change a parameter, converted to the type of the value that it had.

        Raises:
            KeyError: There is no such parameter.
            ValueError: The value cannot be converted.
        """
        kind = self._names[name]
        before = getattr(self, name)
        if isinstance(before, list) and isinstance(value, list | tuple):
            first = type(before[0]) if before else None
            setattr(self, name, [each if first is None else _as(first, each, name) for each in value])
        else:
            setattr(self, name, _as(kind, value, name))

    def del_hparam(self, name: str) -> None:
        """Remove a parameter, if there is one."""
        if name in self._names:
            delattr(self, name)
            del self._names[name]

    def parse(self, values: str) -> "HParams":
        """Change parameters as a text says, such as ``"rate=0.1,layers=[10,20],name=x"``; return this object.

        Raises:
            ValueError: The text has another form, or a name that is none of the parameters.
        """
        for item in _items(values):
            name, equals, text = item.partition("=")
            name, text = name.strip(), text.strip()
            if not equals or name not in self._names:
                raise ValueError(
                    f"Could not parse hparam: {item!r} in {values!r}. There are: {sorted(self._names)}."
                )
            listed = text.startswith("[") and text.endswith("]")
            self.set_hparam(name, [each.strip() for each in text[1:-1].split(",")] if listed else text)
        return self

    def override_from_dict(self, values_dict: Mapping[str, Any]) -> "HParams":
        """Change parameters; return this object."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def parse_json(self, values_json: str) -> "HParams":
        """Change parameters as a JSON object says; return this object."""
        return self.override_from_dict(json.loads(values_json))

    def values(self) -> dict[str, Any]:
        """Return the parameters as a dict."""
        return {name: getattr(self, name) for name in self._names}

    def to_json(self, indent: Any = None, separators: Any = None, sort_keys: bool = False) -> str:
        """Return the parameters as JSON."""
        return json.dumps(self.values(), indent=indent, separators=separators, sort_keys=sort_keys)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a parameter, or a default."""
        return getattr(self, key) if key in self._names else default

    def __contains__(self, key: object) -> bool:
        return key in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __repr__(self) -> str:
        return f"HParams({sorted(self.values().items())})"


def _items(text: str) -> list[str]:
    """Divide a text at the commas that are outside of brackets."""
    items, depth = [""], 0
    for letter in text:
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if letter == "," and not depth:
            items.append("")
        else:
            items[-1] += letter
    return [each for each in items if each.strip()]


def _as(kind: type[Any], value: Any, name: str) -> Any:
    if kind is type(None) or isinstance(value, kind):
        return value
    if kind is bool and str(value).lower() in ("true", "false", "1", "0"):
        return str(value).lower() in ("true", "1")
    try:
        if kind is not bool:
            return kind(value)
    except (TypeError, ValueError):
        pass
    raise ValueError(f"Could not cast hparam '{name}' of type '{kind.__name__}' from value {value!r}")
