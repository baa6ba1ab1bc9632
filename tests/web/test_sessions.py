"""Sessions in a real browser: a login is done once and leaves no secret behind, and own certificates are checked."""

import asyncio
import json
import logging
import shutil
import ssl
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn.config import SiteOptions, SolveSettings, given_settings
from agentlearn.domain.base import RolloutContext
from agentlearn.errors import ConfigError
from agentlearn.learning.solve import Solved, SolveGiven, run_solving
from agentlearn.types.task import Task
from agentlearn_web import WebDomain
from agentlearn_web.browser.walk import Walk
from tests.support.walking import Reply, ref, served, words
from tests.web.browsers import needs_browser

pytestmark = [needs_browser, pytest.mark.slow]

PASSWORD = "canary-password-81c5"
COOKIE = "canary-cookie-55d0a1b2c3d4"
TOKEN = "canary-local-storage-77e1"
FORM = """<title>Login</title><form action=/session method=post>
<label>User name <input name=user></label> <input type=password placeholder=Secret name=pw>
<button>Sign in</button></form>"""
SESSION = f"<title>In</title><p>Log out</p><script>localStorage.setItem('token', '{TOKEN}')</script>"
HOME = f"""<title>Home</title><h1>Home</h1><p id=said></p><a href="/next?sid={COOKIE}">next</a><p>{PASSWORD}</p>
<script>said.textContent = document.cookie + ' ' + localStorage.getItem('token')</script>"""
PAGES = {
    "/login": FORM,
    "/session": Reply(SESSION, headers={"Set-Cookie": f"sid={COOKIE}; Path=/"}),
    "/home": HOME,
    "/next": f"<title>Next</title><script>document.title = document.cookie; alert('{TOKEN}')</script>",
}


def acts(port: int, *more: dict[str, str]) -> list[dict[str, str]]:
    return [
        {"open": f"http://127.0.0.1:{port}/login"},
        {"fill": "User name", "env": "SITE_USER"},
        {"fill": "Secret", "env": "SITE_PASSWORD"},
        {"click": "Sign in"},
        *(more or [{"expect": "Log out"}]),
    ]


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SITE_USER", "anna")
    monkeypatch.setenv("SITE_PASSWORD", PASSWORD)


