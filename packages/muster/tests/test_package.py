"""The package as it is installed: its names, what importing costs, and the command."""

import argparse
import ast
import collections
import importlib
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import muster
from check_imports import circles, graph_of, intrusions, modules_of, problems
from muster.__main__ import main
from muster.checkpoint import write_checkpoint
from muster.launch import add_run_command
from muster.launch._command import late_options
from repository import CORE, ROOT

PACKAGES = [
    "checkpoint",
    "cluster",
    "data",
    "distribute",
    "engines",
    "estimator",
    "feature_column",
    "integrations",
    "launch",
    "layers",
    "net",
    "program",
    "ps",
    "ray",
    "saved_model",
    "summary",
]

# Names that two public packages export: a feature of an Example, as in TensorFlow, and one of a saved model;
# an output of a step, and one of a signature; what compiles a step, and what starts tasks.
SHARED_CLASS_NAMES = {
    "Engine": ["distribute/engine/_traced.py", "engines/_engine.py"],
    "Feature": ["data/files/_example.py", "saved_model/_arguments.py"],
    "Output": ["program/trace/_outputs.py", "saved_model/_save.py"],
}


def run_python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip()


def fastest(*command: str) -> float:
    """The processor's time of a command in seconds, the best of three: other processes count little."""
    times = []
    for _ in range(3):
        before = os.times()
        subprocess.run(command, capture_output=True, timeout=60, check=True)
        after = os.times()
        times.append(
            after.children_user - before.children_user + after.children_system - before.children_system
        )
    return min(times)


# Prints what `import muster` changes in a process, and which of these packages it imports.
IMPORT = """
import logging, os, signal, sys, threading, warnings
def state():
    return {
        "environment": dict(os.environ),
        "handlers of signals": [signal.getsignal(each) for each in sorted(signal.valid_signals())],
        "hooks": [sys.excepthook, sys.unraisablehook, threading.excepthook, sys.meta_path[:], sys.path[:]],
        "tracing": [sys.gettrace(), sys.getprofile(), sys.getrecursionlimit(), sys.getswitchinterval()],
        "logging": [logging.root.level, logging.root.handlers[:], logging.getLogger("muster").handlers[:]],
        "warnings": [warnings.showwarning, warnings.filters[:]],
        "threads": threading.enumerate(),
        "directory": os.getcwd(),
    }
before = state()
import muster
after = state()
backend = after["environment"].pop("KERAS_BACKEND")
changed = [what for what in before if before[what] != after[what]]
print(changed, backend, {"jax", "keras", "numpy"} & {*sys.modules})
"""


