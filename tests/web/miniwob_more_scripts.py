"""Scripts of further MiniWoB++ pages: flights, food, waiting, and pages similar to those in `miniwob_scripts`."""

import asyncio
import re
import time

from tests.web.miniwob_act_scripts import ACT_SCRIPTS
from tests.web.miniwob_scripts import (
    LOOKS,
    SCRIPTS,
    Hands,
    Script,
    _go_to_day,
    any_mail,
    forward_mail,
)


async def pick_height(h: Hands) -> None:
    wanted = re.search(r"Choose (.+) from the dropdown", h.instruction)
    assert wanted
    arrow = next(line for line in h.lines("generic") if line.text == "▾")
    await h.click(arrow)
    for _ in range(LOOKS):
        if found := [line for line in h.lines("listitem") if line.text == wanted[1]]:
            break
        await h.look()
    await h.click(found[0])
    await h.button(h.quoted()[0])


async def click_widget(h: Hands) -> None:
    (wanted,) = h.quoted()
    if wanted in {"radio", "checkbox", "button"}:
        return await h.click(h.lines(wanted)[0])
    for at, field in enumerate(h.lines("textbox")):  # only a text area takes a line break, which is shown as a space
        await h.took(await h.walk.press("End Enter", field.ref))
        await h.took(await h.walk.press("", h.lines("textbox")[at].ref, "z"))
        text = h.lines("textbox")[at].text
        if text.endswith(" z") == (wanted == "textarea"):
            return await h.click(h.lines("textbox")[at])
    raise AssertionError(f"no {wanted}")


async def wait_between_clicks(h: Hands) -> None:
    wanted = re.search(r"wait (\d) second", h.instruction)
    assert wanted
    first, second = h.lines("button", name="ONE")[0], h.lines("button", name="TWO")[0]
    began = time.monotonic()
    await h.click(first)  # ends long after the page got the click, once the page has been shown
    await asyncio.sleep(max(0, began + int(wanted[1]) - time.monotonic()))
    await h.click(second)


async def pie_item(h: Hands) -> None:
    (wanted,) = h.quoted()
    await h.click(h.lines("generic", text="+")[0])
    for _ in range(LOOKS):
        if found := h.lines("generic", text=wanted):
            break
        await h.look()
    await h.click(found[0])


async def book_flight(h: Hands) -> None:
    wanted = re.search(r"the (\w+) one-way flight from: (.+) to: (.+) on (\d+)/(\d+)/(\d{4})", h.instruction)
    assert wanted
    best, origin, goal, *day = wanted.groups()
    for field, place in (("From:", origin), ("To:", goal)):
        await h.type(h.lines("textbox", name=field)[0], place)
        for _ in range(LOOKS):
            offered = [
                line for line in h.lines() if place in (line.name or line.text) and "(" in (line.name or line.text)
            ]
            if offered:
                break
            await h.look()
        await h.click(offered[-1])
    await h.click(h.lines("textbox")[2])
    month, of_month, year = map(int, day)
    await _go_to_day(h, month, of_month, year)
    await h.button("Search")
    offers = [line for line in h.lines("button") if "$" in line.name]
    prices = [int(line.name.rpartition("$")[2]) for line in offers]
    times = [re.fullmatch(r"(\d+)h (\d+)m", line.text) for line in h.seen.lines]
    minutes = [int(found[1]) * 60 + int(found[2]) for found in times if found]
    values = prices if best == "cheapest" else minutes
    await h.click(offers[values.index(min(values))])


async def buy_below(h: Hands) -> None:
    limit = re.search(r"less than \$([\d.]+)\.", h.instruction)
    assert limit
    for _ in range(200):
        price = next(line.text for line in h.seen.lines if line.text.startswith("Stock price"))
        if float(price.rpartition("$")[2]) < float(limit[1]) - 1:
            return await h.click(h.lines("button")[0])
        await h.look()
    raise AssertionError("the price did not fall")


async def second_tab(h: Hands) -> None:
    await h.click(h.lines("link", name="Tab #2")[0])


async def order_food(h: Hands) -> None:
    by_kind = re.search(r"Order (\d+) items that are (.+)", h.instruction)
    if by_kind:
        kinds = [at for at, line in enumerate(h.seen.lines) if line.role == "img" and line.name == by_kind[2]]
        items = kinds[: int(by_kind[1])]
    else:
        names = h.instruction.partition(": ")[2].split(", ")
        items = [at for name in names for at, line in enumerate(h.seen.lines) if line.text == name]
    refs = [next(line.ref for line in h.seen.lines[at:] if line.name == "add") for at in items]
    for ref in refs:
        await h.took(await h.walk.click(ref))
    await h.click(h.lines("button")[-1])


MORE_SCRIPTS: dict[str, Script] = {
    "book-flight": book_flight,
    "book-flight-nodelay": book_flight,
    "button-delay": wait_between_clicks,
    "choose-date": SCRIPTS["choose-date-easy"],
    "choose-date-medium": SCRIPTS["choose-date-easy"],
    "choose-date-nodelay": SCRIPTS["choose-date-easy"],
    "click-checkboxes-large": SCRIPTS["click-checkboxes"],
    "click-checkboxes-transfer": SCRIPTS["click-checkboxes"],
    "click-collapsible": SCRIPTS["click-collapsible-nodelay"],
    "click-collapsible-2": SCRIPTS["click-collapsible-2-nodelay"],
    "click-pie": pie_item,
    "click-pie-nodelay": pie_item,
    "click-tab-2": SCRIPTS["click-tab-2-hard"],
    "click-tab-2-easy": SCRIPTS["click-tab-2-hard"],
    "click-tab-2-medium": second_tab,
    "click-test-transfer": SCRIPTS["click-test-2"],
    "click-widget": click_widget,
    "email-inbox-forward": forward_mail,
    "email-inbox-important": any_mail,
    "email-inbox-noscroll": any_mail,
    "email-inbox-star-reply": any_mail,
    "enter-text-dynamic": SCRIPTS["enter-text"],
    "form-sequence-3": pick_height,
    "login-user": SCRIPTS["login-user-popup"],
    "multi-orderings": SCRIPTS["multi-layouts"],
    "order-food": order_food,
    "social-media": SCRIPTS["social-media-all"],
    "social-media-some": SCRIPTS["social-media-all"],
    "stock-market": buy_below,
    "use-autocomplete": SCRIPTS["use-autocomplete-nodelay"],
}

ALL_SCRIPTS: dict[str, Script] = {**SCRIPTS, **MORE_SCRIPTS, **ACT_SCRIPTS}
"""Every script by page."""
UNSCRIPTED = {
    "click-checkboxes-soft": "the words to check are synonyms",
    "email-inbox-forward-nl": "the instruction is free language",
    "email-inbox-forward-nl-turk": "the instruction is free language",
    "email-inbox-nl-turk": "the instruction is free language",
}
"""Pages that are tasks but have no script, with the reason."""
