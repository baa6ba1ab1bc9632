"""Identities: content hashes for things that can be equal, time-ordered ids for events.

Nothing here reads a clock or draws randomness except `new_run_id`.
"""

import hashlib
import json
import secrets
import time
from typing import NewType

TaskId = NewType("TaskId", str)
RunId = NewType("RunId", str)
RolloutId = NewType("RolloutId", str)
ExperienceId = NewType("ExperienceId", str)
LibraryVersion = NewType("LibraryVersion", str)
ProposalId = NewType("ProposalId", str)
CallId = NewType("CallId", str)

_CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"


def content_hash(*parts: object) -> str:
    """Hash of the parts' canonical JSON: 32 lower-case hex digits (BLAKE2b, 128 bits).

    parts: JSON values; tuples count as lists. Equal parts give equal hashes on every machine and Python version.
    """
    text = json.dumps(parts, ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def derive_seed(*parts: object) -> int:
    """A seed in 0..2**31-1 that depends on the parts alone (services accept no larger ones)."""
    return int(content_hash("seed", *parts)[:8], 16) & 0x7FFFFFFF


def new_run_id() -> RunId:
    """A fresh run id of 26 characters that sorts by time: 48 bits of milliseconds, 80 random bits (ULID)."""
    number = (time.time_ns() // 1_000_000 << 80) | secrets.randbits(80)
    return RunId("".join(_CROCKFORD[number >> shift & 31] for shift in range(125, -5, -5)))


def rollout_id(run: RunId, phase: str, task: TaskId, g: int, attempt: int) -> RolloutId:
    """The rollout's logical key as one id: the same run owes the same rollouts after it is resumed."""
    return RolloutId(content_hash("rollout", run, phase, task, g, attempt))
