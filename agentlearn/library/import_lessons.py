"""Importing lessons that another program, another person or another store wrote.

Every lesson is checked: what can be used waits for a person, and what cannot is named with the reason. A lesson that
the library published before keeps its id and its origin; every other one gets an id of the library.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import pairwise, repeat
from pathlib import Path

from agentlearn.errors import LibraryError
from agentlearn.library.curate.codes import RejectionCode, reject
from agentlearn.library.curate.hostile import screened, wrong_form
from agentlearn.library.curate.lesson_text import SAME_LESSON, LessonWords, NearIndex, checked_lesson, too_long
from agentlearn.library.curate.operations import tags_of
from agentlearn.library.formats import format_of, library_format, shown_value
from agentlearn.library.formats.source_files import (
    WHOLE,
    Form,
    FoundLesson,
    ImportLimits,
    ReadLessons,
    SourceFiles,
    Unread,
)
from agentlearn.library.history.three_way import Ancestry
from agentlearn.library.shown import NotShown
from agentlearn.library.store import LibraryStore
from agentlearn.types.experience import (
    EMPTY_LIBRARY,
    MAX_LESSON_WORDS,
    Experience,
    KeptFile,
    Library,
    Origin,
    Withheld,
    experience_id,
    held_lessons,
)
from agentlearn.types.ids import ExperienceId
from agentlearn.types.operation import Rejected
from agentlearn.types.rendering import in_sections, is_section
from agentlearn.types.value import Author

_POINT = re.compile(
    r"(?<=[^\W\d]{2}[.!?;])\s+|(?<=[)\]\"'`][.!?;])\s+|(?<=[。！？；])\s*"  # the end of a sentence
    r"|\s+(?=(\d{1,2})[.)]\s)|\s+(?=[-*•]\s+[A-Z][a-z])"  # an item of a list
)
_LONGEST_SPLIT = 8_000
"""Largest number of characters of a text that becomes several lessons."""


DUPLICATE = "duplicate"
"""The code of a lesson that the library or the file has already, word for word."""
_LIMITS = ImportLimits()


@dataclass(frozen=True, slots=True)
class _RefusedLesson:
    """A lesson that was not imported."""

    place: str
    """Where it is in the file."""
    lesson: str
    """Its text, cut for display."""
    code: str
    """Stable code of the reason."""
    reason: str
    """Why, in a sentence."""


@dataclass(frozen=True, slots=True)
class ImportedLessons:
    """The lessons of a file or folder that can be used, and all others with the reason."""

    path: str
    form: Form
    lessons: tuple[Withheld, ...] = ()
    """Lessons that can be used. They wait for a person, or are parked as they were in their own store."""
    refused: tuple[_RefusedLesson, ...] = ()
    known: frozenset[ExperienceId] = frozenset()
    """Lessons that the store published before. They keep their ids and origins."""
    copied: Mapping[ExperienceId, frozenset[ExperienceId]] = field(
        default_factory=dict[ExperienceId, frozenset[ExperienceId]]
    )
    """By new lesson: the lessons of the store that it repeats, in nearly the same words or by what the file says."""
    waiting: frozenset[ExperienceId] = frozenset()
    """Lessons that the file itself withholds, so that `approve` does not take them."""
    published: Library | None = None
    """The same version in the store, when the file is an unchanged export of it."""
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """The bytes of the files of a skill, by path. The library names them, and `History.update` keeps them."""
    unread: tuple[Unread, ...] = ()
    """What is no lesson and is not kept, with its place."""

    def added_to(self, library: Library, *, approve: bool = False) -> Library:
        """Return the next version, with these lessons withheld; the library itself when there is nothing to add.

        approve: show those that wait, except the ones that the file withholds.
        """
        if self.published is not None and library == EMPTY_LIBRARY:
            return self.published
        named = {path: KeptFile(path=path, sha256=sha256(content).hexdigest()) for path, content in self.files.items()}
        files = tuple(one for _, one in sorted(({one.path: one for one in library.files} | named).items()))
        if not self.lessons and files == library.files:
            return library
        shown = [one for one in self.lessons if approve and self.approvable(one)]
        held = [one for one in self.lessons if one not in shown]
        return Library(
            parent=None if library == EMPTY_LIBRARY else library.version,
            experiences=(*library.experiences, *(one.experience for one in shown)),
            withheld=(*library.withheld, *held),
            document=library.document,
            files=files,
        )

    def approvable(self, one: Withheld) -> bool:
        """Whether a lesson may be shown as soon as a person approves the import."""
        return one.status == "pending" and one.experience.id not in self.waiting


def import_lessons(
    path: Path | str,
    format: Form | None = None,  # noqa: A002  the name of the option
    *,
    into: Library = EMPTY_LIBRARY,
    name: str = "",
    store: LibraryStore | None = None,
    limits: ImportLimits = _LIMITS,
) -> ImportedLessons:
    """Return the lessons of a file or folder, each with a verdict. Nothing is stored.

    format: None finds it. into: the library that they are for; what it has already is a duplicate. name: its name,
    which the ids of new lessons belong to. store: lessons that it published under that name keep their ids; without a
    name, those that it published under any. Raises LibraryError when the file cannot be read, and MissingExtra for
    YAML without PyYAML and for Markdown without markdown-it-py.
    """
    source = SourceFiles.read(path, limits)
    chosen = library_format(format) if format else format_of(source)
    return checked_lessons(source, chosen.read(source), chosen.name, into=into, name=name, store=store, limits=limits)


def checked_lessons(
    source: SourceFiles,
    read: ReadLessons,
    form: Form,
    *,
    into: Library = EMPTY_LIBRARY,
    name: str = "",
    store: LibraryStore | None = None,
    limits: ImportLimits = _LIMITS,
) -> ImportedLessons:
    """Return the lessons that were read, each with a verdict. Raises LibraryError for none, and for too many."""
    if not read.lessons:
        others = " --format" if form != "markdown" or not read.unread else " --format: 'document' keeps all of it"
        raise LibraryError(
            f"{source.path!r} holds no lesson in the format {form!r}; look into the file, or name another format with"
            f"{others}"
        )
    if len(read.lessons) > limits.max_lessons:
        raise LibraryError(
            f"{source.path!r} holds {len(read.lessons):,} lessons; at most {limits.max_lessons:,} are read at once"
        )
    known = _Known.of(read.library, store, name)
    if known.published is not None and into == EMPTY_LIBRARY:
        return ImportedLessons(source.path, form, known=frozenset(known.lessons), published=known.published)
    lessons = read.lessons if read.library is not None else _as_listed(read.lessons, form)
    given = (one.text for one in lessons if isinstance(one.text, str))
    author = Author(kind="library", name=Path(source.path).name)
    check = _Check(author, f"imported from {author.name!r} (format {form})", into, known, given, name, form in WHOLE)
    library = read.library
    held = () if library is None else (*library.experiences, *(one.experience for one in library.withheld))
    for lesson, own in zip(lessons, held if library is not None else repeat(None, len(lessons)), strict=True):
        check.take(lesson, own)
    lacking = () if library is None else library.files
    named = (Unread("file", one.path, "the format has only its name and hash") for one in lacking)
    found = replace(check.result(source.path, form), files=read.files, unread=(*read.unread, *named))
    return found if store is None else replace(found, copied=_copied(found, read.exported, store.ancestry()))


def propose_lesson(
    lesson: str, tags: Sequence[str], author: Author, reason: str, *, into: Library, name: str
) -> ImportedLessons:
    """Return a lesson that somebody proposes for a library, with a verdict, as an import does. Nothing is stored.

    author: a stranger. reason: what a person reads who decides on it.
    """
    check = _Check(author, reason, into, _Known({}), [lesson], name)
    check.take(FoundLesson("the proposal", lesson, tuple(tags)), None)
    return check.result(author.name, "lines")


def _copied(found: ImportedLessons, exported: str, store: Ancestry) -> dict[ExperienceId, frozenset[ExperienceId]]:
    """The lessons of the store that each new lesson repeats.

    They have its words, or nearly its words; else they are all lessons of the version that the file says it was
    exported from. exported: that version.
    """
    listed = list(store.experiences.values())
    index = NearIndex((one.lesson for one in listed), SAME_LESSON)
    for one in listed:
        index.add(one.lesson)
    claimed = next((library for version, library in store.libraries.items() if exported and version == exported), None)
    copied: dict[ExperienceId, frozenset[ExperienceId]] = {}
    for one in (held.experience for held in found.lessons if held.experience.id not in found.known):
        near = [listed[at] for at in index.all_near(one.lesson)]
        same = [other for other in near if LessonWords.of(other.lesson).normal == LessonWords.of(one.lesson).normal]
        if sources := same or near or ([] if claimed is None else list(claimed.experiences)):
            copied[one.id] = frozenset(other.id for other in sources)
    return copied


def _as_listed(lessons: Iterable[FoundLesson], form: Form) -> tuple[FoundLesson, ...]:
    """The lessons as an export lists them: those of one section together, and a long text as several lessons."""
    sections = in_sections(lessons, lambda one: () if form in {"agentlearn", "lines"} else tags_of(one.tags).kept)
    return tuple(
        lesson if part == lesson.text else replace(lesson, place=f"{lesson.place}, part {number}", text=part)
        for section in sections.values()
        for lesson in section
        for number, part in enumerate(_parts(lesson.text), 1)
    )


def _parts(text: object) -> tuple[object, ...]:
    """The text as lessons: one where it is short enough, else as many as needed, each of whole sentences and items.

    It stays whole, and is refused for its length, where one sentence alone is too long or a part cannot be a lesson.
    """
    if (
        not isinstance(text, str)
        or is_section(text)
        or not too_long(text.strip())
        or len(text) > _LONGEST_SPLIT
        or screened(text)
    ):
        return (text,)
    starts, last = [0], 0
    for found in _POINT.finditer(text):
        item = int(found[1] or 0)
        if item in {0, 1, last + 1}:  # another number before a full stop is part of a sentence
            starts.append(found.end())
            last = item or last
    pieces = [text[start:end].strip() for start, end in pairwise([*starts, len(text)])]
    packed = _packed(pieces, MAX_LESSON_WORDS)
    # The smallest limit that needs no more parts makes them about equally long.
    equal = (_packed(pieces, words) for words in range(1, MAX_LESSON_WORDS + 1))
    parts = next((one for one in equal if one and len(one) == len(packed)), [])
    return tuple(parts) if parts and not any(map(wrong_form, parts)) else (text,)


def _packed(pieces: Iterable[str], words: int) -> list[str]:
    """The pieces joined to as few texts as the limit allows; none where one piece is too long."""
    packed: list[str] = []
    for piece in filter(None, pieces):
        longer = f"{packed[-1]} {piece}" if packed else piece
        if not too_long(longer, words):
            packed[-1:] = [longer]
        elif too_long(piece, words):
            return []
        else:
            packed.append(piece)
    return packed


@dataclass(frozen=True, slots=True)
class _Known:
    """What the store knows of a library in a file."""

    lessons: dict[ExperienceId, Experience]
    published: Library | None = None
    not_shown: NotShown = field(default_factory=NotShown)
    """What stays parked: here, or in the file as in its own store."""

    @classmethod
    def of(cls, library: Library | None, store: LibraryStore | None, name: str) -> "_Known":
        """Look up an unchanged library of ours. The store's own copies count: a file may change tags and origins."""
        rule = store.not_shown() if store else NotShown()
        if library is None or store is None:
            return cls({}, not_shown=rule)
        asked, found, same = held_lessons(library), dict[ExperienceId, Experience](), None
        histories = (store.history(known) for known in store.names() if name in {"", known})
        for _, one in (each for history in histories for each in history.load_each(history.versions())):
            if isinstance(one, Library):  # a damaged version knows no lessons
                found.update((key, held) for key, (held, _) in held_lessons(one).items() if key in asked)
                same = one if one.version == library.version else same
        parked = {one.experience.id: one.reason for one in library.withheld if one.status == "parked"}
        return cls(found, same, NotShown({one: parked[one] for one in parked if one in found} | dict(rule.reasons)))


