"""`agentlearn library`. Libraries are plain files, so these commands work while a run holds the store."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from agentlearn.cli.options import JsonOption, LibraryReference, StoreOption
from agentlearn.cli.output import console, print_json
from agentlearn.config import DEFAULT_STORE

if TYPE_CHECKING:
    from agentlearn.library import LibraryStore

OriginsOption = Annotated[
    bool, Parameter(negative="", show_default=False, help="Show the run, tasks and proposal that made each lesson.")
]


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
        out.print(f"{one.name}@{one.version[:8]}  {one.lessons} lessons, {one.tokens} tokens  {one.at:%Y-%m-%d %H:%M}")


def library_show(
    reference: LibraryReference,
    /,
    *,
    origins: OriginsOption = False,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Show the lessons of any version of a library, also of versions between two published ones."""
    from agentlearn.cli.show.origins import lesson_origins, origin_lines, origins_json, replaced_lessons
    from agentlearn.cli.show.versions import find_library
    from agentlearn.learning.lessons.library_caution import library_caution

    found = find_library(store, reference)
    library = found.library
    made = lesson_origins(store, library) if origins else {}
    if json:
        document = {"version": library.version, "published": found.published, **library.model_dump(mode="json")}
        print_json({**document, "origins": origins_json(made)} if origins else document)
        return
    out = console()
    size = f"{len(library)} lessons, {library.tokens} tokens (estimated)"
    state = "" if found.published else "  not published; to use it, write it to a file with library export"
    out.print(f"{reference}  version {library.version[:8]}  {size}{state}")
    if caution := library_caution(reference, library):
        out.print(caution)
    replaced = replaced_lessons(store, library) if origins else {}
    for number, one in enumerate(library.experiences, start=1):
        out.print(f"[G{number}] {one.lesson}")
        out.print(f"      {one.id[:12]}  {one.origin.kind}{'  ' + ' '.join(one.tags) if one.tags else ''}")
        if origins:
            for line in origin_lines(one, made.get(one.id, ()), replaced, reference=reference):
                out.print(f"      {line}")


def library_log(
    name: Annotated[str, Parameter(help="Name of a library.")],
    /,
    *,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Show the versions of a library, newest first."""
    versions = _library_store(store).log(name)
    if json:
        print_json({"versions": [_as_json(asdict(one)) for one in versions]})
        return
    out = console()
    for one in versions:
        out.print(f"{name}@{one.version[:8]}  {one.lessons} lessons, {one.tokens} tokens  {one.at:%Y-%m-%d %H:%M}")


def library_export(
    reference: LibraryReference,
    /,
    *,
    out: Annotated[Path, Parameter(help="File to write.")],
    form: Annotated[
        Literal["agentlearn", "training-free-grpo"],
        Parameter(name="--format", help="training-free-grpo: the JSON of the original implementation."),
    ] = "agentlearn",
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Write a library to a file that `--from`, `--library` and other programs can read."""
    from agentlearn.cli.show.versions import find_library
    from agentlearn.library.store import write_library

    write_library(find_library(store, reference).library, out, form)
    console().print(f"wrote {out}")


def _library_store(store: Path) -> "LibraryStore":
    from agentlearn.library import LibraryStore

    return LibraryStore(store / "libraries")


def _as_json(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value.isoformat() if hasattr(value, "isoformat") else value for key, value in row.items()}
