"""Options are generated from settings models; options win over recipes, recipes over environment variables."""

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from agentlearn.cli.app import build, run
from agentlearn.cli.options import setting_options
from agentlearn.cli.train import train_run
from agentlearn.config import GivenSettings, LearnSettings, OptionGroup
from agentlearn.config.options import help_text
from agentlearn.train.settings import TrainSettings


class ToySettings(OptionGroup):
    """Settings of a command that exists only here."""

    epochs: int = 3
    """Passes."""
    shout: bool = False
    """Print in capitals."""
    measure: bool = True
    """Measure the result."""
    sources: tuple[str, ...] = ()
    """Where tasks come from."""


class QuickSettings(ToySettings):
    """The same with another default."""

    epochs: int = 1


def collected(*arguments: str) -> GivenSettings:
    """What a command with these options receives."""
    from cyclopts import App

    found: list[GivenSettings] = []

    @setting_options(QuickSettings, names={"measure": "--eval"})
    def toy(*, given: GivenSettings) -> None:
        found.append(given)

    app = App(name="toy")
    app.default(toy)
    app(list(arguments), exit_on_error=False, result_action="return_value")
    return found[0]


def test_only_given_options_are_collected() -> None:
    assert collected().options == {}
    given = collected("--epochs", "1", "--shout", "--no-eval", "--sources", "a", "--sources", "b")
    assert given.options == {"epochs": "1", "shout": True, "measure": False, "sources": ["a", "b"]}
    assert collected("--eval").options == {"measure": True}


def test_the_environment_is_read_by_option_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTLEARN_EPOCHS", "5")
    monkeypatch.setenv("AGENTLEARN_EVAL", "false")
    monkeypatch.setenv("AGENTLEARN_SHOUT", "")
    assert collected().environment == {"epochs": "5", "measure": "false"}
    assert QuickSettings.model_validate(collected().over()) == QuickSettings(epochs=5, measure=False)


def test_options_win_over_a_recipe_and_a_recipe_over_the_environment() -> None:
    given = GivenSettings({"epochs": 1}, {"epochs": "9", "seed": "9", "limit": "9"})
    assert given.over({"epochs": 2, "seed": 2}) == {"epochs": 1, "seed": 2, "limit": "9"}
    assert ("limit" in given, "name" in given, given.get("seed"), given.get("name", "x")) == (True, False, "9", "x")


def test_the_environment_wins_over_the_default_recipe_of_a_weight_update() -> None:
    nothing = GivenSettings({})
    assert train_run("math", None, nothing, nothing, {})[0].gradient.loss == "dapo"
    assert train_run("math", None, nothing, GivenSettings({}, {"loss": "grpo"}), {})[0].gradient.loss == "grpo"
    named = train_run("math/train-lab", None, nothing, GivenSettings({}, {"learning_rate": "5"}), {})[0]
    assert named.gradient.learning_rate != 5, "a recipe that is named wins"


def test_a_bad_variable_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENTLEARN_BATCH_SIZE", "0")
    assert run(["learn", "math"]) == 2
    assert "AGENTLEARN_BATCH_SIZE is '0', but" in capsys.readouterr().err


def test_the_store_variable_holds_for_every_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AGENTLEARN_STORE", str(tmp_path / "there"))
    assert run(["library", "list"]) == 0
    assert str(tmp_path / "there") in capsys.readouterr().out
    assert run(["learn", "--resume", "none"]) == 2
    assert str(tmp_path / "there") in capsys.readouterr().err


@pytest.mark.parametrize(("command", "kind"), [("learn", LearnSettings), ("train", TrainSettings)])
def test_every_setting_but_secrets_is_an_option(
    command: str, kind: type[OptionGroup], capsys: pytest.CaptureFixture[str]
) -> None:
    function: Any = build()[command].default_command
    names = set(inspect.signature(function).parameters)
    more = {"gradient"} if command == "train" else {"agent"}  # the agent is the command's first word
    assert set(kind.model_fields) - names == {"domain", "api_key", "private_addresses", "given", "served_at"} | more
    assert run([command, "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for name in ("group_size", "max_minutes"):
        assert help_text(kind, name) in shown


def test_an_error_after_the_result_prints_no_second_object(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"problem": "What is 1 + 1?"}\n')
    assert run(["data", "check", str(rows), "--json"]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["sound"] is False
    assert printed.err.startswith("agentlearn: ")


@pytest.mark.parametrize("command", ["learn", "train", "compare"])
def test_help_lists_common_options_by_what_they_decide_and_help_all_lists_every_one(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, "--help"]) == 0
    short = capsys.readouterr().out
    assert run([command, "--help-all"]) == 0
    whole = capsys.readouterr().out
    assert "Limits" in short
    assert "more options: --help-all" in short
    assert "--rollout-deadline-s" not in short
    assert "--rollout-deadline-s" in whole
    assert "--help-all" not in whole
    assert short.count("│ --") < 40 < whole.count("│ --")
