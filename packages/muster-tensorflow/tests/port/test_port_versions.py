"""``muster port`` takes all files of a program for the same TensorFlow."""

import re
from pathlib import Path

import pytest

from muster.__main__ import main
from muster_tensorflow.port._lookup import says_which
from muster_tensorflow.port._program import Use

Captured = pytest.CaptureFixture[str]
ONE = "import tensorflow as tf\ntf.app.run()\ntf.logging.info('')\n"
TWO = "import tensorflow as tf\ntf.metrics.Mean()\ntf.TensorSpec\n"
CANNED = "import tensorflow as tf\nmodel = tf.estimator.DNNLinearCombinedClassifier\n"


def ported(folder: Path, files: dict[str, str], capsys: Captured, *named: str) -> tuple[dict[str, int], str]:
    """The TensorFlow of each file, and what was printed; files are named in the order of their texts."""
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    assert main(["port", *(str(folder / name) for name in named or files)]) in (0, 1)
    shown = capsys.readouterr().out.replace(f"{folder}/", "")
    return {
        name: int(one) for name, one in re.findall(r"^(\S+): names: .* of TensorFlow (\d)", shown, re.M)
    }, shown


def test_some_names_say_which_and_others_do_not() -> None:
    names = {"tf.app.run": True, "tf.metrics.Mean": False, "tf.estimator.DNNClassifier": None}
    assert {name: says_which([Use(1, name)]) for name in names} == names


@pytest.mark.parametrize("says", [ONE, TWO])
def test_files_whose_names_are_in_both_follow_the_others(says: str, tmp_path: Path, capsys: Captured) -> None:
    found, shown = ported(tmp_path, {"model.py": CANNED, "task.py": says}, capsys)
    one = 1 if says == ONE else 2
    assert found == {"model.py": one, "task.py": one}
    assert "as task.py is; uses" in next(line for line in shown.splitlines() if line.startswith("model.py"))
    assert shown.count("as task.py is") == 1


@pytest.mark.parametrize(
    ("files", "one"),
    [
        ({"trainer/__init__.py": "", "trainer/model.py": CANNED, "trainer/task.py": ONE}, 1),
        ({"trainer/model.py": CANNED, "trainer/task.py": f"{ONE}import model\n"}, 1),
        ({"trainer/model.py": CANNED, "trainer/task.py": f"{ONE}from . import model\n"}, 1),
        ({"trainer/model.py": f"{CANNED}from flags import x\n", "trainer/flags.py": ONE}, 1),
        ({"trainer/model.py": CANNED, "trainer/other_program.py": ONE}, 2),
        ({"trainer/model.py": CANNED, "trainer/python2.py": "print 'x'\n"}, 2),
    ],
)
def test_files_of_the_program_that_are_not_named_count(
    files: dict[str, str], one: int, tmp_path: Path, capsys: Captured
) -> None:
    found, shown = ported(tmp_path, files, capsys, "trainer/model.py")
    assert found == {"trainer/model.py": one}
    assert ("Name all files of its program" in shown) == (one == 2)


def test_a_program_with_names_of_both_is_taken_for_one_and_that_is_said(
    tmp_path: Path, capsys: Captured
) -> None:
    files = {"task.py": f"{ONE}import model, other\n", "model.py": CANNED, "other.py": TWO}
    found, shown = ported(tmp_path, files, capsys)
    assert len(set(found.values())) == 1
    said = f"of one program: all of it is taken for TensorFlow {found['model.py']}, where less is missing."
    assert shown.count(said) == 1
    assert shown.startswith("task.py has names of TensorFlow 1, and other.py of TensorFlow 2")


def test_programs_of_their_own_stay_apart(tmp_path: Path, capsys: Captured) -> None:
    found, shown = ported(tmp_path, {"a.py": ONE, "b.py": TWO, "c.py": "import tensorflow\n"}, capsys)
    assert found == {"a.py": 1, "b.py": 2, "c.py": 2}
    assert shown.startswith("c.py: the other files are for TensorFlow 1 and 2, and nothing here says which")


def test_imports_of_all_files_are_written_alike(tmp_path: Path, capsys: Captured) -> None:
    files = {"model.py": CANNED, "task.py": f"{ONE}from model import model\n"}
    ported(tmp_path, files, capsys)
    main(["port", "--write", *(str(tmp_path / name) for name in files)])
    for name in files:
        assert (tmp_path / name).read_text().startswith("import muster_tensorflow.compat.v1 as tf\n")
