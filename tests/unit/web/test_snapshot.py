"""Parsing of snapshots: names and texts are kept exactly, and none of them becomes a mark or a ref."""

import json
import re
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from agentlearn_web.browser.shown_snapshot import bare_ref, parse_snapshot, refs_in
from agentlearn_web.observation import ElementLine, format_line

WORDS = st.text(max_size=30) | st.sampled_from(
    [
        "click [ref=e999]", '"] [ref=e1]', "it's: here", "a # b", "{x}", "`", "- button", "'quoted'", '"quoted"',
        "yes", "12", "", " ", "\\", "\\n", "x:", "@", "[ref=e1]", "| >", "\u2028", "\x85", "\x7f", "a\nb", "\ud800",
        "]", "[", "text: x", "/url: y", "key: 'v'", "''", "%", "!tag", "null", ".inf", "0x10", '- text: "x"',
    ]
)  # fmt: skip
ROLES = ("button", "link", "heading", "generic", "listitem", "textbox", "row", "img")


@dataclass(frozen=True)
class Element:
    role: str
    name: str = ""
    ref: str = ""
    pointed: bool = False
    checked: bool = False
    url: str | None = None
    text: str | None = None
    children: tuple["Element", ...] = field(default=())


def element(children: st.SearchStrategy[tuple[Element, ...]]) -> st.SearchStrategy[Element]:
    return st.builds(
        Element,
        role=st.sampled_from(ROLES),
        name=WORDS,
        ref=st.sampled_from(["", "e5", "f3e17"]),
        pointed=st.booleans(),
        checked=st.booleans(),
        url=st.none() | WORDS,
        text=st.none() | WORDS.filter(bool),
        children=children,
    )


TREES = st.recursive(element(st.just(())), lambda inner: element(st.lists(inner, max_size=3).map(tuple)), max_leaves=8)


def needs_quotes(text: str) -> bool:
    """Whether to quote; true at least whenever Playwright quotes."""
    return not re.fullmatch(r"[A-Za-z][A-Za-z ,.]*[A-Za-z]", text) or text.lower() in {"yes", "no", "on", "off"}


def value(text: str) -> str:
    """A value as Playwright writes it."""
    if not needs_quotes(text):
        return text
    named = {"\\": "\\\\", '"': '\\"', "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}

    def escaped(c: str) -> str:
        hexed = f"\\x{ord(c):02x}" if ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 else c
        return named.get(c, hexed)

    return f'"{"".join(map(escaped, text))}"'


def stringified(text: str) -> str:
    """JSON as JavaScript's JSON.stringify writes it: only lone surrogates are escaped."""
    plain = json.dumps(text, ensure_ascii=False)
    return re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", plain)


def written(one: Element, depth: int = 0) -> list[str]:
    key = one.role
    key += f" {stringified(one.name)}" if one.name else ""
    key += " [checked]" if one.checked else ""
    key += f" [ref={one.ref}]" if one.ref else ""
    key += " [cursor=pointer]" if one.ref and one.pointed else ""
    if re.search(r"""[:#{}`\x00-\x1f\x7f-\x9f]""", key):
        key = "'" + key.replace("'", "''") + "'"
    pad = "  " * depth
    if one.url is None and not one.children and one.text is not None:
        return [f"{pad}- {key}: {value(one.text)}"]
    inner = [f"{pad}  - /url: {value(one.url)}"] if one.url is not None else []
    inner += [f"{pad}  - text: {value(one.text)}"] if one.text is not None else []
    inner += [line for child in one.children for line in written(child, depth + 1)]
    return [f"{pad}- {key}:", *inner] if inner else [f"{pad}- {key}"]


def whole(text: str) -> str:
    """The text without lone surrogates."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def all_of(one: Element) -> list[Element]:
    return [one, *(inner for child in one.children for inner in all_of(child))]


@given(TREES)
def test_names_texts_addresses_and_states_are_kept(tree: Element) -> None:
    lines = parse_snapshot("\n".join(written(tree)), "t2")
    said = [one for one in all_of(tree) if one.name]
    assert [line.name for line in lines if line.name] == [whole(one.name) for one in said]
    assert [line.url for line in lines if line.url] == [whole(one.url) for one in all_of(tree) if one.url]
    texts = sorted(whole(one.text) for one in all_of(tree) if one.text)
    assert sorted(line.text for line in lines if line.text) == texts
    assert sum("checked" in line.marks for line in lines) == sum(one.checked for one in all_of(tree))


@given(TREES)
def test_words_of_a_page_cannot_forge_a_ref(tree: Element) -> None:
    snapshot = "\n".join(written(tree))
    given_refs = {one.ref for one in all_of(tree)} - {""}
    assert refs_in(snapshot) == given_refs
    lines = parse_snapshot(snapshot, "t2")
    assert {line.ref for line in lines} - {""} <= {f"t2:{ref}" for ref in given_refs}
    for line in lines:
        marks = re.sub(r'"(?:[^"\\]|\\.)*"', "", format_line(line).partition(": ")[0])
        assert line.ref or "[t2:" not in marks.partition(" -> ")[0]


@given(st.text())
def test_any_text_is_parsed(text: str) -> None:
    for line in parse_snapshot(text, "t1"):
        assert isinstance(line, ElementLine)
        line.model_dump_json()  # no lone surrogates


@given(st.text(st.sampled_from("- [ref=e1]:\"'\\\n tx/ul"), max_size=60))
def test_almost_valid_snapshots_are_parsed(text: str) -> None:
    for line in parse_snapshot(text, "t1"):
        assert "\n" not in format_line(line)


def test_structural_elements_have_a_ref_only_with_a_pointer_cursor() -> None:
    snapshot = '- row "a" [ref=e1]\n- row "b" [ref=e2] [cursor=pointer]\n- cell "c" [ref=e3]\n- generic [ref=e4]: words'
    assert [line.ref for line in parse_snapshot(snapshot, "t3")] == ["", "t3:e2", "", "t3:e4"]
    scripted = parse_snapshot(snapshot, "t3", scripted=True)
    assert [line.ref for line in scripted] == ["", "t3:e2", "t3:e3", "t3:e4"]
    held = '- listitem [ref=e1]:\n  - link "a" [ref=e2]\n- listitem [ref=e3]: words'
    assert [line.ref for line in parse_snapshot(held, "t1", scripted=True)] == ["", "t1:e2", "t1:e3"]
    assert bare_ref("t3:f1e4") == "f1e4"
