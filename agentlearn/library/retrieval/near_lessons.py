"""Lessons of a library that say nearly the same: by embeddings where an embedder is given, else by their words."""

from collections.abc import Iterator

from agentlearn.library.curate.similarity import LessonWords
from agentlearn.library.retrieval.embedding_cache import EmbeddingCache, MemoryEmbeddings
from agentlearn.library.retrieval.retriever import embedded
from agentlearn.library.retrieval.text_embedder import EmbedderFailed, TextEmbedder
from agentlearn.library.retrieval.vectors import VectorTable
from agentlearn.types.experience import Library
from agentlearn.types.ids import ExperienceId
from agentlearn.types.value import Value

NEAR_BY_WORDS = 0.8
"""Share of the words of two lessons that they have in common, from which on they are near-duplicates."""
NEAR_BY_EMBEDDING = 0.9
"""Cosine similarity from which on two lessons are near-duplicates."""


class NearPair(Value):
    """Two lessons that say nearly the same."""

    first: ExperienceId
    """The one that comes first in the library."""
    second: ExperienceId
    similarity: float
    by: str
    """`words`, or the name of the embedder."""


async def near_duplicates(
    library: Library,
    embedder: TextEmbedder | None = None,
    *,
    similarity: float | None = None,
    cache: EmbeddingCache | None = None,
) -> tuple[NearPair, ...]:
    """Return the pairs of lessons that say nearly the same, in library order.

    embedder: compares their meaning; None, or one that fails: their words are compared. similarity: the smallest one to
    report, default 0.9 for embeddings and 0.8 for words.
    """
    lessons = library.experiences
    if embedder is not None:
        try:
            vectors = await embedded([one.lesson for one in lessons], embedder, cache or MemoryEmbeddings())
        except EmbedderFailed:
            pass
        else:
            pairs = VectorTable(vectors).near_pairs(NEAR_BY_EMBEDDING if similarity is None else similarity)
            return tuple(_pair(library, first, second, near, embedder.name) for first, second, near in pairs)
    least = NEAR_BY_WORDS if similarity is None else similarity
    return tuple(_pair(library, first, second, near, "words") for first, second, near in _by_words(library, least))


def _by_words(library: Library, least: float) -> Iterator[tuple[int, int, float]]:
    words = [LessonWords.of(one.lesson) for one in library.experiences]
    for first, one in enumerate(words):
        for second in range(first + 1, len(words)):
            if one.is_near(words[second], least):
                yield first, second, one.similarity_to(words[second])


def _pair(library: Library, first: int, second: int, similarity: float, by: str) -> NearPair:
    lessons = library.experiences
    return NearPair(first=lessons[first].id, second=lessons[second].id, similarity=similarity, by=by)
