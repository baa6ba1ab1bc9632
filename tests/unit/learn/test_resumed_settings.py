"""Settings of a run that another version started are refused in one sentence, by every command that resumes."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from agentlearn.config import LearnSettings, endpoint_address
from agentlearn.errors import ConfigError
from agentlearn.learning.open_run import settings_of
from agentlearn.store import open_store
from agentlearn.train.settings import resumed_train_settings
from agentlearn.types.run_event import RunKind
from tests.unit.store import nouns


def test_a_run_may_go_on_at_other_endpoints_of_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, new = "http://a/v1#m", "http://user:word@b/v1#m", "http://c/v1#m"
    began = LearnSettings(domain="math", model=[one, two])  # type: ignore[arg-type]

    async def begin() -> None:
        async with open_store(tmp_path) as store:
            event = nouns.run_event(kind="learn", state="interrupted", settings=began.resolved())
            await store.save_run(event)

    asyncio.run(begin())
    monkeypatch.setattr(endpoint_address, "KEPT_CREDENTIALS", {})  # as in another process
    with pytest.raises(ConfigError, match="credentials in the address of 'http://b/v1#m'"):
        settings_of("01jd", tmp_path, {})
    name, several = endpoint_address.one_model([new, two])
    for given, endpoints in (
        ({"model": new}, (new,)),
        ({"model": one}, (one,)),
        ({"model": name, "served_at": {name: several}}, (new, "http://b/v1#m")),
    ):
        _, settings = settings_of("01jd", tmp_path, given)
        assert (settings.model, settings.endpoints) == (one, endpoints)
    for other in ("http://c/v1#other", "openai:m"):
        with pytest.raises(ConfigError, match="a resumed run keeps its settings; leave out --model"):
            settings_of("01jd", tmp_path, {"model": other})


RESUME: dict[RunKind, Callable[[Path], object]] = {
    "learn": lambda store: settings_of("01jd", store, {}),
    "train": lambda store: resumed_train_settings("01jd", store, {}),
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
    assert refused.value.code == "bad_config"
