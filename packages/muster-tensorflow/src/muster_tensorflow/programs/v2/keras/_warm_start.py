"""``tf.keras.utils.warmstart_embedding_matrix``, which Keras 3 lacks."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from muster import keras
from muster.extend import local_path
from muster_tensorflow.library.ops._eager_values import as_tensor

_Vocabulary = str | Sequence[str | bytes] | np.ndarray[Any, Any]


def warmstart_embedding_matrix(
    base_vocabulary: _Vocabulary,
    new_vocabulary: _Vocabulary,
    base_embeddings: Any,
    new_embeddings_initializer: Any = "uniform",
) -> Any:
    """Return the embeddings of a vocabulary: of words that another one has, too, its embeddings.

    Args:
        base_vocabulary: The words that have embeddings, or a file with a word in each line.
        new_vocabulary: The words that are to have them, or a file.
        base_embeddings: The embeddings, (words of the base, dimension).
        new_embeddings_initializer: What initializes those of the other words.

    Returns:
        The embeddings, (new words, dimension), of the dtype of the base's.

    Source: keras/utils/layer_utils.py, ``warmstart_embedding_matrix``.
    """
    base = {word: number for number, word in enumerate(_words(base_vocabulary))}
    words = _words(new_vocabulary)
    table = np.asarray(base_embeddings)
    initializer = keras.initializers.get(new_embeddings_initializer)
    embeddings = np.array(initializer((len(words), table.shape[1]), str(table.dtype)))
    for number, word in enumerate(words):
        if word in base:
            embeddings[number] = table[base[word]]
    return as_tensor(embeddings)


def _words(vocabulary: _Vocabulary) -> list[str]:
    """Return the words of a vocabulary.

    Raises:
        ValueError: It is neither a list or an array of them nor a file.
    """
    if isinstance(vocabulary, str):
        return Path(local_path(vocabulary)).read_text(encoding="utf-8").splitlines()
    if not isinstance(vocabulary, list | tuple | np.ndarray):
        raise ValueError(
            f"A vocabulary is a list or an array of words, or a file's path, got {type(vocabulary).__name__}."
        )
    return [word.decode() if isinstance(word, bytes) else str(word) for word in vocabulary]
