"""Runs the stages of a hybrid run on the terminal, each with the progress of its own command."""

from rich.console import Console

from agentlearn.cli.interrupt import run_to_end
from agentlearn.cli.progress import LearnProgress
from agentlearn.cli.train_progress import TrainProgress
from agentlearn.config import LearnSettings
from agentlearn.config.command_words import command_words
from agentlearn.learning.report import LearnReport
from agentlearn.learning.resume import settings_of
from agentlearn.store import read_store
from agentlearn.train.report import TrainReport
from agentlearn.train.settings import TrainSettings, resumed_train_settings
from agentlearn.types.ids import RunId
from agentlearn_evals.compare_settings import CompareSettings
from agentlearn_evals.comparison import Comparison
from agentlearn_evals.hybrid.hybrid_record import HybridRecord
from agentlearn_evals.hybrid.hybrid_report import HybridArm
from agentlearn_evals.plan import ComparePlan, plan_comparison
from agentlearn_evals.progress import CompareProgress
from agentlearn_evals.rollout_specs import stored_rollouts

_SHOWN = frozenset(
    ("run", "tasks", "held out", "so far", "resumed", "stopping", "service", "warning", "checkpoint", "measure it")
)
"""Labels of the lines that a stage prints. The results of all stages follow at the end, and each run has its page."""


class ShownStages:
    """Runs each stage as its own command would, prints little of it, and says how to continue the hybrid run."""

    def __init__(self, record: HybridRecord, out: Console) -> None:
        self.out, self.store = out, record.settings.store
        self.rounds = record.settings.rounds
        self.resume = command_words("hybrid", "--resume", record.run, store=self.store)
        out.print(f"agentlearn hybrid {record.settings.domain}      run {record.run}")

    def announce(self, number: int, stage: str, words: str) -> None:
        """Print which stage begins."""
        of_round = f"round {number}/{self.rounds}  " if self.rounds > 1 else ""
        self.out.print()
        self.out.print(f"{of_round}{stage}: {words}", style="bold")

    def learn(self, settings: LearnSettings, resume: RunId | None) -> LearnReport:
        """Learn, or continue the interrupted run."""
        from agentlearn.learning.lessons.run_learning import run_learning
        from agentlearn.views.learn_page import page_at_the_end

        if resume is not None:
            _, settings = settings_of(resume, self.store, {})
        progress = _HybridLearnProgress(settings, self.out)
        progress.continued_by = self.resume
        report = run_to_end(lambda: run_learning(settings, progress, resume=resume), progress)
        _, problem = page_at_the_end(self.store, report.run)
        if problem:
            self.out.print(f"  {'note'.ljust(10)}{problem}")
        return report

    def train(self, settings: TrainSettings, resume: RunId | None) -> TrainReport:
        """Train, or continue the interrupted run."""
        from agentlearn.train.run_training import run_training
        from agentlearn.views.train_page import write_train_page

        if resume is not None:
            _, settings = resumed_train_settings(resume, self.store, {})
        progress = _HybridTrainProgress(settings, self.out)
        progress.continued_by = self.resume
        report = run_to_end(lambda: run_training(settings, progress, resume=resume), progress)
        write_train_page(report, settings)
        return report

    def compare(self, settings: CompareSettings) -> tuple[Comparison, tuple[HybridArm, ...]]:
        """Compare, and return the result and the tokens of each arm."""
        from agentlearn_evals.comparing import compare_planned
        from agentlearn_evals.write_results import write_all

        plan = plan_comparison(settings)
        progress = _HybridCompareProgress(plan, self.out)
        progress.continued_by = self.resume
        done = run_to_end(lambda: compare_planned(plan, progress), progress, name="comparison")
        write_all(done, store=self.store)
        return done.comparison, arm_lines(plan, done.comparison)


class _HybridLearnProgress(LearnProgress):
    continued_by = ""

    def line(self, label: str, text: str) -> None:
        """Print one line of those that a stage shows."""
        if label in _SHOWN:
            super().line(label, text)

    def done(self, report: LearnReport) -> None:
        """Say nothing: the end of the hybrid run tells what was learned, and the page of this run has the rest."""
        self.finished = True
        self.close_view()

    def how_to_go_on(self) -> str:
        """The line with the command that continues the hybrid run."""
        return self.labelled("resume", self.continued_by)


class _HybridTrainProgress(TrainProgress):
    continued_by = ""

    def line(self, label: str, text: str) -> None:
        """Print one line of those that a stage shows."""
        if label in _SHOWN:
            super().line(label, text)

    def how_to_go_on(self) -> str:
        """The line with the command that continues the hybrid run."""
        return self.labelled("resume", self.continued_by)


class _HybridCompareProgress(CompareProgress):
    continued_by = ""

    def print_line(self, label: str, text: str) -> None:
        """Print one line of those that a stage shows."""
        if label in _SHOWN:
            super().print_line(label, text)

    def how_to_go_on(self) -> str:
        """The line with the command that continues the hybrid run."""
        return f"  {'resume'.ljust(10)}{self.continued_by}"


def arm_lines(plan: ComparePlan, found: Comparison) -> tuple[HybridArm, ...]:
    """The arms of a comparison, with their tokens per model call from the stored rollouts."""
    settings, lines = plan.settings, list[HybridArm]()
    with read_store(settings.store) as reader:
        for arm, line in zip(plan.arms, found.arms, strict=True):
            rows = [
                row
                for task_set in plan.task_sets
                for row in stored_rollouts(
                    reader, plan.conditions(arm, task_set).phase, task_set.tasks, settings.k, settings.seed
                ).values()
            ]
            calls = sum(row.requests for row in rows)
            lines.append(
                HybridArm(
                    arm=line.arm,
                    score=line.score,
                    low=line.low,
                    high=line.high,
                    rollouts=line.rollouts,
                    failed=line.failed,
                    undecided=line.undecided,
                    calls=calls,
                    tokens_in_per_call=sum(row.tokens_in for row in rows) / calls if calls else None,
                    tokens_out_per_call=sum(row.tokens_out for row in rows) / calls if calls else None,
                )
            )
    return tuple(lines)
