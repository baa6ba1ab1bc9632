"""Who decides about the lessons of a library that wait: `NAME/sharing/policy.json`, which a person writes.

Without the file, one person decides (`library approve`). With a rule of votes, only an accepted proposal can.
"""

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from agentlearn.errors import LibraryError
from agentlearn.text.files import own
from agentlearn.types.value import Value, first_fault

SHARING = "sharing"
"""The folder in a library's folder that holds what sharing needs."""


class Voter(Value):
    """A person who may vote."""

    name: str
    key: str
    """Public key: P-256 as PEM text, or the address of a wallet, `0x…`."""


class VotingRule(Value):
    """How a decision is made."""

    kind: Literal["person", "votes", "two-thirds"] = "person"
    """Who accepts a lesson. `person`: anyone who has the store. `votes`: as many voters as `votes` says. `two-thirds`:
    two thirds of those who voted for or against it."""
    votes: int = Field(default=1, ge=1)
    quorum_percent: int = Field(default=50, ge=0, le=100)
    """For two-thirds: the share of the voters that must vote."""
    days: int = Field(default=7, ge=1, le=365)
    """How long a proposal is open."""


class Policy(Value):
    """The policy of a library."""

    format: Literal["agentlearn-policy/1"] = "agentlearn-policy/1"
    space: str = Field(min_length=1, max_length=100)
    """A name of the group that decides. Votes of another space do not count."""
    rule: VotingRule = VotingRule()
    voters: tuple[Voter, ...] = ()
    signers: tuple[str, ...] = ()
    """Public keys, as PEM text, whose signatures on a fetched library are trusted."""
    threshold: int = Field(default=1, ge=1)
    """How many of the signers must have signed."""
    signed_lessons: Literal["wait", "show"] = "wait"
    """What a signature is worth: lessons wait for a decision as all others do, or are shown at once."""

    @property
    def votes(self) -> bool:
        """Whether voters decide, and no person alone."""
        return self.rule.kind != "person"

    @classmethod
    def of(cls, library: Path) -> "Policy":
        """Return the policy in a library's folder; where it has none, one person decides. Raises LibraryError."""
        file = library / SHARING / "policy.json"
        try:
            return cls.model_validate_json(own(file, library.parent.parent).read_bytes())
        except FileNotFoundError:
            return cls(space=library.name)
        except ValidationError as error:
            raise LibraryError(f"{str(file)!r} holds no policy: {first_fault(error)}") from error
