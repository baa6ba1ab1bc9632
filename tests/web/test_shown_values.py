"""What a page shows besides text: values of widgets, numbers of list items, chosen options; passwords never."""

import pytest

pytest.importorskip("playwright")

from agentlearn_web.browser.walk import Walk
from agentlearn_web.observation import PageObservation
from tests.support.walking import Site, Walking
from tests.web.browsers import needs_browser

pytestmark = [needs_browser, pytest.mark.slow]

HOME = "http://site.test/"
PAGE = """<!doctype html><title>Page</title>
<p>Upload: <progress max=200 value=150></progress> <progress aria-label=Waiting></progress></p>
<meter min=2 max=10 value=6 aria-label=Fuel></meter> <meter value=0.7 aria-label=Disk></meter>
<label>Volume <input type=range min=0 max=11 value=7></label> <input type=range aria-label=Plain value=30>
<div role=slider aria-valuenow=3 aria-valuetext="three stars" aria-valuemax=5 aria-label=Stars tabindex=0>o</div>
<div role=progressbar aria-valuenow=33 aria-valuemax=100 aria-label=Build></div>
<div role=spinbutton aria-valuenow=12 aria-label=Guests tabindex=0>-</div>
<div role=progressbar aria-valuenow=99 aria-label=Gone style="display:none"></div>
<div aria-hidden=true><progress value=0.99></progress></div>
<ol start=5><li>five apples</li><li style="display:none">gone</li>
  <li>six pears<ol type=a><li>inner one</li><li value=9>inner nine</li></ol></li></ol>
<ol reversed><li>last of three</li><li>middle</li><li>first</li></ol>
<ol type=I start=4><li><p>fourth chapter</p></li></ol><ul><li>a bullet</li></ul>
<ol style="list-style:none"><li>without number</li></ol>
<select aria-label=Color><option>red<option selected>green</select>
<form autocomplete=off><input type=password value=hunter2 aria-label=Key>
<input value="open words" aria-label=Open>
<input type=password value=hunter4 placeholder="your key" aria-label=Second><input type=password value=hunter5
  placeholder aria-label=Third><input value=masked7 aria-label=Pin style="-webkit-text-security: disc"></form>
"""
FRAMED = """<!doctype html><title>Page</title><p>Sign in</p><iframe src="http://other.test/login"></iframe>"""
LOGIN = """<!doctype html><title>In</title><input type=password value=hunter3 aria-label=Key><p>the form</p>"""


def shown(seen: PageObservation, name: str) -> str:
    return next(one.text for one in seen.lines if one.name == name)


def numbered(seen: PageObservation) -> dict[str, str]:
    """The mark of each list item, by its first words."""
    found: dict[str, str] = {}
    for at, line in enumerate(seen.lines):
        if line.role == "listitem":
            words = line.text or next(one.text for one in seen.lines[at + 1 :] if one.text)
            found[words] = next((one for one in line.marks if one.startswith("number=")), "")
    return found


def test_values_numbers_and_choices_are_in_the_view(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        seen = await walk.open(HOME)
        assert [one.text for one in seen.lines if one.role == "progressbar" and not one.name] == [
            "150 of 200",
            "0.99 of 1",
        ]
        values = {name: shown(seen, name) for name in ("Waiting", "Fuel", "Disk", "Volume", "Plain", "Stars", "Build")}
        assert values == {
            "Waiting": "not known",
            "Fuel": "6, from 2 to 10",
            "Disk": "0.7 of 1",
            "Volume": "7 of 11",
            "Plain": "30 of 100",
            "Stars": "o (three stars (3 of 5))",
            "Build": "33 of 100",
        }
        assert shown(seen, "Guests") == "- (12)"
        assert numbered(seen) == {
            "five apples": "number=5",
            "six pears": "number=6",
            "inner one": "number=a",
            "inner nine": "number=i",
            "last of three": "number=3",
            "middle": "number=2",
            "first": "number=1",
            "fourth chapter": "number=IV",
            "a bullet": "",
            "without number": "",
        }
        assert ("option", "green", ("selected",)) in [(one.role, one.name, one.marks) for one in seen.lines]

    walks.over({"/": PAGE}, steps)


def test_what_stands_in_a_password_field_is_never_shown(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        seen = await walk.open(HOME)
        assert [
            (one.name, one.text, "value not shown" in one.marks) for one in seen.lines if one.role == "textbox"
        ] == [
            ("Key", "", True),
            ("Open", "open words", False),
            ("Second", "", True),
            ("Third", "", True),
            ("Pin", "", True),
        ]
        assert not any("hunter" in f"{one.name}{one.text}" for one in seen.lines)
        framed = await walk.open(f"{HOME}framed")
        assert not any("hunter3" in f"{one.name}{one.text}" for one in framed.lines)

    walks.over({"/": PAGE, "/framed": FRAMED, "/login": LOGIN}, steps)
