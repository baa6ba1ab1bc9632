"""What the own clients of services read, ours reads: recorded replies from a clone of pydantic-ai.

`git clone https://github.com/pydantic/pydantic-ai`, then AGENTLEARN_CASSETTES=…/pydantic-ai/tests. Without it, only the
small replies of our own writing are read.
"""

import json
import os
from pathlib import Path

import pytest

from tests.support.recorded_replies import Read, Table, read_all, read_as_address

SHAPES = Path(__file__).with_name("reply_shapes.jsonl")
"""Replies of our own writing, one for each shape that was found among the recorded ones."""
CLONE = os.environ.get("AGENTLEARN_CASSETTES", "")

needs_clone = pytest.mark.skipif(not CLONE, reason="AGENTLEARN_CASSETTES names no folder with recorded replies")


def failures_of(table: Table) -> str:
    print("", *table.lines(), *table.failures, sep="\n")
    return "\n".join(table.failures)


def test_every_shape_of_a_reply_is_read(subtests: pytest.Subtests) -> None:
    rows = [json.loads(line) for line in SHAPES.read_text(encoding="utf-8").splitlines()]
    for row, found in zip(rows, read_as_address((row["reply"] for row in rows), {"add", "now"}), strict=True):
        with subtests.test(shape=row["shape"]):
            calls = tuple((name, json.dumps(given, sort_keys=True)) for name, given in row["calls"])
            assert found == Read(row["text"], calls, tuple(row["tokens"]), row["cost"])


@needs_clone
@pytest.mark.filterwarnings("ignore")
def test_an_address_reads_what_the_own_client_of_the_service_reads() -> None:
    table = read_all(Path(CLONE))
    assert failures_of(table) == ""
    assert sum(one["total"] for one in table.counts.values()) >= 300
    assert len(table.counts) >= 8


@needs_clone
@pytest.mark.filterwarnings("ignore")
def test_nothing_is_lost_of_what_named_services_send() -> None:
    table = read_all(Path(CLONE), own=True)
    assert failures_of(table) == ""
    assert sum(one["total"] for one in table.counts.values()) >= 300
