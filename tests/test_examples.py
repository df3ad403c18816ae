"""The examples, run as a user runs them."""

import hashlib
import http.client
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from jobs import DEADLINE
from large_data import copy_mnist, large_data
from muster.checkpoint import latest_checkpoint
from pages import blocks
from repository import EXAMPLES, ROOT


@pytest.fixture(autouse=True)
def _as_a_user_runs_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what JAX does by itself, and with the cache of what was compiled."""
    monkeypatch.delenv("XLA_FLAGS")
    monkeypatch.delenv("JAX_ENABLE_COMPILATION_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))


def run_example(name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, EXAMPLES / name, *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=240,
    )


def load_example(name: str) -> ModuleType:
    """Import an example, without running it."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("program", sorted(EXAMPLES.glob("*.py")), ids=lambda program: program.stem)
def test_each_example_has_a_page_that_names_what_it_has(program: Path) -> None:
    """The commands of the page run in `test_pages.py`; its options and its advice are looked up here."""
    page = ROOT / "docs/examples" / f"{program.stem.replace('_', '-')}.md"
    text, source = page.read_text(), program.read_text()
    commands = [line for block in blocks(page) for line in block.code.replace("\\\n", " ").splitlines()]
    assert commands
    for command in commands:
        _, found, arguments = command.partition(f"examples/{program.name}")
        assert found, command
        assert [each for each in re.findall(r"--[a-z-]+", arguments) if f'"{each}"' not in source] == []
    advice = text.partition("\n## For your own data\n")[2]
    named = re.findall(r"^\|.*?\| `([^`]+)`", advice, re.MULTILINE)
    assert len(named) >= 3
    assert [each for each in named if each not in source and each != "--ps"] == []


