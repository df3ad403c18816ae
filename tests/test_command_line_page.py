"""The page of the commands says what ``--help`` says."""

import subprocess
import sys

import pytest

import command_line_page
from muster.__main__ import main


@pytest.mark.processes
def test_the_page_is_up_to_date():
    # In a process of its own: TensorFlow's names come along, which change JAX and Keras.
    made = subprocess.run(
        [sys.executable, command_line_page.__file__, "--print"], capture_output=True, check=True, text=True
    )
    assert command_line_page.PAGE.read_text() == made.stdout, (
        "run: python packages/muster/tests/command_line_page.py"
    )


@pytest.mark.parametrize(
    "command",
    [
        "run", "status", "logs", "stop", "stacks", "where",
        "manifest kubernetes", "manifest jobset", "manifest trainjob", "manifest tfjob", "manifest slurm",
        "manifest dockerfile", "keys", "serve", "inspect", "convert", "saved-model show",
    ],
)  # fmt: skip
def test_each_command_has_its_part(command, capsys):
    assert f"\n## muster {command}\n" in command_line_page.PAGE.read_text()
    with pytest.raises(SystemExit, match="0"):
        main([*command.split(), "--help"])
    assert f"usage: muster {command} " in capsys.readouterr().out
