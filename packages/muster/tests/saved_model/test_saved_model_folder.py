"""Saved models are whole or not there, and say what is wrong with them."""

import os
import re
import shutil
import zlib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import muster
from muster import cpu
from muster.__main__ import main
from muster.data import TensorSpec
from muster.saved_model import (
    PREDICT,
    Feature,
    Output,
    SignatureToSave,
    contains_saved_model,
    load,
    save,
    symbolic_arguments,
    trace,
)
from muster.saved_model._modules import to_module

X = np.arange(6, dtype=np.float32).reshape(2, 3)
WEIGHTS = {"w": np.arange(6, dtype=np.float32).reshape(3, 2), "b": jnp.ones(2, "bfloat16"), "unused": X}


def product(weights, arguments):
    return {"y": arguments["x"] @ weights["w"] + weights["b"], "sum": arguments["x"].sum(1)}


def signatures():
    inputs = {"x": TensorSpec([None, 3], np.float32)}
    computation = trace(product, WEIGHTS, symbolic_arguments(inputs, (), None))
    outputs = {"y": {"y": Output("y")}, "sum": {"sum": Output("sum")}, "again": {"other": Output("y")}}
    return {
        name: SignatureToSave(
            method_name=PREDICT,
            inputs=inputs,
            outputs=each,
            computation=computation,
            features={"x": Feature("x")},
        )
        for name, each in outputs.items()
    }


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("written") / "model"
    save(path, signatures())
    return path


@pytest.fixture
def copy(written, tmp_path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "model"))


def test_what_was_saved_is_computed(written):
    loaded = load(written)
    np.testing.assert_array_equal(loaded.signatures["y"](x=X)["y"], X @ WEIGHTS["w"] + 1)
    np.testing.assert_array_equal(loaded.signatures["again"](x=X[:1])["other"], X[:1] @ WEIGHTS["w"] + 1)
    np.testing.assert_array_equal(loaded.signatures["sum"](x=X)["sum"], X.sum(1))


def test_what_several_signatures_share_is_written_once(written):
    files = sorted(path.name for path in written.iterdir())
    assert len([name for name in files if name.endswith(".stablehlo")]) == 2


def test_only_needed_weights_are_written(written, capsys):
    assert main(["saved-model", "show", str(written)]) == 0
    shown = capsys.readouterr().out
    assert "saved model, intact" in shown
    assert "; 2 weights, " in shown
    assert (
        "again  (tensorflow/serving/predict)\n  input   x: float32 [any, 3]\n  output  other: float32"
        in shown
    )


def test_a_convolution_is_exported_as_jax_lowers_it(tmp_path):
    cpu.use_cpu_lowerings(True)

    def convolve(weights, arguments):
        return {
            "y": jax.lax.conv_general_dilated(
                arguments["x"], weights["k"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
        }

    arguments = {"x": jax.ShapeDtypeStruct((4, 8, 8, 1), np.dtype(np.float32))}
    kernel = {"k": np.ones((3, 3, 1, 2), np.float32)}
    module = to_module(trace(convolve, kernel, arguments), ["y"])
    text = jax.export.deserialize(bytearray(module.data)).mlir_module()
    operations = set(re.findall(r"stablehlo\.(\w+)", text))
    assert "convolution" in operations
    assert operations <= {"convolution", "case", "constant", "return"}  # a case for each platform


def test_a_folder_is_replaced_only_by_a_whole_model(copy, monkeypatch):
    def full_disk(descriptor):
        raise OSError(28, "No space left on device")

    new = signatures()
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full_disk)
        with pytest.raises(muster.SavedModelError, match="No space left"):
            save(copy, new)
    assert os.listdir(copy.parent) == ["model"]
    assert set(load(copy).signatures) == {"y", "sum", "again"}
    save(copy, {"y": signatures()["y"]})
    assert set(load(copy).signatures) == {"y"}
    assert os.listdir(copy.parent) == ["model"]


def test_what_is_no_saved_model_is_not_replaced(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "thesis.txt").write_text("text")
    with pytest.raises(muster.SavedModelError, match="something that is no saved model"):
        save(tmp_path / "model", signatures())
    assert (tmp_path / "model" / "thesis.txt").read_text() == "text"


def test_folders_with_a_saved_model_are_known(copy):
    assert contains_saved_model(copy)
    assert contains_saved_model(os.fsencode(copy))
    (copy / "saved_model.json").unlink()
    assert not contains_saved_model(copy)
    assert not contains_saved_model(copy / "nowhere")


def changed(name: str):
    def change(path: Path) -> None:
        (file,) = path.glob(name)
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)

    return change


