"""`Retriever`: chooses the lessons of a library for a task, the same way in learning, evaluation and applications."""

import asyncio
import logging
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from agentlearn.errors import LibraryError
from agentlearn.library.curate.similarity import LessonWords
from agentlearn.library.retrieval.embedding_cache import (
    EMBEDDINGS_FILE,
    EmbeddingCache,
    EmbeddingFile,
    MemoryEmbeddings,
    Vector,
    VectorTable,
    unit_vector,
)
from agentlearn.types.experience import DEFAULT_RETRIEVAL, Library
from agentlearn.types.ids import ExperienceId
from agentlearn.types.ranking import ChosenLessons, LessonIndex, Retrieval, capped_query, fused_depth, lesson_index
from agentlearn.types.value import Value

if TYPE_CHECKING:
    from pydantic_ai.embeddings import Embedder

AT_ONCE = 128
"""Texts of one request."""
QUERY_S = 5.0
"""Seconds that a run waits for the embedding of its query."""
LESSONS_S = 60.0
"""Seconds that one request with lessons may take."""
REST_S = 60.0
"""Seconds without a request after a failed one."""

_log = logging.getLogger("agentlearn")


class EmbedderFailed(Exception):
    """An embedder gave no vectors that can be used. Lessons are then chosen by their words alone."""


class TextEmbedder:
    """Turns texts into vectors of unit length.

    given: the name of an embedding model as pydantic-ai knows it, or an `Embedder`. The model is opened at the first
    request. Raises LibraryError for a name without a provider.
    """

    def __init__(
        self, given: "str | Embedder", *, query_s: float = QUERY_S, lessons_s: float = LESSONS_S, rest_s: float = REST_S
    ) -> None:
        if isinstance(given, str) and not all(given.partition(":")):
            raise LibraryError(
                f"{given!r} cannot be the embedder; give PROVIDER:MODEL, such as"
                " 'openai:text-embedding-3-small' or 'sentence-transformers:all-MiniLM-L6-v2'",
                code="bad_embedder",
            )
        self._embedder = _opened(given) if isinstance(given, str) else given
        self._query_s, self._lessons_s, self._rest_s = query_s, lessons_s, rest_s
        self._retry_at = 0.0
        self._reason = ""
        self._warned: set[str] = set()

    @property
    def name(self) -> str:
        """The name of the model, and the size of vectors that its settings ask for: the key of kept embeddings.

        Settings of an `Embedder` itself cannot be seen. Kept vectors of another size are made again.
        """
        model: Any = self._embedder.model
        name = model if isinstance(model, str) else f"{model.system}:{model.model_name}"
        settings: Any = getattr(model, "settings", None) or {}
        dimensions = settings.get("dimensions")
        return f"{name}/{dimensions}" if dimensions else name

    async def query(self, text: str) -> Vector:
        """The vector of a query. Raises EmbedderFailed."""
        return (await self._ask([capped_query(text)], "query", self._query_s))[0]

    async def lessons(self, texts: Sequence[str]) -> list[Vector]:
        """The vectors of lessons, in order. Raises EmbedderFailed."""
        found: list[Vector] = []
        for start in range(0, len(texts), AT_ONCE):
            found += await self._ask(texts[start : start + AT_ONCE], "document", self._lessons_s)
        return found

    def fail(self, reason: str) -> EmbedderFailed:
        """Return the error, after one warning for each reason; send no request for a while."""
        self._retry_at = time.monotonic() + self._rest_s
        self._reason = reason
        if reason not in self._warned and len(self._warned) < 16:
            self._warned.add(reason)
            _log.warning(
                "embedder.failed embedder=%r reason=%s lessons are chosen by their words alone", self.name, reason
            )
        return EmbedderFailed(reason)

    async def _ask(self, texts: Sequence[str], kind: Any, limit_s: float) -> list[Vector]:
        if time.monotonic() < self._retry_at:
            raise EmbedderFailed(self._reason)
        try:
            async with asyncio.timeout(limit_s):
                reply = await self._embedder.embed(list(texts), input_type=kind)
            vectors = [unit_vector(one) for one in reply.embeddings]
        except TimeoutError:
            raise self.fail(f"no reply within {limit_s:g} s") from None
        except Exception as error:  # an application never fails because of its embedder
            raise self.fail(f"{type(error).__name__}: {error}"[:300]) from error
        if len(vectors) != len(texts):
            raise self.fail(f"it was given {len(texts)} texts and returned {len(vectors)} vectors")
        if len({len(one) for one in vectors}) > 1:
            raise self.fail("its vectors differ in size")
        return vectors


def _opened(name: str) -> "Embedder":
    from pydantic_ai.embeddings import Embedder  # imported here: most programs configure no embedder

    return Embedder(name)


_MOST_TABLES = 16
"""Number of versions whose vectors are kept in memory."""


