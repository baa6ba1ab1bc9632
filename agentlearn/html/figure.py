"""Containers: a figure with its caption, a box that scrolls sideways, and a fold."""

from collections.abc import Iterable

from agentlearn.html.markup import Html, element, joined
from agentlearn.html.saved_figure import Strip, save_link


def figure(
    kind: str, caption: str, content: Html, *, mark: str, note: str = "", saved: Iterable[Strip] | None = None
) -> Html:
    """A figure with a caption. kind: its CSS class. mark: label in the caption, such as `simulated`.

    saved: what the file holds that its link saves; None: the figure has no such link.
    """
    return element(
        "figure",
        element("figcaption", element("bdi", caption), marked(mark)),
        content,
        element("p", note, class_="quiet") if note else None,
        save_link(caption, mark, saved) if saved is not None else None,
        class_=kind,
    )


def marked(mark: str) -> Html | None:
    """The mark as a label after a heading; None when there is no mark."""
    return joined(" ", element("span", mark, class_="mark")) if mark else None


def named(caption: str, mark: str) -> str:
    """The caption and the mark, as the accessible name of a region or chart."""
    return f"{caption} ({mark})" if mark else caption


def scrolling(content: Html, name: str) -> Html:
    """A box that scrolls sideways, also by keyboard. name: its accessible name."""
    return element("div", content, class_="scroll", role="region", aria_label=name, tabindex=0)


def fold(summary: str, content: Html, *, aside: str = "", unfolded: bool = False) -> Html:
    """Content that unfolds under a summary line. aside: text at the end of that line."""
    line = element(
        "summary",
        element("bdi", summary),
        element("span", element("bdi", aside), class_="aside") if aside else None,
    )
    return element("details", line, element("div", content, class_="fold"), open=unfolded)
