"""Keras layers that Keras does not have."""

from muster.layers._hash_embedding import HashEmbedding as HashEmbedding
