"""What stands in the replies of services is read: recorded replies from a clone of pydantic-ai.

`git clone https://github.com/pydantic/pydantic-ai`, then AGENTLEARN_CASSETTES=…/pydantic-ai/tests. Without it, only the
small replies of our own writing are read.
"""

import json
import os
from pathlib import Path

import pytest

from tests.support.recorded_replies import Read, chat_completions, read_as_address, recorded

SHAPES = Path(__file__).with_name("reply_shapes.jsonl")
"""Replies of our own writing, one for each shape that was found among the recorded ones."""
CLONE = os.environ.get("AGENTLEARN_CASSETTES", "")


def test_every_shape_of_a_reply_is_read(subtests: pytest.Subtests) -> None:
    rows = [json.loads(line) for line in SHAPES.read_text(encoding="utf-8").splitlines()]
    for row, found in zip(rows, read_as_address((row["reply"] for row in rows), {"add", "now"}), strict=True):
        with subtests.test(shape=row["shape"]):
            calls = tuple((name, json.dumps(given, sort_keys=True)) for name, given in row["calls"])
            assert found == Read(row["text"], calls, tuple(row["tokens"]), row["cost"])


@pytest.mark.skipif(not CLONE, reason="AGENTLEARN_CASSETTES names no folder with recorded replies")
@pytest.mark.filterwarnings("ignore")
def test_what_stands_in_a_recorded_reply_is_read(subtests: pytest.Subtests) -> None:
    """A filter, an error or a limit may end a reply, which is then no answer."""
    found = list(chat_completions(Path(CLONE)))
    assert len(found) >= 300
    for (file, body), ours in zip(found, read_as_address(body for _, body in found), strict=True):
        whole = body["choices"][0].get("finish_reason") not in {"content_filter", "error", "length"}
        with subtests.test(file=file):
            assert not isinstance(ours, str) or not whole
            if isinstance(ours, Read):
                theirs = recorded(body)
                assert (ours.text, ours.calls) == (theirs.text, theirs.calls)
                assert ours.tokens == theirs.tokens or not any(theirs.tokens)
                assert theirs.cost is None or ours.cost == pytest.approx(theirs.cost)
