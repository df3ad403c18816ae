"""Exporters export and delete as TensorFlow's did."""

import logging
import os
import pathlib
from typing import Any

import pytest
from exporters_departures import EXPORTERS

import recorded
from muster.estimator import BestExporter, FinalExporter, LatestExporter
from muster.estimator._estimator import timestamped_folder
from muster.estimator.exporters._best_exporter import loss_smaller
from muster.estimator.exporters._exporter import beyond_largest
from muster.estimator.session import clock
from muster.summary import EventFileWriter

CLASSES = {"BestExporter": BestExporter, "LatestExporter": LatestExporter, "FinalExporter": FinalExporter}


def always(best_eval_result: Any, current_eval_result: Any) -> bool:
    return True


def never(best_eval_result: Any, current_eval_result: Any) -> bool:
    return False


def function_with(names: list[str]) -> Any:
    return eval(f"lambda {', '.join(names)}: None")


MAKERS = {
    "$serving_fn": lambda _: lambda: None,
    "$compare_fn": {"always": always, "never": never, "loss_smaller": loss_smaller}.__getitem__,
    "$fn": function_with,
}


class ExportingEstimator:
    """Writes a file in a new folder, as an Estimator does a model."""

    def __init__(self, model_dir: str) -> None:
        self.model_dir = model_dir

    def export_saved_model(
        self,
        export_dir_base: str,
        serving_input_receiver_fn: Any,
        assets_extra: Any = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
    ) -> bytes:
        if serving_input_receiver_fn is None:
            raise ValueError("An input_receiver_fn must be defined.")
        folder = timestamped_folder(export_dir_base)
        if checkpoint_path == "nowhere":
            raise ValueError(f"The passed save_path is not a valid checkpoint: {checkpoint_path}")
        os.makedirs(folder)
        pathlib.Path(folder, "model").touch()
        return os.fsencode(folder)


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a second pass with each reading of the clock, and each second of sleep."""
    time = 1_700_000_000.0

    def sleep(secs: float) -> None:
        nonlocal time
        time += secs

    def date() -> float:
        sleep(1)
        return time

    monkeypatch.setattr(clock, "date", date)
    monkeypatch.setattr(clock, "sleep", sleep)


def logged(caplog: pytest.LogCaptureFixture, model_dir: pathlib.Path) -> list[list[str]]:
    """Return what was logged, in the form of the cases."""
    return [
        [record.levelname, record.getMessage().replace(str(model_dir), "<model_dir>")]
        for record in caplog.records
    ]


def write_events(folder: pathlib.Path, results: list[Any]) -> None:
    with EventFileWriter(folder) as writer:
        for step, result in results:
            writer.add_scalars(result, step)


@pytest.mark.usefixtures("ticking")
@pytest.mark.parametrize(
    "case", recorded.cases("exporters", lambda case: "calls" in case["input"], EXPORTERS)
)
def test_what_is_exported(
    case: dict[str, Any], tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked = recorded.decode(case["input"], MAKERS)
    make, kwargs = CLASSES[asked["class"]], asked["kwargs"]
    exporter = make(**kwargs)
    export_path = tmp_path / "export" / exporter.name
    if "earlier_event_files" in asked:
        write_events(tmp_path / asked.get("earlier_event_folder", "eval"), asked["earlier_event_files"])
    for name in asked.get("folders_before", ()):
        (export_path / name).mkdir(parents=True)
    caplog.set_level(logging.INFO, "muster")
    for call, expected in zip(asked["calls"], case["expect"]["calls"], strict=True):
        if call.get("new_exporter"):
            exporter = make(**kwargs)
        result = call["eval_result"]
        if call.get("write_event"):
            values = {name: value for name, value in result.items() if name != "global_step"}
            write_events(tmp_path / "eval", [[result["global_step"], values]])
        arguments = {
            "estimator": ExportingEstimator(str(tmp_path)),
            "export_path": str(export_path),
            "checkpoint_path": call.get("checkpoint_path", "ckpt"),
            "eval_result": result,
            "is_the_final_export": call.get("is_the_final_export", False),
        }
        if "error" in expected:
            with pytest.raises(ValueError) as raised:  # noqa: PT011
                exporter.export(**arguments)
            recorded.check_error(expected["error"], raised.value)
        else:
            returned = exporter.export(**arguments)
            wanted = recorded.decode(expected["returned"], MAKERS)
            assert type(returned).__name__ == expected["returned_type"]
            assert returned == (wanted and os.fsencode(export_path / wanted.decode()))
        seen = sorted(os.listdir(export_path)) if export_path.exists() else []
        assert seen == (expected["folders"] or [])
    with_model = sorted(path.parent.name for path in export_path.glob("*/model"))
    assert with_model == case["expect"]["folders_with_a_model"]
    assert logged(caplog, tmp_path) == case["expect"]["logs"]


@pytest.mark.parametrize(
    "case",
    recorded.cases(
        "exporters",
        lambda case: "class" in case["input"] and "calls" not in case["input"],
        EXPORTERS,
    ),
)
def test_arguments(case: dict[str, Any]) -> None:
    asked = recorded.decode(case["input"], MAKERS)
    make, expect = CLASSES[asked["class"]], case["expect"]
    if "error" in expect:
        with pytest.raises((TypeError, ValueError)) as raised:
            make(**asked["kwargs"])
        recorded.check_error(expect["error"], raised.value)
    else:
        assert make(**asked["kwargs"]).name == expect["value"]["name"]


@pytest.mark.parametrize("case", recorded.cases("exporters", lambda case: "best" in case["input"], EXPORTERS))
def test_smaller_loss(case: dict[str, Any]) -> None:
    asked, expect = recorded.decode(case["input"], MAKERS), case["expect"]
    if "error" in expect:
        with pytest.raises(ValueError) as raised:  # noqa: PT011
            loss_smaller(asked["best"], asked["current"])
        recorded.check_error(expect["error"], raised.value)
    else:
        assert loss_smaller(asked["best"], asked["current"]) is expect["value"]


@pytest.mark.parametrize("case", recorded.cases("exporters", lambda case: "now" in case["input"], EXPORTERS))
def test_names_of_folders(
    case: dict[str, Any],
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked, expect = case["input"], case["expect"]
    slept: list[float] = []
    monkeypatch.setattr(clock, "date", lambda: asked["now"] + sum(slept))
    monkeypatch.setattr(clock, "sleep", slept.append)
    for name in asked["folders_before"]:
        (tmp_path / name).mkdir()
    if "error" in expect:
        with pytest.raises(RuntimeError) as raised:
            timestamped_folder(str(tmp_path))
        recorded.check_error(expect["error"], raised.value)
    else:
        assert timestamped_folder(str(tmp_path)) == str(tmp_path / expect["value"])
    assert slept == expect["slept"]
    assert logged(caplog, tmp_path) == expect["logs"]


@pytest.mark.parametrize("case", recorded.cases("exporters", lambda case: "n" in case["input"], EXPORTERS))
def test_which_folders_are_old(case: dict[str, Any]) -> None:
    paths = case["input"]["paths"]
    versions = [float("-inf") if version is None else version for _, version in paths]
    old = beyond_largest(versions, case["input"]["n"])
    assert [paths[index] for index in old] == case["expect"]["value"]["deleted"]
    kept = [each for index, each in enumerate(paths) if index not in old]
    assert kept == case["expect"]["value"]["kept"]


def test_every_departure_is_of_use() -> None:
    assert recorded.unused("exporters", EXPORTERS) == []


def test_a_model_comes_after_those_of_a_machine_whose_clock_is_ahead(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The folder with the largest number is served, and the others are deleted first."""
    monkeypatch.setattr(clock, "date", lambda: 1_700_000_000.0)
    (tmp_path / "1700003600").mkdir()
    assert timestamped_folder(str(tmp_path)) == str(tmp_path / "1700003601")
    assert "1700003600 is dated 3600 s in the future" in caplog.text
