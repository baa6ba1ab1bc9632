"""Keys, lists, scrolling, files, dialogs, hovering, dragging and screenshots in a real browser, on small pages."""

import hashlib
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from agentlearn_web.browser.walk import Walk
from agentlearn_web.browser.walk_settings import TaskFile
from agentlearn_web.observation import PageObservation
from tests.support.walking import Site, Walking, doc, event_lines, line, ref, words
from tests.web.browsers import needs_browser

pytestmark = [needs_browser, pytest.mark.slow]

HOME = "http://site.test/"


def reasons(seen: PageObservation) -> list[str]:
    return [event.reason for event in seen.events]


# keys

KEY_SEARCH = doc("""<input aria-label=search id=q><ul id=hits></ul><script>
  q.addEventListener('keyup', () => {
    hits.innerHTML = ['alpha', 'beta', 'alphabet'].filter((one) => q.value && one.startsWith(q.value))
      .map((one) => `<li><a href=/${one}>${one}</a>`).join('');
  });
  q.addEventListener('keydown', (event) => {
    if (event.key === 'ArrowDown') { event.preventDefault(); hits.querySelector('a').focus(); }
  });
</script>""")


def test_a_search_that_listens_to_keys_shows_its_hits(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        home = await walk.open(HOME)
        filled = await walk.type(ref(home, "search"), "alpha")
        assert not [one for one in filled.lines if one.role == "link"]  # filling sends no keys
        await walk.press("Control+a Delete", ref(home, "search"))
        typed = await walk.press(ref=ref(home, "search"), text="alpha")
        assert [one.name for one in typed.lines if one.role == "link"] == ["alpha", "alphabet"]
        followed = await walk.press("ArrowDown Enter")
        assert (followed.status, followed.url) == ("ok", f"{HOME}alpha")

    walks.over({"/": KEY_SEARCH, "/alpha": doc("found")}, steps)


def test_what_one_walk_copies_no_other_walk_can_paste(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        home = await walk.open(HOME)
        await walk.press("Control+a Control+c", ref(home, "secret"))
        async with walks.browsers.walk(site.policy) as other:
            seen = await other.open(HOME)
            for keys in ("Control+v", "Control+Shift+V", "Shift+Insert", "Meta+v", "ControlOrMeta+v"):
                assert (await other.press(keys, ref(seen, "empty"))).status == "refused_key"
            assert await other.page.evaluate("document.querySelectorAll('input')[1].value") == ""

    walks.over({"/": doc("<input aria-label=secret value=s3cret><input aria-label=empty>")}, steps)


# lists

LISTS = doc("""<form><select multiple aria-label=many><option value=r>Red<option value=g>Green<option disabled>Blue
  <option>Dark  grey</select><select aria-label=one><option>First<option>Second</select>
  <select aria-label=off disabled><option>First</select><div role=listbox aria-label=own tabindex=0>
  <div role=option>Red</div></div></form><script>
  chosen = () => [...document.querySelectorAll('select')].map((one) => [...one.selectedOptions].map((o) => o.label));
  </script>""")


def test_several_options_of_a_list_are_chosen_at_once(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        home = await walk.open(HOME)
        many, one = ref(home, "many"), ref(home, "one")
        for options, chosen in ((["Red", "g"], ["Red", "Green"]), (["dark grey"], ["Dark grey"]), ([], [])):
            assert (await walk.choose(many, options)).status == "ok"
            assert (await walk.page.evaluate("chosen()"))[0] == chosen
        assert (await walk.choose(one, ["Second"])).status == "ok"
        assert (await walk.page.evaluate("chosen()"))[1] == ["Second"]

    walks.over({"/": LISTS}, steps)


def test_a_choice_that_cannot_be_made_changes_nothing(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        home = await walk.open(HOME)
        before = await walk.page.evaluate("chosen()")
        for name, options, status, said in (
            ("many", ["Red", "Violet"], "no_option", "'Violet'"),
            ("many", ["Blue"], "not_actionable", "disabled"),
            ("one", ["First", "Second"], "no_option", "one option"),
            ("off", ["First"], "not_actionable", "disabled"),
            ("own", ["Red"], "no_list", "click it"),
        ):
            seen = await walk.choose(ref(home, name), options)
            assert (seen.status, said in seen.note) == (status, True), name
        assert await walk.page.evaluate("chosen()") == before

    walks.over({"/": LISTS}, steps)


# scrolling

ENDLESS = """<style>p { height: 100px }</style><div id=list></div><div id=foot>loading</div><script>
  let next = 0;
  const grow = () => {
    for (let i = 0; i < 20 && next < 100; i++) list.insertAdjacentHTML('beforeend', `<p>entry ${next++}</p>`);
  };
  grow();
  new IntersectionObserver((seen) => seen[0].isIntersecting && grow()).observe(foot);
</script>"""
VIRTUAL = """<div id=box tabindex=0 aria-label=rows role=listbox style="height:200px;overflow:auto">
  <div id=all style="height:20000px;position:relative"></div></div><script>
  const draw = () => {
    const from = Math.floor(box.scrollTop / 20);
    all.innerHTML = Array.from({length: 12}, (_, i) => i + from).filter((i) => i < 1000).map((i) =>
      `<div role=option style="position:absolute;top:${i * 20}px">row ${i}</div>`).join('');
  };
  draw();
  box.addEventListener('scroll', draw);
</script>"""


def test_an_endless_page_shows_what_it_loads(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        home = await walk.open(HOME)
        assert "entry 19" in words(home)
        assert "entry 99" not in words(home)
        seen = home
        for _ in range(12):
            seen = await walk.scroll("end")
            if seen.status != "ok":
                break
        assert "entry 99" in words(seen)
        assert (await walk.scroll("down")).status == "no_more"
        up = await walk.scroll("up")
        assert (up.status, "`more`" in up.note) == ("nothing_new", True)
        assert (await walk.scroll("start")).status == "nothing_new"
        assert await walk.page.evaluate("scrollY") == 0

    walks.over({"/": doc(ENDLESS)}, steps)


def test_a_virtual_list_shows_its_further_rows(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        home = await walk.open(HOME)
        rows = ref(home, "rows")
        assert "row 11" in words(home)
        down = await walk.scroll("down", rows)
        assert (down.status, "row 12" in words(down)) == ("ok", True)
        end = await walk.scroll("end", rows)
        assert "row 999" in words(end)
        assert (await walk.scroll("down", rows)).status == "no_more"
        assert "row 0" in words(await walk.scroll("start", rows))
        assert (await walk.scroll("right", rows)).status == "no_more"
        bad = await walk.scroll("sideways", rows)
        assert (bad.status, "'sideways'" in bad.note) == ("bad_direction", True)

    walks.over({"/": doc(VIRTUAL)}, steps)


# dialogs


def test_the_next_dialog_is_answered_as_said_and_only_that_one(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        home = await walk.open(HOME)
        assert "said false" in words(await walk.click(ref(home, "delete")))
        planned = await walk.dialog(True)
        assert reasons(planned) == ["the next one in this tab will be accepted"]
        accepted = await walk.click(ref(home, "delete"))
        assert "said true" in words(accepted)
        assert (event_lines(accepted), reasons(accepted)) == (["dialog: Really?"], ["a dialog (confirm) was accepted"])
        assert "said false" in words(await walk.click(ref(home, "delete")))
        await walk.dialog(True, "Ada")
        named = await walk.click(ref(home, "name"))
        assert ("name Ada" in words(named), reasons(named)) == (
            True,
            ["a dialog (prompt) was accepted with the given text"],
        )
        await walk.dialog(True)
        assert "name Bob" in words(await walk.click(ref(home, "name")))  # the page's own suggestion
        await walk.dialog(True, "Eve")
        await walk.dialog(False)
        assert "name null" in words(await walk.click(ref(home, "name")))

    body = """<button onclick="out.textContent = 'said ' + confirm('Really?')">delete</button>
      <button onclick="out.textContent = 'name ' + prompt('Who?', 'Bob')">name</button><p id=out></p>"""
    walks.over({"/": doc(body)}, steps)


def test_an_answer_is_for_one_tab_and_never_keeps_a_page_open(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        home = await walk.open(HOME)
        await walk.dialog(True)
        other = await walk.click(ref(home, "elsewhere"))
        assert "a dialog (confirm) was dismissed" in reasons(other)
        await walk.tabs(select="t1")
        assert "said true" in words(await walk.click(ref(home, "ask")))
        await walk.dialog(False)
        await walk.click(ref(home, "guard"))
        left = await walk.open(f"{HOME}fine")
        assert (left.status, reasons(left)) == ("ok", ["the page asked to stay, and was left"])

    body = """<button onclick="window.open('/other')">elsewhere</button><p id=out></p>
      <button onclick="out.textContent = 'said ' + confirm('?')">ask</button>
      <button onclick="onbeforeunload = (event) => event.preventDefault()">guard</button>"""
    pages = {"/": doc(body), "/other": doc("<script>document.title = confirm('mine?')</script>"), "/fine": doc("fine")}
    walks.over(pages, steps)


# the mouse


def test_a_menu_opens_while_the_mouse_hovers(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        home = await walk.open(HOME)
        assert "Export" not in words(home)
        seen = await walk.hover(ref(home, "File"))
        assert (seen.status, (await walk.click(ref(seen, "Export"))).url) == ("ok", f"{HOME}export")
        home = await walk.open(HOME)
        assert (await walk.hover(ref(home, "covered"))).status == "not_actionable"
        assert (await walk.hover("t1:e999")).status == "unknown_ref"

    body = """<style>nav div { display: none } nav:hover div { display: block } .c { position: relative }
      .c i { position: absolute; inset: 0 }</style><nav><button>File</button><div><a href=/export>Export</a></div></nav>
      <div class=c><button>covered</button><i></i></div>"""
    walks.over({"/": doc(body), "/export": doc("exported")}, steps)


DRAGS = doc("""<style>.box { width: 80px; height: 40px; margin: 10px }</style>
  <button class=box draggable=true ondragstart="event.dataTransfer.setData('text/plain', 'dragged')">card</button>
  <div class=box style="margin-top: 1500px" role=button aria-label=bin ondragover="event.preventDefault()"
    ondrop="event.preventDefault(); out.textContent = event.dataTransfer.getData('text/plain')">bin</div>
  <button class=box id=mouse>slider</button><button class=box id=end>end</button><p id=out></p><script>
  let held = false, moves = 0;
  mouse.onmousedown = (event) => { held = true; event.preventDefault(); };
  onmousemove = () => { if (held) moves++; };
  onmouseup = (event) => { if (held) out.textContent = `dropped on ${event.target.id} ${moves > 5}`; held = false; };
</script>""")


def test_things_are_dragged_with_the_mouse_and_as_html_says(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        home = await walk.open(HOME)
        html = await walk.drag(ref(home, "card"), ref(home, "bin"))
        assert (html.status, "dragged" in words(html)) == ("ok", True)
        moved = await walk.drag(ref(home, "slider"), ref(home, "end"))
        assert "dropped on end true" in words(moved)
        assert (await walk.drag("t1:e999", ref(home, "end"))).status == "unknown_ref"
        wrong = await walk.drag(ref(home, "slider"), "t1:e999")
        assert (wrong.status, wrong.note[:4]) == ("unknown_ref", "`to`")
        await walk.page.evaluate("document.querySelector('#end').hidden = true")
        assert (await walk.drag(ref(home, "slider"), ref(home, "end"))).status == "not_actionable"
        assert not await walk.page.evaluate("held")

    walks.over({"/": DRAGS}, steps)


def test_a_border_between_two_parts_can_be_moved_and_a_plain_line_cannot(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        home = await walk.open(HOME)
        assert [bool(one.ref) for one in home.lines if one.role == "separator"] == [False, True]
        moved = await walk.press("ArrowLeft", ref(home, "width"))
        assert line(moved, "width").text == "49 of 100"

    border = """<div role=separator tabindex=0 aria-label=width aria-valuenow=50 aria-valuemax=100 style="height:20px"
      onkeydown="this.setAttribute('aria-valuenow', 49)"></div>"""
    walks.over({"/": doc(f"<p>left</p><hr>{border}<p>right</p>")}, steps)


# files

FORM = doc("""<form><input type=file aria-label=single><input type=file multiple aria-label=several>
  <input type=file webkitdirectory aria-label=folder><input type=file disabled aria-label=off>
  <button type=button onclick="store.click()">Attach</button><input type=file hidden id=store>
  <button type=button>plain</button></form><p id=out></p><script>
  document.querySelectorAll('input').forEach((one) => one.onchange = async () => {
    const texts = await Promise.all([...one.files].map(async (f) => `${f.name} ${f.type} ${await f.text()}`));
    out.textContent = texts.join(' and ');
  });
</script>""")


@pytest.fixture
def files(tmp_path: Path) -> Mapping[str, TaskFile]:
    (tmp_path / "sub").mkdir()
    made: dict[str, TaskFile] = {}
    for name, content in (("cv.txt", b"my life"), ("sub/b.txt", b"more")):
        (tmp_path / name).write_bytes(content)
        made[name] = TaskFile(name, tmp_path, hashlib.sha256(content).hexdigest())
    return made


def test_files_that_the_task_names_reach_the_page(walks: Walking, files: Mapping[str, TaskFile]) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        home = await walk.open(HOME)
        one = await walk.upload(ref(home, "single"), ["cv.txt"])
        assert (one.status, "cv.txt text/plain my life" in words(one)) == ("ok", True)
        two = await walk.upload(ref(home, "several"), ["cv.txt", "sub/b.txt"])
        assert "cv.txt text/plain my life and b.txt text/plain more" in words(two)
        button = await walk.upload(ref(home, "Attach"), ["sub/b.txt"])
        assert (button.status, "b.txt text/plain more" in words(button)) == ("ok", True)
        for name, status in (("folder", "not_uploadable"), ("off", "not_uploadable"), ("plain", "not_uploadable")):
            assert (await walk.upload(ref(home, name), ["cv.txt"])).status == status, name
        for name in ("single", "Attach"):
            many = await walk.upload(ref(home, name), ["cv.txt", "sub/b.txt"])
            assert (many.status, "one file" in many.note) == ("not_uploadable", True)

    walks.over({"/": FORM}, steps, files=files)


def test_no_other_file_is_uploaded(walks: Walking, files: Mapping[str, TaskFile], tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("s3cret")

    async def steps(walk: Walk, site: Site) -> None:
        home = await walk.open(HOME)
        single = ref(home, "single")
        unnamed = ["/etc/passwd", "secret.txt", "../secret.txt", "sub/../secret.txt", str(tmp_path / "cv.txt"), "", "~"]
        for name in unnamed:
            seen = await walk.upload(single, [name])
            assert (seen.status, "'cv.txt', 'sub/b.txt'" in seen.note) == ("no_file", True), name
        assert (await walk.upload(single, [])).status == "no_file"
        (tmp_path / "cv.txt").unlink()
        (tmp_path / "cv.txt").symlink_to(tmp_path / "secret.txt")
        changed = await walk.upload(single, ["cv.txt"])
        assert (changed.status, "has changed" in changed.note) == ("no_file", True)
        assert await walk.page.evaluate("out.textContent") == ""

    walks.over({"/": FORM}, steps, files=files)

    async def without(walk: Walk, site: Site) -> None:
        home = await walk.open(HOME)
        seen = await walk.upload(ref(home, "single"), ["cv.txt"])
        assert (seen.status, seen.note) == ("no_file", "nothing was uploaded: this task names no files")

    walks.over({"/": FORM}, without)


# screenshots


def test_a_screenshot_shows_the_refs_and_leaves_the_page_as_it_is(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        home = await walk.open(HOME)
        before = await walk.page.content()
        shot = await walk.screenshot()
        assert shot.view.lines == home.lines
        assert await walk.page.content() == before
        assert shot.media_type == "image/png"
        with Image.open(BytesIO(shot.picture)) as picture:
            assert picture.size[0] <= 1280
            assert picture.size[1] <= 900
            corners = [picture.convert("RGB").getpixel(at) for at in ((390, 240), (580, 340), (80, 40))]
        assert [corner == (214, 40, 40) for corner in corners] == [True, True, False]
        assert line(shot.view, "target").ref

    style = "position:absolute;left:300px;top:200px;width:90px;height:40px"
    frame = "<style>body { margin: 0 } button { width: 80px; height: 40px }</style><button>inside</button>"
    place = "position:absolute;left:500px;top:300px;border:0"
    body = f"""<button style='{style}'>target</button><iframe style='{place}' srcdoc='{frame}'></iframe>"""
    walks.over({"/": doc(body)}, steps)


# clicks of other kinds, late lists, lists in lists

MENU = doc("""<style>#menu{position:absolute;left:0;top:90px;background:#fff}</style>
<table><tr><th id=h style="width:300px">Price
<button>filter</button></th></tr><tr><td><b>30</b></td></tr><tr><td>7</td></tr></table>
<p id=out></p><div id=menu hidden><button onclick="out.textContent = 'deleted ' + at">Delete</button></div><script>
  let at = '';
  h.addEventListener('click', (event) => {
    if (event.target === h) { out.textContent = 'sorted'; h.ariaSort = 'ascending'; }
  });
  for (const cell of document.querySelectorAll('td')) {
    cell.addEventListener('dblclick', () => {
      cell.innerHTML = '<input aria-label=edit value=' + cell.textContent + '>';
    });
    cell.addEventListener('contextmenu', (event) => {
      event.preventDefault(); at = cell.textContent; menu.hidden = false;
    });
  }
</script>""")


def test_a_header_sorts_a_double_click_edits_and_a_right_click_opens_the_menu(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        home = await walk.open(HOME)
        header = next(one for one in home.lines if one.role == "columnheader")
        done = await walk.click(header.ref)
        assert "sorted=ascending" in next(one.marks for one in done.lines if one.role == "columnheader")
        assert next(one for one in done.lines if one.text == "sorted").marks == ("new",)
        edited = await walk.click(ref(done, "7"), "double")
        assert line(edited, "edit").text == "7"
        menu = await walk.click(ref(done, "30", "cell"), "right")
        assert "deleted 30" in words(await walk.click(ref(menu, "Delete")))
        wrong = await walk.click(header.ref, "triple")  # pyright: ignore[reportArgumentType]
        assert (wrong.status, "'triple'" in wrong.note) == ("bad_click", True)

    walks.over({"/": MENU}, steps)


LATE_LIST = doc("""<input id=q aria-label=city role=combobox><ul id=hits role=listbox></ul><p id=out></p><script>
  const cities = ['Graz', 'Greifswald', 'Linz', 'Lienz', 'Wien'];
  let timer, shown = [];
  q.addEventListener('input', () => { clearTimeout(timer); timer = setTimeout(() => {
    shown = cities.filter((one) => q.value && one.toLowerCase().startsWith(q.value.toLowerCase()));
    hits.innerHTML = shown.map((one) => `<li role=option>${one}`).join('');
  }, 500); });
  q.addEventListener('keydown', (event) => { if (event.key === 'Enter') out.textContent = 'chose ' + shown[0]; });
</script>""")


def test_enter_chooses_from_the_list_that_belongs_to_what_was_typed(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        home = await walk.open(HOME)
        field = ref(home, "city")
        typed = await walk.press(ref=field, text="gr")
        assert [(one.name, one.marks) for one in typed.lines if one.role == "option"] == [
            ("Graz", ("new",)),
            ("Greifswald", ("new",)),
        ]
        assert "chose Linz" in words(await walk.type(field, "li", submit=True))
        await walk.press("Control+a Delete", field)
        assert "chose Wien" in words(await walk.press("Enter", field, "wi"))

    walks.over({"/": LATE_LIST}, steps)


def test_a_button_that_is_partly_covered_is_clicked_where_it_is_not(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        home = await walk.open(HOME)
        assert "one clicked" in words(await walk.click(ref(home, "one")))
        hidden = await walk.click(ref(home, "two"))
        assert (hidden.status, "covers it" in hidden.note) == ("not_actionable", True)

    place = "position:absolute;left:20px;width:80px;height:40px"
    buttons = "".join(
        f"<button style='{place};top:{top}px' onclick=\"out.textContent='{name} clicked'\">{name}</button>"
        for name, top in (("one", 20), ("two", 90))
    )
    covers = "".join(
        f"<div style='position:absolute;left:{left}px;top:{top}px;width:120px;height:50px;background:#ddd'></div>"
        for left, top in ((45, 15), (10, 85))
    )
    walks.over({"/": doc(f"{buttons}{covers}<p id=out></p>")}, steps)


SORTABLE = doc("""<style>li { height: 30px; border: 1px solid } span { display: block; height: 10px }</style>
  <ul id=list></ul><p id=out></p><script>
  list.innerHTML = ['one', 'two', 'three', 'four', 'five'].map((one) => `<li><span>${one}</span>`).join('');
  let held = null, busy = 0;
  onmousedown = (event) => { held = event.target.closest('li'); event.preventDefault(); };
  onmouseup = () => { held = null; out.textContent = [...list.children].map((one) => one.textContent).join(' '); };
  onmousemove = (event) => {
    const over = event.target.closest?.('li');
    if (!held || !over || over === held || performance.now() < busy) return;
    const { top, height } = over.getBoundingClientRect(), below = held.compareDocumentPosition(over) & 4;
    if (below ? event.clientY > top + height / 2 : event.clientY < top + height / 2) {
      below ? over.after(held) : over.before(held);
      busy = performance.now() + 120;  // items that change places take no further one
    }
  };
</script>""")


@pytest.mark.parametrize(("item", "to"), [("one", "three"), ("five", "two")])
def test_an_item_dragged_to_another_one_takes_its_place_also_in_a_list_that_moves_slowly(
    walks: Walking, item: str, to: str
) -> None:
    names = ["one", "two", "three", "four", "five"]
    place = names.index(to)
    names.remove(item)
    names.insert(place, item)

    async def steps(walk: Walk, site: Site) -> None:
        home = await walk.open(HOME)
        refs = {one.text: one.ref for one in home.lines if one.ref}
        assert " ".join(names) in words(await walk.drag(refs[item], refs[to]))

    walks.over({"/": SORTABLE}, steps)


# editors

EDITORS = doc("""<div contenteditable><p>First line<p>Second line</div>
<div contenteditable style="border:1px solid;min-height:3em"><p><br></div>
<div contenteditable style="min-height:2em"></div><h3 contenteditable>Title</h3>
<iframe srcdoc="<body contenteditable aria-label=Rich><p>one<p>two"></iframe>
<iframe id=old srcdoc="<p>old<p>editor"></iframe>
<script>old.onload = () => { old.contentDocument.designMode = 'on'; }</script>""")


def test_whatever_can_be_written_in_has_a_ref(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        home = await walk.open(HOME)
        fields = [one for one in home.lines if one.role == "textbox" or "editable" in one.marks]
        assert [(one.role, one.name) for one in fields] == [
            ("textbox", ""),
            ("textbox", ""),
            ("textbox", ""),
            ("heading", "Title"),
            ("textbox", "Rich"),
            ("textbox", ""),
        ]
        for number, field in enumerate(fields):
            seen = await walk.type(field.ref, f"text {number}")
            assert (seen.status, f"text {number}" in words(seen)) == ("ok", True)
        written = [one.ref for one in seen.lines if one.role == "textbox" or "editable" in one.marks]
        for number, field in enumerate(written):
            seen = await walk.press(ref=field, text=f" +{number}")
            assert f"text {number} +{number}" in words(seen)

    walks.over({"/": EDITORS}, steps)


def test_a_field_is_clicked_through_its_placeholder(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        home = await walk.open(HOME)
        assert "unit asked" in words(await walk.click(ref(home, "Unit")))

    body = """<div onclick="at.textContent = 'unit asked'" style="position:relative;width:150px">
    <input role=combobox aria-label=Unit><span style="position:absolute;inset:0;background:#fff">choose</span></div>
    <p id=at></p>"""
    walks.over({"/": doc(body)}, steps)


# what comes late


def test_what_a_timer_or_a_transition_shows_late_is_in_the_view(walks: Walking) -> None:
    async def steps(walk: Walk, site: Site) -> None:
        home = await walk.open(HOME)
        assert "menu of it" in words(await walk.hover(ref(home, "late menu")))
        assert "note over it" in words(await walk.hover(ref(home, "covering")))
        assert "opened late" in words(await walk.click(ref(home, "open late")))
        assert ref(await walk.click(ref(home, "slide in")), "inside")
        never = await walk.click(ref(home, "later"))
        assert [event.kind for event in never.events] == ["incomplete"]
        assert "wait" in reasons(never)[0]

    body = """<style>#box { position: fixed; right: -300px; width: 200px; transition: right .5s }
    #box.on { right: 0 }</style>
    <button onmouseenter="setTimeout(() => { at.textContent = 'menu of it' }, 500)">late menu</button>
    <button onmouseenter="over.style.display = 'block'">covering</button>
    <div id=over style="display:none;position:absolute;top:0;left:0;width:600px;height:99px">note over it</div>
    <div style="margin-top:200px">
    <button onclick="setTimeout(() => { at.textContent = 'opened late' }, 400)">open late</button>
    <button onclick="box.className = 'on'">slide in</button> <button onclick="setTimeout(() => 0, 9000)">later</button>
    </div><p id=at></p><div id=box><button>inside</button></div>"""
    walks.over({"/": doc(body)}, steps)
