"""The distribution's name and its extras, in pyproject.toml, in messages and on pages."""

import ast
import functools
import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path

import pytest

from muster import PathError, _remote
from muster._extras import extra_module, install_command, missing_package, working_command
from muster.launch._command import _print_profiles
from repository import CORE, ROOT

PROJECT = tomllib.loads((CORE / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
MODULES = sorted((CORE / "src").rglob("*.py"))


def distribution(requirement: str) -> str:
    return re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")


@functools.cache
def imported(module: Path) -> set[str]:
    """The packages that a module imports anywhere, also by their names."""
    found = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in (
            "import_module",
            "extra_module",
        ):
            if isinstance(node.args[0], ast.Constant):
                found.add(node.args[0].value.partition(".")[0])
    return found - {"muster", ""} - set(sys.stdlib_module_names)


def test_the_distribution_is_not_the_other_project_of_the_index() -> None:
    assert PROJECT["name"] == "muster-train"
    assert PROJECT["scripts"] == {"muster": "muster.__main__:main"}


def test_every_package_that_is_imported_is_a_dependency_or_in_an_extra() -> None:
    required = {distribution(each) for each in PROJECT["dependencies"]}
    required |= {distribution(each) for extra in EXTRAS.values() for each in extra}
    # jaxlib and ml_dtypes come with jax, and are of one version with it; h5py comes with Keras.
    # IPython is there where a notebook's kernel runs the program, and only then imported. Keras imports
    # pandas where it is installed; muster puts that off.
    required |= {"jaxlib", "ml-dtypes", "h5py", "ipython", "pandas"}
    # Of those that need not be installed here, one has another name than its distribution.
    providers = {"mlflow": ["mlflow-skinny"], **importlib.metadata.packages_distributions()}
    unknown = {
        package: str(module.relative_to(ROOT))
        for module in MODULES
        for package in imported(module)
        if not {name.lower().replace("_", "-") for name in providers.get(package, [package])} & required
    }
    assert unknown == {}
    assert {"grain", "kubernetes"} <= set().union(*map(imported, MODULES))


def test_every_extra_that_a_message_names_exists() -> None:
    """The extra is an argument of each function of the module, and written where that is called."""
    place = {"install_command": 0, "working_command": 0, "extra_module": 1, "missing_package": 1}
    named = {
        node.args[place[node.func.id]].value
        for module in MODULES
        if module.name != "_extras.py"
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in place
    }
    assert named == {
        *("gcs", "grain", "keras-tuner", "keys", "kubernetes", "mlflow", "optuna", "parquet", "profile"),
        *("ray", "ray-train", "s3", "serve", "wandb"),
    }
    assert named <= EXTRAS.keys()


def test_the_extras() -> None:
    assert EXTRAS.keys() == {
        "gpu",
        "tpu",
        "onednn",
        "kubernetes",
        "parquet",
        "grain",
        "storage",
        "s3",
        "gcs",
        "ray",
        "ray-train",
        "serve",
        "keys",
        "tensorboard",
        "profile",
        "mlflow",
        "wandb",
        "optuna",
        "keras-tuner",
        "huggingface",
        "examples",
    }
    page = (ROOT / "docs/installation.md").read_text()
    assert [extra for extra in EXTRAS if f"| `{extra}` |" not in page] == []


TEXTS = [
    path
    for pattern in (
        "README.md",
        "packages/*/CHANGELOG.md",
        "Makefile",
        "*.toml",
        "docs/**/*",
        "packages/*/pyproject.toml",
        "packages/*/README.md",
        "packages/*/src/**/*",
        "bench/**/*",
        "examples/*",
    )
    for path in sorted(ROOT.glob(pattern))
    if path.suffix in {".md", ".py", ".pyi", ".toml", ".yaml", ".sh", ""} and path.is_file()
]


def test_no_text_names_the_other_project_of_the_index_as_this_one() -> None:
    wrong = re.compile(r"(?<!/)\bmuster\[\w|pip install (?:-U |--upgrade )?[\"']?muster(?![-\w/])")
    assert wrong.search('pip install "muster[parquet]"')
    assert wrong.search("pip install muster")
    assert not wrong.search('pip install "muster-train[parquet]"')
    found = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in TEXTS
        for line in path.read_text().splitlines()
        if wrong.search(line)
    ]
    assert found == []


@pytest.fixture(params=["from the index", "from a folder"])
def installed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether muster was installed from an index."""

    class Distribution:
        requires = tuple(f"{each}; extra == '{extra}'" for extra, needs in EXTRAS.items() for each in needs)

        def read_text(self, name: str) -> str | None:
            return None if request.param == "from the index" else '{"url": "file:///clone"}'

    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Distribution())
    return request.param == "from the index"


def test_what_is_missing_is_said_with_a_command_that_installs_it(installed: bool) -> None:
    assert install_command("parquet") == 'pip install "muster-train[parquet]"'
    assert missing_package(("pytest", "json"), "serve") is None
    served = "httptools prometheus-client starlette uvicorn"
    command = 'pip install "muster-train[serve]"' if installed else f"pip install {served}"
    assert missing_package(("json", "no_such_package"), "serve") == (
        f"this needs the package no_such_package, which is not installed here. Run: {command}"
    )
    assert extra_module("json.decoder", "parquet", "SomeDataset").__name__ == "json.decoder"
    command = 'pip install "muster-train[parquet]"' if installed else "pip install pyarrow"
    message = f"SomeDataset needs the package no_such_package: {command}."
    with pytest.raises(ImportError, match=re.escape(message)):
        extra_module("no_such_package.part", "parquet", "SomeDataset")


def test_an_extra_of_another_package_names_that() -> None:
    assert working_command("images", "no-such-distribution") == 'pip install "no-such-distribution[images]"'


@pytest.mark.parametrize(("scheme", "extra", "package"), [("s3", "s3", "s3fs"), ("gs", "gcs", "gcsfs")])
def test_a_store_without_its_package_says_how_to_install_it(
    installed: bool, scheme: str, extra: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    command = f'pip install "muster-train[{extra}]"' if installed else f"pip install {package}"
    with pytest.raises(PathError, match=re.escape(f"Run: {command}, or give a folder")):
        _remote._filesystem(scheme, "//bucket/a")


def test_profiles_say_where_tensorboards_plugin_comes_from(
    installed: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = tmp_path / "worker-0" / "profile.txt"
    profile.parent.mkdir()
    profile.write_text("compute 90 %\n")
    _print_profiles(tmp_path)
    said = capsys.readouterr().out
    assert said.startswith("worker-0: compute 90 %\n")
    assert "its plugin profile: pip install " in said
    assert ("muster-train[profile]" if installed else "tensorboard xprof") in said
