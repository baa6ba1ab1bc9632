"""Scripts that solve MiniWoB++ pages with the acts of a walk, without looking into the page's code.

Each script does one page for any seed: it reads the instruction and acts on refs of the last observation.
"""

import re
from calendar import month_name
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from fractions import Fraction

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


async def click_first_button(h: Hands) -> None:
    await h.click(h.lines("button")[0])


async def click_one(h: Hands) -> None:
    await h.button("ONE")


async def click_one_then_two(h: Hands) -> None:
    await h.button("ONE")
    await h.button("TWO")


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


async def expand_section(h: Hands) -> None:
    await h.click(next(line for line in h.lines("tab") if line.name))
    await h.click(await h.wait("button", "Submit"))


async def close_dialog(h: Hands) -> None:
    await h.button("Close")


async def dialog_button(h: Hands) -> None:
    (wanted,) = h.quoted()
    await h.button("Close" if wanted == "x" else wanted)


async def menu_item(h: Hands) -> None:
    await h.button("Menu")
    *_, wanted = h.quoted()
    if not h.lines("menuitem", name=wanted):
        await h.click(h.lines("menuitem", name="Playback")[0])
    await h.click(await h.wait("menuitem", wanted))


async def link_in_text(h: Hands) -> None:
    await h.click(h.lines("link", name=h.quoted()[0])[0])


async def link_behind_tabs(h: Hands) -> None:
    (wanted,) = h.quoted()
    tabs = [line.name for line in h.lines("link") if line.url.startswith("#tabs")]
    while not (found := [line for line in h.lines("link", name=wanted) if not line.url]):
        await h.click(h.lines("link", name=tabs.pop(0))[0])
    await h.click(found[0])


async def link_behind_sections(h: Hands) -> None:
    (wanted,) = h.quoted()
    sections = [line.name for line in h.lines("tab")]
    while not (found := h.lines("link", name=wanted)):
        await h.click(h.lines("tab", name=sections.pop(0))[0])
        await h.look()
    await h.click(found[0])


async def switch_tab(h: Hands) -> None:
    wanted = re.search(r"Tab #\d+", h.instruction)
    assert wanted
    await h.click(h.lines("link", name=wanted[0])[0])


async def last_word(h: Hands) -> None:
    area, field = h.lines("textbox")[:2]
    await h.type(field, re.findall(r"\w+", area.text)[-1])
    await h.button("Submit")


async def enter_date(h: Hands) -> None:
    wanted = re.search(r"(\d\d)/(\d\d)/(\d{4})", h.instruction)
    assert wanted
    await h.type(h.lines("textbox")[0], f"{wanted[3]}-{wanted[1]}-{wanted[2]}")
    await h.button("Submit")


async def enter_time(h: Hands) -> None:
    wanted = re.search(r"(\d+):(\d\d) (AM|PM)", h.instruction)
    assert wanted
    hour = int(wanted[1]) % 12 + 12 * (wanted[3] == "PM")
    await h.type(h.lines("textbox")[0], f"{hour:02}:{wanted[2]}")
    await h.button("Submit")


async def fill_quoted(h: Hands) -> None:
    await h.type(h.lines("textbox")[0], h.quoted()[0])
    await h.button("Submit")


async def fill_in_case(h: Hands) -> None:
    upper = "upper case" in h.instruction
    (word,) = h.quoted()
    await h.type(h.lines("textbox")[0], word.upper() if upper else word.lower())
    await h.button("Submit")


async def fill_password(h: Hands) -> None:
    (word,) = h.quoted()
    for at in range(2):
        await h.type(h.lines("textbox")[at], word)
    await h.button("Submit")


async def log_in(h: Hands) -> None:
    user, password = h.quoted()
    await h.type(h.lines("textbox")[0], user)
    await h.type(h.lines("textbox")[1], password)
    await h.click(next(line for line in h.lines("button") if line.name in {"Login", "OK"}))


async def greatest_card(h: Hands) -> None:
    cards = [line for line in h.lines("generic") if CARD.fullmatch(line.text)]
    await h.click(max(cards, key=lambda line: int(line.text)))
    await h.button("Submit")


async def nth_word(h: Hands) -> None:
    wanted = re.search(r"the (\d+)", h.instruction)
    assert wanted
    text = next(line.text for line in h.seen.lines if line.role == "paragraph")
    await h.type(h.lines("textbox")[0], re.findall(r"[A-Za-z]+", text)[int(wanted[1]) - 1])
    await h.button("Submit")


async def focus_field(h: Hands) -> None:
    nth = re.search(r"(\d+)", h.instruction)
    await h.click(h.lines("textbox")[int(nth[1]) - 1 if nth else 0])


async def form_in_order(h: Hands) -> None:
    radio, field = (int(number) for number in re.findall(r"(\d+)(?:st|nd|rd|th)", h.instruction))
    await h.click(h.lines("radio")[radio - 1])
    await h.type(h.lines("textbox")[field - 1], h.quoted()[0])
    await h.button("Submit")


