"""Ids: content hashes for values that can be equal, time-ordered ids for runs.

Only `new_run_id` reads the clock and draws random numbers.
"""

import hashlib
import json
import secrets
from typing import NewType

from agentlearn.text import clock

TaskId = NewType("TaskId", str)
RunId = NewType("RunId", str)
RolloutId = NewType("RolloutId", str)
ExperienceId = NewType("ExperienceId", str)
LibraryVersion = NewType("LibraryVersion", str)
ProposalId = NewType("ProposalId", str)
CallId = NewType("CallId", str)

_CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"


def content_hash(*parts: object) -> str:
    """Return the hash of the parts' canonical JSON: 32 lower-case hex digits (BLAKE2b, 128 bits).

    parts: JSON values; tuples count as lists. Equal parts have equal hashes on every machine and Python version.
    """
    text = json.dumps(parts, ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def derive_seed(*parts: object) -> int:
    """Return a seed in 0..2**31-1, the range that services accept. It depends only on the parts."""
    return int(content_hash("seed", *parts)[:8], 16) & 0x7FFFFFFF


def new_run_id() -> RunId:
    """Return a new run id of 26 characters that sorts by time: 48 bits of milliseconds, 80 random bits (ULID)."""
    number = (int(clock.now().timestamp() * 1000) << 80) | secrets.randbits(80)
    return RunId("".join(_CROCKFORD[number >> shift & 31] for shift in range(125, -5, -5)))


def rollout_id(run: RunId, phase: str, task: TaskId, g: int, attempt: int) -> RolloutId:
    """Return the hash of a rollout's logical key, so that a resumed run has the same rollout ids."""
    return RolloutId(content_hash("rollout", run, phase, task, g, attempt))
