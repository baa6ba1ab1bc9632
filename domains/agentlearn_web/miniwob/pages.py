"""The MiniWoB++ pages that are used as tasks, and the folder of the installed package that contains them."""

import mimetypes
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache
from importlib.util import find_spec
from itertools import count, islice
from pathlib import Path
from random import Random
from urllib.parse import unquote

from agentlearn import data
from agentlearn.domain.base import CheckResult
from agentlearn.errors import DataError, MissingExtra
from agentlearn.serving.http11 import HOST, HttpRequest, HttpResponse, listening
from agentlearn.types.ids import derive_seed
from agentlearn.types.task import Split, Task
from agentlearn_web.boundary.access_policy import HostPort

PAGES = (
    *("book-flight", "book-flight-nodelay", "button-delay", "buy-ticket"),
    *("choose-date", "choose-date-easy", "choose-date-medium", "choose-date-nodelay", "choose-list"),
    *("click-button", "click-button-sequence", "click-checkboxes", "click-checkboxes-large", "click-checkboxes-soft"),
    *("click-checkboxes-transfer", "click-collapsible", "click-collapsible-nodelay", "click-dialog", "click-dialog-2"),
    *("click-menu", "click-menu-2", "click-option", "click-pie", "click-pie-nodelay", "click-tab", "click-test"),
    *("click-scroll-list", "click-test-2", "click-test-transfer", "click-widget", "drag-box", "drag-items"),
    *("drag-items-grid", "drag-sort-numbers"),
    *("enter-date", "enter-password", "enter-text", "enter-text-2", "enter-text-dynamic", "enter-time"),
    *("find-greatest", "find-word", "focus-text", "focus-text-2", "form-sequence", "form-sequence-2"),
    *("form-sequence-3",),
    *("generate-number", "guess-number", "login-user", "login-user-popup", "multi-layouts", "multi-orderings"),
    *("navigate-tree", "odd-or-even", "phone-book", "read-table", "read-table-2", "scroll-text", "scroll-text-2"),
    *("search-engine", "sign-agreement", "simple-algebra", "simple-arithmetic", "stock-market"),
    *("terminal", "text-transform", "unicode-test"),
    *("use-autocomplete", "use-autocomplete-nodelay", "use-slider", "use-slider-2", "use-spinner"),
)
"""Pages that can be done as they are: by the acts of a walk, without pixels."""

LABELLED_PAGES = (
    *("click-collapsible-2", "click-collapsible-2-nodelay", "click-link"),
    *("click-tab-2", "click-tab-2-easy", "click-tab-2-hard", "click-tab-2-medium"),
    *("drag-circle", "drag-single-shape"),
    *("email-inbox", "email-inbox-delete", "email-inbox-forward", "email-inbox-forward-nl"),
    *("email-inbox-forward-nl-turk", "email-inbox-important", "email-inbox-nl-turk", "email-inbox-noscroll"),
    *("email-inbox-reply", "email-inbox-star-reply", "order-food", "resize-textarea"),
    *("social-media", "social-media-all", "social-media-some"),
)
"""Pages with links, icons or handles that are drawn without a role and a name; tasks of `miniwob:labelled` only."""

LEFT_OUT = {
    "the drawing has to be seen": (
        *("ascending-numbers", "bisect-angle", "circle-center", "click-color", "click-shades", "click-shape"),
        *(
            "count-shape",
            "count-sides",
            "drag-cube",
            "drag-shapes",
            "drag-shapes-2",
            "find-midpoint",
            "grid-coordinate",
            "identify-shape",
            "number-checkboxes",
        ),
        *("right-angle", "tic-tac-toe", "use-colorwheel", "use-colorwheel-2", "visual-addition"),
    ),
    "a line has to be drawn through places where no element is": ("draw-circle", "draw-line"),
    "the page draws a new event next to the half hours under the mouse, so that releasing the mouse creates none": (
        "daily-calendar",
    ),
    "text has to be marked": ("highlight-text", "highlight-text-2", "text-editor"),
    "text has to be pasted, and walks share one clipboard": ("copy-paste", "copy-paste-2"),
    "the pointer has to follow something that moves or flashes": (
        *("chase-circle", "hot-cold", "hover-shape", "moving-items", "simon-says"),
    ),
}
"""The other pages of the package, by the reason why they are not used."""


EXTRA = "pip install 'agentlearn-lib[web]' && pip install --no-deps 'miniwob>=1.1,<2'"
"""Without the package's requirements: Selenium, gymnasium and Pillow, which its pages do not need."""


def miniwob_folder() -> Path:
    """Return the folder with all pages in the installed package. Raises MissingExtra.

    Does not import the package, because that needs gymnasium and Selenium.
    """
    spec = find_spec("miniwob")
    for place in (spec and spec.submodule_search_locations) or ():
        folder = Path(place) / "html"
        if (folder / "core" / "core.js").is_file():
            return folder
    raise MissingExtra(f"the miniwob domain needs the package miniwob, which is not installed: {EXTRA}")