async def generate_number(h: Hands) -> None:
    wanted = re.search(r"(even|odd|less than (\d+)|greater than (\d+))", h.instruction)
    assert wanted
    for _ in range(60):
        await h.button("Generate")
        number = int(next(line.text for line in h.lines("generic") if CARD.fullmatch(line.text)))
        fits = {
            "even": number % 2 == 0,
            "odd": number % 2 == 1,
            "less": number < int(wanted[2] or 0),
            "greater": number > int(wanted[3] or 0),
        }
        if fits[wanted[1].split()[0]]:
            break
    await h.button("Submit")


async def guess_number(h: Hands) -> None:
    low, high = 0, 9
    while low <= high:
        guess = (low + high) // 2
        await h.type(h.lines("spinbutton")[0], str(guess))
        await h.button("Submit")
        hint = next((line.text for line in h.seen.lines if "number is" in line.text), "")
        if "lower" in hint:
            high = guess - 1
        elif "higher" in hint:
            low = guess + 1
        else:
            return


async def movie_search(h: Hands) -> None:
    wanted = re.search(r"Search for (\S+) movies directed by (\S+) from year (\d+)", h.instruction)
    assert wanted
    values = dict(zip(("genre", "director", "year"), wanted.groups(), strict=True))
    fields = [line.ref for line in h.lines("textbox")]
    labels = [
        (at, label)
        for at, line in enumerate(h.seen.lines[1:], start=1)
        for label in values
        if label in f"{line.name} {line.text}".casefold()
    ]
    order = [label for _, label in sorted(labels)]
    for ref, label in zip(fields, order, strict=True):
        await h.type(next(one for one in h.lines("textbox") if one.ref == ref), values[label])
    await h.click([line for line in h.lines() if line.role != "textbox"][-1])


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


async def odd_or_even(h: Hands) -> None:
    numbers = [int(line.text) for line in h.lines("generic") if CARD.fullmatch(line.text)]
    for at, number in enumerate(numbers):
        await h.click(h.lines("button", name="Even" if number % 2 == 0 else "Odd")[at])
    await h.button("Submit")


async def phone_book(h: Hands) -> None:
    wanted = re.search(r"Find (\S+) in the contact book and click on their (.+)\.", h.instruction)
    assert wanted
    label = {"phone number": "Phone:", "email": "Email:", "address": "Address:"}[wanted[2]]
    while not any(line.name == wanted[1] for line in h.seen.lines):
        await h.click(h.lines("link", name=">")[0])
    texts = list(h.seen.lines)
    at = next(n for n, line in enumerate(texts) if line.text == label)
    await h.click(texts[at + 1])


def _table(h: Hands) -> dict[str, str]:
    cells = [line.name for line in h.seen.lines if line.role in {"cell", "rowheader", "columnheader"}]
    return dict(zip(cells[::2], cells[1::2], strict=True))


async def read_table(h: Hands) -> None:
    wanted = re.search(r"the value of (.+) into", h.instruction)
    assert wanted
    await h.type(h.lines("textbox")[0], _table(h)[wanted[1]])
    await h.button("Submit")


async def copy_table(h: Hands) -> None:
    table = _table(h)
    labels = [line.text.removesuffix(":") for line in h.seen.lines if line.text.endswith(":")]
    for at, label in enumerate(labels):
        await h.type(h.lines("textbox")[at], table[label])
    await h.button("Submit")


async def search_result(h: Hands) -> None:
    wanted = re.search(r"click the (\d+)", h.instruction)
    assert wanted
    await h.type(h.lines("textbox")[0], h.quoted()[0])
    await h.button("Search")
    left = int(wanted[1]) - 1
    while True:
        results = [line for line in h.lines("link") if not CARD.fullmatch(line.name) and line.name not in {"<", ">"}]
        if left < len(results):
            return await h.click(results[left])
        left -= len(results)
        await h.click(h.lines("link", name=">")[0])


async def solve_for_x(h: Hands) -> None:
    found = re.search(r"(-?\w+) ([+-]) (-?\w+) = (-?\d+)", next(line.text for line in h.lines() if "=" in line.text))
    assert found
    one, sign, other, total = found.groups()
    if one == "x":
        value = Fraction(total) - Fraction(other) if sign == "+" else Fraction(total) + Fraction(other)
    else:
        value = Fraction(total) - Fraction(one) if sign == "+" else Fraction(one) - Fraction(total)
    await h.type(h.lines("textbox")[0], str(value))
    await h.button("Submit")


async def calculate(h: Hands) -> None:
    found = re.search(r"(-?\d+) ([x*+-]) (-?\d+) =", next(line.text for line in h.lines() if line.text.endswith("=")))
    assert found
    one, other = int(found[1]), int(found[3])
    value = {"+": one + other, "-": one - other}.get(found[2], one * other)
    await h.type(h.lines("textbox")[0], str(value))
    await h.button("Submit")


