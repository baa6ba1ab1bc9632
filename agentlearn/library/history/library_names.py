"""Which names a library, a branch and a tag can have."""

import re

from agentlearn.errors import LibraryError

NO_LIBRARY = "none"
"""The reference to the empty library."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_VERSION_PREFIX = re.compile(r"[0-9a-f]{1,32}")
_RULE = "use up to 64 lower-case letters, digits, '.', '_' and '-', a letter or digit first"


def is_library_name(name: str) -> bool:
    """Whether a library can have this name."""
    return bool(_NAME.fullmatch(name)) and not name.endswith(".json") and name != NO_LIBRARY


def checked_library_name(name: str) -> str:
    """Return the name. Raises LibraryError if no library can have it."""
    if not is_library_name(name):
        raise LibraryError(
            f"{name!r} is not a valid library name; {_RULE}, other than {NO_LIBRARY!r} and not ending in '.json'",
            code="bad_library_name",
        )
    return name


def is_version_prefix(text: str) -> bool:
    """Whether a text can be the start of a version."""
    return bool(_VERSION_PREFIX.fullmatch(text))


def checked_label(name: str, noun: str) -> str:
    """Return the name of a branch or a tag. noun: which of the two. Raises LibraryError if it cannot have the name."""
    if is_version_prefix(name):
        raise LibraryError(
            f"{name!r} could be the start of a version; use a name with a letter after 'f' or a '-', such as"
            f" {'v-' + name[:20]!r}",
            code="bad_label",
        )
    if not is_library_name(name):
        raise LibraryError(
            f"{name!r} cannot name a {noun}; {_RULE}, other than {NO_LIBRARY!r} and not ending in '.json'",
            code="bad_label",
        )
    return name
