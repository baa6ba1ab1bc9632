"""What docs/how_it_learns.md and docs/pictures show, from one small run: `python -m scripts.docs --write`."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from agentlearn import LibraryStore, read_store
from agentlearn.pages.groups import GroupRecord
from agentlearn.pages.records import GroupAddress, operation_words
from agentlearn.store import ProposalRow
from agentlearn.types.operation import Applied, Dropped, Folded, Quarantined, Rejected
from agentlearn.types.trajectory import Trajectory

PAGE = Path(__file__).parents[1] / "docs/how_it_learns.md"
PICTURES = PAGE.parent / "pictures"
COMMAND = "learn math --seed 0 --limit 10 --epochs 1 --group-size 4 --stop-after 4 --no-eval --validation-rollouts 0"
"""The run that the page is about."""
_TASK = "Find the number of integers from -101"
_SHOWN = re.compile(r"(<!-- shown: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def agentlearn(arguments: str, folder: Path) -> None:
    """Run a command in a folder. Raises CalledProcessError."""
    command = [sys.executable, "-m", "agentlearn", *arguments.split()]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def shown(folder: Path) -> dict[str, str]:
    """What the marks of the page stand for, from the store of the run. No id and no time is in it."""
    with read_store(folder / ".agentlearn") as reader:
        (run,) = reader.runs(limit=1)
        groups = GroupAddress.all_of(reader, run)
        (address,) = [one for one in groups if reader.task(one.task).problem.startswith(_TASK)]
        group = GroupRecord.read(reader, address)
    by_reward = sorted(group.trajectories, key=lambda one: one.reward or 0)
    wrong, right = by_reward[0], by_reward[-1]
    rows = ["| attempt | answer | reward |", "|---|---|---|"]
    rows += [f"| {one.g + 1} | {one.answer} | {one.reward:g} |" for one in group.trajectories]
    summaries = [
        f"attempt {one.g + 1}\n" + "\n".join(f"  {n}. {step.text}" for n, step in enumerate(steps, 1))
        for one in group.trajectories
        if (steps := group.summaries[one.id].steps)
    ]
    library = LibraryStore(folder / ".agentlearn/libraries").load("math")
    return {
        "command": _fenced(f"agentlearn {COMMAND}", "sh"),
        "task": f"> {group.task.problem}\n\nThe expected answer is {group.task.answer}.",
        "attempts": "\n".join(rows),
        "right": _fenced(_program(right), "python"),
        "wrong": _fenced(_program(wrong), "python"),
        "summaries": _fenced("\n".join(summaries)),
        "proposals": _ends(group.proposals),
        "consolidated": _ends(group.consolidated),
        "prompt": _fenced(library.render().text),
    }


def _program(trajectory: Trajectory) -> str:
    """The program that an attempt gave to its tool."""
    calls = [call for step in trajectory.steps if step.kind == "model" for call in step.tool_calls]
    return str(json.loads(calls[0].arguments)["code"]).strip()


def _ends(rows: Sequence[ProposalRow]) -> str:
    """A row for each proposal, with what became of it."""
    lines = ["| proposed | what became of it |", "|---|---|"]
    for row in rows:
        match row.ended.end:
            case Applied():
                became = "applied: it is a lesson of the next version"
            case Folded():
                became = "merged into a proposal for the whole batch"
            case Dropped(reason=reason):
                became = f"not used: {reason}"
            case Rejected(code=code, reason=reason) | Quarantined(code=code, reason=reason):
                became = f"refused, `{code}`: {reason}"
        lines.append(f"| {operation_words(row.ended.proposal.operation, '', {})} | {became} |")
    return "\n".join(lines)


def _fenced(text: str, language: str = "") -> str:
    return f"```{language}\n{text.strip()}\n```"


def written(folder: Path) -> str:
    """The text of the page with what the run in this folder shows."""
    parts = shown(folder)
    return _SHOWN.sub(lambda mark: f"{mark[1]}\n{parts[mark[2]]}\n\n{mark[3]}", PAGE.read_text(encoding="utf-8"))


def pictures(folder: Path) -> None:
    """Write pictures of the viewer and of the report, of the latest run in this folder."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    with read_store(folder / ".agentlearn") as reader:
        run = reader.runs(limit=1)[0].run
    PICTURES.mkdir(exist_ok=True)
    if not (folder / "bundle").exists():
        agentlearn(f"view {run} --bundle bundle", folder)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium-headless-shell"))
        page = browser.new_page(viewport={"width": 1000, "height": 620})
        page.goto((folder / "bundle/index.html").as_uri())
        page.get_by_role("link", name="Attempts", exact=True).click()
        page.screenshot(path=PICTURES / "attempts.png")
        page.goto((folder / f".agentlearn/reports/{run}.html").as_uri())
        page.screenshot(path=PICTURES / "report.png")
        browser.close()
    for path in PICTURES.glob("*.png"):
        with Image.open(path) as picture:
            picture.convert("RGB").quantize(48).save(path, optimize=True)


def write() -> None:
    """Make the runs, and write what the page and the pictures show of them. The second one takes some minutes."""
    with tempfile.TemporaryDirectory() as folder:
        agentlearn(COMMAND, Path(folder))
        PAGE.write_text(written(Path(folder)), encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        agentlearn("learn math --seed 0", Path(folder))
        pictures(Path(folder))
