"""Proposals to show lessons, votes on them, and what they add up to.

A vote names its voter, space, proposal, choice and time, and is signed: by a P-256 key in a Sigstore bundle, or by a
wallet as typed data of EIP-712, in the form that Snapshot uses. `tally` depends on nothing but its arguments, so those
who have the same votes, in any order and repeated, get the same result. Of several votes of one voter the last counts.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pydantic import AwareDatetime, Field

from agentlearn.errors import LibraryError, SharingError
from agentlearn.library.policy import Policy, Voter, VotingRule
from agentlearn.library.sharing import extra_package
from agentlearn.library.sharing.content_id import Hash
from agentlearn.library.sharing.signing import PrivateKey, key_id, opened, public_key, sealed
from agentlearn.types.value import Value

_VOTE = "application/vnd.agentlearn.vote+json"
_DOMAIN = {"name": "snapshot", "version": "0.1.4"}
_NAMES = ("from", "space", "timestamp", "proposal", "choice", "reason", "app", "metadata")
_KINDS = ("address", "string", "uint64", "bytes32", "uint32", "string", "string", "string")
_TYPES = {"Vote": [{"name": name, "type": kind} for name, kind in zip(_NAMES, _KINDS, strict=True)]}
CHOICES = {"for": 1, "against": 2, "abstain": 3}


def _voter_id(voter: Voter) -> str:
    """Return the id of a voter's key: the address of a wallet in lower case, or the id of a P-256 key."""
    return voter.key.lower() if voter.key.startswith("0x") else key_id(public_key(voter.key))


