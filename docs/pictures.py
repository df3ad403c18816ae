"""Makes the pictures of README from a real run: ``python docs/pictures.py``, from the folder of the clone.

``docs/run.svg`` is the table of ``muster run`` as it stood halfway, and what the evaluator had said by then;
``docs/curve.svg`` the loss and the accuracy that the event files of the run hold.
"""

import io
import math
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from unittest import mock
from xml.sax.saxutils import escape

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from muster.__main__ import main
from muster.cluster import Task
from muster.launch import _view
from muster.launch._view import JobView, LiveView, Row
from muster.summary import read_events

HERE = Path(__file__).parent
STEPS = 900
WORDS = ["run", "--workers", "2", "--evaluator", "examples/digits.py"]
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
CARD, TEXT, FAINT, LOSS, ACCURACY = "#1b2130", "#d8dee9", "#7f8aa3", "#e0a458", "#7fc8a9"
# Colours on the card, in the order of a terminal: normal, then bright.
THEME = TerminalTheme(
    (27, 33, 48),
    (216, 222, 233),
    [(27, 33, 48), (224, 108, 117), (127, 200, 169), (224, 164, 88), (97, 160, 225), (198, 120, 221)]
    + [(86, 196, 210), (216, 222, 233)],
)
# A page that shows the picture may load nothing from elsewhere: no fonts, and no styles of a page.
TERMINAL = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<title>LABEL</title>
<style>
.{unique_id}-matrix {{ font: {char_height}px FONT; line-height: {line_height}px; }}
.{unique_id}-title {{ font: 16px FONT; fill: FAINT; }}
{styles}
</style>
<defs>{lines}</defs>
<rect width="{width}" height="{height}" rx="8" fill="CARD"/>
<text class="{unique_id}-title" x="18" y="28">COMMAND</text>
<g transform="translate({terminal_x}, {terminal_y})">{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


class KeptView(JobView):
    """Keeps what was shown.

    Args:
        tasks: All tasks.
    """

    wants_rows = True

    def __init__(self, tasks: Sequence[Task]) -> None:
        super().__init__(tasks)
        self.tasks = tasks
        self.said: list[tuple[Task, str]] = []
        self.tables: list[tuple[int, Sequence[Row]]] = []  # how many lines had been said, and the rows

    def lines(self, task: Task, lines: Sequence[str]) -> None:
        """Keep lines of a task's output."""
        self.said += [(task, line) for line in lines]

    def show(self, rows: Sequence[Row], log_dir: Path | None) -> None:
        """Keep the rows."""
        self.tables.append((len(self.said), list(rows)))

    def halfway(self) -> tuple[list[tuple[Task, str]], Sequence[Row]]:
        """Return the lines and the rows when the workers were at work, and training about half done."""

        def distance(table: tuple[int, Sequence[Row]]) -> float:
            rows = table[1]
            steps = [row.progress.step for row in rows if row.progress and row.progress.steps_per_sec]
            return abs(steps[0] - 0.6 * STEPS) if len(steps) == 2 and rows[0].answers else STEPS

        count, rows = min(self.tables, key=distance)
        return self.said[:count], rows


def terminal(view: KeptView, command: str) -> str:
    """Return the table as a terminal shows it."""
    lines, rows = view.halfway()
    console = Console(
        record=True,
        file=io.StringIO(),
        force_terminal=True,
        color_system="standard",
        width=92,
        highlight=False,
    )
    width = max(len(str(task)) for task in view.tasks)
    for task, line in [each for each in lines if "evaluated" in each[1]][-2:]:
        console.print(f"[yellow]{task!s:{width}} |[/yellow] {line}")
    console.print(LiveView(view.tasks, Console(file=io.StringIO()))._table(rows, None))
    label = f"The table of muster run: {len(rows)} tasks with their steps, speed and loss"
    named = {"LABEL": label, "FONT": FONT, "FAINT": FAINT, "CARD": CARD, "COMMAND": f"$ {escape(command)}"}
    form = re.sub("|".join(named), lambda found: named[found[0]], TERMINAL)
    svg = console.export_svg(theme=THEME, code_format=form, unique_id="run", font_aspect_ratio=0.6)
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def scalars(folder: Path, tag: str) -> list[tuple[int, float]]:
    """Return the steps and values of a scalar in a folder's event files."""
    found = [(event.step, event.value) for event in read_events(folder) if event.tag == tag]
    return sorted(dict(found).items())


def line(points: Sequence[tuple[int, float]], colour: str, marks: bool) -> str:
    """Return one line of the chart; the values are heights, from 0 at its foot to 1 at its head."""
    placed = [(60 + 640 * step / STEPS, 250 - 200 * height) for step, height in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in placed)
    drawn = f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>'
    return drawn + (dots if marks else "")


def curve(losses: Sequence[tuple[int, float]], accuracies: Sequence[tuple[int, float]]) -> str:
    """Return a chart of the training's loss and of the evaluations' accuracy after the first checkpoint."""
    trained = [(step, value) for step, value in accuracies if step]
    least = math.floor(100 * min(value for _, value in trained)) / 100
    decades = range(math.floor(math.log10(min(value for _, value in losses))), 2)
    low, high = decades[0], decades[-1]
    texts = [
        (60, 30, LOSS, "start", "loss, training"),
        (700, 30, ACCURACY, "end", "accuracy on held-out images"),
        *((50, 255 - 200 * (i - low) / (high - low), LOSS, "end", f"{10.0**i:g}") for i in decades),
        (710, 55, ACCURACY, "start", "100 %"),
        (710, 255, ACCURACY, "start", f"{100 * least:.0f} %"),
        *((60 + 640 * i / 4, 278, FAINT, "middle", str(STEPS * i // 4)) for i in range(5)),
        (380, 300, FAINT, "middle", "step"),
    ]
    shown = "\n".join(
        f'<text x="{x:g}" y="{y:g}" fill="{colour}" text-anchor="{anchor}">{text}</text>'
        for x, y, colour, anchor, text in texts
    )
    label = f"Over {STEPS} steps the loss falls from {losses[0][1]:.2f}, the accuracy reaches"
    heights = [(step, (math.log10(value) - low) / (high - low)) for step, value in losses]
    return f"""\
<svg viewBox="0 0 780 312" xmlns="http://www.w3.org/2000/svg" role="img" font-family="sans-serif">
<title>{label} {trained[-1][1]:.1%}</title>
<rect width="780" height="312" rx="8" fill="{CARD}"/>
<path d="M60 50 V250 H700 V50" fill="none" stroke="{FAINT}"/>
{line(heights, LOSS, marks=False)}
{line([(step, (value - least) / (1 - least)) for step, value in trained], ACCURACY, marks=True)}
<g font-size="14">
{shown}
</g>
</svg>
"""


def run() -> None:
    """Train, and write the pictures."""
    views: list[KeptView] = []

    def kept(tasks: Sequence[Task]) -> KeptView:
        views.append(KeptView(tasks))
        return views[-1]

    with tempfile.TemporaryDirectory() as folder, mock.patch.object(_view, "make_view", kept):
        steps = ["--max-steps", str(STEPS)]
        if code := main([*WORDS, "--model-dir", folder, *steps]):
            raise SystemExit(code)
        (HERE / "run.svg").write_text(terminal(views[0], " ".join(["muster", *WORDS, *steps])))
        losses, accuracies = scalars(Path(folder), "loss"), scalars(Path(folder, "eval"), "accuracy")
        (HERE / "curve.svg").write_text(curve(losses, accuracies))


if __name__ == "__main__":
    run()
