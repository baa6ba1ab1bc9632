"""`agentlearn library import` and `library export`: libraries as files and folders of any format."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from agentlearn.cli.options import JsonOption, LibraryReference, StoreOption
from agentlearn.cli.output import console, count_words, print_json
from agentlearn.config import DEFAULT_STORE
from agentlearn.config.command_words import command_words
from agentlearn.errors import LibraryError
from agentlearn.library.formats.source_files import Form
from agentlearn.text import block

if TYPE_CHECKING:
    from agentlearn.library.import_lessons import ImportedLessons
    from agentlearn.types.experience import Library

_REFUSED_SHOWN = 20
_MEGABYTE = 1_000_000
_FORMS = (
    "lines: one lesson per line, for git; training-free-grpo: the original's JSON; youtu: youtu-agent's YAML; ace: an"
    " ACE playbook; markdown: a list; skill: a folder with SKILL.md."
)


def library_import(
    path: Annotated[Path, Parameter(help="File or folder with lessons.")],
    /,
    *,
    name: Annotated[str, Parameter(help="Library that the lessons are for; it is made if there is none.")],
    form: Annotated[Form | None, Parameter(name="--format", help=f"{_FORMS} [default: found by content]")] = None,
    approve: Annotated[
        bool, Parameter(negative="", show_default=False, help="Show the lessons to agents; else they wait for you.")
    ] = False,
    max_mb: Annotated[float, Parameter(help="Largest size that is read, in megabytes.")] = 1.0,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Import lessons of other programs, people or stores into a library. Each is checked, and waits for approval."""
    from agentlearn.library import LibraryStore
    from agentlearn.library.formats.source_files import ImportLimits
    from agentlearn.library.history.change_log import MAIN
    from agentlearn.library.import_lessons import import_lessons
    from agentlearn.types.experience import EMPTY_LIBRARY

    if not 0 < max_mb <= 1_000:
        raise LibraryError(
            f"--max-mb {max_mb!r} cannot be used; give megabytes above 0 and at most 1000", code="bad_limit"
        )
    libraries = LibraryStore(store / "libraries")
    history, limits = libraries.history(name), ImportLimits(max_bytes=round(max_mb * _MEGABYTE))
    into = history.load(MAIN) if history.exists else EMPTY_LIBRARY
    imported = import_lessons(path, form, into=into, name=name, store=libraries, limits=limits)
    library = imported.added_to(into, approve=approve)

    def next_library(current: "Library") -> "Library":
        nonlocal into, imported, library
        if current.version != into.version:  # somebody else changed it meanwhile
            into, imported = (
                current,
                import_lessons(path, form, into=current, name=name, store=libraries, limits=limits),
            )
            library = imported.added_to(into, approve=approve)
        return library

    if library != into:
        note = f"{imported.path} (format {imported.form})"
        history.update(next_library, kind="import", copied=lambda: imported.copied, note=note)
    if json:
        print_json(_import_json(imported, library, into, name))
        return
    for line in _import_lines(imported, library, into, name, store):
        console().print(line)


def library_export(
    reference: LibraryReference,
    /,
    *,
    out: Annotated[Path, Parameter(help="File to write; for a skill, its folder or the one of all skills.")],
    form: Annotated[Form, Parameter(name="--format", help=_FORMS)] = "agentlearn",
    name: Annotated[str, Parameter(help="Title, or name of the skill. [default: that of the library]")] = "",
    description: Annotated[
        str, Parameter(help="What the skill is for and when to load it. [default: made from what the store knows]")
    ] = "",
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Write a library to a file that `--from`, `--library` and other programs can read, or to a folder as a skill."""
    from agentlearn.cli.show.card_facts import learned_from
    from agentlearn.cli.show.lessons import find_library
    from agentlearn.library import LibraryStore
    from agentlearn.library.formats import loss_sentence, write_form
    from agentlearn.library.formats.markdown_list import skill_description, skill_name

    if description and form != "skill":
        raise LibraryError("--description is only for --format skill", code="bad_option")
    library = find_library(store, reference).library
    is_file = reference.endswith(".json") or "/" in reference
    called = Path(reference).stem if is_file else reference.partition("@")[0] or library.version[:8]
    name = name or (skill_name(called) if form == "skill" else called)

    def described(one: "Library") -> str:
        return description or (skill_description(one, name, learned_from(store, one)) if form == "skill" else "")

    known = LibraryStore(store / "libraries").exported(reference)
    written = write_form(library, out, form, name, describe=described, known=known)
    lost = loss_sentence(library, form)
    if json:
        document = {"version": library.version, "lessons": len(library), "format": form}
        print_json(document | {"path": str(written), "left_out": lost or None})
        return
    console().print(f"wrote {written}")
    if lost:
        console().print(lost)


def _import_lines(
    imported: "ImportedLessons", library: "Library", into: "Library", name: str, store: Path
) -> list[str]:
    reference = f"{name}@{library.version[:8]}"
    if imported.published is not None and library == imported.published:
        return [f"{reference}: an unchanged export of this store, with its ids and origins"]
    shown, held = len(library) - len(into), len(library.withheld) - len(into.withheld)
    lines = [f"{imported.path}: format {imported.form}, {count_words(len(imported.lessons), 'lesson')} can be used"]
    if imported.known:
        lines.append(f"{count_words(len(imported.known), 'lesson')} of this store keep their ids and origins")
    if shown:
        lines.append(f"{reference} shows {count_words(shown, 'lesson')} more")
    if held:
        lines.append(f"{reference} keeps {count_words(held, 'lesson')} that no agent sees until you approve them")
    if imported.refused:
        lines.append(f"refused: {count_words(len(imported.refused), 'lesson')}")
        lines += [
            block(f"{one.code}: {one.reason}: {one.lesson}", f"  {one.place}  ", "      ")
            for one in imported.refused[:_REFUSED_SHOWN]
        ]
        if (more := len(imported.refused) - _REFUSED_SHOWN) > 0:
            lines.append(f"  and {more:,} more; --json lists all")
    if library == into:
        lines.append(f"library {name!r} is unchanged")
    else:
        lines.append(f"to look at it:  {command_words('library', 'show', name, store=store)}")
    return lines


def _import_json(imported: "ImportedLessons", library: "Library", into: "Library", name: str) -> dict[str, Any]:
    fresh = {one.experience.id for one in imported.lessons}
    return {
        "name": name,
        "version": library.version,
        "changed": library != into,
        "format": imported.form,
        "unchanged_export": imported.published is not None and library == imported.published,
        "shown": [one.model_dump(mode="json") for one in library.experiences if one.id in fresh],
        "withheld": [one.model_dump(mode="json") for one in library.withheld if one.experience.id in fresh],
        "known": sorted(imported.known),
        "refused": [
            {"place": one.place, "lesson": one.lesson, "code": one.code, "reason": one.reason}
            for one in imported.refused
        ],
    }
