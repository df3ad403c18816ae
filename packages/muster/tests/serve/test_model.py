"""The model that is served: versions in a folder, without sockets."""

import contextlib
import os
import shutil
import threading

import pytest
from artefacts import save_model

from muster import RequestError
from muster._commands import place
from muster.data import TensorSpec
from muster.serve._model import Model, Version, _rows_are_free
from remote_stores import faulty_store

faulty = faulty_store


@pytest.fixture
def reports():
    return []


@pytest.fixture
def model(tmp_path, reports):
    with contextlib.closing(Model(tmp_path, "m", 4, reports.append)) as made:
        yield made


def answer(model):
    signature = model.version("m", None).signature("serving_default")
    return signature.call(x=[[1.0, 2.0]])["y"].tolist()


def test_the_newest_version_is_served(model, tmp_path):
    for name, factor in (("9", 9.0), ("0010", 10.0)):
        save_model(tmp_path / name, factor)
    for other in ("temp-11", "12.tmp", "x", "-3"):
        (tmp_path / other).mkdir()
    (tmp_path / "13").write_text("no folder")
    model.look()
    assert model.serving == 10
    assert answer(model) == [30.0]


def test_what_is_not_there_is_refused(model, tmp_path):
    with pytest.raises(RequestError, match="no version") as refused:
        model.version("m", None)
    assert refused.value.status == 404
    with pytest.raises(RequestError, match="any version"):
        model.statuses("m", None)
    save_model(tmp_path / "2", 1.0)
    model.look()
    for name, number in (("other", None), ("m", 1)):
        with pytest.raises(RequestError) as refused:
            model.version(name, number)
        assert refused.value.status == 404
        with pytest.raises(RequestError):
            model.statuses(name, number)
    with pytest.raises(RequestError, match="It has: serving_default, both") as refused:
        model.version("m", 2).signature("other")
    assert refused.value.status == 400


def test_versions_are_compiled_before_they_are_served(model, tmp_path, compilations):
    save_model(tmp_path / "1", 1.0)
    model.look()
    before = len(compilations)
    signatures = model.version("m", None).signatures
    for rows in (1, 2, 4):
        signatures["serving_default"].call(**signatures["serving_default"].call.sample_inputs(rows))
    for signature in signatures.values():
        signature.call(**signature.call.sample_inputs(1))
    assert len(compilations) == before


def test_a_version_that_takes_no_zeros_is_served(model, tmp_path, monkeypatch):
    from muster.saved_model import Signature

    def refuse(signature, rows):
        raise ValueError("none of mine")

    monkeypatch.setattr(Signature, "sample_inputs", refuse)
    save_model(tmp_path / "1", 1.0)
    model.look()
    assert answer(model) == [3.0]


def test_a_version_that_fails_to_compile_is_not_served(model, tmp_path, reports, monkeypatch):
    from muster.saved_model import Signature

    save_model(tmp_path / "1", 1.0)
    model.look()

    def fail(signature, **inputs):
        raise RuntimeError("out of\nmemory")

    save_model(tmp_path / "2", 2.0)
    with monkeypatch.context() as patched:
        patched.setattr(Signature, "__call__", fail)
        model.look()
    assert model.serving == 1
    assert reports == ["version 2 cannot be loaded: out of\\nmemory"]
    assert answer(model) == [3.0]


def test_an_older_version_takes_over_if_the_newest_is_removed(model, tmp_path):
    save_model(tmp_path / "1", 1.0)
    save_model(tmp_path / "2", 2.0)
    model.look()
    shutil.rmtree(tmp_path / "2")
    model.look()
    assert model.serving == 1
    shutil.rmtree(tmp_path / "1")
    model.look()
    assert answer(model) == [3.0]


def test_it_watches_for_newer_versions(tmp_path):
    told = threading.Event()
    reports = []

    def report(message):
        reports.append(message)
        told.set()

    save_model(tmp_path / "1", 1.0)
    with contextlib.closing(Model(tmp_path, "m", 4, report)) as model:
        model.look()
        model.watch(0.01)
        save_model(tmp_path / "2", 2.0)
        assert told.wait(60)
        assert model.serving == 2
    assert reports == ["version 2 is served now"]


def test_a_folder_that_changes_while_it_is_looked_at_is_looked_at_again(model, tmp_path, monkeypatch):
    save_model(tmp_path / "1", 1.0)
    (tmp_path / "1" / "sub").mkdir()
    scandir = os.scandir

    def removes_first(path):
        if str(path).endswith("sub"):
            os.rmdir(path)
            monkeypatch.setattr(os, "scandir", scandir)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", removes_first)
    model.look()
    assert model.serving == 1
    assert not (tmp_path / "1" / "sub").exists()


def test_examples_of_free_length_are_computed_apart():
    text, numbers = TensorSpec([None], str), TensorSpec([None, 3])
    padded, whole = TensorSpec([None, None]), TensorSpec([None, 2])
    assert _rows_are_free([numbers], [padded])
    assert _rows_are_free([text], [whole])
    assert not _rows_are_free([text], [whole, padded])
    assert not _rows_are_free([TensorSpec([1, 3])], [whole])


def test_versions_on_an_object_store(tmp_path, faulty, reports):
    def upload(name, factor):
        save_model(tmp_path / name, factor)
        for path in sorted(tmp_path.glob(f"{name}/**/*"), reverse=True):
            if path.is_file():
                faulty.put_file(str(path), f"/b/exports/{path.relative_to(tmp_path)}")

    upload("9", 9.0)
    with contextlib.closing(Model(place("faulty://b/exports"), "m", 4, reports.append)) as model:
        model.look()
        assert (model.serving, answer(model)) == (9, [27.0])
        upload("10", 10.0)
        model.look()
        assert (model.serving, answer(model)) == (10, [30.0])
    assert reports == []


def test_a_request_that_names_no_signature_gets_the_only_one_or_the_default():
    one, two = object(), object()
    assert Version(number=1, signatures={"predict": one}).signature("") is one
    assert Version(number=1, signatures={"predict": one, "serving_default": two}).signature("") is two
    with pytest.raises(RequestError, match="has no signature 'serving_default'. It has: predict, classify"):
        Version(number=1, signatures={"predict": one, "classify": two}).signature("")
