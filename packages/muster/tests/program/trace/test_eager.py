"""``run_functions_eagerly``: a setting of the whole process."""

from concurrent.futures import ThreadPoolExecutor

from muster.program import run_functions_eagerly
from muster.program.trace._eager import functions_run_eagerly


def test_running_eagerly_is_set_for_all_threads() -> None:
    with ThreadPoolExecutor(1) as other:
        assert not other.submit(functions_run_eagerly).result()
        other.submit(run_functions_eagerly, True).result()
        try:
            assert functions_run_eagerly()
        finally:
            run_functions_eagerly(False)
        assert not other.submit(functions_run_eagerly).result()
