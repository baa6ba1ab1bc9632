"""Readers of tables: rows with task, arm and score; samples of lm-eval.

Rows are JSON lines, CSV or Parquet. lm-eval writes one line per document and filter, with its metrics
(`samples_TASK_DATE.jsonl`).
"""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from agentlearn.data.row import SourceRow
from agentlearn.errors import ConfigError, DataError
from agentlearn.measure.score_table import Observation
from agentlearn_evals.formats.log_file import (
    Content,
    LoggedRollout,
    LogReader,
    ParsedLog,
    Place,
    Span,
    abbreviate,
    as_text,
    is_empty,
    is_number,
    parse_texts,
    prompt_text,
    span,
)

COUNTS = ("tokens_in", "tokens_cached", "tokens_library", "tokens_out", "tool_calls")
"""Columns of whole numbers."""
NUMBERS = ("cost_usd", "seconds")
"""Columns of numbers."""
_TEXTS = ("cluster", "domain", "problem", "rollout")
"""Columns of text."""
_TIMEOUT = "timeout"
"""Status in foreign tables of a rollout that ran out of time. Nothing is known about its answer."""
_STARTED = "started_at"
"""Column that may hold when a rollout began: ISO 8601, or seconds since 1970."""
_RESPONSES = ("response", "completion", "output", "prediction")
"""Columns that may hold what the agent answered. Only whether it is empty is read."""
COLUMNS = tuple(Observation.model_fields)
"""Columns that are written. The reader also reads `model`, and may take another column as `score`."""


class PlainReader(LogReader):
    """Rows with task, arm and score."""

    name = "rows with task, arm and score"

    @staticmethod
    def matches(content: Content) -> bool:
        """Return whether the content has a `task` or a `score` column; missing columns are reported when reading."""
        return bool({"task", "score"} & set(content.columns))

    def read(self, content: Content) -> ParsedLog:
        """Read the rows. Raises DataError or ConfigError."""
        score, columns = self.log.score or "score", content.columns
        without = self._checked(content, score)
        # The column with the agent's responses, if some are filled in.
        names = [name for name in _RESPONSES if name in columns and name != score]
        response = next((name for name in names if any(not is_empty(row.fields.get(name)) for row in content.rows)), "")
        rollouts = tuple(self._rollout(row, score, response, numbered=not without) for row in content.rows)
        models, moments = dict[str, str](), dict[str, list[Any]]()
        for one, row in zip(rollouts, content.rows, strict=True):
            moments.setdefault(one.observation.arm, []).append(row.fields.get(_STARTED))
            if model := as_text(row.fields.get("model")):
                models[one.observation.arm] = model
        unread = [name for name in columns if name not in {*COLUMNS, "model", _STARTED, score}]
        notes = [f"{self.file}: columns not read: {', '.join(unread)}"] if unread else []
        if not content.ends_with_line:
            notes.append(f"{self.file}: the last line has no line end; if the file was cut, its last value is wrong")
        warnings, of = list[str](), f"of {len(rollouts):,} rows"
        fields = [row.fields for row in content.rows]
        if many := sum(bool(as_text(one.get("error"))) and not as_text(one.get("status")) for one in fields):
            warnings.append(
                f"{self.file}: {many:,} {of} have an error and no status, so they are undecided, whatever their score;"
                " write the status 'failed' where the agent gave no usable answer"
            )
        if fine := sum(one.observation.status == "ok" and bool(one.observation.error) for one in rollouts):
            warnings.append(f"{self.file}: {fine:,} {of} have an error and the status 'ok'; their scores count")
        return ParsedLog(
            rollouts,
            models,
            notes=tuple(notes),
            warnings=tuple(warnings),
            times={arm: ran for arm, all_moments in moments.items() if (ran := span(all_moments)) is not None},
        )

    def _checked(self, content: Content, score: str) -> list[SourceRow]:
        """Return the rows without `g`: all or none. Raises DataError or ConfigError for what the table lacks."""
        needed = ("task", score) if self.log.arm else ("task", "arm", score)
        if missing := [name for name in needed if name not in content.columns]:
            how = ", or name the arm: ARM=FILE" if missing == ["arm"] else ""
            known = ", ".join(map(repr, content.columns))
            words = f"{self.file} has no column {missing[0]!r} (it has {known}); add it{how}"
            raise DataError(words)
        arms = dict.fromkeys(as_text(row.fields.get("arm")) for row in content.rows)
        if self.log.arm and len(arms) > 1:
            raise ConfigError(
                f"{self.file} holds the arms {', '.join(map(repr, arms))}, so they cannot all be named"
                f" {self.log.arm!r}; leave the name out"
            )
        without = [row for row in content.rows if is_empty(row.fields.get("g"))]
        if without and len(without) < len(content.rows):
            raise DataError(f"{without[0].place} has no g, but other rows have one; fill it in, or remove the column")
        return without

    def _rollout(self, row: SourceRow, score: str, response: str, *, numbered: bool) -> LoggedRollout:
        fields, place = row.fields, Place(row.place)
        for name in ("task",) if self.log.arm else ("task", "arm"):
            if not as_text(fields.get(name)):
                words = f"{place} has {abbreviate(fields.get(name))} as {name}; fill it in"
                raise DataError(words)
        status, error, value = as_text(fields.get("status")), as_text(fields.get("error")), fields.get(score)
        found: float | None = None
        if status == _TIMEOUT or (error and not status):  # nothing is known about its answer
            status, error = "undecided", error or _TIMEOUT
        elif status == "failed" and is_empty(value):
            found = 0.0
        elif status != "undecided" or not is_empty(value):
            found = place.number(value, score)
        observation = place.observation(
            arm=self.log.arm or as_text(fields["arm"]),
            task=as_text(fields["task"]),
            g=place.optional_count(fields.get("g"), "g") or 0,
            score=found,
            status=status or "ok",
            error=error,
            tags=parse_texts(fields.get("tags")),
            **{name: as_text(fields.get(name)) for name in _TEXTS},
            **{name: place.optional_count(fields.get(name), name) for name in COUNTS},
            **{name: place.optional_number(fields.get(name), name) for name in NUMBERS},
        )
        empty = bool(response) and observation.status == "ok" and is_empty(fields.get(response))
        return LoggedRollout(place, observation, numbered=numbered, empty=empty)


