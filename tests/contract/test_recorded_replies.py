"""What the own clients of services read, ours reads: recorded replies from a clone of pydantic-ai.

`git clone https://github.com/pydantic/pydantic-ai`, then AGENTLEARN_CASSETTES=…/pydantic-ai/tests. Without it, only the
small replies of our own writing are read.
"""

import os
from pathlib import Path

import pytest

from tests.support.recorded_replies import Table, read_all

CLONE = os.environ.get("AGENTLEARN_CASSETTES", "")

needs_clone = pytest.mark.skipif(not CLONE, reason="AGENTLEARN_CASSETTES names no folder with recorded replies")


def failures_of(table: Table) -> str:
    print("", *table.lines(), *table.failures, sep="\n")
    return "\n".join(table.failures)


@needs_clone
@pytest.mark.filterwarnings("ignore")
def test_an_address_reads_what_the_own_client_of_the_service_reads() -> None:
    table = read_all(Path(CLONE))
    assert failures_of(table) == ""
    assert sum(one["total"] for one in table.counts.values()) >= 300
    assert len(table.counts) >= 8


@needs_clone
@pytest.mark.filterwarnings("ignore")
def test_the_own_clients_of_services_lose_nothing_in_ours() -> None:
    table = read_all(Path(CLONE), own=True)
    assert failures_of(table) == ""
    assert sum(one["total"] for one in table.counts.values()) >= 300
