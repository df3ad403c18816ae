"""Lines of tasks keep their colours, and nothing else that a terminal obeys."""

from pathlib import Path

from muster.launch._lines import LineReader, last_lines


def test_only_colours_reach_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes("\x1b[31mred\x1b[0m \x1b]0;title\x07\x1b[2J\x9b3J\tend\n".encode())
    assert last_lines(path, 0, 1) == ["\x1b[31mred\x1b[0m ]0;title[2J3J\tend"]
    reader = LineReader(path, 0)
    assert reader.read() == last_lines(path, 0, 1)
    reader.close()
