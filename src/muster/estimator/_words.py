"""Text among predictions: a step computes which words they are, and the host writes them out."""

from typing import Any

import jax
import numpy as np


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


def written_out(predictions: Any) -> Any:
    """Return predictions as NumPy arrays, in their structure: words as text, and other arrays as they are."""

    def array_of(leaf: Any) -> np.ndarray[Any, Any]:
        return leaf.text() if isinstance(leaf, Words) else np.array(leaf)

    return jax.tree.map(array_of, predictions, is_leaf=lambda leaf: isinstance(leaf, Words))
