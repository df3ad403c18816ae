"""``tf.compat.v1.logging``."""

import logging

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