def deleted(name: str):
    return lambda path: [file.unlink() for file in path.glob(name)]


def cut_off(path: Path) -> None:
    os.truncate(path / "weights.safetensors", 100)


def newer(path: Path) -> None:
    body = (
        (path / "saved_model.json").read_bytes().partition(b"\n")[2].replace(b'"format": 1', b'"format": 2')
    )
    (path / "saved_model.json").write_bytes(b'{"crc32": "%08x",\n' % zlib.crc32(body) + body)


@pytest.mark.parametrize(
    ("harm", "kind", "message"),
    [
        (changed("saved_model.json"), muster.DamagedSavedModelError, "does not match its checksum"),
        (changed("weights.safetensors"), muster.DamagedSavedModelError, "its bytes have changed"),
        (changed("y-*.stablehlo"), muster.DamagedSavedModelError, "its bytes have changed"),
        (cut_off, muster.DamagedSavedModelError, "is 100 bytes long, but|has 100 bytes"),
        (deleted("weights.safetensors"), muster.DamagedSavedModelError, "lacks its file weights.safetensors"),
        (deleted("y-*.stablehlo"), muster.DamagedSavedModelError, "lacks its file y-"),
        (deleted("saved_model.json"), muster.SavedModelNotFoundError, "it has no saved_model.json"),
        (newer, muster.SavedModelError, "has format 2, but this version of muster reads format 1"),
    ],
)
def test_damage_is_said(copy, harm, kind, message, capsys):
    harm(copy)
    with pytest.raises(kind, match=message):
        load(copy)
    assert main(["saved-model", "show", str(copy)]) == 1
    assert "muster: " in capsys.readouterr().err


def test_places_without_a_saved_model_say_what_is_there(copy, tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no such folder"):
        load(tmp_path / "nowhere")
    copy.rename(tmp_path / "17")
    with pytest.raises(FileNotFoundError, match="Its folder 17 has one"):
        load(tmp_path)
    (tmp_path / "temp-1700000001-ab").mkdir()
    with pytest.raises(muster.SavedModelNotFoundError, match="is half written"):
        load(tmp_path / "temp-1700000001-ab")
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow" / "saved_model.pb").write_bytes(b"")
    with pytest.raises(muster.SavedModelNotFoundError, match="a saved model of TensorFlow's"):
        load(tmp_path / "tensorflow")


def test_a_module_of_another_version_is_refused(copy):
    (file,) = copy.glob("y-*.stablehlo")
    manifest = copy / "saved_model.json"
    record = f'"crc32": {zlib.crc32(file.read_bytes())}'.encode()
    size = f'"bytes": {file.stat().st_size}'.encode()
    file.write_bytes(b"something else")
    body = manifest.read_bytes().partition(b"\n")[2]
    body = body.replace(record, b'"crc32": %d' % zlib.crc32(b"something else")).replace(size, b'"bytes": 14')
    manifest.write_bytes(b'{"crc32": "%08x",\n' % zlib.crc32(body) + body)
    with pytest.raises(muster.SavedModelError, match="cannot read the module y-"):
        load(copy)


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(5, "Input/output error")])
def test_the_old_model_stays_when_the_new_one_does_not_get_to_its_place(copy, monkeypatch, error):
    rename = os.rename

    def fails(source, target):
        if target == str(copy) and not source.endswith(".old"):
            raise error
        rename(source, target)

    new = signatures()
    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", fails)
        with pytest.raises((KeyboardInterrupt, muster.SavedModelError)):
            save(copy, {"y": new["y"]})
    assert os.listdir(copy.parent) == ["model"]
    assert set(load(copy).signatures) == {"y", "sum", "again"}


def test_the_target_of_a_link_is_replaced(copy, tmp_path):
    (tmp_path / "link").symlink_to(copy)
    save(tmp_path / "link", {"y": signatures()["y"]})
    assert (tmp_path / "link").is_symlink()
    assert set(load(copy).signatures) == {"y"}
    assert sorted(os.listdir(tmp_path)) == ["link", "model"]


def test_a_model_that_is_replaced_while_it_is_loaded_is_loaded_anew(copy, monkeypatch):
    from muster.saved_model import _load

    read, new = _load.read_manifest, signatures()["y"]

    def read_then_replace(path):
        manifest = read(path)
        monkeypatch.setattr(_load, "read_manifest", read)
        save(copy, {"new": new})
        return manifest

    monkeypatch.setattr(_load, "read_manifest", read_then_replace)
    assert set(load(copy).signatures) == {"new"}
