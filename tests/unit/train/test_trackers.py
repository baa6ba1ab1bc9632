"""Trackers get the metrics of every update; the packages `wandb` and `trackio` are small stand-ins with their calls."""

import json
from pathlib import Path

import pytest

from agentlearn.errors import ConfigError, MissingExtra
from agentlearn.train.settings import TrainSettings, metrics_writers, require_trackers
from agentlearn.types.ids import RunId

RUN = RunId("01m8kfhf4ebs8mgd16g6rr9v4w")
STAND_IN = """
import json, os
class Run:
    def log(self, values, step=None):
        with open(os.environ["LOGGED"], "a") as file:
            print(json.dumps([__name__, step, values]), file=file)
    def finish(self):
        self.log({}, step=-1)
def init(*, project, name, config, resume, **where):
    if "FAULT" in os.environ:
        raise RuntimeError("no\\nkey")
    print("a greeting")
    Run().log({"config": config, "where": where, "name": name})
    return Run()
"""


@pytest.fixture
def logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that the stand-ins write to."""
    for name in ("wandb", "trackio"):
        (tmp_path / f"{name}.py").write_text(STAND_IN, encoding="utf-8")
        monkeypatch.delitem(__import__("sys").modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("LOGGED", str(tmp_path / "logged.jsonl"))
    return tmp_path / "logged.jsonl"


def test_two_trackers_get_every_update_and_are_closed(logged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    require_trackers(("wandb", "trackio", "none"))
    store = logged.parent
    with metrics_writers(("wandb", "trackio", "none"), run=RUN, store=store, settings={"seed": 3}, done=0) as writers:
        for update in (1, 2):
            for write in writers:
                write(update, {"loss": update / 2})
    assert capsys.readouterr().out == "", "stdout is for the result"
    wandb, trackio = (
        [row[1:] for row in map(json.loads, logged.read_text(encoding="utf-8").splitlines()) if row[0] == name]
        for name in ("wandb", "trackio")
    )
    assert wandb[0] == [None, {"config": {"seed": 3}, "where": {"id": RUN}, "name": RUN}]
    assert trackio[0] == [None, {"config": {"seed": 3}, "where": {}, "name": RUN}]
    assert wandb[1:] == trackio[1:] == [[1, {"loss": 0.5}], [2, {"loss": 1.0}], [-1, {}]]


def test_what_cannot_be_opened_or_is_not_installed_is_one_sentence(
    logged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULT", "1")
    with (
        pytest.raises(ConfigError, match=r"wandb cannot be opened \(no key\); set it up") as found,
        metrics_writers(("wandb",), run=RUN, store=logged.parent, settings={}, done=0),
    ):
        pass
    assert found.value.code == "bad_config"
    monkeypatch.setattr("sys.path", [])
    monkeypatch.setattr("sys.path_importer_cache", {})
    with pytest.raises(MissingExtra, match="pip install trackio"):
        require_trackers(("none", "trackio"))


def test_the_setting_takes_one_or_several() -> None:
    given = {"domain": "math", "model": "lab:math"}
    assert TrainSettings.model_validate(given).report_to == ("tensorboard",)
    assert TrainSettings.model_validate(given | {"report_to": "wandb"}).report_to == ("wandb",)
    assert TrainSettings.model_validate(given | {"report_to": ["wandb", "none"]}).report_to == ("wandb", "none")
