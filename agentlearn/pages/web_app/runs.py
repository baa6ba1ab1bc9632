"""Pages about runs: the list, one run, what the reflector was asked and replied, the report, what it cost."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from agentlearn.errors import ConfigError
from agentlearn.learning.report import FIRST_LESSONS, VersionLine
from agentlearn.pages.charts import Bar, BarGroup, Bars
from agentlearn.pages.figure import (
    TONES,
    Html,
    Tone,
    count,
    count_words,
    decimal,
    duration,
    element,
    fold,
    interval,
    large,
    money,
    signed,
)
from agentlearn.pages.groups import reply_text
from agentlearn.pages.learn_page import LearnPage, versions_table
from agentlearn.pages.learn_record import LearnRecord
from agentlearn.pages.lines import LineChart, Point, Series
from agentlearn.pages.page import HtmlPage
from agentlearn.pages.runs import PAGES, RunRecord, command_of, end_reason, held_out_verdict, next_step, result_words
from agentlearn.pages.table import (
    CodeBlock,
    KeyFigures,
    Note,
    Paragraph,
    Statement,
    Table,
    TableCell,
    box,
    keys,
    number_cells,
    sheet,
)
from agentlearn.pages.train_page import TrainPage
from agentlearn.pages.web_app.page import Body, Page, View, choices, link, of_report, tabs, text_block
from agentlearn.plugins import announced, load
from agentlearn.store import RunRow
from agentlearn.store.page_queries import PageQuery
from agentlearn.train.report import TrainReport
from agentlearn.train.settings import TrainSettings
from agentlearn.types.experience import EMPTY_LIBRARY

RUNS, CALLS, COSTS = 50, 50, 200
"""Rows on one page."""
_TONES: dict[str, Tone] = {"done": "plain", "running": "held", "failed": "bad", "interrupted": "open"}


def mark_of(run: RunRow) -> str:
    """The label of a run's figures."""
    return "simulated" if run.simulated else "lab model" if run.model.startswith("lab:") else ""


def report_of(run: RunRow) -> dict[str, Any]:
    """The report as JSON; empty for a run without one."""
    return json.loads(run.report) if run.report else {}


def runs_page(view: View) -> Page:
    """All runs, newest first."""
    first, total = view.number("first"), view.reader.rows(PageQuery.COUNT_RUNS)[0]["n"]
    rows = view.reader.runs_between(first, RUNS)
    cells: list[tuple[TableCell, ...]] = []
    for run in rows:
        report = report_of(run)
        before, after = (report.get(side, {}).get("mean") for side in ("before", "after"))
        change = "" if before is None else f"{decimal(before)} → {decimal(after)}"
        found = (
            box(f"{command_of(run)} {run.domain}", sub=run.run[:12], href=view.to("run", run.run)),
            box(f"{run.started_at:%Y-%m-%d %H:%M}", value=run.started_at.timestamp()),
            box(run.state, tone=_TONES.get(run.state, "plain")),
            box(result_words(run.report) or "–", sub=change),
            box(run.model, sub=mark_of(run)),
            box(money(report.get("cost_usd")) if report else "–", value=report.get("cost_usd")),
            box(duration(report.get("wall_s")), value=report.get("wall_s")),
        )
        cells.append(found)
    if not rows:
        return Page("Runs", (Paragraph(text="There are no runs in this store yet. Start with: agentlearn learn math"),))
    pairs = [(one.run, f"{command_of(one)} {one.domain}, {one.started_at:%d %b %H:%M}, {one.run[:8]}") for one in rows]
    body = (
        sheet("Newest first", "Run, Started, *State, Result, *Model, Cost, Time", cells),
        view.pager(rows, total, size=RUNS),
        _two(view, pairs) if len(pairs) > 1 and view.to("two") else None,
    )
    return Page("Runs", body, watched=any(one.state == "running" for one in rows))


