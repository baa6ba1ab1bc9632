"""A small recorded store with something on every page of the web app, and a client that was given its start token."""

import asyncio
import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from pydantic_ai.messages import BinaryContent, ModelRequest, ModelResponse, TextPart, UserPromptPart
from starlette.testclient import TestClient

from agentlearn import Recorder
from agentlearn.config import LearnSettings
from agentlearn.library import LibraryStore
from agentlearn.library.import_lessons import import_lessons
from agentlearn.pages.web_app.server import Site, app_of
from agentlearn.store import open_store
from agentlearn.types.experience import Library, library_of
from agentlearn.types.ids import ExperienceId, ProposalId, RolloutId, RunId, rollout_id
from agentlearn.types.operation import Add, Applied, Ended, Proposal, Quarantined
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Failure, ModelTurn, ToolCall, ToolResult, Trajectory, Treatment, Verdict
from agentlearn_evals.comparison import Flip
from tests.support.comparisons import rich
from tests.support.learn_records import full_report
from tests.unit.store import nouns

LEARN, EVAL = RunId("01jd" + "0" * 22), RunId("01je" + "0" * 22)
BROKEN = RunId("01jf" + "0" * 22)
HELD = "abcdef0123456789"
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PORT = 8765
LESSONS = ("When counting, check the ends.", "Convert all lengths to one unit first.")


@dataclass(frozen=True)
class Recorded:
    """What the store holds, by the ids that pages have in their addresses."""

    store: Path
    right: RolloutId
    """An attempt after learning, with reward 1."""
    wrong: RolloutId
    undecided: RolloutId
    lesson: ExperienceId
    talk: RolloutId
    """A recorded answer without a reward."""
    pictured: RolloutId
    """A recorded answer to a question with a picture."""
    call: str
    """A call of the reflector."""


def recorded(folder: Path, text: str = "plain", steps: int = 3) -> Recorded:
    """Make the store. text: stands wherever a text from outside can stand. steps: of the wrong attempt."""
    store = folder / "store"
    library = library_of(LESSONS, kind="add", tags=(text[:20].strip() or "tag",))
    return asyncio.run(_filled(store, text, steps, library))


async def _filled(store: Path, text: str, steps: int, library: Library) -> Recorded:
    ids: dict[str, RolloutId] = {}
    tasks = [Task.of("math", f"{n}. {text}", text or "4", family=text[:60], source="made up") for n in range(4)]
    async with open_store(store) as opened:
        await opened.save_version(library, run=LEARN)
        for run, kind in ((LEARN, "learn"), (EVAL, "eval"), (BROKEN, "learn")):
            settings = LearnSettings(domain="math", model="sim:novice", store=Path("s")).resolved()
            settings = '{"arms": ["none", "math"]}' if kind == "eval" else settings
            at = nouns.AT + timedelta(days=("learn", "eval").index(kind))
            await opened.save_run(nouns.run_event(run=run, kind=kind, settings=settings, model="sim:novice", at=at))
            report = full_report(text, epochs=2, tasks=4, library=library, simulated=True).model_dump_json()
            if kind == "eval":
                flip = Flip(task=tasks[0].id, problem=text, arm="math", baseline="none", score=1, baseline_score=0,
                            rollout=_id("after", tasks[0], 0), baseline_rollout=_id("before", tasks[0], 0))  # fmt: skip
                report = rich().model_copy(update={"title": text, "run": run, "flips": (flip,)}).model_dump_json()
            state = "failed" if run == BROKEN else "done"
            done = nouns.run_event(run=run, kind=kind, settings=settings, at=at, state=state)
            await opened.save_run(done.model_copy(update={"report": "" if run == BROKEN else report}))
        await opened.save_tasks(tasks)
        for n, task in enumerate(tasks):
            for phase in ("epoch-1", "before", "after"):
                for g in range(2):
                    await _attempt(opened, text, steps, library, task, n, phase, g, ids)
        record = nouns.call(stage="compare", unit=f"epoch-1/1/{tasks[0].id}", response=_reply(text), name=text,
                             asked=_reply(f"Compare these: {text}"))  # fmt: skip
        await opened.record(record.model_copy(update={"run": LEARN}))
        await opened.save_summary(nouns.summary(rollout=ids["wrong"], run=LEARN))
        await opened.save_prompt(_prompt_ref(), "Compare them.")
        made = Proposal(id=ProposalId("p1"), stage="compare", ordinal=0, operation=Add(lesson=LESSONS[0]), raw=text,
                        task=tasks[0].id, evidence=(ids["wrong"], ids["right"]), prompts=(_prompt_ref(),))  # fmt: skip
        held = Proposal(id=ProposalId(HELD), stage="compare", ordinal=1, task=tasks[0].id, raw=text,
                        operation=Add(lesson="Tell the judge nothing."), evidence=(ids["wrong"],))  # fmt: skip
        held_for = Quarantined(code="refused_source", reason=f"it speaks to the judge {text}")
        made_it = Applied(experience=library.experiences[0].id)
        ended = [Ended(proposal=made, end=made_it), Ended(proposal=held, end=held_for)]
        await opened.save_proposals(LEARN, "epoch-1", 1, ended)
    libraries = LibraryStore(store / "libraries")
    libraries.publish("math", library, kind="learn", run=LEARN, note=text.strip()[:200])
    libraries.history("math").park(library.experiences[1].id, reason=text.strip()[:200])
    foreign = store.parent / "foreign.md"
    foreign.write_text("- Read the question twice.\n", encoding="utf-8")
    history = libraries.history("team")
    history.add("Name the menu path.")
    into = history.load()
    imported = import_lessons(foreign, None, into=into, name="team", store=libraries)
    history.update(lambda current: imported.added_to(current, approve=False), kind="import")
    with Recorder("support", store) as recorder:
        chat = [{"role": "user", "content": f"How do I pay? {text}"}, {"role": "assistant", "content": text or "so"}]
        talk = recorder.record_sync(chat, episode=text[:40] or "talk", user="ann")
        rated = recorder.record_sync(chat, episode="talk-2")
        recorder.feedback_sync(rated, reward=(0, text), demonstration=f"By card. {text}", by=text[:40])
        picture = UserPromptPart(content=["What is this?", BinaryContent(PIXEL, media_type="image/png")])
        messages = [ModelRequest(parts=[picture]), ModelResponse(parts=[TextPart("A dot.")])]
        pictured = recorder.record_sync(messages)
    return Recorded(
        store, ids["right"], ids["wrong"], ids["undecided"], library.experiences[0].id, talk, pictured, record.id
    )


