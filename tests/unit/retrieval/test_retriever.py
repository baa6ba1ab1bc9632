"""Embeddings help to choose lessons. Whatever an embedder does, an agent gets lessons."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Embedder
from pydantic_ai.embeddings import EmbeddingResult, TestEmbeddingModel

from agentlearn.library.retrieval import EmbeddingFile, Retrieval, Retriever, TextEmbedder, near_duplicates
from agentlearn.types.experience import Library

ANIMALS = {"dog": 0, "hound": 0, "cat": 1, "kitten": 1, "car": 2, "lorry": 2}
LIBRARY = Library.of([*(f"General remark {n}." for n in range(30)), "Feed the hound.", "Park the lorry."])
FEW = Retrieval(max_shown_tokens=20, shown_lessons=3)
BAD: dict[str, Callable[[list[list[float]]], Any]] = {
    "NaN": lambda rows: [[float("nan")] * 3 for _ in rows],
    "infinite": lambda rows: [[float("inf"), 0, 0] for _ in rows],
    "zeros": lambda rows: [[0.0, 0, 0] for _ in rows],
    "another count": lambda rows: rows[:-1],
    "none": lambda rows: [],
    "another size": lambda rows: [[1.0] * (3 + n) for n, _ in enumerate(rows)],
    "no numbers": lambda rows: [["x", None, 1] for _ in rows],
    "too large": lambda rows: [[1.0] * 70_000 for _ in rows],
}


class ByMeaning(TestEmbeddingModel):
    """Words of one meaning have one direction. It counts its requests and can be told how to fail."""

    def __init__(self, change: Callable[[list[list[float]]], Any] | None = None, dimensions: int = 3) -> None:
        super().__init__("by-meaning", dimensions=dimensions)
        self.asked: list[tuple[str, ...]] = []
        self.change = change

    async def embed(self, inputs: str | Sequence[str], *, input_type: Any, settings: Any = None) -> EmbeddingResult:
        texts, _ = self.prepare_embed(inputs, settings)
        self.asked.append(tuple(texts))
        rows = [self.row(text) for text in texts]
        made = self.change(rows) if self.change else rows
        return EmbeddingResult(
            embeddings=made, inputs=texts, input_type=input_type, model_name="by-meaning", provider_name="test"
        )

    def row(self, text: str) -> list[float]:
        row = [0.001] * self._dimensions
        for word in text.lower().strip(".").split():
            if word in ANIMALS:
                row[ANIMALS[word]] += 1
        return row


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test in an event loop of its own."""

    @wraps(test)
    def run(*arguments: Any, **fixtures: Any) -> None:
        asyncio.run(test(*arguments, **fixtures))

    return run


def retriever(model: ByMeaning, **limits: float) -> Retriever:
    return Retriever(FEW, embedder=TextEmbedder(Embedder(model), **limits))


async def labels(chooser: Retriever, query: str, library: Library = LIBRARY) -> list[str]:
    chosen = (await chooser.choose(library, query)).lessons
    assert chosen is not None
    return list(library.render(chosen=chosen).labels)


@in_loop
async def test_a_lesson_of_the_same_meaning_is_shown_though_it_shares_no_word() -> None:
    assert "G31" in await labels(retriever(ByMeaning()), "My dog is hungry")
    assert "G31" not in await labels(Retriever(FEW), "My dog is hungry")


@in_loop
async def test_lessons_are_embedded_once_and_not_at_all_while_all_are_shown() -> None:
    model = ByMeaning()
    chooser = retriever(model)
    await asyncio.gather(*(labels(chooser, f"dog {n}") for n in range(5)))
    assert len([one for one in model.asked if len(one) == len(LIBRARY)]) == 1
    quiet = ByMeaning()
    whole = Retriever(Retrieval(), embedder=Embedder(quiet))
    assert (await whole.choose(LIBRARY, "dog")).lessons is None
    assert quiet.asked == []
    assert (await chooser.choose(LIBRARY, "  ")).note == ""


@pytest.mark.parametrize("name", BAD)
@in_loop
async def test_an_embedder_with_unusable_vectors_leaves_words_with_one_warning(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="agentlearn")
    chooser = retriever(ByMeaning(BAD[name]), rest_s=0)
    for _ in range(3):
        assert await labels(chooser, "hound") == await labels(Retriever(FEW), "hound")
    assert [one.message.split(" ")[0] for one in caplog.records] == ["embedder.failed"]
    assert (await chooser.choose(LIBRARY, "hound")).note.startswith("without embeddings: ")


