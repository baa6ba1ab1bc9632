"""How the real sites are served, and how pages, phrases and elements are chosen: without a browser and the sites."""

import asyncio
import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from agentlearn.serving.http11 import HttpRequest
from agentlearn_web.observation import ElementLine, PageObservation, TabLine
from tests.web.real_sites.file_server import respond
from tests.web.real_sites.question_script import RealQuestion, ScriptError, missing_acts, run_script
from tests.web.real_sites.site_files import missing_reason, site_file
from tests.web.real_sites.site_pages import (
    large_page_urls,
    page_urls,
    random_page_urls,
    random_phrases,
    sized_page_urls,
)

GIT = "usr/share/doc/git-doc"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "sites"
    (folder / GIT / "howto").mkdir(parents=True)
    (folder / GIT / "git.html").write_text("<title>git</title>")
    (folder / GIT / "howto" / "index.html").write_text("<title>how</title>" + "x" * 100)
    (folder / GIT / "jquery.js").symlink_to("../../javascript/jquery.js")
    (folder / GIT / "leak.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "usr/share/javascript").mkdir()
    (folder / "usr/share/javascript/jquery.js").write_text("1")
    (tmp_path / "secret.txt").write_text("secret")
    return folder


def request(path: str, host: str = "git.test:80") -> HttpRequest:
    return HttpRequest(method="GET", path=path, headers={"host": host}, body=b"")


def test_a_site_sends_its_files_with_their_types_and_links_to_other_packages(root: Path) -> None:
    page, script, folder = (respond(root, request(path)) for path in ("/git.html", "/jquery.js", "/howto/"))
    assert (page.status, page.body, page.content_type) == (200, b"<title>git</title>", "text/html; charset=utf-8")
    assert (script.body, script.content_type) == (b"1", "text/javascript; charset=utf-8")
    assert folder.body.startswith(b"<title>how")
    moved = respond(root, request("/howto"))
    assert (moved.status, moved.headers) == (301, {"location": "/howto/"})


@pytest.mark.parametrize(
    "path",
    ["/leak.txt", "/../../../../../secret.txt", "/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/secret.txt", "/none", "/%00"],
)
def test_a_site_sends_no_file_from_outside(root: Path, path: str) -> None:
    assert respond(root, request(path)).status == 404
    assert respond(root, request("/git.html", "other.test")).status == 404


def test_the_longest_prefix_selects_the_folder_of_a_site(root: Path) -> None:
    assert (site_file(root, "components.test", "/order.html").file or Path()).name == "order.html"
    assert site_file(root, "components.test", "/shoelace/order.html").file is None


def test_missing_and_other_packages_are_told_with_the_next_step(root: Path) -> None:
    assert missing_reason(root) == f"the real sites are not in {str(root)!r}: run scripts/install-real-sites"
    (root / "packages.txt").write_text("deb other\n")
    told = f"other packages than those of packages.txt are in {str(root)!r}: run scripts/install-real-sites"
    assert missing_reason(root) == told
    (root / "packages.txt").write_bytes((Path(__file__).parent / "packages.txt").read_bytes())
    assert not missing_reason(root)


def test_pages_are_chosen_by_size_and_at_random_each_once(root: Path) -> None:
    both = ["http://git.test/git.html", "http://git.test/howto/index.html"]
    assert page_urls(root, "git.test") == both
    assert large_page_urls(root, 1) == both[1:]
    assert sized_page_urls(root, 1, 50) == both[:1]
    assert sorted(random_page_urls(root, random.Random(1))) == both


def test_phrases_stay_in_one_line_and_one_cell() -> None:
    text = "a b c\nd e\tf g h\n\ni"
    assert sorted(random_phrases(text, 3, 9, random.Random(0))) == ["a b c", "f g h"]
    assert len(random_phrases(text, 2, 3, random.Random(0))) == 3


class ShownPages:
    """A walk of which every act shows the next one of these views."""

    nonce = "n"

    def __init__(self, *views: PageObservation) -> None:
        self.done: list[tuple[str, object]] = []
        self._views = iter(views)

    async def open(self, url: str) -> PageObservation:
        return self._do("open", url)

    async def click(self, ref: str) -> PageObservation:
        return self._do("click", ref)

    async def find(self, text: str) -> PageObservation:
        return self._do("find", text)

    async def more(self, page: int | None = None) -> PageObservation:
        return self._do("more", page)

    def _do(self, act: str, given: object) -> PageObservation:
        self.done.append((act, given))
        return next(self._views)


def view(*lines: ElementLine, found: tuple[int, ...] | None = None) -> PageObservation:
    return PageObservation(tab="t1", tabs=(TabLine(id="t1", url="http://git.test/"),), lines=lines, found=found)


def text(words: str) -> ElementLine:
    return ElementLine(role="text", text=words)


def question(*script: Mapping[str, object], read: str = r"\bis (\w+)") -> RealQuestion:
    return RealQuestion(id="q", site="git.test", kind="name", question="?", gold="!", script=script, read=read)


FOUND = view(text("match"), ElementLine(role="text", marks=("context",)), text("match"), found=(4, 5, 7))
OPEN = {"act": "open", "url": "http://git.test/"}
SECOND = {"act": "click", "ref": {"role": "link", "name": "Next", "nth": 2}}


def test_a_script_acts_on_what_was_shown_and_reads_the_parts_that_were_shown_last() -> None:
    links = (ElementLine(role="link", name="Next", ref=f"t1:e{n}") for n in range(3))
    walk = ShownPages(view(*links), view(text("is none")), FOUND, view(text("this is  red")), view(text("it is blue")))
    steps = (OPEN, SECOND, {"act": "find", "text": "is"}, {"act": "more", "page": {"found": 2}}, {"act": "more"})
    result = asyncio.run(run_script(walk, question(*steps)))  # pyright: ignore[reportArgumentType]
    assert (result.answer, result.statuses) == ("red, blue", ("ok",) * 5)
    assert walk.done[1:] == [("click", "t1:e1"), ("find", "is"), ("more", 7), ("more", None)]


def test_a_script_ends_where_an_element_is_not_shown() -> None:
    walk = ShownPages(view(ElementLine(role="link", name="Next", ref="t1:e1")))
    with pytest.raises(ScriptError, match="there are 1 elements"):
        asyncio.run(run_script(walk, question(OPEN, SECOND)))  # pyright: ignore[reportArgumentType]


def test_acts_and_arguments_that_a_walk_lacks_are_named() -> None:
    lacking = question(OPEN, {"act": "dance", "ref": "t1:e1"}, {"act": "open", "speed": 3})
    assert missing_acts(lacking) == ("dance", "open(speed)")