def _two(view: View, pairs: Sequence[tuple[str, str]]) -> Html:
    """A form that puts two runs beside each other."""
    alike = [run for run, words in pairs[1:] if words.split(",")[0] == pairs[0][1].split(",")[0]]
    fields = (
        choices("a", "First run", pairs, alike[0] if alike else pairs[1][0]),
        choices("b", "Second run", pairs, pairs[0][0]),
    )
    return view.question(*fields, submit="Put beside each other", to="two")


def run_tabs(view: View, run: RunRow, current: str) -> Html:
    """Links to the pages of one run."""
    return tabs(
        ("Overview", view.to("run", run.run)),
        ("Attempts", view.to("run", run.run, "grid")),
        ("Flips", view.to("run", run.run, "flips") if run.kind == "eval" else ""),
        ("Stages", view.to("run", run.run, "stages") if run.kind == "learn" else ""),
        ("Cost", view.to("cost", run=run.run)),
        ("Report", view.to("run", run.run, "report") if run.report and run.kind in {"learn", "train", "eval"} else ""),
        current=current,
    )


def run_trail(view: View, run: RunRow) -> tuple[tuple[str, str], ...]:
    """The pages above a page about a run."""
    return ("Runs", view.to("runs")), (f"{command_of(run)} {run.domain} {run.run[:12]}", view.to("run", run.run))


def run_page(view: View, run_id: str) -> Page:
    """One run: how it ended, from what to what, its curve and versions, and where its calls went."""
    run, reader = view.reader.run(run_id), view.reader
    report = report_of(run)
    verdict = result_words(run.report).strip()
    words = f"{verdict[:1].upper()}{verdict[1:]}." if verdict else f"The run is {run.state}."
    if (sentence := (report.get("delta") or {}).get("sentence", "")) or report.get("contrasts"):
        words = sentence[:1].upper() + sentence[1:] or " ".join(one["sentence"] for one in report["contrasts"])
    body: list[Body | None] = [run_tabs(view, run, "Overview"), Statement(text=words, tone=_tone(report))]
    if reason := end_reason(reader, run):
        body.append(Note(text=reason, kind="warning", title=f"The run is {run.state}"))
    phases = reader.rows(PageQuery.PHASES, run.run)
    body += _learned(view, run, report)
    body.append(_figures(run, report, phases))
    body += _curves(report)
    if versions := report.get("versions") if run.kind == "learn" else ():
        address = partial(_version, view, report["library"]["name"])
        body.append(versions_table([VersionLine.model_validate(one) for one in versions], address))
    if phases:
        body.append(_phases(view, run, phases, phase_names(report, phases)))
    totals = reader.stage_totals(run.run)
    if len(totals) > 1:
        bars = tuple(Bar(label=one.stage, value=one.calls, words=count(one.calls)) for one in totals)
        body.append(Bars(caption="Where the model calls went", groups=(BarGroup(label="Calls by stage", bars=bars),)))
    body.append(CodeBlock(text=next_step(reader, run), label="Next"))
    settings = json.dumps(json.loads(run.settings or "{}"), indent=2, ensure_ascii=False)
    body.append(fold("Settings", text_block(settings)))
    title = f"{command_of(run)} {run.domain} with {run.model}"
    trail = run_trail(view, run)[:1]
    return Page(title, tuple(body), trail, mark_of(run), watched=run.state == "running")


def _tone(report: Mapping[str, Any]) -> Any:
    delta = report.get("delta") or next(iter(report.get("contrasts") or ()), None) or {}
    return "open" if delta.get("withheld") or delta.get("left_open") else TONES.get(delta.get("verdict", ""), "plain")