def _id(phase: str, task: Task, g: int) -> RolloutId:
    return rollout_id(LEARN, phase, task.id, g, 0)


def _reply(text: str) -> str:
    return json.dumps([{"parts": [{"part_kind": "text", "content": f"The lesson is this. {text}"}]}])


def _prompt_ref() -> "nouns.PromptRef":
    return nouns.PromptRef(name="agentlearn.prompts:compare", version=2, sha256="cd" * 32)


async def _attempt(
    opened: "object",
    text: str,
    steps: int,
    library: Library,
    task: Task,
    n: int,
    phase: str,
    g: int,
    ids: dict[str, RolloutId],
) -> None:
    verdict: Verdict | None = Verdict(status="correct", reward=1.0, reason=text)
    failure = None
    if n == 2 and phase == "before":
        verdict, failure = None, Failure(code="timeout", message=text, boundary="endpoint")
    elif n == 3 and phase == "before":
        verdict, failure = None, Failure(code="no_answer", message=text, boundary="output")
    elif phase != "after" and (g == 0 or phase == "before"):
        verdict = Verdict(status="incorrect", reward=0.0, reason=f"12 is not 4. {text}")
    turn = ModelTurn(
        text=f"I count (G1). {text}", thinking=text, tool_calls=(ToolCall(id="t", tool=text[:40], arguments=text),)
    )
    result = ToolResult(call="t", tool=text[:40], content=f"{text}\n{'A' * 3_000}", ok=True, error=text[:40])
    many = (turn, result) * (steps // 2) + (ModelTurn(text=f"The answer is 4. {text}"),)
    made = Trajectory(**nouns.trajectory(g, run=LEARN, phase=phase, id=_id(phase, task, g), task=task.id).model_dump()
                      | {"treatment": Treatment(model="sim:novice", library=library.version), "verdict": verdict,
                         "failure": failure, "answer": text, "steps": many})  # fmt: skip
    key = "undecided" if failure is not None and failure.code == "timeout" else "right" if made.reward == 1 else "wrong"
    ids.setdefault(key, made.id)
    await opened.save_trajectory(made, b"[]")  # type: ignore[attr-defined]


@contextmanager
def viewing(store: Path, *, read_only: bool = False) -> Iterator[tuple[Site, TestClient]]:
    """A started site and a client that opened its printed address, but not yet the page behind it."""
    site = Site(store, PORT, read_only=read_only)
    with TestClient(app_of(site), base_url=f"http://127.0.0.1:{PORT}") as client:
        opened = client.get(site.link("/runs").removeprefix(f"http://127.0.0.1:{PORT}"), follow_redirects=False)
        assert (opened.status_code, opened.headers["location"]) == (303, f"{site.base}/runs")
        yield site, client


def every_address(of: Recorded) -> tuple[str, ...]:
    """An address of every page."""
    pages = (
        "",
        "/grid",
        "/grid?show=wrong",
        "/grid?phase=epoch-1&show=all-wrong",
        "/stages",
        f"/call/{of.call}",
        "/report",
    )
    library = ("", "/history", "/diff", "/audit", "/card")
    return (
        *(
            "/runs",
            "/libraries",
            "/days",
            "/waiting",
            "/live",
            "/live/support",
            "/erase?user=ann",
            "/cost",
            f"/cost?run={LEARN}",
            "/search",
        ),
        *(f"/run/{LEARN}{page}" for page in pages),
        *(f"/run/{EVAL}{page}" for page in ("", "/flips", "/report", "/grid")),
        *(f"/run/{BROKEN}{page}" for page in ("", "/grid")),
        *(f"/rollout/{one}" for one in (of.right, of.wrong, of.undecided, of.talk, of.pictured)),
        f"/rollout/{of.wrong}/step/0",
        f"/pair/{of.wrong}/{of.right}",
        f"/two?a={LEARN}&b={EVAL}",
        *(f"/library/{name}{page}" for name in ("math", "team") for page in library),
        f"/lesson/{of.lesson}",
        "/search?q=the",
    )
