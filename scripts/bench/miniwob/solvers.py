"""A scripted solver for kinds of MiniWoB++: generators that yield BrowserGym's actions and receive the page after each.

A solver reads only what a model reads: the goal and the tree. It knows the rules of its kind, and no other answers.
"""

import re
from collections.abc import Callable, Generator
from dataclasses import dataclass

Solver = Generator[str, "Page", None]


@dataclass(frozen=True, slots=True)
class Page:
    """The goal of a task, and what its page shows."""

    goal: str
    tree: str

    def all(self, role: str, name: str = ".*") -> list[str]:
        """The ids of the elements with this role and name, both patterns."""
        return re.findall(rf"^\t*\[(\w+)\] (?:{role}) '(?:{name})'", self.tree, re.MULTILINE)

    def one(self, role: str, name: str = ".*", at: int = 0) -> str:
        """The id of one of them."""
        return self.all(role, name)[at]

    def around(self, text: str) -> list[str]:
        """The ids of the elements right around a text."""
        found, lines = list[str](), self.tree.split("\n")
        for number, line in enumerate(lines):
            if re.fullmatch(rf"\t*StaticText '(?:{text})'.*", line):
                depth = len(line) - len(line.lstrip("\t"))
                above = (one for one in reversed(lines[:number]) if len(one) - len(one.lstrip("\t")) < depth)
                found += re.findall(r"^\t*\[(\w+)\]", next(above, ""))
        return found

    @property
    def texts(self) -> list[str]:
        """What the page says, in order."""
        return [one for one in re.findall(r"StaticText '(.*?)'(?:,|$)", self.tree, re.MULTILINE) if one.strip()]

    @property
    def quoted(self) -> list[str]:
        """What stands in quotation marks in the goal."""
        return re.findall(r'"(.*?)"', self.goal)


def _click(bid: str) -> str:
    return f"click({bid!r})"


def _fill(bid: str, text: str) -> str:
    return f"fill({bid!r}, {text!r})"


def _submit(page: Page) -> str:
    return _click(page.one("button", "(?i:submit|login|ok|search)"))


def _number(goal: str) -> int:
    return int(re.findall(r"(\d+)(?:st|nd|rd|th)", goal)[0]) - 1


def button(page: Page) -> Solver:
    """Click what is named, or the only button there is."""
    name = re.escape(page.quoted[0]) if page.quoted else "(?i:cancel|click me!?)"
    yield _click(page.one("button", name))


def sequence(page: Page) -> Solver:
    """Click both buttons, or the first one."""
    for name in re.findall(r"\b(ONE|TWO)\b", page.goal):
        page = yield _click(page.one("button", name.title() + "|" + name))


def choices(page: Page) -> Solver:
    """Check the named boxes, then submit."""
    wanted = re.sub(r"^Select | and click Submit\.$", "", page.goal)
    for name in wanted.split(", ") if wanted != "nothing" else ():
        page = yield _click(page.one("checkbox|radio", re.escape(name)))
    yield _submit(page)


def listed(page: Page) -> Solver:
    """Select the named options, then submit."""
    wanted = re.sub(r"^Select | from the (scroll )?list and click Submit\.$", "", page.goal).split(", ")
    given = wanted[0] if len(wanted) == 1 else wanted
    page = yield f"select_option({page.one('combobox|listbox')!r}, {given!r})"
    yield _submit(page)


def section(page: Page) -> Solver:
    """Expand the section, then submit."""
    page = yield _click(page.one("tab"))
    yield _submit(page)


def sections(page: Page) -> Solver:
    """Open one tab or section after the other until the link is there."""
    word = re.escape(page.quoted[0])
    for at in range(len(page.all("tab")) + 1):
        if found := page.around(word):
            page = yield _click(found[0])
            return
        if at < len(page.all("tab")):
            page = yield _click((page.all("link", r"Tab #\d+") or page.all("tab"))[at])
            page = yield "noop(500)"


