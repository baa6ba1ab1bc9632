"""What a user may write for an arm, and what is refused."""

from pathlib import Path

import pytest

from agentlearn.errors import ConfigError
from agentlearn.library import LibraryStore
from agentlearn.types.experience import library_of
from agentlearn_evals.arms import Arm, ArmReader, named_pairs, refuse_alike
from tests.support.cases import cases


@pytest.fixture
def library_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LibraryStore:
    monkeypatch.chdir(tmp_path)
    library_store = LibraryStore(tmp_path / "libraries")
    first = library_of(["Count both ends of a range."])
    library_store.publish("math", first)
    library_store.publish("math", library_of(["Count both ends of a range.", "Start the loops at zero."]))
    Path("prompt.md").write_text("Answer at once.")
    return library_store


def arms(library_store: LibraryStore, *texts: str, models: tuple[str, ...] = ("sim:novice",)) -> tuple[Arm, ...]:
    found = ArmReader([(one, one) for one in models], 0.3, library_store).arms(texts)
    refuse_alike(found)
    return found


def test_libraries_models_temperatures_and_instructions_are_arms(library_store: LibraryStore) -> None:
    found = arms(
        library_store, "none", "mine=math,model=openai:gpt-5-mini,temperature=1", "none,instructions=prompt.md"
    )
    assert [arm.name for arm in found] == ["none", "mine", "prompt"]
    assert [arm.model for arm in found] == ["sim:novice", "openai:gpt-5-mini", "sim:novice"]
    assert [arm.temperature for arm in found] == [0.3, 1.0, 0.3]
    assert found[2].instructions == "Answer at once."
    assert "other instructions" in found[2].label()


@pytest.mark.parametrize(
    ("texts", "pairs"),
    [
        ((), [("a", "b:c"), ("a", "b")]),
        (("all",), [("a", "b:c"), ("a", "b"), ("b:c", "b")]),
        (("b:b:c", "a:b"), [("b", "b:c"), ("a", "b")]),
        (("b:c:a", "b:c:b"), [("b:c", "a"), ("b:c", "b")]),
    ],
)
def test_pairs_of_arms(texts: tuple[str, ...], pairs: list[tuple[str, str]]) -> None:
    assert list(named_pairs(texts, ["a", "b:c", "b"])) == pairs


@pytest.mark.parametrize(
    ("texts", "words"),
    cases(__file__, "bad_pairs_are_refused"),
)
def test_bad_pairs_are_refused(texts: tuple[str, ...], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        named_pairs(texts, ["a", "b", "c"])
    assert refused.value.code == "bad_config"


def test_an_arm_may_be_a_model_alone(library_store: LibraryStore) -> None:
    assert [arm.name for arm in arms(library_store, "none", "model=openai:gpt-5")] == ["none", "openai:gpt-5"]


def test_several_models_cross_with_the_arms(library_store: LibraryStore) -> None:
    found = arms(library_store, "none", "math", models=("sim:novice", "openai:x"))
    assert [arm.name for arm in found] == ["none:sim:novice", "none:openai:x", "math:sim:novice", "math:openai:x"]


def test_all_versions_of_a_library_oldest_first(library_store: LibraryStore) -> None:
    found = arms(library_store, "none", "math@all")
    assert [len(arm.library) for arm in found] == [0, 1, 2]
    assert len({arm.name for arm in found}) == 3


def test_lessons_are_left_out_by_the_beginning_of_their_id(library_store: LibraryStore) -> None:
    lesson = library_store.load("math").experiences[1]
    found = arms(library_store, "math", f"less=math,without={lesson.id[:10]}")
    assert found[1].without == (lesson.id,)
    assert "without 1 of them" in found[1].label()


@pytest.mark.parametrize(
    ("texts", "code", "words"),
    cases(__file__, "bad_arms_are_refused"),
)
def test_bad_arms_are_refused(library_store: LibraryStore, texts: tuple[str, ...], code: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        arms(library_store, *texts)
    assert refused.value.code == code
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