async def written_letters(h: Hands) -> None:
    letters = [line.text for line in h.lines("generic") if line.text and line.text != h.instruction]
    await h.type(h.lines("textbox")[0], "".join(letters))
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


async def buy_ticket(h: Hands) -> None:
    offers = h.lines("button")
    prices = [int(line.name.rpartition("$")[2]) for line in offers]
    texts = [line.text for line in h.seen.lines]
    hours = [re.fullmatch(r"(\d+)h (\d+)m", text) for text in texts]
    minutes = [int(found[1]) * 60 + int(found[2]) for found in hours if found]
    values = prices if "cost" in h.instruction else minutes
    best = max if re.search("most expensive|longest", h.instruction) else min
    await h.click(offers[values.index(best(values))])


async def mark_mail(h: Hands) -> None:
    wanted = re.search(r"email by (\S+) and click the (star|trash) icon", h.instruction)
    assert wanted
    await _on_mail(h, wanted[1], wanted[2])


async def _on_mail(h: Hands, sender: str, icon: str) -> None:
    senders = h.lines("generic", text=sender)[0]
    after = [line for line in h.lines("button", name=icon) if h.seen.lines.index(line) > h.seen.lines.index(senders)]
    await h.click(after[0])


async def forward_mail(h: Hands) -> None:
    wanted = re.search(r"email by (\S+) and forward that email to (\S+)\.", h.instruction)
    assert wanted
    await h.click(h.lines("generic", text=wanted[1])[0])
    await h.click(h.lines("generic", text="Forward")[0])
    await h.type(h.lines("textbox")[0], wanted[2])
    await h.button("send")


async def reply_to_mail(h: Hands) -> None:
    wanted = re.search(r"email by (\S+) and reply to them with the text \"(.+)\"", h.instruction)
    assert wanted
    await h.click(h.lines("generic", text=wanted[1])[0])
    await h.click(h.lines("generic", text="Reply")[0])
    await h.type(h.lines("textbox")[-1], wanted[2])
    await h.button("send")


async def any_mail(h: Hands) -> None:
    instruction = (("icon", mark_mail), ("forward", forward_mail), ("reply", reply_to_mail))
    await next(script for word, script in instruction if word in h.instruction)(h)


async def on_posts(h: Hands) -> None:
    button = h.quoted()[0]
    user = re.search(r"@\w+", h.instruction)
    some = re.search(r"on (\d+) posts?", h.instruction)
    assert user
    lines = h.seen.lines
    posts = [at for at, line in enumerate(lines) if line.text.endswith(user[0]) and line.text != h.instruction]
    for at in posts[: int(some[1]) if some else len(posts)]:
        found = next((line for line in lines[at:] if line.name == button), None)
        if found is None:  # behind `More`
            await h.click(next(line for line in lines[at:] if line.name == "More"))
            found = next(line for line in h.lines() if line.text.startswith(button))
        await h.click(found)
    if "Submit" in h.instruction:
        await h.button("Submit")


SCRIPTS: dict[str, Script] = {
    "click-collapsible-2-nodelay": link_behind_sections,
    "click-link": link_in_text,
    "click-tab-2-hard": link_behind_tabs,
    "email-inbox": any_mail,
    "email-inbox-delete": mark_mail,
    "social-media-all": on_posts,
    "buy-ticket": buy_ticket,
    "choose-date-easy": pick_day,
    "choose-list": choose_from_list,
    "click-button": click_quoted_button,
    "click-button-sequence": click_one_then_two,
    "click-checkboxes": check_boxes,
    "click-collapsible-nodelay": expand_section,
    "click-dialog": close_dialog,
    "click-dialog-2": dialog_button,
    "click-menu-2": menu_item,
    "click-option": pick_option,
    "click-tab": switch_tab,
    "click-test": click_first_button,
    "click-test-2": click_one,
    "email-inbox-reply": reply_to_mail,
    "enter-date": enter_date,
    "enter-password": fill_password,
    "enter-text": fill_quoted,
    "enter-text-2": fill_in_case,
    "enter-time": enter_time,
    "find-greatest": greatest_card,
    "find-word": nth_word,
    "focus-text": focus_field,
    "focus-text-2": focus_field,
    "form-sequence-2": form_in_order,
    "generate-number": generate_number,
    "guess-number": guess_number,
    "login-user-popup": log_in,
    "multi-layouts": movie_search,
    "navigate-tree": open_tree,
    "odd-or-even": odd_or_even,
    "phone-book": phone_book,
    "read-table": read_table,
    "read-table-2": copy_table,
    "scroll-text": last_word,
    "search-engine": search_result,
    "simple-algebra": solve_for_x,
    "simple-arithmetic": calculate,
    "text-transform": written_letters,
    "unicode-test": click_quoted_button,
    "use-autocomplete-nodelay": autocomplete,
    "use-spinner": spin,
}
"""Scripts by page. Of similar pages, such as those with and without delays, only one is here."""
