"""Scrolling the page, or the part of it that scrolls around an element."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from agentlearn_web.browser.act_result import ActResult
from agentlearn_web.browser.acts.scope import ActScope
from agentlearn_web.browser.shown_snapshot import ShownSnapshot
from agentlearn_web.browser.tab import Tab
from agentlearn_web.observation import NEW, ElementLine

if TYPE_CHECKING:
    from playwright.async_api import Locator

Direction = Literal["down", "up", "left", "right", "start", "end"]
_SCROLL = """async (from, direction) => {
  const root = document.scrollingElement ?? document.documentElement;
  const room = (one, across) => across ? one.scrollWidth - one.clientWidth : one.scrollHeight - one.clientHeight;
  const scrolls = (one, across) => {
    if (room(one, across) < 1) return false;
    const style = getComputedStyle(one), kind = across ? style.overflowX : style.overflowY;
    return one === root ? !["hidden", "clip"].includes(kind) : ["auto", "scroll"].includes(kind);
  };
  const around = (across) => {
    for (let one = from; one; one = one.parentElement ?? one.getRootNode().host ?? null) {
      if (scrolls(one, across)) return one;
    }
    return scrolls(root, across) ? root : null;
  };
  const largest = (across) => {
    let found = null, area = 0;
    for (const one of [...document.querySelectorAll("*")].slice(0, 20000)) {
      const size = one.clientWidth * one.clientHeight;
      if (size > area && scrolls(one, across)) [found, area] = [one, size];
    }
    return found;
  };
  const scroller = (across) => around(across) ?? (from ? null : largest(across));
  let across = direction === "left" || direction === "right", one = scroller(across);
  if (!one && (direction === "start" || direction === "end")) { across = true; one = scroller(across); }
  if (!one) return "none";
  const { top, bottom } = one.getBoundingClientRect();
  if (from && one !== root && (top < 0 || bottom > innerHeight)) {  // some lists start when they come into the window
    one.scrollIntoView({ block: "nearest", inline: "nearest", behavior: "instant" });
    await new Promise((drawn) => { requestAnimationFrame(() => setTimeout(drawn, 50)); setTimeout(drawn, 300); });
  }
  const side = across ? "left" : "top", before = [one.scrollTop, one.scrollLeft];
  const page = 0.9 * (across ? one.clientWidth : one.clientHeight);
  const by = { down: page, right: page, up: -page, left: -page, start: -1e9, end: 1e9 }[direction];
  one.scrollBy({ [side]: by, behavior: "instant" });
  return one.scrollTop !== before[0] || one.scrollLeft !== before[1] ? "moved" : "at the end";
}"""
_DIRECTIONS = ", ".join(get_args(Direction))


async def scroll_page(scope: ActScope, direction: str, ref: str | None = None) -> ActResult:
    """Scroll by nine tenths of what is visible, or to the start or end.

    Without a ref, the page is scrolled, or the largest part that scrolls if the page itself does not.
    """
    if direction not in get_args(Direction):
        note = f"nothing was scrolled: there is no direction {direction[:40]!r}; give one of {_DIRECTIONS}"
        return ActResult("bad_direction", note, acted=False)
    if ref is None:
        return _result(await scope.tab.page.evaluate(f"(direction) => ({_SCROLL})(null, direction)", direction))

    async def scroll(element: "Locator") -> ActResult:
        return _result(await element.evaluate(_SCROLL, direction, timeout=scope.action_ms))

    return await scope.on_element(ref, scroll)


def _result(moved: Any) -> ActResult:
    if moved == "moved":
        return ActResult(seeks_new=True)
    if moved == "none":
        return ActResult("no_more", "nothing was scrolled: all of it is visible; `more` shows the rest of a long page")
    return ActResult("no_more", "nothing was scrolled: there is nothing further in this direction")


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
