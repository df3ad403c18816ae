"""Text from other processes, made safe to show."""

import re
from typing import Any

_STYLES = re.compile(r"\x1b\[[0-9;:]*m")
# Control characters, and what Python makes of bytes that are no UTF-8, in names of files for example.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def printable(text: str) -> str:
    """Return text without colours, and other control characters but tabs and line ends as ``\\x1b``.

    Names and messages come from other processes and from files: a terminal would obey what they hold, and
    lone surrogates, written as ``\\udcff``, cannot be encoded.
    """
    if text.isprintable():  # as nearly all is, and much faster
        return text
    return _UNPRINTABLE.sub(_escape, _STYLES.sub("", text))


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 1 << 8 else f"\\u{code:04x}"


def printable_line(text: str) -> str:
    """Return `printable` text as one line, so that it cannot pass for another line of a log."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def printable_json(value: Any) -> Any:
    """Return parsed JSON, or what MessagePack has besides, with `printable` texts and keys."""
    kind = type(value)  # parsers give no subclasses
    if kind is str:
        return value if value.isprintable() else printable(value)
    if kind is list:
        return [each if type(each) is int else printable_json(each) for each in value]
    if kind is dict:
        return {
            key if type(key) is str and key.isprintable() else printable_json(key): each
            if type(each) is int
            else printable_json(each)
            for key, each in value.items()
        }
    return value
