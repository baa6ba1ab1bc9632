"""One table names the prompts: the stages use it, the run stores its texts, proposals and summaries refer to it."""

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest

from agentlearn.config import BudgetOptions, LearnSettings, learn_settings, read_recipe
from agentlearn.errors import ConfigError
from agentlearn.learning.callbacks import Update
from agentlearn.learning.lessons.lesson_learner import LessonLearner
from agentlearn.learning.lessons.stage_agent import STAGE_PROMPTS, StagePrompt, StagePrompts
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext
from agentlearn.store import open_store, read_store
from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.group import Group, Summary
from tests.support.cases import cases
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
    summarise, compare, _, consolidate, repair, *_ = (prompt.ref for prompt in prompts.load_all())
    assert {one.prompts for one in summaries} == {(summarise,)}
    assert {one.prompts for one in proposals} == {(compare,), (compare, repair), (consolidate,)}
    if stage != "repair":  # the repair prompt is sent as a message of the user
        assert any(text.endswith("In other words.") for text in instructions)


def test_a_prompt_of_ones_own_is_used_stored_and_kept_by_the_settings(tmp_path: Path) -> None:
    file, heard = tmp_path / "mine.md", list[str]()
    file.write_text("Compare, and propose at most {{ max_proposals }} changes.\n")
    settings = LearnSettings(domain="math", prompt={"compare": file})  # type: ignore[arg-type]
    again = LearnSettings.model_validate_json(settings.resolved())
    file.unlink()  # what is stored with the run is enough
    assert again.prompt == settings.prompt
    update = asyncio.run(learned(tmp_path / "store", StagePrompts.of(again.prompt), heard))
    assert "Compare, and propose at most 3 changes." in heard
    (ref,) = {ref for one in update.evidence.ended for ref in one.proposal.prompts if ref.name == "own:compare"}
    with read_store(tmp_path / "store") as reader:
        text = reader.prompt(ref.sha256)
    assert (text, ref.sha256) == ("Compare, and propose at most 3 changes.".replace("3", "{{ max_proposals }}"), SHA256)


SHA256 = hashlib.sha256(b"Compare, and propose at most {{ max_proposals }} changes.\n").hexdigest()


@pytest.mark.parametrize(
    ("given", "words"),
    cases(__file__, "a_prompt_that_cannot_be_used_is_refused_before_anything_is_spent"),
)
def test_a_prompt_that_cannot_be_used_is_refused_before_anything_is_spent(
    given: object, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (("empty.md", " "), ("odd.md", "For {{ task }}."), ("near.md", "At most {{max_words}} words.")):
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=re.escape(words)):
        StagePrompts.of(learn_settings({"domain": "math", "prompt": given}).prompt)


def test_a_recipe_names_prompts_relative_to_its_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.md").write_text("Compare.")
    (tmp_path / "recipe.yaml").write_text("domain: math\nprompt:\n  compare: mine.md\n")
    assert learn_settings(read_recipe(tmp_path / "recipe.yaml")).prompt["compare"].text == "Compare."
