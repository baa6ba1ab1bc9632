"""Scripts that solve MiniWoB++ pages with the acts of a walk, without looking into the page's code.

Each script does one page for any seed: it reads the instruction and acts on refs of the last observation.
"""

import re
from calendar import month_name
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agentlearn_web.browser.walk import Walk
from agentlearn_web.observation import ElementLine, PageObservation

LOOKS = 20
CARD = re.compile(r"-?\d+")


@dataclass
class Hands:
    """A walk and its last observation."""

    walk: Walk
    seen: PageObservation

    @property
    def instruction(self) -> str:
        """The page's instruction: its first text."""
        return next(line.text for line in self.seen.lines if line.text)

    def quoted(self) -> list[str]:
        """The quoted words of the instruction."""
        return re.findall(r'"([^"]*)"', self.instruction)

    def lines(self, role: str = "", *, name: str | None = None, text: str | None = None) -> list[ElementLine]:
        """Lines with a ref and that role, name and text, in order."""
        return [
            line
            for line in self.seen.lines
            if line.ref
            and (not role or line.role == role)
            and (name is None or line.name == name)
            and (text is None or line.text == text)
        ]

    async def click(self, line: ElementLine) -> None:
        """Click the line's element."""
        await self.took(await self.walk.click(line.ref))

    async def type(self, line: ElementLine, text: str) -> None:
        """Type into the line's element."""
        await self.took(await self.walk.type(line.ref, text))

    async def button(self, name: str) -> None:
        """Click the first button of that name."""
        await self.click(self.lines("button", name=name)[0])

    async def look(self) -> None:
        """Take a fresh view of the page."""
        await self.took(await self.walk.tabs())

    async def wait(self, role: str, name: str) -> ElementLine:
        """The first line with that role and name, as soon as it is there: some lists and sections open slowly."""
        for _ in range(LOOKS):
            if found := self.lines(role, name=name):
                return found[0]
            await self.look()
        raise AssertionError(f"no {role} {name!r} came up")

    async def took(self, seen: PageObservation) -> None:
        """Keep the observation of an act, which must have succeeded."""
        assert seen.status == "ok", (seen.status, seen.note)
        self.seen = seen


Script = Callable[[Hands], Awaitable[None]]


async def click_quoted_button(h: Hands) -> None:
    await h.button(h.quoted()[0])


async def choose_from_list(h: Hands) -> None:
    wanted = re.search(r"Select (.+) from the list", h.instruction)
    assert wanted
    await h.type(h.lines("combobox")[0], wanted[1])
    await h.button("Submit")


async def check_boxes(h: Hands) -> None:
    wanted = re.search(r"Select (.*) and click Submit", h.instruction)
    assert wanted
    for name in wanted[1].split(", "):
        for box in h.lines("checkbox", name=name):
            await h.click(box)
    await h.button("Submit")


async def pick_option(h: Hands) -> None:
    wanted = re.search(r"Select (.*) and click Submit", h.instruction)
    assert wanted
    await h.click(h.lines("radio", name=wanted[1])[0])
    await h.button("Submit")


async def close_dialog(h: Hands) -> None:
    await h.button("Close")


async def link_in_text(h: Hands) -> None:
    await h.click(h.lines("link", name=h.quoted()[0])[0])


async def enter_date(h: Hands) -> None:
    wanted = re.search(r"(\d\d)/(\d\d)/(\d{4})", h.instruction)
    assert wanted
    await h.type(h.lines("textbox")[0], f"{wanted[3]}-{wanted[1]}-{wanted[2]}")
    await h.button("Submit")


async def fill_quoted(h: Hands) -> None:
    await h.type(h.lines("textbox")[0], h.quoted()[0])
    await h.button("Submit")


async def log_in(h: Hands) -> None:
    user, password = h.quoted()
    await h.type(h.lines("textbox")[0], user)
    await h.type(h.lines("textbox")[1], password)
    await h.click(next(line for line in h.lines("button") if line.name in {"Login", "OK"}))


async def open_tree(h: Hands) -> None:
    (wanted,) = h.quoted()
    tried: set[str] = set()
    while not (found := h.lines("generic", text=wanted)):
        folder = next(
            line for line in h.lines("generic") if line.text and line.ref not in tried and line.text != h.instruction
        )
        tried.add(folder.ref)
        await h.click(folder)
    await h.click(found[0])


def _table(h: Hands) -> dict[str, str]:
    cells = [line.name for line in h.seen.lines if line.role in {"cell", "rowheader", "columnheader"}]
    return dict(zip(cells[::2], cells[1::2], strict=True))


async def read_table(h: Hands) -> None:
    wanted = re.search(r"the value of (.+) into", h.instruction)
    assert wanted
    await h.type(h.lines("textbox")[0], _table(h)[wanted[1]])
    await h.button("Submit")


async def autocomplete(h: Hands) -> None:
    start, *end = h.quoted()
    await h.type(h.lines("textbox")[0], start)
    for _ in range(LOOKS):
        found = [line for line in h.lines() if _fits(line.name or line.text, start, *end)]
        if found:
            break
        await h.look()
    await h.click(found[0])
    await h.button("Submit")


def _fits(item: str, start: str, end: str = "") -> bool:
    return item.startswith(start) and item.endswith(end) and len(item) > len(start)


async def spin(h: Hands) -> None:
    wanted = re.search(r"Select (-?\d+) with", h.instruction)
    assert wanted
    await h.type(h.lines("spinbutton")[0], wanted[1])
    await h.button("Submit")


MONTHS = list(month_name)[1:]


async def pick_day(h: Hands) -> None:
    wanted = re.search(r"(\d+)/(\d+)/(\d{4})", h.instruction)
    assert wanted
    await h.click(h.lines("textbox")[0])
    await _go_to_day(h, *map(int, wanted.groups()))
    await h.button("Submit")


async def _go_to_day(h: Hands, month: int, day: int, year: int) -> None:
    while True:
        shown = next(found for line in h.seen.lines if (found := re.fullmatch(r"([A-Z]\w+) (\d{4})", line.text)))
        ahead = (year - int(shown[2])) * 12 + month - 1 - MONTHS.index(shown[1])
        if not ahead:
            return await h.click(h.lines("link", name=str(day))[0])
        await h.click(h.lines("generic", name="Next" if ahead > 0 else "Prev")[0])


async def mark_mail(h: Hands) -> None:
    wanted = re.search(r"email by (\S+) and click the (star|trash) icon", h.instruction)
    assert wanted
    await _on_mail(h, wanted[1], wanted[2])


async def _on_mail(h: Hands, sender: str, icon: str) -> None:
    senders = h.lines("generic", text=sender)[0]
    after = [line for line in h.lines("button", name=icon) if h.seen.lines.index(line) > h.seen.lines.index(senders)]
    await h.click(after[0])


SCRIPTS: dict[str, Script] = {
    "choose-date-easy": pick_day,
    "choose-list": choose_from_list,
    "click-button": click_quoted_button,
    "click-checkboxes": check_boxes,
    "click-dialog": close_dialog,
    "click-link": link_in_text,
    "click-option": pick_option,
    "email-inbox-delete": mark_mail,
    "enter-date": enter_date,
    "enter-text": fill_quoted,
    "login-user": log_in,
    "navigate-tree": open_tree,
    "read-table": read_table,
    "use-autocomplete": autocomplete,
    "use-spinner": spin,
}
"""Scripts by page, one for each kind of page."""
