"""Treatments in the store: every kind is read back as it was written, and rows of earlier versions are read."""

import asyncio
from pathlib import Path

import pytest
from pydantic import ValidationError

from agentlearn.store import open_store
from agentlearn.store.codec import trajectory_rows
from agentlearn.store.stored_arm import read_arm, stored_arm
from agentlearn.types.ids import LibraryVersion
from agentlearn.types.treatment import Treatment
from tests.unit.store import nouns

MODEL, LIBRARY = "sim:novice", LibraryVersion("a" * 16)


def treatment(arm: str = "main", step: int | None = None) -> Treatment:
    return Treatment(model=MODEL, library=LIBRARY, arm=arm, weights_step=step)


KINDS = [
    ("epoch-1", treatment(), "main"),
    ("solve", treatment(), "main"),
    ("before", treatment(), "before"),
    ("after", treatment(), "after"),
    ("during:2", treatment(), "during:2"),
    ("epoch-1", treatment(step=0), "step-0"),
    ("epoch-3", treatment(step=12), "step-12"),
    ("compare:0123", treatment("compare"), "compare"),
    ("import", treatment(), "foreign"),
    ("epoch-1", treatment("canary"), "canary"),
]


def test_each_kind_of_treatment_is_stored_as_earlier_versions_did_and_read_back(subtests: pytest.Subtests) -> None:
    for phase, given, text in KINDS:
        with subtests.test(repr((phase, given, text))):
            trajectory = nouns.trajectory(phase=phase, treatment=given)
            assert stored_arm(trajectory) == text
            assert any(
                row.values.get("arm") == text for row in trajectory_rows(trajectory, b"[]") if row.table == "trajectory"
            )
            assert treatment(read_arm(text, phase)) == given


def test_a_store_keeps_the_step_of_trained_weights(tmp_path: Path) -> None:
    trajectory = nouns.trajectory(treatment=treatment(step=3))

    async def keep() -> Treatment:
        async with open_store(tmp_path) as store:
            await store.save_trajectory(trajectory, b"[]")
            return store.trajectory(trajectory.id).treatment

    assert asyncio.run(keep()) == treatment(step=3)


def test_a_treatment_written_as_json_by_an_earlier_version_is_read() -> None:
    fields = {"model": MODEL, "library": LIBRARY, "masked": [], "arm": "step-3", "temperature": None}
    assert Treatment.model_validate(fields) == treatment(step=3)


def test_keys_and_dumps_are_those_of_earlier_versions() -> None:
    assert treatment().key == "aeaf397b0e36b8a34631558e8c961e1f"
    assert treatment("compare").key == "8b3235af38ca4de08daab27917d2c849"
    assert treatment(step=3).key == "0fa6fe34c2343324a09727470af04875"
    assert set(treatment("compare").model_dump()) == {"model", "library", "masked", "arm", "temperature"}


def test_an_arm_and_a_step_together_are_refused() -> None:
    with pytest.raises(ValidationError, match="weights_step 3 with arm 'canary' cannot be stored"):
        treatment("canary", 3)
