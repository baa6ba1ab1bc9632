"""What a page of the web app is made of: parts, links, forms, and the frame around them."""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Protocol

from agentlearn.errors import ConfigError, LibraryError
from agentlearn.library import LibraryStore
from agentlearn.library.store import things_waiting
from agentlearn.pages.figure import Html, clipped, element, joined
from agentlearn.pages.page import CHARTS, HtmlPage, PagePart, svg_file
from agentlearn.pages.table import Paragraph, Table
from agentlearn.store import StoreReader

if TYPE_CHECKING:
    from agentlearn.library.sharing.channels import Channel
    from agentlearn.live.inbox import Inbox

Body = Html | PagePart
"""A part of a page: typed, or markup that was made by `element`."""
_SCRIPTS, _STYLES = ("htmx.min.js", "page.js", "view.js"), ("page.css", "view.css")
ASSETS = dict.fromkeys(_SCRIPTS, "text/javascript") | dict.fromkeys(_STYLES, "text/css")
"""The files that pages load, with their media types."""
HTMX_SHA256 = "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130"
"""sha256 of the vendored file of htmx.org 4.0.1."""
_MOST = 10_000_000
_KINDS = {
    "right": ("✓", "right"),
    "wrong": ("✗", "wrong"),
    "part": ("◐", "partly right"),
    "open": ("?", "undecided"),
    "failed": ("!", "failed to answer, counts as 0"),
}
"""How an attempt can count: its sign and its words."""
_NAVIGATION = ("Runs", "Libraries", "Days", "Waiting", "Live", "Cost", "Search")


class Links(Protocol):
    """Addresses of pages, as the server or a bundle has them."""

    @property
    def token(self) -> str:
        """Proof that a form came from a page of this server; empty where nothing can be changed."""
        ...

    def to(self, path: str, query: Mapping[str, object]) -> str:
        """The address of a page; empty for a page that a bundle leaves out."""
        ...

    def asset(self, name: str) -> str:
        """The address of one of `ASSETS`."""
        ...


