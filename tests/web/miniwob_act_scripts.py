"""Scripts of MiniWoB++ pages that need further acts than clicking and typing."""

import re

from tests.web.miniwob_scripts import CARD, LOOKS, Hands, Script

_GRID = (
    *("top left", "top center", "top right"),
    *("center left", "center", "center right"),
    *("bottom left", "bottom center", "bottom right"),
)
"""What the grid's instructions call its nine places."""


async def menu_path(h: Hands) -> None:
    *parents, leaf = h.instruction.removeprefix("Select ").split(">")
    for name in parents:
        await h.took(await h.walk.hover((await h.wait("menuitem", name)).ref))
    await h.click(await h.wait("menuitem", leaf))


async def several_of_list(h: Hands) -> None:
    wanted = re.search(r"Select (.+) from the scroll list", h.instruction)
    assert wanted
    await h.took(await h.walk.choose(h.lines("listbox")[0].ref, wanted[1].split(", ")))
    await h.button("Submit")


def _values(h: Hands) -> list[int]:
    return [int(line.text) for line in h.lines("generic") if CARD.fullmatch(line.text)]


async def set_sliders(h: Hands) -> None:
    wanted = re.search(r"combination \[(.+)\]|Select (-?\d+) with", h.instruction)
    assert wanted
    for at, value in enumerate((wanted[1] or wanted[2]).split(",")):
        await h.took(await h.walk.press("Tab"))
        for _ in range(200):
            shown = _values(h)[at]
            if shown == int(value):
                break
            await h.took(await h.walk.press("ArrowRight" if shown < int(value) else "ArrowLeft"))
    nth = re.search(r"click the (\d+)\w\w checkbox", h.instruction)
    if nth:
        await h.click(h.lines("checkbox")[int(nth[1]) - 1])
    await h.button("Submit")


async def drag_into_box(h: Hands) -> None:
    small, large = (h.lines("generic", text=text)[0] for text in ("s", "L"))
    await h.took(await h.walk.drag(small.ref, large.ref))
    await h.button("Submit")


async def move_item(h: Hands) -> None:
    wanted = re.fullmatch(r"Drag (\S+) (?:to the )?(.+)\.", h.instruction)
    assert wanted
    items = [line for line in h.lines("generic") if line.text != h.instruction]
    at = [line.text for line in items].index(wanted[1])
    await h.took(await h.walk.drag(items[at].ref, items[_place(wanted[2], at, len(items))].ref))


async def delete_file(h: Hands) -> None:
    end = re.search(r"extension (\.\S+)", h.instruction)
    await _enter(h, "ls")
    texts = [line.text for line in h.seen.lines]
    files = texts[max(at for at, text in enumerate(texts) if text == "user$ ls") + 1].split()
    await _enter(h, "rm " + next(file for file in files if (file.endswith(end[1]) if end else "." not in file)))


async def _enter(h: Hands, command: str) -> None:
    await h.took(await h.walk.press("Enter", h.lines("textbox")[0].ref, command))


async def sign(h: Hands) -> None:
    if h.instruction.startswith("Click the cancel"):
        await h.button("Cancel")
        return
    name, button = h.quoted()
    await _scroll_to(h, "end")
    for _ in range(LOOKS):
        if len(h.lines("textbox")) > 1 and h.lines("button", name=button):
            break
        await h.look()
    await h.type(h.lines("textbox")[-1], name)
    await h.button(button)


async def _scroll_to(h: Hands, end: str) -> None:
    h.seen = await h.walk.scroll(end, ref=h.lines("textbox")[0].ref)
    assert h.seen.status in {"ok", "nothing_new"}, h.seen.status  # a view has the whole text already


def _place(words: str, at: int, size: int) -> int:
    """Return the index of the place that an instruction names. at: where the item is."""
    columns = 3 if size == len(_GRID) else 1
    if words in _GRID and columns > 1:
        return _GRID.index(words)
    if nth := re.match(r"\d+", words):
        return int(nth[0]) - 1
    ways = {"top": -at, "bottom": size - 1 - at, "up": -columns, "down": columns, "left": -1, "right": 1}
    return at + ways[words.split()[0]]


ACT_SCRIPTS: dict[str, Script] = {
    "click-menu": menu_path,
    "click-scroll-list": several_of_list,
    "drag-box": drag_into_box,
    "drag-items": move_item,
    "sign-agreement": sign,
    "terminal": delete_file,
    "use-slider-2": set_sliders,
}
