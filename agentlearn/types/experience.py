"""Experiences and the library that holds them.

An experience id always names the same text: a modified or merged lesson is a new experience whose `parents` name the
old ones (docs/decisions/0003). A library is an immutable version; a change makes a new version.
"""

import unicodedata
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from html import escape
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from agentlearn.errors import LibraryError
from agentlearn.text import estimated_tokens
from agentlearn.types.ids import ExperienceId, LibraryVersion, content_hash
from agentlearn.types.ranking import Retrieval, lesson_index
from agentlearn.types.rendering import (
    BLOCK_NAME_RULE,
    MAX_LESSON_CHARACTERS,
    MAX_LESSON_WORDS,
    Rendered,
    is_block_name,
    is_section,
    render_document,
    render_lines,
)
from agentlearn.types.value import Author, Value

DEFAULT_RETRIEVAL = Retrieval.model_construct()  # unlike `Retrieval()` it builds no schema while this is imported
_MOST_ROWS = 100
_MOST_QUOTED = 60
_MOST_NAMED = 10
MAX_SECTION_WORDS = 600
MAX_SECTION_CHARACTERS = 12_000
"""The limits of a section of Markdown. Code has long words, so it may have more characters for its words."""


def word_count(text: str) -> int:
    """Number of white-space separated words."""
    return len(text.split())


