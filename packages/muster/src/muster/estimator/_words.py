"""Text outputs of steps: steps compute indices of words, and the host looks up the words."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster.data import Placeholder


@jax.tree_util.register_pytree_node_class
class Words:
    """Words of a vocabulary, by their numbers: a step can return them among its predictions.

    Args:
        ids: Integers of any shape, from 0 to one less than the number of words.
        vocabulary: The words.
    """

    def __init__(self, ids: Any, vocabulary: tuple[str, ...]) -> None:
        self.ids = ids
        self.vocabulary = vocabulary

    @classmethod
    def of(cls, text: np.ndarray[Any, Any]) -> "Words":
        """Return known text, ``str`` or UTF-8, as words by their numbers."""
        words, ids = np.unique(_decoded(text), return_inverse=True)
        return cls(jnp.asarray(ids.reshape(text.shape), "int32"), tuple(words.tolist()))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the numbers."""
        return tuple(self.ids.shape)

    def text(self) -> np.ndarray[Any, Any]:
        """Return the words as UTF-8: ``bytes`` objects, in an array of the shape of the numbers."""
        words = np.array([word.encode() for word in self.vocabulary], object)
        text: np.ndarray[Any, Any] = words[np.asarray(self.ids)]
        return text

    def tree_flatten(self) -> tuple[tuple[Any], tuple[str, ...]]:
        """Return the numbers, and the words that they stand for."""
        return (self.ids,), self.vocabulary

    @classmethod
    def tree_unflatten(cls, vocabulary: tuple[str, ...], children: tuple[Any]) -> "Words":
        """Put together what `tree_flatten` took apart."""
        return cls(children[0], vocabulary)


def _decoded(text: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    words = [word.decode() if isinstance(word, bytes) else str(word) for word in text.ravel().tolist()]
    return np.array(words).reshape(text.shape)


class WordNumbers(Placeholder):
    """The numbers of words in a vocabulary, which the host of an exported model will make of text.

    Args:
        text: The text.
        vocabulary: The words; the first has the number 0.
    """

    __slots__ = ("_text", "_vocabulary")

    def __init__(self, text: Placeholder, vocabulary: tuple[str, ...]) -> None:
        super().__init__(np.int32, text.shape, text.name)
        self._text, self._vocabulary = text, vocabulary

    @property
    def text(self) -> Placeholder:
        """The text."""
        return self._text

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The words; the first has the number 0."""
        return self._vocabulary


@jax.tree_util.register_static
@dataclass(frozen=True)
class Passed:
    """Stands among predictions for a value of the batch that the host has, such as the text of a key.

    Attributes:
        key: Its name.
    """

    key: str


def written_out(predictions: Any, passed: Mapping[str, Any] = MappingProxyType({})) -> Any:
    """Return predictions as NumPy arrays, in their structure: words as text, and other arrays as they are.

    Args:
        predictions: Arrays, `Words` and `Passed`.
        passed: The values that are passed on, by their names.

    Raises:
        TypeError: One of these is ragged or sparse.
    """

    def array_of(leaf: Any) -> np.ndarray[Any, Any]:
        if isinstance(leaf, Passed):
            return as_output(passed[leaf.key], leaf.key)
        return leaf.text() if isinstance(leaf, Words) else np.array(leaf)

    return jax.tree.map(array_of, predictions, is_leaf=lambda leaf: isinstance(leaf, Words | Passed))


def as_output(value: Any, key: str) -> np.ndarray[Any, Any]:
    """Return a value of the host as an output: text as ``bytes`` objects, numbers as they are.

    Raises:
        TypeError: It is ragged or sparse; the message names it by ``key``.
    """
    if not isinstance(value, np.ndarray | np.generic):
        if hasattr(value, "to_tensor") or hasattr(value, "dense_shape"):
            raise TypeError(
                f"{key} is ragged or sparse, and predictions are arrays. Make it dense first, by to_tensor "
                "or tf.sparse.to_dense."
            )
        value = np.asarray(value)
    if value.dtype.kind != "U":
        return np.array(value)
    words: np.ndarray[Any, Any] = np.empty(value.shape, object)
    words.reshape(-1)[:] = [word.encode("utf-8", "surrogateescape") for word in np.ravel(value).tolist()]
    return words
