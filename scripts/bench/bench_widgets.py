"""80 scripted tasks on pages of twelve widget sets, solved at once or not, beside playwright-mcp on the same pages.

A task is a script that takes each element from the reply before it, as a model would. Each page is longer than a view.
`at once`: the replies to the acts show all that the next act or the answer needs. Characters are those of all replies;
playwright-mcp links a snapshot in its replies, so `browser_snapshot` is called after each act, and both count.

    mkdir npm && cd npm && npm i --ignore-scripts @playwright/mcp element-plus vue@3 antd@5 react@18 react-dom@18 \\
      dayjs @ionic/core ckeditor5 trix summernote jquery@3 codemirror@5 bootstrap flatpickr tippy.js @popperjs/core \\
      dropzone swiper tom-select sweetalert2 awesomplete primevue @primeuix/themes fomantic-ui-css uikit quasar@2 \\
      @fluentui/web-components@2 jodit suneditor ace-builds air-datepicker slim-select filepond tabulator-tables \\
      notyf @tarekraafat/autocomplete.js sortablejs
    just bench widgets --packages npm/node_modules [--only antd quasar] [--verbose]
"""

import argparse
import asyncio
import functools
import hashlib
import json
import re
import tempfile
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from agentlearn_web.boundary.access_policy import AccessPolicy
from agentlearn_web.browser.chromium import find_chromium
from agentlearn_web.browser.pool import BrowserOptions, open_browsers
from agentlearn_web.browser.walk import Walk
from agentlearn_web.browser.walk_settings import TaskFile
from agentlearn_web.observation import render_observation
from scripts.bench.found import Found, Row, Target
from scripts.bench.widgets.six_tasks import SIX
from scripts.bench.widgets.tasks import TASKS, Step

PAGES = Path(__file__).parent / "widgets"
LEAST_AT_ONCE = 0.9
Do = Callable[[Step, str], Awaitable[str]]
"""Does a step on the element of a ref; returns what a model reads then."""
_LINE = re.compile(r"^(?:p\d+ \| )?( *)- ([\w/-]+)(.*?)(?: \[(?:ref=)?((?:t\d+:)?(?:f\d+)?[ew]\d+)\])(.*)$")


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--packages", type=Path, help="the folder `node_modules` with the packages; none skips it")
    parser.add_argument("--only", nargs="*", help="the pages to measure")
    parser.add_argument("--verbose", action="store_true", help="print each task, and the last reply of what fails")


def measure(chosen: argparse.Namespace) -> Found:
    """Run all tasks in both."""
    if chosen.packages is None:
        return Found(notes=("needs --packages",))
    return asyncio.run(_measure(chosen.packages.resolve(), chosen.only, verbose=chosen.verbose))


async def _measure(packages: Path, only: list[str] | None, *, verbose: bool) -> Found:
    rows, at_once, tasks = list[Row](), 0, 0
    tools = {"walk": _walk, "playwright-mcp": _mcp}
    with _served(packages) as port, tempfile.TemporaryDirectory() as folder:
        letter = Path(folder) / "letter.txt"
        letter.write_text("Dear Eva")
        for name, page_tasks in (TASKS | SIX).items():
            for tool, opened in tools.items() if not only or name in only else ():
                solved = chars = calls = 0
                for number, (steps, wanted) in enumerate(page_tasks):
                    async with opened(port, packages, letter) as (do, address):
                        found, size, acts = await _solve(do, f"{address}/{name}.html", steps, wanted, verbose=verbose)
                    if verbose:
                        print(name, number, tool, "at once" if found else "NOT", size, flush=True)
                    solved, chars, calls = solved + found, chars + size, calls + acts
                figures = {"tasks": len(page_tasks), "at_once": solved, "characters": chars, "calls": calls}
                rows.append(Row(name=f"{name}: {tool}", figures=figures))
                if tool == "walk":
                    at_once, tasks = at_once + solved, tasks + len(page_tasks)
    what = "share of the tasks that are solved at once"
    return Found(
        rows=tuple(rows),
        targets=(Target(what=what, figure=at_once / max(tasks, 1), bound="at_least", limit=LEAST_AT_ONCE),),
    )


