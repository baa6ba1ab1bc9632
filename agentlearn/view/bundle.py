"""Pages as static files, to share: those about one thing, and nothing else."""

import hashlib
import re
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

from agentlearn.config.outputs import ANY_RUN, Outputs
from agentlearn.errors import AgentlearnError, ConfigError
from agentlearn.files import write_whole
from agentlearn.library import LibraryStore
from agentlearn.store import StoreReader
from agentlearn.view.conversation import picture
from agentlearn.view.page import ASSETS, View, asset, rendered, saved
from agentlearn.view.routes import PICTURE, page_of

MOST_PAGES = 5_000
"""Pages in one bundle."""
_ASKED = frozenset({"first", "phase", "show", "task", "at", "before", "after", "stage", "save"})
"""What the address of a page in a bundle may ask. Searches and choices of a form need the server."""


class _Files:
    """The links of a bundle: each page that belongs to it gets a file, all others are no links."""

    token = ""

    def __init__(self, chosen: "re.Pattern[str]", rollouts: frozenset[str]) -> None:
        self._chosen, self._rollouts = chosen, rollouts
        self.waiting: deque[str] = deque()
        self.names: dict[str, str] = {}

    def to(self, path: str, query: Mapping[str, object]) -> str:
        """The file of a page."""
        if not self._belongs(path) or not query.keys() <= _ASKED or len(self.names) >= MOST_PAGES:
            return ""
        kept = {
            name: value for name, value in query.items() if (name, str(value)) not in {("first", "0"), ("show", "all")}
        }
        address = f"{path}?{urlencode(sorted(kept.items()))}" if kept else path
        if address not in self.names:
            self.names[address] = _file_name(path, address, str(kept.get("save", "")))
            self.waiting.append(address)
        return self.names[address]

    def asset(self, name: str) -> str:
        """The file that pages load."""
        return name

    def _belongs(self, path: str) -> bool:
        steps = path.split("/")
        if steps[1] == "rollout":
            return steps[2] in self._rollouts
        if steps[1] == "pair":
            return set(steps[2:4]) <= self._rollouts
        return self._chosen.fullmatch(path) is not None


def _file_name(path: str, address: str, what: str) -> str:
    """A file name that tells what is in it, and is different for each address."""
    words = "-".join(step[:16] for step in re.sub(r"[^\w/.-]", "", path).strip("/").split("/"))
    mark = hashlib.sha256(address.encode()).hexdigest()[:12]
    ending = {"table": ".csv", "figure": ".svg"}.get(what.partition("-")[0], "" if PICTURE.fullmatch(path) else ".html")
    return f"{words}-{mark}{ending}"


def write_bundle(reader: StoreReader, store: Path, start: str, out: Path) -> list[Path]:
    """Write the pages about one thing to a new or empty folder, and return the files, `index.html` first.

    start: the address of its first page, as `address_of` returns it. Raises ConfigError for a folder that is not empty,
    and for a start that names nothing; OSError.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(
            f"--bundle {str(out)!r} is there already; name a new or an empty folder", code="bundle_exists"
        )
    path, _, query = start.partition("?")
    chosen, rollouts = _chosen(reader, path)
    links, libraries = _Files(chosen, rollouts), LibraryStore(store / "libraries")
    first = links.to(path, dict(parse_qsl(query)))
    if not first:
        raise ConfigError("name what to write: a run, a rollout, or a library", code="nothing_chosen")
    out.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    while links.waiting:
        address = links.waiting.popleft()
        path, _, query = address.partition("?")
        asked = dict(parse_qsl(query))
        what = asked.pop("save", "")
        view = View(reader, libraries, links, path, asked)
        if (found := PICTURE.fullmatch(path)) is not None:
            content = picture(view, *found.groups())[0]
        else:
            try:
                page = page_of(view)
            except AgentlearnError:
                if not written:
                    raise
                continue  # a link to what the store no longer holds
            if page is None:
                continue
            content = saved(page, what)[1] if what else rendered(page, view).encode("utf-8", "replace")
        file = out / ("index.html" if not written else links.names[address])
        write_whole(file, content)
        written.append(file)
    write_whole(out / first, written[0].read_bytes())  # links to the first page lead to its own name
    for name in ASSETS:
        write_whole(out / name, asset(name))
    Outputs(store).remember(*written, out / first, runs=(ANY_RUN,))
    return [*written, *(out / name for name in ASSETS)]


def _chosen(reader: StoreReader, path: str) -> tuple["re.Pattern[str]", frozenset[str]]:
    """The pages that belong to a bundle, and the attempts whose conversations do."""
    steps = path.split("/")
    if steps[1] == "run":
        known = frozenset(one.id for one in reader.trajectories(reader.run(steps[2]).run)[:MOST_PAGES])
        return re.compile(rf"/run/{re.escape(steps[2])}(/.*)?"), known
    if steps[1] == "rollout":
        return re.compile(r"(?!)"), frozenset({steps[2]})
    if steps[1] == "library":
        lessons = LibraryStore(reader.directory / "libraries").load(f"{steps[2]}@main")
        ids = "|".join(re.escape(one) for one in lessons.by_id) or "(?!)"
        return re.compile(rf"/library/{re.escape(steps[2])}(/.*)?|/lesson/({ids})"), frozenset()
    return re.compile(r"/runs"), frozenset()
