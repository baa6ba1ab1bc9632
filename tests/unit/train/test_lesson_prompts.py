"""The student's and the teacher's prompt of a rollout, made from the tokens of one of them."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.errors import RolloutError
from agentlearn.train.update.sequences import PromptPair, RolloutPrompts, training_rows
from agentlearn.types.trajectory import ModelTurn, SampledTokens, Trajectory
from tests.unit.store import nouns

LESSONS = "<experiences>\n[G0] Count again.\n</experiences>"


class Letters:
    """One token per character."""

    def encode(self, text: str) -> list[int]:
        return [ord(one) for one in text]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(map(chr, ids))


class Lossy(Letters):
    """Forgets a leading space, as some tokenizers do."""

    def decode(self, ids: Sequence[int]) -> str:
        return super().decode(ids).lstrip()


def rollout_of(*turns: SampledTokens) -> Trajectory:
    return nouns.trajectory(steps=tuple(ModelTurn(tokens=one) for one in turns))


def turn(text: str, instructions: str, answer: str = "ok") -> SampledTokens:
    ids = tuple(map(ord, answer))
    return SampledTokens(prompt=tuple(map(ord, text)), ids=ids, logprobs=(-0.5,) * len(ids), instructions=instructions)


def texts(pair: PromptPair | None) -> tuple[str, str]:
    assert pair is not None
    return Letters().decode(pair.student), Letters().decode(pair.teacher)


@given(st.text("abc \n", min_size=1).filter(str.strip), st.text("xyz"), st.text("uvw"))
def test_each_prompt_can_be_made_from_the_other(instructions: str, before: str, after: str) -> None:
    """A template may leave out white space around instructions; pydantic-ai does."""
    bare = instructions.strip()
    alone, read = f"{before}{bare}{after}", f"{before}{bare}\n\n{LESSONS}{after}"
    assert texts(RolloutPrompts(Letters(), LESSONS).pair(turn(alone, instructions))) == (alone, read)
    guided = RolloutPrompts(Letters(), LESSONS, guided=True)
    assert texts(guided.pair(turn(read, f" {bare}\n\n{LESSONS}\n"))) == (alone, read)


@pytest.mark.parametrize(
    ("prompts", "asked"),
    [
        (RolloutPrompts(Letters(), LESSONS), turn("system: Be brief.", "")),
        (RolloutPrompts(Letters(), LESSONS), turn("SYSTEM: BE BRIEF.", "Be brief.")),
        (RolloutPrompts(Lossy(), LESSONS), turn(" Be brief.", "Be brief.")),
        (RolloutPrompts(Letters(), LESSONS, guided=True), turn("Be brief.", "Be brief.")),
        (RolloutPrompts(Letters(), LESSONS, guided=True), turn(LESSONS, LESSONS)),
    ],
    ids=["no instructions", "changed by the template", "other tokens", "no lessons in it", "nothing but lessons"],
)
def test_no_prompt_is_made_where_it_would_be_a_guess(prompts: RolloutPrompts, asked: SampledTokens) -> None:
    assert prompts.pair(asked) is None


def test_rows_get_both_prompts_and_keep_what_was_sampled() -> None:
    first = turn("Be brief. 1+1?", "Be brief.", "two")
    second = turn("Be brief. 1+1?two And 2+2?", "", "four")
    trajectory = rollout_of(first, second)
    made = training_rows(trajectory, advantage=1.0, reward=1.0, prompts=RolloutPrompts(Letters(), LESSONS))
    (row,) = made.rows
    assert (made.untaught, row.taught) == (0, 7)
    taught = row.for_teacher()
    assert Letters().decode(taught.ids_T) == f"Be brief.\n\n{LESSONS} 1+1?two And 2+2?four"
    assert Letters().decode(taught.ids_T[taught.mask_T]) == Letters().decode(row.ids_T[row.mask_T]) == "twofour"
    assert list(taught.logprobs_T[taught.mask_T]) == list(row.logprobs_T[row.mask_T])
    guided = rollout_of(turn(f"Be brief.\n\n{LESSONS} 1+1?", f"Be brief.\n\n{LESSONS}", "two"))
    both = RolloutPrompts(Letters(), LESSONS, guided=True)
    (row,) = training_rows(guided, advantage=0.0, reward=1.0, prompts=both).rows
    assert Letters().decode(row.ids_T) == "Be brief. 1+1?two"
    assert Letters().decode(row.ids_T[row.mask_T]) == "two"
    assert Letters().decode(row.for_teacher().ids_T) == f"Be brief.\n\n{LESSONS} 1+1?two"


def test_a_forked_row_has_the_instructions_of_the_turns_before_it() -> None:
    forked = rollout_of(turn("Be brief. 1+1?", "Be brief.", "two"), turn("Be brief. Again?", "", "no"))
    made = training_rows(forked, advantage=1.0, reward=1.0, prompts=RolloutPrompts(Letters(), LESSONS))
    assert (made.forked, made.untaught) == (1, 0)
    assert all(LESSONS in Letters().decode(row.for_teacher().ids_T) for row in made.rows)


def test_a_row_without_a_teacher_stays_unless_the_student_would_read_lessons() -> None:
    rollout = rollout_of(turn("Changed.", "Be brief."))
    for guided, kept in ((False, 1), (True, 0)):
        prompts = RolloutPrompts(Letters(), LESSONS, guided=guided)
        made = training_rows(rollout, advantage=1.0, reward=1.0, prompts=prompts)
        assert (len(made.rows), made.untaught) == (kept, 1)


def test_missing_tokens_are_refused_as_without_distillation() -> None:
    rollout = rollout_of(SampledTokens(prompt=(1,), ids=(2, 3), logprobs=(-0.1,), instructions="Be brief."))
    with pytest.raises(RolloutError, match="each sampled token needs one"):
        training_rows(rollout, advantage=1.0, reward=1.0, prompts=RolloutPrompts(Letters(), LESSONS))
