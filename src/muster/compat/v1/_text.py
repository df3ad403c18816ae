"""``tf.compat.as_str`` and its like."""


def as_str(bytes_or_text: str | bytes, encoding: str = "utf-8") -> str:
    """Return text as ``str``."""
    return bytes_or_text.decode(encoding) if isinstance(bytes_or_text, bytes) else bytes_or_text


def as_bytes(bytes_or_text: str | bytes, encoding: str = "utf-8") -> bytes:
    """Return text as ``bytes``."""
    return bytes_or_text.encode(encoding) if isinstance(bytes_or_text, str) else bytes_or_text


def as_str_any(value: object, encoding: str = "utf-8") -> str:
    """Return any value as ``str``, bytes as the text that they are."""
    return value.decode(encoding) if isinstance(value, bytes) else str(value)
