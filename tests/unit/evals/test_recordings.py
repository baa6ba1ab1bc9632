"""Recordings of others: every layout is read from made-up files, and the page says what `compare --logs` says."""

import csv
import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from statistics import fmean

import pytest
from statsmodels.stats.multitest import multipletests

from agentlearn.errors import DataError
from agentlearn_evals.log_comparison import compare_logs
from scripts.bench.recordings.__main__ import main
from scripts.bench.recordings.layouts import RecordingLayout, RowColumns, recorded_results
from scripts.bench.recordings.methods import try_methods
from scripts.bench.recordings.page import row_file
from scripts.bench.recordings.recorded import (
    AnsweredQuestion,
    ExperimentRecording,
    Recordings,
    answer_questions,
    load_recordings,
)

PAGE = Path(__file__).parents[3] / "docs" / "evidence_from_recordings.md"
TASKS = 28


def is_right(file: str, task: int) -> bool:
    """Made-up outcome of a file's attempt at a task; a different share for each file."""
    drawn = sha256(f"{file} {task}".encode()).digest()[0]
    return drawn < 60 + 150 * (sha256(file.encode()).digest()[0] / 255)


def write_answers(file: Path, part: str, names: list[str]) -> None:
    rows: list[dict[str, str]] = []
    for task in range(TASKS):
        target = "(B)" if part == "choice" else "17"
        said = target if is_right(names[0], task) else "(C)" if part == "choice" else "18"
        first = {"raw_input": f"Question {task}", "target": target, "final_output": "<answer>\n0\n</answer>"}
        rows += [first, first | {"final_output": f"So.\n<answer>\n{said}\n</answer>"}]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def write_rows(file: Path, names: list[str], columns: RowColumns) -> None:
    rows: list[dict[str, object]] = []
    for name in names:
        only = dict(one.split("=") for one in name.partition("#")[2].split(",")) if "#" in name else {}
        for task in range(TASKS):
            scores = {one: is_right(name, task) for one in columns.score[:1]}
            rows.append({columns.task: f"t{task}", **scores, "test_cases_total": "9", **only})
    if file.suffix == ".csv":
        with file.open("w", newline="") as opened:
            writer = csv.DictWriter(opened, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
    elif file.suffix == ".jsonl":
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        file.write_text(json.dumps({columns.within: rows} if columns.within else rows))


def write_trials(file: Path, names: list[str]) -> None:
    lines: list[str] = []
    for trial in ("1", "5"):
        name = next((one for one in names if one.endswith(f"#{trial}")), names[0])
        lines += ["#######", f"BEGIN TRIAL {trial}", "Trial summary: Correct: 1", "#######"]
        for section in ("CORRECT", "INCORRECT"):
            lines.append(f"------------- BEGIN {section} AGENTS -------------")
            for task in range(TASKS):
                if is_right(name, task) == (section == "CORRECT"):
                    lines += [f"Question: What is {task}?You have attempted to answer following question before",
                              "Action: Finish[x]", "Correct answer: y"]  # fmt: skip
    file.write_text("\n".join(lines) + "\n")


def write_predictions(file: Path, names: list[str]) -> None:
    entries: dict[str, object] = {}
    for task in range(TASKS):
        first, last = ("Answer: A" if is_right(name, task) else "Answer: B" for name in sorted(names, reverse=True))
        entries[f"Question {task}"] = {"predictions": [first, "Answer: C", last], "answer": "A"}
    file.write_text(json.dumps(entries))


def write_phases(file: Path, names: list[str]) -> None:
    with closing(sqlite3.connect(file)) as opened:
        opened.execute("CREATE TABLE execution_analyses (id INTEGER PRIMARY KEY, task_id TEXT, task_completed INTEGER)")
        for name in names:
            for task in range(TASKS):
                run = f"t{task}_{name.partition('#')[2]}"
                opened.execute("INSERT INTO execution_analyses (task_id, task_completed) VALUES (?, ?)",
                               (run, is_right(name, task)))  # fmt: skip
        opened.commit()


def write_outcomes(file: Path, names: list[str]) -> None:
    rows: list[dict[str, object]] = []
    for task in range(TASKS):
        rows.append({"task_id": f"eval-{task}", "tool": "refund", "turn": 1, "is_error": True})
        rows.append({"kind": "task_outcome", "task_id": f"eval-{task}", "template": f"template {task % 4}",
                     "success": is_right(names[0], task)})  # fmt: skip
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def made_up_clones(listed: Recordings, folder: Path) -> None:
    """Write every file that the list names, in its layout, with made-up results."""
    parts: defaultdict[Path, list[str]] = defaultdict(list)
    layouts: dict[Path, ExperimentRecording] = {}
    for one in listed.recordings:
        for name in (name for names in one.arms.values() for name in names):
            file = folder / listed.sources[one.source].folder / name.partition("#")[0]
            parts[file].append(name)
            layouts[file] = one
    for file, names in parts.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        writers: dict[RecordingLayout, Callable[[], None]] = {
            "answers": lambda: write_answers(file, names[0].partition("#")[2], names),
            "rows": lambda: write_rows(file, names, layouts[file].columns or pytest.fail("no columns")),
            "trials": lambda: write_trials(file, names),
            "predictions": lambda: write_predictions(file, names),
            "phases": lambda: write_phases(file, names),
            "outcomes": lambda: write_outcomes(file, names),
        }
        writers[layouts[file].layout]()


def write_further_clones(folder: Path) -> None:
    """Write the files that our own methods are tried on: two lessons, of which one helps by 0.5 in 40 marginals."""
    logs, memories = folder / "training-free-grpo-shapley/logs", folder / "ReMe/docs/library/paper_data/task"
    results = {"n_experiences": 2, "mean_at_1": 0.25}
    compared = {"baseline_mean_at_1": 0.5, "positive_psi": ["G0"], "negative_psi": ["G1"], "eval_size": 9, "n_seeds": 3,
                "results": {"positive_psi": results, "top_k_psi": results}}  # fmt: skip
    lessons = [{"all_marginals": [0.5, 0.5, 0.5, 0.5] * 10}, {"all_marginals": [0.1, -0.1] * 20}]
    judged = {
        "individual_scores": [{}, {}],
        "raw_response": 'Hm.</think>\n```json\n{"individual_scores": [{}, {}]}\n```',
    }
    operations = "\n".join(json.dumps({"operation": "ADD", "content": f"When lost, draw {n}."}) for n in range(3))
    memory = [{"when_to_use": f"When {word} come up.", "content": f"Check case {at} twice before you answer.",
               "metadata": {"task_query": f"How many {word} are there?"}} for at, word in enumerate(WORDS)]  # fmt: skip
    files: dict[Path, str] = {
        logs / "shapley/shapley_progress.json": json.dumps({"ranked_experiences": lessons}),
        logs / "shapley/comparison_results.json": json.dumps(compared),
        logs / "llm_judge/judge_1.json": json.dumps(judged),
        logs / "prompts/batch_update.json": json.dumps({"user_prompt": f"<Operations>\n{operations}\n</Operations>"}),
        memories / "made_up.jsonl": "\n".join(map(json.dumps, memory)),
        folder / "ace-appworld/experiments/playbooks/x_trained_playbook.txt":
            "## NOTES\n[a-00001] helpful=1 harmful=0 :: When lost, draw a picture of the problem first.\n",
        folder / "SkillOpt/ckpt/made_up/gpt_skill.md": "# Counting\n\n- When counting a range, include its ends.\n",
    }  # fmt: skip
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


WORDS = [f"{first}{second}" for first in ("apple", "brick", "cloud", "drum", "eagle") for second in "abcdefghij" * 2]


def made_up_score(recording: ExperimentRecording, arm: str) -> float:
    sets: defaultdict[str, list[float]] = defaultdict(list)
    for name in recording.arms[arm]:
        shared = name.partition("#")[2] if recording.layout == "outcomes" else name
        sets[shared].append(sum(is_right(name, task) for task in range(TASKS)) / TASKS)
    return fmean(fmean(shares) for shares in sets.values())


@pytest.fixture(scope="module")
def clones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clones")
    made_up_clones(load_recordings(), folder)
    write_further_clones(folder)
    return folder


@pytest.fixture(scope="module")
def answers(clones: Path) -> tuple[AnsweredQuestion, ...]:
    return answer_questions(load_recordings(), clones)


def test_every_listed_file_is_read_and_all_questions_are_corrected_together(
    answers: tuple[AnsweredQuestion, ...],
) -> None:
    for one in answers:
        baseline, arm = one.question.pair
        assert one.contrast.baseline_score == pytest.approx(made_up_score(one.recording, baseline)), one.question
        assert one.contrast.score == pytest.approx(made_up_score(one.recording, arm)), one.question
    holm = multipletests([one.contrast.p for one in answers], method="holm")[1]
    assert [one.contrast.p_adjusted for one in answers] == pytest.approx(list(holm))
    assert {one.contrast.verdict for one in answers} > {"cannot_tell"}, "some made-up arms differ much"


def test_the_page_and_its_rows_say_what_compare_says(
    clones: Path, answers: tuple[AnsweredQuestion, ...], tmp_path: Path
) -> None:
    written = [f"--{name}={tmp_path / name}" for name in ("out", "full", "rows")]
    assert main([str(clones), *written]) == 0
    page, full = ((tmp_path / name).read_text(encoding="utf-8") for name in ("out", "full"))
    for number in (3, 13, 15, len(answers)):
        one = answers[number - 1]
        files = [str(tmp_path / "rows" / row_file(number))]
        (again,) = compare_logs(files, one.question.pair, correction="none", allow_missing=True).comparison.contrasts
        same = ("mean", "low", "high", "p", "p_mean", "tasks", "wins", "losses")
        assert again.model_dump(include={*same}) == one.contrast.model_dump(include={*same})
        assert one.contrast.sentence in full
    assert all(
        f"| {number} | {one.question.ask} | {one.contrast.tasks} |" in text
        for text in (page, full)
        for number, one in enumerate(answers, start=1)
    )


def test_our_methods_are_tried_on_the_clones(clones: Path, answers: tuple[AnsweredQuestion, ...]) -> None:
    said = try_methods(load_recordings(), answers, clones)
    assert "2 lessons, 80 marginals" in said["marginals"]
    assert "labels 1 lessons proven and 0 harmful" in said["marginals"], "a large effect is found"
    assert "gives another verdict on 0" in said["verifier"]
    assert "2 of 2 judgements are read" in said["parser"]
    assert "3 are read and 3 can be used" in said["parser"]
    assert said["retrieval"].endswith("| all | | 50 | 1.00 | 1.00 | 0.16 |")
    assert "Of 50 tasks, our choice hits 1.00" in said["retrieval_in_short"]
    assert "x_trained_playbook.txt | ace | 1 | none" in said["imports"]
    assert "made_up/gpt_skill.md | skill | 1 | none" in said["imports"]
    assert said["growth"].count("answers)") == 2
    assert said["families"].count("question ") == said["families"].count("template 3") == 4


def test_a_file_for_our_methods_that_is_laid_out_otherwise_is_refused(tmp_path: Path) -> None:
    write_further_clones(tmp_path)
    (tmp_path / "training-free-grpo-shapley/logs/shapley/comparison_results.json").write_text("{}")
    with pytest.raises(DataError, match=r"'marginals' cannot be used \(KeyError: 'baseline_mean_at_1'\)"):
        try_methods(load_recordings(), (), tmp_path)


def test_the_page_in_docs_has_the_words_of_the_list() -> None:
    listed, page = load_recordings(), PAGE.read_text(encoding="utf-8")
    words = [one.title for one in listed.recordings]
    words += [question.ask for one in listed.recordings for question in one.questions]
    assert [one for one in words if one.strip() not in page] == [], "write the page again"
    assert len({one.family for one in listed.recordings}) == 4
    assert len(listed.recordings) >= 8


ROWS = RowColumns(task="name", score=("won",), unjudged={"cases": ("0",)})


def scores(
    layout: RecordingLayout, file: Path, part: str = "", columns: RowColumns | None = None
) -> list[float | None]:
    return [one.score for one in recorded_results(layout, file, part, columns)]


def test_an_outcome_names_its_template_and_the_set_of_its_task_and_calls_of_tools_are_skipped(tmp_path: Path) -> None:
    file = tmp_path / "outcomes.jsonl"
    outcome = {"kind": "task_outcome", "task_id": "eval-0", "template": "refund", "success": True}
    rows = [{"task_id": "eval-0", "tool": "wait"}, outcome, outcome | {"task_id": "eval-1", "success": False}]
    file.write_text("\n".join(map(json.dumps, rows)))
    found = recorded_results("outcomes", file, "2", None)
    assert [(one.task, one.score, one.cluster) for one in found] == [
        ("2/eval-0", 1.0, "refund"),
        ("2/eval-1", 0.0, "refund"),
    ]


def test_tasks_of_four_templates_allow_no_verdict_whatever_their_difference(tmp_path: Path) -> None:
    everything = load_recordings()
    (recording,) = [one for one in everything.recordings if one.layout == "outcomes"]
    listed, question = Recordings(sources=everything.sources, recordings=(recording,)), recording.questions[0]
    made_up_clones(listed, tmp_path)
    for arm, success in zip(question.pair, (False, True), strict=True):
        for name in recording.arms[arm]:
            file = tmp_path / listed.sources[recording.source].folder / name.partition("#")[0]
            rows = map(json.loads, file.read_text().splitlines())
            file.write_text("\n".join(json.dumps(row | {"success": success}) for row in rows))
    (found,) = [one.contrast for one in answer_questions(listed, tmp_path) if one.question == question]
    assert (found.mean, found.verdict, found.clusters) == (1.0, "cannot_tell", 4)


def test_what_a_judge_could_not_judge_is_undecided(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("name,won,cases\na,True,4\nb,False,0\nc,0.5,4\n")
    assert scores("rows", file, columns=ROWS) == [1.0, None, 0.5]
    file = tmp_path / "answers.jsonl"
    outputs = ["<answer>080</answer>", "<answer>twenty one</answer>", ""]
    rows = [{"raw_input": str(at), "target": "80", "final_output": said} for at, said in enumerate(outputs)]
    file.write_text("\n".join(map(json.dumps, rows)))
    found = recorded_results("answers", file, "number", None)
    assert [(one.score, one.error) for one in found] == [(1.0, ""), (None, "not_comparable"), (0.0, "no_answer")]


@pytest.mark.parametrize(
    ("layout", "content", "part", "says"),
    [
        ("rows", '[{"name": "a"}]', "", "rows.json' is not laid out as 'rows' (KeyError: 'won')"),
        ("rows", '[{"name": "a", "won": "yes"}]', "", "could not convert string to float: 'yes'"),
        ("rows", '[{"name": "a", "won": 1e999}]', "", "is not finite"),
        ("rows", '[{"name": "a", "won": 1}]', "trial=0", "KeyError: 'trial'"),
        ("trials", "BEGIN TRIAL 1\n", "1", "holds no result of part '1'"),
        ("predictions", '{"q": {"predictions": []}}', "0", "IndexError"),
        ("answers", '{"target": "1"}', "number", "KeyError: 'raw_input'"),
        ("outcomes", '{"kind": "task_outcome", "task_id": "a", "success": true}', "1", "KeyError: 'template'"),
        ("outcomes", '{"kind": "task_outcome", "task_id": "a", "success": null}', "1", "ValueError"),
        ("outcomes", '{"task_id": "a", "tool": "wait"}', "1", "holds no result of part '1'"),
        (
            "phases",
            "not a database, but some text that is long enough to be read as its head" * 9,
            "phase1",
            "DatabaseError",
        ),
    ],
)
def test_another_layout_is_refused_in_one_sentence(
    layout: RecordingLayout, content: str, part: str, says: str, tmp_path: Path
) -> None:
    (tmp_path / "rows.json").write_text(content)
    with pytest.raises(DataError) as refused:
        scores(layout, tmp_path / "rows.json", part, ROWS if layout == "rows" else None)
    assert says in str(refused.value)
    assert "--clone-commands" in str(refused.value)


def test_a_missing_clone_ends_with_the_next_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), "--out", str(tmp_path / "page.md")]) == 2
    said = capsys.readouterr().err
    assert "there is no clone" in said
    assert "--clone-commands" in said
    assert not (tmp_path / "page.md").exists()
    assert main(["--clone-commands"]) == 0
    commands = capsys.readouterr().out.splitlines()
    assert all(any(one.commit in line for line in commands) for one in load_recordings().sources.values())
