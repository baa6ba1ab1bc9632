"""An embedder of pydantic-ai with a time limit. Its replies are checked, and it is left alone after a failure."""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agentlearn.errors import LibraryError
from agentlearn.library.retrieval.vectors import Vector, unit_vector
from agentlearn.types.ranking import capped_query

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
