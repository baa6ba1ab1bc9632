"""Labelled and indented text. What a model wrote stays to the right of the labels, so that it cannot imitate them."""

from agentlearn.text import Block, block

WIDTH = 11
"""Width of the column of labels."""
MAX_CHARACTERS = 2_000
"""Largest number of characters of one text, unless all of it is wanted."""


def labelled(label: str, text: str) -> Block:
    """The text with a label to the left of its first line."""
    return block(text, label.ljust(WIDTH), " " * WIDTH)


def labelled_command(label: str, text: str) -> str:
    """One line of ours with a label. A terminal breaks it where it likes, so that a command in it can be copied."""
    return f"{label.ljust(WIDTH)}{text}"


def indented(text: str, by: int = 2) -> Block:
    """The text with spaces to the left of each line."""
    return block(text, " " * by)


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