class LessonProposal(Value):
    """A proposal to show lessons to agents."""

    format: Literal["agentlearn-proposal/1"] = "agentlearn-proposal/1"
    space: str
    library: str
    lessons: tuple[str, ...] = Field(min_length=1)
    """The words of the lessons."""
    rule: VotingRule
    voters: tuple[str, ...]
    """The ids of the voters when it was made."""
    opened: AwareDatetime

    @property
    def id(self) -> str:
        """The hash of all that it says, 32 bytes in hexadecimal."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return "0x" + hashlib.sha256(text.encode()).hexdigest()

    @property
    def deadline(self) -> datetime:
        """When the voting ends."""
        return self.opened + timedelta(days=self.rule.days)


def propose(policy: Policy, library: str, lessons: Iterable[str], opened_at: datetime) -> LessonProposal:
    """Return a proposal under a policy. Raises LibraryError for a policy without votes, and where nothing waits."""
    if policy.rule.kind == "person":
        raise LibraryError(f"{library!r} has no policy with votes; see docs/sharing.md")
    if not (words := tuple(lessons)):
        raise LibraryError(f"no lesson of {library!r} waits, so there is nothing to propose")
    voters = tuple(map(_voter_id, policy.voters))
    told: dict[str, Any] = {"space": policy.space, "library": library, "rule": policy.rule, "voters": voters}
    return LessonProposal(lessons=words, opened=opened_at.replace(microsecond=0), **told)


def cast(proposal: LessonProposal, choice: str, key: PrivateKey | str, at: datetime) -> bytes:
    """Return a signed vote. key: a P-256 key, or the private key of a wallet in hexadecimal. Raises LibraryError."""
    about = {"space": proposal.space, "proposal": proposal.id, "timestamp": int(at.timestamp())}
    said: dict[str, Any] = {**dict.fromkeys(_NAMES, ""), **about, "choice": CHOICES[choice]}
    if isinstance(key, str):
        try:
            account = extra_package("chain", "eth_account").Account.from_key(key)
        except ValueError as error:
            raise LibraryError("the key is no private key of a wallet") from error
        said["from"] = account.address
        signature = account.sign_typed_data(_DOMAIN, _TYPES, said).signature
        document = {"address": account.address, "sig": "0x" + signature.hex().removeprefix("0x"), "data": said}
        return json.dumps(document, indent=1).encode()
    said["from"] = key_id(key.public_key())
    return sealed(json.dumps(said, sort_keys=True).encode(), _VOTE, key)


class _Message(Value):
    """What a voter signs."""

    sender: str = Field(alias="from")
    space: str
    timestamp: int = Field(ge=0, lt=2**40)
    proposal: Hash
    choice: Literal[1, 2, 3]
    reason: str
    app: str
    metadata: str


def _read_vote(content: bytes, proposal: LessonProposal, voters: Mapping[str, Voter]) -> _Message:
    """Return a vote that counts. voters: those who may vote now, by id. Raises SharingError for any other."""
    try:
        document = json.loads(content)
        in_wallet = "dsseEnvelope" not in document
        said = document["data"] if in_wallet else json.loads(opened(content, _VOTE, None)[0])
        vote = _Message.model_validate(said)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SharingError(f"a vote cannot be read: {error}"[:300], code="bad_vote") from error
    voter, at = vote.sender.lower(), datetime.fromtimestamp(vote.timestamp, UTC)
    refusals = {
        "wrong_space": vote.space != proposal.space,
        "wrong_proposal": vote.proposal != proposal.id,
        "not_a_voter": voter not in proposal.voters,
        "voter_removed": voter not in voters,
        "before_proposal": at < proposal.opened,
        "after_deadline": at >= proposal.deadline,
    }
    if code := next((code for code, refused in refusals.items() if refused), None):
        raise SharingError(f"a vote by {voter[:16]!r} does not count: {code.replace('_', ' ')}", code=code)
    if not in_wallet:
        opened(content, _VOTE, {voter: public_key(voters[voter].key)})
    elif _signer_of(said, document.get("sig")) != voter:
        raise SharingError(f"a vote by {voter!r} was signed by another wallet", code="bad_signature")
    return vote


def _signer_of(said: Mapping[str, Any], signature: object) -> str:
    """The address of the wallet that signed a vote."""
    wallets = extra_package("chain", "eth_account")
    try:
        text = wallets.messages.encode_typed_data(_DOMAIN, _TYPES, dict(said))
        return wallets.Account.recover_message(text, signature=signature).lower()
    except Exception as error:  # its packages have no common class of errors
        raise SharingError(f"the signature of a wallet cannot be read: {error}"[:300], code="bad_signature") from error


class Tally(Value):
    """What the votes on a proposal add up to."""

    outcome: Literal["open", "accepted", "rejected", "no_quorum"]
    counts: dict[str, int]
    """Votes that count, by choice."""
    voters: int
    """Number of those who may vote."""
    refused: dict[str, str]
    """By sha256 of a vote that does not count: the code of the reason."""

    @property
    def words(self) -> str:
        """The result in words."""
        counts = ", ".join(f"{count} {word}" for word, count in self.counts.items())
        return f"{self.outcome.replace('_', ' ')}: {counts}, of {self.voters} voters"


class Ballot(Value):
    """A proposal and the votes on it. Once it is accepted, it is the receipt that travels with the library."""

    format: Literal["agentlearn-ballot/1"] = "agentlearn-ballot/1"
    proposal: LessonProposal
    votes: tuple[str, ...] = ()
    """Each vote as a text, sorted."""

    def joined(self, votes: Iterable[str]) -> "Ballot":
        """Return it with more votes."""
        return self.model_copy(update={"votes": tuple(sorted({*self.votes, *votes}))})

    def tally(self, policy: Policy, now: datetime) -> Tally:
        """Return what the votes add up to under the policy of today. Who left the voters since does not count any more.

        Raises SharingError for a proposal of another space, and of another rule than today's.
        """
        proposal = self.proposal
        if proposal.space != policy.space:
            raise SharingError(f"the proposal is for {proposal.space!r}, not {policy.space!r}", code="wrong_space")
        if proposal.rule != policy.rule:
            raise SharingError("the rule has changed since it was proposed; propose it again", code="rule_changed")
        voters = {_voter_id(one): one for one in policy.voters}
        last, refused = dict[str, tuple[int, str, int]](), dict[str, str]()
        for content in sorted(map(str.encode, self.votes)):
            digest = hashlib.sha256(content).hexdigest()
            try:
                vote = _read_vote(content, proposal, voters)
            except SharingError as refusal:
                refused[digest] = refusal.code
                continue
            voter, cast_now = vote.sender.lower(), (vote.timestamp, digest, vote.choice)
            last[voter] = max(last.get(voter, cast_now), cast_now)
        choices = [choice for _, _, choice in last.values()]
        counts = {word: choices.count(choice) for word, choice in CHOICES.items()}
        yes, no, rule = counts["for"], counts["against"], policy.rule
        if rule.kind == "votes" and yes >= rule.votes:
            outcome = "accepted"
        elif now < proposal.deadline:
            outcome = "open"
        elif rule.kind == "two-thirds" and 100 * len(choices) < rule.quorum_percent * len(voters):
            outcome = "no_quorum"
        else:
            outcome = "accepted" if rule.kind == "two-thirds" and yes and yes >= 2 * no else "rejected"
        return Tally(outcome=outcome, counts=counts, voters=len(voters), refused=refused)

    def accepted(self, policy: Policy, now: datetime) -> tuple[str, ...]:
        """Return the words of the lessons, where the votes are counted again. Raises SharingError otherwise."""
        found = self.tally(policy, now)
        if found.outcome != "accepted":
            until = f"{self.proposal.deadline:%Y-%m-%d %H:%M} UTC"
            raise SharingError(f"the vote until {until} is {found.words}", code=f"vote_{found.outcome}")
        return self.proposal.lessons
