"""What the commands that look at a store print of a run with everything in it."""

from pathlib import Path

import pytest

from tests.support.command import output
from tests.support.snapshot import assert_snapshot
from tests.unit.store.test_schema import unpack

RUN = "01jd0000000000000000000000"
COMMANDS = [
    ["runs", "list"],
    ["runs", "show", "01jd"],
    ["trace"],
    ["trace", "--full"],
    ["trace", f"{RUN}/@epoch-1"],
    ["trace", f"{RUN}/@epoch-1", "--full"],
    ["trace", "0afcd5d2"],
    ["trace", "0afcd5d2", "--full"],
    ["library", "show", "@845a091b", "--origins"],
    ["library", "card", "@845a091b"],
]


def test_the_golden_store_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unpack(tmp_path)
    shown = [line for one in COMMANDS for line in (f"$ agentlearn {' '.join(one)}", output(capsys, tmp_path, *one))]
    assert_snapshot(__file__, "golden_store", "\n".join(shown).replace(str(tmp_path), "STORE"))
