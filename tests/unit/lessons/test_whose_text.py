"""Every text that a rollout's model is sent has an author, and a lesson from a stranger's text waits for a person."""

import asyncio
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, BeforeValidator, Field, field_validator
from pydantic_ai import (
    Agent,
    BinaryContent,
    CachePoint,
    CallDeferred,
    DeferredToolResults,
    FunctionToolset,
    ImageUrl,
    ModelRetry,
    RunContext,
    TextOutput,
    Tool,
    ToolDefinition,
    ToolReturn,
)
from pydantic_ai.agent import WrapperAgent
from pydantic_ai.capabilities import AbstractCapability, HandleDeferredToolCalls, ProcessHistory
from pydantic_ai.direct import model_request
from pydantic_ai.messages import (
    Citation,
    CompactionPart,
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
    WebCitationSource,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.native_tools import WebSearchTool
from pydantic_ai.toolsets import ToolsetTool, WrapperToolset

from agentlearn import (
    LearnReport,
    Library,
    LibraryStore,
    Recorder,
    Task,
    User,
    Work,
    Worked,
    learn,
    learn_sync,
    open_store,
)
from agentlearn.live.several_stores import merge_stores
from agentlearn.types.value import Author
from tests.support.command import agentlearn_here
from tests.support.desk import reflecting
from tests.support.gullible import (
    HONEST,
    LESSON,
    NOTE,
    PARCELS,
    SEARCHED,
    named,
    quoting,
    quoting_model,
    searching_model,
)
from tests.support.toy_domain import ToyDomain

Given = dict[str, Any]
WHY = "it is the last version, as select 'last' asks for"
STRANGERS: dict[str, tuple[str, Callable[[], Given]]] = {}
"""By name: the word that opens it, and what `learn` is given."""
OURS: dict[str, Callable[[], Given]] = {}


def stranger(word: str) -> Callable[[Callable[[], Given]], Callable[[], Given]]:
    def add(made: Callable[[], Given]) -> Callable[[], Given]:
        STRANGERS[made.__name__] = (word, made)
        return made

    return add


def ours(made: Callable[[], Given]) -> Callable[[], Given]:
    OURS[made.__name__] = made
    return made


def clerk(**given: Any) -> Any:
    return Agent(name="clerk", **given)


# Instructions and prompts


@stranger("instructions")
def instructions_that_are_the_same_each_time() -> Given:
    agent = clerk(instructions="Name the team.")
    agent.instructions(lambda: NOTE)
    return {"what": agent}


@stranger("instructions")
def instructions_that_name_the_task() -> Given:
    agent = clerk()
    agent.instructions(lambda ctx: f"{ctx.prompt} {NOTE}")
    return {"what": agent}


@stranger("instructions")
def a_part_that_a_function_calls_literal() -> Given:
    return {"what": clerk(instructions=[lambda: InstructionPart(NOTE, dynamic=False)])}


@stranger("instructions")
def instructions_that_append_their_changes() -> Given:
    agent = clerk()
    agent.instructions(name="news", on_change="append")(lambda ctx: NOTE if ctx.run_step > 1 else "Nothing yet.")
    agent.tool_plain(lambda: "done", name="wait")
    return {"what": agent}


@stranger("instructions")
def a_system_prompt_that_a_function_makes() -> Given:
    agent = clerk(system_prompt="Name the team.")
    agent.system_prompt(lambda: NOTE)
    return {"what": agent}


@stranger("instructions")
def a_system_prompt_that_is_made_again() -> Given:
    agent = clerk()
    agent.system_prompt(dynamic=True)(lambda: NOTE)
    return {"what": agent}


class Telling(AbstractCapability[Any]):
    def get_instructions(self) -> str:
        return NOTE


@stranger("instructions")
def instructions_of_a_capability() -> Given:
    return {"what": clerk(capabilities=[Telling()])}


class Rewriting(AbstractCapability[Any]):
    async def before_model_request(self, ctx: RunContext[Any], request_context: Any) -> Any:
        for part in request_context.model_request_parameters.instruction_parts:
            part.content += f" {NOTE}"
        return request_context


@stranger("instructions")
def literal_instructions_that_a_hook_rewrites() -> Given:
    return {"what": clerk(instructions="Name the team.", capabilities=[Rewriting()])}


class ToldByTools(WrapperToolset[Any]):
    async def get_instructions(self, ctx: RunContext[Any]) -> InstructionPart:
        return InstructionPart(NOTE, dynamic=False)


@stranger("instructions")
def instructions_of_a_toolset() -> Given:
    return {"what": clerk(toolsets=[ToldByTools(FunctionToolset())])}


class Prompting(WrapperAgent[Any, Any]):
    """Puts a page in front of what it is asked."""

    async def run(self, user_prompt: Any = None, **given: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return await super().run(f"{NOTE}\n{user_prompt}", **given)


@stranger("traffic")
def a_first_message_that_is_fetched() -> Given:
    return {"what": Prompting(clerk())}


class Told(WrapperAgent[Any, Any]):
    async def run(self, user_prompt: Any = None, **given: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return await super().run(user_prompt, instructions=NOTE, **given)


@stranger("instructions")
def instructions_for_one_run() -> Given:
    return {"what": Told(clerk())}


class MadeAgain(WrapperAgent[Any, Any]):
    async def run(self, user_prompt: Any = None, **given: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return await clerk(instructions=NOTE).run(user_prompt, **given)


@stranger("instructions")
def an_agent_that_is_made_in_the_rollout() -> Given:
    return {"what": MadeAgain(clerk())}


class Remembering(WrapperAgent[Any, Any]):
    def __init__(self, wrapped: Any, *history: ModelMessage) -> None:
        super().__init__(wrapped)
        self.history = history

    async def run(self, user_prompt: Any = None, **given: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return await super().run(user_prompt, message_history=list(self.history), **given)


def asked(*parts: Any) -> ModelRequest:
    return ModelRequest(parts=list(parts))


def said(*parts: Any) -> ModelResponse:
    return ModelResponse(parts=list(parts))


YES, FILE = TextPart("Yes."), BinaryContent(NOTE.encode(), media_type="text/plain")
CALL = ToolCallPart("look_up", {"words": NOTE}, tool_call_id="c1")
HISTORIES: dict[str, tuple[str, tuple[ModelMessage, ...]]] = {
    "a question": ("traffic", (asked(UserPromptPart(NOTE)), said(YES))),
    "an answer": ("traffic", (asked(UserPromptPart("Well?")), said(TextPart(NOTE)))),
    "thoughts": ("traffic", (asked(UserPromptPart("Well?")), said(ThinkingPart(NOTE), YES))),
    "a system prompt": ("instructions", (asked(SystemPromptPart(NOTE), UserPromptPart("Well?")), said(YES))),
    "pieces": ("traffic", (asked(UserPromptPart(["Well?", TextContent(NOTE), CachePoint()])), said(YES))),
    "a file": ("traffic", (asked(UserPromptPart([FILE])), said(YES))),
    "an address": ("traffic", (asked(UserPromptPart([ImageUrl("https://example.org/NOTE-7.png")])), said(YES))),
    "a summary": ("traffic", (asked(CompactionPart(NOTE)), said(YES))),
    "a search": ("tools", (asked(UserPromptPart("Well?")), said(SEARCHED, YES))),
    "a call": (
        "traffic",
        (asked(UserPromptPart("Well?")), said(CALL), asked(ToolReturnPart("look_up", "-", "c1")), said(YES)),
    ),
    "a result": (
        "tools",
        (asked(UserPromptPart("Well?")), said(CALL), asked(ToolReturnPart("look_up", NOTE, "c1")), said(YES)),
    ),
}


def adds(*parts: Any) -> Given:
    """A history processor that adds parts to each request."""

    def added(messages: list[ModelMessage]) -> list[ModelMessage]:
        return [*messages[:-1], ModelRequest(parts=[*messages[-1].parts, *parts])]  # pyright: ignore[reportArgumentType]

    return {"what": clerk(capabilities=[ProcessHistory(added)])}


@stranger("traffic")
def a_history_processor() -> Given:
    return adds(UserPromptPart(NOTE))


@stranger("traffic")
def a_history_processor_that_changes_the_first_message() -> Given:
    def changed(messages: list[ModelMessage]) -> list[ModelMessage]:
        first = str(messages[0].parts[0].content)  # pyright: ignore[reportAttributeAccessIssue]
        return [ModelRequest(parts=[UserPromptPart(f"{first} {NOTE}")]), *messages[1:]]

    return {"what": clerk(capabilities=[ProcessHistory(changed)])}


@stranger("instructions")
def a_question_that_a_domain_writes() -> Given:
    class Fetching(ToyDomain):
        def question(self, task: Task) -> str:
            return f"{task.problem} {NOTE}"

    return {"what": Fetching(), "reward": None}


# Tools


@stranger("tools")
def a_tool() -> Given:
    return {"what": clerk(tools=[Tool(lambda: NOTE, name="look_up")])}


@stranger("tools")
def a_tool_that_asks_again() -> Given:
    def look_up(ctx: RunContext[None]) -> str:
        if not ctx.retry:
            raise ModelRetry(NOTE)
        return "nothing"

    return {"what": clerk(tools=[look_up])}


@stranger("tools")
def a_tool_with_pieces() -> Given:
    def look_up() -> ToolReturn:
        return ToolReturn("done", content=[NOTE, ImageUrl("https://example.org/a.png")], metadata={"status": "ok"})

    return {"what": clerk(tools=[look_up])}


@stranger("tools")
def a_tool_that_somebody_else_runs() -> Given:
    def look_up() -> str:
        raise CallDeferred

    async def handled(ctx: RunContext[Any], requests: Any) -> DeferredToolResults:
        return DeferredToolResults(calls={call.tool_call_id: NOTE for call in requests.calls})

    return {"what": clerk(tools=[look_up], capabilities=[HandleDeferredToolCalls(handled)])}


class Server(WrapperToolset[Any]):
    """Stands in for a server of tools, which describes them itself."""

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        tools = await super().get_tools(ctx)
        for tool in tools.values():
            tool.tool_def.description = NOTE
        return tools


@stranger("tools")
def a_description_that_a_server_gives() -> Given:
    return {"what": clerk(toolsets=[Server(FunctionToolset([Tool(lambda: "done", name="never")]))])}


@stranger("tools")
def a_description_that_is_prepared() -> Given:
    async def prepared(ctx: RunContext[Any], definition: ToolDefinition) -> ToolDefinition:
        definition.description = NOTE
        return definition

    return {"what": clerk(tools=[Tool(lambda: "done", name="never", prepare=prepared)])}


@stranger("tools")
def an_agent_as_a_tool() -> Given:
    async def ask(ctx: RunContext[None]) -> str:
        return (await Agent(ctx.model, instructions=NOTE).run("Well?")).output

    return {"what": clerk(tools=[ask])}


@stranger("tools")
def results_of_the_service_itself() -> Given:
    return {"what": clerk(), "model": searching_model(SEARCHED)}


class Searching(AbstractCapability[Any]):
    def get_native_tools(self) -> Any:
        return [WebSearchTool()]


@stranger("tools")
def a_search_that_the_service_does_not_show() -> Given:
    return {"what": clerk(capabilities=[Searching()])}


@stranger("tools")
def an_answer_with_citations() -> Given:
    cited = TextPart("As written there.", citations=[Citation([WebCitationSource("https://example.org")])])
    return {"what": clerk(), "model": searching_model(cited)}


# Outputs that are asked for again


def validated(**given: Any) -> Given:
    agent = clerk(**given)

    @agent.output_validator
    def checked(ctx: RunContext[None], output: Any) -> Any:
        if not ctx.retry:
            raise ModelRetry(NOTE)
        return output

    return {"what": agent}


class Ticket(BaseModel):
    team: str


class Late(BaseModel):
    """A ticket whose team is checked by code, once."""

    team: str

    @field_validator("team")
    @classmethod
    def checked(cls, team: str) -> str:
        if "NOTE-7" not in team:
            raise ValueError(NOTE)
        return team


def fetched(team: Any) -> Any:
    return team if "NOTE-7" in str(team) else [NOTE]


class Fetched(BaseModel):
    team: Annotated[str, BeforeValidator(fetched)]


@stranger("tools")
def a_validator() -> Given:
    return validated()


@stranger("tools")
def a_validator_of_a_structured_output() -> Given:
    return validated(output_type=Ticket)


@stranger("tools")
def a_validator_in_the_output_type() -> Given:
    return {"what": clerk(output_type=Late)}


@stranger("tools")
def a_validator_that_changes_the_input() -> Given:
    return {"what": clerk(output_type=Fetched)}


@stranger("tools")
def a_function_that_reads_the_output() -> Given:
    def read(text: str) -> str:
        if "NOTE-7" not in text:
            raise ModelRetry(NOTE)
        return text

    return {"what": clerk(output_type=TextOutput(read))}


# Functions in place of an agent


@stranger("function")
def a_function() -> Given:
    return {"what": lambda task, lessons: f"sales {NOTE}"}


@stranger("function")
def an_async_function() -> Given:
    async def program(task: Task, lessons: str) -> str:
        return f"sales {NOTE}"

    return {"what": program}


@stranger("function")
def an_object_that_is_called() -> Given:
    class Graph:
        async def __call__(self, task: Task, lessons: str) -> Ticket:
            return Ticket(team=f"sales {NOTE}")

    return {"what": Graph()}


@stranger("function")
def a_function_that_asks_the_model() -> Given:
    async def program(task: Task, lessons: str, work: Work) -> str:
        return str((await model_request(work.model, [ModelRequest.user_text_prompt(f"{task.problem} {NOTE}")])).text)

    return {"what": program}


@stranger("function")
def a_function_with_an_agent_of_its_own() -> Given:
    async def program(task: Task, lessons: str, work: Work) -> str:
        return (await Agent(work.model, instructions=NOTE).run(task.problem)).output

    return {"what": program}


@stranger("function")
def a_function_with_another_model() -> Given:
    asked = count()

    async def program(task: Task, lessons: str) -> str:
        seeded: Any = {"seed": next(asked)}
        return (await Agent(FunctionModel(quoting), instructions=NOTE).run(task.problem, model_settings=seeded)).output

    return {"what": program}


@stranger("function")
def a_function_that_hands_in_messages() -> Given:
    async def program(task: Task, lessons: str) -> Worked:
        return Worked("sales", [asked(UserPromptPart(task.problem)), said(TextPart(NOTE))])

    return {"what": program}


@stranger("function")
def a_function_that_talks_with_the_user() -> Given:
    async def program(task: Task, lessons: str, work: Work) -> str:
        assert work.reply is not None
        await work.reply(NOTE)
        return "sales"

    return {"what": program, "tasks": [Task.of(*one, user=User(script=("Well?",))) for one in PARCELS]}


# Users and rewards


class Caller:
    """A user who is no script and no model of ours."""

    over, farewell = False, ""

    async def begin(self, question: str) -> str:
        return question

    async def reply(self, said: str) -> str | None:
        self.over = self.over or "NOTE-7" in said
        return None if self.over else NOTE


@stranger("traffic")
def a_user_who_is_there() -> Given:
    class Called(ToyDomain):
        def user(self, task: Task, deps: Any, model: Any) -> Caller:
            return Caller()

    return {"what": Called(), "reward": None}


class Opening(Caller):
    """A user who asks in words of their own."""

    async def begin(self, question: str) -> str:
        return f"{question} {NOTE}"

    async def reply(self, said: str) -> str | None:
        return None


class Leaving(Caller):
    """A user whose last words stand in the record, though no model is sent them."""

    farewell = NOTE

    async def reply(self, said: str) -> str | None:
        return None


def visited(caller: type[Caller]) -> Given:
    class Visited(ToyDomain):
        def user(self, task: Task, deps: Any, model: Any) -> Caller:
            return caller()

    return {"what": Visited(), "reward": None}


@stranger("traffic")
def a_user_who_opens() -> Given:
    return visited(Opening)


@stranger("traffic")
def a_user_who_says_goodbye() -> Given:
    return visited(Leaving)


def downloaded(what: Any = None, **user: Any) -> Given:
    tasks = [Task.of("", *one, source="hf:someone/parcels#1", user=User(**user)) for one in PARCELS]
    return {"what": what or clerk(), "tasks": tasks}


@stranger("tasks")
def a_script_of_a_dataset() -> Given:
    return downloaded(script=(NOTE,))


@stranger("tasks")
def a_goal_of_a_dataset() -> Given:
    return downloaded(goal=NOTE)


class OtherProject(ToyDomain):
    """Tasks, tools and users of another project, as a benchmark has them."""

    def __init__(self, **given: Any) -> None:
        super().__init__(name="bench:toy", **given)

    def tasks(self, split: Any, *, seed: int, limit: int | None = None) -> list[Task]:
        found = super().tasks(split, seed=seed, limit=limit)
        return [one.model_copy(update={"domain": self.name}) for one in found]

    def author_of(self, tool: str, place: str) -> Author:
        return Author(kind="tasks", name=self.name)


@stranger("tasks")
def a_task_of_another_project() -> Given:
    class Told(OtherProject):
        def question(self, task: Task) -> str:
            return f"{task.problem} {NOTE}"

    return {"what": Told(), "reward": None}


@stranger("tasks")
def a_user_of_another_project() -> Given:
    class Called(OtherProject):
        def user(self, task: Task, deps: Any, model: Any) -> Caller:
            return Caller()

    return {"what": Called(), "reward": None}


@stranger("reasons")
def a_reason_of_a_reward() -> Given:
    return {"what": clerk(), "reward": lambda task, output: (named(task, output), NOTE)}


# Ours


@ours
def literal_instructions() -> Given:
    return {"what": clerk(instructions=["Name the team.", InstructionPart("Be brief.", name="style")])}


@ours
def a_literal_system_prompt() -> Given:
    return {"what": clerk(system_prompt="Name the team.")}


@ours
def instructions_of_the_task_alone() -> Given:
    agent = clerk()
    agent.instructions(lambda ctx: f"<< {ctx.prompt} >>")
    return {"what": agent}


@ours
def a_structured_output() -> Given:
    return {"what": clerk(output_type=Ticket)}


class Rated(BaseModel):
    team: str
    urgency: Literal["low", "high"] = "low"
    days: int = Field(default=1, le=9)


@ours
def an_output_that_did_not_fit() -> Given:
    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        given = quoting(messages, info)
        if reflecting(messages, info) is None and len(messages) == 1:
            wrong = {"teem": "sales", "urgency": "at once", "days": "ten"}
            return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, wrong)])
        return given

    return {"what": clerk(output_type=Rated), "model": FunctionModel(reply, model_name="misfit")}


@ours
def an_empty_reply() -> Given:
    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        empty = reflecting(messages, info) is None and len(messages) == 1
        return ModelResponse(parts=[ThinkingPart("Hm.")]) if empty else quoting(messages, info)

    return {"what": clerk(), "model": FunctionModel(reply, model_name="thinker")}


@ours
def a_script() -> Given:
    return {"what": clerk(), "tasks": [Task.of(*one, user=User(script=("It is urgent.",))) for one in PARCELS]}


@ours
def a_function_that_adds_nothing() -> Given:
    async def program(task: Task, lessons: str, work: Work) -> str:
        return (await Agent(work.model, instructions=lessons or None).run(task.problem)).output

    return {"what": program}


@ours
def a_history_processor_that_cuts() -> Given:
    return {"what": clerk(capabilities=[ProcessHistory(lambda messages: messages[-3:])])}


def learned(store: Path, given: Given, **options: Any) -> LearnReport:
    given = {"model": quoting_model(), "reward": named, **given}
    what, tasks = given.pop("what"), given.pop("tasks", PARCELS)
    if isinstance(what, ToyDomain):
        tasks, given = None, {"model": doubling(), "limit": 4}
    settings = {"library": "post", "group_size": 2, "epochs": 1, "evaluate": False, "select": "last", "store": store}
    return learn_sync(what, tasks, **given, **settings, **options)


def doubling() -> FunctionModel:
    """The quoting model, which is right about every other number."""

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        found = quoting(messages, info)
        if reflecting(messages, info) is None and isinstance(found.parts[0], TextPart):
            return ModelResponse(parts=[TextPart(f"{found.parts[0].content} 6")])
        return found

    return FunctionModel(reply, model_name="gullible")


async def from_traffic(store: Path, kind: str) -> LearnReport:
    """Learn from recorded conversations, in one place of which the note stands."""
    async with Recorder("desk", store) as recorder:
        for team, reward in (("sales", 0.0), ("shipping", 1.0)):
            question = {"role": "user", "content": f"My parcel is late. {NOTE if kind == 'message' else ''}"}
            call = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
            looked = [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": NOTE},
            ]
            reply = {"role": "assistant", "content": team}
            messages = [question, *(looked if kind == "tool" else []), reply]
            rollout = await recorder.record(messages, task="My parcel is late.", model="m")
            said = NOTE if kind == "comment" else ""
            await recorder.feedback(rollout, reward=(reward, NOTE) if kind == "reason" else reward, comment=said)
            if kind == "demonstration":
                await recorder.feedback(rollout, demonstration=f"shipping. {NOTE}")
        groups = recorder.groups()
    return await learn(groups, model=quoting_model(), library="desk", evaluate=False, select="last", store=store)


def published_with(store: Path, given: Given, **options: Any) -> list[str]:
    learned(store, given, **options)
    return published(store)


def published(store: Path) -> list[str]:
    libraries = LibraryStore(store / "libraries")
    return [one.lesson for name in libraries.names() for one in libraries.load(name).experiences]


@pytest.mark.slow
def test_a_lesson_that_a_strangers_text_could_have_shaped_waits(tmp_path: Path, subtests: pytest.Subtests) -> None:
    histories = {
        f"a history with {name}": (word, lambda told=told: {"what": Remembering(clerk(), *told)})
        for name, (word, told) in HISTORIES.items()
    }
    for number, (name, (word, made)) in enumerate((STRANGERS | histories).items()):
        with subtests.test(name):
            report = learned(tmp_path / str(number), made())
            assert report.selection is not None
            assert (report.selection.status, published(tmp_path / str(number))) == ("pending", [])
            assert f"--trust {word}" in report.selection.reason
            assert [one.lesson for one in report.learned.experiences] in ([LESSON], [HONEST])


@pytest.mark.slow
def test_a_lesson_from_our_own_text_is_published(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for number, (name, made) in enumerate(OURS.items()):
        with subtests.test(name):
            report = learned(tmp_path / str(number), made())
            assert report.selection is not None
            assert (report.selection.status, report.selection.reason) == ("published", WHY)
            assert published(tmp_path / str(number)) == [HONEST]


@pytest.mark.slow
def test_one_word_opens_what_a_kind_of_author_could_have_shaped(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name in ("instructions_that_are_the_same_each_time", "a_first_message_that_is_fetched", "a_tool", "a_function"):
        with subtests.test(name):
            word, made = STRANGERS[name]
            assert published_with(tmp_path / name, made(), trust=word) == [LESSON]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["start", "import", "merge"])
def test_a_lesson_of_a_library_of_others_waits(tmp_path: Path, way: str) -> None:
    store, theirs = tmp_path / "store", tmp_path / "theirs"
    file = LibraryStore(theirs / "libraries").publish("post", Library.of([LESSON]))
    libraries = LibraryStore(store / "libraries")
    for one in (store, theirs):
        asyncio.run(opened(one))
    if way == "import":
        libraries.publish("post", Library.of(["Answer in one word."]))
        agentlearn_here("library", "import", str(file), "--name", "post", "--store", str(store), cwd=tmp_path)
    if way == "merge":
        merge_stores([theirs], store)
    learned(store, {"what": clerk(), **({"start": str(file)} if way == "start" else {})})
    assert LESSON not in published(store)


async def opened(store: Path) -> None:
    async with open_store(store):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["message", "tool", "comment", "reason", "demonstration"])
def test_a_lesson_from_recorded_traffic_waits(tmp_path: Path, kind: str) -> None:
    report = asyncio.run(from_traffic(tmp_path, kind))
    assert report.selection is not None
    assert (report.selection.status, published(tmp_path)) == ("pending", [])
    assert "--trust traffic" in report.selection.reason