@in_loop
async def test_an_embedder_that_hangs_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    class Hanging(ByMeaning):
        async def embed(self, inputs: Any, *, input_type: Any, settings: Any = None) -> EmbeddingResult:
            self.asked.append(tuple(inputs))
            await asyncio.Event().wait()
            raise AssertionError

    model = Hanging()
    chooser = retriever(model, query_s=0.01, lessons_s=0.01)
    for _ in range(4):
        assert "G31" in await labels(chooser, "hound")
    assert len(model.asked) == 1
    assert "no reply within 0.01 s" in caplog.text


@in_loop
async def test_an_embedder_that_raises_never_reaches_the_agent() -> None:
    def broken(rows: object) -> Any:
        raise RuntimeError("quota")

    assert "RuntimeError: quota" in (await retriever(ByMeaning(broken)).choose(LIBRARY, "hound")).note


@in_loop
async def test_an_unknown_provider_or_a_missing_package_never_reaches_the_agent() -> None:
    for name in ("nobody:model", "sentence-transformers:/nowhere"):
        chosen = await Retriever(FEW, embedder=name).choose(LIBRARY, "hound")
        assert chosen.lessons
        assert chosen.note


@in_loop
async def test_embeddings_are_kept_in_the_store_without_any_text(tmp_path: Path) -> None:
    first, second = ByMeaning(), ByMeaning()
    file = tmp_path / "embeddings.sqlite"
    for model in (first, second):
        chooser = Retriever(FEW, embedder=Embedder(model), cache=EmbeddingFile(file))
        assert "G31" in await labels(chooser, "dog")
    assert [len(one) for one in first.asked] == [len(LIBRARY), 1]
    assert [len(one) for one in second.asked] == [1]
    assert b"hound" not in file.read_bytes()


@in_loop
async def test_a_model_that_changed_its_size_under_its_name_is_asked_again(tmp_path: Path) -> None:
    for dimensions in (3, 4):
        chooser = Retriever(
            FEW, embedder=Embedder(ByMeaning(dimensions=dimensions)), cache=EmbeddingFile(tmp_path / "e.sqlite")
        )
        chosen = await chooser.choose(LIBRARY, "dog")
        assert (chosen.note, LIBRARY.experiences[30].id in (chosen.lessons or ())) == ("", True)


@pytest.mark.parametrize("damage", [b"", b"not a database at all" * 50])
@in_loop
async def test_a_file_that_cannot_be_used_costs_one_warning(
    tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "e.sqlite"
    file.write_bytes(damage)
    chooser = Retriever(FEW, embedder=Embedder(ByMeaning()), cache=EmbeddingFile(file))
    assert "G31" in await labels(chooser, "dog")
    assert caplog.text.count("embeddings.not_kept") == bool(damage)


@in_loop
async def test_lessons_to_leave_out_are_replaced_by_the_next_ones() -> None:
    chooser = retriever(ByMeaning())
    first = (await chooser.choose(LIBRARY, "hound")).lessons
    assert first is not None
    later = (await chooser.choose(LIBRARY, "hound", without=first)).lessons
    assert later is not None
    assert len(later) == len(first)
    assert not {*first} & {*later}


@in_loop
async def test_near_duplicates_are_found_by_meaning_and_without_an_embedder_by_words() -> None:
    library = Library.of(["Feed the hound.", "Mind a dog.", "Park the lorry.", "Feed the hound !", "Say nothing."])
    by_meaning = await near_duplicates(library, TextEmbedder(Embedder(ByMeaning())))
    ids = [one.id for one in library.experiences]
    assert {(ids.index(one.first), ids.index(one.second)) for one in by_meaning} == {(0, 1), (0, 3), (1, 3)}
    assert {one.by for one in by_meaning} == {"test:by-meaning"}
    assert [(one.first, one.second, one.by) for one in await near_duplicates(library)] == [(ids[0], ids[3], "words")]
    broken = TextEmbedder(Embedder(ByMeaning(BAD["NaN"])))
    assert {one.by for one in await near_duplicates(library, broken)} == {"words"}
