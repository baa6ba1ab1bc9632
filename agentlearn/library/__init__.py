"""Published libraries as plain files: `Shelf`."""

from agentlearn.library.form import Form
from agentlearn.library.shelf import NO_LIBRARY, Publication, Shelf, Shelved

__all__ = ["NO_LIBRARY", "Form", "Publication", "Shelf", "Shelved"]