@dataclass(frozen=True, slots=True)
class View:
    """What a page is made from: the store, its libraries, and the question of the address."""

    reader: StoreReader
    libraries: LibraryStore
    links: Links
    path: str
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    channel: "Channel | None" = None
    """The channel that was named on the command line."""
    inbox: "Inbox | None" = None
    """The server's; None for pages that are written as files."""

    def to(self, *path: str, **query: object) -> str:
        """The address of a page. path: its steps, such as `"run", run`. query: without the values that are empty."""
        kept = {name: value for name, value in query.items() if value not in (None, "")}
        return self.links.to("/" + "/".join(path), kept)

    def here(self, **changes: object) -> str:
        """The address of this page with some values of its question changed."""
        return self.to(self.path.removeprefix("/"), **{**self.query, **changes})

    def number(self, name: str) -> int:
        """A whole number of the question, at least 0. Raises ConfigError for anything else."""
        given = self.query.get(name, "") or "0"
        if not (given.isascii() and given.isdigit() and int(given[:12]) <= _MOST):
            raise ConfigError(f"{name} is {given[:40]!r} and must be a whole number from 0 to {_MOST:,}")
        return int(given)

    def choice(self, name: str, known: Sequence[str]) -> str:
        """One of the known words, the first of them by default. Raises ConfigError for another one."""
        given = self.query.get(name, "") or known[0]
        if given not in known:
            raise ConfigError(f"{name} is {given[:40]!r}; use one of {', '.join(map(repr, known))}")
        return given

    def form(self, act: str, *fields: Html | None, submit: str, kind: str | None = None, **hidden: str) -> Html | None:
        """A form that changes something; None where nothing can be changed. hidden: what it sends too."""
        if not self.links.token:
            return None
        sent = {"act": act, "token": self.links.token, "back": self.path, **hidden}
        inputs = [element("input", type="hidden", name=name, value=value) for name, value in sent.items()]
        button = element("button", submit, type="submit", class_=kind)
        return element("form", *inputs, *fields, button, method="post", action=self.to("act"), class_="act")

    def question(self, *fields: Html, submit: str = "Show", to: str = "", **hidden: object) -> Html:
        """A form that asks for another page. to: its path; empty for this page. hidden: more of its question."""
        kept = [element("input", type="hidden", name=name, value=str(one)) for name, one in hidden.items() if one]
        button = element("button", submit, type="submit")
        action = self.to(to or self.path[1:])
        return element("form", *kept, *fields, button, method="get", action=action, class_="ask")

    def pager(self, shown: Sequence[object], total: int, *, size: int) -> Html | None:
        """Where this part lies among all, with links to the parts before and after it; None when this is all."""
        first = self.number("first")
        if total <= len(shown) and not first:
            return None
        last = first + len(shown)
        return element(
            "nav",
            link("← earlier part", self.here(first=max(first - size, 0))) if first else None,
            element("span", f"{first + 1:,} to {last:,} of {total:,}" if shown else f"nothing here, of {total:,}"),
            link("next part →", self.here(first=last)) if last < total else None,
            class_="pager",
            aria_label="Parts",
        )

    def cell(self, one: Mapping[str, Any], *, here: bool = False, linked: bool = True) -> Html:
        """An attempt as a coloured cell with a sign, which opens its conversation if linked. here: it is its page."""
        kind = kind_of(one["outcome"], one["reward"])
        sign, words = _KINDS[kind]
        reward = "" if one["reward"] is None else f", reward {one['reward']:g}"
        why = f", {one['code']}" if one["code"] else ""
        answer = f", answer {clipped(one['answer'], 60)}" if one["answer"] else ""
        again = f", try {one['attempt'] + 1}" if one["attempt"] else ""
        name = f"attempt {one['g'] + 1}{again}: {words}{reward}{why}{answer}"
        href, kinds = self.to("rollout", one["id"]) if linked else "", f"cell {kind}{' here' if here else ''}"
        if not href:
            return element("span", sign, class_=kinds, title=name, role="img", aria_label=name)
        current = "page" if here else None
        return element("a", sign, class_=kinds, href=href, title=name, aria_label=name, aria_current=current)


@dataclass(frozen=True, slots=True)
class Page:
    """One page."""

    title: str
    body: tuple[Body | None, ...]
    """Its parts; what is None is left out."""
    trail: tuple[tuple[str, str], ...] = ()
    """The pages above it: words and address."""
    mark: str = ""
    """A label in the heading of every figure, such as `simulated`."""
    piece: Html | None = None
    """What a request for more of the page gets, without the frame."""
    watched: bool = False
    """Whether it changes by itself, because a run is under way."""


@dataclass(frozen=True, slots=True)
class File:
    """What is sent for an address: a page, a part of one, a picture, or a file to keep."""

    content: bytes
    media: str
    name: str = ""
    """Name under which a browser saves it; empty for what it shows."""


def checked_version(at: str) -> str:
    """What names a version or a branch of a library, and never a file; it may be empty. Raises LibraryError."""
    if at and (not re.fullmatch(r"[\w.-]{1,100}", at) or at.endswith(".json")):
        raise LibraryError(f"{at[:60]!r} is no version or branch of a library", code="unknown_version")
    return at


def link(words: str, href: str) -> Html:
    """A link; only the words where there is no address."""
    inside = element("bdi", words)
    return element("a", inside, href=href) if href else element("span", inside)


def row_of(*children: Html | None, kind: str) -> Html:
    """Elements beside each other. kind: their CSS class."""
    return element("div", *children, class_=kind)


def text_block(text: str, kind: str | None = None) -> Html:
    """A long text as it was written."""
    return element("pre", text, dir="auto", class_=kind, tabindex=0 if len(text) > 600 else None)


