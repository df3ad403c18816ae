"""The documentation: its programs run, its names exist."""

import ast
import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from jobs import QUICKLY_BY_FLAGS, Server
from muster.launch._kubernetes import kubernetes_objects
from muster.launch._manifest import JobManifest
from muster.launch._plan import JobShape
from muster.net import make_secret
from pages import PAGES, blocks
from repository import CORE, FRONT_END, ROOT, SOURCES

CHANGE = re.compile(r"<!-- file: (?P<file>\S+) -->\n```(?P<kind>python|diff)\n(?P<code>.*?)```", re.DOTALL)


def programs() -> list[pytest.param]:
    """Return each program of each page."""
    found = []
    for page in PAGES:
        name = str(page.relative_to(ROOT))
        chain = [block.code for block in blocks(page) if block.kind == "program"]
        found += [pytest.param(page, code, id=f"{name}-{i}") for i, code in enumerate(chain, 1)]
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Starts programs by processes that have imported muster."""
    server = Server(tmp_path_factory.mktemp("compiled"), environment=bare_environment())
    yield server
    server.stop()


def bare_environment() -> dict[str, str]:
    return {name: os.environ[name] for name in ("HOME", "PATH", "PYTHONPATH") if name in os.environ}


@pytest.mark.processes
@pytest.mark.parametrize(("page", "code"), programs())
def test_programs_run_as_copied(page: Path, code: str, server: Server, tmp_path: Path) -> None:
    """Each is a program of its own, with one CPU device, and nothing set for Keras and JAX.

    That is but for time: muster is imported once, and the process copied for each program; JAX compiles
    quickly, and what it has compiled is kept for the other programs.
    """
    program = (tmp_path / page.name).with_suffix(".py")
    program.write_text(code)
    environment = bare_environment() | {"XLA_FLAGS": QUICKLY_BY_FLAGS}
    printed = server.run([program.name], environment, tmp_path)
    assert "Warning:" not in printed


def programs_of_trackers() -> list[pytest.param]:
    """The programs of the pages about trackers and searches, which need packages of extras."""
    texts = [(ROOT / "docs/guides" / name).read_text() for name in ("tracking.md", "searches.md")]
    found = [each for text in texts for each in re.findall(r"```py\n(.*?)```", text, re.DOTALL)]
    return [pytest.param(re.search("(?i)wandb|mlflow|optuna|keras_tuner", each)[0], each) for each in found]


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize(("package", "code"), programs_of_trackers())
def test_programs_of_trackers_run(package: str, code: str, tmp_path: Path) -> None:
    """One process, without a network."""
    (tmp_path / "program.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env=bare_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    patterns = (
        *("wandb/offline-run-*/*.wandb", "runs/tracked/*.json", "runs/mlflow/*/*/metrics/*"),
        *("rates.db", "runs/search/rates/oracle.json"),
    )
    assert any(list(tmp_path.glob(each)) for each in patterns)


def apply(block: re.Match[str], root: Path) -> None:
    """Write the new file of a Python block, or make the changes of a diff block."""
    path = root / block["file"]
    if block["kind"] == "python":
        assert not path.exists()
        path.write_text(block["code"])
        return
    for hunk in block["code"].split("@@\n"):
        lines = hunk.splitlines(keepends=True)
        before, after = ("".join(line[1:] for line in lines if line[0] in kinds) for kinds in (" -", " +"))
        assert path.read_text().count(before) == 1, f"{block['file']} has not, or not only once:\n{before}"
        path.write_text(path.read_text().replace(before, after))


@pytest.mark.processes
@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs" / "contributing").glob("add-*.md")), ids=lambda page: page.stem
)
def test_changes_to_muster_work(page: Path, tmp_path: Path) -> None:
    """The pages for contributors, applied to a copy, pass the tests that they name."""
    for folder in ("packages", "docs"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("oracles"))
    for file in ("pyproject.toml", "conftest.py"):
        shutil.copy(ROOT / file, tmp_path)
    for block in CHANGE.finditer(page.read_text()):
        apply(block, tmp_path)
    (command,) = re.findall(r"^\.venv/bin/pytest (.*)$", page.read_text(), re.MULTILINE)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(tmp_path / path.relative_to(ROOT)) for path in SOURCES),
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *shlex.split(command)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stdout[-3000:]


def test_objects_for_kubernetes_are_valid() -> None:
    text = (ROOT / "docs/guides/security.md").read_text()
    certificate, policy = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", text, re.DOTALL))
    kubernetes_validate.validate(policy, "1.30", strict=True)
    names = re.findall(
        r"^muster manifest kubernetes --name (\S+) --workers 2 .*?--tls-secret (\S+)", text, re.M | re.DOTALL
    )
    assert names == [(policy["metadata"]["name"], certificate["spec"]["secretName"])]
    objects = kubernetes_objects(
        JobManifest(name=names[0][0], shape=JobShape(workers=2), command=("python",)), make_secret()
    )
    labels = objects[-1]["spec"]["template"]["metadata"]["labels"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    for host in certificate["spec"]["dnsNames"]:
        assert f'"{host}:2222"' in str(objects[-1])


def migrated_names() -> list[tuple[str, str]]:
    names = FRONT_END / "src" / "muster_tensorflow" / "port" / "names.json"
    pairs = [(old.strip("`"), new.strip("`")) for old, new, _ in json.loads(names.read_text())]
    ours = re.compile(r"(?:muster|keras)\.[\w.]+")
    return [(old, new) for old, new in pairs if re.fullmatch(r"tf\.[\w.]+", old) and ours.fullmatch(new)]


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
    assert resolve("muster_tensorflow", old.removeprefix("tf.")) is not None
    package, _, path = new.partition(".")
    assert resolve(package, path) is not None


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    for page in PAGES[1:]:
        assert str(page.relative_to(ROOT / "docs")) in navigation


def test_the_reference_has_all_public_packages() -> None:
    stub = (CORE / "src/muster/__init__.pyi").read_text()
    packages = set(re.findall(r"^from \. import (\w+) as \1$", stub, re.M)) - {"keras_hooks"}
    pages = "".join(page.read_text() for page in sorted((ROOT / "docs/reference").glob("*.md")))
    assert {"config", "launch", "optimizers"} <= packages
    filled = r"<!-- names of muster\.(\w+)(?: without[^>]*)? -->|^::: muster\.(\w+)\."
    listed = set(re.findall(filled, pages, re.M))
    assert packages <= {name for pair in listed for name in pair}


def test_pictures_are_light_and_load_nothing() -> None:
    pictures = sorted((ROOT / "docs").glob("*.svg"))
    assert {"run", "curve", "job"} <= {picture.stem for picture in pictures}
    for picture in pictures:
        text = picture.read_text()
        assert len(text) < 20_000
        assert re.findall(r"https?://[^\"]+|url\((?!#)", text.replace("http://www.w3.org/2000/svg", "")) == []
        assert "<title>" in text or "aria-label=" in text  # for who cannot see it


def test_what_the_readme_links_to_is_there() -> None:
    linked = re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / "README.md").read_text())
    assert len(linked) > 10
    assert [path for path in linked if not (ROOT / path).exists()] == []


def test_every_guide_is_in_the_index() -> None:
    index = (ROOT / "docs/index.md").read_text()
    pages = [page.relative_to(ROOT / "docs") for page in PAGES[1:] if page.parent.name != "reference"]
    assert [str(page) for page in pages if f"({page})" not in index and page.name != "index.md"] == []


def test_every_dependency_is_explained() -> None:
    import tomllib

    asked = []
    for folder in (CORE, FRONT_END):
        project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        asked += project["dependencies"]
        asked += [each for extra in project["optional-dependencies"].values() for each in extra]
    for group in tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"].values():
        asked += group
    names = {re.split(r"[\[<>= ]", requirement)[0] for requirement in asked}
    page = (ROOT / "docs" / "dependencies.md").read_text()
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


def test_every_variable_of_the_environment_is_explained() -> None:
    page = (ROOT / "docs" / "environment-variables.md").read_text()
    sources = [path.read_text() for source in SOURCES for path in source.rglob("*.py")]
    names = {name for text in sources for name in re.findall(r"\bMUSTER_[A-Z_]+\b", text)}
    assert len(names) >= 10
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []
    assert [name for name in sorted(set(re.findall(r"`(MUSTER_[A-Z_]+)`", page)) - names)] == []


def said_texts() -> str:
    """Return all texts in muster's code, with … in the place of what is filled in."""
    found = []
    for path in (path for source in SOURCES for path in source.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
                found.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\n".join(found)


def test_what_troubleshooting_quotes_is_what_muster_says() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    quoted = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert len(quoted) > 20
    texts = said_texts()
    assert [each for each in quoted if any(part.strip() not in texts for part in each.split("…"))] == []
