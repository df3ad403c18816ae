"""The bar of a program on a terminal, which has set up no log."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from terminals import OnTerminal, screen

CHILD = Path(__file__).with_name("progress_child.py")


def run(folder, *words, **environ):
    with OnTerminal([CHILD, folder, *words], **environ) as program:
        assert program.end() == 0, program.written
        return program


def bars(program, label):
    """Return what the bar has shown, one after the other."""
    return re.findall(rf"\r({label} .*?)\x1b\[K", program.written)


@pytest.mark.processes
def test_training_shows_step_rate_loss_and_time_left(tmp_path):
    program = run(tmp_path, "train")

    shown = bars(program, "Training")
    assert len(shown) > 4
    running = re.compile(r"Training +[━─]+ +(\d+) of 100 +[\d.]+ steps/s +loss [\d.e+-]+ +\d+:\d\d:\d\d left")
    steps = [int(found[1]) for text in shown if (found := running.fullmatch(text.rstrip()))]
    assert steps, shown
    assert steps == sorted(steps)
    assert len(program.lines()) == 2, program.written
    assert re.match(r"Training +━+ +100 of 100 +[\d.]+ steps/s +loss [\d.e+-]+ +in ", program.lines()[0])


@pytest.mark.slow
@pytest.mark.processes
def test_prints_and_log_lines_stay_whole_above_the_bar(tmp_path):
    program = run(tmp_path, "train", "print", "log")

    *lines, bar, rest = program.lines()
    expected = [[f"logged at {step + 5}", f"printed at {step + 10}"] for step in range(0, 100, 10)]
    assert lines == sum(expected, [])
    assert bar.startswith("Training")
    assert rest == ""


@pytest.mark.slow
@pytest.mark.processes
def test_an_unfinished_line_is_left_alone(tmp_path):
    program = run(tmp_path, "train", "unfinished")

    assert "this takes a while" in program.lines()
    assert re.search(r"this takes a while\r?\n", program.written)


@pytest.mark.slow
@pytest.mark.processes
def test_output_that_goes_elsewhere_stays_as_it_is(tmp_path):
    with open(tmp_path / "out.txt", "w") as file:
        program = run(tmp_path / "model", "train", "print", stdout=file)

    assert (tmp_path / "out.txt").read_text() == "".join(f"printed at {n}\n" for n in range(10, 101, 10))
    assert len(program.lines()) == 2


@pytest.mark.slow
@pytest.mark.processes
def test_evaluation_and_prediction_show_bars(tmp_path):
    program = run(tmp_path, "train", "evaluate", "predict")

    assert bars(program, "Evaluating step 100")
    assert any(re.search(r"\d+ batches", text) for text in bars(program, "Predicting"))
    lines = program.lines()
    assert re.fullmatch(r"Evaluated step 100: loss [\d.e+-]+", lines[1])
    assert lines[2:] == ["predicted ()"] * 64 + [""]


@pytest.mark.slow
@pytest.mark.processes
def test_evaluations_stand_above_the_bar_of_training(tmp_path):
    program = run(tmp_path, "both")

    *evaluated, bar, returned, _ = program.lines()
    assert [line.partition(":")[0] for line in evaluated] == [f"Evaluated step {n}" for n in (40, 80, 100)]
    assert bar.startswith("Training")
    assert returned.startswith("returned ({")


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("word", ["info", "quiet"])
def test_the_log_takes_the_place_of_the_bar_and_it_can_be_turned_off(tmp_path, word):
    program = run(tmp_path, "both", word)

    assert not bars(program, "Training")
    assert "\x1b" not in program.written
    assert ("Saving dict for global step 100" in program.written) == (word == "info")


@pytest.mark.slow
@pytest.mark.processes
def test_a_terminal_that_cannot_move_the_cursor_gets_no_bar(tmp_path):
    assert "Training" not in run(tmp_path, "train", TERM="dumb").written


@pytest.mark.slow
@pytest.mark.processes
def test_a_pipe_gets_no_bar(tmp_path):
    done = subprocess.run(
        [sys.executable, CHILD, tmp_path, "both"], capture_output=True, text=True, timeout=120
    )

    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.startswith("returned ({")


@pytest.mark.slow
@pytest.mark.processes
def test_letters_that_a_terminal_lacks_are_not_written(tmp_path):
    program = run(tmp_path, "train", PYTHONIOENCODING="ascii")

    assert re.match(r"Training +=+ +100 of 100", program.lines()[0])


@pytest.mark.processes
def test_ctrl_c_leaves_the_bar_and_says_what_is_saved(tmp_path):
    # It comes in a hook: while a program waits for input no step is to be finished, and none is spoken of.
    with OnTerminal([CHILD, tmp_path, "train", "ctrl-c"]) as program:
        assert program.end() == -2

    noted, bar, saved, rest = program.lines()
    assert noted == "Finishing this step first; once more stops at once."
    assert bar.startswith("Training")
    assert saved == "Saved step 50; run again to go on."
    assert rest == ""


@pytest.mark.slow
@pytest.mark.processes
def test_a_second_run_says_that_all_is_done_and_what_the_last_evaluation_was(tmp_path):
    first = run(tmp_path, "both")
    evaluated = next(line for line in first.lines() if line.startswith("Evaluated step 100"))

    done, last, returned, rest = run(tmp_path, "both").lines()

    assert done == (
        f"All 100 steps are done already: step 100 is saved in {tmp_path}. To train on, give a larger "
        "max_steps; to train anew, another model_dir."
    )
    assert last == evaluated.replace("Evaluated", "The last evaluation, of", 1)
    assert returned == "returned (None, None)"
    assert rest == ""


def test_a_screen_is_what_a_person_sees():
    assert screen("ab\rc\x1b[K\r\nxyz\r\x1b[Kd") == ["c", "d"]
