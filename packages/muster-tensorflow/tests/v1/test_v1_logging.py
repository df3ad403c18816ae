"""``tf.compat.v1.logging``."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest

import muster_tensorflow.compat.v1 as tf


def test_set_verbosity_lets_the_log_be_seen(capsys: pytest.CaptureFixture[str]) -> None:
    logger = tf.get_logger()
    level, handlers, propagate = logger.level, logger.handlers[:], logger.propagate
    logger.propagate = False  # pytest has handlers at the root
    try:
        tf.logging.set_verbosity(tf.logging.INFO)
        tf.logging.set_verbosity(tf.logging.INFO)
        tf.logging.info("step %d", 3)
        tf.logging.debug("not shown")
        assert tf.logging.get_verbosity() == logging.INFO
        assert capsys.readouterr().err == "INFO:muster:step 3\n"
        logger.handlers[:] = []
        tf.logging._get_logger().setLevel(tf.logging.INFO)
        tf.logging.info("step %d", 4)
        assert capsys.readouterr().err == "INFO:muster:step 4\n"
    finally:
        logger.setLevel(level)
        logger.handlers[:], logger.propagate = handlers, propagate


def test_the_logger_of_tensorflow_hears_what_muster_says(tmp_path: Path) -> None:
    """Programs of Estimators write their log into a file in this way."""
    logger, path = logging.getLogger("tensorflow"), tmp_path / "main.log"
    assert tf.get_logger() is logger
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    try:
        for level_of_program in (logging.INFO, logging.ERROR):
            logger.setLevel(level_of_program)
            for name in ("muster.estimator.loop", "muster_tensorflow.programs.v1"):
                logging.getLogger(name).info("%s says", name)
            tf.logging.info("the program says")
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)
        handler.close()
    assert path.read_text().splitlines() == [
        "INFO muster.estimator.loop says",
        "INFO muster_tensorflow.programs.v1 says",
        "INFO the program says",
    ]


@pytest.mark.processes
def test_the_logger_of_tensorflow_has_a_handler() -> None:
    """Programs give ``logging.getLogger("tensorflow").handlers[0]`` a format, or remove it."""
    code = """
import logging
import muster_tensorflow as tf
logger = logging.getLogger("tensorflow")
(handler,) = logger.handlers
logging.getLogger("muster").warning("plain")
handler.setFormatter(logging.Formatter("<%(message)s>"))
logger.setLevel(logging.INFO)
tf.get_logger().info("formatted")
logging.getLogger("muster").info("formatted, too")
logging.basicConfig(format="root: %(message)s")
logger.info("once")
logger.removeHandler(logger.handlers[0])
logger.info("at the root")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr.splitlines() == [
        "plain",
        "<formatted>",
        "<formatted, too>",
        "root: once",
        "root: at the root",
    ]
