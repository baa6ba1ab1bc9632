r"""The final answer in a cell: after `####` as in GSM8K, or in the last `\boxed{…}` of a solution as in MATH."""

import re
from collections.abc import Iterator

_BOX = re.compile(r"\\f?boxed(?![A-Za-z])\s*")
_MARKED = re.compile(r"(?m)^[ \t]*####[ \t]*(.*)\Z")
_JOINED = re.compile(r"(?:[\s$,;.]|\\[,;:! ()\[\]]|\\text\{?|\\(?:and|or|quad|qquad)\b|and|or|\})*", re.IGNORECASE)
"""What stands between two boxes of one answer."""
_AMOUNT = re.compile(r"([+-]?\d[\d,./:]*%?)\s*\([^()]*\)")


def marked_answer(text: str) -> str:
    """Return what follows `####` on the last line; the whole text when the last line has no such mark."""
    found = _MARKED.search(text.rstrip())
    return found[1].strip() if found else text


def amount_without_unit(text: str) -> str:
    """Return the numbers of an answer such as `9 (apples)` or `15 (balls); 24 (balls)`, as ASDiv writes them.

    Any other text is returned as it is.
    """
    found = [_AMOUNT.fullmatch(part.strip()) for part in text.split(";")]
    return "; ".join(one[1] for one in found if one) if all(found) else text


def boxed_answer(solution: str) -> str:
    """Return the content of the last box. Raises ValueError with words that continue `FILE line N`."""
    boxes = list(_boxes(solution))
    if not boxes:
        raise ValueError(r"has no answer: its solution holds no \boxed{…}; put the answer into the column 'answer'")
    start, _, last = boxes[-1]
    if last is None:
        raise ValueError(r"has a solution whose last \boxed{ is never closed; write it out")
    if len(boxes) > 1:
        _, end, other = boxes[-2]
        if other is not None and other != last and _JOINED.fullmatch(solution[end:start]):
            raise ValueError(
                f"has a solution that ends in two boxes, {other!r} and {last!r}; put the answer into the column"
                " 'answer'"
            )
    if not last.strip():
        raise ValueError(r"has a solution whose last \boxed{…} is empty; put the answer into the column 'answer'")
    return last.strip()


def _boxes(text: str) -> Iterator[tuple[int, int, str | None]]:
    """Yield (start, end, content) of each outermost box; the content is None when the box is never closed."""
    at = 0
    while found := _BOX.search(text, at):
        if text[found.end() : found.end() + 1] != "{":
            plain = re.compile(r"[^\s$\\{}]+").match(text, found.end())
            end = plain.end() if plain else found.end()
            if plain:
                yield found.start(), end, plain[0].rstrip(".,;")
            at = max(end, found.end())
            continue
        close = _closing(text, found.end())
        if close is None:
            yield found.start(), len(text), None
            return
        yield found.start(), close + 1, text[found.end() + 1 : close]
        at = close + 1


def _closing(text: str, opening: int) -> int | None:
    r"""Return where the brace at `opening` closes; `\{` and `\}` are not braces. None when it does not."""
    depth, at = 0, opening
    while at < len(text):
        letter = text[at]
        if letter == "\\":
            at += 2
            continue
        depth += (letter == "{") - (letter == "}")
        if depth == 0:
            return at
        at += 1
    return None
