"""The arena: every learner asks through one counter, has as many calls as ours, and what is done is not done again."""

from pathlib import Path

import pytest

from scripts.bench.arena.__main__ import rows_of, sealed
from scripts.bench.arena.learners import LEARNERS
from scripts.bench.arena.proxy import Proxy, Spent
from scripts.bench.arena.world import HEAD, KINDS, World, sentence

HERE = {"no learning", "`learn --on SKILL.md`", "SkillOpt", "ACE", "a person"}


def test_learners_have_the_calls_that_ours_used_and_a_run_goes_on(tmp_path: Path) -> None:
    learners = [one for one in LEARNERS if one.name in HERE]
    rows = rows_of(sealed(1, ["clean"]), learners, tmp_path / "arena.jsonl")
    by_name = {row.learner: row for row in rows}
    assert by_name.keys() == HERE
    ours = by_name["`learn --on SKILL.md`"]
    assert by_name["SkillOpt"].calls == by_name["ACE"].calls == ours.calls > 0
    assert by_name["no learning"].gain == 0
    assert all(0 < row.gain <= by_name["a person"].gain for row in rows if row.learner != "no learning")
    assert ours.calls_to_90 is not None
    assert ours.calls_to_90 < ours.calls
    assert rows_of(sealed(1, ["clean"]), learners, tmp_path / "arena.jsonl") == rows


def test_calls_beyond_the_budget_are_refused_and_not_counted() -> None:
    world = World(KINDS[0], 0)
    proxy = Proxy(world, most=1)
    proxy.solves(world.start, world.train[0])
    with pytest.raises(Spent):
        proxy.reflect("why?", lambda: "so")
    assert proxy.calls == 1


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_in_every_world_the_rules_are_best_and_a_wrong_rule_does_harm(kind: object) -> None:
    world = World(next(one for one in KINDS if one is kind), 3)
    best = world.score(world.person)
    assert world.score(world.start) < best
    family, good = next(iter(world.codes))
    wrong = f"{world.person}{sentence(family, good, 'Z0z')}\n{sentence(family, good, 'Z0z')}\n"
    assert world.score(HEAD) < best > world.score(wrong)


def test_the_reflector_concludes_nothing_from_tasks_without_their_answers() -> None:
    world = World(KINDS[0], 0)
    proxy, (problem, gold) = Proxy(world), world.train[1]
    assert proxy.concluded(f"{problem} Expected: {gold}", HEAD)
    assert not proxy.concluded(f"{problem} It was wrong.", HEAD)
