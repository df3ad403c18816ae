"""Export the guide's CNN, load and ask it on the card and on the CPU, and serve it on the card.

Answers of the card, of the CPU and of ``muster serve`` must agree with those of ``Estimator.predict``.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from bench._gpu._model import input_fn_of, model_fn_of
from bench._gpu._part import Part, this_part
from bench._gpu.nets import net
from bench.serving import CLIENT, timed

import muster.saved_model
from muster.data import Dataset, TensorSpec
from muster.estimator import Estimator, build_raw_serving_input_receiver_fn

ROWS = 16
CLIENTS = (1, 32)
# The card multiplies float32 with the precision of TF32, unless JAX_DEFAULT_MATMUL_PRECISION says otherwise.
AGREEMENT = 5e-3
ASK = """
import sys
import jax, numpy as np
import muster.saved_model
signature = muster.saved_model.load(sys.argv[1]).signatures["serving_default"]
answer = signature(image=np.load(sys.argv[2]))["probabilities"]
np.save(sys.argv[3], answer)
print(jax.devices()[0])
"""


def export(part: Part, folder: Path) -> tuple[Any, Any]:
    """Train and export; return images, and the probabilities that ``Estimator.predict`` gives of them."""
    chosen = net("cnn", part.size)
    estimator = Estimator(model_fn_of(chosen), folder / "model")
    estimator.train(input_fn_of(chosen), steps=2 if part.small else 50)
    images = chosen.data()[0][:ROWS]
    rows = estimator.predict(lambda: Dataset.from_tensor_slices({"image": images}).batch(ROWS))
    probabilities = np.stack([row["probabilities"] for row in rows])
    receiver_fn = build_raw_serving_input_receiver_fn({"image": TensorSpec((None, 28, 28, 1), np.float32)})
    exported = estimator.export_saved_model(folder / "export", receiver_fn)
    (folder / "versions").mkdir()
    Path(os.fsdecode(exported)).rename(folder / "versions" / "1")
    return images, probabilities


def compare(part: Part, what: str, found: Any, expected: Any) -> None:
    """Report how far answers are from those that are expected, and a failure if it is too far."""
    gap = float(np.max(np.abs(np.asarray(found) - expected)))
    part.note(**{f"{what}_gap": gap})
    if not gap <= AGREEMENT:
        part.fail(f"Answers of {what} are {gap} from those of Estimator.predict, more than {AGREEMENT}.")


def ask_here(part: Part, folder: Path, images: Any, expected: Any) -> None:
    """Ask the loaded model in this process, and time it."""
    signature = muster.saved_model.load(folder / "versions" / "1").signatures["serving_default"]
    compare(part, "the_loaded_model", signature(image=images)["probabilities"], expected)
    seconds = 0.1 if part.small else 2.0
    part.note(loaded={str(n): timed(lambda n=n: signature(image=images[:n]), seconds) for n in (1, ROWS)})


def ask_on_cpu(part: Part, folder: Path, images: Any, expected: Any) -> None:
    """Ask the loaded model in a process that has the CPU alone."""
    asked, answered = folder / "asked.npy", folder / "answered.npy"
    np.save(asked, images)
    command = [sys.executable, "-c", ASK, folder / "versions" / "1", asked, answered]
    done = subprocess.run(command, env=os.environ | {"JAX_PLATFORMS": "cpu"}, capture_output=True, text=True)
    if done.returncode:
        part.fail(f"A process with the CPU alone could not answer:\n{done.stderr[-2000:]}")
        return
    part.note(cpu_process=done.stdout.split()[-1])
    compare(part, "the_cpu", np.load(answered), expected)


@contextmanager
def server(folder: Path) -> Iterator[int]:
    """Start ``muster serve``, and yield its port."""
    command = [sys.executable, "-m", "muster", "serve", str(folder), "--port", "0"]
    log = folder.parent / "serve.log"
    with (
        log.open("w") as messages,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=messages, text=True) as process,
    ):
        try:
            line = process.stdout.readline() if process.stdout else ""
            found = re.search(r":(\d+)/v1", line)
            if found is None:
                raise RuntimeError(f"muster serve did not start: {line!r}\n{log.read_text()[-2000:]}")
            yield int(found[1])
        finally:
            process.terminate()


def serve(part: Part, folder: Path, images: Any, expected: Any) -> None:
    """Ask ``muster serve`` for all rows, and time requests of one row."""
    path = "/v1/models/default:predict"

    def body(rows: Any) -> str:
        return json.dumps({"instances": [{"image": row.tolist()} for row in rows]})

    with server(folder / "versions") as port:
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body(images).encode())
        with urllib.request.urlopen(request, timeout=60) as response:
            answers = json.load(response)["predictions"]
        compare(part, "the_server", [answer["probabilities"] for answer in answers], expected)
        figures = {}
        for clients in CLIENTS[:1] if part.small else CLIENTS:
            seconds = 0.2 if part.small else 3.0
            command = [sys.executable, CLIENT, str(port), path, body(images[:1]), str(clients), str(seconds)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            if done.returncode:
                part.fail(f"Clients of the server failed:\n{done.stderr[-2000:]}")
                continue
            told = json.loads(done.stdout)
            p50, p99 = np.percentile(told["ms"], [50, 99])
            figures[f"{clients} clients"] = {
                "p50_ms": round(float(p50), 3),
                "p99_ms": round(float(p99), 3),
                "per_second": round(told["per_second"], 1),
            }
        part.note(served=figures)


if __name__ == "__main__":
    this = this_part()
    with tempfile.TemporaryDirectory() as name:
        images, expected = export(this, Path(name))
        ask_here(this, Path(name), images, expected)
        ask_on_cpu(this, Path(name), images, expected)
        try:
            serve(this, Path(name), images, expected)
        except (RuntimeError, OSError) as error:
            this.fail(f"Serving failed: {error}")
    this.end()
