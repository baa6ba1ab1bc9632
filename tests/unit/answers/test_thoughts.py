"""Thoughts are taken out of a reply however a model marks them, and nothing else is."""

from collections.abc import Callable
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import ModelRetry
from pydantic_ai.messages import ModelResponse, TextPart

from agentlearn.answers.reply import boxed, final_answer_in
from agentlearn.answers.thoughts import Spoken, split_thoughts
from agentlearn.domain.custom.judge import judgement_in
from agentlearn.live.captured import captured, given_of
from agentlearn.rollout.transcript import steps_of
from agentlearn.types.trajectory import ModelTurn
from tests.support.cases import cases

HARMONY_END = "<|end|><|start|>assistant"
MARKED = {
    "tags": "<think>\nMaybe 5.\n</think>\n\nAnswer: 7",
    "tags in the middle": "<Thinking>Maybe 5.</Thinking>Answer: 7",
    "opened by the template": "Maybe 5, says `x`.\n```\n5\n</think>\n\nAnswer: 7",
    "closed in a line": "Maybe 5.</think> Answer: 7",
    "twice": "<thought>a</thought>\n<reasoning>b</reasoning>\nAnswer: 7",
    "one in the other": "<think>Maybe <think>5</think>.</think>Answer: 7",
    "names its own end": "<think>I end with `</think>` or with </think> later.\n</think>\nAnswer: 7",
    "with a prefix": "<seed:think>Maybe 5.</seed:think>Answer: 7",
    "brackets": "[THINK]Maybe 5.[/THINK]Answer: 7",
    "triangles": "◁think▷Maybe 5.◁/think▷Answer: 7",
    "solution": "<|begin_of_thought|>5<|end_of_thought|>\n<|begin_of_solution|>\nAnswer: 7\n<|end_of_solution|>",
    "response": "<|START_THINKING|>5<|END_THINKING|><|START_RESPONSE|>Answer: 7<|END_RESPONSE|>",
    "one channel": "<|channel>thought\nMaybe 5.<channel|>Answer: 7",
    "channels": f"<|channel|>analysis<|message|>5{HARMONY_END}<|channel|>final<|message|>Answer: 7<|return|>",
    "three channels": (
        f"<|channel|>analysis<|message|>5{HARMONY_END}<|channel|>commentary<|message|>Now.{HARMONY_END}"
        "<|channel|>final <|constrain|>text<|message|>Answer: 7"
    ),
    "channels without tokens": "analysisMaybe 5.assistantcommentary to=functions.f json{}assistantfinalAnswer: 7",
    "only the last channel": "assistantfinalAnswer: 7",
    "sentences": "Here is my thought process: maybe 5. Here is my response: Answer: 7",
}
UNFINISHED = cases(__file__, "unfinished")
PROSE = cases(__file__, "prose")


BITS = (
    *("<think>", "</think>", "[THINK]", "[/THINK]", "<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
    *("<|end|>", "analysisWe have", "assistantfinal", "<|channel>thought", "<channel|>", "<|START_THINKING|>"),
    *("Here is my thought process:", "Here is my response:", "`", "```", "~~~", "\n", " ", ".", '"', "word", "\x0b"),
)


def test_what_is_said_is_left(subtests: pytest.Subtests) -> None:
    for reply in MARKED.values():
        with subtests.test(repr(reply)):
            spoken = split_thoughts(reply)
            assert (spoken.said, spoken.unfinished) == ("Answer: 7", False)
            assert "Answer" not in spoken.thoughts


def test_a_thought_that_never_ends_says_nothing_more_and_a_text_without_thoughts_is_itself(
    subtests: pytest.Subtests,
) -> None:
    for reply in (*UNFINISHED, *PROSE):
        with subtests.test(repr(reply)):
            spoken = split_thoughts(reply)
            assert spoken.said in {"", "Let me see."} if reply in UNFINISHED else spoken.said is reply
            assert spoken.unfinished == (reply in UNFINISHED)


def test_the_thoughts_are_given_in_order() -> None:
    assert split_thoughts("a<think>b</think>c<think>d</think>e") == Spoken("a\nc\ne", "b\nd", unfinished=False)


@given(st.lists(st.sampled_from(BITS), max_size=12).map("".join))
def test_splitting_again_changes_nothing(reply: str) -> None:
    said = split_thoughts(reply).said
    assert split_thoughts(said) == Spoken(said, "", unfinished=False)


@pytest.mark.parametrize("bit", ["<think>", "</think>", "```\n<think>\n```\n</think>\n", "a <think> b ", "` "])
def test_a_reply_of_marks_alone_is_split_in_no_time(bit: str) -> None:
    began = process_time()
    split_thoughts(bit * 20_000)
    assert process_time() - began < 5


def verdict_in(reply: str) -> str | None:
    try:
        return judgement_in(reply).verdict
    except ModelRetry:
        return None


def recorded_answer(reply: str) -> str | None:
    return captured(given_of([ModelResponse([TextPart(reply)])])).answer


@pytest.mark.parametrize(
    ("reader", "draft", "final", "read"),
    [
        (final_answer_in, "<answer>5</answer>", "Answer: 7", "7"),
        (boxed, "\\boxed{5}", "\\boxed{7}", "7"),
        (verdict_in, '{"verdict": "wrong"}', '{"verdict": "right"}', "right"),
        (recorded_answer, "5", "7", "7"),
    ],
)
def test_no_reader_takes_a_draft_for_the_answer(
    reader: Callable[[str], str | None], draft: str, final: str, read: str
) -> None:
    assert reader(f"{final}\n<think>\nMaybe {draft}\n</think>") == read
    assert reader(f"Maybe {draft}</think>\n\n{final}") == read
    assert reader(f"<think>\nMaybe {draft}") is None


def test_a_stored_step_holds_what_was_said_apart_from_the_thoughts() -> None:
    (step,) = steps_of([ModelResponse([TextPart("<think>Maybe 5.</think>Answer: 7")])])
    assert isinstance(step, ModelTurn)
    assert (step.text, step.thinking) == ("Answer: 7", "Maybe 5.")
