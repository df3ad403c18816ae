"""muster's wheel in an environment of its own, for tests of what a user gets: no source tree is in it."""

import importlib.metadata
import os
import subprocess
import sys
import venv
from pathlib import Path

from repository import CORE


def bare_environment(**further: str) -> dict[str, str]:
    """Return the environment of a user who has set nothing for Python, Keras and JAX."""
    mine = ("PYTHON", "XLA_", "JAX_", "KERAS", "COVERAGE", "MUSTER_", "TF_", "PYTEST", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(mine)} | further


def run(folder: Path, *command: str | Path, timeout: float = 280, **further: str) -> str:
    """Run a command in a folder, in a bare environment, and return its output."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env=bare_environment(**further),
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def build(folder: Path, package: Path = CORE) -> Path:
    """Build the wheel of a package in a folder, and return its path."""
    run(folder, sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, package)
    (built,) = folder.glob("*.whl")
    return built


def install(folder: Path, *wheels: Path) -> Path:
    """Make an environment with wheels beside what is installed already, and return its Python.

    To fetch all that anew takes too long: `make soak` does it once.
    """
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run(folder, python, "-m", "pip", "install", "--quiet", "--no-deps", *wheels)
    where = run(folder, python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    # Only the folder: `.pth` files in it, such as that of a source tree, are not read.
    others = importlib.metadata.distribution("keras").locate_file("")
    (Path(where.strip()) / "others.pth").write_text(f"{others}\n")
    return python