def check_miniwob() -> Iterator[CheckResult]:
    """Check whether the pages are installed."""
    try:
        miniwob_folder()
    except MissingExtra:
        yield CheckResult(what="miniwob", state="missing", words="not installed; the tasks are its pages", mend=EXTRA)
    else:
        yield CheckResult(
            what="miniwob",
            state="ok",
            words=f"{len(PAGES)} of its pages are tasks, {len(LABELLED_PAGES)} more with labels",
        )


SITE = "miniwob.test"
CACHED_FILES = 512


def page_url(page: str) -> str:
    """Return the address of a page."""
    return f"http://{SITE}/miniwob/{page}.html"


@asynccontextmanager
async def serve_miniwob(folder: Path) -> AsyncGenerator[Mapping[str, HostPort]]:
    """Serve the folder while the block runs. Yields the site's name and loopback address, for `AccessPolicy.served`."""
    files = _files(folder)

    @lru_cache(maxsize=CACHED_FILES)
    def respond(path: str) -> HttpResponse:
        file = files.get(path)
        if file is None:
            return HttpResponse(404, b"no such page\n", content_type="text/plain")
        kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        if kind.startswith("text/"):
            kind += "; charset=utf-8"
        return HttpResponse(200, file.read_bytes(), content_type=kind)

    async def app(request: HttpRequest) -> HttpResponse:
        return respond(unquote(request.path))

    async with listening(app) as port:
        yield {SITE: (HOST, port)}


def _files(folder: Path) -> Mapping[str, Path]:
    """Return every file by its request path."""
    return {f"/{path.relative_to(folder).as_posix()}": path for path in folder.rglob("*") if path.is_file()}


DOMAIN = "miniwob"
GOLD = "reward 1"
SOURCE = "generated"
SIZES: dict[Split, int] = {"train": 40, "validation": 20, "test": 40}
EPISODES = 30_000
"""Upper limit of generated episode numbers."""
_SPLITS: tuple[Split, ...] = ("train", "validation", "test")
_PROBLEM = re.compile(r"MiniWoB ([a-z0-9-]+), episode (\d{1,9})")


def domain_pages(domain: str) -> tuple[str, ...]:
    """Return the pages that are tasks of a domain: `miniwob`, or `miniwob:labelled`, which has more."""
    return PAGES if domain == DOMAIN else (*PAGES, *LABELLED_PAGES)


def generate_episode_tasks(
    split: Split, seed: int, limit: int | None = None, *, domain: str = DOMAIN
) -> tuple[Task, ...]:
    """Return the split's episodes: in each round one of each page, in a shuffled order.

    limit: None gives the split's default size. The episode number modulo three determines its split.
    """
    size = SIZES[split] if limit is None else limit
    episodes = islice(_episodes(split, seed, domain_pages(domain)), size)
    return tuple(episode_task(page, episode, split=split, domain=domain) for page, episode in episodes)


def episode_task(
    page: str, episode: int, *, split: Split = "train", source: str = SOURCE, domain: str = DOMAIN
) -> Task:
    """Return the task of one episode."""
    problem = f"MiniWoB {page}, episode {episode}"
    return Task.of(domain, problem, GOLD, family=page, split=split, source=source, start=page_url(page))


def parse_episode(task: Task) -> tuple[str, int]:
    """Return page and number of a task's episode. Raises DataError if the task does not name an episode."""
    match = _PROBLEM.fullmatch(task.problem.strip())
    if match is None or match[1] not in domain_pages(task.domain):
        raise DataError(
            f"{task.source or task.id} has the problem {task.problem!r}; name a page and an episode, such as"
            " 'MiniWoB click-button, episode 17'",
            code="no_episode",
        )
    return match[1], int(match[2])


def read_episode_tasks(
    source: str | Path, *, split: Split, limit: int | None = None, domain: str = DOMAIN
) -> tuple[Task, ...]:
    """Return the episodes in a file's column `problem`. Raises DataError with file, line and next step."""
    match = data.read_tasks(source, domain=domain, split=split, limit=limit, answer_required=False)
    return tuple(episode_task(*parse_episode(one), split=split, source=one.source, domain=domain) for one in match)


def _episodes(split: Split, seed: int, pages: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    rng = Random(derive_seed("miniwob", split, seed))
    seen: set[tuple[str, int]] = set()
    for _ in count():
        for page in rng.sample(pages, len(pages)):
            episode = rng.randrange(EPISODES // 3) * 3 + _SPLITS.index(split)
            if (page, episode) not in seen:
                seen.add((page, episode))
                yield page, episode
