"""What the walker shows a model after each act: a typed value, the text made of it, and that text read back.

Whatever a site wrote stands between `<page N>` and `</page N>`, N being a number that the site cannot know; what stands
outside is ours. `render_observation` and `parse_observation` are each other's inverse for everything that the simulated solver looks at.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import Field

from agentlearn.types.value import Value

EventKind = Literal["dialog", "download", "blocked", "popup", "closed", "crashed", "truncated"]
MAX_URL = 400
"""Characters of an address that are shown."""

_LINE = re.compile(
    r'^( *)- ([\w/-]+)(?: ("(?:[^"\\]|\\.)*"))?((?: \[[^\]\s"]+\])*)(?: -> (\S+))?(?:: (.*))?$', re.DOTALL
)
_REF = re.compile(r"t[0-9]+:\w+")
_FENCE = re.compile(r"^<page (\w+)>\n(.*?)^</page \1>$", re.MULTILINE | re.DOTALL)
_HEADER = re.compile(r"^(status|url|tab|page|event): (.*)$", re.MULTILINE)
_FORGED = re.compile(r"\[(?=\s*(?:ref\s*=|t[0-9]+:))|<(?=\s*/?\s*page\b)", re.IGNORECASE)


class ElementLine(Value):
    """One element of a page, as its accessibility tree has it."""

    depth: int = Field(default=0, ge=0)
    role: str
    """ARIA role, or `text`."""
    name: str = ""
    """Accessible name."""
    marks: tuple[str, ...] = ()
    """States such as `checked`, `disabled`, `level=2`."""
    ref: str = ""
    """How to act on it, such as `t2:e5`; empty where nothing can be done with it."""
    url: str = ""
    """Where a link leads, as the page writes it."""
    text: str = ""
    """Its own text or value."""


class TabLine(Value):
    """One open tab."""

    id: str
    url: str
    title: str = ""


class Event(Value):
    """Something that happened beside the act."""

    kind: EventKind
    reason: str = ""
    """Our own words."""
    site_text: str = ""
    """The site's words, shown inside the fence."""


class PageObservation(Value):
    """A page as a model sees it, or why the act was not done."""

    status: str = "ok"
    """`ok`, or a stable code such as `stale_ref`."""
    note: str = ""
    """With any other status: what happened and what can be done, in our own words."""
    tab: str
    tabs: tuple[TabLine, ...]
    """All open tabs, `tab` among them."""
    page: int = 1
    pages: int = 1
    """The snapshot is cut into this many pages of about the budget's size."""
    lines: tuple[ElementLine, ...] = ()
    found: tuple[int, ...] | None = None
    """Of a search: on which page of the snapshot each line stands. None for a plain view."""
    events: tuple[Event, ...] = ()

    @property
    def url(self) -> str:
        """Address of the tab that is shown."""
        return next((one.url for one in self.tabs if one.id == self.tab), "")

    @property
    def title(self) -> str:
        """Title of the tab that is shown."""
        return next((one.title for one in self.tabs if one.id == self.tab), "")


class ParsedObservation(Value):
    """An observation as its text tells it; what the simulated solver and the verifier read."""

    status: str = "ok"
    url: str = ""
    tab: str = ""
    page: int = 1
    pages: int = 1
    title: str = ""
    lines: tuple[ElementLine, ...] = ()


def clean_site_text(text: str) -> str:
    """A site's text on one line, without anything that looks like a ref or a fence of ours."""
    return _FORGED.sub(lambda found: "(" if found[0] == "[" else "‹", " ".join(text.split()))


def format_line(line: ElementLine) -> str:
    """`- link "People" [t1:e5] -> /people`: one line, its name quoted as JSON."""
    name_text, text = clean_site_text(line.name), clean_site_text(line.text)
    name = f" {json.dumps(name_text, ensure_ascii=False)}" if name_text else ""
    marks = "".join(f" [{mark}]" for mark in (*line.marks, *filter(None, [line.ref])))
    url = f" -> {_address(line.url)}" if line.url else ""
    text = f": {text}" if text else ""
    return f"{'  ' * line.depth}- {line.role}{name}{marks}{url}{text}"


