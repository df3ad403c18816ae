"""Tables of what tests take, from the lines that durations.py records."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath
from typing import Any

BEGIN = "<!-- measured: what is between these two lines is written by durations.py -->"
END = "<!-- end of what is measured -->"

# On what the time of a test is spent; together, all of it.
CAUSES = ("compiling", "tracing", "starting", "waiting", "other")
_MOST = 40

Line = dict[str, Any]
Sums = dict[str, float]


def taken(line: Line) -> Sums:
    """Return what a test took, in seconds, apart from what it queued for a processor.

    JAX tells how long it compiles by the clock, which goes on while a test queues: so that is shared out. The
    test waits also while it compiles, for XLA's threads: that counts as compiling.
    """
    secs = left = max(0.0, line["wall"] - line["queued"])
    ran = secs / line["wall"] if line["wall"] else 0.0
    spent: Sums = {}
    for cause in CAUSES:
        asked = {"compiling": line["compiling"] * ran, "tracing": line["tracing"] * ran, "other": left}
        asked |= {"starting": line["starting"], "waiting": max(0.0, line["waiting"] - line["starting"])}
        spent[cause] = min(asked[cause], left)
        left -= spent[cause]
    return {"cases": 1, "secs": secs, "cpu": line["cpu"], "children": line["children"], **spent}


def sums(lines: Iterable[Line], key: Callable[[Line], str]) -> dict[str, Sums]:
    """Return what the tests of each key took together, the most first."""
    summed: dict[str, Sums] = {}
    for line in lines:
        if "test" in line:
            sum_ = summed.setdefault(key(line), {})
            for name, value in taken(line).items():
                sum_[name] = sum_.get(name, 0.0) + value
    return dict(sorted(summed.items(), key=lambda item: (-item[1]["secs"], item[0])))


def function(line: Line) -> str:
    """The test's function: all cases of it are one."""
    return str(line["test"]).partition("[")[0]


def folder(line: Line) -> str:
    """The test's folder: one of the folders of ``tests``, or that itself."""
    *folders, _ = PurePosixPath(function(line).partition("::")[0]).parts
    return "/".join(folders[: folders.index("tests") + 2] if "tests" in folders else folders)


def kind(line: Line) -> str:
    return str(line["kind"])


def table(lines: Sequence[Line]) -> str:
    """Return what each test takes, a line for each function, the most expensive first."""
    kinds = {function(line): kind(line) for line in lines if "test" in line}
    rows = [("secs", "processor", "cases", "kind", "test")]
    for name, sum_ in sums(lines, function).items():
        used = sum_["cpu"] + sum_["children"]
        rows.append((f"{sum_['secs']:.2f}", f"{used:.2f}", f"{sum_['cases']:.0f}", kinds[name], name))
    return "".join("\t".join(row) + "\n" for row in rows)


def page(lines: Sequence[Line]) -> str:
    """Return the part of the documentation's page that says what the tests take."""
    tests = [line for line in lines if "test" in line]
    begun = [line for line in lines if "session" in line]
    failed = sum(line["outcome"] in ("failed", "error") for line in tests)
    return "\n\n".join(
        [
            f"Measured on {' and '.join(sorted({line['date'] for line in begun}))}, on "
            f"{' and '.join(sorted({line['machine'] for line in begun}))}: {len(tests):,} cases of "
            f"{len({function(line) for line in tests}):,} tests, of which {failed} failed.{_missing(lines)}",
            _sums_by("kind", sums(tests, kind)),
            _sums_by("folder", sums(tests, folder)),
            f"To import the modules of tests takes each process {_collecting(lines):.0f} s.",
            f"The {_MOST} most expensive:",
            _most_expensive(tests),
        ]
    )


def _missing(lines: Sequence[Line]) -> str:
    """A sentence about the cases that were to run and did not, if there are any."""
    selected: Counter[str] = Counter()
    for line in lines:
        if "session" in line:
            selected |= Counter(line["selected"])
    selected.subtract(Counter(kind(line) for line in lines if "test" in line))
    left = [f"{count:,} {name}" for name, count in selected.items() if count > 0]
    return f" **The run ended early**: the cases left out are {', '.join(left)}." if left else ""


def _sums_by(name: str, by: dict[str, Sums]) -> str:
    total: Sums = {}
    for sum_ in by.values():
        for column, value in sum_.items():
            total[column] = total.get(column, 0.0) + value
    columns = ("cases", "secs", *CAUSES, "cpu", "children")
    rows = [
        (label, *(f"{sum_[each]:,.0f}" for each in columns)) for label, sum_ in [*by.items(), ("all", total)]
    ]
    return _markdown((name, "cases", "s", *CAUSES, "processor", "processes"), rows)


def _most_expensive(tests: Sequence[Line]) -> str:
    kinds = {function(line): kind(line) for line in tests}
    rows = [
        (
            f"`{PurePosixPath(name.partition('::')[0]).name}::{name.partition('::')[2]}`",
            kinds[name],
            f"{sum_['cases']:.0f}",
            f"{sum_['secs']:.1f}",
            max(CAUSES, key=sum_.__getitem__),
            f"{sum_['cpu']:.1f}",
            f"{sum_['children']:.1f}",
        )
        for name, sum_ in list(sums(tests, function).items())[:_MOST]
    ]
    return _markdown(("test", "kind", "cases", "s", "most of it", "processor", "processes"), rows)


def _collecting(lines: Sequence[Line]) -> float:
    """How long a process takes to import the modules, on average."""
    found = [line for line in lines if "module" in line]
    longest: dict[str, float] = {}
    for line in found:
        ran = max(0.0, line["wall"] - line["queued"])
        longest[line["module"]] = max(ran, longest.get(line["module"], 0.0))
    return sum(longest.values())


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    numbers = {"cases", "s", *CAUSES, "processor", "processes"}
    rule = ["---:" if name in numbers else "---" for name in head]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, rule, *rows])


def placed(text: str, measured: str) -> str:
    """Return a page with the part that is measured replaced."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page needs the two lines {BEGIN!r} and {END!r}, in this order")
    return f"{before}{BEGIN}\n\n{measured}\n\n{END}{after}"
