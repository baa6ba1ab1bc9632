"""Labelled and indented text. What a model wrote stays to the right of the labels, so that it cannot imitate them."""

from agentlearn.text import visible

WIDTH = 11
"""Width of the column of labels."""
MAX_CHARACTERS = 2_000
"""Largest number of characters of one text, unless all of it is wanted."""


def labelled(label: str, text: str) -> str:
    """The text with a label to the left of its first line."""
    first, *others = visible(text).split("\n")
    return "\n".join([label.ljust(WIDTH) + first, *(" " * WIDTH + one for one in others)])


def indented(text: str, by: int = 2) -> str:
    """The text with spaces to the left of each line."""
    return "\n".join(" " * by + one for one in visible(text).split("\n"))


def shortened(text: str, *, full: bool, limit: int = MAX_CHARACTERS) -> str:
    """The text, or without `full` its beginning and its end, with the number of characters left out."""
    if full or len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    return f"{text[:head]}\n[… {len(text) - head - tail:,} characters left out; --full prints them …]\n{text[-tail:]}"


def one_line(text: str, limit: int = 100) -> str:
    """The text on one line, cut at its end."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def visible_lines(text: str, by: int) -> str:
    """The text with spaces to the left of each line but the first."""
    return visible(text).replace("\n", "\n" + " " * by)
