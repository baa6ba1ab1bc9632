"""Which lessons of a library an agent is shown: chosen for a task by words and by embeddings.

Words need no other package (`agentlearn.types.ranking`). Embeddings come from pydantic-ai's `Embedder`, only where one
is configured. They are kept in memory or in a file of the store, under the embedder and a hash of the text.
"""

import asyncio
import hashlib
import logging
import sqlite3
import threading
import time
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from heapq import nsmallest
from itertools import combinations
from math import isfinite, sqrt
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

from agentlearn.errors import LibraryError
from agentlearn.text.files import own
from agentlearn.types.experience import DEFAULT_RETRIEVAL, Library
from agentlearn.types.ids import ExperienceId
from agentlearn.types.ranking import ChosenLessons, LessonIndex, Retrieval, capped_query, lesson_index
from agentlearn.types.value import Value

if TYPE_CHECKING:
    from pydantic_ai.embeddings import Embedder

Vector: TypeAlias = "array[float]"
_DIGITS = 6
"""Digits to which similarities are rounded, so that equal texts are equally near."""
MAX_DIMENSIONS = 65_536


def unit_vector(numbers: Sequence[float]) -> Vector:
    """The vector with length 1. Raises ValueError where it has no numbers, or numbers that cannot be used."""
    if not 0 < len(numbers) <= MAX_DIMENSIONS:
        raise ValueError(f"a vector has {len(numbers)} numbers")
    if not all(isfinite(one) for one in numbers):
        raise ValueError("a vector holds something that is not a finite number")
    largest = max(map(abs, numbers))
    if largest == 0:
        raise ValueError("a vector holds only zeros")
    scaled = [one / largest for one in numbers]  # the square of a very large number is infinite
    length = sqrt(sum(map(mul, scaled, scaled)))
    return array("f", [one / length for one in scaled])


class VectorTable:
    """Vectors of unit length and of one size, in order."""

    def __init__(self, vectors: Sequence[Vector]) -> None:
        self._vectors = vectors
        self.dimensions = len(vectors[0]) if vectors else 0

    def nearest(self, query: Vector, depth: int) -> list[int]:
        """The places of the vectors that are nearest to the query, best first; of equal ones the first comes first."""
        if self._matrix is None:
            near = {place: round(sum(map(mul, one, query)), _DIGITS) for place, one in enumerate(self._vectors)}
            return nsmallest(depth, near, key=lambda place: (-near[place], place))
        import numpy as np

        # One thread: the threads of `matrix @ query` wait for each other where the machine is busy.
        scores = np.round(np.einsum("ij,j->i", self._matrix, np.frombuffer(query, dtype=np.float32)), _DIGITS)
        places = np.arange(len(scores))
        if depth < len(scores):
            lowest = np.partition(scores, len(scores) - depth)[len(scores) - depth]
            places = (scores >= lowest).nonzero()[0]
        order = np.lexsort((places, -scores[places]))[:depth]
        return [int(place) for place in places[order]]

    def near_pairs(self, similarity: float) -> Iterator[tuple[int, int, float]]:
        """Each two vectors whose cosine similarity is at least this, with their similarity, in order."""
        for first, one in enumerate(self._vectors):
            if self._matrix is not None:
                found = self._matrix[first + 1 :] @ self._matrix[first]
                near = [(int(at), float(found[at])) for at in (found >= similarity - 1e-6).nonzero()[0]]
            else:
                values = [sum(map(mul, one, other)) for other in self._vectors[first + 1 :]]
                near = [(at, value) for at, value in enumerate(values) if value >= similarity - 1e-6]
            yield from ((first, first + 1 + at, round(value, _DIGITS)) for at, value in near)

    @cached_property
    def _matrix(self) -> Any:
        """The vectors as a matrix; None where numpy is not installed."""
        try:
            import numpy as np
        except ImportError:
            return None
        return np.array(self._vectors, dtype=np.float32).reshape(len(self._vectors), self.dimensions)


_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS embedding"
    " (embedder TEXT NOT NULL, text_hash BLOB NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (embedder, text_hash))"
    " WITHOUT ROWID"
)
_AT_ONCE = 500
"""Rows of one query."""
_WAIT_S = 5.0
EMBEDDINGS_FILE = "embeddings.sqlite"
"""Name of the file in the directory of a store."""

_log = logging.getLogger("agentlearn")


