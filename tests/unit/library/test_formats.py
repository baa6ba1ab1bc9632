"""Libraries in other formats: what is written is read again as it was, as far as the format allows."""

from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from inspect_ai.tool import read_skills

from agentlearn.errors import LibraryError, MissingExtra
from agentlearn.library.formats import format_of, library_format, loss_sentence, parse_library, write_form
from agentlearn.library.formats.source_files import Form, SourceFiles
from agentlearn.types.experience import Experience, Library, Origin, Withheld, library_of
from agentlearn.types.ids import ExperienceId, LibraryVersion
from tests.support.cases import cases
from tests.support.command import agentlearn_here

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
    firsts = [tags[:1] for _, tags in rows]
    listed = sorted(rows, key=lambda row: firsts.index(row[1][:1])) if form in {*TAGGED, "ace"} else rows
    assert [one.text for one in read] == [lesson for lesson, _ in listed]
    if form in TAGGED:
        assert [one.tags for one in read] == [tags for _, tags in listed]


@pytest.mark.parametrize("form", [form for form in get_args(Form) if form != "document"])
def test_a_written_library_is_recognised(form: str, tmp_path: Path) -> None:
    library = library_of(["When adding, carry.", "When counting, check the ends."], tags=("sums",))
    out = write_form(library, tmp_path / "math", form)
    assert format_of(SourceFiles.read(out)).name == form
    assert (not loss_sentence(library, form)) == (form in {"agentlearn", "lines"})


def test_one_changed_lesson_changes_two_lines() -> None:
    before = library_of([f"When counting {word}, check the ends." for word in ("cells", "pairs", "paths", "words")])
    changed = before.experiences[2].model_copy(update={"lesson": "When counting paths, stop."})
    after = before.model_copy(update={"experiences": (*before.experiences[:2], changed, before.experiences[3])})
    after = Library.model_validate(after.model_dump())
    pairs = zip(written(before, "lines").only.split("\n"), written(after, "lines").only.split("\n"), strict=True)
    assert [number for number, (one, other) in enumerate(pairs) if one != other] == [0, 3]


def test_a_folder_stands_for_its_file_of_lines(tmp_path: Path) -> None:
    library = library_of(["When adding, carry."])
    assert write_form(library, tmp_path, "lines") == tmp_path / "lessons.jsonl"
    assert library_format("lines").read(SourceFiles.read(tmp_path)).library == library


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


def test_a_configuration_that_we_write_is_yaml() -> None:
    lesson = 'When a text says "a: b", read # and \\ as they are.'
    document: Any = yaml.safe_load(written(library_of([lesson]), "youtu").only)
    assert document["agent"]["instructions"].endswith(f"\n[G0]. {lesson}")
    assert document["agent"]["name"] == "math"


