"""The index of ids beside a dictionary, with ids that fall on the same cells too."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.ps.tables._hash_index import HashIndex
from muster.ps.tables._ids import mixed, owners

# Ids of few cells, so that they collide, and any others.
CROWDED = [int(each) for each in np.arange(200_000)[mixed(np.arange(200_000)) % 256 < 4][:600]]
some_ids = st.sampled_from(CROWDED) | st.integers(-(2**63), 2**63 - 1)
changes = st.lists(st.tuples(st.booleans(), st.lists(some_ids, unique=True, max_size=40)), max_size=12)


class Indexed:
    """An index, and the ids by place."""

    def __init__(self):
        self.keys = np.zeros(1, np.int64)
        self.index = HashIndex(lambda: self.keys)
        self.places = {}

    def add(self, ids):
        ids = [each for each in ids if each not in self.places]
        places = len(self.keys) + np.arange(len(ids))
        self.keys = np.concatenate([self.keys, np.array(ids, np.int64)])
        self.index.add(np.array(ids, np.int64), places)
        self.places.update(zip(ids, places.tolist(), strict=True))

    def remove(self, ids):
        ids = [each for each in ids if each in self.places]
        self.index.remove(np.array(ids, np.int64))
        for each in ids:
            del self.places[each]

    def check(self, ids):
        assert self.index.find(np.array(ids, np.int64)).tolist() == [
            self.places.get(each, -1) for each in ids
        ]
        assert len(self.index) == len(self.places)


@given(changes)
def test_places_are_those_of_a_dictionary(changes):
    here = Indexed()
    seen = {0, CROWDED[0]}
    for adds, ids in changes:
        (here.add if adds else here.remove)(ids)
        seen |= set(ids)
        here.check(sorted(seen))


def test_it_grows_and_forgets():
    here = Indexed()
    here.add(CROWDED)
    here.add(range(10**6, 10**6 + 5000))
    here.remove(CROWDED)
    here.check(CROWDED + list(range(10**6, 10**6 + 5000)))
    sizes = set()
    for turn in range(50):  # as many are added as are removed, again and again
        ids = range(turn * 1000, turn * 1000 + 1000)
        here.add(ids)
        here.remove(ids)
        sizes.add(here.index.nbytes)
    assert max(sizes) <= 4 * 4 * 5000 * 2
    here.check(range(10**6, 10**6 + 5000))


@pytest.mark.parametrize("servers", [1, 2, 3, 7])
def test_each_server_gets_its_share_of_ids(servers):
    for ids in (np.arange(10_000), np.arange(10_000) << 40, -np.arange(10_000)):
        counts = np.bincount(owners(ids, servers), minlength=servers)
        assert len(counts) == servers
        assert counts.min() > 0.9 * 10_000 / servers


def test_the_server_of_an_id_never_changes():
    ids = np.array([0, 1, -1, 2**40, -(2**63), 2**63 - 1])
    assert owners(ids, 5).tolist() == [2, 0, 2, 2, 4, 0]
