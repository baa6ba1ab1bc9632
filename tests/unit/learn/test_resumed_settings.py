"""Settings of a run that another version started are refused in one sentence, by every command that resumes."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from agentlearn.errors import ConfigError
from agentlearn.learning.resume import settings_of
from agentlearn.store import open_store
from agentlearn.train.settings import resumed_train_settings
from agentlearn.types.run_event import RunKind
from agentlearn_evals.hybrid.hybrid_run import HybridRecord
from tests.unit.store import nouns

RESUME: dict[RunKind, Callable[[Path], object]] = {
    "learn": lambda store: settings_of("01jd", store, {}),
    "train": lambda store: resumed_train_settings("01jd", store, {}),
    "hybrid": lambda store: HybridRecord.resumed("01jd", store),
}


@pytest.mark.parametrize("kind", RESUME)
@pytest.mark.parametrize("settings", ['{"domain": "math", "of_a_later_version": 1}', '{"domain": 3}', "{}"])
def test_settings_of_another_version_are_refused_in_a_sentence(tmp_path: Path, kind: RunKind, settings: str) -> None:
    async def begin() -> None:
        async with open_store(tmp_path) as store:
            await store.save_run(nouns.run_event(kind=kind, settings=settings))

    asyncio.run(begin())
    with pytest.raises(ConfigError, match="was started by another version of agentlearn") as refused:
        RESUME[kind](tmp_path)
    assert refused.value.code == "not_resumable"
