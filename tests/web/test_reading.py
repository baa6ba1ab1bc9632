"""Reading pages in a real browser: search, preformatted and unseen text, late content, slow pages, PDF files."""

from collections.abc import Iterator

import pytest

pytest.importorskip("playwright")
from playwright.async_api import TimeoutError as PlaywrightTimeout

from agentlearn_web.browser.pdf import PdfPage, UnreadablePdf
from agentlearn_web.browser.walk import Walk
from agentlearn_web.observation import CONTEXT, NOT_VISIBLE, PARTLY_VISIBLE, PageObservation
from tests.support.small_pdf import pdf
from tests.support.walking import Reply, Site, Walking, line, ref, served, walking, words
from tests.web.browsers import needs_browser

pytestmark = [needs_browser, pytest.mark.slow]

HOME = "http://site.test/"


@pytest.fixture(scope="module")
def walks() -> Iterator[Walking]:
    with walking() as one:
        yield one


def doc(body: str) -> str:
    return f"<!doctype html><title>Page</title>{body}"


def marks_of(seen: PageObservation, text: str) -> tuple[str, ...]:
    return next(one.marks for one in seen.lines if text in one.text or text in one.name)


# search


def test_a_search_reads_across_elements_and_behind_labels(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        await walk.open(HOME)
        found = await walk.find("the  SECOND word of it")
        shown = [(one.role, one.text or one.name, one.marks) for one in found.lines]
        assert shown[0] == ("heading", "Options", (CONTEXT,))
        assert ("text", "Use the second word of it", ()) in shown
        assert ("text", "behind the label", (CONTEXT,)) in shown
        behind = await walk.find("behind the label")
        assert behind.status == "ok"
        assert ref(behind, "Label")
        assert (await walk.find(r"se\w+d\s+word", regex=True)).status == "ok"
        assert (await walk.find("(a", regex=True)).status == "bad_pattern"
        assert (await walk.find("(a+)+$b", regex=True)).status in {"bad_pattern", "not_found"}
        assert (await walk.find("Options before USE the")).status == "not_found"  # three blocks of text
        assert (await walk.find("nowhere")).status == "not_found"

    body = (
        "<h2>Options</h2><p>before</p><p>Use the <code>second</code> <b>word</b> of it</p>"
        f"<button aria-label=Label>behind the label</button><p>after</p><p>{'a' * 3000}</p>"
    )
    walks.over({"/": doc(body)}, steps)


# text that a person cannot see


UNSEEN = {
    "opacity": "<p style='opacity:0'>{}</p>",
    "parent opacity": "<div style='opacity:.05'><p>{}</p></div>",
    "off screen": "<p style='position:absolute;left:-9999px'>{}</p>",
    "indent": "<p style='text-indent:-9999px;white-space:nowrap'>{}</p>",
    "font size": "<p style='font-size:1px'>{}</p>",
    "white on white": "<p style='color:#fefefe'>{}</p>",
    "same as its box": "<div style='background:#123456'><p style='color:#123456'>{}</p></div>",
    "transparent": "<p style='color:transparent'>{}</p>",
    "clipped": "<p style='position:absolute;clip:rect(0 0 0 0)'>{}</p>",
    "clip path": "<p style='clip-path:inset(50%)'>{}</p>",
    "one pixel": "<p style='position:absolute;width:1px;height:1px;overflow:hidden'>{}</p>",
    "no height": "<div style='height:0;overflow:hidden'><p>{}</p></div>",
    "scaled away": "<p style='transform:scale(0)'>{}</p>",
    "below a clip": "<div style='height:30px;overflow:hidden'><p style='margin-top:60px'>{}</p></div>",
    "behind its own box": "<div style='background:#eee'><p style='position:relative;z-index:-1'>{}</p></div>",
    "under a box": "<div style='position:relative;height:60px'><p style='margin:0'>{}</p>"
    "<div style='background:#fff;position:absolute;inset:0'></div></div>",
    "beside the window": "<p style='position:fixed;left:200vw'>{}</p>",
    "drawn without fill": "<svg width=600 height=30><text y=20 fill=none>{}</text></svg>",
    "drawn in white": "<svg width=600 height=30><text y=20 style='fill:white'>{}</text></svg>",
    "drawn with thin fill": "<svg width=600 height=30><text y=20 fill-opacity=.03><tspan>{}</tspan></text></svg>",
    "blurred": "<p style='filter:blur(9px)'>{}</p>",
    "in a blurred box": "<div style='filter:grayscale(1) blur(8px)'><p>{}</p></div>",
    "without contrast": "<p style='filter:contrast(0)'>{}</p>",
    "clip path in pixels": "<p style='clip-path:inset(0 0 0 1900px)'>{}</p>",
    "clip path above": "<p style='clip-path:inset(0 0 200px 0)'>{}</p>",
    "clip path circle": "<p style='clip-path:circle(1px at 0 0)'>{}</p>",
    "clip path ellipse": "<p style='clip-path:ellipse(90px .5px at 50% -60px)'>{}</p>",
    "clip path line": "<p style='clip-path:polygon(0 0, 100% 0, 50% 0)'>{}</p>",
    "clip path rectangle": "<p style='clip-path:rect(0 1px 1px 0)'>{}</p>",
    "almost white": "<p style='color:#efefef'>{}</p>",
    "thin color": "<p style='color:rgb(0 0 0 / 9%)'>{}</p>",
    "thin color in a color space": "<p style='color:oklch(0 0 0 / .05)'>{}</p>",
    "transparent on a picture": "<div style='background-image:url(data:,)'><p style='color:transparent'>{}</p></div>",
    "white shadow": "<p style='color:transparent;text-shadow:0 0 2px #fff'>{}</p>",
    "white gradient text": "<p style='background:linear-gradient(#fff,#fefefe);background-clip:text;"
    "color:transparent'>{}</p>",
    "clipped to nothing": "<p style='background-clip:text;color:transparent'>{}</p>",
    "far added text": "<style>.far::before{{left:-9999px;position:absolute;content:'{}, and more of it'}}</style>"
    "<p class=far></p>",
}
SEEN = {
    "plain": "<p>{}</p>",
    "white on a box": "<div style='background:#000'><p style='color:#fff'>{}</p></div>",
    "white on an image": "<div style='background-image:linear-gradient(#000,#000)'><p style='color:#fff'>{}</p></div>",
    "in a scroller": "<div style='height:20px;overflow:auto'><p style='margin-top:400px'>{}</p></div>",
    "further down": "<p style='margin-top:5000px'>{}</p>",
    "gradient text": "<p style='background:linear-gradient(red,blue);background-clip:text;color:transparent'>{}</p>",
    "on its positioned box": "<div style='position:relative;background:#fff'><p>{}</p></div>",
    "beside a box": "<div style='position:relative;height:60px'><p style='margin:0'>{}</p>"
    "<div style='background:#fff;position:absolute;inset:30px 0 0 0'></div></div>",
    "over a box that came first": "<div style='position:relative;height:60px'><div style='background:#fff;"
    "position:absolute;inset:0'></div><p style='position:absolute;margin:0'>{}</p></div>",
    "in a shadow tree on a box": "<div style='position:relative;background:#eee'><div><template shadowrootmode=open>"
    "<p>{}</p></template></div></div>",
    "drawn": "<svg width=600 height=30><text y=20>{}</text></svg>",
    "drawn as lines": "<svg width=600 height=30><text y=20 fill=none stroke=black>{}</text></svg>",
    "drawn on a dark bar": "<svg width=600 height=30><rect width=600 height=30 /><text y=20 fill=#fff>{}</text></svg>",
    "a little blurred": "<p style='filter:blur(1px)'>{}</p>",
    "cut at its edge": "<p style='clip-path:inset(0 10px 0 0)'>{}</p>",
    "in a circle": "<p style='clip-path:circle(70%)'>{}</p>",
    "with a dark shadow": "<p style='color:transparent;text-shadow:0 0 2px #000'>{}</p>",
    "as outlines": "<p style='color:transparent;-webkit-text-stroke:1px #000'>{}</p>",
    "grey": "<p style='color:#bbb'>{}</p>",
    "after added words": "<style>.led::before{{content:'Please note, this is added by the style: '}}</style>"
    "<p class=led>{}</p>",
    "added by the style": "<style>.added::after{{content:'{}, in one line'}}</style><p class=added>Before it </p>",
    "over another box": "<div style='position:relative;height:60px'><div style='background:#000;position:absolute;"
    "inset:0'></div><p style='color:#fff;position:relative'>{}</p></div>",
}


def test_text_that_a_person_cannot_see_is_marked(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        seen = await walk.open(HOME)
        for name in UNSEEN:
            assert NOT_VISIBLE in marks_of(seen, f"words of {name} here"), name
        for name in SEEN:
            assert NOT_VISIBLE not in marks_of(seen, f"words of {name} here"), name
        assert PARTLY_VISIBLE in line(seen, "Go to page two").marks
        assert (await walk.click(ref(seen, "Go to page two"))).url == f"{HOME}two"
        assert await walk.page.evaluate("document.changes ?? 0") == 0

    body = "".join(html.format(f"words of {name} here") for name, html in {**UNSEEN, **SEEN}.items())
    label = "<a href=/two>Go <span style='position:absolute;left:-999px'>to page two</span></a>"
    walks.over({"/": doc(label + body), "/two": doc("two")}, steps)


def test_reading_changes_nothing_that_the_page_can_observe(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        await walk.open(HOME)
        await walk.find("words")
        await walk.more(1)
        assert await walk.page.evaluate("[window.changes, Object.keys(window).includes('kept')]") == [0, False]

    script = """<script>window.changes = 0;
    addEventListener('load', () => new MutationObserver((seen) => { window.changes += seen.length; })
      .observe(document, {subtree: true, childList: true, attributes: true, characterData: true}));
    window.getComputedStyle = () => { window.changes += 100; };
    Document.prototype.createRange = () => { window.changes += 100; };
    </script>"""
    walks.over({"/": doc(f"<p>words</p>{script}")}, steps)


# late content


def test_what_appears_later_is_found_and_waited_for(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        home = await walk.open(HOME)
        assert "late words" not in words(home)
        seen = await walk.wait("late words", 20)
        assert seen.status == "ok"
        assert "late words" in words(seen)
        await walk.page.evaluate("document.body.append('even later ones')")
        assert (await walk.find("even later ones")).status == "ok"
        await walk.page.evaluate("document.body.append('last ones')")
        assert "last ones" in words(await walk.more(1))
        assert (await walk.click(ref(await walk.more(1), "still there"))).status == "ok"
        assert (await walk.wait("never", 0.2)).status == "not_found"
        assert (await walk.wait(seconds=0)).status == "ok"
        for seconds in (-1, 31, float("nan")):
            assert (await walk.wait("x", seconds)).status == "bad_wait"

    script = "<script>setTimeout(() => document.body.append('late words'), 2500)</script>"
    walks.over({"/": doc(f"<button>still there</button>{script}")}, steps)


# slow pages


def test_a_page_without_a_snapshot_is_shown_as_text(walks: Walking, monkeypatch: pytest.MonkeyPatch) -> None:
    async def too_slow(**_: object) -> str:
        raise PlaywrightTimeout("Timeout 60000ms exceeded.")

    async def steps(walk: Walk, site: Site) -> None:
        await walk.open(HOME)
        monkeypatch.setattr(walk.page, "aria_snapshot", too_slow)
        seen = await walk.tabs()
        assert (seen.status, seen.tab) == ("ok", "t1")
        assert [event.kind for event in seen.events] == ["truncated"]
        assert "without refs" in seen.events[0].reason
        assert [(one.role, one.name or one.text, one.ref) for one in seen.lines] == [
            ("heading", "Top", ""),
            ("text", "paragraph 0 of many", ""),
            ("pre", "  a", ""),
            ("pre", "b", ""),
        ]
        assert (await walk.find("0 of many")).status == "ok"

    walks.over({"/": doc("<h1>Top</h1><p>paragraph 0 of <b>many</b></p><pre>  a\nb</pre>")}, steps)


# PDF files


def test_a_pdf_file_is_shown_as_text_in_pages(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        home = await walk.open(HOME)
        seen = await walk.click(ref(home, "Report"))
        assert (seen.status, seen.url, seen.title) == ("ok", f"{HOME}report.pdf", "report.pdf")
        assert "first line" in words(seen)
        assert (await walk.find("line of page two")).status == "ok"
        assert walk.visited[-1] == f"{HOME}report.pdf"
        assert (await walk.back()).url == HOME
        assert (await walk.open(f"{HOME}report.pdf")).url == f"{HOME}report.pdf"
        assert (await walk.open(HOME)).url == HOME
        assert (await walk.open(f"{HOME}bad.pdf")).status == "bad_pdf"
        assert (await walk.open(f"{HOME}report.pdf")).status == "ok"

    kind = {"Content-Type": "application/pdf"}
    pages = {
        "/": doc("<a href=/report.pdf>Report</a>"),
        "/report.pdf": Reply(pdf([["first line", "second"], ["line of page two"]]), headers=kind),
        "/bad.pdf": Reply(b"%PDF-1.4 nothing", headers=kind),
    }
    walks.over(pages, steps)


def test_a_pdf_file_is_requested_only_through_the_proxy(walks: Walking) -> None:
    file = Reply(pdf([["private"]]), headers={"Content-Type": "application/pdf"})
    with served({"/x.pdf": file}) as private:
        addresses = [
            f"http://{host}:{private.port}/x.pdf" for host in ("127.0.0.1", "localhost", "[::1]", "2130706433")
        ]

        async def steps(walk: Walk, site: Site) -> None:
            for url in (*addresses, f"{HOME}moved.pdf"):
                with pytest.raises(UnreadablePdf):
                    await PdfPage.load(walk.page.context, url, "x.pdf", 4)
            assert "/moved.pdf" in site.requests

        moved = Reply("", 302, headers={"Location": addresses[0]})
        walks.over({"/": doc("home"), "/moved.pdf": moved}, steps)
        assert private.requests == []


# line breaks
