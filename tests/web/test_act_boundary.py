"""Through no act does a page, or a model that obeys it, reach a file, a private address or a window of the browser."""

import re
from pathlib import Path

import pytest

from agentlearn_web.browser.walk import Walk
from agentlearn_web.observation import PageObservation
from tests.support.walking import Site, Walking, doc, ref, served, words
from tests.web.browsers import needs_browser

pytestmark = [needs_browser, pytest.mark.slow]

HOME = "http://site.test/"
SECRET = "s3cret-of-this-machine"
SHORTCUTS = (
    *(f"{held}+{key}" for held in ("Control", "Meta", "Alt") for key in "abcdefghijklmnopqrstuvwxyz0123456789-="),
    *(f"Control+Shift+{key}" for key in "abcdefghijklmnopqrstuvwxyz"),
    *(f"{held}F{number}" for held in ("", "Control+", "Alt+", "Shift+") for number in range(1, 13)),
    *("Alt+Home", "Alt+ArrowLeft", "Alt+Enter", "Control+Tab", "Control+Enter", "Shift+Enter", "Shift+Escape"),
    *("ContextMenu", "Control+PageDown", "Shift+F10", "Meta+Space", "Control+Shift+Delete", "Alt+Tab"),
)


def untouched(seen: PageObservation) -> None:
    """The walk still shows the site's page in its only tab, and nothing of the machine."""
    assert {tab.url.partition("#")[0] for tab in seen.tabs} <= {HOME, "about:blank"}
    assert SECRET not in words(seen)


def test_no_shortcut_leaves_the_page(walks: Walking) -> None:
    """Refused ones are pressed too, past the act: the browser must not know them either."""

    async def steps(walk: Walk, site: Site) -> None:
        home = await walk.open(HOME)
        for shortcut in SHORTCUTS:
            seen = await walk.press(shortcut)
            assert seen.status in {"ok", "refused_key"}, shortcut
            assert [tab.id for tab in seen.tabs] == ["t1"], shortcut
            untouched(seen)
            await walk.click(ref(home, "stay"))
            await walk.page.keyboard.press(shortcut)
            assert len(walk.page.context.pages) == 1, shortcut
            assert walk.page.url == HOME, shortcut
        untouched(await walk.tabs())

    walks.over({"/": doc("<button>stay</button>")}, steps)


@pytest.mark.parametrize(
    ("way", "target"),
    [("link", "page"), ("text", "field"), ("other kinds", "editor"), ("link", "file field"), ("text", "frame")],
)
def test_a_dragged_address_of_a_file_opens_nothing(walks: Walking, tmp_path: Path, way: str, target: str) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text(SECRET)
    url = secret.as_uri()
    kinds = {"text": ["text/uri-list"], "other kinds": ["text/x-moz-url", "DownloadURL", "text/html"]}
    sets = "; ".join(f"event.dataTransfer.setData('{kind}', '{url}')" for kind in kinds.get(way, []))
    link, button = f"<a href='{url}'>bait</a>", f'<button draggable=true ondragstart="{sets}">bait</button>'
    fields = """<p><button>page</button><p><input aria-label=field>
      <p contenteditable role=textbox aria-label=editor>e</p><input type=file aria-label='file field'>
      <iframe srcdoc='<button style=height:90px>frame</button>'></iframe>"""

    async def steps(walk: Walk, site: Site) -> None:
        home = await walk.open(HOME)
        seen = await walk.drag(ref(home, "bait"), ref(home, target))
        untouched(seen)
        untouched(await walk.press("Enter"))
        assert await walk.page.evaluate("document.querySelector('[type=file]')?.files.length ?? 0") == 0

    walks.over({"/": doc((link if way == "link" else button) + fields)}, steps)


def test_a_private_address_is_not_reached_through_any_act(walks: Walking, subtests: pytest.Subtests) -> None:
    for act in ["drag", "press", "hover", "choose", "scroll", "dialog", "upload", "double", "right"]:
        with subtests.test(repr(act)), served({"/secret": SECRET}) as private:
            url = f"http://127.0.0.1:{private.port}/secret"
            go = f"fetch('{url}', {{mode: 'no-cors'}}).catch(() => 0); new Image().src = '{url}'"
            pages = {
                "drag": f"<a href='{url}'>from</a><button>to</button>",
                "press": f'<a id=a href="{url}">from</a><script>onkeydown = () => {{ {go} }}</script>',
                "hover": f"<button onmouseover=\"{go}; location = '{url}'\">from</button>",
                "choose": f'<select aria-label=from onchange="{go}"><option>1<option>2</select>',
                "scroll": f'<button style="margin: 9000px 0">from</button><script>onscroll = () => {{ {go} }}</script>',
                "dialog": f"<button onclick=\"if (confirm(1)) {{ {go}; location = '{url}' }}\">from</button>",
                "upload": f'<button onclick="{go}">from</button>',
                "double": f"<button ondblclick=\"{go}; location = '{url}'\">from</button>",
                "right": f"<button oncontextmenu=\"{go}; open('{url}')\">from</button>",
            }

            async def steps(walk: Walk, site: Site) -> None:
                home = await walk.open(HOME)
                bait = ref(home, "from")
                match act:
                    case "drag":
                        seen = await walk.drag(bait, ref(home, "to"))
                    case "press":
                        seen = await walk.press("Enter", bait)
                    case "hover":
                        seen = await walk.hover(bait)
                    case "choose":
                        seen = await walk.choose(bait, ["2"])
                    case "scroll":
                        seen = await walk.scroll("end")
                    case "dialog":
                        await walk.dialog(True)
                        seen = await walk.click(bait)
                    case "double" | "right":
                        seen = await walk.click(bait, "double" if act == "double" else "right")
                    case _:
                        seen = await walk.upload(bait, [url, f"{private.port}"])
                assert SECRET not in words(seen)
                assert act in {"drag", "upload"} or any(event.kind == "blocked" for event in seen.events)
                untouched(await walk.open(HOME))

            walks.over({"/": doc(pages[act])}, steps)
            assert private.requests == []


def test_a_file_is_not_read_by_typing_its_address(walks: Walking, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text(SECRET)

    async def steps(walk: Walk, site: Site) -> None:
        home = await walk.open(HOME)
        field = ref(home, "Choose File", "button")
        for name in (str(secret), secret.as_uri(), "../" * 12 + str(secret)):
            assert (await walk.upload(field, [name])).status == "no_file"
        assert (await walk.type(field, str(secret))).status == "not_typable"
        await walk.press("Enter", field, str(secret))
        untouched(await walk.click(field))
        assert await walk.page.evaluate("document.querySelector('input').value") == ""

    walks.over({"/": doc("<input type=file>")}, steps)


def test_a_page_that_asks_in_a_loop_gets_no_second_answer(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        home = await walk.open(HOME)
        await walk.dialog(True, "yes")
        seen = await walk.click(ref(home, "ask"))
        assert re.search(r"yes,(null,?)+$", words(seen))

    ask = "out.textContent = Array.from({length: 9}, () => String(prompt('more?'))).join()"
    walks.over({"/": doc(f'<button onclick="{ask}">ask</button><p id=out></p>')}, steps)
