"""`Retriever`: chooses the lessons of a library for a task, the same way in learning, evaluation and applications."""

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from agentlearn.library.retrieval.embedding_cache import (
    EMBEDDINGS_FILE,
    EmbeddingCache,
    EmbeddingFile,
    MemoryEmbeddings,
)
from agentlearn.library.retrieval.text_embedder import EmbedderFailed, TextEmbedder
from agentlearn.library.retrieval.vectors import Vector, VectorTable
from agentlearn.types.experience import DEFAULT_RETRIEVAL, Library
from agentlearn.types.ids import ExperienceId
from agentlearn.types.ranking import ChosenLessons, LessonIndex, Retrieval, fused_depth, lesson_index

if TYPE_CHECKING:
    from pydantic_ai.embeddings import Embedder

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