def parse_line(text: str) -> ElementLine | None:
    """The line that `format_line` made this of; None for any other text."""
    found = _LINE.fullmatch(text)
    if found is None:
        return None
    marks = tuple(re.findall(r"\[([^\]]+)\]", found[4]))
    ref = marks[-1] if marks and _REF.fullmatch(marks[-1]) else ""
    return ElementLine(
        depth=len(found[1]) // 2,
        role=found[2],
        name=json.loads(found[3]) if found[3] else "",
        marks=marks[:-1] if ref else marks,
        ref=ref,
        url=found[5] or "",
        text=found[6] or "",
    )


def render_observation(observation: PageObservation, nonce: str) -> str:
    """The text a model reads. nonce: letters and digits that no page can know, the same throughout a rollout."""
    return "\n".join([*_header(observation), f"<page {nonce}>", *_body(observation), f"</page {nonce}>"])


def parse_observation(text: str) -> ParsedObservation:
    """What a rendered observation says; of any other text, an empty view."""
    fence = _FENCE.search(text)
    ours = text[: fence.start()] if fence else text
    headers = {name: value for name, value in _HEADER.findall(ours) if name != "event"}
    body = fence[2].splitlines() if fence else []
    part_numbers = re.match(r"(\d+) of (\d+)", headers.get("page", ""))
    return ParsedObservation(
        status=headers.get("status", "ok").partition(".")[0],
        url=headers.get("url", ""),
        tab=headers.get("tab", "").partition(" ")[0],
        page=int(part_numbers[1]) if part_numbers else 1,
        pages=int(part_numbers[2]) if part_numbers else 1,
        title=next((line.removeprefix("title: ") for line in body if line.startswith("title: ")), ""),
        lines=tuple(filter(None, (parse_line(re.sub(r"^p\d+ \| ", "", line)) for line in body))),
    )


def site_words(text: str) -> str:
    """What sites wrote in a rendered observation, without refs and roles, in order.

    Titles, names, texts and addresses, and what dialogs and other tabs say.
    """
    fence = _FENCE.search(text)
    return " ".join(filter(None, map(_site_words_in, fence[2].splitlines()))) if fence else ""


def _site_words_in(written: str) -> str:
    line = parse_line(re.sub(r"^p\d+ \| ", "", written))
    if line is None:
        return written.partition(": ")[2] or written
    return " ".join(filter(None, (line.name, line.url, line.text)))


def _header(observation: PageObservation) -> Iterable[str]:
    if observation.status != "ok":
        yield f"status: {observation.status}. {observation.note}"
    yield f"url: {_address(observation.url)}"
    yield f"tab: {observation.tab} of {', '.join(one.id for one in observation.tabs)}"
    yield f"page: {observation.page} of {observation.pages}{' (more shows the next)' if observation.page < observation.pages else ''}"
    yield from (f"event: {one.kind}{f': {one.reason}' if one.reason else ''}" for one in observation.events)


def _body(observation: PageObservation) -> Iterable[str]:
    if observation.title:
        yield f"title: {clean_site_text(observation.title)}"
    for one in observation.tabs:
        if one.id != observation.tab:
            yield f"tab {one.id}: {clean_site_text(one.title)} ({_address(one.url)})"
    for event in observation.events:
        if event.site_text:
            yield f"{event.kind}: {clean_site_text(event.site_text)}"
    if observation.found is None:
        yield from map(format_line, observation.lines)
    else:
        yield from _found_lines(observation.lines, observation.found)


def _found_lines(lines: Sequence[ElementLine], pages: Sequence[int]) -> Iterable[str]:
    return (f"p{page} | {format_line(line).lstrip()}" for line, page in zip(lines, pages, strict=True))


def _address(url: str) -> str:
    """An address without spaces or brackets that could be read as ours, cut at `MAX_URL`."""
    plain = re.sub(r"\[(?=t|ref)", "%5B", re.sub(r"\s", "%20", url), flags=re.IGNORECASE).replace("<", "%3C")
    return plain if len(plain) <= MAX_URL else f"{plain[:MAX_URL]}…"
