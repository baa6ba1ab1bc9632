"""A real model writes the lessons: `agentlearn learn` with nothing simulated."""

from scripts.bench.proof.kinds import Drawn
from scripts.bench.proof.measuring import Bench
from scripts.bench.proof.server import Server
from scripts.bench.proof.table import Learned
from scripts.bench.real.runs import agentlearn

_TRUST = ("reasons", "tasks", "instructions", "tools")


def learned(bench: Bench, mine: Drawn, reflector: Server, *, tasks: int, drafts: int) -> Learned:
    """Learn from the first tasks of a kind and publish what was written as the library `own`. Kept from before."""
    kept = bench.folder / "learned" / f"{mine.kind.name}-{mine.seed}.json"
    if kept.is_file():
        return Learned.model_validate_json(kept.read_text(encoding="utf-8"))
    made = _learned(bench, mine, reflector, tasks, drafts)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(made.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return made


def _learned(bench: Bench, mine: Drawn, reflector: Server, tasks: int, drafts: int) -> Learned:
    store, kind = bench.store(mine), mine.kind
    file = bench.learned_file(mine)
    for one in (bench.reader, reflector):
        one.forget()
    ran = agentlearn(
        "learn", str(file), "--reward", kind.reward, "--tools", kind.tools, "--only-instructions",
        "--instructions", kind.instructions, "--max-output-tokens", str(kind.answer_tokens),
        "--max-turns", str(kind.turns), "--model", bench.reader.address, "--reflector", reflector.address,
        "--reflector-output-tokens", "160", "--call-deadline-s", "600", "--concurrency", "1",
        "--name", "own", "--from", "none", "--limit", str(tasks), "--test-share", "0", "--group-size", "1",
        "--batch-size", str(tasks), "--epochs", "1", "--temperature", "0", "--no-eval", "--reflect", "once",
        "--lesson-words", "60", "--drafts", str(drafts), "--finalists", str(drafts),
        "--validation-rollouts", "1", "--yes",
        *(word for one in _TRUST for word in ("--trust", one)),
        store=store, threads=1,
    )  # fmt: skip
    proposals = ran.result["proposals"]
    return Learned(
        kind=kind.name,
        seed=mine.seed,
        reflector=reflector.label,
        lessons=bench.lessons(mine, "own"),
        calls=sum(stage["calls"] for stage in ran.result["stages"].values()),
        refused={**proposals["dropped"], **proposals["rejected"]},
        wall_s=ran.wall_s,
    )
