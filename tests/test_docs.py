"""The documentation: its programs run, its names exist."""

import importlib
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"(?P<continues><!-- continues -->\n)?```python\n(?P<code>.*?)```", re.DOTALL)


def programs() -> list[pytest.param]:
    """Each Python block of each page with those that it is marked to continue, as one program."""
    found = []
    for page in PAGES:
        chain: list[str] = []
        for block in BLOCK.finditer(page.read_text()):
            # Blank lines in the place of what is left out: a traceback shows the page's line.
            skipped = page.read_text()[: block.start("code")].count("\n")
            if block["continues"]:
                chain[-1] += "\n" * (skipped - chain[-1].count("\n")) + block["code"]
            else:
                chain.append("\n" * skipped + block["code"])
        name = str(page.relative_to(ROOT))
        found += [pytest.param(page, code, id=f"{name}-{i}") for i, code in enumerate(chain, 1)]
    return found


@pytest.mark.parametrize(("page", "code"), programs())
def test_programs_run(page: Path, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, page, "exec"), {"__name__": "__main__"})


def commands() -> list[pytest.param]:
    """The shell blocks of the pages about workers and debugging."""
    return [
        pytest.param(code, id=f"{page}-{i}")
        for page in ("workers", "debugging")
        for i, code in enumerate(
            re.findall(r"```sh\n(.*?)```", (ROOT / "docs/guides" / f"{page}.md").read_text(), re.DOTALL), 1
        )
    ]


@pytest.mark.parametrize("code", commands())
def test_commands_run(code: str, tmp_path: Path) -> None:
    """Shell blocks run to their end, with fewer steps, and on ports that are free here."""
    with socket.socket() as first, socket.socket() as second:
        for name, each in (("12345", first), ("12346", second)):
            each.bind(("localhost", 0))
            code = code.replace(name, str(each.getsockname()[1]))
    code = code.replace("examples/digits.py", f"{ROOT}/examples/digits.py --max-steps 40")
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout


def migrated_names() -> list[tuple[str, str]]:
    text = (ROOT / "docs" / "coming-from-tensorflow.md").read_text()
    return re.findall(r"^\| `(tf\.[\w.]+)` \| `((?:muster|keras)\.[\w.]+)` \|", text, re.MULTILINE)


def resolve(module: str, path: str) -> object:
    value: object = importlib.import_module(module)
    for name in path.split("."):
        value = getattr(value, name)
    return value


def test_the_table_of_names_is_found() -> None:
    assert len(migrated_names()) > 40


@pytest.mark.parametrize(("old", "new"), migrated_names())
def test_both_names_of_the_table_exist(old: str, new: str) -> None:
    importlib.import_module("muster._keras")  # before Keras chooses its backend
    importlib.import_module("muster.program")
    assert resolve("muster.compat.tensorflow", old.removeprefix("tf.")) is not None
    package, _, path = new.partition(".")
    assert resolve(package, path) is not None


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    for page in PAGES[1:]:
        assert str(page.relative_to(ROOT / "docs")) in navigation


def test_every_dependency_is_explained() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    asked = project["project"]["dependencies"] + sum(project["project"]["optional-dependencies"].values(), [])
    for group in project["dependency-groups"].values():
        asked += group
    names = {re.split(r"[\[<>= ]", requirement)[0] for requirement in asked}
    page = (ROOT / "docs" / "dependencies.md").read_text()
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []
