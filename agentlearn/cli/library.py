"""`agentlearn library list`, `show`, `import` and `export`. They work while a run holds the store."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from agentlearn.cli.interrupt import run_async
from agentlearn.cli.options import (
    GivenSettings,
    JsonOption,
    LibraryReference,
    NotifyOption,
    StoreOption,
    setting_options,
)
from agentlearn.cli.output import print_result
from agentlearn.config import DEFAULT_STORE, RetrievalOptions, given_settings
from agentlearn.config.defaults import command_words
from agentlearn.errors import LibraryError
from agentlearn.library.formats.source_files import Form
from agentlearn.pages.figure import count_words
from agentlearn.text import block, visible_line
from agentlearn.text.printing import print_line
from agentlearn.text.secret_values import key_caution
from agentlearn.types.experience import Experience, Library, estimated_tokens
from agentlearn.types.ids import ExperienceId
from agentlearn.types.ranking import ChosenLessons
from agentlearn.types.rendering import headline, is_section

if TYPE_CHECKING:
    from agentlearn.library.import_lessons import ImportedLessons
    from agentlearn.pages.lesson_origins import LessonOrigin

_OriginsOption = Annotated[
    bool, Parameter(negative="", show_default=False, help="Show the run, tasks and proposal that made each lesson.")
]

_QueryOption = Annotated[str | None, Parameter(help="A task in words: show which lessons an agent would get for it.")]


def library_list(*, store: StoreOption = DEFAULT_STORE, json: JsonOption = False) -> None:
    """List libraries with their current versions."""
    from agentlearn.library import LibraryStore

    libraries = LibraryStore(store / "libraries")
    found = libraries.list()
    lines = [] if found else [f"there are no libraries in {store}; start with: agentlearn learn math"]
    for one in found:
        size = f"{count_words(one.lessons, 'lesson')}, {count_words(one.tokens, 'token')}"
        lines.append(f"{one.name}@{one.version[:8]}  {size}  {one.at:%Y-%m-%d %H:%M}")
    document = {"libraries": [{**asdict(one), "at": one.at.isoformat()} for one in found]}
    print_result(document, lines, json=json)


@setting_options(RetrievalOptions)
def library_show(
    reference: LibraryReference,
    /,
    *,
    given: GivenSettings,
    origins: _OriginsOption = False,
    query: _QueryOption = None,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Show the lessons of any version of a library, also of versions between two published ones.

    With --query TEXT: the lessons that an agent would be shown for this task, best first.
    """
    from agentlearn.library import LibraryStore
    from agentlearn.library.history.change_log import names_file

    if "@" not in reference:  # an unknown name is refused before the trajectory store is loaded
        LibraryStore(store / "libraries").load(reference)
    from agentlearn.learning.lessons.run_learning import library_caution
    from agentlearn.library.retrieval import Retriever
    from agentlearn.pages.lesson_origins import find_library, lesson_origins, origins_json, replaced_lessons

    found = find_library(store, reference)
    library = found.library
    made = lesson_origins(store, library) if origins else None
    document = {"version": library.version, "published": found.published, **library.model_dump(mode="json")}
    document |= {"tokens": {one.id: estimated_tokens(one.lesson) for one in library.experiences}}
    document |= {} if made is None else {"origins": origins_json(made)}
    if query is None:
        replaced = {} if made is None else replaced_lessons(store, library)
        lines = [*_lesson_lines(library, made, replaced, reference)]
        if found.published and not names_file(reference) and "@" not in reference[:1]:
            lines.append(f"view: {command_words('view', reference, store=store)}")
    else:
        options = given_settings(RetrievalOptions, given.over())
        chosen = asyncio.run(Retriever.in_store(options.retrieval, store).choose(library, query))
        ranked = [asdict(one) for one in chosen.ranked]
        document |= {"query": {"lessons": chosen.lessons, "ranked": ranked, "note": chosen.note}}
        lines = _query_lines(library, chosen)
    size = f"{count_words(len(library), 'lesson')}, {count_words(library.tokens, 'token')} (estimated)"
    state = "" if found.published else "  not published; to use it, write it to a file with library export"
    head = [f"{reference}  version {library.version[:8]}  {size}{state}"]
    caution = library_caution(reference, library)
    print_result(document, (*head, *([caution] if caution else []), *lines), json=json)


def _lesson_lines(
    library: Library,
    made: "Mapping[ExperienceId, Sequence[LessonOrigin]] | None",
    replaced: "Mapping[ExperienceId, str]",
    reference: str,
) -> Iterator[str]:
    """The lessons as text, each with what made it where that is given, then those that are withheld."""
    from agentlearn.pages.lesson_origins import origin_lines

    for number, one in enumerate(library.experiences, start=1):
        tags = f"  {' '.join(one.tags)}" if one.tags else ""
        yield block(_words(one), f"[G{number}] ", "      ")
        yield f"      {one.id[:12]}  {one.origin.words}  {estimated_tokens(one.lesson)} tokens{tags}"
        if made is not None:
            for line in origin_lines(one, made.get(one.id, ()), replaced, reference=reference):
                yield f"      {line}"
    for one in library.withheld:
        yield block(_words(one.experience), f"[{one.status}] ", "      ")
        yield f"      {one.experience.id[:12]}  {one.reason or 'no reason is stored'}"
    if library.files:
        yield block(", ".join(one.path for one in library.files), "files beside it: ", "      ")


def _words(one: Experience) -> str:
    """A section with its lines; a lesson on one line."""
    return one.lesson.strip("\n") if is_section(one.lesson) else visible_line(one.lesson)


def _query_lines(library: Library, chosen: ChosenLessons) -> Iterator[str]:
    """The lessons that an agent would be shown for a task as text, best first, with rank, score and cost."""
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
        words = "no word in common" if one.word_rank is None else f"rank {one.word_rank} by words"
        near = "" if one.embedding_rank is None else f", rank {one.embedding_rank} by embeddings"
        why = f"score {one.score:.4g}  {words}{near}"
        if not one.score:
            why = "nothing matches; the first lessons of the library fill the places"
        yield f"{one.rank:>3}. [{labels[one.lesson]}] {headline(lesson)}"
        yield f"      {why}  {estimated_tokens(lesson)} tokens"


_REFUSED_SHOWN, _PLACES = 20, 8
_MEGABYTE = 1_000_000
_FORMS = (
    "lines: one lesson per line, for git; training-free-grpo: the original's JSON; youtu: youtu-agent's YAML; ace: an"
    " ACE playbook; markdown: a list; agents-md: a marked block in AGENTS.md or another file; skill: a folder with"
    " SKILL.md."
)


