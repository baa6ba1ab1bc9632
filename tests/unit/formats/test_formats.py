"""Export to other formats and import of other programs' logs lose nothing."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from agentlearn.errors import DataError, StoreMissing
from agentlearn.formats import LineFormat, export_lines, import_file
from agentlearn.formats.openai_chat import to_chat
from agentlearn.store import Selection, open_store, read_store
from agentlearn.types.trajectory import Verdict
from tests.support.cases import cases
from tests.unit.store import nouns

MESSAGES: list[ModelMessage] = [
    ModelRequest(parts=[UserPromptPart(content="What is 2 + 2?")], instructions="Be brief. [G1] Check the ends."),
    ModelResponse(
        parts=[
            ThinkingPart(content="hm"),
            TextPart(content="let me compute"),
            ToolCallPart(tool_name="python", args='{"code": "2+2"}', tool_call_id="t1"),
        ]
    ),
    ModelRequest(parts=[ToolReturnPart(tool_name="python", content="4", tool_call_id="t1")]),
    ModelResponse(parts=[TextPart(content="4")]),
]
CHAT: list[dict[str, Any]] = cases(__file__, "chat")


def dumped(messages: list[ModelMessage] = MESSAGES) -> bytes:
    return ModelMessagesTypeAdapter.dump_json(messages)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Three rollouts: right, wrong, and in another phase right."""
    directory = tmp_path / "store"

    async def fill() -> None:
        async with open_store(directory) as opened:
            await opened.save_run(nouns.run_event(state="done"))
            await opened.save_tasks([nouns.TASK])
            await opened.save_trajectory(nouns.trajectory(0), dumped())
            wrong = Verdict(status="incorrect", reward=0.0)
            await opened.save_trajectory(nouns.trajectory(1, verdict=wrong), dumped())
            await opened.save_trajectory(
                nouns.trajectory(0, phase="later", started_at=nouns.AT + timedelta(minutes=1)), dumped()
            )

    asyncio.run(fill())
    return directory


def exported(store: Path, out: Path, form: LineFormat, **selection: Any) -> list[dict[str, Any]]:
    with read_store(store) as reader:
        count = export_lines(reader, Selection(**selection), out, form)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(lines) == count
    assert [file.name for file in out.parent.iterdir() if file.is_file()] == [out.name]  # no draft is left
    return lines


def test_openai_lines_hold_the_chat_and_where_it_comes_from(store: Path, tmp_path: Path) -> None:
    lines = exported(store, tmp_path / "chat.jsonl", "openai-jsonl")
    assert [one["messages"] for one in lines] == [CHAT] * 3
    assert [one["reward"] for one in lines] == [1.0, 0.0, 1.0]
    first = nouns.trajectory(0)
    assert (lines[0]["rollout"], lines[0]["task"], lines[0]["arm"]) == (first.id, nouns.TASK.id, "main")


def test_trl_lines_are_conversational_and_hold_no_more_than_their_trainer_reads(store: Path, tmp_path: Path) -> None:
    lines = exported(store, tmp_path / "trl.jsonl", "trl-jsonl", phase="epoch-1")
    assert [set(one) for one in lines] == [{"prompt", "completion", "reward"}] * 2
    assert lines[0]["prompt"] == CHAT[:2]
    assert [one["role"] for one in lines[0]["completion"]] == ["assistant", "tool", "assistant"]
    assert lines[0]["completion"][0]["tool_calls"][0]["function"]["arguments"] == {"code": "2+2"}
    lines = exported(store, tmp_path / "trl.jsonl", "trl-sft", min_reward=1.0)
    assert [set(one) for one in lines] == [{"prompt", "completion"}] * 2
    (line,) = exported(store, tmp_path / "trl.jsonl", "trl-grpo")
    assert line == {"prompt": CHAT[:2], "answer": nouns.TASK.answer, "task": nouns.TASK.id}
    (line,) = exported(store, tmp_path / "trl.jsonl", "trl-dpo")
    assert (set(line), line["prompt"]) == ({"prompt", "chosen", "rejected"}, CHAT[:2])
    with pytest.raises(DataError, match="no group among them has two rewards"):
        exported(store, tmp_path / "trl.jsonl", "trl-dpo", phase="later")
    with pytest.raises(DataError, match="give another --out"), read_store(store) as reader:
        export_lines(reader, Selection(), tmp_path / "none" / "out.jsonl", "openai-jsonl")


@pytest.mark.parametrize(
    ("selection", "count"),
    [({"min_reward": 0.5}, 2), ({"phase": "later"}, 1), ({"outcome": "ok"}, 3), ({"domain": "math"}, 3)],
)
def test_only_what_was_asked_for_is_exported(
    store: Path, tmp_path: Path, selection: dict[str, Any], count: int
) -> None:
    assert len(exported(store, tmp_path / "out.jsonl", "openai-jsonl", **selection)) == count


