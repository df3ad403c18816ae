r"""RE2's Unicode character classes, such as ``\p{Lu}``, for Python's regular expressions."""

import functools
import re
import sys
import unicodedata

_NAMED = re.compile(r"\\([pP])(?:\{(\^?)([A-Z][a-z]?)\}|([A-Z]))")


def with_unicode_classes(pattern: str) -> str:
    """Return a regular expression with ranges of characters in place of Unicode's categories.

    Args:
        pattern: It may have ``\\pN``, ``\\p{Lu}``, ``\\P{Lu}`` or ``\\p{^Lu}``, also in brackets.
    """
    if "\\p" not in pattern.lower():
        return pattern
    parts: list[str] = []
    place, in_brackets = 0, False
    while place < len(pattern):
        found = _NAMED.match(pattern, place)
        if found is not None:
            ranges = _ranges(found[3] or found[4], (found[1] == "P") != bool(found[2]))
            parts.append(ranges if in_brackets else f"[{ranges}]")
            place = found.end()
            continue
        length = 2 if pattern[place] == "\\" else 1
        in_brackets = {"[": True, "]": False}.get(pattern[place : place + length], in_brackets)
        parts.append(pattern[place : place + length])
        place += length
    return "".join(parts)


@functools.cache
def _ranges(category: str, is_negated: bool) -> str:
    """Return the characters of a category, or all others, for use in brackets."""
    ranges: list[list[int]] = []
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)).startswith(category) == is_negated:
            continue
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(rf"\U{first:08x}-\U{last:08x}" for first, last in ranges)
