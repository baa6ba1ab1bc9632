"""What a channel offers, on a page; the card for a hub; and packages behind the URL of a gateway."""

import asyncio
import json
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, cast

import pytest

pytest.importorskip("cryptography", reason="needs the extra share")
pytest.importorskip("libipld", reason="needs the extra share")
pytest.importorskip("starlette", reason="needs the extra serve")

from huggingface_hub import ModelCard
from starlette.testclient import TestClient

from agentlearn.library.sharing import MAX_BYTES
from agentlearn.library.sharing.channels import Channel, hub_card
from agentlearn.library.sharing.content_id import Package
from agentlearn.library.sharing.signing import trusted
from agentlearn.pages.web_app.server import Site, app_of
from agentlearn.store import open_store
from agentlearn.types.experience import library_of
from tests.support.command import agentlearn_here
from tests.support.comparisons import rich
from tests.support.hostile import HOSTILE
from tests.support.markup import Read
from tests.support.viewed import PORT, viewing
from tests.unit.sharing.test_channels import INDEX, LESSON, keys, run, waiting

PACKAGE = INDEX.parent / "math"


@pytest.fixture(scope="module")
def offered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with keys, a signed package with a comparison, and a channel that holds it."""
    folder = tmp_path_factory.mktemp("offered")
    keys(folder, "ada", "eve")
    agentlearn_here("library", "add", "math", LESSON, cwd=folder)
    version = run(folder, "show math")["version"]
    found = rich()
    arms = (found.arms[0], found.arms[1].model_copy(update={"library": version}))
    (folder / "comparison.json").write_text(found.model_copy(update={"arms": arms}).model_dump_json())
    run(
        folder, "sign math --key ada.pem --out math-1 --comparison comparison.json --licence MIT --price 5€ --model m-1"
    )
    run(folder, "publish math-1 --to channel --key ada.pem")
    run(folder, "publish math-1 --to math.car --key ada.pem")
    return folder


def page_of(folder: Path, channel: str, *options: str) -> Read:
    """The page of a channel, as it is written to a folder of files."""
    pages = folder / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    agentlearn_here("view", channel, *options, "--bundle", str(pages), cwd=folder)
    return Read((pages / "index.html").read_text(encoding="utf-8"))


def test_the_page_says_what_is_offered_who_signed_it_and_what_shows_its_worth(offered: Path) -> None:
    page = " ".join(page_of(offered, "channel", "--key", "ada.pub").text.split())
    for words in (
        *("Foreign text", "nothing is sold or paid here", "The index is signed by a key that you trust", "verified"),
        *("MIT", "5€", "m-1", LESSON, "Simulated: math@7f3c91aa", "fetch channel math --key KEY.pub"),
    ):
        assert words in page
    plain = " ".join(page_of(offered, "channel").text.split())
    assert "No signature was checked" in plain
    assert "not checked" in plain
    assert "verified" not in plain


def change(**told: Any) -> Callable[[Path], None]:
    """Change the entry of the index."""

    def tamper(channel: Path) -> None:
        index = json.loads((channel / INDEX).read_text())
        index["skills"][0].update(told)
        (channel / INDEX).write_text(json.dumps(index))

    return tamper


def write(name: str, content: str) -> Callable[[Path], None]:
    def tamper(channel: Path) -> None:
        (channel / PACKAGE / name).write_text(content)

    return tamper


TAMPERED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a file changed": (write("SKILL.md", "x"), "wrong_content"),
    "other evidence": (write("comparison.json", "{}"), "wrong_content"),
    "a path out of the folder": (change(files=["../../../ada.pem"]), "bad_path"),
    "a name that is a path": (change(name="../up"), "bad_library"),
    "the name of another library": (change(name="other"), "no_file"),
    "an entry without a release": (change(agentlearn=[], files=["library.json"]), "other_files"),
    "a package that is gone": (lambda channel: shutil.rmtree(channel / PACKAGE), "no_file"),
}


def refusals(channel: Path) -> list[str]:
    """The codes of the refusals of all offers; empty for one that is not refused."""
    offers, _ = Channel(channel, {}).offers(datetime.now(UTC))
    return ["" if one.refusal is None else one.refusal.code for one in offers]


def test_what_was_tampered_with_is_shown_as_refused_and_hides_nothing_else(
    offered: Path, subtests: pytest.Subtests
) -> None:
    for name, (tamper, code) in TAMPERED.items():
        with subtests.test(name):
            shutil.rmtree(offered / "copy", ignore_errors=True)
            shutil.copytree(offered / "channel", offered / "copy")
            tamper(offered / "copy")
            assert refusals(offered / "copy") == [code]
    text = page_of(offered, "copy").text
    assert "refused" in text
    assert "no_file" in text
    assert "To get it" not in text
    shutil.copytree(offered / "channel", offered / "two")
    index = json.loads((offered / "two" / INDEX).read_text())
    index["skills"].insert(0, {"name": "gone", "files": ["library.json"]})
    (offered / "two" / INDEX).write_text(json.dumps(index))
    assert refusals(offered / "two") == ["no_file", ""]
    shutil.copytree(offered / "channel", offered / "strange")
    change(description="")(offered / "strange")
    strange = ("view", "strange", "--key", "ada.pub", "--bundle", "no", "--json")
    refused = agentlearn_here(*strange, cwd=offered, expect=1)
    assert json.loads(refused.stdout)["error"]["code"] == "other_index"


def test_a_release_that_no_trusted_key_signed_is_shown_as_not_verified(offered: Path) -> None:
    shutil.copytree(offered / "channel", offered / "eves")
    run(offered, "publish math-1 --to eves --key eve.pem")
    text = page_of(offered, "eves", "--key", "eve.pub").text
    assert "not verified" in text
    assert "unknown_key" in text
    assert "To get it" not in text


def test_hostile_entries_add_no_element_and_no_attribute(offered: Path) -> None:
    plain = page_of(offered, "channel")
    shutil.copytree(offered / "channel", offered / "hostile")
    index = json.loads((offered / "channel" / INDEX).read_text())
    index["skills"] += [{"name": one, "description": one, "files": [one]} for one in HOSTILE]
    (offered / "hostile" / INDEX).write_text(json.dumps(index))
    (offered / "hostile" / PACKAGE / "comparison.json").write_text(json.dumps({"arms": HOSTILE}))
    page = page_of(offered, "hostile")
    for read in (plain, page):
        assert read.comments == []
        assert read.names.count("script") == 3
    assert set(page.names) <= {*plain.names, "div", "p"}
    assert {name for _, one in page.tags for name in one} <= {name for _, one in plain.tags for name in one}


async def _empty(store: Path) -> None:
    async with open_store(store):
        pass


def test_the_server_shows_the_channel_that_the_command_named_and_no_other(offered: Path, tmp_path: Path) -> None:
    store = tmp_path
    asyncio.run(_empty(store))
    with viewing(store) as (site, client):
        assert client.get(f"{site.base}/offers?channel={offered / 'channel'}").status_code == 404
    site = Site(store, PORT, channel=Channel(offered / "channel", trusted([offered / "ada.pub"])))
    with TestClient(app_of(site), base_url=f"http://127.0.0.1:{PORT}") as client:
        client.get(site.link("/offers").removeprefix(f"http://127.0.0.1:{PORT}"))
        assert "verified" in client.get(f"{site.base}/offers").text
        assert client.get(f"{site.base}/offers?first=20").status_code == 200


@pytest.mark.parametrize(("licence", "license_", "name"), [
    ("CC-BY-4.0", "cc-by-4.0", None), ("Club: 'ours'\n---", "other", "Club: 'ours'\\n---"), ("", None, None),
])  # fmt: skip
def test_a_hub_reads_the_card(tmp_path: Path, licence: str, license_: str | None, name: str | None) -> None:
    told = {"model": "a|b", "domain": "math", "licence": licence, "price": "<b>5</b>"}
    library = library_of(["Count both ends.", "Use `sorted` <i>first</i>."])
    (tmp_path / "README.md").write_bytes(hub_card(library, "math", "Lessons.\n# Not a title", told))
    card = ModelCard.load(tmp_path / "README.md")
    data = card.data.to_dict()
    assert (data.get("license"), data.get("license_name")) == (license_, name)
    assert data["tags"] == ["agentlearn", "agent-skills"]
    assert card.text.count("\n# ") == 1
    assert "<b>" not in card.text.replace("\\<", "")
    assert "- Count both ends." in card.text


def test_a_package_is_the_layout_of_a_repository_on_a_hub(offered: Path) -> None:
    names = {"README.md", "SKILL.md", "library.json", "comparison.json", "skill.oms.sig"}
    assert names <= {one.name for one in (offered / "math-1").iterdir()}
    shutil.copytree(offered / "math-1", offered / "clone")
    (offered / "clone" / ".gitattributes").write_text("*.bin filter=lfs\n")
    run(offered, "fetch clone math --key ada.pub --store reader")
    assert waiting(offered / "reader") == [LESSON]


class _Gateway(BaseHTTPRequestHandler):
    """Stands for a gateway of Arweave: `/raw/ID` has the content of a transaction."""

    def do_GET(self) -> None:
        sent = cast("Any", self.server).sent
        status, headers, body = sent.get(self.path, (404, {}, b"Not Found"))
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002  named by the base class


@contextmanager
def gateway(sent: dict[str, tuple[int, dict[str, str], bytes]]) -> Generator[str]:
    """Give the URL of a stand-in for a gateway, with its answers by path."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Gateway) as server:
        cast("Any", server).sent = sent
        thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_package_is_fetched_from_a_gateway_only_with_its_content_id(offered: Path, subtests: pytest.Subtests) -> None:
    car = (offered / "math.car").read_bytes()
    address = Package.of_car(car).address
    other = Package.of({**Package.of_car(car).files, "more.txt": b"x"})
    place = "/raw/bNbA3TEQVL60xlgCcqdz4ZPHFZ711cZ3hmkpGttDt_U"
    answers: dict[str, tuple[tuple[int, dict[str, str], bytes], str]] = {
        "other content": ((200, {}, other.car), "wrong_content"),
        "a flipped bit": ((200, {}, car[:-1] + bytes([car[-1] ^ 1])), "wrong_block"),
        "no CAR file": ((200, {}, b"<html>"), "bad_car"),
        "nothing": ((200, {}, b""), "bad_car"),
        "cut off": ((200, {"Content-Length": str(len(car) + 9)}, car), "gateway"),
        "too large": ((200, {}, b"\0" * (MAX_BYTES + 1)), "gateway"),
        "still pending": ((202, {}, b"Pending"), "gateway"),
        "a redirect": ((302, {"Location": "http://127.0.0.1:1/"}, b""), "gateway"),
        "unknown": ((404, {}, b"Not Found"), "gateway"),
        "compressed, which nobody asked for": ((200, {"Content-Encoding": "gzip"}, b"\x1f\x8b"), "bad_car"),
    }
    sent = {place: (200, {}, car)}
    with gateway(sent) as url:
        told = f"fetch {url}{place} math --address {address} --key ada.pub"
        run(offered, f"{told} --store arrived")
        assert waiting(offered / "arrived") == [LESSON]
        for name, (answer, code) in answers.items():
            with subtests.test(name):
                sent[place] = answer
                assert run(offered, f"{told} --store refused", expect=1)["error"]["code"] == code
        no_id = run(offered, f"fetch {url}{place} math --key ada.pub", expect=2)
        assert no_id["error"]["code"] == "bad_library"
        for bad in ("ftp://127.0.0.1/x", "http://", "http://127.0.0.1:1/x"):
            refused = run(offered, f"fetch {bad} math --address {address} --store refused", expect=1)
            assert refused["error"]["code"] == "gateway"
    assert not (offered / "refused").exists()