@pytest.mark.parametrize("selection", [{"run": "other"}, {"domain": "web"}, {"outcome": "failed"}, {"min_reward": 2.0}])
def test_an_empty_selection_is_refused(store: Path, tmp_path: Path, selection: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="no stored rollout matches"):
        exported(store, tmp_path / "out.jsonl", "openai-jsonl", **selection)
    assert not (tmp_path / "out.jsonl").exists()


def test_export_and_import_give_the_same_chat(store: Path, tmp_path: Path) -> None:
    first = tmp_path / "first.jsonl"
    lines = exported(store, first, "openai-jsonl")
    first.write_text("\n".join(json.dumps(line | {"task": "What is 2 + 2?", "answer": 4}) for line in lines))
    done = import_file(first, "math", store)
    assert (done.rollouts, done.tasks, done.rewarded) == (3, 1, 3)
    (tmp_path / "again").mkdir()
    again = exported(store, tmp_path / "again" / "chat.jsonl", "openai-jsonl", run=done.run)
    assert [one["messages"] for one in again] == [CHAT] * 3
    assert [one["reward"] for one in again] == [1.0, 0.0, 1.0]
    assert {one["task"] for one in again} == {nouns.TASK.id}  # the same problem and answer are the same task


def test_imported_rollouts_are_a_run_of_their_own(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    asked = {"role": "user", "content": [{"type": "text", "text": "Name a prime."}]}
    lines = [
        {"messages": [asked, {"role": "assistant", "content": " 7 "}], "reward": 0.5, "model": "gpt-x"},
        {"messages": [asked, {"role": "assistant", "content": "9"}]},
    ]
    log.write_text("\n".join(map(json.dumps, lines)))
    done = import_file(log, "primes", tmp_path / "store")
    with read_store(tmp_path / "store") as reader:
        row = reader.run(done.run)
        assert (row.kind, row.state, row.model, row.simulated) == ("import", "done", "foreign", False)
        first, second = (reader.trajectory(one.id) for one in reader.trajectories(done.run))
        task = reader.task(first.task)
        assert reader.library(first.treatment.library).experiences == ()
    assert (task.domain, task.problem, task.answer, task.source) == ("primes", "Name a prime.", None, "log.jsonl:1")
    assert [first.treatment.arm, second.treatment.arm] == ["foreign", "foreign"]
    assert [first.treatment.model, second.treatment.model] == ["gpt-x", "foreign"]
    assert (first.g, first.answer, first.reward, first.outcome) == (0, "7", 0.5, "ok")
    assert (second.g, second.answer, second.reward, second.outcome) == (1, "9", None, "undecided")


GOOD = '{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}'


def test_a_bad_line_is_named_and_nothing_is_imported(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for line, why in [
        ("{", "line 2 column"),
        ("[]", "line 2 is not a JSON object"),
        ("{}", "line 2 is not a rollout (messages: Field required)"),
        ('{"messages": []}', "line 2 is not a rollout (messages: "),
        ('{"messages": [{"role": "king", "content": "q"}]}', "line 2 is not a rollout (message 1 has the role 'king'"),
        ('{"messages": [{"role": "user", "content": "q"}]}', "it has no assistant message"),
        ('{"messages": [{"role": "assistant", "content": "q"}]}', "it has no task"),
        ('{"messages": [{"role": "tool", "tool_call_id": "x", "content": "q"}]}', "answers the tool call 'x'"),
        (GOOD[:-1] + ', "reward": "high"}', "line 2 is not a rollout (reward is 'high'; give True, False or a number"),
        (GOOD[:-1] + ', "reward": NaN}', "line 2"),
    ]:
        with subtests.test(repr((line, why))):
            log = tmp_path / "log.jsonl"
            log.write_text(f"{GOOD}\n{line}\n")
            with pytest.raises(DataError) as refused:
                import_file(log, "d", tmp_path / "store")
            assert "log.jsonl line 2" in str(refused.value)
            assert why in str(refused.value)
            with pytest.raises(StoreMissing), read_store(tmp_path / "store"):
                pass


@pytest.mark.parametrize(("name", "domain"), [("log.csv", "d"), ("log.jsonl", "No Domain"), ("empty.jsonl", "d")])
def test_a_file_that_is_not_a_log_and_a_bad_domain_name_are_refused(tmp_path: Path, name: str, domain: str) -> None:
    (tmp_path / name).write_text("" if name.startswith("empty") else GOOD)
    with pytest.raises(DataError):
        import_file(tmp_path / name, domain, tmp_path / "store")


def test_images_are_exported_as_links_or_data() -> None:
    content = ["see", ImageUrl(url="https://x.test/a.png"), BinaryContent(data=b"ab", media_type="image/png")]
    (message,) = to_chat(dumped([ModelRequest(parts=[UserPromptPart(content=content)])]))
    assert message["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,YWI="}},
    ]


def test_parts_that_chat_cannot_express_are_refused_and_never_dropped() -> None:
    odd = dumped([ModelRequest(parts=[UserPromptPart(content=["see", CachePoint()])])])
    with pytest.raises(DataError, match="'CachePoint', which the chat format cannot express"):
        to_chat(odd)
