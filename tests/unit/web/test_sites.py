"""The generated sites: deterministic, complete, escaped, fully linked, and served under their host names."""

import asyncio
from hashlib import sha256
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentlearn.errors import ConfigError
from agentlearn_web.observation import format_line
from agentlearn_web.sites import NUMBERS, all_sites, site
from agentlearn_web.sites.company import company, company_site
from agentlearn_web.sites.documentation import documentation, documentation_site
from agentlearn_web.sites.markup import SiteHtml, as_html, html_element, link, teaser
from agentlearn_web.sites.shop import shop, shop_site
from agentlearn_web.sites.site import KINDS, SEARCH, Site, SiteKind, respond, target
from agentlearn_web.sites.site_server import serve_sites
from agentlearn_web.sites.university import university, university_site
from tests.support.paper_walk import BUDGET, leads, nodes, page_lines, tree

WORLDS = (university, company, documentation, shop)
MAKERS = {
    "university": university_site,
    "company": company_site,
    "documentation": documentation_site,
    "shop": shop_site,
}

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


@every_kind
def test_a_site_has_sixty_pages_and_more_and_all_are_different(kind: SiteKind) -> None:
    for number in NUMBERS:
        one = site(kind, number)
        assert len(one.pages) >= 60
    bodies = [html_at(one, at) for at in one.pages if "find" not in at]
    assert len(set(bodies)) == len(bodies)


@every_kind
def test_a_site_depends_on_its_kind_and_number_alone(kind: SiteKind) -> None:
    before = site(kind, 3)
    for world in WORLDS:
        world.cache_clear()
    again = MAKERS[kind](3)
    assert again == before
    assert again is not before
    assert html_at(again, "/") == html_at(before, "/")


def test_the_sites_never_change() -> None:
    """Recorded tasks, libraries and results depend on the pages: changing a page changes the benchmark."""
    lines = sha256()
    for number in (NUMBERS[0], NUMBERS[-1]):
        for one in (site(kind, number) for kind in KINDS):
            for at in sorted(one.pages):
                lines.update(html_at(one, at).encode())
    assert lines.hexdigest()[:32] == FROZEN


def test_no_two_sites_share_a_name_or_a_host() -> None:
    sites = all_sites()
    assert len(sites) == len(KINDS) * len(NUMBERS) == 48
    assert len({one.host for one in sites}) == len({one.name for one in sites}) == 48
    assert all(one.host.endswith(".test") and one.start == f"http://{one.host}/" for one in sites)


def test_an_unknown_number_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^there is no shop 12; take one of 0 to 11$"):
        site("shop", 12)


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


@every_kind
def test_only_the_option_reference_is_longer_than_one_view(kind: SiteKind) -> None:
    one = site(kind, 5)
    sizes = {at: sum(len(format_line(line)) + 1 for line in page_lines(html_at(one, at))) for at in one.pages}
    long = {at for at, size in sizes.items() if size > BUDGET}
    assert long == {at for at in one.pages if at.endswith("/options")}
    assert min(sizes.values()) > 1_200


def test_the_search_finds_best_matches_first_and_says_how_many() -> None:
    one = site("shop", 0)
    model = next(entry.title for entry in one.entries if entry.title.endswith("Plus"))
    text = html_at(one, f"{SEARCH}?{urlencode({'q': model})}")
    titles = [node.text() for node in nodes(text, "h3")]
    assert titles[0] == model.removesuffix(" Plus")
    assert titles[1] == model
    assert len(titles) <= 8
    nothing = html_at(one, f"{SEARCH}?q=xylophone")
    assert "0 results" in nothing
    assert nodes(nothing, "h3") == []


def test_search_results_are_paged_without_gaps_or_repeats() -> None:
    one = site("shop", 0)
    at, seen = f"{SEARCH}?q=weathers", []
    while at:
        text = html_at(one, at)
        seen += [node.text() for node in nodes(text, "h3")]
        at = next((a.attributes["href"] for a in nodes(text, "a") if a.text() == "Next page"), "")
    assert seen == [entry.title for entry in one.entries]


def test_an_unknown_address_is_a_404_with_links() -> None:
    response = respond(site("company", 1), "/nowhere", "a=1")
    assert response.status == 404
    assert "Page not found" in response.html
    assert nodes(response.html, "a")


@settings(max_examples=40)
@given(path=st.text(max_size=20), query=st.text(max_size=30))
def test_any_request_is_answered(path: str, query: str) -> None:
    response = respond(site("documentation", 4), f"/{path}", query)
    assert response.status in {200, 404}
    assert response == respond(site("documentation", 4), f"/{path}", query)


@settings(max_examples=40)
@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=40))
def test_search_words_are_escaped(words: str) -> None:
    plain = respond(site("shop", 1), SEARCH, "q=zzz").html
    text = respond(site("shop", 1), SEARCH, urlencode({"q": words})).html
    if not nodes(text, "h3"):
        for name in ("a", "p", "script", "b", "form", "input"):
            assert len(nodes(text, name)) == len(nodes(plain, name))
    tree(text)


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
