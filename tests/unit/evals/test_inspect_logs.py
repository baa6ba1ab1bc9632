"""Logs of inspect_ai, made and read by inspect_ai, and files that only look like them."""

import asyncio
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.event import Event, ModelEvent, ToolEvent
from inspect_ai.log import EvalConfig, EvalDataset, EvalError, EvalLog, EvalSample, EvalSampleLimit, ProvenanceData
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    ContentText,
    GenerateConfig,
    ModelOutput,
    ModelUsage,
)
from inspect_ai.scorer import Score
from inspect_ai.tool import ToolCall

from agentlearn.errors import DataError, MissingExtra
from agentlearn_evals.formats import LogSet, read_logs
from tests.unit.evals.log_samples import FORMS, inspect_file, inspect_log, inspect_sample

NAN = float("nan")


def read(folder: Path, *samples: EvalSample, **changes: Any) -> LogSet:
    return read_logs([inspect_file(folder / "log", inspect_log(*samples, **changes))])


def refusal(file: Path) -> str:
    with pytest.raises(DataError) as refused:
        read_logs([file])
    return str(refused.value)


def limit(kind: Any) -> EvalSampleLimit:
    return EvalSampleLimit(type=kind, limit=1)


@pytest.mark.parametrize("form", ["eval", "json"])
def test_a_log_that_was_cut_short_says_so(tmp_path: Path, form: Any) -> None:
    error = EvalError(message="KeyError('x')", traceback="", traceback_ansi="")
    log = inspect_log(inspect_sample("C", id="t1"), status="error", error=error)
    logs = read_logs([inspect_file(tmp_path / "log", log, form)])
    assert logs.observations[0].score == 1.0
    assert logs.warnings == (
        "log: the run ended with status 'error' (KeyError), not 'success'",
        "log: only 1 of 4 samples are in the log",
    )


def test_a_run_with_a_limit_plans_only_the_samples_that_it_chose(tmp_path: Path) -> None:
    spec = inspect_log().eval
    chosen = spec.model_copy(
        update={"dataset": EvalDataset(samples=100, sample_ids=[1, 2, 3]), "config": EvalConfig(limit=3)}
    )
    assert read(tmp_path, inspect_sample("C"), eval=chosen).warnings == ("log: only 1 of 3 samples are in the log",)


def test_a_run_that_was_killed_is_read_from_its_journal(tmp_path: Path) -> None:
    file = inspect_file(tmp_path / "whole", inspect_log(inspect_sample("C", id="t1")), "eval")
    with zipfile.ZipFile(file) as whole, zipfile.ZipFile(tmp_path / "log", "w") as log:
        for name in whole.namelist():
            if name not in {"header.json", "summaries.json"}:
                log.writestr(name, whole.read(name))
    logs = read_logs([tmp_path / "log"])
    assert [one.score for one in logs.observations] == [1.0]
    assert logs.warnings[0] == "log: the run ended with status 'started', not 'success'"


def test_a_sample_ends_in_one_way(tmp_path: Path, subtests: pytest.Subtests) -> None:
    error = EvalError(message="KeyError('x')", traceback="", traceback_ansi="")
    for sample, outcome in [
        (inspect_sample("P"), (0.5, "ok", "")),
        (inspect_sample("N"), (0.0, "ok", "")),
        (inspect_sample(True), (1.0, "ok", "")),
        (inspect_sample("0.75"), (0.75, "ok", "")),
        (inspect_sample("yes"), (1.0, "ok", "")),
        (inspect_sample("C", error=error), (None, "undecided", "KeyError")),
        (inspect_sample("C", limit=limit("working")), (None, "undecided", "time_limit")),
        (inspect_sample("C", limit=limit("token")), (1.0, "ok", "")),
        (inspect_sample(NAN, limit=limit("token")), (0.0, "failed", "token_limit")),
        (inspect_sample("C", invalidation=ProvenanceData(author="me")), (None, "undecided", "invalidated")),
        (inspect_sample(0, scores={}), (None, "undecided", "unscored")),
        (inspect_sample(0, scores={"match": Score.unscored(reason="broken")}), (None, "undecided", "broken")),
    ]:
        with subtests.test(repr((sample.scores, outcome))):
            first = read(tmp_path, sample, inspect_sample(1, id=2)).observations[0]
            assert (first.score, first.status, first.error) == outcome


def test_a_scorer_with_several_values_gives_one_score_for_each(tmp_path: Path) -> None:
    sample = inspect_sample({"style": "P", "length": 0.25}, id="t1")
    file = inspect_file(tmp_path / "log", inspect_log(sample, inspect_sample([0.5, 1], id="t2")), "eval")
    scores = [one.score for one in read_logs([Path(f"{file}#match.length")]).observations]
    assert scores == [0.25, None]
    assert [one.score for one in read_logs([Path(f"{file}#match.1")]).observations] == [None, 1.0]


