"""Published libraries as plain files: `LibraryStore`."""

from agentlearn.library.form import Form
from agentlearn.library.store import NO_LIBRARY, LibraryStore, Publication, StoredLibrary

__all__ = ["NO_LIBRARY", "Form", "LibraryStore", "Publication", "StoredLibrary"]
