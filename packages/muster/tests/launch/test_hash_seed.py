"""Python's sets of text have one order in all tasks of a job."""

from muster.launch._plan import with_hash_seed


def test_each_job_has_a_seed_unless_one_is_set() -> None:
    seeds = {with_hash_seed({"PATH": "/bin"})["PYTHONHASHSEED"] for _ in range(3)}
    assert len(seeds) == 3
    assert all(0 <= int(seed) < 2**32 for seed in seeds)
    assert with_hash_seed({"PYTHONHASHSEED": "7"}) == {"PYTHONHASHSEED": "7"}
