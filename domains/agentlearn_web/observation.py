"""The observation that a model gets after each act: a typed value, its rendering as text, and a parser for that text.

Text from a site is placed between `<page N>` and `</page N>`, where N is a nonce that the site cannot know. Everything
outside is written by us. For the parts that the simulated solver uses, `parse_observation` inverts
`render_observation`.
"""

import json
import re
from itertools import chain, repeat
from typing import Literal
from urllib.parse import quote, unquote, urlsplit

from pydantic import Field

from agentlearn.types.trajectory import Step, ToolResult, Trajectory
from agentlearn.types.value import Value

EventKind = Literal[
    "dialog", "download", "blocked", "popup", "closed", "crashed", "truncated", "incomplete", "new", "unchanged"
]
_MAX_URL = 400
"""Most characters of an address that are shown."""

NOT_VISIBLE = "not visible"
"""Mark of a line whose words a person cannot see on the page."""
PARTLY_VISIBLE = "partly not visible"
NEW = "new"
"""Mark of a line that the view before did not have."""
SCROLLS = "scrolls"
"""Mark of an element in a part of the page that scrolls by itself."""
PRE = "pre"
"""Role of one line of a preformatted text. Its spaces are kept."""
CONTEXT = "context"
"""Mark of a line that a search shows with a match: the heading above it, or a neighbouring text."""

_LINE = re.compile(
    r'^( *)- ([\w/-]+)(?: ("(?:[^"\\]|\\.)*"))?((?: \[[^\[\]"]+\])*)(?: -> (\S+))?(?:: (.*))?$', re.DOTALL
)
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_FLAG = "\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,6}\U000e007f"
_UNSEEN = re.compile(f"({_FLAG})|[\U000e0000-\U000e007f]+|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{{2,}}")
"""Characters that no person sees and that can hold a text for a model: tags, if they make no flag, and rows of
variation selectors."""
_FOUND = re.compile(r"^p\d+ \| ")
_REF = re.compile(r"t[0-9]+:\w+")
_FENCE = re.compile(r"^<page (\w+)>\n(.*?)^</page \1>$", re.MULTILINE | re.DOTALL)
_HEADER = re.compile(r"^(status|url|tab|page|event): (.*)$", re.MULTILINE)
_FORGED = re.compile(r"\[(?=\s*(?:ref\s*=|t[0-9]+:))|<(?=\s*/?\s*page\b)", re.IGNORECASE)


class ElementLine(Value):
    """One element of a page's accessibility tree."""

    depth: int = Field(default=0, ge=0)
    role: str
    """ARIA role, or `text`."""
    name: str = ""
    """Accessible name."""
    marks: tuple[str, ...] = ()
    """States such as `checked`, `disabled`, `level=2`."""
    ref: str = ""
    """Ref with which an act names it, such as `t2:e5`; empty if it cannot be acted on."""
    url: str = ""
    """Target of a link, as the page writes it."""
    text: str = ""
    """The element's own text or value."""

    @property
    def words(self) -> str:
        """Its text, or its name if it has no text. A property of an element, like a placeholder, has none."""
        return "" if self.role.startswith("/") else self.text or self.name


class TabLine(Value):
    """One open tab."""

    id: str
    url: str
    title: str = ""


class Event(Value):
    """Something that happened in addition to the act."""

    kind: EventKind
    reason: str = ""
    """What happened, in our own words."""
    site_text: str = ""
    """Text from the site, shown inside the fence."""


class PageObservation(Value):
    """What a model sees after an act: the page, and why the act was not done if it was not."""

    status: str = "ok"
    """`ok`, or a stable code such as `stale_ref`."""
    note: str = ""
    """For statuses other than `ok`: what happened and what can be done about it, in our own words."""
    tab: str
    tabs: tuple[TabLine, ...]
    """All open tabs, `tab` among them."""
    page: int = 1
    pages: int = 1
    """Number of pages into which the snapshot is split."""
    lines: tuple[ElementLine, ...] = ()
    found: tuple[int, ...] = ()
    """The snapshot page of each of the first lines, if they are not of `page`: an act has opened them elsewhere, or a
    search found them."""
    events: tuple[Event, ...] = ()

    @property
    def url(self) -> str:
        """Address of the shown tab."""
        return next((one.url for one in self.tabs if one.id == self.tab), "")

    @property
    def title(self) -> str:
        """Title of the shown tab."""
        return next((one.title for one in self.tabs if one.id == self.tab), "")


class ParsedObservation(Value):
    """An observation parsed from its text, for the simulated solver and the verifier."""

    status: str = "ok"
    url: str = ""
    tab: str = ""
    page: int = 1
    pages: int = 1
    title: str = ""
    lines: tuple[ElementLine, ...] = ()


def clean_site_text(text: str) -> str:
    """Return a site's text on one line, without characters that no person sees, our refs and our fences."""
    return _without_forgeries(" ".join(text.split()))


