"""The page of the commands says what ``--help`` says."""

import pytest

import command_line_page
from muster.__main__ import main


def test_the_page_is_up_to_date():
    assert command_line_page.PAGE.read_text() == command_line_page.page(), (
        "run: python tests/command_line_page.py"
    )


@pytest.mark.parametrize(
    "command",
    [
        "run", "manifest kubernetes", "manifest trainjob", "manifest tfjob", "manifest slurm",
        "manifest dockerfile", "keys", "serve", "inspect", "convert", "saved-model show",
    ],
)  # fmt: skip
def test_each_command_has_its_part(command, capsys):
    assert f"\n## muster {command}\n" in command_line_page.page()
    with pytest.raises(SystemExit, match="0"):
        main([*command.split(), "--help"])
    assert f"usage: muster {command} " in capsys.readouterr().out
