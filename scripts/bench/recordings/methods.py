"""Tries our own methods on real recordings: evidence per lesson, verifier, retrieval, import, families, and more.

Each function returns one sentence or table with the figures; `page.md` and `in_full.md` say what they mean.
"""

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, pstdev, variance
from typing import Any

from agentlearn.answers.reply import final_answer_in
from agentlearn.data.files import read_text
from agentlearn.errors import DataError
from agentlearn.learning.lessons.stage_agent import salvage
from agentlearn.library.curate import parse_item
from agentlearn.library.import_lessons import import_lessons
from agentlearn.library.retrieval import Retriever
from agentlearn.measure.clustered import mean_interval
from agentlearn.measure.contrasts import signed_difference
from agentlearn.measure.difference import estimate_difference
from agentlearn.measure.sequential import EProcess, e_bh
from agentlearn.types.experience import MAX_LESSON_WORDS, Library
from agentlearn.types.operation import Rejected
from agentlearn.types.ranking import Retrieval
from scripts.bench.recordings.layouts import judged_answer
from scripts.bench.recordings.recorded import AnsweredQuestion, Recordings

_TASKS_OF_A_RUN = 50
"""Tasks of each run whose difference is a marginal of the Shapley recording."""
_SHOWN = 8
_SHARE = 0.1
"""Share of wrong labels that `library effects` allows."""


def try_methods(listed: Recordings, answers: Sequence[AnsweredQuestion], clones: Path) -> Mapping[str, str]:
    """Return the texts of the holes of the pages that are about our methods. Raises DataError for an unusable clone."""
    folder = {name: clones / one.folder for name, one in listed.sources.items()}
    parts: dict[str, Callable[[], str]] = {
        "marginals": lambda: _marginals(folder["shapley"]),
        "verifier": lambda: _verifier(_numbers_files(listed, clones)),
        "parser": lambda: _parser(folder["shapley"]),
        "retrieval": lambda: "\n".join(_retrieval(folder["reme"])),
        "imports": lambda: "\n".join(_imports(folder)),
        "growth": lambda: _growth(answers),
        "families": lambda: "; ".join(_families(answers)),
    }
    found: dict[str, str] = {}
    for name, part in parts.items():
        try:
            found[name] = part()
        except (KeyError, TypeError, ValueError, IndexError, OSError) as error:
            words = f"the files for {name!r} cannot be used ({type(error).__name__}: {error}); make the clones again"
            raise DataError(f"{words} (--clone-commands prints how)", code="recording_layout") from error
    return found | {"retrieval_in_short": _last_row(found["retrieval"]), "imports_in_short": _sums(found["imports"])}


def _last_row(table: str) -> str:
    """Say the last row of the table of retrieval, which is about all tasks."""
    tasks, ours, plain, first = (cell.strip() for cell in table.splitlines()[-1].split("|")[3:7])
    return f"Of {tasks} tasks, our choice hits {ours}, plain BM25 {plain}, and the first eight lessons {first}."


def _sums(table: str) -> str:
    """Say the sums of the table of imports."""
    rows = [line.split("|") for line in table.splitlines()[2:]]
    taken = sum(int(row[3]) for row in rows)
    refused = sum(int(count) for row in rows for count in re.findall(r"\d+", row[4]))
    return f"Of {len(rows)} files, {taken} lessons can be used, and {refused} are refused, each with its reason."


def _document(file: Path) -> Any:
    return json.loads(read_text(file, file.name))


def _marginals(clone: Path) -> str:
    """What our rule and the authors' rule say of lessons whose marginal effects were measured."""
    lessons = _document(clone / "logs/shapley/shapley_progress.json")["ranked_experiences"]
    effects = [list(map(float, one["all_marginals"])) for one in lessons]
    every = [effect for one in effects for effect in one]
    compared = _document(clone / "logs/shapley/comparison_results.json")
    chance = compared["baseline_mean_at_1"]
    noise = math.sqrt(2 * chance * (1 - chance) / _TASKS_OF_A_RUN)
    means, alike = [fmean(one) for one in effects], fmean(variance(one) / len(one) for one in effects)
    labels = [
        len(e_bh([EProcess().after(sign * effect for effect in one).log_e for one in effects], _SHARE))
        for sign in (1, -1)
    ]
    twice = [compared["results"][name] for name in ("positive_psi", "top_k_psi")]
    return (
        f"{len(lessons)} lessons, {len(every)} marginals, each the difference of two runs on {_TASKS_OF_A_RUN} tasks."
        f" The marginals have a standard deviation of {pstdev(every):.3f}; two runs that differ by chance alone have"
        f" {noise:.3f}. The means of the lessons have {pstdev(means):.3f}; lessons that all do the same would have"
        f" {math.sqrt(alike):.3f}. Our rule (`library effects`) labels {labels[0]} lessons proven and {labels[1]}"
        f" harmful; the authors' rule calls {len(compared['positive_psi'])} helpful and removes"
        f" {len(compared['negative_psi'])}."
        f" One set of {twice[0]['n_experiences']} lessons was measured twice, on {compared['eval_size']} tasks with"
        f" {compared['n_seeds']} seeds: {twice[0]['mean_at_1']:.3f} and {twice[1]['mean_at_1']:.3f}."
    )


