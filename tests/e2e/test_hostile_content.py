"""Hostile content in every field that comes from outside: no command lets it reach the terminal or run in a page."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_page_in_browser import PROGRAM, launched, unfold, view
from tests.support.command import agentlearn_here
from tests.support.hostile import CONTROLS, FORGED, POISON, assert_harmless, unseen
from tests.support.openai_script import Reply, Request, Solver, digest, error, stage_of, submit, text, user_text
from tests.support.openai_stub import OpenAIStub
from tests.support.screen import on_screen, on_screens

pytestmark = pytest.mark.slow

NASTY = "".join(CONTROLS[:4]).replace("/", "").replace("\\", "") + CONTROLS[9] + f"\n{FORGED}<script>"
"""What the names of files and folders hold; DuckDB takes a backslash for the end of a folder's name."""
LESSON = "worse: 0.9 → 0.1 <b onclick='window.hacked=2'></p>\"><svg onload=window.hacked=3> [b]y[/b] =SUM(1)"
"""Words that no task has: tasks of which a lesson repeats the words are not counted."""
ANSWER = POISON.replace("\n", "").replace("<", "")
STORE = f"store{NASTY}"
TASKS = 12
COMMANDS = {
    "runs list": ("runs", "list"),
    "library list": ("library", "list"),
    "library show": ("library", "show", "poisoned", "--origins"),
    "library refused": ("library", "show", "refused.json"),
    "library show file": ("library", "show", "library.json", "--origins"),
    "library log": ("library", "log", "poisoned"),
    "library export": ("library", "export", "poisoned", "--out", f"out{NASTY}.json"),
    "logs": ("compare", "--logs", f"log{NASTY}.jsonl"),
    "store check": ("store", "check"),
    "store repair": ("store", "repair"),
    "store snapshot": ("store", "snapshot"),
    "store export": ("store", "export", "--format", "openai-jsonl", "--out", f"out{NASTY}.jsonl"),
    "store import": ("store", "import", f"import{NASTY}.jsonl", "--domain", "math"),
    "recipe": ("learn", f"recipe{NASTY}.yaml"),
    "dry run": ("learn", "tasks.jsonl", "--reward", "exact", "--dry-run", "--model", "http://127.0.0.1:9/v1#x"),
}
WITHOUT_STORE = {
    "data check": ("data", "check", f"rows{NASTY}.jsonl", "--reward", "exact"),
    "data check for math": ("data", "check", f"rows{NASTY}.jsonl"),
    "domain check": ("domain", "check", POISON),
    "help": ("learn", "--help"),
    "unknown": (f"x{POISON}",),
}
REFUSED = {"library refused", "recipe", "domain check", "unknown"}
"""Commands that must end with status 2."""


def poisoned(request: Request) -> Reply:
    """The reply of a model service whose every text is hostile, and which fails now and then with a hostile message."""
    number = digest(request["messages"], request.get("seed"))
    match stage_of(request):
        case "solve" if number % 23 == 0:
            return error(500, {"error": {"message": POISON, "type": POISON, "code": POISON}})
        case "solve":
            return solved(request, number)
        case "summarise":
            good = sensible(request)["steps"]
            return submit(request, json.dumps({"steps": [*good, {"text": POISON, "used": []}], POISON: POISON}))
        case _:
            items = [{"op": "add", "lesson": one, "reason": POISON, POISON: POISON} for one in (POISON, LESSON)]
            others = [POISON, {"op": POISON, "target": POISON}]
            return submit(request, json.dumps({"proposals": [*sensible(request)["proposals"], *items, *others]}))


def sensible(request: Request) -> dict[str, list[Any]]:
    """What a usual model would reply."""
    message = Solver()(request).message or {}
    calls = message.get("tool_calls") or [{"function": {"arguments": message["content"]}}]
    return json.loads(calls[0]["function"]["arguments"])


def solved(request: Request, number: int) -> Reply:
    """Two calls of tools, one of which does not exist, then a right or a wrong answer."""
    if not any(one["role"] == "tool" for one in request["messages"]):
        code = json.dumps({"code": f"print({POISON!r})\nraise ValueError({POISON!r})"})
        functions = [{"name": "run_python", "arguments": code}]
        if number % 5 == 0:
            functions.append({"name": f"run_python{POISON}", "arguments": json.dumps({POISON: POISON})})
        calls = [{"id": f"call{n}", "type": "function", "function": one} for n, one in enumerate(functions)]
        return Reply(message={"role": "assistant", "content": POISON, "reasoning_content": POISON, "tool_calls": calls})
    asked = re.search(r"number (\d+)", user_text(request))
    answer = f"{asked[1] if asked and number % 2 else 99} {ANSWER}"
    return text(f"{POISON}\n<answer>{answer}</answer>")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a task file, a log of another program, a library and a recipe, all hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    rows = [
        {"question": f"number {n} {POISON}", "answer": f"{n} {ANSWER}", "family": f"{n % 3} {POISON}"}
        for n in range(TASKS)
    ]
    write_lines(folder / "tasks.jsonl", rows)
    others = [{**one, f"column {POISON}": 1} for one in rows]
    write_lines(folder / f"rows{NASTY}.jsonl", [*others, {"question": POISON}, {POISON: 1}])
    log = [
        {"arm": f"{arm} {POISON}", "task": f"{n} {POISON}", "problem": POISON, "g": 0, "score": float(n % step == 0)}
        for n in range(30)
        for arm, step in (("old", 2), ("new", 3))
    ]
    write_lines(folder / f"log{NASTY}.jsonl", log)
    for name, lesson in (("library", LESSON), ("refused", POISON)):
        lessons = {f"G{n}": f"When {n} is asked, write {lesson}" for n in range(3)}
        (folder / f"{name}.json").write_text(json.dumps({"experiences": lessons, "next_id": 3}))
    messages = [{"role": "user", "content": POISON}, {"role": "assistant", "content": POISON}]
    write_lines(
        folder / f"import{NASTY}.jsonl", [{"messages": messages, "answer": POISON, "task": POISON, "reward": 1}]
    )
    (folder / f"recipe{NASTY}.yaml").write_text(json.dumps({"domain": POISON, POISON: POISON, "model": POISON}))
    return folder