def library_import(
    path: Annotated[Path, Parameter(help="File or folder with lessons.")],
    /,
    *,
    name: Annotated[
        str, Parameter(help="Library that the lessons are for; it is made if there is none. [default: the file's name]")
    ] = "",
    form: Annotated[Form | None, Parameter(name="--format", help=f"{_FORMS} [default: found by content]")] = None,
    approve: Annotated[
        bool, Parameter(negative="", show_default=False, help="Show the lessons to agents; else they wait for you.")
    ] = False,
    max_mb: Annotated[float, Parameter(help="Largest size that is read, in megabytes.")] = 1.0,
    notify: NotifyOption = None,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Import lessons of other programs, people or stores into a library. Each is checked, and waits for approval."""
    from agentlearn.cli.review import notifying
    from agentlearn.library import LibraryStore
    from agentlearn.library.formats.source_files import ImportLimits
    from agentlearn.library.history import MAIN
    from agentlearn.library.import_lessons import import_lessons
    from agentlearn.types.experience import EMPTY_LIBRARY

    if not 0 < max_mb <= 1_000:
        raise LibraryError(f"--max-mb {max_mb!r} cannot be used; give megabytes above 0 and at most 1000")
    libraries, name = LibraryStore(store / "libraries"), name or path.resolve().stem
    history, limits = libraries.history(name), ImportLimits(max_bytes=round(max_mb * _MEGABYTE))
    if approve:
        history.refuse_lone_approval()
    into = history.load(MAIN) if history.exists else EMPTY_LIBRARY
    imported = import_lessons(path, form, into=into, name=name, store=libraries, limits=limits)
    library = imported.added_to(into, approve=approve)

    def next_library(current: "Library") -> "Library":
        nonlocal into, imported, library
        if current.version != into.version:  # somebody else changed it meanwhile
            into = current
            imported = import_lessons(path, form, into=current, name=name, store=libraries, limits=limits)
            library = imported.added_to(into, approve=approve)
        return library

    if library != into:
        note = f"{imported.path} (format {imported.form})"
        with notifying(notify, store):
            kept = imported.files.values()
            history.update(next_library, kind="import", copied=lambda: imported.copied, files=kept, note=note)
    for one in imported.lessons:
        caution_of_key(one.experience.lesson)
    fresh = {one.experience.id for one in imported.lessons}
    document = {
        "name": name,
        "version": library.version,
        "changed": library != into,
        "format": imported.form,
        "unchanged_export": imported.published is not None and library == imported.published,
        "shown": [one.model_dump(mode="json") for one in library.experiences if one.id in fresh],
        "withheld": [one.model_dump(mode="json") for one in library.withheld if one.experience.id in fresh],
        "known": sorted(imported.known),
        "refused": [
            {name: getattr(one, name) for name in ("place", "lesson", "code", "reason")} for one in imported.refused
        ],
        "files": sorted(imported.files),
        "not_read": [asdict(one) for one in imported.unread],
    }
    print_result(document, _import_lines(imported, library, into, name, store), json=json)


def _unread_lines(imported: "ImportedLessons") -> Iterator[str]:
    """What of a file was not read, with the first places, and how all of it is kept."""
    kinds = Counter(one.what for one in imported.unread)
    if not kinds:
        return
    yield f"not read: {', '.join(count_words(number, what) for what, number in kinds.items())}"
    for what in kinds:
        unread = (one for one in imported.unread if one.what == what)
        places = [f"{one.place}{f' ({one.reason})' if one.reason else ''}" for one in unread]
        more = f", and {len(places) - _PLACES:,} more" if len(places) > _PLACES else ""
        yield block(f"{what}: {visible_line(', '.join(places[:_PLACES]))}{more}", "  ", "      ")
    if imported.form == "markdown":
        yield "to keep all of it, import it as whole sections: --format document"


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
    model: Annotated[str | None, Parameter(help="Model that writes the description of a skill, in one call.")] = None,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Write a library to a file that `--from`, `--library` and other programs can read, or to a folder as a skill."""
    from agentlearn.cli.library_checks import asked_model
    from agentlearn.library import LibraryStore
    from agentlearn.library.card import written_description
    from agentlearn.library.formats import loss_sentence, write_form
    from agentlearn.library.formats.markdown import AgentSkill
    from agentlearn.library.history.change_log import names_file
    from agentlearn.pages.learn_record import learned_from
    from agentlearn.pages.lesson_origins import find_library

    if (description or model) and form != "skill":
        given = "--description" if description else "--model"
        raise LibraryError(f"{given} is only for --format skill")
    if description and model:
        raise LibraryError("--description and --model both describe the skill; give one of them")
    library = find_library(store, reference).library
    called = Path(reference).stem if names_file(reference) else reference.partition("@")[0] or library.version[:8]
    libraries = LibraryStore(store / "libraries")
    if form == "skill" and (main := AgentSkill.main_of(library)) is not None:
        if description or model:
            raise LibraryError(
                "this skill keeps the description that it came with; leave --description and --model out"
            )
        name = name or AgentSkill.own_name(libraries.content(main))
    name = name or (AgentSkill.usual_name(called) if form == "skill" else called)

    if model:
        wanted = model
        description = run_async(
            lambda: asked_model(wanted, "skill", lambda client: written_description(library, client))
        )

    def described(one: "Library") -> str:
        return description or (AgentSkill.description(one, name, learned_from(store, one)) if form == "skill" else "")

    known = libraries.exported(reference)
    written = write_form(library, out, form, name, describe=described, known=known, content=libraries.content)
    lost = loss_sentence(library, form)
    document = {"version": library.version, "lessons": len(library), "format": form}
    document |= {"path": str(written), "left_out": lost or None}
    print_result(document, [f"wrote {written}", *([lost] if lost else [])], json=json)


def caution_of_key(lesson: str) -> None:
    """Say on stderr where a lesson holds a key, and what to do."""
    if caution := key_caution(lesson):
        step = "take it out with `agentlearn library edit`, and revoke it, because older versions keep it"
        print_line(f"caution: a lesson: {caution}; {step}", to_stderr=True)


def _import_lines(
    imported: "ImportedLessons", library: "Library", into: "Library", name: str, store: Path
) -> Iterator[str]:
    reference = f"{name}@{library.version[:8]}"
    if imported.published is not None and library == imported.published:
        yield f"{reference}: an unchanged export of this store, with its ids and origins"
        return
    shown, held = len(library) - len(into), len(library.withheld) - len(into.withheld)
    yield f"{imported.path}: format {imported.form}, {count_words(len(imported.lessons), 'lesson')} can be used"
    if imported.known:
        yield f"{count_words(len(imported.known), 'lesson')} of this store keep their ids and origins"
    if shown:
        yield f"{reference} shows {count_words(shown, 'lesson')} more"
    if held:
        yield f"{reference} keeps {count_words(held, 'lesson')} that no agent sees until you approve them"
    for one in (one for one in imported.lessons if one.status == "parked"):
        yield f"{one.experience.id[:12]} stays parked: {one.reason or 'no reason is stored'}"
    if imported.refused:
        yield f"refused: {count_words(len(imported.refused), 'lesson')}"
    for one in imported.refused[:_REFUSED_SHOWN]:
        yield block(f"{one.code}: {one.reason}: {one.lesson}", f"  {one.place}  ", "      ")
    if (more := len(imported.refused) - _REFUSED_SHOWN) > 0:
        yield f"  and {more:,} more; --json lists all"
    if imported.files:
        yield f"{count_words(len(imported.files), 'file')} of the skill kept as they are; none is run"
    yield from _unread_lines(imported)
    changed = f"to look at it:  {command_words('library', 'show', name, store=store)}"
    yield f"library {name!r} is unchanged" if library == into else changed
