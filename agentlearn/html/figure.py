"""What holds content: a figure with its caption and the page's mark, a box that scrolls, a fold."""

from agentlearn.html.markup import Html, element, joined


def figure(kind: str, caption: str, content: Html, *, mark: str, note: str = "") -> Html:
    """A figure of the given kind (a CSS class). The mark, such as `simulated`, stands in the caption itself."""
    return element(
        "figure",
        element("figcaption", element("bdi", caption), marked(mark)),
        content,
        element("p", note, class_="quiet") if note else None,
        class_=kind,
    )


def marked(mark: str) -> Html | None:
    """The mark as a label after a heading."""
    return joined(" ", element("span", mark, class_="mark")) if mark else None


def named(caption: str, mark: str) -> str:
    """The caption with the mark, as the accessible name of a region or chart."""
    return f"{caption} ({mark})" if mark else caption


def scrolling(content: Html, name: str) -> Html:
    """A box that scrolls sideways by itself, also by keyboard."""
    return element("div", content, class_="scroll", role="region", aria_label=name, tabindex=0)


def fold(summary: str, content: Html, *, aside: str = "", unfolded: bool = False) -> Html:
    """Content under a line that says what it is, with a figure or word at the line's end."""
    line = element(
        "summary",
        element("bdi", summary),
        element("span", element("bdi", aside), class_="aside") if aside else None,
    )
    return element("details", line, element("div", content, class_="fold"), open=unfolded)
