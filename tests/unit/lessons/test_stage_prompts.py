"""One table names the prompts: the stages use it, the run stores its texts, proposals and summaries refer to it."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest

from agentlearn.config import BudgetOptions, LearnSettings
from agentlearn.learning.callbacks import Update
from agentlearn.learning.lessons.lesson_learner import LessonLearner
from agentlearn.learning.lessons.stage_agent import STAGE_PROMPTS, StagePrompt, StagePrompts
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext
from agentlearn.store import open_store, read_store
from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.group import Group, Summary
from tests.support.stages import RUN, group, scripted

GOOD = "When counting integers in a range, count both endpoints."
LONG = "When " + "very " * 40 + "long."


def reply(text: str) -> object:
    """Summaries; one bad proposal and its repair; one consolidation."""
    if "<trajectory" in text:
        return {"steps": [{"text": "It counted.", "used": []}]}
    if "<proposals" in text:
        return {"proposals": [{"op": "add", "lesson": GOOD, "rests_on": ["P1"]}]}
    return {"proposals": [{"op": "add", "lesson": GOOD if "refused" in text else LONG}]}


async def groups() -> AsyncGenerator[Group]:
    yield group([1.0, 0.0])


async def learned(folder: Path, prompts: StagePrompts, instructions: list[str]) -> Update:
    async with open_store(folder) as store:
        learner = LessonLearner(
            library=EMPTY_LIBRARY,
            settings=LearnSettings(domain="math", model="scripted"),
            call_context=CallContext(RUN, store, Budget(BudgetOptions())),
            reflector=scripted(reply, instructions),
            store=store,
            prompts=prompts,
        )
        await learner.save_prompts()
        update = await learner.update(groups(), step="epoch-1/1")
        await store.save_proposals(RUN, "epoch-1", 1, update.evidence.ended)
        return update


@pytest.mark.parametrize("stage", ["summarise", "compare", "consolidate", "repair"])
def test_a_new_version_of_a_prompt_is_used_stored_and_referred_to(
    stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = f"later_prompts_of_{stage}"
    released: StagePrompt = getattr(STAGE_PROMPTS, stage)
    file = tmp_path / package / stage / "v2.md"
    file.parent.mkdir(parents=True)
    (tmp_path / package / "__init__.py").touch()
    file.write_text(f"{released.load().text}\n\nIn other words.")
    monkeypatch.syspath_prepend(tmp_path)
    later = StagePrompt(stage, 2, package=package)
    prompts = replace(STAGE_PROMPTS, **{stage: later})
    instructions: list[str] = []
    update = asyncio.run(learned(tmp_path / "store", prompts, instructions))
    assert [one.lesson for one in update.library.experiences] == [GOOD]

    with read_store(tmp_path / "store") as reader:
        assert reader.prompt(later.load().ref.sha256) == later.load().text
        summaries: list[Summary] = reader.summaries(RUN)
        proposals = [one.ended.proposal for one in reader.proposals(RUN)]
    summarise, compare, _, consolidate, repair = (prompt.ref for prompt in prompts.load_all())
    assert {one.prompts for one in summaries} == {(summarise,)}
    assert {one.prompts for one in proposals} == {(compare,), (compare, repair), (consolidate,)}
    if stage != "repair":  # the repair prompt is sent as a message of the user
        assert any(text.endswith("In other words.") for text in instructions)