def lesson_limits(words: int = MAX_LESSON_WORDS) -> tuple[int, int]:
    """The largest numbers of words and of characters of a lesson that may have so many words.

    Scripts without spaces have few words by this count: there the characters bound a lesson, 12.5 for each word.
    """
    return min(words, MAX_LESSON_WORDS), min(words * 25 // 2, MAX_LESSON_CHARACTERS)


def is_section_character(character: str) -> bool:
    """Whether a section may hold it: what can be seen, spaces, tabs, line breaks, and what joins parts of a picture."""
    return character.isprintable() or character in "\n\t\u200d" or unicodedata.category(character) == "Zs"


def _lesson(text: str) -> str:
    if not text.strip():
        raise ValueError("a lesson must not be empty")
    if is_section(text):
        if not all(map(is_section_character, text)):
            raise ValueError("a section of Markdown holds printable characters, line breaks and tabs")
        if word_count(text) > MAX_SECTION_WORDS or len(text) > MAX_SECTION_CHARACTERS:
            raise ValueError(f"a section has at most {MAX_SECTION_WORDS} words and {MAX_SECTION_CHARACTERS} characters")
        return text
    if text != text.strip() or not text.isprintable():
        raise ValueError("a lesson is one line of printable characters without surrounding white space")
    if word_count(text) > MAX_LESSON_WORDS or len(text) > MAX_LESSON_CHARACTERS:
        raise ValueError(f"a lesson has at most {MAX_LESSON_WORDS} words and {MAX_LESSON_CHARACTERS} characters")
    return text


Lesson = Annotated[str, AfterValidator(_lesson)]
"""One printable line of 1 to 80 words, at most 800 characters; or a section of Markdown, which has line breaks: 1 to
600 words, at most 12,000 characters, with its heading, steps, code and tables kept as they are."""

OriginKind = Literal["add", "modify", "merge", "person", "import"]
"""How an experience was made: by an operation of a run, by a person, or by another program (a foreign lesson)."""
_KINDS: dict[OriginKind, str] = {
    "add": "learned",
    "modify": "learned, edited",
    "merge": "learned, merged",
    "person": "written by a person",
    "import": "imported from another program",
}


class Origin(Value):
    """How an experience was made."""

    kind: OriginKind
    parents: tuple[ExperienceId, ...] = ()
    """The experiences it replaces: one for modify and for an edit by a person, two or more for merge, else none."""
    library: LibraryVersion | None = None
    """The version that the operation changed; None for a lesson from a person or a file."""
    strangers: tuple[Author, ...] = Field(default=(), exclude_if=lambda authors: not authors)
    """The strangers who could have shaped it: those whose text its reflector read, and those of its parents."""

    @property
    def words(self) -> str:
        """How it was made, for people."""
        return _KINDS[self.kind]


class Experience(Value):
    """A lesson with a permanent id."""

    id: ExperienceId
    lesson: Lesson
    tags: tuple[str, ...] = ()
    origin: Origin

    @property
    def by_person(self) -> bool:
        """Whether a person wrote it. A run never changes, drops or hides such a lesson on its own."""
        return self.origin.kind == "person"

    @cached_property
    def tokens(self) -> int:
        """Estimated tokens of the lesson."""
        return estimated_tokens(self.lesson)


WithheldStatus = Literal["parked", "pending"]
"""Why a lesson is withheld: parked because of evidence or by a person, or pending until a person approves it."""


LessonStatus = Literal["shown", "parked", "pending"]
"""How a library holds a lesson: shown to agents, or withheld."""


class Withheld(Value):
    """A lesson that a library keeps and shows to no agent."""

    experience: Experience
    status: WithheldStatus
    reason: str = ""
    """Why, in a sentence."""


class KeptFile(Value):
    """A file that belongs to a library and is never run: a script or a reference of a skill."""

    path: str = Field(pattern=r"^[^/\\\x00-\x1f]+(?:/[^/\\\x00-\x1f]+){0,8}$", max_length=200)
    """Its place beside the main file, with `/`."""
    sha256: str = Field(pattern="[0-9a-f]{64}")
    """Hash of its bytes, which the library's store holds."""

    @model_validator(mode="after")
    def _stays_inside(self) -> Self:
        if any(part.startswith(".") for part in self.path.split("/")):
            raise ValueError(f"{self.path!r} leads out of the folder of the skill, or is hidden")
        return self


class Library(Value):
    """An immutable version of an experience library. Lessons are shown in the order of `experiences`."""

    parent: LibraryVersion | None = None
    """The version that it was made from."""
    joined: LibraryVersion | None = Field(default=None, exclude_if=lambda version: version is None)
    """The other version that it was made from, where two were made one. Left out of dumps where it is None."""
    experiences: tuple[Experience, ...] = ()
    withheld: tuple[Withheld, ...] = Field(default=(), exclude_if=lambda lessons: not lessons)
    """Lessons that are kept and not shown. Left out of dumps where there are none."""
    document: str = Field(default="", exclude_if=lambda name: not name)
    """What the sections together are: the name of a file, `instructions` or `tools` of an agent. Empty: lessons."""
    files: tuple[KeptFile, ...] = Field(default=(), exclude_if=lambda files: not files)
    """Files beside a skill, by path. Left out of dumps where there are none."""

    @model_validator(mode="after")
    def _ids_are_unique(self) -> Self:
        ids = {one.id for one in self.experiences} | {one.experience.id for one in self.withheld}
        if len(ids) != len(self.experiences) + len(self.withheld):
            raise ValueError("a library holds each experience once")
        return self

    @cached_property
    def by_id(self) -> dict[ExperienceId, Experience]:
        """The experiences by id, in order."""
        return {experience.id: experience for experience in self.experiences}

    @cached_property
    def version(self) -> LibraryVersion:
        """Hash of the parents and of the ordered (id, lesson) pairs, and of the withheld ones with their status.

        Times, runs, rollouts and reasons are not part of it.
        """
        parts: list[object] = [[[experience.id, experience.lesson] for experience in self.experiences]]
        if self.joined is not None or self.withheld or self.document or self.files:
            parts += [self.joined, [[one.experience.id, one.experience.lesson, one.status] for one in self.withheld]]
        if self.document or self.files:
            parts += [self.document, [[one.path, one.sha256] for one in self.files]]
        return LibraryVersion(content_hash("library", self.parent, *parts))

    def next(
        self,
        experiences: Iterable[Experience],
        withheld: Iterable[Withheld] | None = None,
        *,
        joined: LibraryVersion | None = None,
    ) -> "Library":
        """A version made from this one, with other lessons. It is the same document and keeps the files.

        withheld: None: those of this version. joined: the other version that it is made from.
        """
        return Library(
            parent=self.version,
            joined=joined,
            experiences=tuple(experiences),
            withheld=self.withheld if withheld is None else tuple(withheld),
            document=self.document,
            files=self.files,
        )

    @property
    def written(self) -> tuple[Experience, ...]:
        """The lessons that a person wrote, in order, without those that are withheld."""
        return tuple(one for one in self.experiences if one.by_person)

    def only_written(self) -> "Library":
        """The version without the lessons that no person wrote. Withheld lessons stay withheld.

        It is the library itself where nothing is left out, and the empty library where nothing is left. A document
        stays whole: its sections are no additions to it.
        """
        if self.document or len(self.written) == len(self):
            return self
        if not self.written and not self.withheld:
            return EMPTY_LIBRARY
        return self.next(self.written)

    @cached_property
    def tokens(self) -> int:
        """Estimated tokens of all lessons."""
        return sum(experience.tokens for experience in self.experiences)

    @classmethod
    def of(cls, lessons: Iterable[str]) -> Self:
        """Return a library of lessons in words. Raises LibraryError, which names each lesson that cannot be used."""
        if isinstance(lessons, str):
            raise LibraryError(f"lessons are given as a list, not as one text: [{_quoted(lessons)}]")
        given = list(lessons)
        if wrong := [words for number, lesson in enumerate(given, 1) if (words := _wrong(number, lesson))]:
            more = f"; and {len(wrong) - _MOST_NAMED} more" if len(wrong) > _MOST_NAMED else ""
            named = "; ".join(wrong[:_MOST_NAMED])
            raise LibraryError(f"{named}{more}; correct each lesson or leave it out")
        return cls(experiences=library_of(given).experiences)

    def render(
        self,
        query: str | None = None,
        *,
        masked: Collection[ExperienceId] = (),
        name: str = "",
        retrieval: Retrieval = DEFAULT_RETRIEVAL,
        chosen: Collection[ExperienceId] | None = None,
        labelled: bool = False,
    ) -> Rendered:
        """Return the block of advice that agents read; `str(library.render())` is its text, empty without lessons.

        Agents read a document as it is, whole, without labels.

        query: the task at hand. Of a library with more than `retrieval.max_shown_tokens` tokens, only the lessons whose
        words fit it best are shown; without a query, every lesson is. masked: lessons to leave out; no other lesson
        takes their place. name: for the second and further libraries that one agent reads; it is part of the labels,
        so that `G1` stays unique. retrieval: how many lessons are shown, and which. chosen: the lessons to show, where
        they were chosen already. labelled: show a document's sections with their labels, for who changes it. Raises
        LibraryError for a name that labels cannot hold.
        """
        if name and not is_block_name(name):
            raise LibraryError(f"{name!r} cannot name lessons; use {BLOCK_NAME_RULE}")
        if self.document:
            return render_document(self.experiences, masked, labelled=labelled)
        if chosen is None:
            index = lesson_index(self.experiences, retrieval)
            chosen = (index.all() if query is None else index.choose(query, retrieval)).lessons
        return render_lines(self.experiences, masked, name=name, chosen=chosen)

    def _repr_html_(self) -> str:
        """A table of the lessons, for notebooks."""
        shown = self.experiences[:_MOST_ROWS]
        rows = "".join(
            f"<tr><td>{number}</td><td style='text-align:left'>{escape(one.lesson)}</td>"
            f"<td>{escape(', '.join(one.tags))}</td></tr>"
            for number, one in enumerate(shown, 1)
        )
        if more := len(self) - len(shown):
            rows += f"<tr><td></td><td style='text-align:left'>and {more} more</td><td></td></tr>"
        return (
            f"<p>Library, version <code>{escape(self.version[:8])}</code>, {counted_lessons(len(self))}</p>"
            f"<table><thead><tr><th></th><th>Lesson</th><th>Tags</th></tr></thead><tbody>{rows}</tbody></table>"
        )

    def __len__(self) -> int:
        return len(self.experiences)


EMPTY_LIBRARY = Library()


def experience_id(parent: LibraryVersion, operation: object, ordinal: int, *, library: str = "") -> ExperienceId:
    """Id of the experience that an operation makes in a library; the same words in another library have another id.

    parent: the version it changes. operation: its JSON form. ordinal: its place among the applied operations.
    library: name of the library; empty for lessons in a list or a file, which belong to none.
    """
    return ExperienceId(content_hash("experience", library, parent, operation, ordinal))


def library_of(lessons: Iterable[str], *, kind: OriginKind = "person", tags: tuple[str, ...] = ()) -> Library:
    """Return a library of these lessons. Raises pydantic.ValidationError for an invalid lesson."""
    experiences = tuple(
        Experience(
            id=experience_id(EMPTY_LIBRARY.version, [kind, lesson], ordinal),
            lesson=lesson,
            tags=tags,
            origin=Origin(kind=kind),
        )
        for ordinal, lesson in enumerate(lessons)
    )
    return Library(experiences=experiences)


def held_lessons(library: Library) -> dict[ExperienceId, tuple[Experience, LessonStatus]]:
    """Return every lesson of the library by id, shown or withheld, with its status."""
    held: dict[ExperienceId, tuple[Experience, LessonStatus]] = {one.id: (one, "shown") for one in library.experiences}
    withheld: list[tuple[Experience, WithheldStatus]] = [(one.experience, one.status) for one in library.withheld]
    return {**held, **{one.id: (one, status) for one, status in withheld}}


def withhold(library: Library, reasons: Mapping[ExperienceId, str], *, status: WithheldStatus = "parked") -> Library:
    """The next version, which keeps these lessons and shows them to no agent; the same library when there are none.

    reasons: why, in a sentence, by lesson. The other lessons keep their order, and lessons that were withheld before
    stay so. Raises LibraryError for a lesson that the library does not show, and that does not wait in it.
    """
    held = {one: made for one, (made, how) in held_lessons(library).items() if one in reasons and how != "parked"}
    if unknown := reasons.keys() - held.keys():
        raise LibraryError(
            f"the lesson {min(unknown)!r} is not among the lessons that version {library.version[:8]} shows;"
            " `agentlearn library show` lists them",
            code="unknown_lesson",
        )
    if not reasons:
        return library
    shown = tuple(one for one in library.experiences if one.id not in held)
    before = (one for one in library.withheld if one.experience.id not in held)
    parked = (Withheld(experience=made, status=status, reason=reasons[one]) for one, made in held.items())
    return library.next(shown, (*before, *parked))


def counted_lessons(number: int) -> str:
    """A number of lessons in words."""
    return f"{number} lesson{'' if number == 1 else 's'}"


def _wrong(number: int, lesson: object) -> str:
    """What is wrong with a lesson that a person gives; empty when nothing is."""
    try:
        library_of([lesson])  # pyright: ignore[reportArgumentType]  # what is given may be anything
    except ValidationError as error:
        reason = error.errors()[0]["msg"].removeprefix("Value error, ")
        return f"lesson {number} cannot be used: {reason}: {_quoted(lesson)}"
    return ""


def _quoted(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_QUOTED else f"{text[:_MOST_QUOTED]}…"
