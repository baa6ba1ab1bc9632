"""Reading pages in a real browser: search, preformatted and unseen text, late content, slow pages, PDF files."""

import pytest

pytest.importorskip("playwright")
from playwright.async_api import TimeoutError as PlaywrightTimeout

from agentlearn_web.browser.pdf import PdfPage, UnreadablePdf
from agentlearn_web.browser.walk import Walk
from agentlearn_web.observation import CONTEXT, NOT_VISIBLE, PARTLY_VISIBLE, PageObservation
from tests.support.cases import cases
from tests.support.small_pdf import pdf
from tests.support.walking import Reply, Site, Walking, doc, line, ref, served, words
from tests.web.browsers import needs_browser

pytestmark = [needs_browser, pytest.mark.slow]

HOME = "http://site.test/"


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


UNSEEN = cases(__file__, "unseen")
SEEN = cases(__file__, "seen")
APART = cases(__file__, "apart")


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


# what stands apart


def test_what_stands_apart_on_the_screen_stands_apart_in_the_text(walks: Walking, subtests: pytest.Subtests) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        await walk.open(HOME)
        for name, (_, text) in APART.items():
            with subtests.test(name):
                found = await walk.find(text)
                assert text in [one.text or one.name for one in found.lines if CONTEXT not in one.marks]
        for glued in ("106", "81234", "417", "930", "1215", "1999"):
            assert (await walk.find(glued)).status == "not_found"

    walks.over({"/": doc("".join(f"<p>{body}</p>" for body, _ in APART.values()))}, steps)


def test_views_have_the_same_words_as_searches(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        seen = await walk.open(HOME)
        shown = [one.name or one.text for one in seen.lines if one.name or one.text]
        assert shown == ["Room 4 17 seats", "9^30", "7. Apply", "8. Pay", "Cart 3"]

    style = "p::before{content:counter(s) '. '}div{counter-reset:s 6}p{counter-increment:s}"
    body = (
        "<h2>Room 4<b style='margin-left:2em'>17 seats</b></h2>"
        "<h2>9<span style='font-size:.6em;vertical-align:super'>30</span></h2>"
        f"<style>{style}</style><div><p>Apply</p><p>Pay</p></div><button>Cart<i style='margin-left:1em'>3</i></button>"
    )
    walks.over({"/": doc(body)}, steps)


def test_what_cannot_be_read_as_text_is_named(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        seen = await walk.open(HOME)
        assert [(one.role, one.text) for one in seen.lines if one.role in {"canvas", "/title", "grid"}] == [
            ("canvas", "a drawing of 300 x 150 pixels; what it shows cannot be read here"),
            ("/title", "World Health Organisation"),
            ("grid", "1 of 200 rows are here; scroll in it to load others"),
        ]
        assert marks_of(seen, "World Health") == (NOT_VISIBLE,)
        assert ref(seen, "Bolt", "cell")
        assert (await walk.find("world health")).status == "ok"

    body = (
        "<p>Sales</p><canvas></canvas><p>says the <abbr title='World Health Organisation'>WHO</abbr> today</p>"
        "<div role=grid aria-rowcount=200><div role=row><b role=gridcell>A1</b></div></div>"
        "<table><tr><td><span tabindex=0>Bolt</span><td>M8</table>"
    )
    walks.over({"/": doc(body)}, steps)
