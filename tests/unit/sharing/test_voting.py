"""Votes: the same votes give the same result everywhere, and those that do not count are refused by a code."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn import LibraryStore
from agentlearn.errors import LibraryError, SharingError
from agentlearn.library.policy import Policy, Voter, VotingRule

pytest.importorskip("cryptography", reason="needs the extra share")
pytest.importorskip("libipld", reason="needs the extra share")

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from agentlearn.library.sharing.signing import opened, sealed
from agentlearn.library.sharing.voting import CHOICES, Ballot, LessonProposal, Tally, cast, propose

KEYS = [ec.derive_private_key(number, ec.SECP256R1()) for number in range(1, 8)]
OPENED = datetime(2026, 5, 1, 12, tzinfo=UTC)
CLOSED = OPENED + timedelta(days=7)
PEM = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def policy_of(number: int = 6, space: str = "guild", **rule: Any) -> Policy:
    pems = [one.public_key().public_bytes(*PEM).decode() for one in KEYS[:number]]
    voters = tuple(Voter(name=f"voter {place}", key=pem) for place, pem in enumerate(pems))
    return Policy(space=space, rule=VotingRule(**{"kind": "two-thirds", **rule}), voters=voters)


POLICY = policy_of()
PROPOSAL = propose(POLICY, "math", ["Count both ends of a range."], OPENED)


def tally(proposal: LessonProposal, votes: list[bytes], policy: Policy = POLICY, at: datetime = CLOSED) -> Tally:
    """What the votes add up to, in the order in which they came."""
    return Ballot(proposal=proposal, votes=tuple(one.decode() for one in votes)).tally(policy, at)


def vote(voter: int, choice: str = "for", hours: float = 1, proposal: LessonProposal = PROPOSAL) -> bytes:
    return cast(proposal, choice, KEYS[voter], OPENED + timedelta(hours=hours))


_POOL = [vote(voter, choice, hours) for voter in range(6) for choice in CHOICES for hours in (1, 2)] + [vote(6)]
"""Votes of six voters, who change their minds, and of somebody who may not vote."""


@given(st.lists(st.sampled_from(_POOL), min_size=1, max_size=8), st.integers(1, 3), st.randoms(use_true_random=False))
def test_places_that_exchange_their_votes_end_the_same(sent: list[bytes], places: int, chance: random.Random) -> None:
    received = [[one for one in sent * 2 if chance.random() < 0.5] for _ in range(places)]  # lost, and repeated
    received[0] += [one for one in sent if not any(one in place for place in received)]  # the sender sends it again
    for place in received:
        chance.shuffle(place)
    for _ in range(places):  # each tells the next one what it knows
        for one, other in zip(received, received[1:] + received[:1], strict=True):
            other.extend(one)
    wanted = tally(PROPOSAL, sorted(set(sent))).model_dump_json()
    assert {tally(PROPOSAL, place).model_dump_json() for place in received} == {wanted}


def test_the_rule_decides(subtests: pytest.Subtests) -> None:
    three = policy_of(3, kind="votes", votes=2)
    yes, no, neither = "for", "against", "abstain"
    cases: list[tuple[str, Policy, list[str], datetime, str]] = [
        ("two thirds exactly", POLICY, [yes, yes, yes, yes, no, no], CLOSED, "accepted"),
        ("less than two thirds", POLICY, [yes, yes, yes, no, no], CLOSED, "rejected"),
        ("a tie", POLICY, [yes, yes, no, no], CLOSED, "rejected"),
        ("only abstentions", POLICY, [neither] * 6, CLOSED, "rejected"),
        ("abstentions count for the quorum", POLICY, [yes, neither, neither], CLOSED, "accepted"),
        ("no quorum", POLICY, [yes, yes], CLOSED, "no_quorum"),
        ("no vote at all", policy_of(quorum_percent=0), [], CLOSED, "rejected"),
        ("before the deadline", POLICY, [yes] * 6, CLOSED - timedelta(seconds=1), "open"),
        ("two of three at once", three, [yes, yes], OPENED + timedelta(hours=2), "accepted"),
        ("one of three", three, [yes, no], CLOSED, "rejected"),
        ("one of three is open", three, [yes], OPENED, "open"),
    ]
    for name, policy, choices, at, expected in cases:
        with subtests.test(name):
            proposal = propose(policy, "math", PROPOSAL.lessons, OPENED)
            votes = [vote(voter, choice, proposal=proposal) for voter, choice in enumerate(choices)]
            assert tally(proposal, votes, policy, at).outcome == expected


def test_a_later_vote_replaces_an_earlier_one() -> None:
    votes = [vote(0, "against", 3), vote(0, "for", 5), vote(0, "abstain", 4)]
    found = tally(PROPOSAL, votes, POLICY, CLOSED)
    assert found.counts == {"for": 1, "against": 0, "abstain": 0}


def test_votes_that_do_not_count_are_refused(subtests: pytest.Subtests) -> None:
    elsewhere = propose(policy_of(space="other"), "math", PROPOSAL.lessons, OPENED)
    another = propose(POLICY, "math", ["Guess."], OPENED)
    cases: dict[str, tuple[bytes, str]] = {
        "replayed from another space": (vote(0, proposal=elsewhere), "wrong_space"),
        "replayed from another proposal": (vote(0, proposal=another), "wrong_proposal"),
        "by nobody known": (vote(6), "not_a_voter"),
        "by a voter removed midway": (vote(5), "voter_removed"),
        "after the deadline": (vote(0, hours=7 * 24), "after_deadline"),
        "before the proposal": (vote(0, hours=-1), "before_proposal"),
        "no JSON": (b"yes", "bad_vote"),
        "another choice": (cast_raw(choice=4), "bad_vote"),
        "an unknown field": (cast_raw(extra=1), "bad_vote"),
        "signed by another voter": (cast_raw(KEYS[1]), "unknown_key"),
    }
    for name, (content, code) in cases.items():
        with subtests.test(name):
            assert list(tally(PROPOSAL, [content], policy_of(5), CLOSED).refused.values()) == [code]


def cast_raw(key: ec.EllipticCurvePrivateKey = KEYS[0], **said: Any) -> bytes:
    """A vote of the first voter with other content, signed by a key."""
    kind = "application/vnd.agentlearn.vote+json"
    document = json.loads(opened(vote(0), kind, None)[0])
    return sealed(json.dumps({**document, **said}).encode(), kind, key)


def test_a_proposal_under_another_rule_or_of_another_space_is_refused() -> None:
    for policy, code in ((policy_of(quorum_percent=10), "rule_changed"), (policy_of(space="other"), "wrong_space")):
        with pytest.raises(SharingError) as refused:
            tally(PROPOSAL, [vote(0)], policy, CLOSED)
        assert refused.value.code == code


def test_new_voters_count_for_the_quorum_and_cannot_vote_on_older_proposals() -> None:
    small = policy_of(2)
    proposal = propose(small, "math", PROPOSAL.lessons, OPENED)
    votes = [vote(voter, proposal=proposal) for voter in range(6)]
    found = tally(proposal, votes, POLICY, CLOSED)
    assert (found.outcome, found.counts["for"], set(found.refused.values())) == ("no_quorum", 2, {"not_a_voter"})


def test_a_receipt_is_counted_again() -> None:
    votes = [vote(voter).decode() for voter in range(4)]
    ballot = Ballot(proposal=PROPOSAL).joined(votes[2:]).joined(votes[:3])
    assert Ballot.model_validate_json(ballot.model_dump_json()).accepted(POLICY, CLOSED) == PROPOSAL.lessons
    other_words = ballot.model_copy(update={"proposal": PROPOSAL.model_copy(update={"lessons": ("Guess.",)})})
    for changed in (ballot.model_copy(update={"votes": ballot.votes[:2]}), other_words):
        with pytest.raises(SharingError) as refused:
            changed.accepted(POLICY, CLOSED)
        assert refused.value.code == "vote_no_quorum"


def test_where_a_vote_decides_nobody_approves_alone(tmp_path: Path) -> None:
    history = LibraryStore(tmp_path / "libraries").history("math")
    history.add("Count both ends of a range.")
    folder = tmp_path / "libraries" / "math" / "sharing"
    folder.mkdir()
    (folder / "policy.json").write_text(POLICY.model_dump_json())
    assert history.policy == POLICY
    with pytest.raises(LibraryError) as refused:
        history.refuse_lone_approval()
    assert refused.value.code == "needs_vote"
    for wrong in ("{}", "[", '{"space": "guild", "rule": {"kind": "king"}}'):
        (folder / "policy.json").write_text(wrong)
        with pytest.raises(LibraryError) as bad:
            _ = history.policy
        assert bad.value.code == "bad_library"


def test_a_wallet_votes_by_typed_data() -> None:
    account = pytest.importorskip("eth_account", reason="pip install 'agentlearn-lib[chain]'").Account
    keys = ["0x" + f"{number:064x}" for number in (1, 2)]
    voters = tuple(Voter(name=one[-1], key=account.from_key(one).address) for one in keys)
    policy = POLICY.model_copy(update={"voters": voters, "rule": VotingRule(kind="votes", votes=2)})
    proposal = propose(policy, "math", PROPOSAL.lessons, OPENED)
    votes = [cast(proposal, "for", one, OPENED + timedelta(hours=1)) for one in keys]
    assert tally(proposal, votes, policy, CLOSED).outcome == "accepted"
    with pytest.raises(LibraryError):
        cast(proposal, "for", "0x" + "00" * 32, OPENED)
    forged = [
        votes[1].replace(b'"choice": 1', b'"choice": 2'),
        votes[1].replace(b'"sig": "0x', b'"sig": "0xff'),
        votes[1].replace(voters[1].key.encode(), voters[0].key.encode()),
    ]
    assert set(tally(proposal, forged, policy, CLOSED).refused.values()) == {"bad_signature"}
