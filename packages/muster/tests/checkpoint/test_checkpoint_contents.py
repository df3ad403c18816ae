"""What is written comes back: types, shapes, names, metadata, pieces."""

import json
import os
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from muster.checkpoint import (
    CheckpointInfo,
    VariableInfo,
    latest_checkpoint,
    list_checkpoints,
    list_variables,
    read_checkpoint,
    read_metadata,
    restore_latest,
    write_checkpoint,
)
from muster.checkpoint._arrays import write_arrays
from muster.checkpoint._manifest import Manifest, Piece, VariableRecord, encode

NUMPY_DTYPES = sorted(
    {np.dtype(code).name for code in np.typecodes["AllInteger"] + np.typecodes["AllFloat"] + "?"}
)
ML_DTYPES = [
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3b11fnuz",
    "int4",
    "uint4",
    "float4_e2m1fn",
]
SHAPES = [(), (0,), (3, 0, 2), (1,), (7,), (2, 3, 4)]


def filled(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    count = int(np.prod(shape))
    return (np.arange(count) % 7).astype(dtype).reshape(shape)


def assert_same(left: np.ndarray, right: np.ndarray) -> None:
    assert (left.dtype, left.shape) == (right.dtype, right.shape)
    assert left.tobytes() == right.tobytes()


@pytest.mark.parametrize("name", NUMPY_DTYPES + ML_DTYPES)
def test_every_numeric_dtype_in_every_shape(tmp_path: Path, name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name) if name in ML_DTYPES else name)
    variables = {f"v{i}": filled(shape, dtype) for i, shape in enumerate(SHAPES)}
    path = write_checkpoint(tmp_path, 1, variables, {})
    restored = read_checkpoint(path).variables
    assert list(restored) == list(variables)
    for key, value in variables.items():
        assert_same(restored[key], value)
        restored[key][...] = 0  # it can be written to
    assert list_variables(path) == {key: VariableInfo(v.shape, name) for key, v in variables.items()}


def test_layouts_in_memory_make_no_difference(tmp_path: Path) -> None:
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    variables = {
        "transposed": base.T,
        "strided": base[::2, ::-1],
        "broadcast": np.broadcast_to(np.float32(3), (2, 2)),
        "read only": np.frombuffer(b"abcdefgh", np.int32),
        "big-endian": np.arange(5, dtype=">i8"),
    }
    restored = read_checkpoint(write_checkpoint(tmp_path, 1, variables, {})).variables
    for key, value in variables.items():
        assert_same(restored[key], np.ascontiguousarray(value).astype(value.dtype.newbyteorder("=")))


def test_arrays_are_aligned(tmp_path: Path) -> None:
    variables = {"a": np.ones(3, np.int8), "b": np.ones(5, np.complex128), "c": np.ones(1, np.float16)}
    restored = read_checkpoint(write_checkpoint(tmp_path, 1, variables, {})).variables
    assert all(value.flags.aligned for value in restored.values())


def test_names_are_any_unicode(tmp_path: Path) -> None:
    names = [
        "dense/kernel",
        "a/b/../c",
        "",
        " ",
        "Größe",
        "模型/层",
        "😀",
        'quote"back\\slash',
        "new\nline\0",
    ]
    variables = {name: np.array(i) for i, name in enumerate(names)}
    restored = read_checkpoint(write_checkpoint(tmp_path, 1, variables, {})).variables
    assert {name: int(value) for name, value in restored.items()} == {name: i for i, name in enumerate(names)}


def test_no_variables_at_all(tmp_path: Path) -> None:
    checkpoint = read_checkpoint(write_checkpoint(tmp_path, 0, {}, {}))
    assert (checkpoint.step, checkpoint.variables, checkpoint.metadata) == (0, {}, {})


def test_metadata_without_the_arrays(tmp_path: Path) -> None:
    metadata = {
        "dataset": {"epoch": 3, "position": [1, 2]},
        "random": 2**128 - 1,
        "x": None,
        "é": 0.1,
        "inf": np.inf,
    }
    path = write_checkpoint(tmp_path, 5, {"w": np.ones(3)}, metadata)
    for file in Path(path).glob("*.safetensors"):
        file.unlink()
    assert read_metadata(path) == metadata
    assert list_variables(path) == {"w": VariableInfo((3,), "float64")}


def test_the_files_are_valid_safetensors(tmp_path: Path) -> None:
    variables = {
        name: filled((2, 3), np.dtype(name))
        for name in NUMPY_DTYPES
        if name not in ("complex128", "longdouble")
    }
    variables = {name: value for name, value in variables.items() if value.dtype.itemsize <= 8}
    variables["bfloat16"] = filled((4,), np.dtype(ml_dtypes.bfloat16))
    variables["scalar"] = np.array(3)
    path = write_checkpoint(tmp_path, 1, variables, {})
    (file,) = Path(path).glob("*.safetensors")
    others = safetensors.numpy.load_file(file)
    assert set(others) == set(variables)
    for name, value in variables.items():
        assert_same(others[name], value)
    # What the format has no name for is there as bytes.
    path = write_checkpoint(tmp_path, 2, {"c": np.array([1 + 2j])}, {})
    (file,) = Path(path).glob("*.safetensors")
    assert safetensors.numpy.load_file(file)["c"].tobytes() == np.array([1 + 2j]).tobytes()


