"""Who gets an answer from the web app, and who does not."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from starlette.testclient import TestClient

from agentlearn.library import LibraryStore
from agentlearn.pages.web_app.server import MAX_ADDRESS, MAX_FIELDS, MAX_FORM, Site, app_of
from tests.support.viewed import PORT, Recorded, recorded, viewing

HOST = f"127.0.0.1:{PORT}"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return recorded(tmp_path_factory.mktemp("viewed"))


class Trick(NamedTuple):
    """A request that must get nothing. Paths begin after the secret part of the address, unless they begin with `!`."""

    name: str
    status: int
    path: str = "/runs"
    method: str = "GET"
    headers: dict[str, str] = {}  # noqa: RUF012
    form: dict[str, str] | None = None
    cookie: bool = True
    """Whether the browser sends its cookie."""
    body: bytes | None = None


PARK = {"act": "park", "library": "math", "lesson": "LESSON", "back": "/runs"}
OWN = {"origin": f"http://{HOST}", "content-type": "application/x-www-form-urlencoded"}
TRICKS = (
    Trick("a name that was bound to this machine later", 421, headers={"host": f"evil.example:{PORT}"}),
    Trick("another port in Host", 421, headers={"host": "127.0.0.1:1"}),
    Trick("Host without a port", 421, headers={"host": "127.0.0.1"}),
    Trick("Host with a name that begins like ours", 421, headers={"host": f"localhost.evil.example:{PORT}"}),
    Trick("Host with an account", 421, headers={"host": f"a@127.0.0.1:{PORT}"}),
    Trick("an empty Host", 421, headers={"host": ""}),
    Trick("another user of the machine", 403, cookie=False),
    Trick("another user who looks for a file", 403, "/asset/view.css", cookie=False),
    Trick("another user who sends a form", 403, "/act", "POST", OWN, PARK, cookie=False),
    Trick("a guessed cookie", 403, headers={"cookie": "agentlearn=guessed"}, cookie=False),
    Trick("the cookie of an earlier start", 403, headers={"cookie": f"agentlearn={'a' * 43}"}, cookie=False),
    Trick("an empty cookie", 403, headers={"cookie": "agentlearn="}, cookie=False),
    Trick("a guessed start token", 403, "/start?token=guessed", cookie=False),
    Trick("no start token", 403, "/start", cookie=False),
    Trick("a path without the secret part", 404, "!/runs"),
    Trick("the root", 404, "!/"),
    Trick("a path that begins like the secret part", 404, "x/runs"),
    Trick("a link on another site", 403, headers={"sec-fetch-site": "cross-site"}),
    Trick("a page at another port of this machine", 403, headers={"sec-fetch-site": "same-site"}),
    Trick("a request for data from another origin", 403, headers={"origin": "http://evil.example"}),
    Trick("an origin without a name", 403, headers={"origin": "null"}),
    Trick("an origin at another port", 403, headers={"origin": "http://127.0.0.1:1"}),
    Trick("a form of another site", 403, "/act", "POST", {**OWN, "origin": "http://evil.example"}, PARK),
    Trick("a form without an origin", 403, "/act", "POST", {"content-type": OWN["content-type"]}, PARK),
    Trick("a form without its token", 403, "/act", "POST", OWN, PARK),
    Trick("a form with a stale token", 403, "/act", "POST", OWN, {**PARK, "token": "stale"}),
    Trick("a form as JSON", 415, "/act", "POST", {**OWN, "content-type": "application/json"}, body=b"{}"),
    Trick("a form as plain text", 415, "/act", "POST", {**OWN, "content-type": "text/plain"}, body=b"act=park"),
    Trick("a form that is too large", 413, "/act", "POST", OWN, body=b"a=" + b"b" * MAX_FORM),
    Trick(
        "a form with too many fields", 400, "/act", "POST", OWN, body=b"&".join(b"a=1" for _ in range(MAX_FIELDS + 1))
    ),
    Trick("a form that is not text", 400, "/act", "POST", OWN, body=b"a=\xff\xfe"),
    Trick("a form to a page", 405, "/runs", "POST", OWN, PARK),
    Trick("another method", 405, method="DELETE"),
    Trick("a question that is too long", 414, f"/search?q={'a' * MAX_ADDRESS}"),
    Trick("a file of the machine as an asset", 404, "/asset/..%2f..%2fpyproject.toml"),
    Trick("a path upwards", 404, "/run/..%2f..%2fetc%2fpasswd"),
    Trick("a file as a library", 404, "/library/math?at=..%2fx.json"),
    Trick("an absolute file as a library", 404, "/library/%2fetc%2fpasswd"),
    Trick("a library with a name that is a path", 404, "/library/..?at="),
    Trick("SQL in an id", 404, "/run/'%20OR%20'1'='1"),
    Trick("a wildcard in an id", 404, "/rollout/%25"),
    Trick("a number that is none", 400, "/runs?first=1;drop"),
    Trick("a number that is too large", 400, f"/runs?first={'9' * 40}"),
    Trick("a negative number", 400, "/runs?first=-1"),
    Trick("a filter that there is not", 400, "/run/01jd/grid?show=<script>"),
    Trick("a table that the page does not have", 400, "/runs?save=table-99"),
    Trick("a saved part with a path in its name", 400, "/runs?save=table-..%2f..%2fx"),
    Trick("a picture that there is not", 404, "/rollout/WRONG/picture/7"),
    Trick("a picture with a number that no program reads", 404, "/rollout/WRONG/picture/²"),
    Trick("a table with a number that no program reads", 400, "/runs?save=table-²"),
    Trick("a NUL in an id", 404, "/run/%00"),
)


@pytest.mark.parametrize("trick", TRICKS, ids=lambda one: one.name)
def test_a_trick_gets_nothing_and_changes_nothing(store: Recorded, trick: Trick) -> None:
    before = LibraryStore(store.store / "libraries").history("math").tip
    with viewing(store.store) as (site, client):
        if not trick.cookie:
            client.cookies.clear()
        path = trick.path.replace("WRONG", store.wrong)
        address = path[1:] if path.startswith("!") else f"{site.base}{path}"
        form = trick.form and {name: value.replace("LESSON", store.lesson) for name, value in trick.form.items()}
        content: dict[str, Any] = {"content": trick.body} if trick.body is not None else {"data": form}
        answer = client.request(trick.method, address, headers=trick.headers, follow_redirects=False, **content)
        assert answer.status_code == trick.status
        assert "What is 2 + 2" not in answer.text
        assert "<script>" not in answer.text
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert site.token not in answer.text or trick.cookie
    assert LibraryStore(store.store / "libraries").history("math").tip == before


def test_the_printed_address_gives_a_cookie_that_no_other_path_or_script_gets(store: Recorded) -> None:
    site = Site(store.store, PORT)
    with TestClient(app_of(site), base_url=f"http://{HOST}") as client:
        answer = client.get(site.link("/runs").removeprefix(f"http://{HOST}"), follow_redirects=False)
    cookie = answer.headers["set-cookie"]
    assert answer.status_code == 303
    assert answer.headers["location"] == f"{site.base}/runs"
    assert f"Path={site.base}" in cookie
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert site.start not in cookie


def test_the_printed_address_opens_the_list_of_runs(store: Recorded) -> None:
    site = Site(store.store, PORT)
    with TestClient(app_of(site), base_url=f"http://{HOST}") as client:
        answer = client.get(site.link("/runs").removeprefix(f"http://{HOST}"))
    assert answer.status_code == 200
    assert answer.url.path == f"{site.base}/runs"
    assert "<h1" in answer.text


@pytest.mark.parametrize("target", ["//evil.example/", "http://evil.example", "/\\evil.example", "javascript:alert(1)"])
def test_the_start_sends_nobody_to_another_site(store: Recorded, target: str) -> None:
    site = Site(store.store, PORT)
    with TestClient(app_of(site), base_url=f"http://{HOST}") as client:
        answer = client.get(site.link(target).removeprefix(f"http://{HOST}"), follow_redirects=False)
    assert answer.headers["location"] == f"{site.base}/runs"


def test_each_start_has_secrets_of_its_own(store: Recorded) -> None:
    one, other = Site(store.store, PORT), Site(store.store, PORT)
    assert len({one.start, one.base, one.token, other.start, other.base, other.token}) == 6


@pytest.mark.parametrize(("host", "name", "known"), [
    ("127.0.0.1", "localhost:9", True), ("127.0.0.1", "[::1]:9", True), ("192.0.2.1", "192.0.2.1:9", True),
    ("192.0.2.1", "localhost:9", False), ("192.0.2.1", "evil.example:9", False), ("::1", "[::1]:9", True),
    ("0.0.0.0", "desk.example:9", True), ("0.0.0.0", "desk.example", True), ("0.0.0.0", "desk.example:8", False),
])  # fmt: skip
def test_the_server_answers_to_its_own_names_only(tmp_path: Path, host: str, name: str, known: bool) -> None:
    assert (name in Site(tmp_path, 9, host, ("Desk.example",)).hosts) is known


def test_a_read_only_site_has_no_forms_and_takes_none(store: Recorded) -> None:
    with viewing(store.store, read_only=True) as (site, client):
        page = client.get(f"{site.base}/lesson/{store.lesson}").text
        assert 'method="post"' not in page
        answer = client.post(f"{site.base}/act", data={**PARK, "token": ""}, headers=OWN)
        assert answer.status_code == 403
