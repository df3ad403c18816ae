"""``muster port`` on whole programs: it lists the names that are missing, all of them and no others."""

import ast
import re
from pathlib import Path

import pytest

from muster.__main__ import main

FOLDER = Path(__file__).parent
PROGRAMS = {path.stem: path for path in sorted(FOLDER.glob("*.py")) if not path.stem.startswith("test_")}
Captured = pytest.CaptureFixture[str]


def listed(path: Path, capsys: Captured) -> list[tuple[int, str]]:
    """The line and the name of each place of which the command says that something is missing."""
    code = main(["port", str(path)])
    shown = capsys.readouterr()
    assert shown.err == ""
    found = re.findall(r":(\d+): (\S+) is missing\. .", shown.out)
    assert code == bool(found)
    return [(int(line), name) for line, name in found]


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_missing_in_programs_that_run(name: str, capsys: Captured) -> None:
    assert listed(PROGRAMS[name], capsys) == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_names_of_programs_that_run_are_read(name: str, capsys: Captured, tmp_path: Path) -> None:
    """Each whole name that follows `tf` is found: renamed to one that is missing, it is listed."""
    tree = ast.parse(PROGRAMS[name].read_text())
    chains = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    inner = {id(node.value) for node in chains}
    expected = []
    for node in chains:
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if id(node) not in inner and isinstance(root, ast.Name) and root.id == "tf":
            node.value, node.attr = ast.Name("tf"), f"gone_{len(expected)}"
            expected.append(f"tf.{node.attr}")
    changed = tmp_path / "changed.py"
    changed.write_text(ast.unparse(tree))
    found = [name.replace("tf.compat.v1.", "tf.") for _, name in listed(changed, capsys) if "gone" in name]
    assert sorted(found) == sorted(expected)
