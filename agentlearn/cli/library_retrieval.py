"""`agentlearn library show --query`: which lessons an agent would be shown for a task, and why."""

import asyncio
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentlearn.config import RetrievalOptions
from agentlearn.types.experience import Library, estimated_tokens
from agentlearn.types.ranking import ChosenLessons, RankedLesson


def chosen_for(library: Library, query: str, options: RetrievalOptions, store: Path) -> ChosenLessons:
    """The lessons that an agent would be shown for a task."""
    from agentlearn.library.retrieval import Retriever

    return asyncio.run(Retriever.in_store(options.retrieval, store).choose(library, query))


def query_lines(library: Library, chosen: ChosenLessons) -> Iterator[str]:
    """The chosen lessons as text, best first, with rank, score and cost."""
    shown = library.render(chosen=chosen.lessons).labels
    tokens = sum(estimated_tokens(library.by_id[lesson].lesson) for lesson in shown.values())
    yield f"shown for this task: {len(shown)} of {len(library)} lessons, {tokens} tokens (estimated)"
    if chosen.note:
        yield f"note: {chosen.note}"
    if not chosen.ranked:
        yield "every lesson is shown, because they are few enough"
    labels = {lesson: label for label, lesson in shown.items()}
    for one in chosen.ranked:
        lesson = library.by_id[one.lesson].lesson
        yield f"{one.rank:>3}. [{labels[one.lesson]}] {lesson}"
        yield f"      {_why(one)}  {estimated_tokens(lesson)} tokens"


def query_json(chosen: ChosenLessons) -> dict[str, Any]:
    """The choice for JSON output."""
    return {"lessons": chosen.lessons, "ranked": [asdict(one) for one in chosen.ranked], "note": chosen.note}


def _why(one: RankedLesson) -> str:
    if not one.score:
        return "nothing matches; the first lessons of the library fill the places"
    words = "no word in common" if one.word_rank is None else f"rank {one.word_rank} by words"
    near = "" if one.embedding_rank is None else f", rank {one.embedding_rank} by embeddings"
    return f"score {one.score:.4g}  {words}{near}"