def _figures(run: RunRow, report: Mapping[str, Any], phases: list[dict[str, Any]]) -> KeyFigures:
    figures = [("State", run.state, f"started {run.started_at:%Y-%m-%d %H:%M}")]
    for side in (one for one in ("before", "after") if report.get(one)):
        score, ends = report[side], report[side].get("ci") or (None, None)
        figures += [(side.capitalize(), decimal(score.get("mean")), interval(*ends))]
    for arm in report.get("arms") or ():
        figures += [(arm["arm"], decimal(arm["score"]), count_words(arm["tasks"], "task"))]
    if delta := report.get("delta"):
        given = {name: delta.get(name) or "" for name in ("withheld", "left_open")}
        change = f"{signed(delta['mean'])} {interval(*(delta['ci'] or (None, None)), sign=True)}".strip()
        figures.append(("Verdict", held_out_verdict(delta["verdict"], **given, ci=delta["ci"]), change))
    undecided, spent = sum(one["undecided"] for one in phases), [one["cost_usd"] for one in phases]
    cost = report["cost_usd"] if "cost_usd" in report else sum(spent) if None not in spent else None
    rollouts = count(sum(one["rollouts"] for one in phases))
    figures.append(("Attempts", rollouts, f"{undecided:,} undecided" if undecided else ""))
    took = duration(report.get("wall_s") or (run.at - run.started_at).total_seconds())
    return keys("The run in numbers", *figures, ("Cost", money(cost), ""), ("Time", took, ""))


