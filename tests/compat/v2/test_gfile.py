"""``tf.io.gfile``."""

import pytest

import muster.compat.tensorflow as tf


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