def tab(page: Page) -> Solver:
    """Click the tab of this number."""
    yield _click(page.one("link", "Tab " + page.goal.rstrip(".").split()[-1]))


def link(page: Page) -> Solver:
    """Click the word."""
    yield _click(page.around(re.escape(page.quoted[0]))[0])


def dialog(page: Page) -> Solver:
    """Close the dialog."""
    name = "Close" if not page.quoted or page.quoted[0] == "x" else page.quoted[0]
    yield _click(page.one("button", name))


def widget(page: Page) -> Solver:
    """Click one of this kind."""
    role = {"text": "textbox", "textarea": "textbox"}.get(page.quoted[0], page.quoted[0])
    yield _click(page.one(role, at=-1 if page.quoted[0] == "textarea" else 0))


def entered(page: Page) -> Solver:
    """Enter the quoted text in every field, in upper or lower case if the goal says so, then submit."""
    text = page.quoted[0]
    text = text.upper() if "upper case" in page.goal else text.lower() if "lower case" in page.goal else text
    for bid in page.all("textbox"):
        page = yield _fill(bid, text)
    yield _submit(page)


def moment(page: Page) -> Solver:
    """Enter a date or a time, then submit."""
    bid = page.one("Date|InputTime")
    if date := re.search(r"(\d\d)/(\d\d)/(\d{4})", page.goal):
        text = f"{date[3]}-{date[1]}-{date[2]}"
    else:
        hour, minute, half = re.findall(r"(\d+):(\d+) ([AP]M)", page.goal)[0]
        text = f"{int(hour) % 12 + 12 * (half == 'PM'):02}:{minute}"
    page = yield _fill(bid, text)
    yield _submit(page)


def word(page: Page) -> Solver:
    """Type one word of the paragraph."""
    said = page.texts[0].split()[_number(page.goal)]
    page = yield _fill(page.one("textbox"), said.rstrip(".,"))
    yield _submit(page)


def focus(page: Page) -> Solver:
    """Focus a field."""
    at = _number(page.goal) if re.search(r"\d", page.goal) else 0
    yield f"focus({page.one('textbox', at=at)!r})"


def login(page: Page) -> Solver:
    """Log in, through a dialog that may come up."""
    for at, text in enumerate(page.quoted[:2]):
        page = yield _fill(page.one("textbox", at=at), text)
        if cancel := page.all("button", "Cancel"):
            page = yield _click(cancel[0])
            page = yield _fill(page.one("textbox", at=at), text)
    page = yield _submit(page) if not page.all("button", "Login") else _click(page.one("button", "Login"))
    if cancel := page.all("button", "Cancel"):
        page = yield _click(cancel[0])
        page = yield _submit(page)


def table(page: Page) -> Solver:
    """Type the values of a table that belong to the labels."""
    cells = re.findall(r"\] cell '(.*?)'", page.tree)
    values = dict(zip(cells[::2], cells[1::2], strict=False))
    named = re.findall(r"value of (.*) into", page.goal) or [one.rstrip(":") for one in page.texts if one.endswith(":")]
    for at, name in enumerate(named):
        page = yield _fill(page.one("textbox", at=at), values[name])
    yield _submit(page)


def algebra(page: Page) -> Solver:
    """Solve for x, or calculate."""
    text = page.texts[0].replace("\u2212", "-")
    if "x" in text and "=" in text and "x =" not in text.replace(" x ", "")[-4:] and re.search(r"\bx\b", page.goal):
        a, sign, b, total = re.findall(r"(\w+) ([+-]) (\w+) = (-?\d+)", text)[0]
        known = int(b if a == "x" else a)
        right = int(total)
        answer = right - known if sign == "+" else right + known if a == "x" else known - right
    else:
        a, sign, b = re.findall(r"(-?\d+) ([+x*-]) (-?\d+)", text)[0]
        answer = {"+": int(a) + int(b), "-": int(a) - int(b)}.get(sign, int(a) * int(b))
    page = yield _fill(page.one("textbox"), str(answer))
    yield _submit(page)


