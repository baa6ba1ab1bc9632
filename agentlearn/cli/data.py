"""`agentlearn data`."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from agentlearn.cli.interrupt import run_async
from agentlearn.cli.options import JsonOption
from agentlearn.cli.output import print_result
from agentlearn.config import TASK_FILES, TaskOptions
from agentlearn.data import parse_columns
from agentlearn.data.check import ASSUMPTIONS, ROLLOUTS, AnswerRules, DataReport, check_source
from agentlearn.domain.base import Domain, load_domain
from agentlearn.domain.custom import CustomTasks, custom_tasks, default_reward, name_for
from agentlearn.errors import AgentlearnError, ConfigError, DataError, RolloutError
from agentlearn.types.ids import LibraryVersion, RolloutId, RunId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Treatment, Verdict

_LABEL = 11
_FAMILIES = 8
_FILES = 4
_REASONS = 8

_TEST_SHARE: float = TaskOptions.model_fields["test_share"].default


def data_check(
    source: Annotated[
        str,
        Parameter(
            help=f"A file ({', '.join(TASK_FILES)}; also as .jsonl.gz), a folder, hf:NAME, gym:TASK or harbor:DIR."
        ),
    ],
    /,
    *,
    domain: Annotated[str | None, Parameter(help="Installed domain that judges the answers. [default: math]")] = None,
    reward: Annotated[
        str | None, Parameter(help="How answers are judged without a domain, as in `learn --reward`.")
    ] = None,
    columns: Annotated[
        str | None, Parameter(help="Columns to read, such as 'problem=Body+Question answer=Answer choices=options'.")
    ] = None,
    test_share: Annotated[float, Parameter(help="Share of the tasks to hold out.")] = _TEST_SHARE,
    limit: Annotated[int | None, Parameter(help="Largest number of rows to check. [default: all]")] = None,
    json: JsonOption = False,
) -> None:
    """Check a source of tasks: what it holds, and whether every task can be used."""
    if not 0 <= test_share < 1:
        raise DataError(f"--test-share is {test_share!r}; give a share from 0 to below 1")
    if limit is not None and limit < 1:
        raise DataError(f"--limit is {limit!r}; give at least 1")
    if domain is not None and reward is not None:
        raise ConfigError(
            f"the domain {domain!r} and the reward {reward!r} cannot both judge; give one of --domain and --reward"
        )
    chosen = reward or (default_reward(source) if domain is None else None)
    judging = load_domain(domain or "math") if chosen is None else custom_tasks(name_for(source), chosen)
    if columns is not None:
        judging = judging.with_columns(parse_columns(columns))

    report = run_async(lambda: report_on(judging, source, test_share, limit))
    print_result({**report.model_dump(mode="json"), "sound": report.sound}, _lines(report), json=json)
    if not report.sound:
        count = report.unusable
        what = f"{count:,} of {report.rows:,} rows cannot be used" if count else "it holds no task"
        raise AgentlearnError(f"{source}: {what}", code="check_failed")


def data_split(
    source: Annotated[
        str,
        Parameter(help=f"A file ({', '.join(TASK_FILES)}; also packed), a folder, hf:NAME, gym:TASK or harbor:DIR."),
    ],
    /,
    *,
    into: Annotated[str, Parameter(help="The parts and their shares.")] = "train=0.7,validation=0.15,test=0.15",
    seed: Annotated[int, Parameter(help="Seed of the choice.")] = 0,
    columns: Annotated[
        str | None, Parameter(help="Columns to read, such as 'problem=Body+Question answer=Answer family=Topic'.")
    ] = None,
    out: Annotated[Path | None, Parameter(help="Folder of the new files. [default: that of the source]")] = None,
    json: JsonOption = False,
) -> None:
    """Split a source of tasks into files. Questions alike stay together, and no file is replaced."""
    from agentlearn.data import Columns
    from agentlearn.data.overlap import parse_parts, split_source

    chosen = Columns(chosen=None if columns is None else parse_columns(columns))
    parts = split_source(source, parse_parts(into), seed=seed, columns=chosen, out=out)
    width = max(len(one.name) for one in parts)
    lines = [f"  {one.name.ljust(width)}  {one.rows:,} rows in {one.groups:,} groups   {one.file}" for one in parts]
    plain = [{**asdict(one), "file": str(one.file)} for one in parts]
    print_result({"source": source, "seed": seed, "parts": plain}, lines, json=json)


async def report_on(domain: Domain, source: str, test_share: float, limit: int | None) -> DataReport:
    """The report. It is made in a thread, which asks the domain in this event loop, where its services run."""
    loop = asyncio.get_running_loop()
    async with domain.running() as opened:
        judged = _judged_by(
            opened, source, lambda task: asyncio.run_coroutine_threadsafe(_refusal(opened, task), loop).result()
        )
        return await asyncio.to_thread(check_source, source, judged, test_share=test_share, limit=limit)


def _judged_by(domain: Domain, source: str, accepts: Callable[[Task], str]) -> AnswerRules:
    """What the check needs to know of a domain."""
    return AnswerRules(
        domain=domain.name,
        accepts=accepts,
        unreadable=domain.unreadable_gold,
        gold=domain.answer_reader(source),
        key=lambda answer: domain.answer_key(answer) or answer,
        answer_required=domain.reward.needs_gold if isinstance(domain, CustomTasks) else True,
        columns=domain.data_columns(),
        start_and_path=domain.start_and_path,
    )


async def _refusal(domain: Domain, task: Task) -> str:
    """Why the verifier rejects the expected answer of a task; empty when it accepts it, or when asking costs money."""
    if task.answer is None or domain.uses_judge:
        return ""
    rollout = Trajectory(
        id=RolloutId(task.id),
        run=RunId("check"),
        phase="check",
        task=task.id,
        g=0,
        seed=0,
        treatment=Treatment(model="none", library=LibraryVersion("none")),
        answer=task.answer,
        started_at=datetime.now(UTC),
    )
    try:
        judged = domain.verify(task, rollout)
        verdict = judged if isinstance(judged, Verdict) else await judged
    except RolloutError as error:
        return f"the verifier cannot judge the answer {task.answer!r}: {error}"
    if verdict.reward is not None and verdict.reward >= domain.threshold:
        return ""
    return f"the verifier does not accept the expected answer {task.answer!r} ({verdict.reason or verdict.status})"


def _lines(report: DataReport) -> Iterator[str]:
    def line(label: str, words: str) -> str:
        return f"  {label.ljust(_LABEL)}{words}"

    def counts(counted: dict[str, int]) -> str:
        shown = ", ".join(f"{name} {count:,}" for name, count in list(counted.items())[:_FAMILIES])
        left = len(counted) - _FAMILIES
        return (f"{shown}, and {left:,} more" if left > 0 else shown) or "none"

    columns = ", ".join(f"{what} from {name!r}" for what, name in report.columns.items())
    yield line("source", f"{report.source}, {report.rows:,} rows")
    yield line("columns", columns or "none recognised")
    if report.ignored:
        yield line("", f"not read: {', '.join(map(repr, report.ignored))}")
    if report.passed_over:
        names, more = report.passed_over[:_FILES], len(report.passed_over) - _FILES
        yield line("files", f"not read: {', '.join(map(repr, names))}{f' and {more:,} more' if more > 0 else ''}")
    yield line(
        "tasks",
        f"{report.usable:,} usable, {report.repeated:,} repeated, {report.near_copies:,} near-copies,"
        f" {report.refused:,} refused, {report.unreadable:,} whose answer the verifier cannot read,"
        f" {report.unverifiable:,} whose answer it rejects",
    )
    for one in report.reasons[:_REASONS]:
        yield line("", f"{one.count:,}: {one.example}")
    if left := report.reasons[_REASONS:]:
        yield line("", f"{sum(one.count for one in left):,} for {len(left):,} more reasons; --json lists them all")
    yield line("answers", counts(report.kinds))
    if report.families:
        yield line("families", counts(report.families))
    yield line("split", f"{report.train:,} to learn from, {report.test:,} held out")
    if report.detectable is not None:
        alone = f"; {report.detectable_all:.2f} if all were held out" if report.detectable_all is not None else ""
        smallest = f"true differences of {report.detectable:.2f} or more"
        yield line("detects", f"{smallest}, with {ROLLOUTS} rollouts per task{alone}")
        yield line("", f"assumed: {ASSUMPTIONS}")