class EmbeddingFile:
    """Embeddings in the table `embedding` of a SQLite file, which several processes may use at the same time.

    It holds no text. Where there is no file, or it cannot be used (which is one warning), they are kept in memory.
    """

    def __init__(self, file: Path | None = None) -> None:
        self.file = file
        self._memory: dict[tuple[str, bytes], Vector] = {}
        self._warned = False
        self._lock = threading.Lock()

    def read(self, embedder: str, texts: Sequence[str]) -> Mapping[str, Vector]:
        """The vectors of those texts that are kept."""
        hashes = {text: self._text_hash(text) for text in texts}
        missing = [key for key in hashes.values() if (embedder, key) not in self._memory]
        self._use(
            lambda file: self._memory.update(((embedder, key), one) for key, one in self._rows(file, embedder, missing))
        )
        found = ((text, self._memory.get((embedder, key))) for text, key in hashes.items())
        return {text: vector for text, vector in found if vector is not None}

    def keep(self, embedder: str, vectors: Mapping[str, Vector]) -> None:
        """Keep the vectors of these texts."""
        made = {(embedder, self._text_hash(text)): vector for text, vector in vectors.items()}
        self._memory |= made
        rows = [(*key, vector.tobytes()) for key, vector in made.items()]
        self._use(lambda file: file.executemany("INSERT OR REPLACE INTO embedding VALUES (?, ?, ?)", rows))

    @staticmethod
    def _text_hash(text: str) -> bytes:
        """The key of a text."""
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

    @staticmethod
    def _rows(database: sqlite3.Connection, embedder: str, keys: Sequence[bytes]) -> Iterable[tuple[bytes, Vector]]:
        for start in range(0, len(keys), _AT_ONCE):
            part = keys[start : start + _AT_ONCE]
            marks = ", ".join("?" * len(part))
            query = f"SELECT text_hash, vector FROM embedding WHERE embedder = ? AND text_hash IN ({marks})"  # noqa: S608  # only question marks
            for key, blob in database.execute(query, (embedder, *part)):
                vector = array("f")
                vector.frombytes(blob)  # raises ValueError where the row is damaged
                yield key, vector

    def __reduce__(self) -> tuple[object, ...]:
        return (EmbeddingFile, (self.file,))

    def _use(self, use: Callable[[sqlite3.Connection], object]) -> None:
        """Do something with the file, if there is one. What fails on it is one warning."""
        if self.file is None:
            return
        try:
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = own(self.file, self.file.parent)
            with self._lock, closing(sqlite3.connect(path, timeout=_WAIT_S)) as database, database:
                database.execute(_SCHEMA)
                use(database)
        except (sqlite3.Error, OSError, ValueError) as error:
            if not self._warned:
                self._warned = True
                _log.warning("embeddings.not_kept file=%r reason=%s", str(self.file), error)


AT_ONCE = 128
"""Texts of one request."""
QUERY_S = 5.0
"""Seconds that a run waits for the embedding of its query."""
LESSONS_S = 60.0
"""Seconds that one request with lessons may take."""
REST_S = 60.0
"""Seconds without a request after a failed one."""


