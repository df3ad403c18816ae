"""Parsers for Slurm's two list notations: of hosts, and of the numbers of tasks of hosts."""

import itertools
import re

from muster._errors import ClusterError

_HOSTS = re.compile(r"[^\[\],\s]*(?:\[[^\[\]\s]*\][^\[\],\s]*)*")
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_COUNT = re.compile(r"([0-9]+)(?:\(x([0-9]+)\))?")


def expand_hostlist(text: str) -> list[str]:
    """Parse Slurm's notation for lists of hosts; keep the order.

    Args:
        text: A list such as ``n[1-2],m5,o[3-4,6,07-09]``. Leading zeros are kept, as Slurm does.

    Raises:
        ClusterError: It is not of that form.
    """
    hosts = []
    for part in re.split(r",(?![^\[]*\])", text.removesuffix(",")):  # commas outside of brackets
        try:
            hosts += _expand(part)
        except ClusterError as exc:
            raise ClusterError(f'Invalid hostlist format "{text}": {exc}') from None
    return hosts


def expand_tasks_per_node(text: str) -> list[int]:
    """Parse Slurm's notation for the numbers of tasks of hosts.

    Args:
        text: A list such as ``3(x2),2,1``: two hosts with 3 tasks each, then one with 2 and one with 1.

    Raises:
        ClusterError: It is not of that form.
    """
    counts: list[int] = []
    for part in text.split(","):
        found = _COUNT.fullmatch(part)
        if found is None:
            raise ClusterError(f'Invalid tasks-per-node list format "{text}": Invalid part: {part}')
        counts += [int(found[1])] * int(found[2] or 1)
    return counts


def _expand(part: str) -> list[str]:
    """Return the hosts of a part without commas outside of brackets."""
    if not part or _HOSTS.fullmatch(part) is None:
        raise ClusterError(f"Invalid part: {part}")
    # The contents of brackets have odd indices.
    pieces = re.split(r"[\[\]]", part)
    choices = [_numbers(part, piece) if i % 2 else [piece] for i, piece in enumerate(pieces)]
    return ["".join(names) for names in itertools.product(*choices)]


def _numbers(part: str, ranges: str) -> list[str]:
    """Return the numbers in a pair of brackets as text, as wide as the first of their range."""
    numbers: list[str] = []
    for each in ranges.split(","):
        found = _RANGE.fullmatch(each)
        if found is None:
            raise ClusterError(f"Invalid part: {part}")
        first, last = found[1], found[2] or found[1]
        if int(last) < int(first):
            raise ClusterError(f"Invalid part: {part}, whose range {each} runs backwards")
        numbers += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return numbers
