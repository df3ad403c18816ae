"""``muster port`` lists exactly the names that are missing, of those that programs use most."""

import importlib
import re
from pathlib import Path

import pytest

from muster.__main__ import main
from used_names import NAMES

TWO, ONE = "muster_tensorflow", "muster_tensorflow.compat.v1"
Captured = pytest.CaptureFixture[str]


def exists(module: str, path: str) -> bool:
    """Whether Python finds a dotted name in a module: by what a program does that uses it."""
    value = importlib.import_module(module)
    for part in path.split("."):
        try:
            value = getattr(value, part)
        except (AttributeError, ImportError):
            return False
    return True


def listed(path: Path, capsys: Captured) -> list[tuple[int, str]]:
    """The line and the name of each place of which the command says that something is missing."""
    code = main(["port", str(path)])
    shown = capsys.readouterr()
    assert shown.err == ""
    found = re.findall(r":(\d+): (\S+) is missing\. .", shown.out)
    assert code == bool(found)
    return [(int(line), name) for line, name in found]


def used(names: list[str], style: str) -> str:
    """A program that uses names, each in a place of its own."""
    lines = []
    for index, name in enumerate(names):
        rest = name.removeprefix("tf.")
        module, _, last = rest.rpartition(".")
        lines.append(
            {
                "whole": f"x = {name}",
                "called": f"def f{index}(x):\n    return {name}(x)",
                "decorator": f"@{name}\ndef f{index}():\n    pass",
                "base": f"class C{index}({name}):\n    pass",
                "from": f"from tensorflow{module and '.'}{module} import {last} as n{index}",
                "module": f"import tensorflow as t{index}; x = t{index}.{rest}",
            }[style]
        )
    head = "import tensorflow as tf\n" if style not in ("from", "module") else ""
    return head + "\n".join(lines) + "\n"


@pytest.mark.parametrize("style", ["whole", "called", "decorator", "base", "module"])
@pytest.mark.parametrize("one", [False, True])
def test_exactly_the_missing_names_of_a_program_are_listed(
    style: str, one: bool, capsys: Captured, tmp_path: Path
) -> None:
    """Of the names that programs use most, against what Python finds in the modules."""
    names = [name for name in NAMES if not one or not name.startswith(("tf.contrib", "tf.keras"))]
    version = "v1" if one else "v2"  # named, so that the command need not guess it
    path = tmp_path / "program.py"
    path.write_text(used(names, style).replace("tensorflow as", f"tensorflow.compat.{version} as"))
    said = {name for _, name in listed(path, capsys)}
    module = ONE if one else TWO
    missing = {name for name in names if not exists(module, name.removeprefix("tf."))}
    assert said == {name.replace("tf.", f"tf.compat.{version}.", 1) for name in missing}
    assert missing
    assert len(missing) < len(names)


def test_names_that_a_program_imports_are_listed(capsys: Captured, tmp_path: Path) -> None:
    """Against what Python says to each import, once they are changed to those of muster."""
    names = [name for name in NAMES if name.count(".") == 2 and name.islower()]
    path = tmp_path / "program.py"
    path.write_text(used(names, "from"))
    said = {line for line, _ in listed(path, capsys)}
    main(["port", "--write", str(path)])
    fails = set()
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            exec(line, {})
        except ImportError:
            fails.add(number)
    assert said == fails
    assert fails
    assert len(fails) < len(names)