def _without_forgeries(text: str) -> str:
    seen = text if text.isascii() else _UNSEEN.sub(lambda found: found[1] or "", text)
    return _FORGED.sub(lambda found: "(" if found[0] == "[" else "‹", seen)


def format_line(line: ElementLine) -> str:
    """Return the element as one line, such as `- link "People" [t1:e5] -> /people`; the name is quoted as JSON."""
    clean_name = clean_site_text(line.name)
    if line.role == PRE:  # with its spaces, but without other line breaks and control characters
        clean_text = _without_forgeries(_CONTROL.sub(" ", line.text.expandtabs(4)).rstrip())
    else:
        clean_text = clean_site_text(line.text)
    name = f" {json.dumps(clean_name, ensure_ascii=False)}" if clean_name else ""
    marks = "".join(f" [{mark}]" for mark in (*line.marks, *filter(None, [line.ref])))
    url = f" -> {_address(line.url)}" if line.url else ""
    text = f": {clean_text}" if clean_text else ""
    return f"{'  ' * line.depth}- {line.role}{name}{marks}{url}{text}"


def parse_line(text: str) -> ElementLine | None:
    """Return the element on a line of an observation, also one that a search shows with its page; None without one."""
    found = _LINE.fullmatch(_FOUND.sub("", text))
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
    """Return the text that a model reads. nonce: letters and digits that no page can know, fixed for a rollout."""
    head: list[str] = []
    if observation.status != "ok":
        head.append(f"status: {observation.status}. {observation.note}")
    more = " (more shows the next)" if observation.page < observation.pages else ""
    head += [
        f"url: {_address(observation.url)}",
        f"tab: {observation.tab} of {', '.join(one.id for one in observation.tabs)}",
        f"page: {observation.page} of {observation.pages}{more}",
        *(f"event: {one.kind}{f': {one.reason}' if one.reason else ''}" for one in observation.events),
    ]
    body = [f"title: {clean_site_text(observation.title)}"] if observation.title else []
    others = (one for one in observation.tabs if one.id != observation.tab)
    body += [f"tab {one.id}: {clean_site_text(one.title)} ({_address(one.url)})" for one in others]
    body += [f"{one.kind}: {clean_site_text(one.site_text)}" for one in observation.events if one.site_text]
    pages = (f"p{page} | " for page in observation.found)
    written = map(str.__add__, chain(pages, repeat("")), map(format_line, observation.lines))
    return "\n".join([*head, f"<page {nonce}>", *body, *written, f"</page {nonce}>"])


def parse_observation(text: str) -> ParsedObservation:
    """Parse a rendered observation. Any other text gives an empty observation."""
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
        lines=tuple(filter(None, map(parse_line, body))),
    )


def site_words(text: str) -> str:
    """Return the site's words in a rendered observation, in order, without refs and roles.

    Includes titles, names, texts and addresses, and the text of dialogs and other tabs.
    """
    words, fence = list[str](), _FENCE.search(text)
    for written in fence[2].splitlines() if fence else ():
        line = parse_line(written)
        words += [written.partition(": ")[2] or written] if line is None else [line.name, line.url, line.text]
    return " ".join(filter(None, words))


def _address(url: str) -> str:
    """Return an address without spaces or characters that could imitate our refs or fences, cut at `_MAX_URL`."""
    url = _UNSEEN.sub("", url)
    plain = re.sub(r"\[(?=t|ref)", "%5B", re.sub(r"\s", "%20", url), flags=re.IGNORECASE).replace("<", "%3C")
    return plain if len(plain) <= _MAX_URL else f"{plain[:_MAX_URL]}…"


_PORTS = {"http": ":80", "https": ":443"}


def page_key(url: str) -> str:
    """Return one form for all addresses of a page.

    The host is in lower case; default port, fragment and final slash are removed. It is cut as in observations.
    """
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return url
    scheme, host = parts.scheme.lower(), parts.netloc.lower().removesuffix(_PORTS.get(parts.scheme.lower(), "\n"))
    path = quote(unquote(parts.path), safe="/:@!$&'()*+,;=~…").rstrip("/")
    key = f"{scheme}://{host}{path}{f'?{parts.query}' if parts.query else ''}"
    return key[:_MAX_URL].rstrip("…")


def without_unseen(trajectory: Trajectory) -> Trajectory:
    """Return the trajectory without the lines of its observations that hold text marked as not visible."""

    def is_seen(written: str) -> bool:
        line = parse_line(written)
        return line is None or {NOT_VISIBLE, PARTLY_VISIBLE}.isdisjoint(line.marks)

    def seen(step: Step) -> Step:
        if not isinstance(step, ToolResult):
            return step
        kept = "\n".join(filter(is_seen, step.content.split("\n")))
        return step if kept == step.content else step.model_copy(update={"content": kept})

    return trajectory.model_copy(update={"steps": tuple(map(seen, trajectory.steps))})