class Retriever:
    """Chooses the lessons to show.

    retrieval: how many, and which. embedder: in place of the one that `retrieval` names, an `Embedder` of pydantic-ai
    or a `TextEmbedder`. cache: where embeddings are kept; None: in memory.
    """

    def __init__(
        self,
        retrieval: Retrieval = DEFAULT_RETRIEVAL,
        *,
        embedder: "TextEmbedder | Embedder | str | None" = None,
        cache: EmbeddingCache | None = None,
    ) -> None:
        self.retrieval = retrieval
        given = embedder or retrieval.embedder
        self._embedder = given if given is None or isinstance(given, TextEmbedder) else TextEmbedder(given)
        self._cache = cache or MemoryEmbeddings()
        self._tables: dict[int, tuple[LessonIndex, VectorTable]] = {}
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    @classmethod
    def in_store(cls, retrieval: Retrieval, store: Path) -> "Retriever":
        """Return a retriever that keeps its embeddings in the directory of a store."""
        return cls(retrieval, cache=EmbeddingFile(store / EMBEDDINGS_FILE) if retrieval.embedder else None)

    @property
    def embedder_name(self) -> str | None:
        """The name of the embedder; None where lessons are chosen by their words alone."""
        return None if self._embedder is None else self._embedder.name

    @property
    def identity(self) -> object:
        """Equal for two retrievers that choose the same lessons."""
        return (self.retrieval, self.embedder_name)

    def all_of(self, library: Library) -> ChosenLessons:
        """Return all lessons that pass the filters, however many they are: what is shown where no task is known."""
        return lesson_index(library.experiences, self.retrieval).all()

    async def choose(self, library: Library, query: str, *, without: Collection[ExperienceId] = ()) -> ChosenLessons:
        """Return the lessons to show for a task. It never fails: without an embedder that works, words decide alone.

        query: the task in words. without: lessons that are not to be chosen.
        """
        index = lesson_index(library.experiences, self.retrieval)
        if self._embedder is None or index.shows_all(self.retrieval) or not query.strip():
            return index.choose(query, self.retrieval, without=without)
        try:
            nearest = await self._nearest(index, query, self._embedder, fused_depth(self.retrieval) + len(without))
        except EmbedderFailed as failed:
            return index.choose(query, self.retrieval, without=without, note=f"without embeddings: {failed}")
        return index.choose(query, self.retrieval, nearest=nearest, without=without)

    def choose_by_words(self, library: Library, query: str, *, without: Collection[ExperienceId] = ()) -> ChosenLessons:
        """Return the lessons to show for a task by their words alone, for programs that cannot wait."""
        return lesson_index(library.experiences, self.retrieval).choose(query, self.retrieval, without=without)

    async def prepare(self, library: Library) -> bool:
        """Embed the lessons of a library now, before the first task needs it. Return whether embeddings are ready."""
        index = lesson_index(library.experiences, self.retrieval)
        if self._embedder is None:
            return False
        try:
            await self._table(index, self._embedder)
        except EmbedderFailed:
            return False
        return True

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_tables": {}, "_locks": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _locks=WeakKeyDictionary())

    async def _nearest(self, index: LessonIndex, query: str, embedder: TextEmbedder, depth: int) -> Sequence[int]:
        table = await self._table(index, embedder)
        vector = await embedder.query(query)
        if len(vector) != table.dimensions:  # the kept vectors are of an older model of this name
            del self._tables[id(index)]
            table = await self._table(index, embedder, fresh=True)
        if len(vector) != table.dimensions:
            raise embedder.fail(f"its vectors have {len(vector)} numbers, and those of the lessons {table.dimensions}")
        return table.nearest(vector, depth)

    async def _table(self, index: LessonIndex, embedder: TextEmbedder, *, fresh: bool = False) -> VectorTable:
        """The vectors of the lessons of a version, embedded once. fresh: use no kept embeddings."""
        async with self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            if (held := self._tables.get(id(index))) is not None and held[0] is index:
                return held[1]
            lessons = [one.lesson for one in index.lessons]
            table = VectorTable(await embedded(lessons, embedder, self._cache, fresh=fresh))
            self._tables[id(index)] = (index, table)
            while len(self._tables) > _MOST_TABLES:
                del self._tables[next(iter(self._tables))]
            return table


async def embedded(
    texts: Sequence[str], embedder: TextEmbedder, cache: EmbeddingCache, *, fresh: bool = False
) -> list[Vector]:
    """Return the vectors of lessons, of which those that are not kept yet are made and kept. Raises EmbedderFailed."""
    found = {} if fresh else dict(await asyncio.to_thread(cache.read, embedder.name, texts))
    missing = [text for text in dict.fromkeys(texts) if text not in found]
    if missing:
        made = dict(zip(missing, await embedder.lessons(missing), strict=True))
        found |= made
        await asyncio.to_thread(cache.keep, embedder.name, made)
    if len({len(one) for one in found.values()}) <= 1:
        return [found[text] for text in texts]
    if not fresh:  # a model of this name had another size before
        return await embedded(texts, embedder, cache, fresh=True)
    raise embedder.fail("its vectors differ in size")


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