def form(page: Page) -> Solver:
    """Check a box by its number and fill a field by its number; or choose and press."""
    if chosen := re.findall(r"Choose (.*) from the dropdown, then click the button labeled", page.goal):
        page = yield f"select_option({page.one('combobox')!r}, {chosen[0]!r})"
        yield _click(page.one("button", page.quoted[0]))
        return
    first, second = (int(one) - 1 for one in re.findall(r"(\d+)(?:st|nd|rd|th)", page.goal))
    page = yield _click(page.one("radio|checkbox", at=first))
    yield _fill(page.one("textbox", at=second), page.quoted[0])
    if buttons := page.all("button", "Submit"):
        yield _click(buttons[0])


def movies(page: Page) -> Solver:
    """Fill in a search form whose fields have any order."""
    genre, director, year = re.findall(r"Search for (.*) movies directed by (.*) from year (\d+)", page.goal)[0]
    labels = re.findall(r"'(Genre|Director|Year):?'", page.tree)
    values = {"Genre": genre, "Director": director, "Year": year}
    for at, label in enumerate(labels[:3]):
        page = yield _fill(page.one("textbox", at=at), values[label])
    yield _click((page.all("button", "Submit|Search") or page.around("Submit|Search"))[-1])


def copied(page: Page) -> Solver:
    """Copy the text of an area into the field. Its last spaces count."""
    at = _number(page.goal) if re.search(r"\d", page.goal) else 0
    areas = re.findall(r"\] textbox '' value='(.*?)'(?:,|$)", page.tree, re.MULTILINE)
    page = yield _fill(page.all("textbox")[-1], areas[at])
    yield _submit(page)


def menu(page: Page) -> Solver:
    """Open the menu, and the one below it, and click the item."""
    page = yield _click(page.one("button", "Menu"))
    page = yield "noop(300)"
    name = re.escape(page.quoted[-1])
    if not page.all("menuitem", name):
        page = yield f"hover({page.one('menuitem', 'Playback|Zoom')!r})"
    yield _click(page.one("menuitem", name))


def tree(page: Page) -> Solver:
    """Open folders until the file is there."""
    opened = set[str]()
    name = re.escape(page.quoted[0])
    while not (found := page.around(name)):
        folder = next(one for one in page.all("listitem") if one not in opened)
        opened.add(folder)
        page = yield _click(folder)
        page = yield "noop(300)"
    yield _click(found[0])