@pytest.mark.parametrize(
    ("form", "module", "words"),
    [("youtu", "yaml", "YAML needs PyYAML"), ("markdown", "markdown_it", "Markdown needs markdown-it-py")],
)
def test_a_missing_reader_is_one_sentence(form: str, module: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(MissingExtra, match=rf"^reading {words}: pip install 'agentlearn-lib\[learn\]'$"):
        library_format(form).read(SourceFiles.of_text(CONFIGURATION))


def test_markdown_lists_of_others_are_read() -> None:
    text = "# Notes\n\nSome words.\n\n## Counting\n\n* Count\n  twice.\n1. **Stop** at the end.\n\n"
    text += "```\n- no lesson\n```\n| - a |\n"
    read = library_format("markdown").read(SourceFiles.of_text(text, "notes.md")).lessons
    assert [(one.place, one.text, one.tags) for one in read] == [
        ("line 7", "Count twice.", ("counting",)),
        ("line 9", "Stop at the end.", ("counting",)),
    ]


def test_markdown_is_read_as_commonmark(subtests: pytest.Subtests) -> None:
    for text, lessons in cases(__file__, "markdown_is_read_as_commonmark"):
        with subtests.test(repr((text, lessons))):
            read = library_format("markdown").read(SourceFiles.of_text(text, "notes.md")).lessons
            assert [str(one.text).replace("\xa0", " ") for one in read] == lessons


def test_two_readers_load_all_of_a_skill(tmp_path: Path) -> None:
    rows = [(f"When counting things of kind {number}, check both ends.", ("counting",)) for number in range(130)]
    folder = write_form(library_with(rows), tmp_path / "math-lessons", "skill")
    (skill,) = read_skills([folder])
    assert skill.name == "math-lessons"
    assert "Topics: counting." in skill.description
    assert "When counting things of kind 1, check both ends." in skill.description
    assert "- When counting things of kind 99, check both ends." in skill.instructions
    assert list(skill.references) == ["lessons-2.md"]
    assert [one.text for one in library_format("skill").read(SourceFiles.read(folder)).lessons] == [
        one for one, _ in rows
    ]


def test_lessons_with_one_tag_stand_under_one_heading() -> None:
    rows = [("When adding, carry.", ("sums",)), ("When lost, draw.", ()), ("When summing, group.", ("sums", "grids"))]
    text = written(library_with([*rows, ("When done, check sums.", ("sums",))]), "markdown").only
    assert [line for line in text.split("\n") if line.startswith(("##", "- "))] == [
        *("## sums", "- When adding, carry.", "### sums, grids", "- When summing, group."),
        *("### sums", "- When done, check sums.", "## Lessons", "- When lost, draw."),
    ]


def test_a_large_skill_is_split_by_size_and_says_what_each_file_holds(tmp_path: Path) -> None:
    rows = [
        (f"When step {n} comes, {'count each cell ' * 20}once.", ("grids" if n < 220 else "sums",)) for n in range(300)
    ]
    folder = write_form(library_with(rows), tmp_path / "math", "skill")
    main = (folder / "SKILL.md").read_text(encoding="utf-8")
    assert main.count("\n- ") < 100
    assert "(references/lessons-2.md): grids, sums\n" in main
    assert "(references/lessons-3.md): sums\n" in main
    assert [one.text for one in library_format("skill").read(SourceFiles.read(folder)).lessons] == [
        one for one, _ in rows
    ]


def test_a_shorter_skill_replaces_a_longer_one(tmp_path: Path) -> None:
    rows = [(f"When counting things of kind {number}, check both ends.", ()) for number in range(130)]
    folder = write_form(library_with(rows), tmp_path / "math", "skill")
    with pytest.raises(LibraryError, match=r"'My_Skill' cannot name a skill; .* such as 'my-skill'$"):
        write_form(library_with(rows), tmp_path / "My_Skill", "skill")
    write_form(library_with(rows[:3]), folder, "skill", known=[library_with(rows)])
    assert len(library_format("skill").read(SourceFiles.read(folder)).lessons) == 3


@pytest.mark.parametrize("form", [one for one in get_args(Form) if one != "agents-md"])
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


def test_a_skill_of_others_is_not_replaced(tmp_path: Path) -> None:
    skill = tmp_path / "math" / "SKILL.md"
    skill.parent.mkdir()
    skill.write_text("---\nname: math\ndescription: mine\n---\n- Count.\n", encoding="utf-8")
    with pytest.raises(LibraryError, match="is not an unchanged export of this library; give another --out"):
        write_form(library_of(["When adding, carry."]), skill.parent, "skill")
    assert "mine" in skill.read_text(encoding="utf-8")


def test_a_skill_has_the_name_of_its_library_and_says_what_it_is_for(tmp_path: Path) -> None:
    lesson = 'When a "sum" is asked for: add, then check.'
    agentlearn_here("library", "add", "our_sums.v2", lesson, cwd=tmp_path)
    agentlearn_here("library", "export", "our_sums.v2", "--out", "sk", "--format", "skill", cwd=tmp_path)
    (skill,) = read_skills([tmp_path / "sk" / "our-sums-v2"])
    assert (skill.name, lesson in skill.description) == ("our-sums-v2", True)
    options = ("--name", "sums", "--description", "Adds. Load it for sums.", "--format", "skill")
    agentlearn_here("library", "export", "our_sums.v2", "--out", "sums", *options, cwd=tmp_path)
    (skill,) = read_skills([tmp_path / "sums"])
    assert (skill.name, skill.description) == ("sums", "Adds. Load it for sums.")
    for wrong, words in (
        (("--model", "sim:novice"), "--model is only for --format skill"),
        ((*options, "--model", "sim:novice"), "--description and --model both describe the skill; give one of them"),
    ):
        done = agentlearn_here("library", "export", "our_sums.v2", "--out", "x", *wrong, cwd=tmp_path, expect=2)
        assert words in done.stderr
