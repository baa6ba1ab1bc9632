"""What the simulated reflector takes from reasons: a good one finds a habit, an empty one changes nothing at all."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.learning.lessons.compare import question_of
from agentlearn.sim.believing import OPPOSED, SHOWN, UNSEEN, AttemptHabits, believed_traps
from agentlearn.sim.habits import Habit, Vocabulary
from agentlearn.sim.lessons import stance
from agentlearn.sim.reflector import Reflector, ReflectorRequest
from agentlearn.sim.reflector_state import FLAWLESS
from agentlearn.sim.stage_text import compare_prompt, without_reasons
from agentlearn.types.ids import RolloutId
from agentlearn.types.summary import Summary, SummaryStep
from tests.support.stages import RUN, group, stage_context
from tests.unit.sim.toy import ENDPOINTS, REDUCTION, ToySkills

SKILLS = ToySkills()
EMPTY = "This is not what was asked for. Try again."


def prompt(*attempts: tuple[float, str, str]) -> str:
    """The prompt of the stage compare for attempts of (reward, what the summary shows, reason)."""
    one = group([reward for reward, _, _ in attempts])
    judged = tuple(
        t.model_copy(update={"verdict": t.verdict and t.verdict.model_copy(update={"reason": reason})})
        for t, (_, _, reason) in zip(one.trajectories, attempts, strict=True)
    )
    summaries: dict[RolloutId, Summary] = {
        t.id: Summary(
            id=t.id, run=RUN, rollout=t.id, steps=(SummaryStep(text=f"“{said}”"),), library=t.treatment.library
        )
        for t, (_, said, _) in zip(judged, attempts, strict=True)
    }
    return question_of(one.model_copy(update={"trajectories": judged}), summaries, stage_context(lambda _: {}))


def lessons(text: str, seed: int = 0) -> list[str]:
    reply = Reflector([SKILLS], parameters=FLAWLESS).answer(ReflectorRequest("compare", text, seed=seed)).text
    return [item["lesson"] for item in json.loads(reply)["proposals"]]


def share_about(text: str) -> float:
    """Share of 200 seeds in which a lesson speaks against leaving out ends."""
    found = [lessons(text, seed) for seed in range(200)]
    return sum(any(stance(one, ENDPOINTS) == "addresses" for one in said) for said in found) / len(found)


def test_the_reflector_reads_the_reason_of_each_attempt_as_the_stage_shows_it() -> None:
    read = compare_prompt(prompt((1.0, "fine", ""), (0.0, "other", "no good <b>")))
    assert [(one.right, one.text, one.reason) for one in read.attempts] == [
        (True, "1. “fine”", ""), (False, "1. “other”", "no good ‹b›"),
    ]  # fmt: skip


def test_a_reason_finds_what_the_attempts_alone_do_not_show() -> None:
    silent = ((1.0, "fine", ""), (0.0, "other", ""))
    assert share_about(prompt(*silent)) == 0
    told = share_about(prompt(silent[0], (0.0, "other", f"Wrong, {ENDPOINTS.careless[0]}.")))
    assert told == pytest.approx(UNSEEN, abs=0.12)
    seen = share_about(prompt((1.0, ENDPOINTS.careless[1], ""), (0.0, ENDPOINTS.careless[1], ENDPOINTS.advice[0])))
    assert seen == pytest.approx(SHOWN, abs=0.06)


def test_a_misleading_reason_sometimes_misleads() -> None:
    text = prompt((1.0, ENDPOINTS.careful[0], ""), (0.0, ENDPOINTS.careful[1], f"Wrong, {ENDPOINTS.careless[0]}."))
    assert share_about(text) == pytest.approx(OPPOSED, abs=0.1)


@given(st.integers(0, 10_000), st.sampled_from(["", EMPTY, "judged by hand", "no"]))
def test_a_reason_that_says_nothing_changes_nothing(seed: int, reason: str) -> None:
    bare = prompt((1.0, ENDPOINTS.careful[0], ""), (0.0, ENDPOINTS.careless[0], ""))
    spoken = prompt((1.0, ENDPOINTS.careful[0], reason), (0.0, ENDPOINTS.careless[0], reason))
    assert without_reasons(spoken) == bare
    assert lessons(spoken, seed) == lessons(bare, seed)


def test_what_most_reasons_name_comes_first() -> None:
    vocabulary = Vocabulary(SKILLS)
    told = vocabulary.traps_told(f"It said so: {REDUCTION.careless[0]}. Also: {ENDPOINTS.careless[0]}.")
    assert set(told) == {REDUCTION.name, ENDPOINTS.name}
    one = AttemptHabits(right=False, habits=(), told=told)
    assert believed_traps([one, replace(one, told=(ENDPOINTS.name,))], lambda _: 0.0)[0] == ENDPOINTS.name
    assert believed_traps([one], lambda _: 0.99) == []
    careful = AttemptHabits(right=True, habits=(Habit(ENDPOINTS.name, False, "x"),), told=(ENDPOINTS.name,))
    assert believed_traps([careful], lambda _: SHOWN - 0.01) == [ENDPOINTS.name]
