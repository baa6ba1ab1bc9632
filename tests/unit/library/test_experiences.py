"""`Experiences`: lessons as a capability of an agent, what it records, and how several of them share a run."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import (
    Agent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
)
from pydantic_ai.agent.spec import AgentSpec
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.messages import ModelRequestPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.models.test import TestModel

from agentlearn.errors import LibraryError
from agentlearn.library import LibraryStore
from agentlearn.library.capability import Experiences
from agentlearn.library.shown import METADATA_KEY, Shown, shown_in
from agentlearn.types.experience import EMPTY_LIBRARY, Library
from agentlearn.types.ids import ExperienceId
from tests.support.cases import cases

CARRY = Library.of(["When adding, carry.", "When counting, check the ends."])
ZERO = Library.of(["When dividing, look for zero."])
SHOWN = Shown(version=CARRY.version, lessons=tuple(CARRY.by_id))


@pytest.fixture(autouse=True)
def loop() -> Iterator[None]:
    """The event loop of `run_sync`, closed after the test."""
    asyncio.set_event_loop(made := asyncio.new_event_loop())
    yield
    asyncio.set_event_loop(None)
    made.close()


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LibraryStore:
    """The store that is used where none is given."""
    monkeypatch.chdir(tmp_path)
    made = LibraryStore(tmp_path / ".agentlearn" / "libraries")
    made.publish("math", CARRY)
    return made


def instructions_of(messages: list[ModelMessage]) -> str:
    first = messages[0]
    assert isinstance(first, ModelRequest)
    return first.instructions or ""


# What is accepted


def test_a_library_is_given_as_name_version_file_path_object_or_lessons(store: LibraryStore, tmp_path: Path) -> None:
    file = store.publish("math", CARRY)
    for library in ("math", f"math@{CARRY.version[:8]}", str(file), file, CARRY):
        assert Experiences(library).library == CARRY
    for words in (["When dividing, look for zero."], ("When dividing, look for zero.",)):
        assert Experiences(words).library == ZERO
    assert Experiences("none").library == EMPTY_LIBRARY
    assert Experiences([]).library == EMPTY_LIBRARY
    bare = tmp_path / "lessons"
    bare.write_bytes(file.read_bytes())
    assert Experiences(Path("lessons")).library == CARRY


@pytest.mark.parametrize(
    ("library", "words"),
    [
        (
            ["When adding, carry.", "", "a\tb"],
            "lesson 2 cannot be used: a lesson must not be empty: ''; lesson 3 cannot",
        ),
        ([" ".join(["word"] * 81)], "lesson 1 cannot be used: a lesson has at most 80 words and 800 characters: 'word"),
        ([3], "lesson 1 cannot be used: Input should be a valid string: 3; correct each lesson or leave it out"),
        ("When adding, carry.", "is not the name of a library; give lessons in words as a list"),
        (3, "a library is given as a name, a file, a Library or a list of lessons, not as 3"),
        (None, "not as None"),
        (b"math", "not as b'math'"),
        ("mth", "library 'mth' is not in the library store"),
        (Path("no/such.json"), "cannot be read: "),
        (Path(), "cannot be read: "),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(library: Any, words: str, store: LibraryStore) -> None:
    with pytest.raises(LibraryError) as refused:
        Experiences(library)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


@given(st.lists(st.text(max_size=40) | st.integers() | st.none(), max_size=5))
def test_lessons_in_words_give_a_library_or_one_clear_error(lessons: list[Any]) -> None:
    try:
        library = Library.of(lessons)
    except LibraryError as error:
        wrong = [number for number in range(1, len(lessons) + 1) if f"lesson {number} cannot" in str(error)]
        assert wrong, "the error names at least one lesson"
        for number, lesson in enumerate(lessons, 1):
            with pytest.raises(LibraryError) if number in wrong else nullcontext():
                Library.of([lesson])
    else:
        assert [one.lesson for one in library.experiences] == lessons


def test_the_store_is_the_argument_then_the_variable_then_the_working_directory_of_the_start(
    store: LibraryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LibraryStore(tmp_path / "there" / "libraries").publish("math", ZERO)
    monkeypatch.setenv("AGENTLEARN_STORE", str(tmp_path / "there"))
    assert Experiences("math").library == ZERO
    assert Experiences("math", store=tmp_path / ".agentlearn").library == CARRY
    monkeypatch.setenv("AGENTLEARN_STORE", "")
    followed = Experiences("math", follow=True)
    assert followed.library == CARRY
    monkeypatch.chdir(tmp_path / "there")
    store.publish("math", ZERO)
    assert followed.library == ZERO


def test_a_missing_library_may_be_empty(store: LibraryStore) -> None:
    assert Experiences("later", missing="empty").library == EMPTY_LIBRARY
    assert Experiences(Path("later.json"), missing="empty").library == EMPTY_LIBRARY
    with pytest.raises(LibraryError, match="has no version starting with 'ff'"):
        Experiences("math@ff", missing="empty")
    with pytest.raises(LibraryError, match="not a valid library name"):
        Experiences("Later", missing="empty")
    with pytest.raises(LibraryError, match="missing is 'ignore'; use 'error' or 'empty'"):
        Experiences("later", missing="ignore")  # pyright: ignore[reportArgumentType]


HOSTILE = "When <script>alert(1)</script> & <img src=x onerror=alert(1)> comes, 'wait'."


def html(shown: Any) -> str:
    """What a notebook shows."""
    return shown._repr_html_()


def test_notebooks_show_an_escaped_table() -> None:
    library = Library.of([HOSTILE, *(f"When case {number} comes, think." for number in range(120))])
    for shown in (html(library), html(Experiences(library))):
        assert "<script" not in shown
        assert "<img" not in shown
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
        assert "and 21 more" in shown
    assert "<table>" in html(EMPTY_LIBRARY)
    assert "<script" not in html(Experiences("/none/<script>.json", missing="empty"))


# What an agent reads and what is recorded


async def streamed(agent: Agent[Any, Any]) -> list[ModelMessage]:
    async with agent.run_stream("2 + 2?") as stream:
        await stream.get_output()
    return stream.all_messages()


async def iterated(agent: Agent[Any, Any]) -> list[ModelMessage]:
    async with agent.iter("2 + 2?") as run:
        async for _ in run:
            pass
    return run.all_messages()


async def ran(agent: Agent[Any, Any]) -> list[ModelMessage]:
    return (await agent.run("2 + 2?")).all_messages()


@pytest.mark.parametrize("way", [ran, streamed, iterated])
def test_the_messages_say_which_lessons_were_shown(way: Any) -> None:
    messages: list[ModelMessage] = asyncio.run(way(Agent(TestModel(), capabilities=[Experiences(CARRY)])))
    assert instructions_of(messages) == str(CARRY.render())
    assert shown_in(messages) == SHOWN
    dumped = ModelMessagesTypeAdapter.dump_json(messages)
    assert shown_in(ModelMessagesTypeAdapter.validate_json(dumped)) == SHOWN
    assert shown_in(json.loads(dumped)) == SHOWN


def test_they_are_recorded_once_per_run_however_many_requests_it_makes_next_to_what_others_record() -> None:
    first, second = CARRY.by_id
    agent = Agent(TestModel(), capabilities=[Experiences(CARRY, masked=(first,))])

    @agent.tool_plain
    def add(a: int) -> int:  # pyright: ignore[reportUnusedFunction]
        return a

    history: list[ModelMessage] = [ModelRequest.user_text_prompt("2 + 2?")]
    history[0].metadata = {"mine": 1, METADATA_KEY: {"style": SHOWN.model_dump()}}
    run = agent.run_sync(message_history=history)
    requests = [one for one in run.all_messages() if isinstance(one, ModelRequest)]
    assert [METADATA_KEY in (one.metadata or {}) for one in requests] == [True, False]
    assert (requests[0].metadata or {})["mine"] == 1
    shown = Shown(version=CARRY.version, lessons=(second,), masked=(first,))
    assert Shown.all_in(run.all_messages()) == {"style": SHOWN, "experiences": shown}
    assert "[G2]" in instructions_of(run.all_messages())


def test_the_result_of_a_run_counts_only_its_own_messages() -> None:
    first = Agent(TestModel(), capabilities=[Experiences(CARRY)]).run_sync("2 + 2?")
    second = Agent(TestModel(), capabilities=[Experiences(ZERO)]).run_sync("?", message_history=first.all_messages())
    third = Agent(TestModel()).run_sync("?", message_history=first.all_messages())
    assert shown_in(second) == shown_in(second.all_messages()) == Experiences(ZERO).shown
    assert shown_in(third) is None
    assert shown_in(third.all_messages()) == SHOWN


def test_replaced_instructions_are_not_recorded_as_shown() -> None:
    agent = Agent(TestModel(), instructions="Solve.", capabilities=[Experiences(CARRY)])
    with agent.override(instructions="Another."):
        run = agent.run_sync("2 + 2?")
    assert instructions_of(run.all_messages()) == "Another."
    assert shown_in(run) is None


# Several of them


def test_the_lessons_of_a_run_replace_those_of_its_agent() -> None:
    agent = Agent(TestModel(), capabilities=[Experiences(CARRY)])
    run = agent.run_sync("2 + 2?", capabilities=[Experiences(ZERO)])
    assert instructions_of(run.all_messages()) == str(ZERO.render())
    assert shown_in(run) == Experiences(ZERO).shown
    withheld = agent.run_sync("2 + 2?", capabilities=[Experiences("none")])
    assert "experiences" not in instructions_of(withheld.all_messages())
    assert shown_in(agent.run_sync("2 + 2?")) == SHOWN, "the agent itself is as it was"


def test_another_id_shows_two_libraries_with_labels_of_their_own() -> None:
    agent = Agent(TestModel(), capabilities=[Experiences(CARRY), Experiences(ZERO, id="style")])
    run = agent.run_sync("2 + 2?")
    text = instructions_of(run.all_messages())
    assert text.count("[G1]") == 1
    assert "[style.G1] When dividing, look for zero." in text
    assert Shown.all_in(run) == {"experiences": SHOWN, "style": Experiences(ZERO).shown}


def test_equal_ones_on_one_agent_are_one_and_different_ones_need_an_id() -> None:
    run = Agent(TestModel(), capabilities=[Experiences(CARRY), Experiences(CARRY)]).run_sync("2 + 2?")
    assert instructions_of(run.all_messages()) == str(CARRY.render())
    with pytest.raises(LibraryError) as refused:
        Agent(TestModel(), capabilities=[Experiences(CARRY), Experiences(ZERO)])
    assert refused.value.code == "bad_library"
    assert str(refused.value).endswith("under the id 'experiences'; give one of them another id to show both")
    with pytest.raises(LibraryError, match="cannot be the id of Experiences; use a letter"):
        Experiences(CARRY, id="my lessons")


def test_an_agent_that_asks_another_agent_keeps_their_lessons_apart() -> None:
    inner = Agent(TestModel(), capabilities=[Experiences(ZERO)])
    outer = Agent(TestModel(), capabilities=[Experiences(CARRY)])
    found: list[Shown | None] = []

    @outer.tool_plain
    async def ask() -> str:  # pyright: ignore[reportUnusedFunction]
        answer = await inner.run("?")
        found.append(shown_in(answer))
        return answer.output

    assert shown_in(outer.run_sync("2 + 2?")) == SHOWN
    assert found == [Experiences(ZERO).shown]


# Loading on demand, specs and spans


def test_deferred_lessons_are_shown_and_recorded_when_the_model_loads_them() -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1 and loads:
            return ModelResponse(parts=[ToolCallPart("load_capability", {"id": "experiences"})])
        return ModelResponse(parts=[TextPart("4")])

    lessons = Experiences(CARRY, defer_loading=True, description="How to add.")
    agent = Agent(FunctionModel(answer), capabilities=[lessons])
    loads = True
    run = agent.run_sync("2 + 2?")
    assert "How to add." in instructions_of(run.all_messages())
    parts: list[ModelRequestPart] = [
        part for one in run.all_messages() if isinstance(one, ModelRequest) for part in one.parts
    ]
    assert any(getattr(part, "content", "") == str(CARRY.render()) for part in parts)
    assert shown_in(run) == SHOWN
    loads = False
    assert shown_in(agent.run_sync("2 + 2?")) is None


@pytest.mark.parametrize("given", cases(__file__, "the_spec_of_an_agent_may_name_lessons"))
def test_the_spec_of_an_agent_may_name_lessons(given: Any, store: LibraryStore) -> None:
    schema = AgentSpec.model_json_schema_with_capabilities(custom_capability_types=[Experiences])
    assert "Experiences" in json.dumps(schema)
    spec = AgentSpec.model_validate({"model": "test", "capabilities": [{"Experiences": given}]})
    agent = Agent.from_spec(spec, custom_capability_types=[Experiences])
    expected = "" if "missing" in given else str(CARRY.render())
    assert instructions_of(agent.run_sync("2 + 2?").all_messages()) == expected


def test_the_span_of_a_run_says_which_lessons() -> None:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    settings = InstrumentationSettings(tracer_provider=provider)
    capabilities = [Experiences(CARRY), Experiences(ZERO, id="style"), Instrumentation(settings=settings)]
    with provider.get_tracer("application").start_as_current_span("request"):
        Agent(TestModel(), capabilities=capabilities).run_sync("2 + 2?")
        Agent(TestModel(), capabilities=[Experiences(CARRY)]).run_sync("2 + 2?")
    found = [dict(span.attributes or {}) for span in exporter.get_finished_spans()]
    (said,) = [one for one in found if "agentlearn.lessons" in one]
    assert said["gen_ai.operation.name"] == "invoke_agent"
    assert said["agentlearn.library.version"] == f"{CARRY.version},{ZERO.version}"
    assert said["agentlearn.lessons"] == (*CARRY.by_id, *ZERO.by_id)


@given(st.sets(st.sampled_from(list(CARRY.by_id))))
def test_what_is_recorded_is_what_is_in_the_text(masked: set[ExperienceId]) -> None:
    experiences = Experiences(CARRY, masked=tuple(masked))
    text = experiences.get_instructions() or ""
    assert [one.id for one in CARRY.experiences if one.lesson in text] == list(experiences.shown.lessons)
