"""``tf.train.Coordinator`` with threads of the program."""

import sys
import threading

import pytest

import muster_tensorflow as tf


def threads_of(function, count=3):
    threads = [threading.Thread(target=function, name=f"thread{i}") for i in range(count)]
    for thread in threads:
        thread.start()
    return threads


def test_threads_stop_together():
    coordinator, counted = tf.train.Coordinator(), []

    def work():
        while not coordinator.should_stop():
            counted.append(1)
            if len(counted) > 10:
                coordinator.request_stop()

    threads = threads_of(work)
    coordinator.register_thread(threads.pop())
    coordinator.join(threads)
    assert coordinator.joined
    assert len(counted) > 10
    assert coordinator.wait_for_stop(0)
    coordinator.clear_stop()
    assert not coordinator.should_stop()


def test_threads_that_end_by_themselves():
    coordinator = tf.train.Coordinator()
    coordinator.join(threads_of(lambda: None))
    assert not coordinator.should_stop()


def test_the_first_error_is_raised():
    coordinator = tf.train.Coordinator()

    def work():
        with coordinator.stop_on_exception():
            raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        coordinator.join(threads_of(work))


def test_the_end_of_data_is_no_error():
    coordinator = tf.train.Coordinator()
    try:
        raise tf.errors.OutOfRangeError("the end")
    except tf.errors.OutOfRangeError:
        coordinator.request_stop(sys.exc_info())
    coordinator.join([])
    assert coordinator.should_stop()
    own = tf.train.Coordinator(clean_stop_exception_types=(KeyError,))
    own.request_stop(tf.errors.OutOfRangeError("the end"))
    with pytest.raises(tf.errors.OutOfRangeError):
        own.join()


def test_threads_that_go_on():
    coordinator, end = tf.train.Coordinator(), threading.Event()
    threads = threads_of(end.wait, 1)
    coordinator.request_stop()
    with pytest.raises(RuntimeError, match="still running: thread0"):
        coordinator.join(threads, stop_grace_period_secs=0)
    coordinator.join(threads, stop_grace_period_secs=0, ignore_live_threads=True)
    end.set()
    threads[0].join()
