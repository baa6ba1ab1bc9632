"""Log formats: all give the same rollouts, are recognised by content, and report errors in one sentence."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.errors import ConfigError, DataError
from agentlearn_evals.formats import LogFile, log_file, read_logs
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
    [("inspect.eval", "toy/m"), ("lm-eval.jsonl", "lm-eval")],
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
    assert refused.value.code == "bad_data"
    assert str(refused.value) == (
        "1.jsonl line 1 is rollout 0 of task 't' in arm 'a', and so is 0.jsonl line 1; remove one of them, or give the"
        " arms different names: 'ARM=1.jsonl'"
    )


def test_the_same_log_twice_does_not_count_twice(tmp_path: Path) -> None:
    row = {"task": "t", "score": 1}
    files = [log_samples.write_lines(tmp_path / name, [row]) for name in ("one.jsonl", "other.jsonl")]
    with pytest.raises(DataError) as refused:
        read_logs(files, arm="a")
    assert refused.value.code == "bad_data"
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


ROW = {"task": "t", "arm": "a", "score": 1}

REFUSALS: list[tuple[str, str, str, str]] = [
    *cases(__file__, "refusals"),
    (
        *("digits without end", '{"task": "t", "arm": "a", "score": 1' + "0" * 5000 + "}", "bad_data"),
        "log cannot be read as JSON (a number has too many digits); write the log again",
    ),
    (
        *("nested without end", '{"a": ' + "[" * 200_000, "bad_data"),
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
    file = log_samples.FORMS["inspect.json"](tmp_path / "log")
    with pytest.raises(ConfigError) as refused:
        read_logs([LogFile(path=file, score="f1")])
    assert str(refused.value) == "log has no score 'f1' (it has 'match'); write one of them after the '#'"
    assert refused.value.code == "bad_config"


def test_one_name_for_several_arms_is_refused(tmp_path: Path) -> None:
    file = log_samples.write_lines(tmp_path / "log", [ROW, {**ROW, "arm": "b"}])
    with pytest.raises(ConfigError) as refused:
        read_logs([file], arm="mine")
    assert str(refused.value) == ("log holds the arms 'a', 'b', so they cannot all be named 'mine'; leave the name out")
    assert refused.value.code == "bad_config"


@pytest.mark.parametrize("form", ["plain.csv", "plain.jsonl", "plain.parquet", "inspect.json"])
def test_a_file_may_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    file = log_samples.FORMS[form](tmp_path / form)
    monkeypatch.setattr(log_file, "MOST_BYTES", 20)
    with pytest.raises(DataError) as refused:
        read_logs([file])
    assert refused.value.code == "bad_data"
    assert str(refused.value).endswith("; split it, or give its scores as CSV")


def test_a_table_may_not_have_rows_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = log_samples.plain_parquet(tmp_path / "log")
    monkeypatch.setattr(log_file, "MOST_ROWS", 4)
    assert len(read_logs([file]).observations) == 4
    monkeypatch.setattr(log_file, "MOST_ROWS", 3)
    with pytest.raises(DataError) as refused:
        read_logs([file])
    assert refused.value.code == "bad_data"


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