_FILE = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?)")
_QUESTION_FIELDS = ("question", "problem", "query", "prompt")
_NO_FILTER = "none"
_INVALID = "[invalid]"
"""What lm-eval's filters give when they find no answer in a response."""


class LmEvalReader(LogReader):
    """Samples of lm-eval: the documents of one file under one metric and filter."""

    name = "samples of lm-eval"

    @staticmethod
    def matches(content: Content) -> bool:
        """Return whether the content has the columns of lm-eval's samples."""
        return {"doc_id", "metrics"} <= set(content.rows[0].fields if content.rows else ())

    def read(self, content: Content) -> ParsedLog:
        """Read the documents. Raises DataError or ConfigError."""
        log, file, named = self.log, self.file, _FILE.fullmatch(self.log.path.stem)
        task, date = (named["task"], named["date"]) if named else (log.path.stem, "")
        beside = log.path.with_name(f"results_{date}.json")  # written with the samples
        results = (Content.read(beside).document if date and beside.is_file() else None) or {}

        def of_task(name: str) -> Mapping[str, Any]:
            """Return what a field of the results says of the task; empty when it says nothing."""
            by_task = results.get(name)
            found = by_task.get(task) if isinstance(by_task, Mapping) else None
            return found if isinstance(found, Mapping) else {}

        model = as_text(results.get("model_name"))
        arm = log.arm or model or log.path.stem
        metric, filter_name = self._choose_metric(content.rows)
        directions = of_task("higher_is_better")
        if directions.get(metric) is False:
            raise DataError(
                f"in {file} a smaller {metric!r} is better, but compare needs a score where larger is better; choose"
                f" another metric ({json.dumps(list(directions))})"
            )
        chosen = [row for row in content.rows if row.fields.get("filter", _NO_FILTER) == filter_name]
        documents = len({as_text(row.fields.get("doc_id")) for row in chosen})
        planned = of_task("n-samples").get("effective")
        missing = isinstance(planned, int) and documents < planned
        unread = sum(row.fields.get("filtered_resps") in (_INVALID, [_INVALID]) for row in chosen)
        note = f"{file}: in {unread:,} of {len(chosen):,} responses the filter found no answer ({_INVALID})"
        ran = _ran(date, results)
        return ParsedLog(
            tuple(_document(row, arm, task, metric) for row in chosen),
            {arm: model} if model else {},
            notes=(note,) if unread else (),
            warnings=(f"{file}: only {documents:,} of {planned:,} documents are in the log",) if missing else (),
            times={} if ran is None else {arm: ran},
        )

    def _choose_metric(self, rows: Sequence[SourceRow]) -> tuple[str, str]:
        """Return the metric to use and its filter. Written `METRIC`, or `METRIC,FILTER` where there are several."""
        pairs: dict[tuple[str, str], None] = {}
        for row in rows:
            listed = row.fields.get("metrics")
            if not isinstance(listed, list):
                raise DataError(
                    f"{row.place} has {abbreviate(listed)} as 'metrics', not a list; write the samples again"
                )
            numbers = (name for name in map(str, listed) if is_number(row.fields.get(name)))
            pairs |= dict.fromkeys((name, as_text(row.fields.get("filter", _NO_FILTER))) for name in numbers)
        log, several = self.log, len({filter_name for _, filter_name in pairs}) > 1
        names = {f"{metric},{own}" if several else metric: (metric, own) for metric, own in pairs}
        if log.score and not several:
            log = log.model_copy(update={"score": log.score.partition(",")[0]})
        return names[log.choose(tuple(names))]


