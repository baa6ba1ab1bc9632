"""Plug-ins of other packages: reserved names, names announced twice, and packages that are broken."""

import re
from importlib.metadata import Distribution, EntryPoint
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.cli.app import build, run
from agentlearn.domain.base import installed_domains, load_domain
from agentlearn.errors import ConfigError, StopSignal
from agentlearn.models.endpoint import GROUP, is_paid
from agentlearn.models.services import SERVICES, is_service
from agentlearn.plugins import (
    COMMANDS,
    GROUPS,
    Plugin,
    announced,
    cause_words,
    guarded,
    is_command,
    tolerate_unreadable_packages,
)
from tests.support.broken_packages import BROKEN, broken_packages


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = broken_packages(tmp_path / "packages")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(Distribution, "entry_points", Distribution.entry_points)  # restored afterwards
    tolerate_unreadable_packages()
    return folder


def prefixes() -> set[str]:
    """The prefixes of the models that pydantic-ai lists."""
    from pydantic_ai.models import KnownModelName

    return {name.partition(":")[0] for name in get_args(KnownModelName.__value__)}


def test_every_service_of_pydantic_ai_is_reserved() -> None:
    assert all(is_service(name) for name in prefixes())
    assert not is_service("mylab")
    assert all(name in SERVICES or name.startswith("gateway/") for name in prefixes())


def test_every_command_is_found() -> None:
    groups = [COMMANDS, *(group.commands for group in GROUPS.values())]
    for entry in (one for commands in groups for one in commands.values()):
        assert callable(EntryPoint("", entry.function, "").load()), entry.function


def test_every_command_is_reserved() -> None:
    ours = {name for name in build() if not name.startswith("-")} - {"compare", "eval", "hybrid", "lab", "power", "sim"}
    assert all(is_command(name) for name in (*ours, "LEARN", "--help", "-h", "", " "))


@pytest.mark.usefixtures("broken")
def test_no_package_takes_a_prefix_of_a_paid_service() -> None:
    for name in ("openai:gpt-5-mini", "anthropic:x", "gateway/openai:x", "https://example.org/v1#m", "openai-chat:x"):
        assert is_paid(name)
    assert not is_paid("sim:novice")
    assert not is_paid("http://127.0.0.1:8000/v1#m")


@given(prefix=st.sampled_from(sorted(SERVICES - {"http", "https", "vllm"})), rest=st.text(max_size=8))
def test_is_paid_never_says_no_for_a_known_service(prefix: str, rest: str) -> None:
    assert is_paid(f"{prefix}:{rest}")


@pytest.mark.usefixtures("broken")
def test_own_names_stay_with_agentlearn() -> None:
    own = {plugin.name: plugin.package for plugin in announced(GROUP, reserved=is_service).usable.values()}
    assert {own[name] for name in ("sim", "lab", "local", "vllm")} == {"agentlearn-lib"}
    assert "openai" not in own
    assert "OpenAI" not in own
    assert load_domain("math").description.startswith("competition problems")
    assert "Math" not in installed_domains()


@pytest.mark.usefixtures("broken")
def test_two_packages_with_one_name_are_both_refused() -> None:
    for refused in (lambda: load_domain("shared"), lambda: is_paid("shared:x"), lambda: build(["shared"])):
        with pytest.raises(ConfigError) as error:
            refused()
        assert error.value.message == "the packages 'twin-a' and 'twin-b' both announce 'shared'; uninstall one of them"
        assert (error.value.code, error.value.exit_status) == ("bad_config", 2)


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("name", BROKEN)
def test_using_a_broken_plugin_is_one_sentence(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for command in ([name], ["learn", name, "--model", "sim:novice"], ["solve", "math", "1", "--model", f"{name}:x"]):
        store = [] if command == [name] else ["--store", str(tmp_path / "store")]
        assert run([*command, *store]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        (line,) = [one for one in printed.err.splitlines() if one != "NOISE"]
        assert line.startswith("agentlearn: ")
        assert "broken-one" in line or "plug_prints" in line


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("command", [["--help"], ["library", "list", "--json"], ["init", "--help"]])
def test_broken_plugins_break_no_other_command(
    command: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(command) == 0
    printed = capsys.readouterr()
    assert "NOISE" not in printed.out + printed.err


def test_a_signal_during_the_import_of_a_plugin_is_no_fault_of_the_plugin() -> None:
    plugin = Plugin("agentlearn.domains", "one", "a:b", "some", EntryPoint("one", "a:b", "agentlearn.domains"))

    def stopped() -> object:
        raise StopSignal(15)

    with pytest.raises(StopSignal):
        guarded(plugin, "domain", stopped)


@given(text=st.text(max_size=400))
def test_a_cause_is_one_short_line(text: str) -> None:
    assert re.fullmatch(r"[^\n\r]{1,330}", cause_words(ValueError(text)))