class _EmbedderFailed(Exception):
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
                " 'openai:text-embedding-3-small' or 'sentence-transformers:all-MiniLM-L6-v2'"
            )
        if isinstance(given, str):
            from pydantic_ai.embeddings import Embedder  # imported here: most programs configure no embedder

            given = Embedder(given)
        self._embedder = given
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
        """The vector of a query. Raises _EmbedderFailed."""
        return (await self._ask([capped_query(text)], "query", self._query_s))[0]

    async def lessons(self, texts: Sequence[str]) -> list[Vector]:
        """The vectors of lessons, in order. Raises _EmbedderFailed."""
        found: list[Vector] = []
        for start in range(0, len(texts), AT_ONCE):
            found += await self._ask(texts[start : start + AT_ONCE], "document", self._lessons_s)
        return found

    async def kept_lessons(self, texts: Sequence[str], cache: EmbeddingFile, *, fresh: bool = False) -> list[Vector]:
        """Return the vectors of lessons; those that are not kept yet are made and kept. Raises _EmbedderFailed."""
        found = {} if fresh else dict(await asyncio.to_thread(cache.read, self.name, texts))
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        if missing:
            made = dict(zip(missing, await self.lessons(missing), strict=True))
            found |= made
            await asyncio.to_thread(cache.keep, self.name, made)
        if len({len(one) for one in found.values()}) <= 1:
            return [found[text] for text in texts]
        if not fresh:  # a model of this name had another size before
            return await self.kept_lessons(texts, cache, fresh=True)
        raise self.fail("its vectors differ in size")

    def fail(self, reason: str) -> _EmbedderFailed:
        """Return the error, after one warning for each reason; send no request for a while."""
        self._retry_at = time.monotonic() + self._rest_s
        self._reason = reason
        if reason not in self._warned and len(self._warned) < 16:
            self._warned.add(reason)
            _log.warning(
                "embedder.failed embedder=%r reason=%s lessons are chosen by their words alone", self.name, reason
            )
        return _EmbedderFailed(reason)

    async def _ask(self, texts: Sequence[str], kind: Any, limit_s: float) -> list[Vector]:
        if time.monotonic() < self._retry_at:
            raise _EmbedderFailed(self._reason)
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
        cache: EmbeddingFile | None = None,
    ) -> None:
        self.retrieval = retrieval
        given = embedder or retrieval.embedder
        self._embedder = given if given is None or isinstance(given, TextEmbedder) else TextEmbedder(given)
        self._cache = cache or EmbeddingFile()
        self._tables: dict[int, tuple[LessonIndex, VectorTable]] = {}
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    @classmethod
    def in_store(cls, retrieval: Retrieval, store: Path) -> "Retriever":
        """Return a retriever that keeps its embeddings in the directory of a store."""
        return cls(retrieval, cache=EmbeddingFile(store / EMBEDDINGS_FILE))

    @property
    def embedder_name(self) -> str | None:
        """The name of the embedder; None where lessons are chosen by their words alone."""
        return None if self._embedder is None else self._embedder.name

    @property
    def identity(self) -> object:
        """Equal for two retrievers that choose the same lessons."""
        return (self.retrieval, self.embedder_name)

    def all_of(self, library: Library) -> ChosenLessons:
        """Return all lessons that pass the filters: what is shown where no task is known, and of a document."""
        return lesson_index(library.experiences, self.retrieval).all()

    async def choose(self, library: Library, query: str, *, without: Collection[ExperienceId] = ()) -> ChosenLessons:
        """Return the lessons to show for a task. It never fails: without an embedder that works, words decide alone.

        query: the task in words. without: lessons that are not to be chosen.
        """
        if library.document:
            return self.all_of(library)
        index = lesson_index(library.experiences, self.retrieval)
        if self._embedder is None or index.shows_all(self.retrieval) or not query.strip():
            return index.choose(query, self.retrieval, without=without)
        try:
            nearest = await self._nearest(index, query, self._embedder, self.retrieval.fused_depth + len(without))
        except _EmbedderFailed as failed:
            return index.choose(query, self.retrieval, without=without, note=f"without embeddings: {failed}")
        return index.choose(query, self.retrieval, nearest=nearest, without=without)

    def choose_by_words(self, library: Library, query: str, *, without: Collection[ExperienceId] = ()) -> ChosenLessons:
        """Return the lessons to show for a task by their words alone, for programs that cannot wait."""
        if library.document:
            return self.all_of(library)
        return lesson_index(library.experiences, self.retrieval).choose(query, self.retrieval, without=without)

    async def prepare(self, library: Library) -> bool:
        """Embed the lessons of a library now, before the first task needs it. Return whether embeddings are ready."""
        try:
            if self._embedder is not None:
                await self._table(lesson_index(library.experiences, self.retrieval), self._embedder)
        except _EmbedderFailed:
            return False
        return self._embedder is not None

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
            table = VectorTable(await embedder.kept_lessons(lessons, self._cache, fresh=fresh))
            self._tables[id(index)] = (index, table)
            while len(self._tables) > _MOST_TABLES:
                del self._tables[next(iter(self._tables))]
            return table


_NEAR_BY_WORDS = 0.8
"""Share of the words of two lessons that they have in common, from which on they are near-duplicates."""
_NEAR_BY_EMBEDDING = 0.9
"""Cosine similarity from which on two lessons are near-duplicates."""


class _NearPair(Value):
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
    cache: EmbeddingFile | None = None,
) -> tuple[_NearPair, ...]:
    """Return the pairs of lessons that say nearly the same, in library order.

    embedder: compares their meaning; None, or one that fails: their words are compared. similarity: the smallest one to
    report, default 0.9 for embeddings and 0.8 for words.
    """
    lessons = library.experiences
    by, found = "words", None
    if embedder is not None:
        try:
            vectors = await embedder.kept_lessons([one.lesson for one in lessons], cache or EmbeddingFile())
        except _EmbedderFailed:
            pass
        else:
            by = embedder.name
            found = VectorTable(vectors).near_pairs(_NEAR_BY_EMBEDDING if similarity is None else similarity)
    if found is None:
        from agentlearn.library.curate.lesson_text import LessonWords  # here: agents that read lessons compare none

        least, words = (
            _NEAR_BY_WORDS if similarity is None else similarity,
            [LessonWords.of(one.lesson) for one in lessons],
        )
        pairs = combinations(range(len(words)), 2)
        near = ((one, other) for one, other in pairs if words[one].is_near(words[other], least))
        found = ((one, other, words[one].similarity_to(words[other])) for one, other in near)
    return tuple(
        _NearPair(first=lessons[one].id, second=lessons[other].id, similarity=value, by=by)
        for one, other, value in found
    )
