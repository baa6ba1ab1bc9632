"""Retrieval: which lessons of a large library an agent is shown, by words and by embeddings.

Words need no other package (`agentlearn.types.ranking`). Embeddings come from pydantic-ai's `Embedder`, and only where
one is configured.
"""

from agentlearn.library.retrieval.embedding_cache import EmbeddingCache, EmbeddingFile, MemoryEmbeddings
from agentlearn.library.retrieval.retriever import EmbedderFailed, NearPair, Retriever, TextEmbedder, near_duplicates
from agentlearn.types.ranking import ChosenLessons, RankedLesson, Retrieval

__all__ = [
    "ChosenLessons",
    "EmbedderFailed",
    "EmbeddingCache",
    "EmbeddingFile",
    "MemoryEmbeddings",
    "NearPair",
    "RankedLesson",
    "Retrieval",
    "Retriever",
    "TextEmbedder",
    "near_duplicates",
]
