"""Published libraries as plain files, readable without the database and its lock.

DIR/NAME/VERSION.json    one file per published version, written once
DIR/NAME/history.jsonl   one line per change, only appended to (`library.history`)
DIR/NAME/HEAD            one line per version that the name came to mean, `VERSION TIME`; the last is current
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from agentlearn.errors import LibraryError
from agentlearn.files import readable
from agentlearn.library.formats import parse_library, write_form
from agentlearn.library.formats.source_files import Form
from agentlearn.library.history import History
from agentlearn.library.history.change_log import (
    HEAD_FILE,
    LOG_FILE,
    NO_LIBRARY,
    Change,
    ChangeKind,
    ChangeLog,
    HeadEntry,
    checked_library_name,
    head_entries,
    is_library_name,
)
from agentlearn.library.history.three_way import Ancestry, HeldLesson, lessons_from
from agentlearn.text import nearest_name
from agentlearn.types.author import Author
from agentlearn.types.experience import EMPTY_LIBRARY, Experience, Library, Origin
from agentlearn.types.ids import ExperienceId, LibraryVersion


@dataclass(frozen=True, slots=True)
class StoredLibrary:
    """The current version of a library."""

    name: str
    version: LibraryVersion
    lessons: int
    """Number of lessons."""
    tokens: int
    """Estimated tokens of all lessons."""
    at: datetime
    """When this version became current."""


@dataclass(frozen=True, slots=True)
class Publication:
    """A version that is or was the current one of its library."""

    version: LibraryVersion
    parent: LibraryVersion | None
    """The version that it was made from."""
    lessons: int
    """Number of lessons."""
    tokens: int
    """Estimated tokens of all lessons."""
    added: int
    """Lessons that the previous publication did not hold."""
    removed: int
    """Lessons of the previous publication that this one does not hold."""
    at: datetime
    """When it was published."""


class LibraryStore:
    """The published libraries in a directory. Publishing creates the directory."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)

    def history(self, name: str) -> History:
        """Return the history of a library, which need not exist yet. Raises LibraryError for a bad name."""
        return History(self.directory, name)

    def publish(
        self,
        name: str,
        library: Library,
        *,
        kind: ChangeKind = "publish",
        base: LibraryVersion | None = None,
        run: str = "",
        who: str = "",
        note: str = "",
    ) -> Path:
        """Make the library the current version of `main` under that name and return its file. Raises LibraryError.

        kind: what made it. base: the version that a run started from. A pinned name goes on meaning the pinned version.
        """
        try:
            self.history(name).publish(library, kind=kind, base=base, run=run, who=who, note=note)
        except LibraryError as error:
            if error.code != "not_written":
                raise
            reason = error.__cause__
            raise LibraryError(f"library {name!r} could not be published: {reason}", code=error.code) from reason
        return self._folder(name) / f"{library.version}.json"

    def load(self, reference: str) -> Library:
        """Return the library of a reference: `NAME`, `NAME@X`, a JSON file, or `none`. Raises LibraryError.

        X is a branch, a tag, or any prefix of exactly one version. A reference that ends in `.json` or holds a `/` is a
        file.
        """
        if reference == NO_LIBRARY:
            return EMPTY_LIBRARY
        if reference.endswith(".json") or "/" in reference:
            return self.read_file(Path(reference))
        name, at, wanted = reference.partition("@")
        self._refuse_unknown(name)
        history = self.history(name)
        return history.load(wanted if at else None)

    def read_file(self, file: Path) -> Library:
        """Return the library in a file. Raises LibraryError.

        Lessons that no library of the store has shown are a stranger's, whatever the file says about who wrote them.
        """
        try:
            text = readable(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise LibraryError(f"library file {str(file)!r} cannot be read: {error}") from error
        library, shown = parse_library(text, str(file)), self.shown_lessons()
        stranger = Origin(kind="import", strangers=(Author(kind="library", name=file.name),))

        def known(one: Experience) -> Experience:
            own = shown.get(one.id)
            if own is None:
                return one.model_copy(update={"origin": stranger.model_copy(update={"parents": one.origin.parents})})
            if own.lesson != one.lesson:
                raise LibraryError(
                    f"the lesson {one.id[:12]!r} of {str(file)!r} has other words in this store; an id always names the"
                    " same words, so write the lesson without it",
                    code="reused_id",
                )
            return own

        held = tuple(one.model_copy(update={"experience": known(one.experience)}) for one in library.withheld)
        return library.model_copy(update={"experiences": tuple(map(known, library.experiences)), "withheld": held})

    def shown_lessons(self) -> dict[ExperienceId, Experience]:
        """Return the lessons that any library of the store has shown: those that a person or a run published.

        Versions that only a branch, a tag or a rollback names are left out, and so are damaged ones.
        """
        found: dict[ExperienceId, Experience] = {}
        for name in self.names():
            history = self.history(name)
            with suppress(LibraryError):
                for version in dict.fromkeys(one.version for one in history.changes if one.makes):
                    with suppress(LibraryError):
                        found.update(history.load(version).by_id)
        return found

    def head(self, name: str) -> Path:
        """Return the file that a publication under that name replaces. Raises LibraryError for a bad name."""
        return self._folder(name) / HEAD_FILE

    def watched(self, reference: str) -> Path | None:
        """Return the file that changes when a reference gets another meaning; None for one that never does."""
        name, at, label = reference.partition("@")
        if not at:
            return self.head(name)
        moves = self._known(name) and label in self.history(name).state.branches
        return self._folder(name) / LOG_FILE if moves else None

    def is_label(self, name: str, label: str) -> bool:
        """Whether a library has a branch or a tag of that name."""
        if not is_library_name(name) or not self._known(name):
            return False
        state = self.history(name).state
        return label in state.branches or label in state.tags

    def names(self) -> tuple[str, ...]:
        """Return the names of all libraries, sorted."""
        folders = {file.parent.name for name in (HEAD_FILE, LOG_FILE) for file in self.directory.glob(f"*/{name}")}
        return tuple(sorted(name for name in folders if is_library_name(name) and self._known(name)))

    def versions(self, name: str) -> tuple[LibraryVersion, ...]:
        """Return every published version of a library, sorted; none for an unknown name. Raises LibraryError."""
        return self.history(name).versions()

    def log(self, name: str) -> list[Publication]:
        """Return the versions that the name came to mean, newest first. Raises LibraryError."""
        self._refuse_unknown(name)
        publications: list[Publication] = []
        before = EMPTY_LIBRARY
        for version, at in self._heads(name):
            library = self.history(name).load(version)
            publications.append(
                Publication(
                    version=version,
                    parent=library.parent,
                    lessons=len(library),
                    tokens=library.tokens,
                    added=len(library.by_id.keys() - before.by_id.keys()),
                    removed=len(before.by_id.keys() - library.by_id.keys()),
                    at=at,
                )
            )
            before = library
        return publications[::-1]

    def lessons_from(self, identities: Iterable[ExperienceId]) -> tuple[HeldLesson, ...]:
        """Return the lessons, and those that go back to one of them, with the versions of all libraries that hold each.

        Raises LibraryError for a version that cannot be read.
        """
        histories = [(name, self.history(name)) for name in self.names()]
        named = ((name, history.load(version)) for name, history in histories for version in history.versions())
        return lessons_from(identities, named)

    def ancestry(self) -> Ancestry:
        """Return what all libraries know of where their versions and lessons come from. What is damaged is left out."""
        libraries, changes = list[Library](), list[Change]()
        for name in self.names():
            history = self.history(name)
            with suppress(LibraryError):
                changes += history.changes
            for version in history.versions():
                with suppress(LibraryError):
                    libraries.append(history.load(version))
        return Ancestry(libraries, changes)

    def export(self, reference: str, out: Path, format: Form = "agentlearn") -> None:  # noqa: A002 - the name of the option
        """Write a library to a file. Raises LibraryError, also where another file or a changed one is there."""
        write_form(self.load(reference), out, format, known=self.exported(reference))

    def exported(self, reference: str) -> Iterator[Library]:
        """Yield the published versions of the library of a reference, the newest first; none for a file."""
        name = reference.partition("@")[0]
        if not is_library_name(name) or not self._known(name):
            return
        history = self.history(name)
        for version in dict.fromkeys(one.version for one in reversed(history.changes)):
            with suppress(LibraryError):  # a damaged version was exported by nobody
                yield history.load(version)

    def list(self) -> list[StoredLibrary]:
        """Return the current version of every library, sorted by name."""
        return [self._current(name) for name in self.names()]

    def _folder(self, name: str) -> Path:
        return self.directory / checked_library_name(name)

    def _known(self, name: str) -> bool:
        return ChangeLog(self._folder(name)).exists()

    def _refuse_unknown(self, name: str) -> None:
        if not self._known(name):
            found = ", ".join(repr(one) for one in self.names()) or "none"
            meant = nearest_name(name, self.names())
            raise LibraryError(
                f"library {name!r} is not in the library store {str(self.directory)!r} (found: {found});"
                f" {f'did you mean {meant!r}?' if meant else 'learn one, or pass a file'}",
                code="unknown_library",
            )

    def _heads(self, name: str) -> tuple[HeadEntry, ...]:
        """Versions with the times at which the name came to mean them, oldest first."""
        return head_entries(self.history(name).changes)

    def _current(self, name: str) -> StoredLibrary:
        version, at = self._heads(name)[-1]
        library = self.history(name).load(version)
        return StoredLibrary(name=name, version=version, lessons=len(library), tokens=library.tokens, at=at)
