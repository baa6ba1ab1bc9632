"""Tags: a few plain words that group lessons. An invalid tag is left out; it never refuses a lesson."""

import re
from collections.abc import Sequence
from typing import NamedTuple, cast

MAX_TAGS = 5
_TAG = re.compile(r"[a-z0-9-]{1,24}")


class Tags(NamedTuple):
    """The valid tags, and whether some were left out."""

    kept: tuple[str, ...]
    ignored: bool


def tags_of(value: object) -> Tags:
    """Return up to five different tags of the form [a-z0-9-]{1,24}. None means no tags."""
    if value is None:
        return Tags((), ignored=False)
    if not isinstance(value, list | tuple):
        return Tags((), ignored=True)
    asked = cast("Sequence[object]", value)
    sound = dict.fromkeys(tag for tag in asked if isinstance(tag, str) and _TAG.fullmatch(tag))
    kept = tuple(sound)[:MAX_TAGS]
    return Tags(kept, ignored=len(kept) < len(asked))