def answer_block(text: str, kind: str) -> Html:
    """A task or an answer, as prose whose line ends are kept. kind: its CSS class."""
    return element("p", element("bdi", text), class_=kind, tabindex=0 if len(text) > 600 else None)


def field_of(name: str, words: str, *, value: str = "", rows: int = 0, limit: int = 2_000) -> Html:
    """A labelled field of a form. rows: of a text of several lines."""
    control = (
        element("textarea", value, name=name, rows=rows, maxlength=limit)
        if rows
        else element("input", name=name, value=value, maxlength=limit, autocomplete="off")
    )
    return element("label", words, control)


def choices(name: str, words: str, options: Sequence[tuple[str, str]], chosen: str) -> Html:
    """A labelled list to choose one from. options: values and what they are called."""
    listed = [element("option", label, value=value, selected=value == chosen) for value, label in options]
    return element("label", words, element("select", *listed, name=name))


def tabs(*entries: tuple[str, str], current: str) -> Html:
    """Links to pages about the same thing. entries: words and address. current: the words of this page."""
    listed = _listed((words, href, words == current) for words, href in entries)
    return element("nav", listed, class_="tabs", aria_label="About this")


def _listed(entries: Iterable[tuple[str | Html, str, bool]]) -> Html:
    """A list of links to the pages that there are. entries: words, address, and whether it is this page."""
    links = (element("a", words, href=to, aria_current="page" if here else None) for words, to, here in entries if to)
    return element("ul", *(element("li", one) for one in links))


def kind_of(outcome: str, reward: float | None) -> str:
    """How an attempt counts: right, wrong, part, open or failed."""
    if outcome == "failed":
        return "failed"
    if reward is None or outcome == "undecided":
        return "open"
    return "right" if reward >= 1 else "wrong" if reward <= 0 else "part"


def legend() -> Html:
    """What the cells mean."""
    items = [
        element("li", element("span", sign, class_=f"cell {kind}"), words) for kind, (sign, words) in _KINDS.items()
    ]
    return element("ul", *items, class_="legend")


def of_report(content: HtmlPage) -> tuple[Body, ...]:
    """The parts of a report page, with headings for its sections."""
    parts: list[Body] = [*content.front]
    for section in content.sections:
        parts += [element("h2", section.title), *([Paragraph(text=section.lede)] if section.lede else [])]
        parts += section.parts
    return tuple(parts)


def rendered(page: Page, view: View, *, note: str = "") -> str:
    """The page as a whole HTML file. note: what an action has just done."""
    links, body = view.links, list[Html]()
    for number, part in enumerate(page.body):
        if part is None:
            continue
        body.append(part if isinstance(part, Html) else part.html(page.mark))
        if (kind := _saved_as(part)) and (href := view.here(save=f"{number}.{kind}")):
            body.append(element("p", element("a", f"Save as {kind.upper()}", href=href, download=True), class_="save"))
    main = element(
        "main",
        element("h1", element("bdi", page.title)),
        element("p", element("bdi", note), class_="done", role="status") if note else None,
        *body,
        id="main",
        tabindex=-1,
        hx_get=view.here() if page.watched else None,
        hx_trigger="every 5s" if page.watched else None,
        hx_select="#main" if page.watched else None,
        hx_swap="outerMorph" if page.watched else None,
    )
    trail = [element("li", link(words, href)) for words, href in page.trail]
    place = f"Store {view.reader.directory}." if view.channel is None else f"Channel {view.channel.folder}."
    place += "" if links.token else " Nothing can be changed here."
    document = element(
        "html",
        _head(page, links),
        element(
            "body",
            element("a", "Skip to the content", class_="skip", href="#main"),
            element("header", _navigation(view), class_="top"),
            element(
                "div",
                element("nav", element("ol", *trail), class_="trail", aria_label="Above this page") if trail else None,
                main,
                element("footer", element("p", place, class_="quiet")),
                class_="sheet",
            ),
        ),
        lang="en",
    )
    return "<!doctype html>\n" + document.text + "\n"


