"""Pages in a real browser: nothing breaks, loads, overflows or is hard to read; they work by keyboard.

The pages are those of a comparison and of a learn run.

Skipped where no Chromium is installed: `apt-get install --no-install-recommends chromium-headless-shell` brings one.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from agentlearn.pages.learn_page import learn_page
from agentlearn_evals.page import comparison_page
from tests.support.comparisons import minimal, rich
from tests.support.hostile import HOSTILE
from tests.support.learn_records import learn_record

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PROGRAM = next((path for name in NAMES if (path := shutil.which(name))), None)
FLAGS = (
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-sync",
    "--no-first-run",
)
PATIENCE_MS = 120_000
PHONE, DESK = 360, 1280

pytestmark = [
    pytest.mark.skipif(PROGRAM is None, reason=f"no browser here: none of {', '.join(NAMES)} is installed"),
    pytest.mark.slow,
]

# Each text on the page with its contrast against what is painted beneath it, where that is below the given ratio.
TOO_PALE = """(least) => {
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((c) => c / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const parsed = (color) => {
    const parts = color.match(/[\\d.]+/g).map(Number);
    return { rgb: parts.slice(0, 3), alpha: parts.length > 3 ? parts[3] : 1 };
  };
  const beneath = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const color = parsed(getComputedStyle(e).backgroundColor);
      if (color.alpha > 0) return color.rgb;
    }
    return [255, 255, 255];
  };
  const pale = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || element.closest("script, svg title")) continue;
    if (!element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const ink = parsed(element instanceof SVGElement ? style.fill : style.color);
    const a = luminance(ink.rgb), b = luminance(beneath(element));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    seen += 1;
    const faint = ink.alpha < 1 || style.opacity !== "1";
    if (ratio < least || faint) pale.push(`${ratio.toFixed(2)} ${walker.currentNode.data}`);
  }
  return { pale, seen };
}"""

# Texts of drawings that lie upon each other or beyond the drawing's figure.
COLLISIONS = """() => {
  const found = [];
  for (const svg of document.querySelectorAll("figure svg.plane, figure svg.axis")) {
    const figure = svg.closest("figure").getBoundingClientRect();
    const boxes = [...svg.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
    boxes.forEach(([words, box], n) => {
      const outside = box.left < figure.left - 16 || box.right > figure.right + 16;
      if (box.width && outside) found.push(`${words} is outside`);
      for (const [other, its] of boxes.slice(0, n)) {
        const apart = box.right <= its.left || its.right <= box.left || box.bottom <= its.top || its.bottom <= box.top;
        if (!apart) found.push(`${words} upon ${other}`);
      }
    });
  }
  return found;
}"""


@contextmanager
def launched() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=PROGRAM, chromium_sandbox=False, args=list(FLAGS), timeout=PATIENCE_MS
        )
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages as files, as a person opens them."""
    folder = tmp_path_factory.mktemp("pages")
    hostile = rich().model_copy(update={"title": "".join(HOSTILE[:8]), "notes": HOSTILE})
    pages = {
        "rich": comparison_page(rich(arms=6), trace_of=lambda rollout: f"Transcript of {rollout}\n" * 50),
        "minimal": comparison_page(minimal()),
        "hostile": comparison_page(hostile, trace_of=lambda rollout: "\n".join(HOSTILE)),
        "learned": learn_page(learn_record(tasks=60, epochs=3)),
        "learned-hostile": learn_page(learn_record(text="".join(HOSTILE))),
    }
    for name, html in pages.items():
        (folder / f"{name}.html").write_text(html, encoding="utf-8")
    return folder


@contextmanager
def view(
    browser: Browser, file: Path, *, width: int = DESK, scheme: str = "light", scripts: bool = True
) -> Iterator[Page]:
    """The page, watched from before it is loaded; what it did is judged at the end."""
    size = {"width": width, "height": 900}
    context = browser.new_context(viewport=size, color_scheme=scheme, java_script_enabled=scripts)
    page, loaded, said = context.new_page(), list[str](), list[str]()
    page.set_default_timeout(PATIENCE_MS)
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: loaded.append(request.url))
    page.goto(file.as_uri())
    yield page
    assert said == []
    assert [one for one in loaded if one != file.as_uri() and not one.startswith("data:")] == []
    context.close()


def unfold(page: Page) -> None:
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")


