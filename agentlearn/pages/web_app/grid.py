"""Attempts as coloured cells: the grid of a run, the flips of a comparison, two runs and two attempts side by side."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from agentlearn.pages.figure import Html, clipped, count, count_words, decimal, element, score_words, signed
from agentlearn.pages.page import Details
from agentlearn.pages.runs import command_of, result_words
from agentlearn.pages.table import Paragraph, Statement, TableCell, box, number_cells, sheet
from agentlearn.pages.web_app.conversation import answer_parts, steps_of
from agentlearn.pages.web_app.page import Body, Page, View, choices, legend, link, row_of
from agentlearn.pages.web_app.runs import mark_of, phase_names, report_of, run_tabs, run_trail
from agentlearn.store import RunRow
from agentlearn.store.page_queries import PageQuery

TASKS, CELLS = 60, 32
"""Tasks on one page, and attempts of a task in one part of the run."""
FILTERS = {"all": "all", "wrong": "any wrong", "all-wrong": "all wrong", "undecided": "undecided", "flipped": "changed"}


def grid_page(view: View, run_id: str) -> Page:
    """The tasks of a run and their attempts, in one part of the run or before and after."""
    run, reader = view.reader.run(run_id), view.reader
    found = reader.rows(PageQuery.PHASES, run.run)
    phases, names = [one["phase"] for one in found], phase_names(report_of(run), found)
    if not phases:
        empty = Paragraph(text="The run has no attempts yet.")
        return Page("Attempts", (run_tabs(view, run, "Attempts"), empty), run_trail(view, run), mark_of(run))
    two = ("before", "after") if {"before", "after"} <= set(phases) else None
    arms = [one for one in phases if one.startswith("compare")]
    if two is None and run.kind == "eval" and len(arms) > 1:
        base = report_of(run).get("baseline", "")
        arms.sort(key=lambda one: names[one] != base)
        two = arms[0], arms[1]
    parts = [*(["both"] if two else []), *phases]
    part = view.choice("phase", parts)
    left, right = two if part == "both" and two else (part, None)
    wanted, family = view.choice("show", tuple(FILTERS)), view.query.get("family", "")[:200]
    code, only, first = view.query.get("code", "")[:80], view.query.get("task", "")[:64], view.number("first")
    shown = (run.run, left, right, wanted, family or None, code)
    rows: list[dict[str, Any]]
    if only:
        rows = [
            {"task": only, "before": None, "after": None, "problem": _problem(view, only), "family": "", "total": 1}
        ]
    else:
        rows = reader.rows(PageQuery.GRID_TASKS, *shown, TASKS, first)
    members = defaultdict[tuple[str, str], list[dict[str, Any]]](list)
    for one in reader.rows(PageQuery.GRID_CELLS, run.run, left, right, [one["task"] for one in rows], CELLS):
        members[one["task"], one["phase"]].append(one)
    families = [
        (one["name"], f"{one['name'] or 'no family'} ({one['n']})") for one in reader.rows(PageQuery.FAMILIES, run.run)
    ]
    codes = [(one["name"], f"{one['name']} ({one['n']})") for one in reader.rows(PageQuery.UNDECIDED_CODES, run.run)]
    fields = [choices("phase", "Part", [(one, _part_words(one, two, names)) for one in parts], part)]
    filters = [item for item in FILTERS.items() if right or item[0] != "flipped"]
    fields.append(choices("show", "Tasks", filters, wanted))
    if len(families) > 1:
        fields.append(choices("family", "Family", [("", "any"), *families], family))
    if codes:
        fields.append(choices("code", "Undecided because", [("", "any cause"), *codes], code))
    sides = [left, right] if right else [left]
    table = _grid(view, run, rows, members, {side: names[side] for side in sides})
    total = rows[0]["total"] if rows else 0
    body: tuple[Body | None, ...] = (
        run_tabs(view, run, "Attempts"),
        view.question(*fields),
        legend(),
        table if rows else Paragraph(text="No task fits. Choose other tasks above."),
        view.pager(rows, total, size=TASKS),
    )
    watched = run.state == "running" and not first
    title = f"Attempts: {count_words(total, 'task')}"
    return Page(title, body, run_trail(view, run), mark_of(run), watched=watched)


def _task_words(one: Mapping[str, Any]) -> str:
    return clipped(one["problem"] or one["task"], 160)


def _problem(view: View, task: str) -> str:
    known = view.reader.tasks([view.reader.task(task).id])
    return next((one.problem for one in known.values()), "")


def _part_words(part: str, two: tuple[str, str] | None, names: Mapping[str, str]) -> str:
    if part == "both" and two:
        return f"{names[two[0]][:30]} and {names[two[1]][:30]}"
    part = names[part]
    return f"{part} (learned from)" if part.startswith("epoch") else part


def _grid(
    view: View,
    run: RunRow,
    rows: Sequence[Mapping[str, Any]],
    members: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]],
    sides: Mapping[str, str],
) -> Html:
    head = [element("th", "Task", scope="col")]
    for name in sides.values():
        head += [element("th", clipped(name, 40), scope="col"), element("th", "mean", scope="col", class_="num")]
    lines: list[Html] = []
    for row in rows:
        means = [row["before"], row["after"]]
        cells: list[Html] = []
        for side, mean in zip(sides, means, strict=False):
            found = members.get((row["task"], side), ())
            drawn = [view.cell(one) for one in found]
            more = found[0]["attempts"] - len(found) if found else 0
            rest = element("span", f"and {more:,} more", class_="quiet") if more > 0 else None
            cells.append(element("td", row_of(*drawn, rest, kind="cells")))
            known = [one["reward"] for one in found if one["reward"] is not None]
            value = mean if mean is not None else sum(known) / len(known) if known else None
            cells.append(element("td", score_words(value), class_="num"))
        task = view.to("run", run.run, "grid", phase=view.query.get("phase", ""), task=row["task"])
        name = element("th", link(_task_words(row), task), scope="row")
        lines.append(element("tr", name, *cells))
    content = element("table", element("thead", element("tr", *head)), element("tbody", *lines), class_="grid")
    return element("div", content, class_="scroll", role="region", aria_label="Tasks and attempts", tabindex=0)


def flips_page(view: View, run_id: str) -> Page:
    """The tasks on which the arms of a comparison differ, each with both conversations."""
    run, first = view.reader.run(run_id), view.number("first")
    side = view.choice("show", ("all", "lost", "won"))
    rows = view.reader.rows(PageQuery.FLIPS, run.run, side, TASKS, first)
    options = [("all", "lost and won"), ("lost", "lost"), ("won", "won")]
    counts = "; ".join(
        f"{one['arm']} against {one['baseline']}: {one['wins']:,} won, {one['losses']:,} lost, {one['ties']:,} even"
        for one in report_of(run).get("contrasts") or ()
    )
    body = (
        run_tabs(view, run, "Flips"),
        Statement(text=f"{counts}.") if counts else None,
        view.question(choices("show", "Tasks", options, side)),
        *_changed(
            view, "Tasks with different scores: the lost ones first, then the largest wins", "Baseline, #Arm", rows
        ),
    )
    return Page("Flips", body, run_trail(view, run), mark_of(run))


def _changed(view: View, caption: str, sides: str, rows: Sequence[Mapping[str, Any]]) -> tuple[Body | None, ...]:
    """Tasks with the scores of two sides, each with a link to both conversations. sides: names of the last columns."""
    lines: list[tuple[TableCell, ...]] = []
    for one in rows:
        both = one["before_rollout"], one["after_rollout"]
        name = _task_words(one)
        change = None if None in (one["before"], one["after"]) else one["after"] - one["before"]
        tone = "good" if change and change > 0 else "bad" if change and change < 0 else "plain"
        lines.append((
            box(name, one["sub"], view.to("pair", *both) if all(both) else ""),
            box(signed(change), value=change, tone=tone),
            *number_cells(decimal, one["before"], one["after"]),
        ))  # fmt: skip
    if not rows:
        return (Paragraph(text="There is no such task."),)
    table = sheet(caption, f"Task, #Difference, #{sides}", lines, "A task opens both conversations side by side.")
    return table, view.pager(rows, rows[0]["total"], size=TASKS)


def pair_page(view: View, one: str, other: str) -> Page:
    """Two conversations next to each other."""
    columns = [element("div", *_column(view, rollout), class_="column") for rollout in (one, other)]
    return Page("Two attempts side by side", (row_of(*columns, kind="columns"),))


def _column(view: View, rollout: str) -> list[Html]:
    head = view.reader.head(rollout)
    run = view.reader.run(head.run)
    words = f"{command_of(run)} {run.domain}, {head.phase}, attempt {head.g + 1}"
    name = element("h2", link(clipped(words, 80), view.to("rollout", head.id)))
    return [name, answer_parts(view, head), steps_of(view, head.id, 0, side=True)]


def two_runs_page(view: View) -> Page:
    """Two runs side by side: how each ended, the tasks that both have, and the settings that differ."""
    reader = view.reader
    runs = [reader.run(view.query.get(name, "")[:64] or reader.runs(1)[0].run) for name in ("a", "b")]
    found = [reader.rows(PageQuery.PHASES, run.run) for run in runs]
    named = [phase_names(report_of(run), phases) or {"": "nothing"} for run, phases in zip(runs, found, strict=True)]
    both = [one for one in ("after", "before", *named[0]) if all(one in names for names in named)]
    usual = [next(one for one in (*both, "after", *names) if one in names) for names in named]
    wanted = [view.query.get(f"phase_{side}", "")[:200] or usual[n] for n, side in enumerate("ab")]
    fields, lines, sides = list[Html](), list[tuple[TableCell, ...]](), ("First run", "Second run")
    for n, run in enumerate(runs):
        fields.append(choices(f"phase_{'ab'[n]}", f"Part of the {sides[n].lower()}", [*named[n].items()], wanted[n]))
        part = next((one for one in found[n] if one["phase"] == wanted[n]), {"mean": None, "rollouts": 0})
        words = f"{command_of(run)} {run.domain} {run.run[:12]}"
        lines.append((
            box(sides[n], words, view.to("run", run.run)), box(f"{run.started_at:%Y-%m-%d %H:%M}", run.model),
            box(result_words(run.report) or run.state), *number_cells(decimal, part["mean"]),
            *number_cells(count, part["rollouts"]),
        ))  # fmt: skip
    rows = reader.rows(
        PageQuery.SHARED_TASKS, runs[0].run, wanted[0], runs[1].run, wanted[1], TASKS, view.number("first")
    )
    body: list[Body | None] = [
        sheet("The runs", "Run, Started, Result, #Mean reward of the part, #Attempts", lines),
        view.question(*fields, a=runs[0].run, b=runs[1].run),
    ]
    if rows:
        change = (rows[0]["after_mean"] or 0) - (rows[0]["before_mean"] or 0)
        flipped = f"{count_words(rows[0]['flips'], 'task')} of {rows[0]['total']:,} that both runs have changed"
        note = "This is a plain difference of means. For a verdict with an interval, use agentlearn compare."
        body += [Statement(text=f"{flipped}, by {signed(change)} on average."), Paragraph(text=note, quiet=True)]
        body += _changed(view, "Shared tasks, the most changed first", "First run, #Second run", rows)
    else:
        body.append(Statement(text="The two runs share no task in these parts. Choose other parts above."))
    made = [one for run in runs if isinstance(one := report_of(run).get("library"), dict)]
    if len(made) == 2 and made[0]["name"] == made[1]["name"]:
        versions = {"before": made[0]["version"], "after": made[1]["version"]}
        address = view.to("library", made[0]["name"], "diff", **versions)
        body.append(element("p", link("What differs between the lessons that they made", address)))
    if differ := _settings_that_differ(runs):
        cells = tuple(tuple(box(clipped(text, 300)) for text in row) for row in differ)
        table = sheet("Settings", "Setting, First run, Second run", cells)
        summary = f"What was set differently: {count_words(len(differ), 'setting')}"
        body.append(Details(summary=summary, parts=(table,), unfolded=len(differ) < 10))
    return Page("Two runs side by side", tuple(body), (("Runs", view.to("runs")),))


def _settings_that_differ(runs: Sequence[RunRow]) -> list[tuple[str, str, str]]:
    settings: list[dict[str, Any]] = [json.loads(run.settings or "{}") for run in runs]
    settings = [{"kind": run.kind, "model": run.model, **given} for run, given in zip(runs, settings, strict=True)]
    names = dict.fromkeys((*settings[0], *settings[1]))
    pairs = [(name, *(json.dumps(one.get(name), ensure_ascii=False) for one in settings)) for name in names]
    return [(name, one, other) for name, one, other in pairs if one != other]