def test_pieces_written_by_several_are_cut_together(tmp_path: Path) -> None:
    """A checkpoint as two parameter servers write it: each its own rows, then one manifest."""
    table = np.arange(30, dtype=np.float32).reshape(10, 3)
    path = tmp_path / "ckpt-7"
    path.mkdir()
    files = {
        "ps0.safetensors": write_arrays(
            str(path / "ps0.safetensors"), {"t": table[:4], "bias": np.array(2.0)}
        ),
        "ps1.safetensors": write_arrays(str(path / "ps1.safetensors"), {"t": table[4:]}),
    }
    pieces = (Piece("ps1.safetensors", "t", 4, 10), Piece("ps0.safetensors", "t", 0, 4))
    variables = {
        "table": VariableRecord((10, 3), "float32", pieces),
        "bias": VariableRecord((), "float64", (Piece("ps0.safetensors", "bias", 0, 1),)),
    }
    (path / "manifest.json").write_bytes(encode(Manifest(7, 1.0, 1.0, variables, files, {})))
    restored = read_checkpoint(path).variables
    assert_same(restored["table"], table)
    assert_same(restored["bias"], np.array(2.0))


@pytest.mark.parametrize(
    "spans", [[(0, 4)], [(0, 4), (5, 10)], [(0, 6), (4, 10)], [(0, 4), (0, 4), (4, 10)], []]
)
def test_pieces_that_do_not_cover_a_variable_are_refused(
    tmp_path: Path, spans: list[tuple[int, int]]
) -> None:
    from muster._errors import DamagedCheckpointError

    path = tmp_path / "ckpt-7"
    path.mkdir()
    arrays = {f"{start}:{stop}": np.zeros(stop - start) for start, stop in spans}
    record = write_arrays(str(path / "x.safetensors"), arrays)
    pieces = tuple(Piece("x.safetensors", f"{start}:{stop}", start, stop) for start, stop in spans)
    manifest = Manifest(
        7, 1.0, 1.0, {"t": VariableRecord((10,), "float64", pieces)}, {"x.safetensors": record}, {}
    )
    (path / "manifest.json").write_bytes(encode(manifest))
    with pytest.raises(DamagedCheckpointError, match="10 rows of 't'"):
        read_checkpoint(path)


def test_listing(tmp_path: Path) -> None:
    for step, now in ((100, 5.0), (3, 6.0), (20, 7.0)):
        write_checkpoint(tmp_path, step, {}, {}, now=now)
    for name in ("ckpt-1", "ckpt-x", "ckpt-007", "model"):
        (tmp_path / name).mkdir()
    (tmp_path / "ckpt-9").touch()
    (tmp_path / "ckpt-007" / "manifest.json").touch()
    assert list_checkpoints(tmp_path) == [
        CheckpointInfo(str(tmp_path / f"ckpt-{step}"), step, now, started=5.0)
        for step, now in ((3, 6.0), (20, 7.0), (100, 5.0))
    ]
    assert latest_checkpoint(tmp_path) == str(tmp_path / "ckpt-100")
    assert latest_checkpoint(tmp_path / "none") is None
    assert list_checkpoints(tmp_path / "none") == []
    assert restore_latest(tmp_path / "none") is None


def test_same_step_again_replaces(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 4, {"w": np.zeros(3)}, {"try": 1})
    path = write_checkpoint(tmp_path, 4, {"v": np.ones(2)}, {"try": 2})
    checkpoint = read_checkpoint(path)
    assert checkpoint.metadata == {"try": 2}
    assert list(checkpoint.variables) == ["v"]
    assert len(os.listdir(path)) == 2  # the manifest and one data file


def test_the_manifest_is_plain_json(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, 4, {"w": np.zeros((3, 2), np.float32)}, {"a": 1})
    contents = json.loads((Path(path) / "manifest.json").read_text())
    assert contents["format"] == 1
    assert contents["step"] == 4
    assert contents["variables"]["w"]["shape"] == [3, 2]
    assert contents["metadata"] == {"a": 1}


@pytest.mark.parametrize(
    ("step", "variables", "metadata", "error", "message"),
    [
        (-1, {}, {}, ValueError, "-1"),
        (1.5, {}, {}, ValueError, "1.5"),
        (True, {}, {}, ValueError, "True"),
        (1, {"__metadata__": np.zeros(1)}, {}, ValueError, "reserves"),
        (1, {"\ud800": np.zeros(1)}, {}, ValueError, "Unicode"),
        (1, {"w": np.array(["a"])}, {}, TypeError, "'w'"),
        (1, {"w": np.array([None])}, {}, TypeError, "object"),
        (1, {"w": np.zeros(1, "M8[s]")}, {}, TypeError, "datetime64"),
        (1, {"w": np.zeros(1, [("a", "f4")])}, {}, TypeError, "'w'"),
        (1, {}, {"a": np.int64(1)}, TypeError, "JSON"),
        (1, {}, {"a": {1, 2}}, TypeError, "JSON"),
    ],
)
def test_bad_arguments_write_nothing(tmp_path: Path, step, variables, metadata, error, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=message):
        write_checkpoint(tmp_path, step, variables, metadata)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("end", ["/", "//", "/."])
def test_directories_may_be_written_with_slashes_at_their_end(tmp_path: Path, end: str) -> None:
    directory = f"{tmp_path}{end}"
    write_checkpoint(directory, 5, {"a": np.ones(1)}, {})
    restored = restore_latest(directory)
    assert restored is not None
    assert restored.step == 5
