"""What a reward is: the same rule, in the same words, at every door through which one comes in."""

import asyncio
import fractions
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcp import Client

from agentlearn.domain.custom.reward import FunctionReward
from agentlearn.errors import ConfigError, DataError, LibraryError, VerifierError
from agentlearn.formats.import_logs import import_file
from agentlearn.library import LibraryStore
from agentlearn.library.capability import Experiences
from agentlearn.library.lessons import lessons
from agentlearn.live.recorder import Recorder
from agentlearn.pages.web_app.mcp_server import mcp_server
from agentlearn.store import read_store
from agentlearn.store.queries import Selection
from agentlearn.types.experience import library_of
from agentlearn.types.ids import RolloutId
from agentlearn.types.trajectory import Verdict
from tests.support.cases import cases
from tests.unit.domain.rollouts import own_task, rollout
from tests.unit.gateway.test_gateway import setting

CHAT: list[dict[str, Any]] = [{"role": "user", "content": "How many?"}, {"role": "assistant", "content": "4"}]
_KNOWN = {"numpy": np, "fractions": fractions}
Door = Callable[[Path, list[Any]], list[Verdict | str]]
"""Gives rewards, and returns for each the verdict that came of it, or the sentence that refused it."""


def kept(store: Path, identities: list[str]) -> dict[str, Verdict | None]:
    with read_store(store) as reader:
        return {one: reader.trajectory(RolloutId(one)).verdict for one in identities}


def given_each(store: Path, rewards: list[Any], give: Callable[[str, Any], str]) -> list[Verdict | str]:
    """Record a rollout for each reward, give it, and read what came of it. give: returns why it was refused."""
    with Recorder("math", store) as recorder:
        made = [recorder.record_sync(CHAT) for _ in rewards]
    refused = [give(identity, reward) for identity, reward in zip(made, rewards, strict=True)]
    found = kept(store, [*made])
    return [why or found[identity] or "" for identity, why in zip(made, refused, strict=True)]


def by_recorder(store: Path, rewards: list[Any]) -> list[Verdict | str]:
    def give(identity: str, reward: Any) -> str:
        try:
            recorder.feedback_sync(identity, reward=reward)
        except ConfigError as error:
            return str(error)
        return ""

    with Recorder("math", store) as recorder:
        return given_each(store, rewards, give)


def by_gateway(store: Path, rewards: list[Any]) -> list[Verdict | str]:
    async def ask() -> list[tuple[str, str]]:
        told = list[tuple[str, str]]()
        async with setting(store) as here:
            for reward in rewards:
                identity = (await here.ask()).headers["x-agentlearn-rollout"]
                said = {"metric_name": "reward", "value": reward, "inference_id": identity}
                answer = await here.ask(said, "/v1/feedback")
                assert answer.status in {200, 422}
                told.append((identity, "" if answer.status == 200 else json.loads(answer.body)["error"]["message"]))
        return told

    told = asyncio.run(ask())
    found = kept(store, [identity for identity, _ in told])
    return [why or found[identity] or "" for identity, why in told]


def by_mcp(store: Path, rewards: list[Any]) -> list[Verdict | str]:
    LibraryStore(store / "libraries").publish("math", library_of(["Count twice."], kind="add"))

    def give(identity: str, reward: Any) -> str:
        async def call() -> str:
            async with Client(mcp_server(["math"], store)) as client:
                asked = {"library": "math", "rollout": identity, "reward": reward}
                told = await client.call_tool("record_feedback", asked)
            return told.content[0].text if told.is_error else ""  # pyright: ignore[reportAttributeAccessIssue]

        return asyncio.run(call())

    return given_each(store, rewards, give)


def by_import(store: Path, rewards: list[Any]) -> list[Verdict | str]:
    file = store.parent / "log.jsonl"
    found, good = dict[int, Verdict | str](), list[int]()
    for number, reward in enumerate(rewards):
        line = {"messages": CHAT, "reward": reward, "task": f"task {number}"}
        file.write_text(json.dumps(line) + "\n" + '{"messages": []}')  # the second line ends a good import early
        with pytest.raises(DataError) as refused:
            import_file(file, "sums", store)
        found[number] = str(refused.value)
        good += [number] * ("line 2" in str(refused.value))
    lines = [{"messages": CHAT, "reward": rewards[one], "task": f"task {one}"} for one in good]
    file.write_text("\n".join(map(json.dumps, lines)))
    import_file(file, "sums", store)
    with read_store(store) as reader:
        for row in reader.selected(Selection()):
            number = int(reader.task(row.task).problem.split()[1])
            found[number] = reader.trajectory(row.id).verdict or ""
    return [found[number] for number in range(len(rewards))]


def by_function(_: Path, rewards: list[Any]) -> list[Verdict | str]:
    def judged(reward: Any) -> Verdict | str:
        mine = FunctionReward("mine:score", lambda task, answer: reward)
        try:
            verdict = mine.judge(own_task(), rollout(own_task(), "12"))
        except VerifierError as error:
            return str(error)
        assert isinstance(verdict, Verdict)
        return verdict

    return [judged(reward) for reward in rewards]


DOORS: tuple[Door, ...] = (by_recorder, by_gateway, by_mcp, by_import, by_function)


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_a_reward_is_one_rule_at_every_door(tmp_path: Path, subtests: pytest.Subtests, door: Door) -> None:
    table = cases(__file__, "a_reward_is_one_rule_at_every_door")
    found = door(tmp_path / "store", [json.loads(given) for given, *_ in table])
    for (given, *expected), told in zip(table, found, strict=True):
        with subtests.test(given):
            if isinstance(told, str):
                assert len(expected) == 1
                assert expected[0] in told
            else:
                assert [told.status, told.reward] == expected


