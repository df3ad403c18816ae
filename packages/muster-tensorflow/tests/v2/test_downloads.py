"""tf.keras.utils.get_file: where it puts what it unpacks."""

import shutil
from pathlib import Path

import muster_tensorflow as tf


def test_an_archive_is_unpacked_beside_itself(tmp_path: Path) -> None:
    flowers = tmp_path / "source" / "flowers"
    for kind in ("roses", "tulips"):
        (flowers / kind).mkdir(parents=True)
        (flowers / kind / "1.txt").write_text(kind)
    source = tmp_path / "source"
    packed = Path(shutil.make_archive(str(tmp_path / "packed"), "zip", source, "flowers"))
    path = tf.keras.utils.get_file("flowers.zip", packed.as_uri(), extract=True, cache_dir=str(tmp_path))
    assert path == str(tmp_path / "datasets" / "flowers.zip")
    assert (Path(path).parent / "flowers" / "roses" / "1.txt").read_text() == "roses"

    packed = Path(shutil.make_archive(str(tmp_path / "packed"), "gztar", source, "flowers"))
    path = tf.keras.utils.get_file(
        "flowers", packed.as_uri(), untar=True, cache_dir=str(tmp_path), cache_subdir="tar"
    )
    assert path == str(tmp_path / "tar" / "flowers")
    assert sorted(each.name for each in Path(path).iterdir()) == ["roses", "tulips"]
    assert (tmp_path / "tar" / "flowers.tar.gz").exists()


def test_a_name_may_be_a_path(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("1,2")
    (tmp_path / "here").mkdir()
    name = str(tmp_path / "here" / "y.csv")
    assert tf.keras.utils.get_file(name, (tmp_path / "x.csv").as_uri()) == name
    assert Path(name).read_text() == "1,2"
