"""Finding any version of a library: those published as files, and those in between, which only the store has."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agentlearn.config.command_words import command_words
from agentlearn.errors import LibraryError, StoreError
from agentlearn.library import LibraryStore
from agentlearn.store import StoreReader, read_store
from agentlearn.types.experience import Library
from agentlearn.types.ids import LibraryVersion, RunId

_LISTED = 8
"""Largest number of versions that a message lists."""


@dataclass(frozen=True, slots=True)
class FoundLibrary:
    """A library that a reference names."""

    library: Library
    published: bool
    """Whether it is a file, so that every command can use it by this reference."""


def find_library(store: Path, reference: str) -> FoundLibrary:
    """The library of a reference: `NAME`, `NAME@X`, `@VERSION` of any name, a JSON file, or `none`.

    X is a branch, a tag, or any prefix of exactly one version, as is VERSION. Raises LibraryError.
    """
    published = LibraryStore(store / "libraries")
    name, at, prefix = reference.partition("@")
    if not at or reference.endswith(".json") or "/" in reference or published.is_label(name, prefix):
        return FoundLibrary(published.load(reference), published=True)
    try:
        with read_store(store) as reader:
            return _find(published, reader, name, prefix)
    except StoreError:  # published versions are files and need no store
        if not name:
            raise
        return FoundLibrary(published.load(reference), published=True)


def _find(published: LibraryStore, reader: StoreReader, name: str, prefix: str) -> FoundLibrary:
    files = {version: one for one in published.names() for version in published.versions(one) if name in {"", one}}
    names = _Names(reader)
    known = sorted({*files, *(one.version for one in reader.versions("") if not name or name in names.of(one.run))})
    if name and not known:
        published.load(name)  # raises the error for an unknown name
    matching = [one for one in known if one.startswith(prefix)]
    if len(matching) == 1:
        (version,) = matching
        if version in files:
            return FoundLibrary(published.load(f"{files[version]}@{version}"), published=True)
        return FoundLibrary(reader.library(version), published=False)
    called = f"library {name!r}" if name else f"the store {str(reader.directory)!r}"
    count = f"{len(matching)} versions" if matching else "no version"
    elsewhere = "" if matching or not name else _elsewhere(reader, prefix)
    raise LibraryError(
        f"{called} has {count} starting with {prefix!r} (found: {_listed(matching or known)}){elsewhere}",
        code="unknown_version",
    )


def _elsewhere(reader: StoreReader, prefix: str) -> str:
    """The command for a version that the store has under another name."""
    if not prefix or not reader.versions(prefix):
        return ""
    show = command_words("library", "show", f"@{prefix}", store=reader.directory)
    return f"; the store has one of another name: {show}"


def _listed(versions: list[LibraryVersion]) -> str:
    named = [repr(one[:8]) for one in versions[:_LISTED]]
    return ", ".join([*named, *(["…"] if len(versions) > len(named) else [])]) or "none"


@dataclass(slots=True)
class _Names:
    """The library names of learn runs."""

    reader: StoreReader
    _known: dict[RunId, str] | None = None

    def of(self, run: RunId | None) -> Iterable[str]:
        """The name of the library that a run learned; nothing for another kind of run."""
        if self._known is None:
            rows = (one for one in self.reader.runs(limit=1_000_000) if one.kind == "learn")
            settings = ((row.run, json.loads(row.settings)) for row in rows)
            self._known = {run: str(given.get("name") or given.get("domain")) for run, given in settings}
        return [self._known[run]] if run is not None and run in self._known else []
