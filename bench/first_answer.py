"""Measure the time from the start of a process until its first answer of a saved model, imports included.

The model is the wide-and-deep classifier of the case "adult", trained for a step and exported; a request is
one serialized Example. Cold is with nothing compiled, warm with what an earlier process compiled; ``import
jax`` alone is what no program with JAX can do without.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from bench.cases import adult

from bench import _results
from muster import feature_column as fc
from muster.data import BytesList, Example, Feature, Features, FloatList, Int64List
from muster.estimator import (
    DNNLinearCombinedClassifier,
    build_parsing_serving_input_receiver_fn,
    numpy_input_fn,
)

ROUNDS = 7
PERSON = {"age": 40.0, "job": "cook", "school": "9th", "state": "Private", "city": "City-7", "hours": 38}
PERSON |= {"gain": 1234.5}
ASK = """
import sys
import muster.saved_model
with open(sys.argv[2], "rb") as file:
    example = file.read()
print(muster.saved_model.load(sys.argv[1]).signatures["serving_default"](inputs=[example]))
"""


def export(folder: Path) -> str:
    """Export the model into a folder; returns the path."""
    wide = [adult.age_buckets(fc), *adult.categorical_columns(fc)]
    deep = adult.deep_columns(fc)
    classifier = DNNLinearCombinedClassifier(
        model_dir=folder / "model",
        linear_feature_columns=wide,
        dnn_feature_columns=deep,
        dnn_hidden_units=adult.HIDDEN,
    )
    people = {name: np.array([value] * 4) for name, value in PERSON.items()}
    labels = np.arange(4) % 2
    classifier.train(numpy_input_fn(people, labels, batch_size=4, shuffle=False), max_steps=1)
    spec = fc.make_parse_example_spec(wide + deep)
    exported = classifier.export_saved_model(folder / "export", build_parsing_serving_input_receiver_fn(spec))
    return os.fsdecode(exported)


def feature_of(value: str | int | float) -> Feature:
    """Return a value as an Example has it."""
    if isinstance(value, str):
        return Feature(bytes_list=BytesList([value.encode()]))
    if isinstance(value, int):
        return Feature(int64_list=Int64List([value]))
    return Feature(float_list=FloatList([value]))


def run(command: list[str], cache_home: Path) -> tuple[float, float]:
    """Return a command's seconds, and those of processors. Python caches bytecode, as it does by default."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        command,
        stdout=subprocess.DEVNULL,
        check=True,
        env={**environment, "XDG_CACHE_HOME": str(cache_home)},
    )
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> dict[str, dict[str, list[float]]]:
    """Print and return seconds: of each round, in which all are measured in turn."""
    figures: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        example = Example(Features({key: feature_of(value) for key, value in PERSON.items()}))
        (folder / "example").write_bytes(example.SerializeToString())
        ask = [sys.executable, "-c", ASK, export(folder), str(folder / "example")]
        run(ask, folder / "first")  # caches bytecode
        for turn in range(ROUNDS):
            own = folder / f"cache-{turn}"
            for what, command in {
                "import jax": [sys.executable, "-c", "import jax"],
                "first answer, cold": ask,
                "first answer, warm": ask,
            }.items():
                took = run(command, own)
                for kind, each in zip(("seconds", "processor"), took, strict=True):
                    figures.setdefault(what, {}).setdefault(kind, []).append(each)
    print("| | seconds, median | least | the processors', median | least |\n|---|---|---|---|---|")
    for what, kinds in figures.items():
        columns = [f"{of(kinds[kind]):.2f}" for kind in kinds for of in (statistics.median, min)]
        print(f"| {what} | {' | '.join(columns)} |")
    return figures


if __name__ == "__main__":
    _results.write("first_answer", main())
