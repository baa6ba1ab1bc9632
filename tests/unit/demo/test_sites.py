"""The generated sites: deterministic, complete, escaped, fully linked, and served under their host names."""

import asyncio
from hashlib import sha256
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentlearn_demo.web.sites import NUMBERS, all_sites, site
from agentlearn_demo.web.sites.markup import SiteHtml, as_html, html_element, link, teaser
from agentlearn_demo.web.sites.site import KINDS, SEARCH, Site, SiteKind, respond, target
from agentlearn_demo.web.sites.site_server import serve_sites
from tests.support.paper_walk import leads, nodes, tree

FROZEN = "b3f2c0b6575e711a994b814e3bccd8d7"

every_kind = pytest.mark.parametrize("kind", KINDS)


def html_at(one: Site, at: str) -> str:
    path, _, query = at.partition("?")
    response = respond(one, path, query)
    assert response.status == 200, f"{one.host}{at}"
    return response.html


def crawled(one: Site, first: str = "/") -> dict[str, str]:
    """HTML by target, for every page that links and forms lead to."""
    pages: dict[str, str] = {}
    todo = [first]
    while todo:
        at = todo.pop()
        if at not in pages:
            pages[at] = html_at(one, at)
            todo += leads(pages[at])
    return pages


@every_kind
def test_every_link_leads_to_a_page_and_every_page_can_be_reached(kind: SiteKind) -> None:
    for number in (NUMBERS[0], NUMBERS[-1]):
        one = site(kind, number)
        find_element = crawled(one)
        canonical = {target(urlsplit(at).path, _query(at)) for at in find_element}
        searched = {
            a.attributes["href"]
            for entry in one.entries
            for a in nodes(html_at(one, f"{SEARCH}?{urlencode({'q': entry.title})}"), "a")
        }
        assert set(one.pages) - canonical <= searched
        for at in searched:
            html_at(one, at)


def _query(at: str) -> list[tuple[str, str]]:
    return parse_qsl(urlsplit(at).query)


def test_the_sites_never_change() -> None:
    """Recorded tasks, libraries and results depend on the pages: changing a page changes the benchmark."""
    lines = sha256()
    for number in (NUMBERS[0], NUMBERS[-1]):
        for one in (site(kind, number) for kind in KINDS):
            for at in sorted(one.pages):
                lines.update(html_at(one, at).encode())
    assert lines.hexdigest()[:32] == FROZEN


@every_kind
def test_pages_are_complete_and_load_nothing_else(kind: SiteKind) -> None:
    one = site(kind, 2)
    for at in one.pages:
        text = html_at(one, at)
        tree(text)
        assert "src=" not in text
        assert "<script" not in text
        assert all(a.attributes["href"].startswith("/") for a in nodes(text, "a"))
        assert len(nodes(text, "h1")) == 1
        for name in ("header", "nav", "main", "footer", "form"):
            assert nodes(text, name), (at, name)


@settings(max_examples=40)
@given(path=st.text(max_size=20), query=st.text(max_size=30))
def test_any_request_is_answered(path: str, query: str) -> None:
    response = respond(site("documentation", 4), f"/{path}", query)
    assert response.status in {200, 404}
    assert response == respond(site("documentation", 4), f"/{path}", query)


@given(st.text())
def test_texts_are_escaped_everywhere(text: str) -> None:
    assert "<" not in as_html(text)
    assert as_html(as_html(text)) == as_html(text)
    built = teaser(text, text, text)
    assert built.count("<") == html_element("article", link("", ""), SiteHtml("<h3></h3><p></p>")).count("<")
    assert html_element("a", href=text).count('"') == 2


def test_all_sites_are_served_under_their_names_on_one_port() -> None:
    async def asked() -> None:
        async with serve_sites() as served:
            assert set(served) == {one.host for one in all_sites()}
            ((host, port),) = set(served.values())
            async with httpx.AsyncClient(base_url=f"http://{host}:{port}", trust_env=False) as client:

                async def get(name: str, at: str = "/") -> httpx.Response:
                    return await client.get(at, headers={"host": name})

                for one in all_sites()[::7]:
                    response = await get(one.host.upper())
                    assert response.status_code == 200
                    assert response.text == respond(one, "/").html
                    assert response.headers["content-type"] == "text/html; charset=utf-8"
                one = site("company", 0)
                listed = await get(f"{one.host}:80", "/offices?page=2")
                assert listed.text == respond(one, "/offices", "page=2").html != respond(one, "/offices").html
                assert (await get(one.host, "/nowhere")).status_code == 404
                assert (await get("elsewhere.test")).status_code == 404
                posted = await client.post("/", headers={"host": one.host}, content=b"x")
                assert posted.status_code == 405

    asyncio.run(asked())