def _numbers_files(listed: Recordings, clones: Path) -> Iterator[Path]:
    """Yield the files whose answers are numbers, each once."""
    seen: set[str] = set()
    for one in (one for one in listed.recordings if one.layout == "answers"):
        for name in (name for names in one.arms.values() for name in names):
            if name.endswith("#number") and name not in seen:
                seen.add(name)
                yield clones / listed.sources[one.source].folder / name.partition("#")[0]


def _verifier(paths: Iterator[Path]) -> str:
    """How often our verifier and the last number of an answer agree."""
    counts: Counter[str] = Counter()
    for path in paths:
        rows = {row["raw_input"]: row for row in map(json.loads, read_text(path, path.name).splitlines())}
        for row in rows.values():
            said, target = final_answer_in(row["final_output"] or ""), str(row["target"])
            verdict = judged_answer(said, target)
            numbers = re.findall(r"\d+", (said or "").replace(",", ""))
            simple = bool(numbers) and target.isdecimal() and int(numbers[-1]) == int(target)
            ours = "undecided" if verdict.reward is None else "right" if verdict.reward else "wrong"
            counts[ours] += 1
            counts["differ"] += ours != "undecided" and (ours == "right") != simple
    total = counts["right"] + counts["wrong"] + counts["undecided"]
    return (
        f"Of {total:,} answers, {counts['right']:,} are right, {counts['wrong']:,} wrong and {counts['undecided']}"
        f" undecided. Comparing the last number of an answer instead gives another verdict on {counts['differ']}."
    )


def _parser(clone: Path) -> str:
    """How many items of recorded replies are read."""
    files = sorted((clone / "logs/llm_judge").glob("*.json"))
    judged = [_document(file) for file in files]
    theirs = sum(len(one["individual_scores"]) for one in judged)
    replies = [one["raw_response"].replace('"individual_scores"', '"proposals"') for one in judged]
    ours = sum(len(salvage(reply, "proposals").items) for reply in replies)
    text = _document(clone / "logs/prompts/batch_update.json")["user_prompt"]
    operations = salvage(text, "proposals").items
    outcomes = [parse_item(one, stage="consolidate", labels={}).outcome for one in operations]
    usable = sum(not isinstance(one, Rejected) for one in outcomes)
    return (
        f"In {len(files)} replies of DeepSeek-R1 32B with its thoughts, {ours} of {theirs} judgements are read, with"
        " the key that our prompts name. Of the operations that it proposed, listed as JSON objects one after another,"
        f" {len(operations)} are read and {usable} can be used."
    )


def _retrieval(clone: Path) -> Iterator[str]:
    """Yield a table: is a memory that was written on a task among the eight that are shown for it?"""
    yield "| memories | number | tasks | our choice | plain BM25 | the first eight |\n|---|---|---|---|---|---|"
    retriever, everything = Retriever(Retrieval(shown_lessons=_SHOWN)), list[tuple[bool, ...]]()
    for file in sorted((clone / "docs/library/paper_data/task").glob("*.jsonl")):
        texts: dict[str, int] = {}
        own: defaultdict[str, set[int]] = defaultdict(set)
        for row in map(json.loads, read_text(file, file.name).splitlines()):
            words = f"{row['when_to_use'].rstrip('.')}: {row['content']}".split()[:MAX_LESSON_WORDS]
            place = texts.setdefault(" ".join(words)[:800].strip(), len(texts))
            own[row["metadata"]["task_query"]].add(place)
        library = Library.of(list(texts))
        places = {one.id: place for place, one in enumerate(library.experiences)}
        plain, hits = _PlainBm25(list(texts)), list[tuple[bool, ...]]()
        for task, mine in own.items():
            shown = retriever.choose_by_words(library, task).lessons or tuple(places)
            chosen = ({places[one] for one in shown}, {*plain.best(task, _SHOWN)}, {*range(_SHOWN)})
            hits.append(tuple(bool(one & mine) for one in chosen))
        everything += hits
        yield f"| {file.stem} | {len(texts)} | {len(own)} | {_shares(hits)} |"
    yield f"| all | | {len(everything)} | {_shares(everything)} |"


