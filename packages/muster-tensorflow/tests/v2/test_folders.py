"""Datasets of folders, of images in files, and of sequences of an array, by Keras' names."""

import importlib
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import muster_tensorflow as tf
from muster_tensorflow.programs.v2.files._image_files import read_image

pytest.importorskip("PIL", reason="images are read by Pillow, which is not installed")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of ten images of 4 x 6 in each of two classes; all pixels of an image are its number."""
    for number in range(20):
        name = tmp_path / "images" / ("cats" if number < 10 else "dogs")
        name.mkdir(parents=True, exist_ok=True)
        (name / f"{number:02}.png").write_bytes(tf.io.encode_png(np.full((4, 6, 3), number, np.uint8)))
    (tmp_path / "images" / "cats" / "notes.txt").write_text("no image")
    return tmp_path / "images"


def _numbers(dataset: Any) -> list[int]:
    return [int(image.mean()) for images, _ in dataset for image in images]


def test_images_in_folders_are_batches_with_labels(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tf.keras.utils.image_dataset_from_directory(
        folder, image_size=(8, 12), batch_size=8, shuffle=False
    )
    images, labels = next(iter(data))
    assert (images.shape, images.dtype, labels.dtype) == ((8, 8, 12, 3), np.float32, np.int32)
    assert data.class_names == ["cats", "dogs"]
    assert [Path(path).name for path in data.file_paths[:2]] == ["00.png", "01.png"]
    assert _numbers(data) == list(range(20))
    assert [int(label) for _, labels in data for label in labels] == [0] * 10 + [1] * 10
    assert len(data) == 3
    assert capsys.readouterr().out == "Found 20 files belonging to 2 classes.\n"


def test_each_pass_is_shuffled_and_a_seed_fixes_the_order(folder: Path) -> None:
    def make() -> Any:
        return tf.keras.preprocessing.image_dataset_from_directory(folder, image_size=(4, 6), seed=3)

    data = make()
    first, second = _numbers(data), _numbers(data)
    assert sorted(first) == sorted(second) == list(range(20))
    assert first != second
    assert _numbers(make()) == first


def test_without_a_seed_only_the_passes_are_shuffled(folder: Path) -> None:
    first, second = (tf.keras.utils.image_dataset_from_directory(folder, image_size=(4, 6)) for _ in range(2))
    assert first.file_paths == second.file_paths  # so that workers, of one order of files, share them
    assert _numbers(first) != list(range(20))


def test_the_seed_of_a_program_fixes_the_order(folder: Path) -> None:
    orders = []
    for _ in range(2):
        tf.keras.utils.set_random_seed(3)
        orders.append(_numbers(tf.keras.utils.image_dataset_from_directory(folder, image_size=(4, 6))))
    assert orders[0] == orders[1] != list(range(20))


def test_splits_share_no_file(folder: Path) -> None:
    arguments: Any = {"validation_split": 0.25, "seed": 1, "image_size": (4, 6), "verbose": False}
    make = tf.keras.utils.image_dataset_from_directory
    train, validation = make(folder, subset="both", **arguments)
    assert (len(train.file_paths), len(validation.file_paths)) == (15, 5)
    assert sorted(_numbers(train) + _numbers(validation)) == list(range(20))
    assert make(folder, subset="training", **arguments).file_paths == train.file_paths
    assert make(folder, subset="validation", **arguments).file_paths == validation.file_paths


@pytest.mark.parametrize(
    ("mode", "shape", "dtype"),
    [("categorical", (4, 2), np.float32), ("binary", (4, 1), np.float32), ("int", (4,), np.int32)],
)
def test_labels(folder: Path, mode: str, shape: Any, dtype: Any) -> None:
    data = tf.keras.utils.image_dataset_from_directory(folder, label_mode=mode, batch_size=4)
    _, labels = next(iter(data))
    assert (labels.shape, labels.dtype) == (shape, dtype)


def test_other_labels_and_single_images(folder: Path) -> None:
    make = tf.keras.utils.image_dataset_from_directory
    image = next(iter(make(folder, labels=None, color_mode="grayscale", batch_size=None, image_size=(4, 6))))
    assert image.shape == (4, 6, 1)
    given = make(folder, labels=[5] * 19 + [7], shuffle=False, batch_size=20)
    assert next(iter(given))[1].tolist() == [5] * 19 + [7]
    assert given.class_names == ["5", "7"]
    swapped = make(folder, class_names=["dogs", "cats"], shuffle=False, batch_size=20, image_size=(4, 6))
    assert _numbers(swapped)[0] == 10
    first = make(folder, data_format="channels_first", image_size=(4, 6))
    assert next(iter(first))[0].shape == (20, 3, 4, 6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"label_mode": "some"}, "label_mode is"),
        ({"labels": "some"}, "labels is 'inferred'"),
        ({"labels": [1]}, "1 numbers for 20 files"),
        ({"class_names": ["birds"]}, "the folders of .* are"),
        ({"color_mode": "cmyk"}, "color_mode is one of"),
        ({"subset": "training"}, "belong together"),
        ({"validation_split": 0.5, "subset": "none", "seed": 1}, "subset is"),
        ({"validation_split": 1.5, "subset": "both", "seed": 1}, "between 0 and 1"),
        ({"validation_split": 0.5, "subset": "both"}, "give a seed"),
        ({"validation_split": 0.01, "subset": "both", "seed": 1}, "leaves one part empty"),
        ({"crop_to_aspect_ratio": True, "pad_to_aspect_ratio": True}, "not both"),
        ({"labels": list(range(20)), "label_mode": "binary"}, "for two classes"),
    ],
)
def test_wrong_arguments_are_told(folder: Path, arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tf.keras.utils.image_dataset_from_directory(folder, **arguments)


def test_a_folder_without_images_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no files that end in .bmp"):
        tf.keras.utils.image_dataset_from_directory(tmp_path, labels=None)


def test_texts_in_folders(tmp_path: Path) -> None:
    for name, text in (("neg", "bad film"), ("pos", "good film")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.txt").write_text(text)
    data = tf.keras.utils.text_dataset_from_directory(tmp_path, shuffle=False, max_length=6)
    texts, labels = next(iter(data))
    assert texts.tolist() == ["bad fi", "good f"]
    assert labels.tolist() == [0, 1]


@pytest.mark.parametrize("interpolation", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [(3, 3), (10, 4), (7, 15)])
def test_images_are_resized_as_keras_does(tmp_path: Path, interpolation: str, size: Any) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (6, 9, 3), dtype=np.uint8)
    (tmp_path / "a.png").write_bytes(tf.io.encode_png(pixels))
    wanted = keras.ops.image.resize(pixels.astype(np.float32), size, interpolation, antialias=False)
    found = read_image(tmp_path / "a.png", 3, size, interpolation, None)
    np.testing.assert_allclose(found, np.asarray(wanted), atol=1e-3)


def test_images_can_keep_their_proportions(tmp_path: Path) -> None:
    pixels = np.full((4, 8, 3), 200, np.uint8)
    pixels[:, :2] = 0
    (tmp_path / "a.png").write_bytes(tf.io.encode_png(pixels))
    assert (read_image(tmp_path / "a.png", 3, (4, 4), "bilinear", "crop") == 200).all()
    padded = read_image(tmp_path / "a.png", 1, (8, 8), "bilinear", "pad")
    assert padded[:2].max() == padded[6:].max() == 0
    assert (padded[2:6, 2:] == 200).all()
    assert read_image(tmp_path / "a.png", 3, (2, 3), "bicubic", None).shape == (2, 3, 3)
    with pytest.raises(ValueError, match="interpolation is bilinear"):
        read_image(tmp_path / "a.png", 3, (2, 3), "cubic", None)


def test_images_are_decoded(tmp_path: Path) -> None:
    grey = np.arange(12, dtype=np.uint8).reshape(3, 4, 1)
    contents = tf.io.encode_png(grey)
    assert (tf.io.decode_png(contents) == grey).all()
    assert (tf.image.decode_png(contents, channels=3) == np.repeat(grey, 3, -1)).all()
    assert tf.io.decode_png(contents, channels=4).shape == (3, 4, 4)
    assert tf.io.decode_image(contents, dtype=tf.float32).max() == np.float32(11 / 255)
    jpeg = tf.io.encode_jpeg(np.full((8, 8, 3), 100, np.uint8))
    assert abs(tf.io.decode_jpeg(jpeg).astype(int) - 100).max() < 3
    assert tf.io.decode_jpeg(jpeg, ratio=2).shape == (4, 4, 3)
    flat = tf.io.encode_jpeg(np.zeros((8, 16, 1), np.uint8))
    assert tf.image.extract_jpeg_shape(flat).numpy().tolist() == [8, 16, 1]
    assert tf.io.extract_jpeg_shape(jpeg, output_type=tf.int64).dtype == np.int64
    with pytest.raises(ValueError, match="Invalid JPEG data"):
        tf.io.extract_jpeg_shape(contents)
    assert tf.io.decode_png(contents, dtype=tf.uint16).max() == 11 * 257
    with pytest.raises(ValueError, match="no image that Pillow can read"):
        tf.io.decode_png(b"text")
    with pytest.raises(TypeError, match="from the bytes of its file"):
        tf.io.decode_png("a.png")
    with pytest.raises(ValueError, match="channels is"):
        tf.io.decode_png(contents, channels=5)
    with pytest.raises(ValueError, match="uint8 of shape"):
        tf.io.encode_png(np.zeros((2, 2)))


def test_images_are_read_in_a_map(folder: Path) -> None:
    def read(path: Any) -> Any:
        return tf.cast(tf.io.decode_png(tf.io.read_file(path), channels=3), tf.float32) / 255

    data = tf.data.Dataset.list_files(str(folder / "*/*.png"), shuffle=False).map(read).batch(20)
    assert next(iter(data)).shape == (20, 4, 6, 3)


def _keras_sequences(arguments: dict[str, Any]) -> Any:
    pytest.importorskip("grain", reason="Keras makes them by Grain, which is not installed")
    return keras.utils.timeseries_dataset_from_array(format="grain", **arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"sequence_length": 5},
        {"sequence_length": 4, "sequence_stride": 3, "sampling_rate": 2},
        {"sequence_length": 3, "start_index": 2, "end_index": 15},
        {"sequence_length": 10, "batch_size": 3},
    ],
)
@pytest.mark.parametrize("with_targets", [False, True])
def test_sequences_are_those_of_keras(arguments: dict[str, Any], with_targets: bool) -> None:
    rows = np.arange(40, dtype=np.float32).reshape(20, 2)
    targets = np.arange(100, 120 if "start_index" in arguments else 112) if with_targets else None
    arguments = {"data": rows, "targets": targets, **arguments}
    found = list(tf.keras.utils.timeseries_dataset_from_array(**arguments))
    wanted = list(_keras_sequences(arguments))
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        pairs = zip(ours, theirs, strict=True) if with_targets else [(ours, theirs)]
        for one, other in pairs:
            assert np.array_equal(one, other)


def test_sequences_are_shuffled_by_a_seed() -> None:
    def starts(seed: int) -> list[int]:
        data = tf.keras.preprocessing.timeseries_dataset_from_array(
            np.arange(50), None, 5, shuffle=True, seed=seed, batch_size=None
        )
        return [int(sequence[0]) for sequence in data]

    assert starts(1) == starts(1) != starts(2)
    assert sorted(starts(1)) == list(range(46))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sequence_length": 30}, "No sequence of 30 rows"),
        ({"sequence_length": 3, "sampling_rate": 0}, "sampling_rate is between 0 and 20"),
        ({"sequence_length": 3, "sequence_stride": 20}, "sequence_stride is between"),
        ({"sequence_length": 3, "start_index": 9, "end_index": 5}, "start_index and end_index"),
    ],
)
def test_wrong_sequences_are_told(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tf.keras.utils.timeseries_dataset_from_array(np.arange(20), None, **arguments)


def test_names_of_keras_2_are_there() -> None:
    tokenizer = tf.keras.preprocessing.text.Tokenizer(num_words=10, oov_token="?")
    tokenizer.fit_on_texts(["a b c a", "b a"])
    assert tokenizer.texts_to_sequences(["a z b"]) == [[2, 1, 3]]
    module = importlib.import_module("muster_tensorflow.keras.preprocessing.text")
    assert module.Tokenizer is tf.keras.preprocessing.text.Tokenizer
    generator = tf.keras.preprocessing.image.ImageDataGenerator(rescale=0.5)
    images, labels = next(generator.flow(np.ones((4, 2, 2, 3)), np.arange(4), batch_size=4))
    assert images.max() == 0.5
    assert generator.flow(np.ones((4, 2, 2, 3)), np.arange(4), batch_size=2).next()[0].shape == (2, 2, 2, 3)
    assert sorted(labels) == list(range(4))
    assert tf.keras.preprocessing.sequence.pad_sequences([[1], [2, 3]]).tolist() == [[0, 1], [2, 3]]
