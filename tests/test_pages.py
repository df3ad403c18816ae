"""Every program and command of README and the documentation, run as copied, by a user who has the wheel."""

import os
import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from large_data import copy_mnist, large_data
from pages import PAGES, Block, blocks
from repository import ROOT
from tensorflow_checkpoints import recorded
from wheels import bare_environment

# What no test can start, and why. Each is replaced by a command that notes what it was given, and succeeds.
ELSEWHERE = {
    "docker": "builds an image, which needs Docker",
    "kubectl": "needs a cluster",
    "make": "sets up `.venv` from the package index: that its targets exist is tested below",
    "sbatch": "needs Slurm",
    "scp": "copies to other machines",
}
# What cannot be installed without the package index, or is not yet there.
NOT_INSTALLED_HERE = re.compile(r"^pip install (?:\.|'\.|\"\.|\"muster-train\[(?:gpu|tpu)).*$", re.M)
# What runs in a cluster: of Ray and Slurm, where `make test-engines` runs such commands; of Kubernetes, as
# test_kubernetes_multiprocess.py does.
IN_A_CLUSTER = re.compile(
    r"^ *(?:ray |muster run --on (?:ray|slurm|kubernetes)\S* |muster \S+ .*kubernetes:)(?:.*\\\n)*.*$", re.M
)
# Pages for those who change muster itself.
OTHER_PAGES = {
    "docs/contributing/add-a-dataset-operation.md": "test_changes_to_muster_work runs its commands",
    "docs/contributing/add-a-hook.md": "test_changes_to_muster_work runs its commands",
    "docs/contributing/add-a-strategy.md": "test_changes_to_muster_work runs its commands",
    "docs/contributing/add-an-engine.md": "test_changes_to_muster_work runs its commands",
    "docs/contributing/tests.md": "it says how to run these tests",
}
# What a page says that its reader has, apart from the examples: the variables of a trained model.
HAVE_OLD_MODEL = {"docs/guides/moving-from-tensorflow.md"}
# The folder of MUSTER_TEST_DATA that the reader of a page has as `data/`: without it, the page is skipped.
HAVE_DATA = {"docs/examples/adult-wide-deep.md": "adult", "docs/examples/mnist-estimator.md": "mnist"}
SAMPLES = {
    "README.md",
    "docs/guides/checkpoints.md",
    "docs/guides/moving-from-tensorflow.md",
    "docs/guides/security.md",
    "docs/guides/workers.md",
}
DEADLINE_SECS = 240


def pages() -> list[pytest.param]:
    """The pages with commands; those that are no samples, for `make soak`."""
    return [
        pytest.param(page, id=name, marks=() if name in SAMPLES else pytest.mark.soak)
        for page in PAGES
        if (name := str(page.relative_to(ROOT))) not in OTHER_PAGES
        and any(block.kind == "commands" for block in blocks(page))
    ]