def walker() -> FunctionModel:
    """A model that opens the start, clicks the link, tries a wrong address, and answers with what it saw."""

    def act(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        parts = [part for one in messages if isinstance(one, ModelRequest) for part in one.parts]
        seen = [part.model_response_str() for part in parts if isinstance(part, ToolReturnPart)]
        start = str(parts[0].content).partition("\n")[0].removeprefix("Start page: ")
        match len(seen):
            case 0:
                call = ToolCallPart("open", {"url": start})
            case 1:
                call = ToolCallPart("click", {"ref": seen[0].partition('"next" [')[2].partition("]")[0]})
            case 2:
                call = ToolCallPart("find", {"text": "canary"})
            case _:
                call = ToolCallPart("answer", {"answer": " ".join(seen)[:5_000], "url": start})
        return ModelResponse(parts=[call])

    return FunctionModel(act)


def solved(port: int, folder: Path, **options: Any) -> Solved[Any]:
    fields = {
        "domain": "web",
        "problem": "What is next?",
        "model": "function",
        "start": f"http://127.0.0.1:{port}/home",
        "store": folder / "store",
        "record": folder / "recorded",
        **options,
    }
    return asyncio.run(run_solving(given_settings(SolveSettings, fields), SolveGiven(model=walker())))


def test_no_secret_of_a_session_is_left_anywhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    with served(PAGES) as site:
        trajectory = solved(site.port, tmp_path, login=acts(site.port))
    assert trajectory.failure is None
    views = trajectory.model_dump_json()
    assert "sid=[secret]" in views, "the walk has the session, and its secrets are left out"
    assert site.requests.count("/session") == 1
    files = [one for one in tmp_path.rglob("*") if one.is_file()]
    assert any(one.name.startswith("step-") for one in files)
    assert not [one for one in files if one.name == "trace.zip"]
    output = capfd.readouterr()
    texts = [one.read_bytes() for one in files]
    texts += [one.encode() for one in (caplog.text, output.out, output.err, views, repr(trajectory))]
    for secret in (PASSWORD, COOKIE, TOKEN):
        assert not any(secret.encode() in text for text in texts)


@asynccontextmanager
async def a_walk(domain: WebDomain, start: str) -> AsyncGenerator[Walk]:
    async with domain.running() as running:
        context = RolloutContext(task=Task.of("web", "q", "a", start=start), seed=1)
        async with running.open(context) as deps:
            yield deps.walk


def test_a_saved_session_starts_every_walk(tmp_path: Path) -> None:
    async def main(port: int) -> None:
        here = f"http://127.0.0.1:{port}"
        cookie = {"name": "sid", "value": COOKIE, "domain": "127.0.0.1", "path": "/"}
        local = {"origin": here, "localStorage": [{"name": "token", "value": TOKEN}]}
        file = tmp_path / "state.json"
        file.write_text(json.dumps({"cookies": [cookie], "origins": [local]}))
        domain = WebDomain().with_sites(SiteOptions(storage_state=file))
        async with a_walk(domain, f"{here}/home") as walk:
            seen = await walk.open(f"{here}/home")
            assert f"sid={COOKIE} {TOKEN}" in words(seen)

    with served(PAGES) as site:
        asyncio.run(main(site.port))


@pytest.mark.parametrize(
    ("act", "why"),
    [
        ({"expect": "Welcome"}, "the text 'Welcome' did not appear on the page at 127.0.0.1; the login may have been"),
        ({"fill": "Code", "env": "SITE_PASSWORD"}, "no field 'Code' on the page at 127.0.0.1 could be filled"),
        ({"open": "http://127.0.0.2:8081/"}, "127.0.0.2 did not open (blocked"),
    ],
)
def test_a_login_that_fails_names_its_act_and_no_value(
    act: dict[str, str], why: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("agentlearn_web.sessions.ELEMENT_S", 1.0)
    caplog.set_level(logging.DEBUG)

    async def main(port: int) -> None:
        options = SiteOptions.model_validate({"login": acts(port, act)})
        async with WebDomain().with_sites(options).running():
            raise AssertionError("the login was taken for done")

    with served(PAGES) as site, pytest.raises(ConfigError) as raised:
        asyncio.run(main(site.port))
    assert raised.value.message.startswith(f"act 5 of the login failed: {why}")
    assert raised.value.__cause__ is None
    assert PASSWORD not in caplog.text


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority with a certificate for 127.0.0.1, one for another host, and a certificate that signed itself."""
    if shutil.which("certutil") is None or shutil.which("openssl") is None:
        pytest.skip("needs openssl and certutil, see docs/web.md")
    folder = tmp_path_factory.mktemp("certificates")
    new = ("-newkey", "rsa:2048", "-nodes", "-days", "30")
    openssl(folder, "req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Test authority")
    own = ("-subj", "/CN=self", "-addext", "subjectAltName=IP:127.0.0.1")
    openssl(folder, "req", "-x509", *new, "-keyout", "self.key", "-out", "self.pem", *own)
    for name, host in (("site", "IP:127.0.0.1"), ("other", "DNS:other.corp")):
        (folder / "ext").write_text(f"subjectAltName={host}")
        openssl(folder, "req", *new, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30", "-extfile", "ext")
        openssl(folder, "x509", "-req", "-in", f"{name}.csr", *signed, "-out", f"{name}.pem")
    return folder


@asynccontextmanager
async def https(certificate: Path) -> AsyncGenerator[str]:
    """Serve one page with a certificate, and yield its address."""

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = b"<title>Wiki</title><h1>Wiki</h1>"
        try:
            await reader.readuntil(b"\r\n\r\n")
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
            writer.write(head % len(body) + body)
            await writer.drain()
        except (OSError, EOFError):
            pass
        finally:
            writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    server = await asyncio.start_server(connection, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


@pytest.mark.parametrize(
    ("trusted", "certificate", "status"),
    [
        (None, "site.pem", "load_failed"),
        ("ca.pem", "site.pem", "ok"),
        ("ca.pem", "other.pem", "load_failed"),  # its name is that of another host
        ("self.pem", "self.pem", "ok"),
    ],
)
async def test_own_certificates_are_trusted_and_all_others_are_still_refused(
    trusted: str | None, certificate: str, status: str, certificates: Path
) -> None:
    options = SiteOptions(ca_file=None if trusted is None else certificates / trusted)
    async with https(certificates / certificate) as url, a_walk(WebDomain().with_sites(options), url) as walk:
        seen = await walk.open(url)
        assert (seen.status, seen.title == "Wiki") == (status, status == "ok"), seen.note


async def test_a_server_that_only_sends_a_trusted_certificate_along_is_refused(certificates: Path) -> None:
    chain = certificates / "forged.pem"
    chain.write_text((certificates / "self.pem").read_text() + (certificates / "ca.pem").read_text())
    chain.with_suffix(".key").write_text((certificates / "self.key").read_text())

    domain = WebDomain().with_sites(SiteOptions(ca_file=certificates / "ca.pem"))
    async with https(chain) as url, a_walk(domain, url) as walk:
        assert (await walk.open(url)).status == "load_failed"


def test_a_click_on_a_private_site_stays_on_it() -> None:
    """The walk of a private start reaches no other port, no other name of this machine, and nothing public."""

    async def main(port: int) -> None:
        here = f"http://127.0.0.1:{port}"
        async with a_walk(WebDomain(), here) as walk:
            seen = await walk.open(f"{here}/home")
            assert seen.status == "ok"
            assert (await walk.click(ref(seen, "next"))).status == "ok"
            for foreign in (f"http://localhost:{port}/", f"http://127.0.0.2:{port}/", "http://example.org/"):
                assert (await walk.open(foreign)).status == "blocked"

    with served(PAGES) as site:
        asyncio.run(main(site.port))
