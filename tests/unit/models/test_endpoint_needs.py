"""What an endpoint needs is said in one sentence before anything is estimated: its name, key, package and address."""

import asyncio
import re
from pathlib import Path

import pytest

from agentlearn.config import CallOptions
from agentlearn.errors import AgentlearnError, ConfigError, MissingExtra
from agentlearn.models.endpoint import check_endpoint, open_endpoint
from agentlearn.models.services import KNOWN_SERVICES, SERVICES, found_models
from tests.support.cases import cases

REFUSED = cases(__file__, "refused")

NEEDS_MORE = {"azure", "azure-responses", "bedrock", "bedrock-mantle", "google-cloud", "openai-codex", "test"}
"""Services that need more than variables, or a certain name of the model."""


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for service in KNOWN_SERVICES.values():
        for variable in (service.unless, *(one for group in service.needs for one in group)):
            monkeypatch.delenv(variable, raising=False)


def opened_url(name: str) -> str:
    async def opened() -> str:
        async with open_endpoint(name, CallOptions()) as endpoint:
            return endpoint.url

    return asyncio.run(opened())


def refusal_of(name: str) -> AgentlearnError | None:
    try:
        opened_url(name)
    except AgentlearnError as error:
        return error
    return None


def test_what_is_missing_is_one_sentence_before_a_run_and_when_it_starts(
    subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, variables, code, words in REFUSED:
        with subtests.test(name=name, variables=variables), monkeypatch.context() as patch:
            for variable, value in variables.items():
                patch.setenv(variable, value)
            with pytest.raises(ConfigError) as checked:
                check_endpoint(name, CallOptions())
            with pytest.raises(ConfigError) as opened:
                opened_url(name)
            assert (checked.value.code, checked.value.exit_status) == (code, 2)
            assert words in checked.value.message
            assert "\n" not in checked.value.message
            assert checked.value.message == opened.value.message


def test_every_known_service_opens_with_its_variables_or_says_what_is_missing(
    subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    for prefix in sorted(SERVICES - {"http", "https", "vllm"}):
        service = KNOWN_SERVICES.get(prefix)
        with subtests.test(prefix=prefix), monkeypatch.context() as patch:
            for group in service.needs if service else ():
                patch.setenv(group[-1], "https://x.invalid/v1" if "URL" in group[0] else "a-key")
            error = refusal_of(f"{prefix}:openai/{service.example or 'some-model' if service else ''}")
            if isinstance(error, MissingExtra):
                assert f"pip install 'pydantic-ai-slim[{service and service.extra}]'" in error.message
            elif error is None:
                assert not (service and service.refused)
            else:
                assert error.code == "bad_config"
                assert prefix in NEEDS_MORE or (service and service.refused), error.message


def test_keys_of_all_services_with_a_small_model_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for service in KNOWN_SERVICES.values():
        for group in service.needs:
            monkeypatch.setenv(group[0], "a-key")
    found = {one.endpoint.partition(":")[0] for one in found_models() if one.paid}
    assert {"openai", "google", "xai", "together", "anthropic", "groq", "mistral"} <= found
    for service in KNOWN_SERVICES.values():
        for group in service.needs:
            monkeypatch.setenv(group[0], " ")
    assert not [one for one in found_models() if one.paid]


def test_the_page_about_services_has_each_with_its_variables_and_extra() -> None:
    page = (Path(__file__).parents[3] / "docs" / "providers.md").read_text(encoding="utf-8")
    cells = [[one.strip(" `:") for one in line.split("|")[1:]] for line in page.splitlines() if line.startswith("|")]
    rows = {one[0]: one for one in cells}
    for prefix, service in KNOWN_SERVICES.items():
        if service.refused:
            assert f"`{prefix}:`" in page or prefix == "gateway"
            continue
        _, variables, extra, *_ = rows[prefix]
        named = {one for group in service.needs for one in group}
        assert named == set(re.findall(r"[A-Z_]{4,}", variables)), prefix
        assert extra == ("" if service.extra == "openai" else service.extra), prefix
