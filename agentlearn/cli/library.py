"""`agentlearn library`. Libraries are plain files, so these commands work while a run holds the store."""

import asyncio
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from agentlearn.cli.options import GivenSettings, JsonOption, LibraryReference, StoreOption, setting_options
from agentlearn.cli.output import console, count_words, print_json
from agentlearn.config import DEFAULT_STORE, RetrievalOptions, given_settings
from agentlearn.text import block, visible_line
from agentlearn.types.experience import Library, estimated_tokens
from agentlearn.types.ranking import ChosenLessons, RankedLesson

if TYPE_CHECKING:
    from agentlearn.library import LibraryStore

OriginsOption = Annotated[
    bool, Parameter(negative="", show_default=False, help="Show the run, tasks and proposal that made each lesson.")
]

QueryOption = Annotated[str | None, Parameter(help="A task in words: show which lessons an agent would get for it.")]


def library_list(*, store: StoreOption = DEFAULT_STORE, json: JsonOption = False) -> None:
    """List libraries with their current versions."""
    found = _library_store(store).list()
    if json:
        print_json({"libraries": [_as_json(asdict(one)) for one in found]})
        return
    out = console()
    if not found:
        out.print(f"there are no libraries in {store}; start with: agentlearn learn math")
    for one in found:
        size = f"{count_words(one.lessons, 'lesson')}, {count_words(one.tokens, 'token')}"
        pinned = "  pinned" if _library_store(store).history(one.name).state.pinned else ""
        out.print(f"{one.name}@{one.version[:8]}  {size}  {one.at:%Y-%m-%d %H:%M}{pinned}")


@setting_options(RetrievalOptions)
def library_show(
    reference: LibraryReference,
    /,
    *,
    given: GivenSettings,
    origins: OriginsOption = False,
    query: QueryOption = None,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Show the lessons of any version of a library, also of versions between two published ones.

    With --query TEXT: the lessons that an agent would be shown for this task, best first.
    """
    from agentlearn.cli.show.lessons import find_library, lesson_origins, origin_lines, origins_json, replaced_lessons
    from agentlearn.learning.lessons.start import library_caution

    found = find_library(store, reference)
    library = found.library
    chosen = None
    if query is not None:
        chosen = chosen_for(library, query, given_settings(RetrievalOptions, given.over()), store)
    made = lesson_origins(store, library) if origins else {}
    if json:
        document = {"version": library.version, "published": found.published, **library.model_dump(mode="json")}
        document |= {"tokens": {one.id: estimated_tokens(one.lesson) for one in library.experiences}}
        document |= {"origins": origins_json(made)} if origins else {}
        print_json(document | ({} if chosen is None else {"query": query_json(chosen)}))
        return
    out = console()
    size = f"{count_words(len(library), 'lesson')}, {count_words(library.tokens, 'token')} (estimated)"
    state = "" if found.published else "  not published; to use it, write it to a file with library export"
    out.print(f"{reference}  version {library.version[:8]}  {size}{state}")
    if caution := library_caution(reference, library):
        out.print(caution)
    if chosen is not None:
        for line in query_lines(library, chosen):
            out.print(line)
        return
    replaced = replaced_lessons(store, library) if origins else {}
    for number, one in enumerate(library.experiences, start=1):
        cost = estimated_tokens(one.lesson)
        out.print(block(visible_line(one.lesson), f"[G{number}] ", "      "))
        out.print(
            f"      {one.id[:12]}  {one.origin.kind}  {cost} tokens{'  ' + ' '.join(one.tags) if one.tags else ''}"
        )
        if origins:
            for line in origin_lines(one, made.get(one.id, ()), replaced, reference=reference):
                out.print(f"      {line}")
    for one in library.withheld:
        out.print(block(visible_line(one.experience.lesson), f"[{one.status}] ", "      "))
        out.print(f"      {one.experience.id[:12]}  {one.reason or 'no reason is stored'}")


def _library_store(store: Path) -> "LibraryStore":
    from agentlearn.library import LibraryStore

    return LibraryStore(store / "libraries")


def _as_json(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value.isoformat() if hasattr(value, "isoformat") else value for key, value in row.items()}


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