def write_lines(path: Path, rows: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")


@pytest.fixture(scope="module")
def screens(world: Path) -> dict[str, tuple[int, str]]:
    """The exit status of each command, and what its terminal was sent."""
    found: dict[str, tuple[int, str]] = {}

    def show(name: str, *command: str) -> str:
        found[name] = on_screen(*command, "--store", STORE, cwd=world)
        return found[name][1]

    with OpenAIStub(poisoned) as stub:
        model = ("--model", f"{stub.base_url}#stub", "--sandbox", "unsafe-local", "--max-outage-minutes", "0")
        tasks = ("learn", "tasks.jsonl", "--reward", "exact", "--name", "poisoned", "--tools", "python", *model)
        last = ("--select", "last", "--validation-rollouts", "0")  # a library is published whatever it is worth
        show("learn", *tasks, *last, "--group-size", "4", "--epochs", "1", "--eval-rollouts", "1", "--log", "debug")
        show("solve", "solve", "math", f"number 1 {POISON}", *model)
        # Without "warm" nothing could be said, and the command would be refused.
        arms = ("none", "library.json", "warm=none,temperature=0.9", "--domain", "tasks.jsonl", "--reward", "exact")
        show("compare", "compare", *arms, "-k", "2", *model)
        show("doctor", "doctor", *model[:2])
    looking = dict[str, tuple[str, ...]]()
    for run in json.loads(on_pipe(world, "runs", "list"))["runs"]:
        kind = run["kind"]
        looking[f"runs show {kind}"] = ("runs", "show", run["run"])
        looking[f"trace {kind}"] = ("trace", run["run"], "--full")
        for number, group in enumerate(json.loads(on_pipe(world, "trace", run["run"]))["groups"][:2]):
            looking[f"trace {kind} group {number}"] = ("trace", group["address"], "--full")
            looking[f"trace {kind} rollout {number}"] = ("trace", group["rollouts"][0])
    with_store = {name: (*command, "--store", STORE) for name, command in (looking | COMMANDS).items()}
    return found | on_screens(with_store | WITHOUT_STORE, world)


def test_no_command_sends_hostile_text_to_its_terminal(screens: dict[str, tuple[int, str]]) -> None:
    for name, (status, written) in screens.items():
        assert "\nTraceback" not in f"\n{written}", name
        assert (status == 2) is (name in REFUSED), (name, status, written[-500:])
        assert_harmless(written, colours=True)
    for name in ("learn", "solve", "runs show learn", "trace learn rollout 0", "logs", "data check", "domain check"):
        assert "\\x1b[2J" in screens[name][1], f"{name} shows the text, as an escape"
    assert any("\x1b[1m" in written for _, written in screens.values()), "colours were on"


@pytest.mark.usefixtures("screens")
def test_json_output_is_harmless_too(world: Path) -> None:
    kinds = {one["kind"]: one["run"] for one in json.loads(on_pipe(world, "runs", "list"))["runs"]}
    assert kinds.keys() == {"learn", "solve", "eval", "import"}
    for run in kinds.values():
        assert json.loads(on_pipe(world, "runs", "show", run))["rollouts"]
    group = json.loads(on_pipe(world, "trace", kinds["learn"]))["groups"][0]["address"]
    assert json.loads(on_pipe(world, "trace", group))["task"]["problem"].endswith(POISON)
    library = json.loads(on_pipe(world, "library", "show", "library.json"))
    assert LESSON in library["experiences"][0]["lesson"]


def on_pipe(world: Path, *command: str) -> str:
    """What a command prints with `--json`, which is harmless."""
    done = agentlearn_here(*command, "--json", "--store", STORE, cwd=world)
    assert_harmless(done.stdout)
    assert_harmless(done.stderr)
    return done.stdout


@pytest.mark.skipif(PROGRAM is None, reason="no browser here")
def test_no_page_runs_or_loads_anything(world: Path, screens: dict[str, tuple[int, str]]) -> None:
    pages = sorted((world / STORE / "reports").glob("*.html"))
    assert len(pages) == 3, "of the run, of the comparison, of the logs"
    with launched() as browser:
        for file in pages:
            with view(browser, file) as page:
                unfold(page)
                assert page.evaluate("window.hacked === undefined")
                assert (
                    page.locator("img, iframe, object, embed, base, form, [onerror], [onload], [onclick]").count() == 0
                )
                assert page.locator("script").count() == 1
                links = page.locator("a").evaluate_all("(all) => all.map((one) => one.getAttribute('href'))")
                assert all(one.startswith(("#", "data:image/svg+xml")) for one in links)
                words = page.evaluate("document.body.textContent")
                assert unseen(words) <= {r"'\t'"}
                assert "<script>window.h" in words, "the text is shown as it is, and may be cut"
