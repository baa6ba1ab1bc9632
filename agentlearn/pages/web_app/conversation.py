"""The conversation of one attempt, in slices, with what was shown, what was judged, and what was learned from it."""

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentlearn.errors import AgentlearnError, ConfigError
from agentlearn.formats.export import to_atif
from agentlearn.pages.figure import Html, clipped, count, duration, element, joined, large, money, prose
from agentlearn.pages.records import end_words, operation_words
from agentlearn.pages.rollouts import feedback_words, stored_library, treatment_words, verdict_words
from agentlearn.pages.table import KeyFigures, keys
from agentlearn.pages.web_app.page import (
    Body,
    File,
    Page,
    View,
    answer_block,
    field_of,
    kind_of,
    link,
    row_of,
    text_block,
)
from agentlearn.pages.web_app.runs import mark_of, run_trail
from agentlearn.store.page_queries import PageQuery
from agentlearn.types.operation import Applied
from agentlearn.types.rendering import headline
from agentlearn.types.trajectory import TOOLS, Trajectory, prompt_labels

STEPS = 40
"""Steps in one slice."""
_SHOWN, _WHOLE = 6_000, 200_000
"""Characters of a step in the conversation, and on the page of one step."""
_READ_WHOLE = 500
"""Model calls up to which a whole conversation is searched for the lessons that it names."""
_FOLDED = 1_200
"""Characters from which a tool's result is folded."""
_SAFE = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Pictures that a browser shows and that run nothing."""
_DATA = re.compile(r"(?:data:[\w/+.-]+;base64,)?[A-Za-z0-9+/=]{2000,}")
"""Binary content in a text."""


def rollout_page(view: View, rollout: str) -> Page:
    """One attempt: the verdict and its reason first, then the conversation, then lessons and what came of it."""
    head = view.reader.head(rollout)
    run = view.reader.run(head.run)
    first = view.number("first")
    steps = steps_of(view, head.id, first)
    siblings = view.reader.rows(PageQuery.GRID_CELLS, head.run, head.phase, None, [head.task], 64)
    grid = view.to("run", head.run, "grid", phase=head.phase, task=head.task)
    body: list[Body] = [
        answer_parts(view, head),
        _figures(head),
        _near(view, head, siblings, grid),
        _lessons(view, head),
        element("h2", "The conversation", id="conversation"),
        *_sent(view, head),
        steps,
        element("h2", "What came of it"),
        *_learned(view, head),
        *_feedback(view, head),
    ]
    title = "A recorded answer" if run.kind == "live" else f"Attempt {head.g + 1} at a task, {head.phase}"
    trail = (*run_trail(view, run), ("Attempts", view.to("run", head.run, "grid", phase=head.phase)))
    return Page(title, tuple(body), trail, mark_of(run), piece=steps if first else None)


def answer_parts(view: View, head: Trajectory) -> Html:
    """The task, the answer, what was expected, and the verdict with its reason."""
    task = view.reader.tasks([head.task]).get(head.task)
    words = clipped(verdict_words(head), 1_500)
    tone = {"right": "good", "part": "held", "open": "open"}.get(kind_of(head.outcome, head.reward), "bad")
    rows = [("Verdict", element("span", words, class_=f"verdict {tone}"))]
    answer = "none" if head.answer is None else clipped(head.answer, 4_000)
    rows.append(("Answer", answer_block(answer, "short")))
    if task is not None:
        expected = "unknown" if task.answer is None else clipped(task.answer, 4_000)
        rows += [
            ("Expected", answer_block(expected, "short")),
            ("Task", answer_block(clipped(task.problem, 8_000), "short")),
        ]
        about = ("From", ", ".join(filter(None, (task.family, task.source)))), ("Starts at", clipped(task.start, 300))
        rows += [(name, element("span", text)) for name, text in about if text]
    return element("dl", *(joined(element("dt", name), element("dd", one)) for name, one in rows), class_="facts")


def _figures(head: Trajectory) -> KeyFigures:
    usage, took = head.usage, (duration(head.seconds), f"{head.started_at:%Y-%m-%d %H:%M:%S}")
    cached = f"{large(usage.tokens_cached)} of them cached" if usage.tokens_cached else ""
    tokens = ("Tokens in", large(usage.tokens_in), cached), ("Tokens out", large(usage.tokens_out), "")
    spent = ("Cost", money(head.cost_usd), ""), ("Time", *took)
    return keys("What it took", ("Model calls", count(usage.requests), ""), *tokens, *spent)


def _near(view: View, head: Trajectory, siblings: Sequence[Mapping[str, Any]], grid: str) -> Html:
    """The other attempts at the task, as cells."""
    cells = [view.cell(one, here=one["id"] == head.id) for one in siblings]
    place = [one["id"] for one in siblings]
    here = place.index(head.id) if head.id in place else -1
    other = next((one for one in siblings if one["reward"] is not None and one["reward"] != head.reward), None)
    side = view.to("pair", head.id, other["id"]) if other else ""
    atif = view.to("rollout", head.id, "atif.json")
    beside = [view.to("rollout", place[n]) if 0 <= n < len(place) and here >= 0 else "" for n in (here - 1, here + 1)]
    return element(
        "nav",
        row_of(*cells, kind="cells"),
        element("a", "← previous attempt", href=beside[0], rel="prev") if beside[0] else None,
        element("a", "next attempt →", href=beside[1], rel="next") if beside[1] else None,
        link("all of this task", grid) if grid else None,
        element("a", "beside one with another reward", href=side) if side else None,
        element("a", "save as ATIF", href=atif, download=True) if atif else None,
        class_="near",
        aria_label="Attempts at the same task",
    )


def _lessons(view: View, head: Trajectory) -> Html:
    """The lessons that the agent was shown, with those that its steps used first."""
    treatment = head.treatment
    library = stored_library(view.reader, treatment.library)
    words = treatment_words(treatment, None if library is None else len(library))
    if library is None or not len(library):
        return element("p", element("bdi", words), class_="quiet")
    labels = {one: label for label, one in library.render(masked=treatment.masked).labels.items()}
    used = {one for made in view.reader.summaries_of(head.id) for step in made.steps for one in step.used}
    short = head.usage.requests <= _READ_WHOLE
    named = {one["label"] for one in view.reader.rows(PageQuery.LABELS_NAMED, head.id)} if short else set[str]()
    used |= {one for one, label in labels.items() if label in named}
    shown = [
        one for one in library.experiences if one.id in labels and (head.offered is None or one.id in head.offered)
    ]
    shown.sort(key=lambda one: one.id not in used)
    items = [
        element(
            "li",
            element("b", f"{labels[one.id]} "),
            link(headline(one.lesson), view.to("lesson", one.id)),
            element("span", " cited", class_="mark") if one.id in used else None,
        )
        for one in shown[:200]
    ]
    withheld = element("span", " withheld", class_="mark")
    items += [
        element("li", link(headline(one.lesson), view.to("lesson", one.id)), withheld)
        for one in library.experiences
        if one.id in treatment.masked
    ][:50]
    cited = f", {len(used & {one.id for one in shown})} cited" if used else ""
    summary = element("summary", f"Lessons shown: {len(shown)}{cited}", element("span", words, class_="aside"))
    return element("details", summary, element("ul", *items, class_="plain"))


def _sent(view: View, head: Trajectory) -> Iterator[Html]:
    """The tools that the model was offered, folded."""
    hashes = [one.sha256 for one in head.prompts if one.name == TOOLS]
    try:
        tools = [tool for sha256 in hashes for tool in json.loads(view.reader.prompt(sha256))]
    except (AgentlearnError, ValueError):
        return
    names = ", ".join(str(tool.get("name")) for tool in tools)
    if tools:
        text = json.dumps(tools, indent=1, ensure_ascii=False)
        yield element(
            "details", element("summary", f"Tools offered: {clipped(names, 200)}"), text_block(clipped(text, _WHOLE))
        )
    prompts = tuple(one for one in head.prompts if one.name != TOOLS)
    if prompts:
        yield element("p", f"Prompts: {clipped(prompt_labels(prompts), 400)}", class_="quiet")


def steps_of(view: View, rollout: str, first: int, *, side: bool = False) -> Html:
    """A slice of the steps. Where more follow, it ends with a link that loads them when it is scrolled to.

    side: one of two conversations on a page, whose link opens the conversation itself.
    """
    reader = view.reader
    counted = reader.rows(PageQuery.COUNT_STEPS, rollout)[0]
    total = counted["n"]
    rows = reader.rows(PageQuery.STEPS, rollout, first, min(first + STEPS, total), _SHOWN) if first < total else []
    pictures: dict[int, list[Mapping[str, Any]]] = {}
    for one in reader.rows(PageQuery.PICTURES, rollout) if counted["pictured"] else ():
        pictures.setdefault(one["turn"], []).append(one)
    turns = reader.rows(PageQuery.TURNS_BEFORE, rollout, first)[0]["n"] if pictures and first else 0
    drawn: list[Html] = [_files(view, rollout, pictures.pop(0, []))] if pictures and not first else []
    for one in rows:
        if one["kind"] == "model":
            turns += 1
        drawn.append(_step(view, rollout, one))
        if one["kind"] == "model" and turns in pictures:
            drawn.append(_files(view, rollout, pictures[turns]))
    last = first + len(rows)
    if not total:
        drawn.append(element("p", "There are no steps: no model call was answered.", class_="quiet"))
    if last < total:
        words = f"Steps {last + 1:,} to {min(last + STEPS, total):,} of {total:,}"
        more = view.to("rollout", rollout, first=last)
        loads = {"hx_get": more, "hx_trigger": "revealed", "hx_swap": "outerHTML", "hx_target": "closest .more"}
        found = (
            element("a", words, href=more, **({} if side or not more else loads)) if more else element("span", words)
        )
        drawn.append(element("p", found, class_="more"))
    return joined(*drawn) if first and not side else element("div", *drawn, class_="steps")


def _step(view: View, rollout: str, one: Mapping[str, Any]) -> Html:
    """One step: who wrote it, and what."""
    number, kind = one["ordinal"], one["kind"]
    status = "" if one["ok"] else f" · {one['error'] or 'failed'}"
    finish = f" · {one['finish']}" if one["finish"] not in {"", "stop", "tool_call"} else ""
    who = f"tool {one['tool']}" if kind == "tool" else str(kind)
    took = f" · {duration(one['seconds'])}" if one["seconds"] >= 0.05 else ""
    name = element("a", f"{number + 1}", href=f"#step-{number + 1}", class_="number", aria_label=f"step {number + 1}")
    head = element("p", name, " ", element("b", clipped(who, 80)), f"{status}{finish}{took}", class_="who")
    parts: list[Html | None] = [head]
    if one["thinking"]:
        parts.append(element("details", element("summary", "Reasoning"), text_block(one["thinking"])))
    if one["text"]:
        parts.append(_text(one, tool=kind == "tool"))
    longer, plain = one["size"] > len(one["text"]), kind != "tool" and prose(one["text"]) != one["text"]
    if longer or plain:
        words = f"The whole text: {one['size']:,} characters" if longer else "The text as it was written"
        whole = link(words, view.to("rollout", rollout, "step", str(number)))
        parts.append(element("p", whole, class_="quiet"))
    for tool, arguments in zip(one["asked"] or (), one["arguments"] or (), strict=False):
        parts.append(element("p", "calls ", element("b", clipped(str(tool), 80)), class_="call"))
        parts.append(text_block(_program(str(arguments)), "code"))
    failed = "" if one["ok"] else " failed"
    return element("article", *parts, class_=f"step {kind}{failed}", id=f"step-{number + 1}", tabindex=-1)


def _text(one: Mapping[str, Any], *, tool: bool) -> Html:
    """The text of a step. Binary content in it, and a long result of a tool, which is as it was written, is folded."""
    pieces: list[Html | str] = []
    place = 0
    for found in _DATA.finditer(one["text"]):
        pieces.append(one["text"][place : found.start()])
        summary = element("summary", f"Binary content, {len(found[0]):,} characters")
        pieces.append(element("details", summary, element("span", found[0])))
        place = found.end()
    pieces.append(one["text"][place:])
    if len(pieces) > 1:
        return element("div", *pieces, dir="auto", class_="said")
    text = element("pre" if tool else "p", *pieces, dir="auto", class_="said")
    if not tool or len(one["text"]) <= _FOLDED:
        return text
    start = clipped(" ".join(one["text"][:200].split()), 100)
    summary = element("summary", element("bdi", start), element("span", f"{one['size']:,} characters", class_="aside"))
    return element("details", summary, text)


def _program(arguments: str) -> str:
    """The arguments of a call; a program as it was written."""
    try:
        given = json.loads(arguments)
    except ValueError:
        return arguments
    if isinstance(given, dict) and len(given) == 1 and isinstance(text := next(iter(given.values())), str):
        return text
    return json.dumps(given, indent=1, ensure_ascii=False)


def _files(view: View, rollout: str, found: Sequence[Mapping[str, Any]]) -> Html:
    """Pictures as pictures, other files by name, folded."""
    drawn: list[Html] = []
    for one in found:
        words = f"{one['media']}, {one['size']:,} bytes"
        address = view.to("rollout", rollout, "picture", str(one["n"])) if one["media"] in _SAFE else ""
        shown = (
            element("img", src=address, alt=words, loading="lazy") if address else element("p", f"{words}, not shown")
        )
        drawn.append(element("details", element("summary", words), shown, open=one["size"] < 2_000_000))
    return element("div", *drawn, class_="files")


def picture(view: View, rollout: str, number: str) -> File:
    """A picture of an attempt. Raises ConfigError for one that there is not."""
    wanted = int(number[:9]) if number.isdecimal() else 0
    found = view.reader.rows(PageQuery.PICTURE, view.reader.head(rollout).id, wanted)
    if not found or found[0]["media"] not in _SAFE:
        raise ConfigError(f"attempt {rollout[:40]!r} has no picture {number[:20]!r}", code="unknown_page")
    content = base64.b64decode(found[0]["body"].replace("-", "+").replace("_", "/") + "==")
    return File(content, found[0]["media"])


def atif_file(view: View, rollout: str) -> File:
    """The attempt in the Agent Trajectory Interchange Format. Raises ConfigError, DataError."""
    text = view.reader.text(rollout)
    content = json.dumps(to_atif(text), ensure_ascii=False).encode("utf-8", "replace")
    return File(content, "application/json", f"{text.id}.atif.json")


def step_page(view: View, rollout: str, number: str) -> Page:
    """The whole text of one step, in parts."""
    head, first = view.reader.head(rollout), view.number("first")
    wanted = int(number[:9]) if number.isdecimal() else 0
    found = view.reader.rows(PageQuery.STEP_TEXT, head.id, wanted, first + 1, _WHOLE)
    if not found or not found[0]["size"]:
        raise ConfigError(f"attempt {head.id[:12]!r} has no text in step {wanted + 1:,}", code="unknown_page")
    last, size = first + len(found[0]["text"]), found[0]["size"]
    more = link("next part →", view.here(first=last)) if last < size else None
    place = element("p", f"Characters {first + 1:,} to {last:,} of {size:,} ", more, class_="quiet")
    trail = ((f"attempt {head.id[:12]}", view.to("rollout", head.id)),)
    return Page(f"Step {wanted + 1:,}", (place, text_block(found[0]["text"])), trail)


def _learned(view: View, head: Trajectory) -> Iterator[Html]:
    """Summaries of the attempt, and the proposals that were made from it, with the lessons that they became."""
    reader = view.reader
    for summary in reader.summaries_of(head.id)[:5]:
        items = [element("li", element("bdi", step.text)) for step in summary.steps]
        words = element("summary", f"Summary made in run {summary.run[:12]}")
        yield element("details", words, element("ol", *items))
    rows = reader.proposals_from(head.id)[:40]
    items: list[Html] = []
    for row in rows:
        end, proposal = row.ended.end, row.ended.proposal
        made = end.experience if isinstance(end, Applied) else None
        words = operation_words(proposal.operation, proposal.raw, {})
        ended = element("span", clipped(f" {': '.join(filter(None, end_words(end)))}", 200), class_="quiet")
        items.append(element("li", link(words, view.to("lesson", made) if made else ""), ended))
    yield (
        element("ul", *items, class_="plain")
        if items
        else element("p", "No lesson was proposed from it.", class_="quiet")
    )


def _feedback(view: View, head: Trajectory) -> Iterator[Html]:
    """What was said about an attempt of live traffic, and the forms to say more."""
    said = view.reader.feedback(head.id)
    items = [
        element("li", element("bdi", feedback_words(one, lambda text: clipped(text, 1_000)))) for one in said[:100]
    ]
    if items:
        yield element("ul", *items, class_="plain")
    if view.reader.rows(PageQuery.RECORDER_OF, head.id):
        yield joined(*thumbs(view, head.id))


def thumbs(view: View, rollout: str) -> list[Html]:
    """Forms that say whether an answer was right, and what the right one is; none where nothing can be changed."""
    why = field_of("why", "Why (optional)")
    up = view.form("thumb", submit="✓ right", kind="good", rollout=rollout, reward="1")
    down = view.form("thumb", why, submit="✗ wrong", kind="bad", rollout=rollout, reward="0")
    demonstration = field_of("demonstration", "The right answer", rows=3, limit=20_000)
    right = view.form("demonstrate", demonstration, submit="Save the right answer", rollout=rollout)
    made = [one for one in (up, down, right) if one is not None]
    return [row_of(*made, kind="thumbs")] if made else []
