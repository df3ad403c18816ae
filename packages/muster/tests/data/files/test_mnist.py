"""MNIST: fetched whole and checked, or found on the disk."""

import gzip
import hashlib
import logging
import os
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from idx_files import idx_bytes

from large_data import large_data
from muster._errors import DatasetError, DownloadError
from muster.data import load_mnist
from muster.data.files import _mnist

_IMAGES = np.random.default_rng(0).integers(0, 256, (5, 28, 28), dtype=np.uint8)
_LABELS = np.arange(5, dtype=np.uint8)
_NAMES = ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Path]]:
    """A mirror with a small MNIST, whose checksums are taken to be the right ones."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    files = []
    for name, array in zip(_NAMES, (_IMAGES, _LABELS), strict=True):
        content = gzip.compress(idx_bytes(array))
        (folder / name).write_bytes(content)
        files.append((name, hashlib.md5(content).hexdigest()))
    monkeypatch.setitem(_mnist._FILES, "test", tuple(files))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", folder
    server.shutdown()
    server.server_close()
    thread.join()


def _check(loaded: tuple[np.ndarray, np.ndarray]) -> None:
    images, labels = loaded
    np.testing.assert_array_equal(images, _IMAGES[..., None])
    np.testing.assert_array_equal(labels, _LABELS)
    assert (images.dtype, labels.dtype) == (np.uint8, np.int64)


def test_fetched_once(served: tuple[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    url, _ = served
    data = tmp_path / "data"
    _check(load_mnist("test", data, mirrors=[url]))
    assert sorted(os.listdir(data / "mnist")) == sorted(_NAMES)
    _check(load_mnist("test", data, mirrors=[]))
    _check(load_mnist("test", data / "mnist", mirrors=[]))
    assert not caplog.records


def test_the_second_mirror_is_tried(served: tuple[str, Path], tmp_path: Path) -> None:
    url, folder = served
    bad = folder / "bad"
    bad.mkdir()
    for name in _NAMES:
        (bad / name).write_bytes((folder / name).read_bytes()[:-3])
    _check(load_mnist("test", tmp_path, mirrors=[f"{url}/none", f"{url}/bad/", url]))


def test_a_wrong_file_is_never_kept(served: tuple[str, Path], tmp_path: Path) -> None:
    url, folder = served
    (folder / _NAMES[0]).write_bytes(b"something else")
    with pytest.raises(DownloadError, match=r"MD5 \w+, expected \w+") as info:
        load_mnist("test", tmp_path / "data", mirrors=[url])
    assert os.listdir(tmp_path / "data" / "mnist") == []
    assert str(tmp_path / "data" / "mnist") in str(info.value)


def test_offline_says_what_to_put_where(tmp_path: Path) -> None:
    with pytest.raises(DownloadError) as info:
        load_mnist("train", tmp_path, mirrors=["http://127.0.0.1:9/"])
    for part in (
        *_NAMES,
        "train-images-idx3-ubyte.gz",
        "MUSTER_DATA_DIR",
        str(tmp_path / "mnist"),
        "127.0.0.1:9",
    ):
        assert part in str(info.value)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DownloadError, match="file"):
        load_mnist("test", tmp_path / "file", mirrors=[])


def _put(folder: Path, images: np.ndarray = _IMAGES, labels: np.ndarray = _LABELS) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in zip(_NAMES, (images, labels), strict=True):
        (folder / name).write_bytes(gzip.compress(idx_bytes(array)))


@pytest.mark.parametrize(
    ("variable", "below"), [("MUSTER_DATA_DIR", "mnist"), ("XDG_CACHE_HOME", "muster/mnist")]
)
def test_where_files_are_looked_for(
    variable: str,
    below: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.delenv("MUSTER_DATA_DIR", raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    _put(tmp_path / below)
    _check(load_mnist("test", mirrors=[]))
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    assert "not the original file" in caplog.text
    assert "5 examples" in caplog.text


def test_a_damaged_file_on_disk_is_refused(tmp_path: Path) -> None:
    _put(tmp_path)
    (tmp_path / _NAMES[0]).write_bytes(b"\0\0\x08\3")
    with pytest.raises(DatasetError, match="truncated"):
        load_mnist("test", tmp_path, mirrors=[])


def test_images_and_labels_must_belong_together(tmp_path: Path) -> None:
    _put(tmp_path, labels=_LABELS[:4])
    with pytest.raises(DatasetError, match=r"\(5, 28, 28\).*\(4,\)"):
        load_mnist("test", tmp_path, mirrors=[])


def test_unknown_split() -> None:
    with pytest.raises(ValueError, match="got 'dev'"):
        load_mnist("dev")


def test_the_original_test_set(caplog: pytest.LogCaptureFixture) -> None:
    images, labels = load_mnist("test", large_data("mnist"), mirrors=[])
    assert images.shape == (10_000, 28, 28, 1)
    assert np.bincount(labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert not caplog.records
