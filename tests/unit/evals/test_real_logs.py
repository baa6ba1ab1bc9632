"""Real logs of other programs are read completely; two of the programs are run here, without network."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentlearn.errors import ConfigError, DataError
from agentlearn.measure.score_table import Observation
from agentlearn_evals.formats import LogFile, read_logs

HERE = Path(__file__).parent
LOGS = HERE / "logs"
LM_EVAL = LOGS / "samples_toy_sums_2026-11-21T17-22-37.267133.jsonl"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the logs of inspect_ai."""
    folder, home = tmp_path_factory.mktemp("logs"), tmp_path_factory.mktemp("home")
    child = subprocess.run(
        [sys.executable, str(HERE / "make_logs.py"), str(folder)],
        check=False,
        capture_output=True,
        text=True,
        timeout=500,
        cwd=home,
        env={**os.environ, "HOME": str(home), "XDG_DATA_HOME": str(home), "XDG_CACHE_HOME": str(home)},
    )
    assert child.returncode == 0, child.stderr
    return folder


def only(folder: Path) -> Path:
    [file] = folder.iterdir()
    return file


def outcomes(observations: Sequence[Observation]) -> dict[tuple[str, int], tuple[float | None, str, str]]:
    return {(one.task, one.g): (one.score, one.status, one.error) for one in observations}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["eval", "json"])
def test_an_inspect_log_tells_every_sample(made: Path, form: str) -> None:
    file = only(made / form)
    logs = read_logs([LogFile(path=file, score="match")])
    expected = {
        "right": (1.0, "ok", ""),
        "wrong": (0.0, "ok", ""),
        "raises": (None, "undecided", "ValueError"),
        "late": (None, "undecided", "time_limit"),
        "long": (0.0, "ok", ""),  # scored in spite of its limit
    }
    assert outcomes(logs.observations) == {(name, g): out for name, out in expected.items() for g in (0, 1)}
    assert {one.arm for one in logs.observations} == {"sums/mockllm/model"}
    assert logs.models == {"sums/mockllm/model": "mockllm/model"}
    assert list(logs.sources) == [file.name]


@pytest.mark.slow
def test_an_inspect_scorer_with_several_values_is_chosen_by_key_and_may_be_undecided(made: Path) -> None:
    file = only(made / "eval")
    logs = read_logs([Path(f"{file}#judged.style")])
    actual = outcomes(logs.observations)
    assert actual["right", 0] == (0.5, "ok", "")
    assert actual["wrong", 1] == (None, "undecided", "grader_failed")
    assert actual["long", 0] == (0.5, "ok", "")
    assert actual["late", 0] == (None, "undecided", "time_limit")
    assert f"{file.name}: samples over their time limit are undecided, although the log grades some of them" in (
        logs.notes
    )


def test_lm_eval_samples_are_read_under_one_filter() -> None:
    with pytest.raises(ConfigError) as refused:
        read_logs([LM_EVAL])
    assert refused.value.code == "bad_config"
    assert "'exact_match,strict-match', 'exact_match,flexible-extract'" in str(refused.value)
    logs = read_logs([Path(f"{LM_EVAL}#exact_match,flexible-extract")])
    assert [(one.problem, one.score) for one in logs.observations] == [
        ("0 + 1 =", 1.0),
        ("1 + 1 =", 1.0),
        ("2 + 1 =", 0.0),
    ]
    assert {one.arm for one in logs.observations} == {"toy/sums-1b"}
    assert logs.observations[0].task == "toy_sums/0/19d1c186"


def test_a_metric_of_lm_eval_that_is_better_when_smaller_is_refused(tmp_path: Path) -> None:
    samples, results = tmp_path / LM_EVAL.name, tmp_path / LM_EVAL.name.replace("samples_toy_sums", "results")
    samples.write_bytes(LM_EVAL.read_bytes())
    actual = json.loads((LOGS / results.name.replace(".jsonl", ".json")).read_text())
    actual["higher_is_better"]["toy_sums"]["exact_match"] = False
    results.with_suffix(".json").write_text(json.dumps(actual))
    with pytest.raises(DataError) as refused:
        read_logs([LogFile(path=samples, score="exact_match,strict-match")])
    assert refused.value.code == "bad_data"
