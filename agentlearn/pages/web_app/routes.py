"""The addresses of all pages, what each shows, and bundles: pages as static files, to share.

A bundle holds the pages about one thing, and nothing else.
"""

import hashlib
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from agentlearn.config.outputs import ANY_RUN, Outputs
from agentlearn.errors import AgentlearnError, ConfigError
from agentlearn.library import LibraryStore
from agentlearn.pages.records import GroupAddress, resolve
from agentlearn.pages.table import Paragraph
from agentlearn.pages.web_app import conversation, grid, lessons, production, runs
from agentlearn.pages.web_app.page import ASSETS, File, Page, View, asset, rendered, saved
from agentlearn.store import RunRow, StoreReader, read_store

if TYPE_CHECKING:
    from agentlearn.library.sharing.channels import Channel

ROUTES: dict[str, Callable[..., Page | File]] = {
    "/runs": runs.runs_page,
    "/run/{run}": runs.run_page,
    "/run/{run}/grid": grid.grid_page,
    "/run/{run}/flips": grid.flips_page,
    "/run/{run}/stages": runs.stages_page,
    "/run/{run}/call/{call}": runs.call_page,
    "/run/{run}/report": runs.report_page,
    "/two": grid.two_runs_page,
    "/rollout/{rollout}": conversation.rollout_page,
    "/rollout/{rollout}/step/{number}": conversation.step_page,
    "/rollout/{rollout}/picture/{number}": conversation.picture,
    "/rollout/{rollout}/atif.json": conversation.atif_file,
    "/pair/{one}/{other}": grid.pair_page,
    "/libraries": lessons.libraries_page,
    "/library/{name}": lessons.library_page,
    "/library/{name}/history": lessons.history_page,
    "/library/{name}/diff": lessons.diff_page,
    "/library/{name}/audit": lessons.audit_page,
    "/library/{name}/card": lessons.card_of,
    "/lesson/{lesson}": lessons.lesson_page,
    "/days": production.days_page,
    "/waiting": lessons.waiting_page,
    "/offers": production.offers_page,
    "/live": production.live_page,
    "/live/{name}": production.talks_page,
    "/erase": production.erase_page,
    "/cost": runs.cost_page,
    "/search": production.search_page,
}
"""What each address shows. Its parameters in braces are the arguments of the function, after the view."""
CLOSED = frozenset({"/erase"})
"""Pages that are made while the store is not open: they open it in another way."""
_PATTERNS = [(re.compile(re.sub(r"\{\w+\}", "([^/]+)", path)), page) for path, page in ROUTES.items()]


def file_of(view: View, *, note: str = "", more: bool = False) -> File | None:
    """What the view's address shows, as a server sends it and a bundle writes it; None for an address without a page.

    note: what an action has just done. more: only the next piece of a page. Raises AgentlearnError.
    """
    for pattern, show in _PATTERNS:
        if (found := pattern.fullmatch(view.path)) is None:
            continue
        page = show(view, *found.groups())
        if isinstance(page, File):
            return page
        if what := view.query.get("save", ""):
            return saved(page, what)
        piece = page.piece if more else None
        text = rendered(page, view, note=note) if piece is None else piece.text
        return File(text.encode("utf-8", "replace"), "text/html; charset=utf-8")
    return None


def address_of(reader: StoreReader, names: Mapping[str, object] | frozenset[str], thing: str) -> str:
    """The path of the page about a thing: a run, a comparison, a rollout, a group, `NAME` or `NAME@X`.

    names: the libraries of the store. Without a thing, the list of runs; `waiting`: what waits for a person. Raises
    ConfigError.
    """
    if thing in {"", "waiting"}:
        return f"/{thing or 'runs'}"
    name, at, version = thing.partition("@")
    if name in names and "/" not in name:
        return f"/library/{name}{f'?at={version}' if at else ''}"
    try:
        found = resolve(reader, thing)
    except ConfigError as error:
        known = ", ".join(map(repr, sorted(names))) or "none"
        raise ConfigError(f"{error}; it is no library either (found: {known})", code=error.code) from error
    match found:
        case RunRow():
            return f"/run/{found.run}"
        case GroupAddress():
            return f"/run/{found.run.run}/grid?phase={found.phase}&task={found.task}"
        case _:
            return f"/rollout/{found}"