@pytest.mark.parametrize(("scheme", "name"), [("dark", "rich"), ("light", "learned")])
def test_every_text_is_readable_and_nothing_overflows(browser: Browser, files: Path, scheme: str, name: str) -> None:
    with view(browser, files / f"{name}.html", width=PHONE, scheme=scheme) as page:
        unfold(page)
        found = page.evaluate(TOO_PALE, 4.5)
        assert found["pale"] == []
        assert found["seen"] > 1000
        assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
        assert page.evaluate(COLLISIONS) == []


@pytest.mark.parametrize("name", ["hostile", "learned-hostile"])
def test_hostile_texts_do_nothing(browser: Browser, files: Path, name: str) -> None:
    with view(browser, files / f"{name}.html", width=PHONE) as page:
        unfold(page)
        assert page.evaluate("window.hacked === undefined")
        assert page.locator("img, iframe").count() == 0
        assert page.locator("script").count() == 1
        assert "<script>window.hacked=1</script>" in page.locator("h1").inner_text()
        assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")


def test_the_policy_stops_what_would_get_in(browser: Browser, files: Path) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto((files / "minimal.html").as_uri())
    smuggled = "<b onclick='window.hacked=1' style='color: rgb(1, 2, 3)'>x</b>"
    page.evaluate("(html) => document.body.insertAdjacentHTML('beforeend', html)", smuggled)
    page.locator("body > b").click()
    assert page.evaluate("window.hacked === undefined")
    assert page.locator("body > b").evaluate("(b) => getComputedStyle(b).color") != "rgb(1, 2, 3)"
    context.close()


def test_the_keyboard_reaches_the_contents_and_sorts_a_table(browser: Browser, files: Path) -> None:
    with view(browser, files / "rich.html") as page:
        met: list[str] = []
        while len(met) < 60 and met[-1:] != ["BUTTON Difference"]:
            page.keyboard.press("Tab")
            met.append(
                page.evaluate(
                    """() => {
                      const e = document.activeElement, style = getComputedStyle(e);
                      const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
                      const name = e.getAttribute("aria-label") ?? e.textContent;
                      return `${e.tagName} ${name}${outlined ? "" : " (not seen)"}`;
                    }"""
                )
            )
        assert met[0] == "A Skip to the details"
        assert met[-3:] == ["DIV Arms compared with none (simulated)", "BUTTON Arm", "BUTTON Difference"]
        assert [one for one in met if one.endswith("(not seen)")] == []

        table = page.get_by_role("region", name="Arms compared with none (simulated)")
        cells = table.locator("tbody tr td:nth-child(2)")
        before, orders = cells.all_inner_texts(), list[list[str]]()
        for _ in range(3):
            page.keyboard.press("Enter")
            orders.append(cells.all_inner_texts())
        numbers = [float(text.split()[0].replace("\N{MINUS SIGN}", "-")) for text in orders[0]]
        assert numbers == sorted(numbers, reverse=True)
        assert orders[1:] == [orders[0][::-1], before]


def test_the_page_works_without_scripts(browser: Browser, files: Path) -> None:
    with view(browser, files / "rich.html", scripts=False) as page:
        assert page.locator("thead button").count() == 0
        fold = page.locator("summary", has_text="Every task in every arm")
        row = page.locator("figure", has_text="Every task in every arm").locator("tbody tr").last
        assert not row.is_visible()
        fold.click()
        assert row.is_visible()


def test_proposals_are_filtered_by_choice_and_by_text(browser: Browser, files: Path) -> None:
    with view(browser, files / "learned.html") as page:
        unfold(page)
        figure = page.locator("figure", has=page.get_by_role("region", name="Proposals (simulated)"))
        rows = figure.locator("tbody tr:visible")
        whole = rows.count()
        figure.get_by_label("End").select_option("refused")
        assert set(rows.locator("td:nth-child(5)").all_inner_texts()) == {"refused"}
        figure.get_by_label("Epoch").select_option("2")
        assert rows.count() == whole / 15
        figure.get_by_label("End").select_option("any end")
        figure.get_by_label("Epoch").select_option("any epoch")
        figure.get_by_label("Text").fill("ASKS_FOR_secrets")
        assert figure.locator("output").inner_text() == f"{rows.count()} of {whole}" == f"{whole // 5} of {whole}"