@pytest.mark.processes
def test_importing_muster_is_quick_and_changes_nothing_but_the_backend(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    assert run_python(IMPORT) == "[] jax set()"
    assert fastest(sys.executable, "-c", "import muster") < 0.3


@pytest.mark.processes
def test_the_command_is_quick() -> None:
    assert fastest(sys.executable, "-m", "muster", "--help") < 0.5


@pytest.mark.processes
@pytest.mark.parametrize("package", ["net", "cluster", "checkpoint", "data", "ps", "summary"])
def test_what_needs_no_device_imports_no_jax(package: str) -> None:
    loaded = run_python(
        f"import muster.{package}, sys; print(*sorted({{'jax', 'keras'}} & set(sys.modules)))"
    )
    assert loaded == ""


def test_every_public_name_exists_and_says_what_it_is_for() -> None:
    for name in muster.__all__:
        assert getattr(muster, name) is not None
    for package in PACKAGES:
        module = importlib.import_module(f"muster.{package}")
        assert module.__doc__
        names = [name for name in dir(module) if not name.startswith("_")]
        assert names
        for name in names:
            value = getattr(module, name)
            if callable(value):
                assert value.__doc__, f"muster.{package}.{name} has no docstring"


@pytest.mark.parametrize("name", ["MirroredStrategy", "MultiWorkerMirroredStrategy"])  # one in parentheses
def test_a_name_of_a_package_is_found(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"no '{name}': muster\.distribute has it"):
        getattr(muster, name)


def test_a_name_that_no_package_has_is_said_so() -> None:
    with pytest.raises(AttributeError, match=r"muster has no attribute 'nothing'\.$"):
        _ = muster.nothing


def test_packages_export_by_import_alone() -> None:
    """An ``__init__.py`` imports names as themselves, and does nothing else; or its stub does, for names that
    are imported when they are first used."""
    for package in PACKAGES:
        folder = CORE / "src/muster" / package
        docstring, *names = ast.parse((folder / "__init__.py").read_text()).body
        assert isinstance(docstring, ast.Expr)
        if (stub := folder / "__init__.pyi").exists():
            names = ast.parse(stub.read_text()).body
        for node in names:
            assert isinstance(node, ast.ImportFrom)
            assert all(alias.asname == alias.name for alias in node.names)


def test_every_module_can_be_imported() -> None:
    for module in pkgutil.walk_packages(muster.__path__, "muster."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def test_no_modules_import_each_other() -> None:
    assert circles(graph_of(modules_of(CORE / "src"))) == []


def test_private_modules_are_imported_from_their_packages_alone() -> None:
    assert intrusions(graph_of(modules_of(CORE / "src"))) == []


def test_no_two_classes_have_one_name() -> None:
    source = CORE / "src" / "muster"
    modules = collections.defaultdict(list)
    for path in sorted(source.rglob("*.py")):
        for name in re.findall(r"^ *class (\w+)[(:]", path.read_text(), re.MULTILINE):
            modules[name].append(path.relative_to(source).as_posix())
    assert {name: found for name, found in modules.items() if len(found) > 1} == SHARED_CLASS_NAMES


def test_circles_and_intrusions_are_found(tmp_path: Path) -> None:
    """Of type checkers, of functions, and through a package's ``__init__``."""
    for name, text in {
        "p/__init__.py": "from p._a import x as x",
        "p/_a.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p import room",
        "p/room/__init__.py": "from p.room._b import y as y",
        "p/room/_b.py": "def y():\n    from p import x\n    import p._a",
        "p/room/deep/_c.py": "from p.room._b import y\nfrom p._a import x",
        "p/room2/__init__.py": "from p.room import _b",
        "p/other.py": "from p._a import x\nfrom p.room._b import y",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert problems(tmp_path) == [
        "These modules import each other: p, p._a, p.room, p.room._b.",
        "p.other imports p.room._b, which is for its own package alone.",
        "p.room2 imports p.room._b, which is for its own package alone.",
    ]


def test_the_version_is_the_installed_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        main(["--version"])
    assert exit.value.code == 0
    assert capsys.readouterr().out == f"muster {muster.__version__}\n"
    assert importlib.metadata.version("muster-train") == muster.__version__
    assert "version" in tomllib.loads((CORE / "pyproject.toml").read_text())["project"]["dynamic"]


def test_the_changelog_has_a_place_for_what_comes() -> None:
    assert "## [Unreleased]" in (CORE / "CHANGELOG.md").read_text()


METADATA = {
    "input": {"pipelines": [{"elements": 12, "pipeline": "range(9) -> batch(3)"}]},
    "ended": False,
    "note": list(range(100)),
}


@pytest.fixture
def model_dir(tmp_path: Path) -> Path:
    for step in (0, 250):
        variables = {"dense/kernel": np.ones((784, 64), np.float32), "global_step": np.int32(step)}
        write_checkpoint(tmp_path, step, variables, METADATA)
    return tmp_path


def test_inspect_lists_checkpoints(model_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(model_dir)]) == 0
    out = capsys.readouterr().out
    head, first, second, *rest = out.splitlines()
    assert head.split() == ["step", "written", "size", "state"]
    assert first.split()[0] == "0"
    assert second.split()[0] == "250"
    assert second.split()[-1] == "intact"
    assert 201 < float(second.split()[-3]) < 205  # kB
    assert rest[1] == "Step 250 has 2 variables with 50,177 values."
    assert rest[2] == "Of the input 12 batches were taken: range(9) -> batch(3)"
    assert rest[3] == "Training was going on."
    assert rest[4].startswith("note: [0, 1, 2")
    assert rest[4].endswith("…")
    assert "dense/kernel" not in out


def test_inspect_lists_variables_of_a_step(model_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(model_dir), "--variables", "--step", "0"]) == 0
    out = capsys.readouterr().out
    assert "Step 0 has" in out
    assert ["dense/kernel", "(784,", "64)", "float32"] in [line.split() for line in out.splitlines()]
    assert ["global_step", "()", "int32"] in [line.split() for line in out.splitlines()]


def test_inspect_finds_damage(model_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data,) = (model_dir / "ckpt-250").glob("*.safetensors")
    content = bytearray(data.read_bytes())
    content[1000] ^= 1
    data.write_bytes(content)
    assert main(["inspect", str(model_dir)]) == 1
    out = capsys.readouterr().out
    assert out.splitlines()[1].endswith("intact")
    assert out.splitlines()[2].endswith("damaged")
    assert f"Damaged: {data} has checksum" in out
    assert main(["inspect", str(model_dir), "--step", "0"]) == 0


def test_inspect_finds_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(
        f"muster: There is no checkpoint in {tmp_path}: give the model_dir"
    )
    assert main(["inspect", str(tmp_path / "missing")]) == 2
    assert "is not a directory: give the model_dir" in capsys.readouterr().err


def test_inspect_looks_at_one_checkpoint(
    model_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["inspect", f"{model_dir}/ckpt-0/", "--variables"]) == 0
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines()[:2]] == ["step", "0"]
    assert "Step 0 has 2 variables" in out
    assert "dense/kernel" in out
    monkeypatch.chdir(model_dir / "ckpt-250")
    assert main(["inspect", "."]) == 0
    assert "Step 250 has" in capsys.readouterr().out


