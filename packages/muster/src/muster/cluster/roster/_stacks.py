"""Capture the stacks of this process's threads, for tasks that wait for it."""

import sys
import threading
import traceback

_MAX_FRAMES = 15  # the innermost ones


def thread_stacks() -> str:
    """Return where each thread but the calling one is, the main thread first, as in a traceback."""
    frames = sys._current_frames()
    texts = []
    for thread in sorted(threading.enumerate(), key=lambda each: each is not threading.main_thread()):
        frame = frames.get(thread.ident or 0)
        if frame is not None and thread is not threading.current_thread():
            lines = traceback.format_stack(frame)[-_MAX_FRAMES:]
            texts.append(f"Thread {thread.name!r}, innermost call last:\n{''.join(lines)}")
    return "".join(texts)
