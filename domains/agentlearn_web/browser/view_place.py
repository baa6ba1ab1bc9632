"""Which part of a page a view shows after an act."""

from collections.abc import Iterable
from dataclasses import replace

from agentlearn_web.browser.act_result import ActResult
from agentlearn_web.browser.shown_snapshot import ShownSnapshot
from agentlearn_web.browser.tab import Tab
from agentlearn_web.observation import NEW, ElementLine

_MOST_NEW = 0.8
"""Largest part of the lines that are marked as new."""
_NOTHING_NEW = (
    "the page was scrolled and shows nothing new; a view has all of the page, so `more` shows the part after this one"
)


def with_new_marks(before: ShownSnapshot, after: ShownSnapshot) -> ShownSnapshot:
    """Return the view with marks on the lines that the view before did not have; without, if hardly any is old."""
    known = {_content(line) for line in before.lines}
    new = {number for number, line in enumerate(after.lines) if _content(line) not in known}
    return after if len(new) > _MOST_NEW * len(after.lines) else after.marked(new, NEW)


def place_view(tab: Tab, shown: ShownSnapshot, result: ActResult) -> tuple[int, ActResult]:
    """Return the number of the part to show, and the result of the act.

    The part is that of the first new line if the act looks for new content, else that of the element acted on, else the
    same as before, or the first one of a new document.
    """
    same_document = tab.shown is not None and tab.shown.document == shown.document
    before = min(tab.page_number, len(shown.pages)) if same_document else 1
    place = shown.page_of(result.near_ref) or before
    if not (result.seeks_new and tab.shown is not None and same_document):
        return place, result
    new = _first_new(tab.shown.lines, shown.lines)
    if new is None:
        return place, replace(result, status="nothing_new", note=_NOTHING_NEW)
    return shown.page_numbers[new], result


def _first_new(before: Iterable[ElementLine], after: Iterable[ElementLine]) -> int | None:
    """Return the index of the first line that was not there before, whatever its ref and its marks."""
    known = {_content(line) for line in before}
    return next((index for index, line in enumerate(after) if _content(line) not in known), None)


def _content(line: ElementLine) -> tuple[str, str, str, str]:
    return line.role, line.name, line.url, line.text
