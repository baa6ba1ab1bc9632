"""The three stages with a scripted model: valid items go on, the others end with a code."""

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from agentlearn.config.options import LessonOptions
from agentlearn.learning.lessons.stages import Proposed, Summarised
from agentlearn.library.curate import CheckContext
from agentlearn.types.experience import EMPTY_LIBRARY, Library, library_of
from agentlearn.types.group import Summary, SummaryStep
from agentlearn.types.ids import ProposalId, RolloutId
from agentlearn.types.operation import Add, Dropped, Ended, Folded, Merge, Proposal, Rejected
from agentlearn.types.value import Author
from tests.support.stages import RUN, Arguments, ListJournal, Reply, group, scripted, stage_context, task, trajectory

GOOD = "When counting integers in a range, count both endpoints."
BETTER = "When a range is closed, include its first and its last member."
LONG = "When " + "very " * 40 + "long."
LIBRARY = library_of(["When in doubt, try a small case first.", "When a fraction appears, reduce it."], kind="add")


def summarised(reply: Reply, library: Library = EMPTY_LIBRARY) -> tuple[Summarised, int]:
    one, at = task(), stage_context(reply, library)
    result = asyncio.run(at.summarise(trajectory(one, 0, 1.0), one))
    assert isinstance(at.call_context.journal, ListJournal)
    return result, len(at.call_context.journal.records)


def test_a_summary_keeps_text_and_known_labels() -> None:
    result, calls = summarised(lambda _: {"steps": [{"text": "It used\nrange.", "used": ["[G1]", "g9"]}]}, LIBRARY)
    assert result.summary is not None
    assert result.summary.steps == (SummaryStep(text="It used range.", used=(LIBRARY.experiences[0].id,)),)
    assert result.faults["unknown_id"] == 1
    assert calls == 1


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ({"steps": {"text": "One step."}}, "object_not_array"),
        ({"steps": ["One step."]}, "string_item"),
        ({"steps": [{"text": 5}, {"text": "One step."}]}, "bad_item"),
        (Arguments('{"steps": [{"text": "One step."}, {"te'), "cut_json"),
        ("One step.", "prose"),
    ],
)
def test_malformed_summaries_are_used_and_counted(reply: object, code: str) -> None:
    result, _ = summarised(lambda _: reply)
    assert result.summary is not None
    assert [step.text for step in result.summary.steps] == ["One step."]
    assert result.faults[code] >= 1


def test_an_empty_summary_is_lost_and_counted() -> None:
    result, calls = summarised(lambda _: {"steps": []})
    assert result.summary is None
    assert (result.faults["no_summary"], calls) == (1, 2)


REFUSED: dict[str, Any] = {
    "strangers": (Author(kind="pages", name="example.org"),),
    "refused_authors": frozenset([Author(kind="pages", name="example.org")]),
}
"""Of a batch that read a page from which a person refused a lesson."""


def compared(reply: Reply, library: Library = EMPTY_LIBRARY, **context: Any) -> Proposed:
    one = group([1.0, 0.0])
    summaries = {
        t.id: Summary(id=t.id, run=RUN, rollout=t.id, steps=(SummaryStep(text="x"),), library=library.version)
        for t in one.trajectories
    }
    return asyncio.run(stage_context(reply, library).compare(one, summaries, CheckContext.of([one.task], **context)))


def once(first: object, then: object) -> Reply:
    """First to the question, `then` to the repair message."""
    return lambda text: then if "refused" in text else first


def codes(ended: Sequence[Ended]) -> Counter[str]:
    return Counter(one.end.code if isinstance(one.end, Rejected) else one.end.end for one in ended)


def test_one_bad_item_does_not_lose_the_good_ones() -> None:
    items = [
        {"op": "add", "lesson": GOOD},
        {"op": "add", "lesson": LONG},
        {"op": "modify", "target": "G2", "lesson": BETTER},
    ]
    result = compared(once({"proposals": items}, {"proposals": []}), LIBRARY)
    assert [one.operation.op for one in result.accepted if one.operation] == ["add", "modify"]
    assert codes(result.ended) == {"too_long": 1}


def test_a_quarantined_proposal_waits_and_is_not_sent_back_to_the_model() -> None:
    asked: list[str] = []

    def reply(text: str) -> object:
        asked.append(text)
        return {"proposals": [{"op": "add", "lesson": GOOD}]}

    result = compared(reply, **REFUSED)
    assert result.accepted == ()
    assert codes(result.ended) == {"quarantined": 1}
    assert len(asked) == 1


def test_a_quarantined_consolidation_keeps_the_evidence_of_what_it_rests_on() -> None:
    first, second = proposals(GOOD, BETTER)
    first = first.model_copy(update={"evidence": (RolloutId("r1"),)})
    second = second.model_copy(update={"evidence": (RolloutId("r2"),)})
    item = {"op": "add", "lesson": "When a range is given, count all of its ends.", "rests_on": ["P2"]}
    context = CheckContext(**REFUSED)
    result = asyncio.run(stage_context(lambda _: {"proposals": [item]}).consolidate([first, second], context))
    assert result.accepted == ()
    held = [one for one in result.ended if one.end.end == "quarantined"]
    assert [one.proposal.evidence for one in held] == [("r2",)]


def test_a_repaired_item_is_taken_and_the_refused_one_stays_on_record() -> None:
    first = {"proposals": [{"op": "add", "lesson": LONG}]}
    result = compared(once(first, {"proposals": [{"op": "add", "lesson": GOOD}]}))
    assert [one.operation for one in result.accepted] == [Add(lesson=GOOD)]
    assert codes(result.ended) == {"too_long": 1}