def test_what_is_no_number_is_refused_in_one_sentence(tmp_path: Path, subtests: pytest.Subtests) -> None:
    table = cases(__file__, "what_is_no_number_is_refused_in_one_sentence")
    for given, told in zip(table, by_recorder(tmp_path, [eval(one, _KNOWN) for one in table]), strict=True):
        with subtests.test(given):
            assert isinstance(told, str)
            assert re.match(r"reward is .*; give True, False or a number from 0 to 1$", told)


def test_numbers_of_every_kind_count(tmp_path: Path, subtests: pytest.Subtests) -> None:
    table = cases(__file__, "numbers_of_every_kind_count")
    found = by_recorder(tmp_path, [eval(given, _KNOWN) for given, _ in table])
    for (given, reward), told in zip(table, found, strict=True):
        with subtests.test(given):
            assert isinstance(told, Verdict)
            assert told.reward == reward


def test_a_stated_scale_is_mapped_and_what_was_given_is_kept(tmp_path: Path, subtests: pytest.Subtests) -> None:
    table, made = cases(__file__, "a_stated_scale_is_mapped_and_what_was_given_is_kept"), list[str]()
    for number, (scale, given, reward, *words) in enumerate(table):
        with subtests.test(f"{given} of {scale}"), Recorder(f"desk-{number}", tmp_path, scale=scale) as recorder:
            made.append(recorder.record_sync(CHAT))
            if words:
                recorder.feedback_sync(made[-1], reward=(eval(given), "because"))
            else:
                with pytest.raises(ConfigError, match=reward):
                    recorder.feedback_sync(made[-1], reward=eval(given))
    with read_store(tmp_path) as reader:
        for identity, (scale, given, reward, *words) in zip(made, table, strict=True):
            with subtests.test(f"{given} of {scale} is stored"):
                said = reader.feedback(RolloutId(identity))
                assert [(one.reward, one.given) for one in said] == [(pytest.approx(reward), one) for one in words]
                verdict = reader.trajectory(RolloutId(identity)).verdict
                assert not said or verdict == Verdict.of(said[0].reward or 0.0, "because")


def test_a_scale_that_is_none_is_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for scale in cases(__file__, "a_scale_that_is_none_is_refused"):
        with subtests.test(repr(scale)), pytest.raises(ConfigError, match="is not a lowest and a highest score"):
            Recorder("desk", tmp_path, scale=scale)


def test_a_scale_is_stated_once_for_a_name(tmp_path: Path) -> None:
    def give(reward: Any, name: str = "desk", **options: Any) -> float | None:
        with Recorder(name, tmp_path, **options) as recorder:
            recorder.feedback_sync(identity, reward=reward)
        with read_store(tmp_path) as reader:
            return reader.feedback(identity)[-1].reward

    with Recorder("desk", tmp_path) as recorder:
        identity = recorder.record_sync(CHAT)
    assert give(1) == 1.0, "nobody has stated one yet"
    assert give(1, scale=(1, 5)) == 0.0
    assert give(4) == 0.75, "it holds for a recorder that states none"
    assert give(4, scale="1,5") == 0.75
    assert give(0.5, scale=(0, 1)) == 0.5, "a door of ours gives rewards from 0 to 1"
    assert give(True) == 1.0
    with pytest.raises(ConfigError, match="have a scale from 1 to 5, and not 0 to 10; state the same"):
        give(4, scale=(0, 10))
    assert give(4, name="other", scale=(0, 10)) == 0.4


def test_the_gateway_takes_a_scale(tmp_path: Path) -> None:
    async def ask() -> None:
        async with setting(tmp_path, scale="1..5") as here:
            identity = (await here.ask()).headers["x-agentlearn-rollout"]
            said = {"metric_name": "reward", "value": 2, "inference_id": identity}
            assert (await here.ask(said, "/v1/feedback")).status == 200
        assert kept(tmp_path, [identity]) == {identity: Verdict(status="partial", reward=0.25)}

    asyncio.run(ask())


def test_none_is_not_given_in_every_optional_argument(tmp_path: Path) -> None:
    with Recorder("desk", tmp_path, tenant=None, personal_data=None, personal_patterns=None, scale=None) as recorder:
        names = ("task", "experiences", "episode", "user", "answer", "model", "seconds", "before", "reserved")
        identity = recorder.record_sync(CHAT, **dict.fromkeys(names))
        recorder.feedback_sync(identity, reward=(0, None), episode=None, comment=None, demonstration=None, by=None)
        with pytest.raises(ConfigError, match="the feedback is empty"):
            recorder.feedback_sync(identity, reward=None, comment=None)
        assert len(recorder.groups(min_size=None, max_size=None)) == 0
    assert kept(tmp_path, [identity]) == {identity: Verdict(status="incorrect", reward=0.0)}


def test_none_is_not_given_for_lessons(tmp_path: Path) -> None:
    names = ("masked", "hide", "episode", "retrieval", "follow", "canary", "missing", "tenant")
    LibraryStore(tmp_path / "libraries").publish("desk", library_of(["Be brief."], kind="add"))
    given = dict.fromkeys(names)
    assert lessons("desk", store=tmp_path, **given).text == lessons("desk", store=tmp_path).text
    shown = Experiences("desk", store=tmp_path, **given, id=None, description=None, defer_loading=None)
    assert shown.rendered == Experiences("desk", store=tmp_path).rendered
    with pytest.raises(LibraryError, match="nobody"):
        lessons("nobody", store=tmp_path, missing=None)
