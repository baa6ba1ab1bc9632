"""A learning loop of its own, tiny and in process: what a world must be able to teach, without the library's stages."""

import contextlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass

from agentlearn.types.experience import library_of
from agentlearn_demo.sim.lessons import ShownLesson
from agentlearn_demo.sim.reflector import Reflector, ReflectorRequest
from agentlearn_demo.sim.skills import Conversation, FinalMessage, ToolExchange, ToolUse
from agentlearn_demo.sim.solver import Novice, SolverInput

TOOLS = ("run_python",)


@dataclass(frozen=True)
class Attempt:
    question: str
    answer: str
    right: bool
    transcript: str


def block(lessons: Sequence[str]) -> str:
    lines = "\n".join(f"[G{at}] {lesson}" for at, lesson in enumerate(lessons, start=1))
    return f"<experiences>\n{lines}\n</experiences>" if lessons else ""


def shown(lessons: Sequence[str]) -> tuple[ShownLesson, ...]:
    return tuple(ShownLesson(f"G{at}", lesson) for at, lesson in enumerate(lessons, start=1))


def run(code: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, {})
    return out.getvalue().strip()


def attempt(novice: Novice, question: str, lessons: Sequence[str], seed: int, gold: str) -> Attempt:
    """One rollout: the program is run, and its output is what is judged."""
    turns: tuple[ToolExchange, ...] = ()
    lines: list[str] = []
    for call in range(4):
        conversation = Conversation("", question, TOOLS, turns)
        act = novice.answer(SolverInput((conversation,), shown(lessons), seed * 10 + call, 0.7)).act
        if isinstance(act, FinalMessage):
            lines.append(f"step {len(lines) + 1} · model\n{act.text}")
            answer = act.text.rpartition("{")[2].rstrip("}")
            return Attempt(question, answer, answer == gold, "\n".join(lines))
        assert isinstance(act, ToolUse)
        code = str(act.arguments["code"])
        result = run(code)
        turns = (*turns, ToolExchange(act.tool, act.arguments, result))
        lines.append(f"step {len(lines) + 1} · model\n{act.text}\ncall run_python {json.dumps({'code': code})}")
        lines.append(f"step {len(lines) + 1} · tool run_python · ok\n{result}")
    raise AssertionError("the novice never answered")


def gold_of(novice: Novice, question: str) -> str:
    """The answer of the flawless program: no seed falls when nothing can."""
    act = next(
        action.act
        for seed in range(1_000)
        if not (action := novice.answer(SolverInput((Conversation("", question, TOOLS),), (), seed))).flaws
    )
    assert isinstance(act, ToolUse)
    return run(str(act.arguments["code"]))


def ask(reflector: Reflector, stage: str, prompt: str, seed: int) -> list[dict[str, object]]:
    """The items of a reply that is well formed; none of any other."""
    reply = reflector.answer(ReflectorRequest(stage=stage, prompt=prompt, seed=seed))  # type: ignore[arg-type]
    try:
        found = json.loads(reply.text).get("steps" if stage == "summarise" else "proposals")
    except (ValueError, AttributeError):
        return []
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def summary(reflector: Reflector, one: Attempt, lessons: Sequence[str], seed: int) -> str:
    verdict = "right (reward 1.00)" if one.right else "wrong (reward 0.00)"
    prompt = (
        f"<problem>\n{one.question}\n</problem>\n<verdict>{verdict}</verdict>\n{block(lessons)}\n"
        f"<trajectory>\n{one.transcript}\n</trajectory>"
    )
    steps = ask(reflector, "summarise", prompt, seed)
    return "\n".join(f"{at}. {step['text']}" for at, step in enumerate(steps, start=1))


def compared(reflector: Reflector, group: Sequence[Attempt], gold: str, lessons: Sequence[str], seed: int) -> str:
    attempts = "\n".join(
        f'<attempt n="{at}" verdict="{"right" if one.right else "wrong"}" reward="{float(one.right):.2f}">\n'
        f"{summary(reflector, one, lessons, seed * 100 + at)}\n</attempt>"
        for at, one in enumerate(group, start=1)
    )
    return (
        f"<problem>\n{group[0].question}\n</problem>\n<gold>\n{gold}\n</gold>\n"
        f"<attempts>\n{attempts}\n</attempts>\n{block(lessons)}"
    )


def epoch(novice: Novice, reflector: Reflector, questions: Sequence[str], lessons: list[str], seed: int) -> list[str]:
    """The next lessons: groups of five, mixed ones compared, all proposals consolidated, sound ones applied."""
    proposals: list[dict[str, object]] = []
    for number, question in enumerate(questions):
        gold = gold_of(novice, question)
        key = seed * 1_000 + number
        group = [attempt(novice, question, lessons, key * 10 + g, gold) for g in range(5)]
        if len({one.right for one in group}) == 2:
            proposals += ask(reflector, "compare", compared(reflector, group, gold, lessons, key), key)
    lines = "\n".join(f"[P{at}] {_line(item)}" for at, item in enumerate(proposals, start=1))
    prompt = f"{block(lessons)}\n<proposals>\n{lines}\n</proposals>"
    return applied(lessons, ask(reflector, "consolidate", prompt, seed))


def _line(item: dict[str, object]) -> str:
    target = f" {item['target']}" if "target" in item else ""
    return f"{item['op']}{target}: {item.get('lesson', '')}".rstrip(": ")


def applied(lessons: list[str], items: Sequence[dict[str, object]]) -> list[str]:
    """The lessons after the items that name known labels and keep the form of a lesson."""
    by_label: dict[str, str | None] = {f"G{at}": lesson for at, lesson in enumerate(lessons, start=1)}
    fresh: list[str] = []
    for item in items:
        named = [str(one) for one in (item.get("targets") or [item.get("target")]) if one]  # type: ignore[union-attr]
        lesson = item.get("lesson")
        if not all(one in by_label for one in named) or not (lesson is None or _is_lesson(lesson)):
            continue
        for one in named:
            by_label[one] = None
        if isinstance(lesson, str):
            fresh.append(lesson)
    return [*(lesson for lesson in by_label.values() if lesson), *dict.fromkeys(fresh)]


def _is_lesson(lesson: object) -> bool:
    try:
        library_of([str(lesson)])
    except ValueError:
        return False
    return isinstance(lesson, str)
