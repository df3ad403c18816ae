"""Measure ``muster serve`` on one core with 1 and 32 clients, beside the same model in a plain JAX function.

The model is a canned classifier, trained for a step and exported: 64 numbers, layers of 128 and 64 units, ten
classes. A request has one row. The server has a core of its own; the clients have the others.
"""

import argparse
import contextlib
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import muster.saved_model
from bench import _results
from muster.estimator import DNNClassifier, build_raw_serving_input_receiver_fn, numpy_input_fn
from muster.feature_column import numeric_column

CLIENTS = (1, 32)
PATHS = {":predict": ":predict", "status": ""}
CLIENT = Path(__file__).with_name("_serving_clients.py")
SIGNATURE = "predict"


def export(folder: Path) -> Callable[[Any], Any]:
    """Export the model as version 1 in a folder, and return it as a function of rows, by hand in JAX."""
    rng = np.random.default_rng(0)
    rows = {"x": rng.random((256, 64), np.float32)}
    classifier = DNNClassifier([128, 64], [numeric_column("x", 64)], n_classes=10, model_dir=folder / "model")
    classifier.train(
        numpy_input_fn(rows, rng.integers(0, 10, 256), batch_size=64, shuffle=False), max_steps=1
    )
    exported = classifier.export_saved_model(
        folder / "export",
        build_raw_serving_input_receiver_fn({"x": muster.data.TensorSpec((None, 64), np.float32)}),
    )
    (folder / "versions").mkdir()
    Path(os.fsdecode(exported)).rename(folder / "versions" / "1")
    layers = ["hiddenlayer_0", "hiddenlayer_1", "logits"]
    kernels, biases = (
        [jnp.asarray(classifier.get_variable_value(f"dnn/{layer}/{part}")) for layer in layers]
        for part in ("kernel", "bias")
    )

    @jax.jit
    def plain(x: jax.Array) -> dict[str, jax.Array]:
        for i, (kernel, bias) in enumerate(zip(kernels, biases, strict=True)):
            x = x @ kernel + bias
            x = x if i == 2 else jax.nn.relu(x)
        return {"logits": x, "probabilities": jax.nn.softmax(x), "class_ids": jnp.argmax(x, 1, keepdims=True)}

    return plain


def timed(call: Callable[[], Any], seconds: float) -> dict[str, float]:
    """Call a function for some seconds; returns the median in milliseconds, and calls a second."""
    call()
    took = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        call()
        took.append(time.perf_counter() - began)
    return {"p50_ms": 1e3 * statistics.median(took), "per_second": len(took) / sum(took)}


@contextlib.contextmanager
def on_cores(cores: Sequence[int]) -> Iterator[None]:
    """Run on cores, and what is started meanwhile."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def processor_secs(process: int) -> float:
    """Return the processor's time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def server(folder: Path, core: int, options: list[str]) -> Iterator[tuple[int, int]]:
    """Start ``muster serve`` on a core, and yield its process and port."""
    command = [sys.executable, "-m", "muster", "serve", str(folder), "--port", "0", *options]
    with on_cores([core]):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            found = re.search(r":(\d+)/v1", line)
            if found is None:
                raise RuntimeError(f"muster serve did not start: {line!r}")
            yield process.pid, int(found[1])
        finally:
            process.terminate()


def asked(process: int, port: int, path: str, body: str, clients: int, seconds: float) -> dict[str, float]:
    """Let clients ask; returns percentiles in milliseconds, answers a second, and what one costs."""
    command = [sys.executable, str(CLIENT), str(port), path, body, str(clients), str(seconds)]
    before = processor_secs(process)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120 + seconds)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    figures = json.loads(done.stdout)
    p50, p99 = np.percentile(figures["ms"], [50, 99])
    cost = 1e3 * (processor_secs(process) - before) / figures["answers"]
    return {"p50_ms": p50, "p99_ms": p99, "per_second": figures["per_second"], "processor_ms": cost}


def main() -> dict[str, Any]:
    """Print, write and return the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="how long a turn lasts")
    parser.add_argument("--turns", type=int, default=5, help="how many turns each has")
    parser.add_argument("serve", nargs="*", help="further options for muster serve, after --")
    options = parser.parse_args()
    first, *others = sorted(os.sched_getaffinity(0))
    turns: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain = export(folder)
        signature = muster.saved_model.load(folder / "versions" / "1").signatures[SIGNATURE]
        row = np.random.default_rng(1).random((1, 64), np.float32)
        np.testing.assert_allclose(plain(row)["logits"], signature(x=row)["logits"], rtol=1e-5, atol=1e-6)
        body = json.dumps({"signature_name": SIGNATURE, "instances": [{"x": row[0].tolist()}]})
        with server(folder / "versions", first, options.serve) as (process, port):
            for _ in range(options.turns):
                with on_cores([first]):
                    measured = {
                        "plain JAX function": timed(lambda: jax.device_get(plain(row)), options.seconds / 4),
                        "signature": timed(lambda: signature(x=row), options.seconds / 4),
                    }
                with on_cores(others or [first]):
                    for clients, (what, sent) in itertools.product(CLIENTS, PATHS.items()):
                        measured[f"{clients} client{'s'[: clients - 1]}, {what}"] = asked(
                            process,
                            port,
                            f"/v1/models/default{sent}",
                            body if sent else "",
                            clients,
                            options.seconds,
                        )
                for what, figures in measured.items():
                    turns.setdefault(what, []).append(figures)
    print("| | p50, ms | p99, ms | a second | processor, ms |\n|---|---|---|---|---|")
    for what, done in turns.items():
        columns = [
            f"{statistics.median(each[key] for each in done):,.{digits}f}" if key in done[0] else ""
            for key, digits in (("p50_ms", 3), ("p99_ms", 3), ("per_second", 0), ("processor_ms", 3))
        ]
        print(f"| {what} | {' | '.join(columns)} |")
    _results.write("serving", {"options": options.serve, "turns": turns})
    return {"turns": turns}


if __name__ == "__main__":
    main()
