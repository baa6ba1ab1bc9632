"""Tags: a few plain words by which lessons are grouped. What is no tag is left out, never a reason to refuse."""

import re
from collections.abc import Sequence
from typing import NamedTuple, cast

MAX_TAGS = 5
_TAG = re.compile(r"[a-z0-9-]{1,24}")


class Tags(NamedTuple):
    """The tags that were kept, and whether some were not."""

    kept: tuple[str, ...]
    ignored: bool


def tags_of(value: object) -> Tags:
    """Up to five different tags of the form [a-z0-9-]{1,24}; None means none."""
    if value is None:
        return Tags((), ignored=False)
    if not isinstance(value, list | tuple):
        return Tags((), ignored=True)
    asked = cast("Sequence[object]", value)
    sound = dict.fromkeys(tag for tag in asked if isinstance(tag, str) and _TAG.fullmatch(tag))
    kept = tuple(sound)[:MAX_TAGS]
    return Tags(kept, ignored=len(kept) < len(asked))