def _document(row: SourceRow, arm: str, task: str, metric: str) -> LoggedRollout:
    fields, listed, place = row.fields, row.fields.get("resps"), Place(row.place)
    responses: list[Any] | None = None  # one for each request and repeat; None when the row does not say
    if isinstance(listed, list):
        responses = [one for request in listed for one in (request if isinstance(request, list) else [request])]
    lost = responses is not None and all(one is None for one in responses)
    if metric not in fields and not lost:
        raise DataError(f"{place} has no {metric!r}; write the samples again")
    observation = place.observation(
        arm=arm,
        # With the hash, documents with the same id but other content are different tasks.
        task="/".join(filter(None, (task, as_text(fields.get("doc_id")), as_text(fields.get("doc_hash"))[:8]))),
        score=None if lost else place.number(fields[metric], f"metric {metric!r}"),
        status="undecided" if lost else "ok",
        error="no_response" if lost else "",
        domain=task,
        problem=_problem(fields),
        rollout=row.where,
    )
    empty = not lost and responses is not None and all(map(is_empty, responses))
    return LoggedRollout(place, observation, numbered=False, empty=empty)


def _problem(fields: Mapping[str, Any]) -> str:
    document = fields.get("doc")
    if isinstance(document, Mapping):
        question = next((document[name] for name in _QUESTION_FIELDS if isinstance(document.get(name), str)), None)
        if question is not None:
            return as_text(question)
    try:
        return prompt_text(fields["arguments"]["gen_args_0"]["arg_0"])
    except (KeyError, TypeError, IndexError):
        return ""


def _ran(date: str, results: Mapping[str, Any]) -> Span | None:
    """Return when the evaluation ran. The file's name says when it ended, and the results file how long it took."""
    day, _, clock = date.partition("T")
    ended = span([f"{day}T{clock.replace('-', ':')}"])
    took = as_text(results.get("total_evaluation_time_seconds"))
    seconds = float(took) if re.fullmatch(r"\d+(\.\d+)?", took) else 0.0
    return ended and (ended[0] - timedelta(seconds=seconds), ended[1])