def _curves(report: Mapping[str, Any]) -> list[Body]:
    """The curve of the run, by update, version or epoch, as far as it has one."""
    series: list[Series] = []
    if curve := report.get("curve"):
        series.append(Series(label="measured", points=tuple(map(_held_out, curve))))
    if len(epochs := report.get("epochs") or ()) > 1:
        points = tuple(Point(x=one["epoch"], y=one["reward"]) for one in epochs)
        series.append(Series(label="learned from, by epoch", points=points))
    if isinstance(updates := report.get("updates"), list):
        points = tuple(Point(x=one["update"], y=one["reward"]) for one in updates[:: len(updates) // 400 + 1])
        series.append(Series(label="tasks learned from", points=points))
    x_name = "epoch" if series and series[0].label.startswith("learned") else "updates"
    chart = LineChart(caption="Reward during the run", x_name=x_name, y_name="reward", series=tuple(series))
    return [chart] if series else []


def _held_out(point: Mapping[str, Any]) -> Point:
    """A point of the curve of a run, or of the versions in a comparison."""
    score = point.get("held_out") or point
    low, high = score.get("ci") or (score.get("low"), score.get("high"))
    return Point(
        x=point.get("updates", point.get("step", 0)), y=score.get("mean", score.get("score")), low=low, high=high
    )


def _version(view: View, name: str, version: str) -> str:
    """The address of a version; empty for that without lessons."""
    return view.to("library", name, at=version) if version != EMPTY_LIBRARY.version else ""


def _learned(view: View, run: RunRow, report: Mapping[str, Any]) -> list[Body]:
    """The library that a run made, why, and the lessons that rest on the most rollouts."""
    library, lessons = report.get("library"), report.get("lessons") or ()
    if not isinstance(library, dict) or run.kind != "learn":
        return []
    reason = (report.get("selection") or {}).get("reason", "")
    words = f"library {library['name']}@{library['version'][:8]}, {count_words(library['lessons'], 'lesson')}"
    made = link(words, _version(view, library["name"], library["version"]))
    shown = [element("li", link(one["lesson"], view.to("lesson", one["id"]))) for one in lessons[:FIRST_LESSONS]]
    if more := len(lessons) - len(shown):
        shown.append(element("li", f"and {more:,} more, which rest on fewer attempts", class_="quiet"))
    why = element("p", made, f". {reason[:1].upper()}{reason[1:]}" if reason else "", class_="prose")
    return [why, element("ul", *shown, class_="plain")] if shown else [why]


def phase_names(report: Mapping[str, Any], phases: list[dict[str, Any]]) -> dict[str, str]:
    """What the parts of a run are called: of a comparison, the arm with that library, where only one has it."""
    arms: dict[str, list[str]] = {}
    for arm in report.get("arms") or ():
        arms.setdefault(arm.get("library") or EMPTY_LIBRARY.version, []).append(arm["arm"])
    names: dict[str, str] = {}
    for one in phases:
        found = arms.get(one["library"], []) if one["phase"].startswith("compare") else []
        names[one["phase"]] = found[0] if len(found) == 1 else one["phase"]
    return names


def _phases(view: View, run: RunRow, phases: list[dict[str, Any]], names: Mapping[str, str]) -> Table:
    rows = tuple(
        (
            box(names[one["phase"]], href=view.to("run", run.run, "grid", phase=one["phase"])),
            *number_cells(count, one["tasks"], one["rollouts"]),
            *number_cells(decimal, one["mean"]),
            *number_cells(count, one["failed"], one["undecided"]),
            *number_cells(money, one["cost_usd"]),
        )
        for one in phases
    )
    return sheet("Parts of the run", "Part, #Tasks, #Attempts, #Mean reward, #Failed, #Undecided, #Cost", rows)


def stages_page(view: View, run_id: str) -> Page:
    """The calls of a run's reflector, in order of time."""
    run, first = view.reader.run(run_id), view.number("first")
    stage = view.query.get("stage", "")[:40]
    rows = view.reader.rows(PageQuery.CALLS_PAGE, run.run, stage or None, CALLS, first)
    named = [one.stage for one in view.reader.stage_totals(run.run) if one.stage != "rollout"]
    cells: list[tuple[TableCell, ...]] = []
    for one in rows:
        parts = one["unit"].split("/")
        about = f"{parts[0]}, batch {parts[1]}" if len(parts) > 1 else one["unit"]
        task = f"task {parts[2][:8]}" if len(parts) > 2 and len(parts[2]) == 32 else "/".join(parts[2:])
        found = (
            box(one["stage"], sub=one["name"], href=view.to("run", run.run, "call", one["id"])),
            box(about, sub=task),
            box("answered" if one["ok"] else "failed", tone="plain" if one["ok"] else "bad"),
            *number_cells(large, one["tokens_in"], one["tokens_out"]),
            *number_cells(money, one["cost_usd"]),
            *number_cells(duration, one["seconds"]),
        )
        cells.append(found)
    ask = view.question(choices("stage", "Stage", [("", "all"), *((one, one) for one in named)], stage))
    table = sheet("Calls of the reflector", "Call, About, End, #Tokens in, #Tokens out, #Cost, #Time", cells)
    body = (run_tabs(view, run, "Stages"), ask, table, view.pager(rows, rows[0]["total"] if rows else 0, size=CALLS))
    return Page("What the reflector was asked", tuple(body), run_trail(view, run), mark_of(run))


def call_page(view: View, run_id: str, call_id: str) -> Page:
    """One call of the reflector: the prompt that it was asked with, what it was about, and its reply."""
    run, reader = view.reader.run(run_id), view.reader
    found = next((one for one in reader.rows(PageQuery.CALL, run.run, call_id)), None)
    if found is None:
        raise ConfigError(f"run {run.run!r} has no call {call_id[:40]!r}", code="unknown_page")
    step, _, rest = found["unit"].rpartition("/") if found["stage"] == "summarise" else (found["unit"], "", "")
    phase, batch, *task = step.split("/")
    if found["stage"] == "summarise":
        cells = reader.rows(PageQuery.GRID_CELLS, run.run, phase, None, task[:1], 64)
        rollouts = [one["id"] for one in cells if str(one["g"]) == rest]
    else:
        made = [
            one.ended.proposal for one in reader.proposals(run.run) if (one.phase, str(one.batch)) == (phase, batch)
        ]
        mine = [one for one in made if one.stage == found["stage"] and one.task in {None, *(task or (one.task,))}]
        rollouts = list(dict.fromkeys(rollout for one in mine for rollout in one.evidence))
    tokens = f"{large(found['tokens_in'])} → {large(found['tokens_out'])}"
    spent = ("Cost", money(found["cost_usd"]), duration(found["seconds"]))
    links = [element("li", link(f"attempt {one[:12]}", view.to("rollout", one))) for one in rollouts[:40]]
    group = view.to("run", run.run, "grid", phase=phase, task=task[0]) if task else ""
    body: tuple[Body | None, ...] = (
        run_tabs(view, run, "Stages"),
        keys("The call", ("Stage", found["stage"], f"{phase}, batch {batch}"), ("Tokens", tokens, ""), spent),
        element("h2", "The reply"),
        text_block(reply_text(found["response"]) or "The reply is empty."),
        element("h2", "What it read"),
        element("p", link("All attempts at the task", group)) if group else None,
        element("ul", *links, class_="plain"),
        element("h2", "The prompt"),
        text_block(reply_text(reader.asked(found["id"])) or "The prompt was not stored."),
    )
    trail = (*run_trail(view, run), ("Stages", view.to("run", run.run, "stages")))
    return Page(f"{found['stage'].capitalize()}: prompt and reply", body, trail, mark_of(run))


def report_page(view: View, run_id: str) -> Page:
    """The report of a learn run, a training run or a comparison."""
    run = view.reader.run(run_id)
    if not run.report:
        raise ConfigError(f"run {run.run!r} has no report, because it is {run.state!r}")
    content = _content(view, run)
    body = (run_tabs(view, run, "Report"), *of_report(content))
    return Page(content.title, body, run_trail(view, run), content.mark)


def _content(view: View, run: RunRow) -> HtmlPage:
    if run.kind == "learn":
        return LearnPage(LearnRecord.read(view.reader, run)).content()
    if run.kind == "train":
        settings = TrainSettings.model_validate_json(run.settings)
        return TrainPage(TrainReport.model_validate_json(run.report), settings).content()
    plugin = announced(PAGES).get(run.kind)
    made = load(plugin, "page") if plugin is not None else None
    content = made(run) if callable(made) else None
    if isinstance(content, HtmlPage):
        return content
    lines = "\n".join(str(line) for line in RunRecord.read(view.reader, run.run).main_lines)
    return HtmlPage(title=f"{command_of(run)} {run.domain}", front=(CodeBlock(text=lines or "no report"),))


def cost_page(view: View) -> Page:
    """What model calls cost, by day, run and stage."""
    first, run = view.number("first"), view.query.get("run", "")[:40]
    known = view.reader.run(run) if run else None
    rows = view.reader.rows(PageQuery.COSTS, known.run if known else None, COSTS, first)
    cells = tuple(
        (
            box(_day(one["day"]), value=one["day"]),
            box(one["run"][:12], href=view.to("run", one["run"])),
            box(one["stage"]),
            *number_cells(count, one["calls"]),
            *number_cells(large, one["tokens_in"], one["tokens_out"]),
            box(money(one["cost_usd"]), value=one["cost_usd"],
                sub=f"{one['unpriced']:,} calls without a known price" if one["unpriced"] else "",
            ),
        )
        for one in rows
    )  # fmt: skip
    names = "*Day, *Run, *Stage, #Calls, #Tokens in, #Tokens out, #Cost"
    body: list[Body | None] = [run_tabs(view, known, "Cost") if known else None]
    if rows:
        spent = ("Known cost", money(rows[0]["all_usd"]), ""), ("Model calls", count(rows[0]["all_calls"]), "")
        body.append(keys("In all", *spent, ("Tokens", large(rows[0]["all_tokens"]), "")))
    body.append(sheet("Cost by day, run and stage", names, cells))
    body.append(view.pager(rows, rows[0]["total"] if rows else 0, size=COSTS))
    return Page("Cost", tuple(body), run_trail(view, known) if known else ())


def _day(number: int) -> str:
    return f"{datetime.fromtimestamp(number * 86_400, UTC):%Y-%m-%d}"