def test_inspect_says_what_is_wrong_with_one_checkpoint(
    model_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = model_dir / "ckpt-250"
    assert main(["inspect", str(directory), "--step", "0"]) == 1
    assert f"no checkpoint of step 0 in {directory}. There are: 250." in capsys.readouterr().err
    manifest = directory / "manifest.json"
    assert main(["inspect", str(manifest)]) == 2
    assert "is not a directory" in capsys.readouterr().err
    manifest.write_bytes(b"{")
    assert main(["inspect", str(directory)]) == 1
    assert f"Damaged: {manifest} does not match its checksum" in capsys.readouterr().out
    manifest.unlink()
    assert main(["inspect", str(directory)]) == 1
    assert f"There is no checkpoint in {directory}" in capsys.readouterr().err


def test_inspect_repairs(model_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (model_dir / "ckpt-250" / "manifest.json").unlink()
    assert main(["inspect", str(model_dir)]) == 1
    out = capsys.readouterr().out
    assert f"No reader takes {model_dir}/ckpt-250: it has no manifest.json. `muster inspect --repair" in out
    assert main(["inspect", str(model_dir), "--repair"]) == 0
    out = capsys.readouterr().out
    assert f"{model_dir}/ckpt-250: manifest.json rebuilt from variables-" in out
    assert "Of the input 12 batches were taken" in out


def test_inspect_names_the_steps_that_are_there(model_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(model_dir), "--step", "7"]) == 1
    assert "There are: 0, 250." in capsys.readouterr().err


@pytest.mark.processes
def test_the_command_ends_quietly_when_its_reader_goes(model_dir: Path) -> None:
    command = f"{sys.executable} -m muster inspect {model_dir} --variables | head -0"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_no_command_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "run a program as several tasks" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "--worker", "2", "a.py"], "unrecognized arguments: --worker. Did you mean --workers?"),
        (["--versions"], "unrecognized arguments: --versions. Did you mean --version?"),
        (["inspect", "--xyz", "."], "unrecognized arguments: --xyz\n"),
    ],
)
def test_wrong_options_are_named_with_what_may_be_meant(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert says in capsys.readouterr().err


def test_options_after_the_programs_name_are_the_programs() -> None:
    parser = argparse.ArgumentParser(prog="muster")
    commands = parser.add_subparsers()
    add_run_command(commands)
    for program in (["a.py"], ["-m", "a"]):
        args = parser.parse_args(["run", "--ps", "1", *program, "--workers=2", "--chief", "--rate", "2"])
        assert late_options(commands.choices["run"], args) == ["--workers=2", "--chief"]


def test_what_code_knows_without_being_told_is_listed() -> None:
    source = CORE / "src" / "muster"
    page = (ROOT / "docs/architecture.md").read_text()
    table = page.partition("| `ContextVar` |")[2].partition("\n\n")[0]
    listed = re.findall(r"^\| `(\w+)` \| `(\S+)` \|", table, re.MULTILINE)
    found = []
    for path in (text for text in source.rglob("*.py") if "ContextVar" in text.read_text()):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.AnnAssign | ast.Assign) and isinstance(node.value, ast.Call):
                if ast.unparse(node.value.func).endswith("ContextVar"):
                    target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
                    found.append((ast.unparse(target), path.relative_to(source).as_posix()))
    assert sorted(found) == sorted(listed)
    assert len(found) <= 8