@pytest.mark.parametrize("form", ["eval", "json"])
def test_a_sample_is_costed_and_its_question_and_tool_calls_are_found(tmp_path: Path, form: Any) -> None:
    usage = ModelUsage(input_tokens=5, input_tokens_cache_read=7, output_tokens=2, total_cost=0.5)
    called = ToolEvent(id="1", function="add", arguments={})
    model = ModelEvent(
        model="m", input=[], tools=[], tool_choice="auto", config=GenerateConfig(), output=ModelOutput(model="m")
    )
    events: list[Event] = [called, model, called]
    question = "a long question " * 20
    sample = inspect_sample(
        1,
        input=[ChatMessageSystem(content="s"), ChatMessageUser(content=[ContentText(text=question)])],
        model_usage={"m": usage, "judge": usage},
        messages=[ChatMessageAssistant(content="", tool_calls=[ToolCall(id="1", function="add", arguments={})])],
        events=events,
    )
    alone = sample.model_copy(update={"id": 2, "events": []})
    log = inspect_log(sample, alone, inspect_sample(1, id=3))
    one, other, third = read_logs([inspect_file(tmp_path / "log", log, form)]).observations
    assert (one.tokens_in, one.tokens_out, one.cost_usd, one.tool_calls) == (24, 4, 1.0, 2)
    assert (other.tool_calls, third.tool_calls) == (1, None)
    assert one.problem == question


def test_empty_responses_are_counted(tmp_path: Path) -> None:
    said = ModelOutput.from_content("m", "2")
    calls = ModelOutput.for_tool_call("m", "add", {})
    outputs = [ModelOutput(), said, calls, ModelOutput.from_content("m", " "), ModelOutput(model="m")]
    logs = read(tmp_path, *(inspect_sample(0, id=at, output=output) for at, output in enumerate(outputs)))
    assert any("2 of 5 responses of toy/m are empty" in one for one in logs.warnings)


@pytest.mark.parametrize(
    ("samples", "sentence"),
    [
        ([inspect_sample(NAN)], "log holds no score; score its samples, then give the log with the scores"),
        ([inspect_sample("B")], "log sample 1 epoch 1 has 'B' as score 'match', not a number; write a number"),
        (
            [inspect_sample(float("inf"))],
            (
                "log sample 1 epoch 1 has inf as score 'match', which is not finite; write a finite number, or status"
                " 'failed'"
            ),
        ),
        (
            [inspect_sample(1), inspect_sample(0)],
            (
                "log sample 1 epoch 1 is rollout 0 of task '1' in arm 'toy/m', and so is log sample 1 epoch 1; remove"
                " one of them, or give the arms different names: 'ARM=log'"
            ),
        ),
    ],
)
def test_a_log_without_usable_scores_is_refused(tmp_path: Path, samples: list[EvalSample], sentence: str) -> None:
    assert refusal(inspect_file(tmp_path / "log", inspect_log(*samples))) == sentence


def test_a_log_without_samples_is_refused(tmp_path: Path) -> None:
    log = EvalLog(status="error", eval=inspect_log().eval)
    assert refusal(inspect_file(tmp_path / "log", log)) == (
        "log holds no samples (status 'error'); run it again with its samples logged"
    )


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    sentence = refusal(inspect_file(tmp_path / "log", inspect_log(version=99)))
    assert sentence.startswith("log cannot be read by inspect_ai 0.3.")
    assert sentence.endswith("copy the log again, or write it again with `inspect log convert`")
    assert "99" in sentence


def test_a_log_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    whole = FORMS["inspect.eval"](tmp_path / "whole").read_bytes()
    for size in range(4, len(whole), 211):
        (tmp_path / "log").write_bytes(whole[:size])
        assert refusal(tmp_path / "log").startswith("log cannot be read by inspect_ai ")


def test_an_archive_that_is_no_log_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "log", "w") as archive:
        archive.writestr("other.json", "{}")
    assert refusal(tmp_path / "log").startswith("log cannot be read by inspect_ai ")


def test_an_archive_that_would_fill_the_memory_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    body = bytearray(FORMS["inspect.eval"](tmp_path / "log").read_bytes())
    at = body.index(b"PK\x01\x02") + 24  # the unpacked size of the first member, in the list of members
    body[at : at + 4] = (513 << 20).to_bytes(4, "little")
    (tmp_path / "log").write_bytes(body)
    assert refusal(tmp_path / "log") == (
        "log unpacks to more than 512 MiB for one sample, or 16,384 for all; split it, or give its scores as CSV"
    )


def test_without_inspect_ai_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = FORMS["inspect.eval"](tmp_path / "log.eval")
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    with pytest.raises(MissingExtra) as refused:
        read_logs([file])
    assert str(refused.value) == "reading 'log.eval' needs inspect-ai: pip install 'agentlearn-lib[inspect]'"


def test_a_log_is_read_within_an_event_loop(tmp_path: Path) -> None:
    file = FORMS["inspect.eval"](tmp_path / "log.eval")

    async def within() -> int:
        return len(read_logs([file]).observations)

    assert asyncio.run(within()) == 4
