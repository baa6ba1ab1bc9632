"""Libraries in other formats: what is written is read again as it was, as far as the format allows."""

from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inspect_ai.tool import read_skills

from agentlearn.errors import LibraryError
from agentlearn.library.formats import format_of, library_format, parse_library, write_form
from agentlearn.library.formats.source_files import Form, SourceFiles, read_source
from agentlearn.types.experience import Experience, Library, Origin, Withheld, library_of
from agentlearn.types.ids import ExperienceId, LibraryVersion

IN_WORDS = ("training-free-grpo", "youtu", "ace", "markdown", "skill")
TAGGED = ("markdown", "skill")
PLAYBOOK = """## STRATEGIES & INSIGHTS
[str-00001] helpful=5 harmful=0 :: When adding, carry.
[str-00002] helpful=3 harmful=1 :: When counting a grid, count each cell
once.

## FORMULAS & CALCULATIONS
[cal-00003] helpful=8 harmful=0 :: NPV = Σ(Cash Flow / (1+r)^t)
[shr-00004] Read the page of the interface before you call it.
"""
CONFIGURATION = """# @package _global_
defaults:
  - _self_
agent:
  name: math_agent
  instructions: "Solve it. Lists such as [1] stay here.\\n[G0]. Carrying: When adding, carry.\\n[G12]. When counting,\\
    \\ stop at the end.\\n\\n"
toolkits: {}
"""

words = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=5)
sentences = st.lists(
    words
    | st.sampled_from(
        ["\\", "*a*", "_", "__x__", "~~a~~", "`a`", "<!--", "[ ]", "#", "1.", "<b>", "&amp;", "[G1]", "---", "::", "-"]
    ),
    min_size=1,
    max_size=6,
)
lessons = sentences.map(" ".join).filter(str.isprintable)
tags = st.lists(st.from_regex(r"[a-z][a-z0-9]{0,8}(-[a-z0-9]{1,5})?", fullmatch=True), max_size=3, unique=True).map(
    tuple
)
tags = tags.filter(lambda found: not {*found} & {"lessons", "general", "other", "others"})
made = st.tuples(lessons, tags)
odd = st.text(max_size=6) | st.sampled_from(["\ud800", "\u2028", "\x85", "\n"])
ids = st.from_regex(r"[0-9a-f]{2,32}", fullmatch=True)
kept = st.builds(
    Experience,
    id=ids.map(ExperienceId),
    lesson=lessons,
    tags=st.lists(odd, max_size=2).map(tuple),
    origin=st.builds(Origin, kind=st.sampled_from(["add", "import"]), parents=st.lists(ids, max_size=2).map(tuple)),
)


@st.composite
def libraries(draw: st.DrawFn) -> Library:
    """Any library, with lessons that are withheld."""
    found = draw(st.lists(kept, max_size=6, unique_by=lambda one: one.id))
    cut = draw(st.integers(0, len(found)))
    held = [
        Withheld(experience=one, status=draw(st.sampled_from(["parked", "pending"])), reason=draw(odd))
        for one in found[cut:]
    ]
    versions = st.none() | ids.map(LibraryVersion)
    return Library(parent=draw(versions), joined=draw(versions), experiences=tuple(found[:cut]), withheld=tuple(held))


def library_with(rows: list[tuple[str, tuple[str, ...]]]) -> Library:
    """A library of lessons with tags."""
    experiences = tuple(
        Experience(id=ExperienceId(str(number)), lesson=lesson, tags=tags, origin=Origin(kind="person"))
        for number, (lesson, tags) in enumerate(rows)
    )
    return Library(experiences=experiences)


def written(library: Library, form: str, name: str = "math") -> SourceFiles:
    """The library as files, encoded and decoded as on disk."""
    texts = library_format(form).write(library, name)
    texts = {path or "x.txt": text.encode("utf-8", "backslashreplace").decode() for path, text in texts.items()}
    return SourceFiles("x", texts, is_folder=form == "skill")


@pytest.mark.parametrize("form", ["lines", "agentlearn"])
@given(libraries())
def test_our_own_formats_lose_nothing(form: str, library: Library) -> None:
    source = written(library, form)
    assert library_format(form).read(source).library == library
    assert parse_library(source.only, "x.jsonl" if form == "lines" else "x.json") == library
    if form == "lines":
        assert len(source.only.split("\n")) == 2 + len(library) + len(library.withheld)