class _Check:
    """Takes lessons one after the other; each is compared with those before it."""

    def __init__(
        self,
        author: Author,
        reason: str,
        into: Library,
        known: _Known,
        given: Iterable[str],
        name: str,
        sections: bool = False,
    ) -> None:
        self._sections = sections
        self._into, self._known, self._name = into, known, name
        self._from = reason
        has = [one.lesson for one in (*into.experiences, *(held.experience for held in into.withheld))]
        self._strangers = (author,)
        self._near, self._texts, self._had = NearIndex((*has, *given)), list[str](), len(has)
        self._taken, self._refused = list[Withheld](), list[_RefusedLesson]()
        self._waiting, self._kept = set[ExperienceId](), set[ExperienceId]()
        self._ids = {*into.by_id, *(one.experience.id for one in into.withheld)}
        for text in has:
            self._remember(text)

    def take(self, lesson: FoundLesson, own: Experience | None) -> None:
        """Check one lesson."""
        end = self._end(lesson)
        if isinstance(end, Rejected):
            shown = lesson.text if isinstance(lesson.text, str) else shown_value(lesson.text)
            self._refused.append(_RefusedLesson(lesson.place, shown[:200], end.code, end.reason))
            return
        text, tags, near = end
        self._remember(text)
        made = self._known_copy(own, text) or self._new(text, tags)
        self._ids.add(made.id)
        note = "".join(f"; {one}" for one in (lesson.note, near) if one)
        why = self._known.not_shown.reason(made)
        status, reason = ("pending", f"{self._from}{note}") if why is None else ("parked", why)
        self._taken.append(Withheld(experience=made, status=status, reason=reason))
        if lesson.withheld:
            self._waiting.add(made.id)

    def result(self, path: str, form: Form) -> ImportedLessons:
        """What became of all lessons."""
        return ImportedLessons(
            path=path,
            form=form,
            lessons=tuple(self._taken),
            refused=tuple(self._refused),
            known=frozenset(self._kept),
            waiting=frozenset(self._waiting),
            published=self._known.published,
        )

    def _end(self, lesson: FoundLesson) -> tuple[str, tuple[str, ...], str] | Rejected:
        """The text, its tags and which lesson of the same file says nearly the same; or why it cannot be used."""
        tags = tags_of(lesson.tags).kept
        text = lesson.text
        if isinstance(text, str):
            text = text if is_section(text) and self._sections else text.strip()
        checked = checked_lesson(text, sections=self._sections)
        if isinstance(checked, Rejected):
            return checked
        if end := None if is_section(checked) else screened(checked):
            return end
        near = self._near.near(checked)
        if is_section(checked) and (near is None or near >= self._had):
            return checked, tags, ""  # a document may say something twice
        if near is not None and self._texts[near].split() == checked.split():
            return Rejected(code=DUPLICATE, reason="the library or the file has this lesson already")
        says = "" if near is None else f"it says nearly the same as {self._texts[near]!r}"
        if near is not None and near < self._had:
            return reject(RejectionCode.NEAR_DUPLICATE, f"{says}, which the library has")
        return checked, tags, says

    def _remember(self, text: str) -> None:
        self._near.add(text)
        self._texts.append(text)

    def _known_copy(self, own: Experience | None, text: str) -> Experience | None:
        """The store's copy of a lesson of ours; None for a lesson that the store did not publish."""
        copy = self._known.lessons.get(own.id) if own is not None else None
        if copy is None or copy.lesson != text or copy.id in self._ids:
            return None
        self._kept.add(copy.id)
        return copy

    def _new(self, text: str, tags: tuple[str, ...]) -> Experience:
        operation = ["import", text, list(tags)]
        made = experience_id(self._into.version, operation, len(self._taken), library=self._name)
        return Experience(id=made, lesson=text, tags=tags, origin=Origin(kind="import", strangers=self._strangers))
