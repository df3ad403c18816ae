"""``tf.io.gfile``."""

import codecs

import pytest

import muster_tensorflow as tf


def test_gfile(tmp_path):
    gfile, deep = tf.io.gfile, tmp_path / "a" / "b"
    gfile.makedirs(deep)
    gfile.makedirs(deep)
    one, two = gfile.join(deep, "one.txt"), gfile.join(deep, "two.txt")
    with gfile.GFile(one, "w") as file:
        file.write("ä")
    with gfile.GFile(one, "rb") as file:
        assert file.read() == "ä".encode()
    gfile.copy(one, two)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        gfile.copy(one, two)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        gfile.rename(one, two)
    gfile.rename(one, two, overwrite=True)
    assert not gfile.exists(one)
    assert gfile.glob([deep / "*.txt", deep / "none"]) == [two]
    assert gfile.listdir(deep) == ["two.txt"]
    assert [files for _, _, files in gfile.walk(tmp_path)] == [[], [], ["two.txt"]]
    gfile.remove(two)
    assert gfile.isdir(deep)
    gfile.rmtree(tmp_path / "a")
    assert not gfile.exists(tmp_path / "a")


def test_files_to_write_take_text_and_bytes(tmp_path):
    for mode in ("w", "wb"):
        with tf.io.gfile.GFile(tmp_path / mode, mode) as file:
            file.write("ä\r\n")
            file.write("ö\n".encode())
        assert (tmp_path / mode).read_bytes() == "ä\r\nö\n".encode()
    with tf.io.gfile.GFile(tmp_path / "image", "w") as file:
        file.write("a")
        file.write(b"\x89PNG\r\n")
        file.write("b")
    assert (tmp_path / "image").read_bytes() == b"a\x89PNG\r\nb"
    with tf.io.gfile.GFile(tmp_path / "w") as file:
        assert file.readlines() == ["ä\r\n", "ö\n"]
    with codecs.getwriter("utf-8")(tf.io.gfile.GFile(tmp_path / "coded", "w")) as file:
        file.write("ä")
    assert (tmp_path / "coded").read_bytes() == "ä".encode()