@pytest.mark.processes
@pytest.mark.alone
def test_digits_learns_is_stopped_and_goes_on(tmp_path: Path) -> None:
    arguments = ["--model-dir", str(tmp_path / "run"), "--max-steps", "300"]
    first = subprocess.Popen(
        [sys.executable, EXAMPLES / "digits.py", *arguments], stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert first.stdout is not None
    with first.stdout:
        seen = next(line for line in first.stdout if line.startswith("step"))
        first.send_signal(signal.SIGINT)
        rest = first.stdout.read()
    assert first.wait(timeout=60) == 130
    assert seen == "step 50 of 300: loss " + seen.rpartition(" ")[2]
    stopped = re.search(r"Stopped: step (\d+) is saved", rest)
    assert stopped, rest
    assert int(stopped[1]) >= 50

    again = run_example("digits.py", *arguments)
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith(f"Found step {stopped[1]} in ")
    assert "step 50 of 300" not in again.stdout
    accuracy = re.search(r"Accuracy on the 360 held-out images: ([\d.]+)%", again.stdout)
    assert accuracy, again.stdout
    assert float(accuracy[1]) >= 97

    finished = run_example("digits.py", *arguments)
    assert "All 300 steps are done: only evaluating." in finished.stdout
    assert accuracy[0] in finished.stdout


def run_served(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "muster", "run", "--chief", "--workers", "1", "--ps", "1", *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=240,
    )


@pytest.mark.processes
@pytest.mark.alone
def test_digits_learns_on_parameter_servers(tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = run_served(
        "--evaluator", str(EXAMPLES / "digits.py"), "--model-dir", str(run), "--max-steps", "300"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^chief 0 +\| step \d+ of 300: loss", done.stdout, re.M), done.stdout
    accuracy = re.search(r"evaluator 0 \| Accuracy on the 360 held-out images: ([\d.]+)%", done.stdout)
    assert accuracy, done.stdout
    assert float(accuracy[1]) >= 97
    assert "Accuracy" not in done.stdout.replace(accuracy[0], "")
    assert latest_checkpoint(run) == str(run / "ckpt-300")


@pytest.mark.processes
@pytest.mark.alone
def test_the_guides_program_learns_on_parameter_servers(tmp_path: Path) -> None:
    copy_mnist(tmp_path)
    # Plain gradient descent takes shorter steps where gradients are late.
    arguments = ["--model-dir", str(tmp_path / "run"), "--learning-rate", "0.1", "--max-steps"]
    done = run_served(str(EXAMPLES / "mnist_estimator.py"), *arguments, "500", MUSTER_DATA_DIR=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    for task in ("chief 0 ", "worker 0"):
        assert re.search(rf"^{task} \| INFO:muster:Loss for final step", done.stdout, re.M), done.stdout
    # In one process it goes on from there, and is evaluated.
    alone = run_example("mnist_estimator.py", *arguments, "501", MUSTER_DATA_DIR=str(tmp_path))
    found = re.search(r"Test accuracy after 501 steps: ([\d.]+)", alone.stdout)
    assert found, alone.stdout + alone.stderr
    assert float(found[1]) >= 0.9


@pytest.mark.processes
def test_fresh_removes_what_training_wrote_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "ckpt-9").mkdir()
    (tmp_path / "mine.txt").touch()
    done = run_example("digits.py", "--model-dir", str(tmp_path), "--max-steps", "1", "--fresh")
    assert done.returncode == 0, done.stderr
    names = {path.name for path in tmp_path.iterdir()}
    assert {"ckpt-0", "ckpt-1", "mine.txt", "eval"} <= names
    assert "ckpt-9" not in names


@pytest.mark.processes
def test_the_guides_program_reaches_its_accuracy(tmp_path: Path) -> None:
    copy_mnist(tmp_path)
    arguments = ["--model-dir", str(tmp_path / "run"), "--seed", "1"]
    done = run_example("mnist_estimator.py", *arguments, MUSTER_DATA_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    found = re.search(r"Test accuracy after 313 steps: ([\d.]+)", done.stdout)
    assert found, done.stdout
    assert float(found[1]) >= 0.95
    assert "INFO:muster:loss = " in done.stderr


@pytest.mark.processes
def test_the_guides_program_says_where_its_data_would_go(tmp_path: Path) -> None:
    # A proxy that refuses connections stands for a machine without a network.
    done = run_example(
        "mnist_estimator.py",
        "--model-dir",
        str(tmp_path / "run"),
        MUSTER_DATA_DIR=str(tmp_path / "data"),
        https_proxy="http://127.0.0.1:9",
    )
    assert done.returncode == 1
    assert "put the files train-images-idx3-ubyte.gz" in done.stderr
    assert str(tmp_path / "data") in done.stderr


@pytest.mark.processes
def test_the_census_is_learned_exported_served_and_asked(tmp_path: Path) -> None:
    data, run = large_data("adult/adult.data").parent, tmp_path / "run"
    done = run_example("adult_wide_deep.py", "--data", str(data), "--model-dir", str(run))
    assert done.returncode == 0, done.stderr
    accuracy = re.search(r"Accuracy on (6513|16281) people who were held out: ([\d.]+)", done.stdout)
    assert accuracy, done.stdout
    assert float(accuracy[2]) >= 0.85

    command = re.search(r"^    muster (serve .*) --port 8501$", done.stdout, re.M)
    request = re.search(r"^    curl http://localhost:8501(\S+) -d '(.*)'$", done.stdout, re.M)
    assert command, done.stdout
    assert request, done.stdout
    server = subprocess.Popen(
        [sys.executable, "-m", "muster", *command[1].split(), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert server.stdout is not None
        with server.stdout:
            found = (re.search(r"at http://127\.0\.0\.1:(\d+)/", line) for line in server.stdout)
            port = next((int(match[1]) for match in found if match), None)
            assert port is not None, "the server ended"
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
            connection.request("POST", request[1], request[2])
            response = connection.getresponse()
            body = response.read()
            connection.close()
    finally:
        server.kill()
        server.wait()
    assert response.status == 200, body
    ((first, second),) = json.loads(body)["results"]
    assert {first[0], second[0]} == {"<=50K", ">50K"}
    assert first[1] + second[1] == pytest.approx(1, abs=1e-5)


@pytest.mark.processes
@pytest.mark.alone
def test_the_census_is_learned_on_parameter_servers(tmp_path: Path) -> None:
    data, run = large_data("adult/adult.data").parent, tmp_path / "run"
    done = run_served(
        "--evaluator", str(EXAMPLES / "adult_wide_deep.py"), "--data", str(data), "--model-dir", str(run)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    accuracy = re.findall(r"^(.*) \| Accuracy on \d+ people who were held out: ([\d.]+)", done.stdout, re.M)
    assert [task for task, _ in accuracy] == ["evaluator 0"], done.stdout
    assert float(accuracy[0][1]) >= 0.85
    assert list((run / "export" / "best").iterdir())


PERSON = "25, Private, 1, 11th, 7, Divorced, Sales, Wife, White, Female, 0, 0, 40, Peru, "


def test_the_census_is_read_as_its_files_are_written(tmp_path: Path) -> None:
    adult = load_example("adult_wide_deep")
    # Without adult.test a fifth of adult.data is held out.
    (tmp_path / "adult.data").write_text(f"{PERSON}<=50K\n" * 7 + f"{PERSON}>50K\n" * 3 + "\n")
    training, held_out = (labels.tolist() for _, labels in adult.load_data(tmp_path))
    assert (len(training), len(held_out)) == (8, 2)
    assert (training + held_out).count(">50K") == 3

    (tmp_path / "adult.test").write_text(f"|1x3 Cross validator\n{PERSON}<=50K.\n{PERSON}>50K.\n\n")
    training, (features, labels) = adult.load_data(tmp_path)
    assert len(training[1]) == 10
    assert labels.tolist() == ["<=50K", ">50K"]
    assert features["age"].tolist() == [25.0, 25.0]
    assert features["native_country"].tolist() == ["Peru", "Peru"]

    (tmp_path / "adult.test").write_text(f"{PERSON}<=50K.\n25, Private\n")
    with pytest.raises(SystemExit, match=r"adult\.test is damaged: each line has 15 fields"):
        adult.load_data(tmp_path)


def test_the_census_is_downloaded_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adult = load_example("adult_wide_deep")
    there = tmp_path / "there"
    there.mkdir()
    for name in adult.CHECKSUMS:
        (there / name).write_text(name)
    monkeypatch.setattr(adult, "URL", f"{there.as_uri()}/")
    monkeypatch.setenv("MUSTER_DATA_DIR", str(tmp_path))
    here = tmp_path / "adult"
    with pytest.raises(
        SystemExit, match=r"Cannot download .*adult\.data: its MD5 is \w{32}, and should be 5d7c"
    ):
        adult.find_data(None)
    assert list(here.iterdir()) == []

    checksums = {
        name: hashlib.md5(name.encode(), usedforsecurity=False).hexdigest() for name in adult.CHECKSUMS
    }
    monkeypatch.setattr(adult, "CHECKSUMS", checksums)
    assert adult.find_data(None) == here
    assert {path.name: path.read_text() for path in here.iterdir()} == {name: name for name in checksums}
    with pytest.raises(
        SystemExit, match=r"There is no adult\.data in .*: --data names the folder that has it"
    ):
        adult.find_data(str(tmp_path))


@pytest.mark.processes
def test_the_census_says_where_its_data_would_go(tmp_path: Path) -> None:
    done = run_example(
        "adult_wide_deep.py",
        "--model-dir",
        str(tmp_path / "run"),
        MUSTER_DATA_DIR=str(tmp_path / "data"),
        https_proxy="http://127.0.0.1:9",
    )
    assert done.returncode == 1
    folder = tmp_path / "data" / "adult"
    assert (
        f"put the files adult.data and adult.test into {folder}, or name their folder by --data"
        in done.stderr
    )
    assert "Traceback" not in done.stderr
    assert list(folder.iterdir()) == []


@pytest.mark.processes
def test_the_migrated_program_trains_its_estimator_in_a_cluster() -> None:
    done = run_served(str(EXAMPLES / "migrate_multi_worker.py"))
    assert done.returncode == 0, done.stdout + done.stderr
    # The chief may be through the few steps before the worker has begun, and ends the job.
    assert re.search(r"^chief 0  \| INFO:muster:Loss for final step", done.stdout, re.M), done.stdout
    assert "Traceback" not in done.stdout


@pytest.mark.processes
def test_the_migrated_program_trains_in_three_ways() -> None:
    done = run_example("migrate_multi_worker.py")
    assert done.returncode == 0, done.stderr
    losses = dict(re.findall(r"^(\w+): loss ([\d.]+)", done.stdout, re.M))
    assert list(losses) == ["Estimator", "ParameterServerStrategy", "MultiWorkerMirroredStrategy"]
    assert re.search(r"^Estimator: loss [\d.]+ after 3 steps$", done.stdout, re.M)
    assert done.stdout.count("Epoch 5/5") == 2


def test_clicks_are_as_probable_as_the_recommender_says() -> None:
    recommender = load_example("recommender")
    shown, clicked, probability = recommender.make_clicks(20_000, 500, seed=1)
    again = recommender.make_clicks(20_000, 500, seed=1)
    np.testing.assert_array_equal(clicked, again[1])
    for name, rows in (("user", 500), ("item", recommender.NUM_ITEMS)):
        assert shown[name].min() == 0
        assert shown[name].max() == rows - 1
    for low in (0.0, 0.2, 0.4, 0.6, 0.8):
        those = (low <= probability) & (probability < low + 0.2)
        error = 3 * 0.5 / np.sqrt(those.sum())
        assert np.mean(clicked[those]) == pytest.approx(np.mean(probability[those]), abs=error)
    assert recommender.area_under_curve(probability, clicked) == pytest.approx(0.9, abs=0.02)


def test_the_area_under_the_curve_counts_pairs() -> None:
    area_under_curve = load_example("recommender").area_under_curve
    rng = np.random.default_rng(0)
    scores, clicked = rng.normal(size=60), rng.integers(0, 2, 60).astype(np.float32)
    pairs = scores[clicked == 1][:, np.newaxis] > scores[clicked == 0]
    assert area_under_curve(scores, clicked) == pytest.approx(pairs.mean())


@pytest.mark.processes
def test_the_recommender_says_how_to_start_it() -> None:
    done = run_example("recommender.py")
    assert done.returncode == 1
    assert "muster run --chief --workers 2 --ps 2 --evaluator" in done.stderr


@pytest.mark.processes
def test_the_limit_of_a_worker_ends_one_that_holds_more() -> None:
    code = """
import time, numpy, recommender
recommender.limit_memory(100)
small = numpy.ones(10_000_000 // 8)
time.sleep(0.2)
print("goes on", flush=True)
large = numpy.ones(150_000_000 // 8)
time.sleep(60)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=EXAMPLES, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 1, done.stderr
    assert re.fullmatch(r"goes on\nThis task takes \d+ MB, and may take \d+\.\n", done.stdout)


@pytest.mark.processes
@pytest.mark.alone
@pytest.mark.timeout(700)
def test_the_recommender_comes_near_to_the_best_and_goes_on(tmp_path: Path) -> None:
    def train(epochs: int) -> str:
        done = subprocess.run(
            [
                *(
                    sys.executable,
                    "-m",
                    "muster",
                    "run",
                    "--chief",
                    "--workers",
                    "2",
                    "--ps",
                    "2",
                    "--evaluator",
                ),
                *(EXAMPLES / "recommender.py", "--model-dir", tmp_path / "run", "--epochs", str(epochs)),
            ],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert re.findall(r"^chief 0 +\| Epoch (\d) of", train(1), re.M) == ["1"]
    shown = train(5)
    assert re.findall(r"^chief 0 +\| Epoch (\d) of", shown, re.M) == list("2345")
    found = re.search(
        r"^evaluator 0 \| AUC after 1250 steps: (.*)\. The best possible is (.*)\.$", shown, re.M
    )
    assert found, shown
    assert float(found[2]) == pytest.approx(0.904, abs=0.001)
    assert float(found[1]) >= 0.72
    assert "The table of users has 256 MB; a worker may hold 220 MB." in shown
