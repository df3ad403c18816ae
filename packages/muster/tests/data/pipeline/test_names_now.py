"""Functions of datasets keep what their names stand for when the dataset is made, as TensorFlow's do."""
# ruff: noqa: B023

import functools
import os
import pickle
import types

from muster._pickle import dumps
from muster.data import Dataset
from muster.data.pipeline._names_now import with_names_now


def elements(dataset):
    return [str(element) for element in dataset]


def test_each_dataset_of_a_loop_keeps_its_value():
    made = []
    for i in range(1, 3):
        data = Dataset.range(3)
        made += [
            data.map(lambda x: x + i),
            data.map(lambda x: f"{x} and {i}"),
            data.filter(lambda x: x == i),
            data.flat_map(lambda x: Dataset.range(x, x + i)),
            data.interleave(lambda x: Dataset.range(x, x + i), cycle_length=1),
            data.take_while(lambda x: x < i),
            data.scan(0, lambda state, x: (state, x * i)),
            data.map(functools.partial(lambda one, x: one * x + i, 2)),
        ]
    assert [" ".join(elements(each)) for each in made] == [
        *("1 2 3", "0 and 1 1 and 1 2 and 1", "1", "0 1 2", "0 1 2", "0", "0 1 2", "1 3 5"),
        *("2 3 4", "0 and 2 1 and 2 2 and 2", "2", "0 1 1 2 2 3", "0 1 1 2 2 3", "0 1", "0 2 4", "2 4 6"),
    ]


def test_names_of_functions_and_modules_are_those_of_now():
    module = types.ModuleType("a_program")
    source = """
from muster.data import Dataset
found, count = [], 0

def counted(x):
    global count
    count += 1
    return str(x)

for i in range(2):
    def shifted(x):
        return str(x + i + later())
    found.append(Dataset.range(2).map(shifted))
    found.append(Dataset.range(2).map(lambda x: [str(x + i) for _ in range(2)]))

def later():
    return 10

found.append(Dataset.range(2).map(counted))

def of_loop():
    for j in range(2):
        found.append(Dataset.range(2).map(lambda x: x + j))

of_loop()
"""
    exec(source, vars(module))
    assert list(map(elements, module.found)) == [
        ["10", "11"],
        ["['0' '0']", "['1' '1']"],
        ["11", "12"],
        ["['1' '1']", "['2' '2']"],
        ["0", "1"],
        ["0", "1"],
        ["1", "2"],
    ]
    assert module.count > 0


def test_what_a_function_assigns_and_what_is_not_there_yet():
    seen, total = [], 0

    def summed(x):
        nonlocal total
        total += int(x)
        seen.append(int(x))
        return str(total + offset)

    made = Dataset.range(3).map(summed)
    offset = 10
    assert list(made) == ["10", "11", "13"]
    assert (seen, total) == ([0, 1, 2], 3)


def test_a_function_stays_what_it_was():
    def of(x: int, *, by: int = 2) -> int:
        """Multiply."""
        return x * by

    of.mark = "kept"
    now = with_names_now(of)
    assert (now(3), now.__name__, now.__doc__, now.mark) == (6, "of", "Multiply.", "kept")
    assert now.__qualname__ == of.__qualname__
    assert now.__annotations__ == of.__annotations__
    assert with_names_now(elements) is elements  # other processes import it
    assert pickle.loads(pickle.dumps(with_names_now(elements))) is elements
    assert with_names_now(str.upper) is str.upper


def test_another_process_gets_the_values_of_now():
    namespace = {"os": os, "i": 1, "helper": lambda x: x + 1}
    function = eval("lambda x: (os.path.basename('a/b'), helper(x) + i)", namespace)
    now = with_names_now(function)
    namespace["i"] = 5
    assert pickle.loads(dumps(now))(1) == ("b", 3)