def _shares(hits: Sequence[tuple[bool, ...]]) -> str:
    return " | ".join(f"{fmean(column):.2f}" for column in zip(*hits, strict=True))


class _PlainBm25:
    """BM25 as published (k1 = 1.2, b = 0.75), over all words."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._counts = [Counter(re.findall(r"\w+", text.casefold())) for text in texts]
        self._mean = fmean(one.total() for one in self._counts)
        self._holds = Counter(word for one in self._counts for word in one)

    def best(self, query: str, most: int) -> list[int]:
        words, n = {*re.findall(r"\w+", query.casefold())} & self._holds.keys(), len(self._counts)
        rare = {word: math.log(1 + (n - self._holds[word] + 0.5) / (self._holds[word] + 0.5)) for word in words}

        def score(place: int) -> float:
            held = self._counts[place]
            size = 1.2 * (0.25 + 0.75 * held.total() / self._mean)
            return sum(rare[word] * 2.2 * held[word] / (held[word] + size) for word in words)

        return sorted(range(n), key=lambda place: (-score(place), place))[:most]


def _imports(folder: Mapping[str, Path]) -> Iterator[str]:
    """Yield a table: what an import does with libraries that others learned."""
    yield "| library | format | lessons that can be used | refused, by reason |\n|---|---|---|---|"
    sources = (
        *sorted((folder["youtu"] / "configs/agents/practice").glob("*_practice_agent.yaml")),
        *sorted((folder["ace"] / "experiments/playbooks").glob("*_trained_*.txt")),
        *sorted((folder["skillopt"] / "ckpt").glob("*/*_skill.md")),
    )
    if not sources:
        raise ValueError("no library was found")
    for file in (one for one in sources if one.stat().st_size):
        found = import_lessons(file, "skill" if file.name.endswith("_skill.md") else None)
        reasons = Counter(one.code for one in found.refused)
        said = ", ".join(f"{code} {count}" for code, count in reasons.most_common()) or "none"
        name = f"{file.parent.name}/{file.name}" if found.form == "skill" else file.name
        yield f"| {name} | {found.form} | {len(found.lessons)} | {said} |"


def _growth(answers: Sequence[AnsweredQuestion]) -> str:
    """Whether a growing sheet helps more in the second half of the tasks, when it is larger."""
    halves: list[list[float]] = [[], []]
    for one in (one for one in answers if one.question.pair == ("empty sheet", "growing sheet")):
        scores: defaultdict[int, dict[str, dict[str, float]]] = defaultdict(dict)
        for seen in one.observations:
            if seen.score is not None:
                scores[seen.g].setdefault(seen.arm, {})[seen.task] = seen.score
        for arms in scores.values():
            before, after = (arms[arm] for arm in one.question.pair)
            tasks = list(after)
            for at, task in enumerate(tasks):
                if task in before:
                    halves[at >= len(tasks) / 2].append(after[task] - before[task])
    said: list[str] = []
    for name, half in zip(("first", "second"), halves, strict=True):
        found = mean_interval(half)
        interval = f"{signed_difference(found.low)}, {signed_difference(found.high)}"
        said.append(f"{signed_difference(found.mean)} [{interval}] in the {name} half ({len(half)} answers)")
    return f"A growing sheet against an empty one: {' and '.join(said)}."


def _families(answers: Sequence[AnsweredQuestion]) -> Iterator[str]:
    """Yield what a question would say with the task as the unit, and the difference in each family."""
    for number, one in enumerate(answers, start=1):
        scores: defaultdict[tuple[str, str], defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for seen in one.observations:
            if seen.cluster and seen.score is not None:
                scores[seen.cluster, seen.task][seen.arm].append(seen.score)
        families: defaultdict[str, list[float]] = defaultdict(list)
        for (family, _), arms in scores.items():
            if len(arms) == 2:
                before, after = (fmean(arms[arm]) for arm in one.question.pair)
                families[family].append(after - before)
        if families:
            found = estimate_difference([gain for gains in families.values() for gain in gains])
            interval = f"{signed_difference(found.low)}, {signed_difference(found.high)}"
            said = ", ".join(f"{name} {signed_difference(fmean(gains))}" for name, gains in sorted(families.items()))
            yield f"question {number} {signed_difference(found.mean)} [{interval}] ({said})"