@pytest.mark.parametrize("form", IN_WORDS)
@given(st.lists(made, max_size=6))
def test_other_formats_keep_every_word(form: str, rows: list[tuple[str, tuple[str, ...]]]) -> None:
    library = library_with(rows)
    source = written(library, form)
    read = library_format(form).read(source).lessons
    if form == "ace":
        assert sorted(str(one.text) for one in read) == sorted(lesson for lesson, _ in rows)
    else:
        assert [one.text for one in read] == [lesson for lesson, _ in rows]
    if form in TAGGED:
        assert [one.tags for one in read] == [tags for _, tags in rows]


def test_a_changed_file_of_lines_is_noticed() -> None:
    text = written(library_of(["When adding, carry."]), "lines").only
    with pytest.raises(LibraryError, match="was changed: its lessons make version"):
        parse_library(text.replace("carry", "stop"), "x.jsonl")
    read = library_format("lines").read(SourceFiles.of_text(text.replace("carry", "stop")))
    assert read.library is None
    assert [one.text for one in read.lessons] == ["When adding, stop."]


def test_a_playbook_is_read_with_its_sections_and_counts() -> None:
    source = SourceFiles.of_text(PLAYBOOK, "playbook.txt")
    assert format_of(source).name == "ace"
    read = library_format("ace").read(source).lessons
    assert [(one.place, one.text, one.tags) for one in read] == [
        ("[str-00001]", "When adding, carry.", ()),
        ("[str-00002]", "When counting a grid, count each cell once.", ()),
        ("[cal-00003]", "NPV = Σ(Cash Flow / (1+r)^t)", ("formulas-calculations",)),
        ("[shr-00004]", "Read the page of the interface before you call it.", ("formulas-calculations",)),
    ]
    assert read[0].note == "ACE counted it helpful 5 and harmful 0 times"


def test_a_configuration_of_youtu_agent_is_read() -> None:
    source = SourceFiles.of_text(CONFIGURATION, "math_agent.yaml")
    assert format_of(source).name == "youtu"
    read = library_format("youtu").read(source).lessons
    assert [(one.place, one.text) for one in read] == [
        ("[G0]", "Carrying: When adding, carry."),
        ("[G12]", "When counting, stop at the end."),
    ]


def test_markdown_lists_of_others_are_read() -> None:
    text = "# Notes\n\nSome words.\n\n## Counting\n\n* Count\n  twice.\n1. **Stop** at the end.\n\n"
    text += "```\n- no lesson\n```\n| - a |\n"
    read = library_format("markdown").read(SourceFiles.of_text(text, "notes.md")).lessons
    assert [(one.place, one.text, one.tags) for one in read] == [
        ("line 7", "Count twice.", ("counting",)),
        ("line 9", "Stop at the end.", ("counting",)),
    ]


def test_two_readers_load_all_of_a_skill(tmp_path: Path) -> None:
    rows = [(f"When counting things of kind {number}, check both ends.", ("counting",)) for number in range(130)]
    folder = write_form(library_with(rows), tmp_path / "math-lessons", "skill")
    (skill,) = read_skills([folder])
    assert skill.name == "math-lessons"
    assert "Topics: counting." in skill.description
    assert "When counting things of kind 1, check both ends." in skill.description
    assert "- When counting things of kind 99, check both ends." in skill.instructions
    assert list(skill.references) == ["lessons-2.md"]
    assert [one.text for one in library_format("skill").read(read_source(folder)).lessons] == [one for one, _ in rows]


@pytest.mark.parametrize("form", get_args(Form))
def test_only_an_unchanged_export_of_the_same_library_is_replaced(form: str, tmp_path: Path) -> None:
    before, after = library_of(["When adding, carry."]), library_of(["When adding, carry.", "When lost, draw."])
    out = write_form(before, tmp_path / "math", form)
    write_form(before, out, form)
    with pytest.raises(LibraryError, match="is not an unchanged export of this library; give another --out"):
        write_form(after, out, form)
    write_form(after, out, form, known=[before])
    changed = out / "SKILL.md" if form == "skill" else out
    mine = changed.read_text(encoding="utf-8").replace("carry.", "carry twice.")
    changed.write_text(mine, encoding="utf-8")
    with pytest.raises(LibraryError, match="is not an unchanged export of this library"):
        write_form(after, out, form, known=[before, after])
    assert changed.read_text(encoding="utf-8") == mine