class Reader:
    """A user in a new folder with the examples, a home and an environment in which the wheel is installed."""

    def __init__(self, folder: Path, python: Path, wheel: Path) -> None:
        self.folder = folder / "work"
        self.given = folder / "given"  # what the commands of ELSEWHERE were given
        commands = folder / "elsewhere"
        for each in (self.folder, self.given, commands, folder / "home"):
            each.mkdir()
        for name in ELSEWHERE:
            file = commands / name
            # Only a command that is told so reads from the pipe.
            read = f"[[ $* == *'-f -'* ]] && cat > {self.given}/$(date +%s%N).yaml"
            file.write_text(f'#!/bin/bash\necho "{name} $*" >> {self.given}/commands\n{read}\nexit 0\n')
            file.chmod(0o755)
        # Hosts of a page are addresses of this one.
        skip = 'while [ "${1#10.}" = "$1" ]; do shift; done; shift'
        (commands / "ssh").write_text(f'#!/bin/sh\n{skip}\nexec sh -c "$*"\n')
        (commands / "ssh").chmod(0o755)
        shutil.copytree(ROOT / "examples", self.folder / "examples")
        self._python = python
        self._environment = bare_environment(
            HOME=str(folder / "home"),
            PATH=f"{python.parent}:{commands}:/usr/bin:/bin",
            PIP_NO_INDEX="1",
            PIP_FIND_LINKS=str(wheel.parent),
        )

    def run(self, block: Block, name: str) -> None:
        """Run a block to its end; a server, until it serves and Ctrl-C has ended it."""
        if block.kind == "file":
            (self.folder / block.name).write_text(block.code)
            return
        if block.kind == "program":
            # Beside the page's other programs, under the page's name.
            (self.folder / name).write_text(block.code)
            command = [str(self._python), name]
        else:
            command = ["bash", "-e", "-o", "pipefail", "-c", self._possible(block.code)]
        serves = block.kind == "commands" and "muster serve" in block.code
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        with process:
            try:
                if serves:
                    shown = next(line for line in process.stdout if "serving" in line or not line)
                    os.killpg(process.pid, signal.SIGINT)
                output, _ = process.communicate(timeout=DEADLINE_SECS)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
        output = (shown if serves else "") + output
        assert process.returncode == (130 if serves else 0), f"{block.code}\n\n{output[-3000:]}"
        assert "Traceback" not in output, f"{block.code}\n\n{output[-3000:]}"

    def _possible(self, code: str) -> str:
        """Commands as copied, but for what cannot be installed, and for ports that are free here."""
        with socket.socket() as first, socket.socket() as second, socket.socket() as third:
            for name, each in (("12345", first), ("12346", second), ("12347", third)):
                each.bind(("localhost", 0))
                code = code.replace(name, str(each.getsockname()[1]))
        # Addresses of hosts: of the loopback, behind the names that the command ssh above knows.
        code = re.sub(r"(10\.0\.0\.(1\d))\b", r"\1=127.0.0.\2", code)
        return IN_A_CLUSTER.sub(":", NOT_INSTALLED_HERE.sub(":", code))


@pytest.fixture
def reader(tmp_path: Path, wheel: Path, wheel_python: Path) -> Reader:
    return Reader(tmp_path, wheel_python, wheel)


@pytest.mark.processes
@pytest.mark.alone
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("page", pages())
def test_what_a_page_tells_its_reader_to_run_runs(page: Path, reader: Reader) -> None:
    name = str(page.relative_to(ROOT))
    if name in HAVE_OLD_MODEL:
        prefix, _ = recorded("dnn_classifier")
        shutil.copytree(prefix.parent, reader.folder / "old/model")
    match HAVE_DATA.get(name):
        case "adult":
            shutil.copytree(large_data("adult/adult.data").parent, reader.folder / "data/adult")
        case "mnist":
            copy_mnist(reader.folder / "data")
    for block in blocks(page):
        reader.run(block, f"{page.stem}.py")
    for given in reader.given.glob("*.yaml"):
        objects = list(yaml.safe_load_all(given.read_text()))
        assert objects
        for each in objects:
            kubernetes_validate.validate(each, "1.30", strict=True)


@pytest.mark.processes
@pytest.mark.soak
@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name)
        for page in PAGES
        if (name := str(page.relative_to(ROOT))) not in OTHER_PAGES
        and {block.kind for block in blocks(page)} == {"program"}
    ],
)
def test_programs_of_a_page_run_with_the_wheel(page: Path, reader: Reader) -> None:
    """Of pages that have programs alone."""
    for block in blocks(page):
        reader.run(block, f"{page.stem}.py")


def test_commands_are_found() -> None:
    found = {str(page.relative_to(ROOT)): [block.kind for block in blocks(page)] for page in PAGES}
    assert found["README.md"].count("commands") >= 3
    assert sum(kinds.count("commands") for kinds in found.values()) >= 20
    assert OTHER_PAGES.keys() | HAVE_OLD_MODEL | HAVE_DATA.keys() | SAMPLES <= found.keys()


def test_a_block_that_looks_like_commands_is_one() -> None:
    """What a reader would copy into a shell is not hidden from these tests as text."""
    command = re.compile(r"(?:muster [a-z-]+|python|pip|TF_CONFIG=\S+ python) ")
    hidden = [
        f"{page.relative_to(ROOT)}: {line}"
        for page in PAGES
        for block in re.findall(r"^```text\n(.*?)^```", page.read_text(), re.DOTALL | re.M)
        for line in block.splitlines()
        if command.match(line)
    ]
    assert hidden == []


def test_targets_of_make_exist() -> None:
    targets = re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.M)
    command = re.compile(r"^ {4}make ([a-z-]+)|`make ([a-z-]+)`", re.M)
    named = {name for page in PAGES for names in command.findall(page.read_text()) for name in names} - {""}
    assert len(named) >= 4
    assert named <= set(targets)