def _navigation(view: View) -> Html:
    names = _NAVIGATION if view.channel is None else ("Offers", *_NAVIGATION)
    waiting = things_waiting(view.libraries.directory) if view.to("waiting") else 0
    counted = {"Waiting": joined("Waiting ", element("span", f"{waiting:,}", class_="badge"))} if waiting else {}
    paths = ((counted.get(words, words), words.lower()) for words in names)
    entries = [(words, view.to(path), view.path.startswith(f"/{path}")) for words, path in paths]
    return joined(element("span", "agentlearn", class_="brand"), element("nav", _listed(entries), aria_label="Pages"))


def _head(page: Page, links: Links) -> Html:
    scripts = [element("script", src=links.asset(name), defer=True) for name in _SCRIPTS]
    styles = [element("link", rel="stylesheet", href=links.asset(name)) for name in _STYLES]
    settings = '{"includeIndicatorCSS":false,"history":false,"mode":"same-origin"}'
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="same-origin"),
        element("meta", name="htmx-config", content=settings),
        element("title", f"{page.title} · agentlearn"),
        element("link", rel="icon", href="data:,"),
        *styles,
        *scripts,
    )


@cache
def asset(name: str) -> bytes:
    """The content of one of `ASSETS`. Raises KeyError for another name."""
    if name not in ASSETS:
        raise KeyError(name)
    package, folder = ("agentlearn.pages", "") if name.startswith("page.") else ("agentlearn.pages.web_app", "assets/")
    return files(package).joinpath(f"{folder}{name}").read_bytes()


def saved(page: Page, what: str) -> File:
    """A table of the page as CSV, or a chart as SVG.

    what: the number of the part of the page, and the kind: `3.csv`. Raises ConfigError for one that it does not have.
    """
    number, _, kind = what.partition(".")
    part = page.body[int(number)] if re.fullmatch("[0-9]{1,4}", number) and int(number) < len(page.body) else None
    if not kind or part is None or _saved_as(part) != kind:
        raise ConfigError(f"the page has no {what[:40]!r}; use a link on the page")
    if isinstance(part, Table):
        content, media = _csv(part), "text/csv; charset=utf-8"
    else:
        assert isinstance(part, CHARTS)
        content, media = svg_file(part, page.mark), "image/svg+xml"
    name = re.sub("[^a-z0-9]+", "-", part.caption.lower()).strip("-")[:60] or "part"
    return File(content.encode("utf-8", "replace"), media, f"{name}.{kind}")


def _saved_as(part: Body) -> str:
    """As what a part of a page can be saved: `csv`, `svg`, or empty for not at all."""
    return "csv" if isinstance(part, Table) and part.rows else "svg" if isinstance(part, CHARTS) else ""


def _csv(table: Table) -> str:
    """The table with its second lines in columns of their own, where it has them."""
    out = io.StringIO()
    writer = csv.writer(out)
    widths = [1 + any(row[n].sub for row in table.rows) for n in range(len(table.columns))]
    lines = [[(one.name, f"{one.name} (more)") for one in table.columns]]
    lines += [[(cell.text, cell.sub) for cell in row] for row in table.rows]
    for line in lines:
        writer.writerow([_inert(text) for pair, width in zip(line, widths, strict=True) for text in pair[:width]])
    return out.getvalue()


def _inert(text: str) -> str:
    """The text, so that no spreadsheet takes it for a formula; a number stays one."""
    plain = text.replace("\N{MINUS SIGN}", "-")
    if re.fullmatch(r"[-+]?[\d.,]+(e[-+]?\d+)?", plain):
        return plain.replace(",", "")
    return f"'{text}" if text.lstrip().startswith(("=", "+", "-", "@", "\t", "\r")) else text
