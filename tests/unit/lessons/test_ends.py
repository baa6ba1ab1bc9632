"""Counting ends for reports."""

from agentlearn.library.curate import EndCounts, QuarantineCode, RejectionCode
from agentlearn.types.ids import ProposalId
from agentlearn.types.operation import Applied, Dropped, End, Ended, Folded, Proposal, Quarantined, Rejected


def ended(end: End) -> Ended:
    return Ended(proposal=Proposal(id=ProposalId("p"), stage="compare", ordinal=0), end=end)


def test_each_end_is_counted_once_by_its_name():
    ends = [
        Applied(),
        Rejected(code="too_long", reason="x"),
        Rejected(code="forged_id", reason="x"),
        Rejected(code="too_long", reason="y"),
        Dropped(reason="duplicate"),
        Folded(into=(ProposalId("q"),)),
        Applied(),
        Quarantined(code="refused_source", reason="x"),
    ]
    counts = EndCounts.of(map(ended, ends))
    assert counts == EndCounts(
        applied=2,
        folded=1,
        dropped={"duplicate": 1},
        rejected={"forged_id": 1, "too_long": 2},
        quarantined={"refused_source": 1},
    )
    assert counts.model_dump_json() == (
        '{"applied":2,"folded":1,"dropped":{"duplicate":1},"rejected":{"forged_id":1,"too_long":2},'
        '"quarantined":{"refused_source":1}}'
    )


def test_no_proposals_count_nothing():
    assert EndCounts.of(()) == EndCounts()


def test_codes_are_stable_and_each_is_explained():
    """Stored runs and programs rely on these names: adding one is fine, renaming one is not."""
    assert {code.value for code in RejectionCode} == {
        "not_an_object", "unknown_op", "wrong_stage", "missing_field", "wrong_type", "malformed",
        "unknown_id", "id_used_twice", "too_few_targets", "too_many_targets", "no_change", "written_by_person",
        "empty_lesson", "too_long", "multi_line", "control_characters", "invisible_characters", "surrogates",
        "forged_id", "forged_header", "role_tag", "tool_syntax", "unknown_passage",
        "near_duplicate", "near_parked", "holds_answer", "copies_task", "copies_page", "copies_reason", "names_address",
        "states_answer", "holds_command", "encoded", "lookalike_letters", "refused_by_person",
        "too_many_deletes", "too_many_edits", "library_full", "over_token_budget", "own_rule", "own_rule_failed",
        "no_better",
    }  # fmt: skip
    assert {code.value for code in QuarantineCode} == {"refused_source"}
    assert all(code.value == code.name.lower() for code in (*RejectionCode, *QuarantineCode))
