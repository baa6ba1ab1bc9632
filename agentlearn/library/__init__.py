"""Libraries: published versions as files, text formats, rendering, and the capability that shows lessons to agents."""

from agentlearn.library.formats.source_files import Form
from agentlearn.library.store import NO_LIBRARY, LibraryStore, Publication, StoredLibrary

__all__ = ["NO_LIBRARY", "Form", "LibraryStore", "Publication", "StoredLibrary"]