_MOST_FILES = 20_000
"""Files in one bundle. What links to more is text."""
_HELD_S = 5.0
"""How long the store is read at a time."""
_ASKED = frozenset({"first", "phase", "show", "task", "at", "before", "after", "stage", "save"})
"""What the address of a page in a bundle may ask. Searches and choices of a form need the server."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """What was written."""

    index: Path
    """The page to open."""
    files: int
    left_out: int
    """Pages beyond the largest number of files."""


class _Files:
    """The links of a bundle: each page that belongs to it gets a file, all others are no links."""

    token = ""

    def __init__(self, reader: StoreReader, start: str) -> None:
        self._belongs = _belonging(reader, start.split("/"))
        self.waiting: deque[str] = deque()
        self.names: dict[str, str] = {}
        self.left_out: set[str] = set()

    def to(self, path: str, query: Mapping[str, object]) -> str:
        """The file of a page."""
        if not self._belongs(path.split("/")) or not query.keys() <= _ASKED:
            return ""
        kept = {
            name: value for name, value in query.items() if (name, str(value)) not in {("first", "0"), ("show", "all")}
        }
        address = f"{path}?{urlencode(sorted(kept.items()))}" if kept else path
        if address not in self.names:
            if len(self.names) >= _MOST_FILES:
                self.left_out.add(address)
                return ""
            self.names[address] = _file_name(path, address, str(kept.get("save", "")))
            self.waiting.append(address)
        return self.names[address]

    def asset(self, name: str) -> str:
        """The file that pages load."""
        return name


def _belonging(reader: StoreReader, start: list[str]) -> Callable[[list[str]], bool]:
    """Whether the page of a path, given as its steps, belongs to the bundle that begins at `start`."""
    kind, thing = start[1], start[2] if len(start) > 2 else ""
    rollouts, lessons = frozenset[str](), frozenset[str]()
    if kind == "run":
        rollouts = frozenset(one.id for one in reader.trajectories(reader.run(thing).run))
    elif kind == "rollout":
        rollouts = frozenset({thing})
    elif kind == "library":
        lessons = frozenset(LibraryStore(reader.directory / "libraries").load(f"{thing}@main").by_id)
    elif kind != "offers":
        raise ConfigError("name what to write: a run, a rollout, or a library")

    def belongs(steps: list[str]) -> bool:
        match steps[1:]:
            case ["rollout", rollout, "atif.json"]:  # its text a second time: only for the one that was named
                return kind == "rollout" and rollout in rollouts
            case ["rollout", rollout, *_]:
                return rollout in rollouts
            case ["pair", *pair]:
                return rollouts.issuperset(pair)
            case ["lesson", lesson]:
                return lesson in lessons
            case ["offers"]:
                return kind == "offers"
            case [of, named, *_]:
                return (of, named) == (kind, thing)
            case _:
                return False

    return belongs


def _file_name(path: str, address: str, what: str) -> str:
    """A file name that tells what is in it, and is different for each address."""
    words = "-".join(step[:16] for step in re.sub(r"[^\w/-]", "", path).strip("/").split("/"))
    ending = PurePosixPath(what or path).suffix or ("" if "/picture/" in path else ".html")
    return f"{words}-{hashlib.sha256(address.encode()).hexdigest()[:12]}{ending}"


def write_bundle(
    store: Path,
    start: str,
    out: Path,
    told: Callable[[int, int], None] | None = None,
    channel: "Channel | None" = None,
) -> Bundle:
    """Write the pages about one thing to a new or empty folder. `index.html` is the first.

    start: the address of its first page, as `address_of` returns it. told: called after each file with the number of
    files that are written, and of those that are known to follow. channel: the one that `/offers` shows. Only addresses
    are kept in memory, and the store is let go every few seconds, for others that want to write. Raises ConfigError for
    a folder that is not empty, and for a start that names nothing; StoreError, OSError.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"--bundle {str(out)!r} is there already; name a new or an empty folder")
    libraries, written = LibraryStore(store / "libraries"), 0
    path, _, query = start.partition("?")
    with read_store(store) as reader:
        links = _Files(reader, path)
    first = links.to(path, dict(parse_qsl(query)))
    while links.waiting:
        with read_store(store) as reader:
            remembering, let_go = reader.remembering(), time.monotonic() + _HELD_S
            while links.waiting and time.monotonic() < let_go:
                address = links.waiting.popleft()
                path, _, query = address.partition("?")
                view = View(remembering, libraries, links, path, dict(parse_qsl(query)), channel)
                content = _content(view, whole=not written)
                out.mkdir(parents=True, exist_ok=True)
                (out / links.names[address]).write_bytes(content)
                written += 1
                if told is not None:
                    told(written, len(links.waiting))
    (out / "index.html").write_bytes((out / first).read_bytes())  # links to the first page lead to its own name
    for name in ASSETS:
        (out / name).write_bytes(asset(name))
    Outputs(store).remember(*(out / name for name in (*links.names.values(), "index.html")), runs=(ANY_RUN,))
    return Bundle(out / "index.html", written + 1 + len(ASSETS), len(links.left_out))


def _content(view: View, *, whole: bool) -> bytes:
    """The file of an address. whole: raise AgentlearnError where it fails, and do not write a page that says why."""
    try:
        found = file_of(view)
        assert found is not None
    except AgentlearnError as error:  # such as a link to what the store no longer holds
        if whole:
            raise
        page = Page("This is not here", (Paragraph(text=str(error)),))
        return rendered(page, view).encode("utf-8", "replace")
    return found.content
