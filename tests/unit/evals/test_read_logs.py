"""Log formats: all give the same rollouts, are recognised by content, and report errors in one sentence."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.errors import ConfigError, DataError
from agentlearn_evals.formats import LogFile, content, read_logs
from tests.support.cases import cases
from tests.unit.evals import log_samples


def test_every_format_gives_the_same_rollouts(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for form in log_samples.FORMS:
        for name in [None, "no-suffix"]:
            with subtests.test(repr((form, name))):
                file = log_samples.FORMS[form](tmp_path / (name or form))
                logs = read_logs([file], arm="mine")
                actual = {(one.problem, one.g): (one.arm, one.score, one.status) for one in logs.observations}
                assert actual == {
                    (f"{task}?", g): ("mine", score, "ok") for (task, g), score in log_samples.SCORES.items()
                }
                assert len({one.task for one in logs.observations}) == 2
                assert logs.notes == ()
                assert list(logs.sources) == [file.name]


@pytest.mark.parametrize(
    ("form", "arm"),
    [("inspect.eval", "toy/m"), ("pydantic-evals.json", "toy"), ("lm-eval.jsonl", "lm-eval"), ("trl.jsonl", "trl@3")],
)
def test_an_unnamed_arm_has_the_name_in_the_log(tmp_path: Path, form: str, arm: str) -> None:
    logs = read_logs([log_samples.FORMS[form](tmp_path / form)])
    assert {one.arm for one in logs.observations} == {arm}


def test_rollout_numbers_continue_across_files_of_a_named_arm(tmp_path: Path) -> None:
    files = [log_samples.write_lines(tmp_path / f"{at}.jsonl", [{"task": "t", "score": at}]) for at in (0, 1)]
    logs = read_logs(files, arm="both")
    assert [(one.g, one.score) for one in logs.observations] == [(0, 0.0), (1, 1.0)]


def test_two_files_with_the_same_arm_name_are_not_combined(tmp_path: Path) -> None:
    rows = [{"task": "t", "arm": "a", "score": at} for at in (0, 1)]
    files = [log_samples.write_lines(tmp_path / f"{at}.jsonl", [row]) for at, row in enumerate(rows)]
    with pytest.raises(DataError) as refused:
        read_logs(files)
    assert refused.value.code == "duplicate_rollout"
    assert str(refused.value) == (
        "1.jsonl line 1 is rollout 0 of task 't' in arm 'a', and so is 0.jsonl line 1; remove one of them, or give the"
        " arms different names: 'ARM=1.jsonl'"
    )


def test_the_same_log_twice_does_not_count_twice(tmp_path: Path) -> None:
    row = {"task": "t", "score": 1}
    files = [log_samples.write_lines(tmp_path / name, [row]) for name in ("one.jsonl", "other.jsonl")]
    with pytest.raises(DataError) as refused:
        read_logs(files, arm="a")
    assert refused.value.code == "same_log"
    assert len(read_logs([LogFile(path=file, arm=file.stem) for file in files]).observations) == 2


def test_failures_are_kept_and_reported(tmp_path: Path) -> None:
    rows = [
        {"task": "1", "arm": "a", "score": 1, "status": "ok"},
        {"task": "2", "arm": "a", "status": "failed", "error": "endpoint"},
        {"task": "3", "arm": "a", "score": 0, "status": "timeout"},
        {"task": "4", "arm": "a", "status": "undecided", "mood": "bad", "model": "m1"},
    ]
    logs = read_logs([log_samples.write_lines(tmp_path / "runs.jsonl", rows)])
    assert [(one.score, one.status) for one in logs.observations] == [
        (1.0, "ok"),
        (0.0, "failed"),
        (None, "undecided"),
        (None, "undecided"),
    ]
    assert logs.models == {"a": "m1"}
    assert logs.notes == ("runs.jsonl: columns not read: mood",)
    assert [one.error for one in logs.observations] == ["", "endpoint", "timeout", ""]


def test_columns_are_parsed(tmp_path: Path) -> None:
    row = {
        "task": 7,
        "arm": "a",
        "score": "1e-1",
        "cluster": "site",
        "domain": "web",
        "tags": "x; y",
        "cost_usd": "0.25",
        "seconds": 2,
        "tokens_in": "12",
        "tokens_out": 3.0,
        "tool_calls": "",
    }
    [one] = read_logs([log_samples.write_csv(tmp_path / "runs.csv", [row])]).observations
    assert (one.task, one.score, one.cluster, one.domain, one.tags) == ("7", 0.1, "site", "web", ("x", "y"))
    assert (one.cost_usd, one.seconds, one.tokens_in, one.tokens_library) == (0.25, 2.0, 12, None)
    assert one.tool_calls is None


@given(st.data())
def test_any_file_is_read_or_refused_in_one_sentence(data: st.DataObject) -> None:
    odd = st.binary(max_size=4) | st.sampled_from([b"null", b"NaN", b"-1", b"1e999", b"[]", b"{}", b'"', b"\\ud800"])
    with tempfile.TemporaryDirectory() as folder:
        form = data.draw(
            st.sampled_from([name for name in log_samples.FORMS if name.endswith((".json", ".jsonl", ".csv"))])
        )
        file = log_samples.FORMS[form](Path(folder) / form)
        body = file.read_bytes()
        start = data.draw(st.integers(0, len(body)))
        end = data.draw(st.integers(start, len(body)) | st.just(start))
        file.write_bytes(body[:start] + data.draw(odd) + body[end:])
        printed = ""
        try:
            assert read_logs([file]).observations
        except ConfigError as refused:
            printed = str(refused)
        assert "\n" not in printed
        assert len(printed) < 600


def text(content: str | bytes) -> Callable[[Path], None]:
    return lambda file: file.write_bytes(content.encode() if isinstance(content, str) else content) and None


def inspect(*samples: dict[str, Any], **header: Any) -> Callable[[Path], None]:
    return text(json.dumps({**log_samples.inspect_header(**header), "samples": list(samples)}))


def graded(value: Any, **changes: Any) -> dict[str, Any]:
    return {"id": 1, "epoch": 1, "input": "?", "scores": {"match": {"value": value}}, **changes}


ROW = {"task": "t", "arm": "a", "score": 1}

REFUSALS: list[tuple[str, str, str, str]] = [
    *cases(__file__, "refusals"),
    (
        *("digits without end", '{"task": "t", "arm": "a", "score": 1' + "0" * 5000 + "}", "bad_log"),
        "log cannot be read as JSON (a number has too many digits); write the log again",
    ),
    (
        *("nested without end", '{"a": ' + "[" * 200_000, "bad_log"),
        "log cannot be read as JSON (it nests too deeply); write the log again",
    ),
]
"""Name, text of the log, code and sentence."""


def test_errors_are_one_sentence(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name, log, code, sentence in REFUSALS:
        with subtests.test(name):
            (tmp_path / "log").write_bytes(log.encode("utf-8", "surrogateescape"))
            with pytest.raises(ConfigError) as refused:
                read_logs([tmp_path / "log"])
            assert (str(refused.value), refused.value.code) == (sentence, code)


def test_an_unknown_score_is_refused_and_the_known_ones_are_listed(tmp_path: Path) -> None:
    file = log_samples.inspect_json(tmp_path / "log")
    with pytest.raises(ConfigError) as refused:
        read_logs([LogFile(path=file, score="f1")])
    assert str(refused.value) == "log has no score 'f1' (it has 'match'); write one of them after the '#'"
    assert refused.value.code == "unknown_score"


def test_one_name_for_several_arms_is_refused(tmp_path: Path) -> None:
    file = log_samples.write_lines(tmp_path / "log", [ROW, {**ROW, "arm": "b"}])
    with pytest.raises(ConfigError) as refused:
        read_logs([file], arm="mine")
    assert str(refused.value) == ("log holds the arms 'a', 'b', so they cannot all be named 'mine'; leave the name out")
    assert refused.value.code == "several_arms"


@pytest.mark.parametrize("form", ["plain.csv", "plain.jsonl", "plain.parquet", "inspect.json"])
def test_a_file_may_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    file = log_samples.FORMS[form](tmp_path / form)
    monkeypatch.setattr(content, "MOST_BYTES", 20)
    with pytest.raises(DataError) as refused:
        read_logs([file])
    assert refused.value.code == "log_too_large"
    assert str(refused.value).endswith("; split it, or give its scores as CSV")


def test_a_table_may_not_have_rows_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = log_samples.plain_parquet(tmp_path / "log")
    monkeypatch.setattr(content, "MOST_ROWS", 4)
    assert len(read_logs([file]).observations) == 4
    monkeypatch.setattr(content, "MOST_ROWS", 3)
    with pytest.raises(DataError) as refused:
        read_logs([file])
    assert refused.value.code == "log_too_large"


def test_an_inspect_log_that_was_cut_short_says_so(tmp_path: Path) -> None:
    file = tmp_path / "log"
    inspect(graded("C"), status="cancelled")(file)
    logs = read_logs([file])
    assert logs.observations[0].score == 1.0
    assert logs.warnings == (
        "log: the run ended with status 'cancelled', not 'success'",
        "log: only 1 of 4 samples are in the log",
    )


@pytest.mark.parametrize(
    ("config", "planned"),
    [({"limit": 1}, 0), ({"limit": [4, 5]}, 0), ({"sample_id": "t*"}, 0), ({"limit": 3}, 3), ({"limit": [99, 120]}, 0)],
)
def test_an_inspect_log_with_a_limit_plans_only_that_many_samples(
    config: dict[str, Any], planned: int, tmp_path: Path
) -> None:
    file = tmp_path / "log"
    inspect(graded("C"), eval={"task": "toy", "model": "m", "dataset": {"samples": 100}, "config": config})(file)
    expected = (f"log: only 1 of {planned} samples are in the log",) if planned else ()
    assert read_logs([file]).warnings == expected


def test_an_inspect_sample_ends_in_one_way(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for sample, outcome in [
        (graded("P"), (0.5, "ok", "")),
        (graded("N"), (0.0, "ok", "")),
        (graded(True), (1.0, "ok", "")),
        (graded("0.75"), (0.75, "ok", "")),
        (graded("yes"), (1.0, "ok", "")),
        (graded("C", error={"message": "KeyError('x')"}), (None, "undecided", "KeyError")),
        (graded("C", limit={"type": "working", "limit": 1}), (None, "undecided", "time_limit")),
        (graded("C", limit={"type": "token", "limit": 1}), (1.0, "ok", "")),
        (graded(float("nan"), limit={"type": "token", "limit": 1}), (0.0, "failed", "token_limit")),
        (graded("C", invalidation={"author": "me"}), (None, "undecided", "invalidated")),
        (graded(None, scores={}), (None, "undecided", "unscored")),
    ]:
        with subtests.test(repr((sample, outcome))):
            file = tmp_path / "log"
            inspect(sample, graded(1, id=2))(file)
            first = read_logs([file]).observations[0]
            assert (first.score, first.status, first.error) == outcome


def test_an_inspect_sample_is_costed_and_its_attachments_are_put_back(tmp_path: Path) -> None:
    key = "0123456789abcdef" * 2
    usage = {"input_tokens": 5, "input_tokens_cache_read": 7, "output_tokens": 2, "total_cost": 0.5}
    sample = graded(
        1,
        input=[{"role": "system", "content": "s"}, {"role": "user", "content": [{"text": f"attachment://{key}"}]}],
        attachments={key: "a long question"},
        model_usage={"m": usage, "judge": usage},
        events=[{"event": "tool"}, {"event": "model"}, {"event": "tool"}],
        messages=[{"role": "assistant", "tool_calls": [{}]}],
    )
    file = tmp_path / "log"
    inspect(sample)(file)
    [one] = read_logs([file]).observations
    assert (one.tokens_in, one.tokens_out, one.cost_usd, one.tool_calls) == (24, 4, 1.0, 2)
    assert one.problem == "a long question"


def test_a_log_file_is_named_in_one_text(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for written, meant in [
        ("{log}", ("", "{log}", "")),
        ("{log}#f1", ("", "{log}", "f1")),
        ("mine={log}", ("mine", "{log}", "")),
        ("mine={log}#f1,strict", ("mine", "{log}", "f1,strict")),
        ("{odd}", ("", "{odd}", "")),
        ("{odd}#f1", ("", "{odd}", "f1")),
        ("mine=gone#f1", ("mine", "gone", "f1")),
        ("gone", ("", "gone", "")),
    ]:
        with subtests.test(repr((written, meant))):
            places = {"log": tmp_path / "log.csv", "odd": tmp_path / "lr=1" / "a#b.csv"}
            places["odd"].parent.mkdir(exist_ok=True)
            for file in places.values():
                file.touch()
            log = LogFile.parse(written.format(**places))
            assert (log.arm, str(log.path), log.score) == tuple(part.format(**places) for part in meant)