def results(page: Page) -> Solver:
    """Search, and click the result of this number, which may be on a further page."""
    at = _number(page.goal)
    page = yield _fill(page.one("textbox"), page.quoted[0])
    page = yield _click(page.one("button", "Search"))
    links = "(?!>|<|\\d).*"
    for _ in range(at // 3):
        page = yield _click(page.one("link", ">"))
    yield _click(page.one("link", links, at=at % 3))


def guess(page: Page) -> Solver:
    """Halve the range."""
    low, high = 0, 9
    while True:
        middle = (low + high) // 2
        page = yield _fill(page.one("spinbutton"), str(middle))
        page = yield _submit(page)
        said = " ".join(page.texts)
        low, high = (middle + 1, high) if "higher" in said else (low, middle - 1)


def generated(page: Page) -> Solver:
    """Generate numbers until one fits."""
    kind, limit = re.findall(r"number (less|greater) than (\d+)", page.goal)[0] if "than" in page.goal else ("", "0")
    while True:
        page = yield _click(page.one("button", "Generate"))
        number = int(page.texts[0])
        fits = (
            number < int(limit)
            if kind == "less"
            else number > int(limit)
            if kind
            else number % 2 == ("odd" in page.goal)
        )
        if fits:
            yield _submit(page)
            return


def parity(page: Page) -> Solver:
    """Mark each number as odd or even."""
    numbers = [int(one) for one in page.texts if re.fullmatch(r"-?\d+", one)]
    for at, number in enumerate(numbers):
        page = yield _click(page.one("button", "Odd" if number % 2 else "Even", at=at))
    yield _submit(page)


def suggestion(page: Page) -> Solver:
    """Type a beginning, and take the suggestion that also ends right."""
    begins, *ends = page.quoted
    field = page.one("textbox")
    page = yield f"press({field!r}, {begins[0]!r})"
    page = yield f"fill({field!r}, {begins!r})"
    page = yield "noop(800)"
    matches = [one for one in page.texts if one.startswith(begins) and one.endswith(ends[0] if ends else "")]
    yield _fill(field, next(one for one in matches if one != begins))
    yield f"press({field!r}, 'Escape')"
    yield _submit(page)


def ticket(page: Page) -> Solver:
    """Book the shortest or the cheapest flight."""
    prices = [int(one) for one in re.findall(r"'Book for \$(\d+)'", page.tree)]
    times = [60 * int(hours) + int(minutes) for hours, minutes in re.findall(r"'(\d+)h (\d+)m'", page.tree)]
    values = times if "duration" in page.goal else prices
    best = max(values) if re.search("longest|most expensive|highest", page.goal) else min(values)
    yield _click(page.one("button", "Book.*", at=values.index(best)))


def stock(page: Page) -> Solver:
    """Wait for the price."""
    limit = float(re.findall(r"\$([\d.]+\d)", page.goal)[0])
    while float(re.findall(r"'\$([\d.]+)'", page.tree)[0]) >= limit:
        page = yield "noop(150)"
    yield _click(page.one("button", "Buy"))


def last_word(page: Page) -> Solver:
    """Type the last word of the area."""
    area = re.findall(r"\] textbox '' value='(.*?)'(?:,|$)", page.tree, re.MULTILINE)[0]
    page = yield _fill(page.all("textbox")[-1], area.split()[-1].rstrip("."))
    yield _submit(page)


def garbled(page: Page) -> Solver:
    """Type the letters, which are drawn turned."""
    letters = "".join(one for one in page.texts if len(one) == 1)
    page = yield _fill(page.one("textbox"), letters)
    yield _submit(page)


def agreement(page: Page) -> Solver:
    """Click the named button."""
    yield _click(page.one("button", "(?i:cancel|agree)" if "cancel" not in page.goal else "(?i:cancel)"))


KINDS: dict[str, Callable[[Page], Solver]] = {
    "buy-ticket": ticket,
    "choose-list": listed,
    "click-button": button,
    "click-button-sequence": sequence,
    "click-checkboxes": choices,
    "click-checkboxes-large": choices,
    "click-checkboxes-transfer": choices,
    "click-collapsible": section,
    "click-collapsible-nodelay": section,
    "click-collapsible-2": sections,
    "click-dialog": dialog,
    "click-dialog-2": dialog,
    "click-link": link,
    "click-menu-2": menu,
    "click-option": choices,
    "click-scroll-list": listed,
    "click-tab": tab,
    "click-tab-2": sections,
    "click-tab-2-easy": sections,
    "click-tab-2-hard": sections,
    "click-tab-2-medium": sections,
    "click-test": button,
    "click-test-2": sequence,
    "click-widget": widget,
    "copy-paste": copied,
    "copy-paste-2": copied,
    "enter-date": moment,
    "enter-password": entered,
    "enter-text": entered,
    "enter-text-2": entered,
    "enter-text-dynamic": entered,
    "enter-time": moment,
    "find-word": word,
    "focus-text": focus,
    "focus-text-2": focus,
    "form-sequence-2": form,
    "generate-number": generated,
    "guess-number": guess,
    "login-user": login,
    "navigate-tree": tree,
    "odd-or-even": parity,
    "read-table": table,
    "read-table-2": table,
    "search-engine": results,
    "simple-algebra": algebra,
    "simple-arithmetic": algebra,
    "scroll-text": last_word,
    "unicode-test": button,
    "use-autocomplete": suggestion,
    "multi-orderings": movies,
    "form-sequence-3": form,
    "text-transform": garbled,
    "login-user-popup": login,
    "sign-agreement": agreement,
    "stock-market": stock,
}
"""How each kind is solved."""