@pytest.mark.parametrize(
    ("reply", "code", "accepted"),
    [
        ("I think lessons are nice.", "prose", 0),
        ({"proposals": {"op": "add", "lesson": GOOD}}, "object_not_array", 1),
        ({"proposals": ["add a lesson", {"op": "add", "lesson": GOOD}]}, "not_an_object", 1),
        ({"proposals": [{"op": "delete", "target": "G77"}, {"op": "add", "lesson": GOOD}]}, "unknown_id", 1),
        (Arguments('{"proposals": [{"op": "add", "lesson": "' + GOOD + '"}, {"op": "a'), "cut_json", 1),
        ({"proposals": [{"op": "merge", "targets": ["G1", "G2"], "lesson": BETTER}]}, "wrong_stage", 0),
        ({"proposals": [{"op": "add", "lesson": "\ud800 When odd, stop."}]}, "surrogates", 0),
    ],
)
def test_every_malformed_reply_ends_under_a_code(reply: object, code: str, accepted: int) -> None:
    result = compared(once(reply, {"proposals": []}), LIBRARY)
    assert len(result.accepted) == accepted
    assert codes(result.ended)[code] == 1


def test_no_more_than_three_proposals_of_one_group() -> None:
    lessons = ["When a, add ends.", "When b, reduce it.", "When c, bound wider.", "When d, sort first."]
    result = compared(lambda _: {"proposals": [{"op": "add", "lesson": lesson} for lesson in lessons]})
    assert len(result.accepted) == 3
    assert codes(result.ended) == {"too_many_proposals": 1}


def proposals(*lessons: str) -> list[Proposal]:
    return [
        Proposal(id=ProposalId(f"p{n}"), stage="compare", ordinal=n, operation=Add(lesson=lesson), evidence=())
        for n, lesson in enumerate(lessons)
    ]


def test_consolidation_folds_the_proposals_it_uses_and_drops_the_rest() -> None:
    reply = {"proposals": [{"op": "add", "lesson": GOOD, "rests_on": ["P1", "[p2]"]}]}
    result = asyncio.run(stage_context(lambda _: reply).consolidate(proposals(GOOD, BETTER, LONG[:19]), CheckContext()))
    assert [one.operation for one in result.accepted] == [Add(lesson=GOOD)]
    ends = [one.end for one in result.ended]
    assert [type(end) for end in ends] == [Folded, Folded, Dropped]


def test_a_batch_may_merge() -> None:
    reply = {"proposals": [{"op": "merge", "targets": ["G1", "G2"], "lesson": BETTER, "rests_on": ["P1"]}]}
    result = asyncio.run(stage_context(lambda _: reply, LIBRARY).consolidate(proposals(GOOD), CheckContext()))
    assert [type(one.operation) for one in result.accepted] == [Merge]


def test_an_item_that_rests_on_nothing_is_refused() -> None:
    reply = {"proposals": [{"op": "add", "lesson": GOOD}]}
    result = asyncio.run(stage_context(once(reply, {"proposals": []})).consolidate(proposals(GOOD), CheckContext()))
    assert result.accepted == ()
    assert codes(result.ended) == {"dropped": 1, "unsupported": 1}


def test_after_two_failures_the_groups_own_proposals_go_to_the_check() -> None:
    given = proposals(GOOD, BETTER)
    result = asyncio.run(stage_context(lambda _: "I would rather not.").consolidate(given, CheckContext()))
    assert not result.usable
    assert list(result.accepted) == given
    assert all(isinstance(one.end, Rejected) for one in result.ended)


def test_nothing_to_consolidate_costs_no_call() -> None:
    at = stage_context(lambda _: {"proposals": []})
    asyncio.run(at.consolidate([], CheckContext()))
    assert isinstance(at.call_context.journal, ListJournal)
    assert at.call_context.journal.records == []


def verdicts_shown(rewards: list[float], margin: float = 0.05) -> list[tuple[str, str]]:
    one = group(rewards)
    summaries = {
        t.id: Summary(id=t.id, run=RUN, rollout=t.id, steps=(SummaryStep(text="x"),), library=EMPTY_LIBRARY.version)
        for t in one.trajectories
    }
    asking = replace(stage_context(lambda _: {}), margin=margin)
    return re.findall(r'verdict="(\w+)" reward="([\d.]+)"', asking.compare_question(one, summaries))


def test_partial_rewards_reach_the_comparison_as_better_and_worse() -> None:
    rewards = [0.52, 0.1, 0.5, 0.4]
    words = [("better", "0.52"), ("worse", "0.10"), ("better", "0.50"), ("worse", "0.40")]
    assert verdicts_shown(rewards) == words
    assert [one for one, _ in verdicts_shown(rewards, margin=0.01)] == ["better", "worse", "worse", "worse"]
    assert [one for one, _ in verdicts_shown([1.0, 0.0])] == ["right", "wrong"]


@pytest.mark.parametrize(("words", "ends"), [(None, ["too_long"]), (45, [])])
def test_the_reflector_is_asked_for_lessons_of_the_length_that_the_settings_name(
    words: int | None, ends: list[str]
) -> None:
    options, seen = LessonOptions() if words is None else LessonOptions(lesson_words=words), list[str]()
    endpoint = scripted(lambda _: {"proposals": [{"op": "add", "lesson": LONG}]}, seen)
    at = replace(stage_context(lambda _: {}), endpoint=endpoint, options=options)
    done = asyncio.run(at.compare(group([1.0, 0.0]), {}, CheckContext(options=options)))
    assert {one.end.code for one in done.ended if isinstance(one.end, Rejected)} == {*ends}
    assert f"at most {words or 32} words" in seen[0]