async def _solve(do: Do, url: str, steps: tuple[Step, ...], wanted: str, *, verbose: bool) -> tuple[bool, int, int]:
    """Return whether a task was solved at once, the characters of all replies, and the number of acts."""
    seen = await do(("open", url), "")
    size, acts = len(seen), 1
    for step in steps:
        ref = "" if step[0] == "scroll" else _ref(seen, step[1])
        if ref is None:
            if verbose:
                print("   no", step, "in", seen[:3000])
            return False, size, acts
        seen = await do(step, ref)
        size, acts = size + len(seen), acts + 1
    found = re.search(wanted, seen) is not None
    if verbose and not found:
        print("   no", wanted, "in", seen[:3000])
    return found, size, acts


def _ref(seen: str, named: str) -> str | None:
    """Return the ref of an element: `role:words`, both patterns. The words may stand below it."""
    role, _, words = named.partition(":")
    lines = seen.split("\n")
    below = list[tuple[int, str]]()
    for number, line in enumerate(lines):
        found = _LINE.match(line)
        if found is None or not re.fullmatch(role, found[2]):
            continue
        if re.search(words, found[3] + found[5]):
            return found[4]
        deeper = []
        for other in lines[number + 1 :]:
            text = re.sub(r"^p\d+ \| ", "", other)
            if len(text) - len(text.lstrip()) <= len(found[1]):
                break
            deeper.append(other)
        if re.search(words, "\n".join(deeper)):
            below.append((len(deeper), found[4]))
    return min(below, default=(0, None))[1]


@asynccontextmanager
async def _walk(port: int, _: Path, letter: Path) -> AsyncGenerator[tuple[Do, str]]:
    policy = AccessPolicy(public=False, served={"site.test": ("127.0.0.1", port)})
    sha256 = hashlib.sha256(letter.read_bytes()).hexdigest()
    files = {letter.name: TaskFile(letter.name, letter.parent, sha256)}
    async with open_browsers(BrowserOptions(walkers=1)) as browsers, browsers.walk(policy, files=files) as walk:

        async def do(step: Step, ref: str) -> str:
            return render_observation(await _act(walk, step, ref), "n0")

        yield do, "http://site.test"


async def _act(walk: Walk, step: Step, ref: str) -> Any:
    match step:
        case ("open", url):
            return await walk.open(url)
        case ("scroll", direction):
            return await walk.scroll(direction)
        case ("press", _, text):
            return await walk.press(ref=ref, text=text)
        case ("upload", _, name):
            return await walk.upload(ref, [name])
        case ("type", _, text):
            return await walk.type(ref, text)
        case _:
            return await (walk.hover(ref) if step[0] == "hover" else walk.click(ref))


@asynccontextmanager
async def _mcp(port: int, packages: Path, letter: Path) -> AsyncGenerator[tuple[Do, str]]:
    command = (
        packages / ".bin/playwright-mcp",
        "--headless",
        "--isolated",
        "--no-sandbox",
        "--allow-unrestricted-file-access",
    )
    server = await asyncio.create_subprocess_exec(
        *(*command, "--executable-path", find_chromium().path),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=letter.parent,
        limit=1 << 26,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    write, read = server.stdin.write, server.stdout.readline
    number = 0

    async def ask(method: str, params: dict[str, Any]) -> Any:
        nonlocal number
        number += 1
        write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n")
        while True:
            answer = json.loads(await read())
            if answer.get("id") == number:
                return answer["result"]

    async def call(name: str, **arguments: Any) -> str:
        answer = await ask("tools/call", {"name": f"browser_{name}", "arguments": arguments})
        return "\n".join(one.get("text", "") for one in answer["content"])

    async def do(step: Step, ref: str) -> str:
        match step:
            case ("open", url):
                said = await call("navigate", url=url)
            case ("scroll", _):
                said = await call("press_key", key="End")
            case ("press", _, text):
                said = await call("type", target=ref, text=text, slowly=True)
            case ("type", _, text):
                said = await call("type", target=ref, text=text)
            case ("upload", _, _):
                said = await call("click", target=ref) + await call("file_upload", paths=[str(letter)])
            case _:
                said = await call(step[0], target=ref)
        return f"{said}\n{await call('snapshot')}"

    try:
        about = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        await ask("initialize", about)
        write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        yield do, f"http://127.0.0.1:{port}"
    finally:
        server.stdin.close()
        await server.wait()


@contextmanager
def _served(packages: Path) -> Generator[int]:
    """Serve the pages, and the packages under `/npm/`, on a port of loopback."""

    class Handler(SimpleHTTPRequestHandler):
        def translate_path(self, path: str) -> str:
            plain = path.partition("?")[0].lstrip("/")
            return str(packages / plain.removeprefix("npm/") if plain.startswith("npm/") else PAGES / plain)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  its name in the base class
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler)) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()
