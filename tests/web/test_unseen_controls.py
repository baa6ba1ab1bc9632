"""Controls that nobody sees: hidden fields, closed lists, styled checkboxes; and what stands for them on the screen."""

import hashlib
from pathlib import Path

import pytest

pytest.importorskip("playwright")

from agentlearn_web.browser.walk import Walk
from agentlearn_web.browser.walk_settings import TaskFile
from agentlearn_web.observation import ElementLine, PageObservation
from tests.support.walking import Site, Walking, doc, ref
from tests.web.browsers import needs_browser

pytestmark = [needs_browser, pytest.mark.slow]

HOME = "http://site.test/"
HIDDEN = "not visible"
STYLE = """<style>.sr{position:absolute;width:1px;height:1px;overflow:hidden;clip:rect(0 0 0 0)}
.off{position:absolute;left:-9999px}.over{opacity:0;position:absolute}</style>"""
OPTIONS = "".join(f"<option>Town {number}" for number in range(300))
CUSTOM = "".join(f"<div role=option>Town {number}</div>" for number in range(300))
PAGE = doc(
    f"""{STYLE}<h1>Fields</h1>
<select class=sr aria-hidden=true><option>Ann<option>Bob</select>
<input class=sr aria-label=Trap><input class=off aria-label=Honey>
<div role=combobox aria-label=Towns style="position:relative;height:60px"><select aria-label=Towns
  style="opacity:0;position:absolute;inset:0;width:100%;height:60px;pointer-events:none"><option>Red</select></div>
<div style="position:relative">
<select multiple style="opacity:0;position:absolute;pointer-events:none">{OPTIONS}</select>
<div role=listbox id=list style="opacity:0;pointer-events:none;height:50px;overflow:auto">{CUSTOM}</div></div>
<button onclick="list.style = 'height:50px;overflow:auto'">Open list</button>
<p><input type=checkbox id=a class=sr onchange="o.textContent = 'letter ' + this.checked">
<label for=a>Letter</label></p>
<p><label><input type=radio class=sr onchange="o.textContent = 'small'"><span>Small</span></label></p>
<p><input type=checkbox class=over style="z-index:-1" id=loose onchange="o.textContent = 'loose'"><label
  onclick="loose.click()">Loose</label></p>
<p><input type=checkbox id=none style="display:none"><label for=none>Wifi</label></p>
<div class=off>{"<button></button>" * 24}</div><p id=o>nothing</p>"""
)


def named(seen: PageObservation, name: str) -> ElementLine:
    return next(one for one in seen.lines if name in {one.name, one.text})


def test_what_nobody_sees_is_marked_and_a_closed_list_takes_one_line(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        seen = await walk.open(HOME)
        select = next(one for one in seen.lines if one.role == "combobox")
        assert all(HIDDEN in one.marks for one in (select, named(seen, "Trap"), named(seen, "Honey")))
        assert [one.marks for one in seen.lines if one.text == "300 options, closed"] == [(HIDDEN,)] * 2
        assert [one.name for one in seen.lines if one.role == "button"] == ["Open list"]  # no button without a name
        towns = [HIDDEN in one.marks for one in seen.lines if one.role == "combobox" and one.name == "Towns"]
        assert towns == [False, True]  # what is drawn, and the list under it
        assert "closed" in named(await walk.find("Town 217"), "Town 217").marks
        opened = await walk.click(ref(seen, "Open list"))
        assert sum(one.role == "option" and HIDDEN not in one.marks for one in opened.lines) > 50
        assert named(opened, "300 options, closed")

    walks.over({"/": PAGE}, steps)


def test_a_field_behind_its_label_is_clicked_there(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        seen = await walk.open(HOME)
        for name, effect in (("Letter", "letter true"), ("Small", "small")):
            line = next(one for one in seen.lines if one.role in {"checkbox", "radio"} and one.name == name)
            assert HIDDEN not in line.marks
            seen = await walk.click(line.ref)
            assert named(seen, effect)
        loose = next(one for one in seen.lines if one.role == "checkbox" and not one.name)
        assert named(await walk.click(loose.ref), "loose")
        seen = await walk.click(named(await walk.open(HOME), "Wifi").ref)
        assert "checked" in named(seen, "Wifi").marks

    walks.over({"/": PAGE}, steps)


def test_parts_of_one_word_are_one_name(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        seen = await walk.open(HOME)
        assert [one.name for one in seen.lines if one.ref and one.role in {"option", "link"}] == [
            "Lindauer Gasse",
            "New York",
            "12 34",
        ]

    options = "<li role=option tabindex=0><mark>Lind</mark>auer Gasse<li role=option tabindex=0><mark>New</mark> York"
    link = "<a href=/y><b>12</b><code style='margin-left:2em'>34</code></a>"
    walks.over({"/": doc(f"<ul role=listbox>{options}</ul>{link}")}, steps)


def test_the_order_on_the_screen_is_said_where_it_is_another(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        seen = await walk.open(HOME)
        assert [one.text for one in seen.lines if one.role == "/drawn"] == ["1234", "one | two", "left | right"]

    override = "<p><span style='unicode-bidi:bidi-override;direction:rtl;display:inline-block'>4321</span> code</p>"
    row = "<div style='display:flex;flex-direction:row-reverse'><i>two</i><i>one</i></div>"
    grid = "<div style='display:flex'><i style='order:2'>right</i><i>left</i></div>"
    plain = "<div style='display:flex'><i>first</i><i>second</i></div>"
    walks.over({"/": doc(override + row + grid + plain)}, steps)


def test_an_editor_is_written_in_through_what_is_around_it(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        seen = await walk.open(HOME)
        line = next(one for one in seen.lines if one.role == "textbox")
        seen = await walk.type(line.ref, "Dear Eva")
        assert named(seen, "Dear Eva")
        line = next(one for one in seen.lines if one.role == "textbox")
        assert named(await walk.press(ref=line.ref, text="!"), "Dear Eva!")

    inner = "<div contenteditable><p style='margin:9px'>one</p></div>"
    walks.over({"/": doc(f"<div>{inner}<i style='position:absolute'>Start here</i></div><script></script>")}, steps)


def test_a_file_is_dropped_where_the_page_takes_one(walks: Walking, tmp_path: Path) -> None:
    (tmp_path / "cv.txt").write_text("Dear Eva")
    files = {"cv.txt": TaskFile("cv.txt", tmp_path, hashlib.sha256(b"Dear Eva").hexdigest())}

    async def steps(walk: Walk, site: Site) -> None:
        seen = await walk.open(HOME)
        assert (await walk.upload(ref(seen, "Nothing"), ["cv.txt"])).status == "not_uploadable"
        assert named(await walk.upload(ref(seen, "Drop here"), ["cv.txt"]), "got cv.txt of 8")

    zone = """<div tabindex=0 role=button>Nothing</div><div id=z tabindex=0 role=button>Drop here</div>
<p id=o></p><script>
z.ondragover = (event) => event.preventDefault();
z.ondrop = (event) => { const [file] = event.dataTransfer.files; o.textContent = `got ${file.name} of ${file.size}`; };
</script>"""
    walks.over({"/": doc(zone)}, steps, files=files)


def test_a_page_names_nothing_that_is_asked_in_it(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        seen = await walk.open(HOME)
        assert named(await walk.click(ref(seen, "Go")), "added")

    names = "".join(f"<p id={name}>{name}" for name in ("kept", "probe", "readText"))
    walks.over({"/": doc(f"{names}<button onclick='document.body.append(\"added\")'>Go</button>")}, steps)
