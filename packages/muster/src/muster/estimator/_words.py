"""Text outputs of steps: steps compute indices of words, and the host looks up the words."""

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


def written_out(predictions: Any) -> Any:
    """Return predictions as NumPy arrays, in their structure: words as text, and other arrays as they are."""

    def array_of(leaf: Any) -> np.ndarray[Any, Any]:
        return leaf.text() if isinstance(leaf, Words) else np.array(leaf)

    return jax.tree.map(array_of, predictions, is_leaf=lambda leaf: isinstance(leaf, Words))
