"""The three stages: a trajectory becomes a summary, a group's summaries become proposals, a batch's proposals fewer.

A group whose attempts are all wrong has a question of its own: not what tells good attempts from bad ones, but which
rule none of them knew.

Summarise: numbered steps. Compare and consolidate ask for proposals: every item that a model wrote becomes a proposal,
and refused items keep the reason. The repair round lists the reasons once and asks for corrected items.

Consolidate names the proposals that each operation replaces. One line under each proposal says how the attempts at its
task ended. A task is shown as a short number. Reasons are by unknown authors: each is cut short, on one line, without
brackets and between quotation marks.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from agentlearn.config.options import LessonOptions
from agentlearn.errors import ConfigError, EndpointError, ToolError
from agentlearn.learning.batch import differ
from agentlearn.learning.lessons.stage_agent import (
    MAX_RAW_CHARACTERS,
    MOST_CALLS,
    MOST_PRINTED,
    STAGE_PROMPTS,
    Fault,
    StageAgent,
    StagePrompts,
    StageReply,
    TrajectoryFiles,
    quoted_reason,
    shown_reason,
)
from agentlearn.library.curate import CheckContext, next_version, parse_item
from agentlearn.library.curate.operations import lesson_of, targets_of
from agentlearn.models.call_context import CallContext, Stage, WorkUnit
from agentlearn.models.endpoint import Endpoint
from agentlearn.rollout.transcript import transcript, transcript_ends
from agentlearn.text import storable
from agentlearn.types.experience import Library
from agentlearn.types.group import Group, Summary, SummaryStep
from agentlearn.types.ids import ExperienceId, ProposalId, RolloutId, TaskId, content_hash, derive_seed
from agentlearn.types.operation import Applied, Dropped, Edit, Ended, Folded, Operation, Proposal, Quarantined, Rejected
from agentlearn.types.rendering import Rendered, is_section
from agentlearn.types.task import Task
from agentlearn.types.trajectory import PromptRef, Trajectory

_MAX_STEP_CHARACTERS = 800
_MAX_STEPS = 40
_MOST_FROM_WRONG = 2
"""Largest number of proposals from a group that is all wrong: no attempt in it shows that a proposal is right."""
_MOST_REWARDS = 8
"""Of a larger group with partial rewards, the line gives only the number, the range and the mean."""
_MAX_TRIES = 2
_FAULT_SENTENCES: Mapping[Fault, str] = {
    "prose": "the reply was prose; an object with the key '{key}' is needed",
    "object_not_array": "the reply held one object; a list of objects under '{key}' is needed",
    "cut_json": "the reply's JSON ended too early; only its complete items could be read",
    "wrong_key": "the list was not under the key '{key}'",
    "no_reply": "the reply held nothing that could be read",
}


@dataclass(frozen=True, slots=True)
class Summarised:
    """The result of summarising one trajectory."""

    summary: Summary | None
    """None when no reply was usable."""
    faults: Counter[str]
    """Number of malformed replies, items and labels, and of failed calls, by code."""


@dataclass(frozen=True, slots=True)
class _Question:
    """A question that is answered by proposals, and what all its proposals share."""

    stage: Literal["compare", "consolidate"]
    key: str
    """Name of the question within its stage; part of every proposal's id."""
    text: str
    agent: StageAgent
    prompt: PromptRef
    """The stage's prompt."""
    evidence: tuple[RolloutId, ...]
    """Rollouts that the question shows."""
    task: TaskId | None = None
    """The group's task; None for the consolidate stage."""
    supports: Mapping[str, ProposalId] = field(default_factory=dict[str, ProposalId])
    """The compare proposals that a consolidation may rest on, by label."""


@dataclass(frozen=True, slots=True)
class Proposed:
    """The result of one question, or of the consolidate stage."""

    accepted: tuple[Proposal, ...]
    """Proposals that pass every rule as things are now."""
    ended: tuple[Ended, ...]
    """The other proposals, with their ends."""
    faults: tuple[str, ...]
    """Codes of faults in the shape of the replies, and of failed calls."""
    usable: bool = True
    """False when no reply had items or was a well-formed empty list."""


@dataclass(frozen=True, slots=True)
class Stages:
    """The three stages over one batch of one run, with the model that writes the lessons."""

    call_context: CallContext
    endpoint: Endpoint
    """Model that writes the lessons."""
    seed: int
    """Seed of the run."""
    step: str
    """Position in the run, such as `epoch-1/2`; part of every work unit's name and seed."""
    library: Library
    shown: Rendered
    """The library as the stages read it."""
    options: LessonOptions = field(default_factory=LessonOptions)
    """Limits on proposals and on the library."""
    show_gold: bool = True
    """Whether stages see the expected answer; False when learning without labels."""
    show_reasons: bool = True
    """Whether stages see the reasons of verdicts; False without labels, and where they explain nothing."""
    threshold: float = 1.0
    """Reward from which an answer counts as right."""
    margin: float = 0.0
    """Rewards of a group that differ by no more than this count as equal."""
    prompts: StagePrompts = STAGE_PROMPTS
    refusals: tuple[str, ...] = ()
    """Why persons refused earlier lessons, in their words."""
    tried: tuple[str, ...] = ()
    """Changes of a document that this run made or proposed before and that did not stay, in words."""
    files: TrajectoryFiles | None = None
    """Gives the reflector trajectories that are too long for a request; None: it is shown every transcript."""

    async def summarise(self, trajectory: Trajectory, task: Task) -> Summarised:
        """Ask for a summary, and once more after a malformed reply. Prose is then used as a summary of one step."""
        faults, prose = Counter[str](), ""
        prompt, unit = self.prompts.summarise.load(), self._unit("summarise", f"{task.id}/{trajectory.g}")

        def summary(steps: Sequence[SummaryStep], raw: str, *prompts: PromptRef) -> Summarised:
            made = Summary(
                id=content_hash("summary", trajectory.id, self.step),
                run=self.call_context.run,
                rollout=trajectory.id,
                steps=tuple(steps[:_MAX_STEPS]),
                raw=raw,
                library=self.library.version,
                prompts=(prompt.ref, *prompts),
            )
            return Summarised(made, faults)

        def question(shown: str) -> str:
            right = "right" if self._is_right(trajectory) else "wrong"
            library = f"{self.shown.text}\n" if self.shown.text else ""
            return (
                f"<problem>\n{task.problem}\n</problem>\n"
                f"<verdict>{right} (reward {trajectory.reward or 0.0:.2f})</verdict>\n"
                f"{self._reason(trajectory)}{self._gold(task)}{library}"
                f"<trajectory>\n{shown}\n</trajectory>"
            )

        reply, look_up = await self._looked_up(trajectory, question, unit, faults)
        for attempt in range(_MAX_TRIES):
            try:
                if reply is None:
                    agent = StageAgent(prompt.text, "steps")
                    whole = question(transcript(trajectory.steps))
                    reply, look_up = await agent.ask(whole, self.endpoint, unit, held=attempt > 0), ()
            except EndpointError as error:
                faults[error.code] += 1
                return Summarised(None, faults)
            steps = [step for item in reply.salvaged.items if (step := self._step(item, faults)) is not None]
            faults.update(reply.salvaged.faults)
            if steps:
                return summary(steps, reply.raw, *look_up)
            prose = reply.raw if "prose" in reply.salvaged.faults else prose
            reply = None
        # Prose still says what happened; it only does not name the experiences used.
        if text := _one_line(prose):
            return summary([SummaryStep(text=text)], prose)
        faults["no_summary"] += 1
        return Summarised(None, faults)

    async def _looked_up(
        self, trajectory: Trajectory, question: Callable[[str], str], unit: WorkUnit, faults: Counter[str]
    ) -> tuple[StageReply | None, tuple[PromptRef, ...]]:
        """Return the reply of a model that looked things up in a trajectory too long to be shown, and its prompt.

        None where the trajectory fits, and where no program was run: the model is then shown the transcript.
        """
        if self.files is None:
            return None, ()
        async with self.files.open(trajectory.steps, unit) as file:
            if file is None:
                return None, ()
            prompt = self.prompts.look_up.load()
            told = prompt.fill({"characters": f"{MOST_PRINTED:,}", "calls": str(MOST_CALLS)})
            agent = StageAgent(f"{self.prompts.summarise.load().text}\n\n{told}", "steps")
            ends = question(transcript_ends(trajectory.steps, max_characters=self.files.shown))
            try:
                reply = await agent.ask(ends, self.endpoint, unit, file=file)
            except (EndpointError, ToolError, ConfigError) as error:
                faults[error.code] += 1
                return None, ()
            return (reply, (prompt.ref,)) if file.calls else (None, ())

    def _step(self, item: object, faults: Counter[str]) -> SummaryStep | None:
        fields: dict[str, object] = item if isinstance(item, dict) else {"text": item}
        given, used = fields.get("text"), fields.get("used")
        text = _one_line(given) if isinstance(given, str) else ""
        if not text:
            faults["bad_item"] += 1
            return None
        faults["string_item"] += isinstance(item, str)
        named = [str(label).strip("[] ").upper() for label in used] if isinstance(used, list) else []
        known = [self.shown.labels[label] for label in named if label in self.shown.labels]
        faults["unknown_id"] += len(named) - len(known)
        return SummaryStep(text=text, used=tuple(dict.fromkeys(known)))

    async def compare(self, group: Group, summaries: Mapping[RolloutId, Summary], context: CheckContext) -> Proposed:
        """Return the proposals of a group that teaches. Raises EndpointError.

        Of a group whose rewards differ, the model compares the attempts; of one that is all wrong, it looks for the
        rule behind what was wanted, and at most two proposals are taken.

        summaries: of the group's decided trajectories, by rollout.
        """
        prompt, limit = self.prompts.compare.load(), self.options.max_proposals
        compared = [one for one in group.decided if one.id in summaries]
        if not differ([one.reward or 0.0 for one in compared], self.margin):
            prompt, limit = self.prompts.compare_wrong.load(), min(limit, _MOST_FROM_WRONG)
        values = {"max_proposals": str(limit), "max_words": self._most_words}
        question = _Question(
            stage="compare",
            key=group.task.id,
            text=self.compare_question(group, summaries),
            agent=StageAgent(prompt.fill(values), self._key),
            prompt=prompt.ref,
            evidence=tuple(one.id for one in compared),
            task=group.task.id,
        )
        return await self._propose(question, context, limit=limit)

    def compare_question(self, group: Group, summaries: Mapping[RolloutId, Summary]) -> str:
        """Return the user message of the compare stage.

        Attempts with partial rewards are better or worse: better are those whose reward lies within the margin of the
        best one.
        """
        compared = [one for one in group.decided if one.id in summaries]
        rewards = [one.reward or 0.0 for one in compared]
        partial = differ(rewards, self.margin) and not set(rewards) <= {0.0, 1.0}
        label_of = {identity: label for label, identity in self.shown.labels.items()}
        attempts: list[str] = []
        for number, (one, reward) in enumerate(zip(compared, rewards, strict=True), start=1):
            verdict = "right" if self._is_right(one) else "wrong"
            if partial:
                verdict = "worse" if differ((reward, max(rewards)), self.margin) else "better"
            own = self._problem(group.task_of(one)) if group.others else ""
            steps = list[str]()
            for place, step in enumerate(summaries[one.id].steps, start=1):
                used = f" (used {', '.join(label_of[used] for used in step.used if used in label_of)})"
                steps.append(f"{place}. {step.text}{used if step.used else ''}")
            listed = "\n".join(steps)
            head = f'<attempt n="{number}" verdict="{verdict}" reward="{reward:.2f}">'
            attempts.append(f"{head}\n{own}{self._reason(one)}{listed}\n</attempt>")
        library = f"\n{self.shown.text}" if self.shown.text else ""
        # Of near neighbours each attempt names its own problem, and only there is an expected answer shown.
        problem = f"<problem>\n{group.task.problem}\n</problem>\n" if group.others else self._problem(group.task)
        listed = "\n".join(attempts)
        return f"{problem}<attempts>\n{listed}\n</attempts>{library}{self._refused()}"

    async def draft(self, groups: Sequence[Group], context: CheckContext, number: int) -> Proposed:
        """Return new lessons from one request that shows a whole batch; none where the request fails.

        number: of the draft; each draft is another sample of the model.
        """
        prompt, limit = self.prompts.once.load(), self.options.max_proposals
        values = {"max_proposals": str(limit), "max_words": self._most_words}
        library = f"<known>\n{self.shown.text}\n</known>\n\n" if self.shown.text else ""
        question = _Question(
            stage="compare",
            key=f"draft-{number}",
            text=library + "\n\n".join(self._told(group) for group in groups) + self._refused(),
            agent=StageAgent(prompt.fill(values), "lessons", limit),
            prompt=prompt.ref,
            evidence=tuple(one.id for group in groups for one in group.decided),
        )
        try:
            return await self._propose(question, context, limit=limit)
        except EndpointError as error:
            return Proposed((), (), (error.code,), usable=False)

    def _told(self, group: Group) -> str:
        """A task in short: its problem, what was expected, and the reasons; where that is unknown, the answers.

        Small models take wrong answers that stand beside the expected ones for a part of the rule.
        """
        lines, known = [f"Problem: {group.task.problem}"], self.show_gold and group.task.answer is not None
        for one in group.decided:
            if not known:
                verdict = "right" if self._is_right(one) else "wrong"
                lines.append(f"Answered: {_one_line(one.answer or 'nothing')} ({verdict})")
            if self.show_reasons and (reason := shown_reason(one)):
                lines.append(f"Reason: {quoted_reason(reason)}")
        if known:
            lines.append(f"Expected: {group.task.answer}")
        return "\n".join(dict.fromkeys(lines))

    async def consolidate(
        self, proposals: Sequence[Proposal], context: CheckContext, groups: Sequence[Group] = ()
    ) -> Proposed:
        """Consolidate the compare proposals of a batch, given in order of (task, ordinal). Tries twice.

        Where the stage fails twice, the result is not usable, and its accepted proposals are the given ones. groups:
        those that the proposals come from, for the evidence that the stage is shown.
        """
        if not proposals:
            return Proposed((), (), ())
        labels = {f"P{number}": proposal for number, proposal in enumerate(proposals, start=1)}
        evidence_of = {proposal.id: proposal.evidence for proposal in proposals}
        prompt, values = self.prompts.consolidate.load(), {"max_words": self._most_words}
        if self.library.document:
            values["max_edits"] = str(context.edits)
        faults: list[str] = []
        ended: list[Ended] = []

        def narrowed(one: Proposal) -> Proposal:
            """The proposal with the evidence of what it rests on only."""
            rollouts = dict.fromkeys(rollout for support in one.rests_on for rollout in evidence_of[support])
            return one.model_copy(update={"evidence": tuple(rollouts)})

        for attempt in range(_MAX_TRIES):
            question = _Question(
                stage="consolidate",
                key=f"try-{attempt}",
                text=self.consolidate_question(labels, groups),
                agent=StageAgent(prompt.fill(values), self._key),
                prompt=prompt.ref,
                evidence=tuple(dict.fromkeys(rollout for proposal in proposals for rollout in proposal.evidence)),
                supports={label: proposal.id for label, proposal in labels.items()},
            )
            try:
                answer = await self._propose(question, context)
            except EndpointError as error:
                faults.append(error.code)
                continue
            faults.extend(answer.faults)
            for one in answer.ended:  # a person who decides on a quarantined proposal needs its evidence
                held = isinstance(one.end, Quarantined)
                proposal = narrowed(one.proposal) if held else one.proposal
                ended.append(one.model_copy(update={"proposal": proposal}))
            if answer.usable:
                made = (*answer.accepted, *(one.proposal for one in answer.ended))
                into = {one.id: tuple(new.id for new in made if one.id in new.rests_on) for one in proposals}
                unused = Dropped(reason="not taken up by the consolidation")
                before = (
                    Ended(proposal=one, end=Folded(into=into[one.id]) if into[one.id] else unused) for one in proposals
                )
                return Proposed(tuple(map(narrowed, answer.accepted)), (*before, *ended), tuple(faults))
        return Proposed(tuple(proposals), tuple(ended), tuple(faults), usable=False)

    def consolidate_question(self, labels: Mapping[str, Proposal], groups: Sequence[Group] = ()) -> str:
        """Return the user message for labelled proposals. groups: those that the proposals come from.

        Under each proposal whose group is known stands how the group's attempts ended, and what was said about one
        that ended worst. Tasks are numbered in order of the proposals.
        """
        label_of = {identity: label for label, identity in self.shown.labels.items()}
        by_task = {group.task.id: group for group in groups}
        numbers: dict[TaskId, int] = {}
        lines: list[str] = []
        for label, proposal in labels.items():
            lines.append(f"[{label}] {labelled_operation(proposal.operation, label_of)}")
            if proposal.task is not None and proposal.task in by_task:
                group, number = by_task[proposal.task], numbers.setdefault(proposal.task, len(numbers) + 1)
                worst = (one for one in group.decided if one.reward == min(group.rewards_G))
                said = next(filter(None, map(shown_reason, worst)), "") if self.show_reasons else ""
                reason = f"; reason: {quoted_reason(said)}" if said else ""
                lines.append(f"  task {number}: {_outcome_words(group.rewards_G)}{reason}")
        library = f"{self.shown.text}\n" if self.shown.text else ""
        listed = "\n".join(lines)
        return f"{library}<proposals>\n{listed}\n</proposals>{self._refused()}"

    @property
    def _key(self) -> Literal["proposals", "edits"]:
        """Key of a reply that holds proposals."""
        return "edits" if self.library.document else "proposals"

    @property
    def _most_words(self) -> str:
        """Largest number of words of a proposal; `rules` allow twice as many in a document."""
        return str(self.options.lesson_words * (2 if self.library.document else 1))

    def _refused(self) -> str:
        """The changes that did not stay, and the reasons of refusals, as blocks; empty without any."""
        tried = "".join(f"- {one}\n" for one in self.tried)
        tried = f"\n<tried>\nThese changes were tried before and did not stay:\n{tried}</tried>" if tried else ""
        if not self.refusals:
            return tried
        listed = "\n".join(f"- {_one_line(reason)}" for reason in self.refusals)
        head = "A person refused earlier lessons for these reasons. Propose none that one of them speaks against."
        return f"{tried}\n<refused>\n{head}\n{listed}\n</refused>"

    async def _propose(self, question: _Question, context: CheckContext, *, limit: int | None = None) -> Proposed:
        """Ask, parse, check, and give refused items one repair round. Raises EndpointError.

        limit: largest number of accepted proposals; those past it end as rejected.
        """
        unit, accepted, ended = self._unit(question.stage, question.key), list[Proposal](), list[Ended]()

        def check(proposals: Sequence[Proposal]) -> None:
            """Keep the proposals that would be applied after the accepted ones, and the others with their ends."""
            found = next_version((*accepted, *proposals), self.library, context).ended[len(accepted) :]
            accepted.extend(one.proposal for one in found if isinstance(one.end, Applied))
            ended.extend(one for one in found if not isinstance(one.end, Applied))

        once = question.agent.key == "lessons"
        reply = await question.agent.ask(question.text, self.endpoint, unit, held=once)
        first = self._parsed(reply, question)
        check(first)
        faults, usable = reply.salvaged.faults, reply.salvaged.usable
        number_of = {one.id: number for number, one in enumerate(first, start=1)}
        refusals = [
            f"- item {number_of[one.proposal.id]}: {one.end.code}: {one.end.reason}"
            for one in ended
            if isinstance(one.end, Rejected)
        ]
        if refusals and reply.messages and not once:
            repair = self.prompts.repair.load()
            message = repair.fill({"refusals": "\n".join(refusals)})
            held = not reply.salvaged.usable
            repaired = await question.agent.ask(message, self.endpoint, unit, history=reply.messages, held=held)
            check(self._parsed(repaired, question, repair=repair.ref))
            faults, usable = (*faults, *repaired.salvaged.faults), usable or repaired.salvaged.usable
        too_many = Rejected(code="too_many_proposals", reason=f"only {limit} proposals are taken from one group")
        over = accepted[limit:] if limit is not None else ()
        ended += [Ended(proposal=one, end=too_many) for one in over]
        return Proposed(tuple(accepted[:limit]), tuple(ended), faults, usable)

    def _parsed(self, reply: StageReply, question: _Question, *, repair: PromptRef | None = None) -> list[Proposal]:
        """Return every item of the reply as a proposal. A malformed reply adds one refused proposal per fault.

        repair: the repair prompt, for the reply of the repair round.
        """
        found = list[Proposal]()

        def add(raw: str, shown: str, refusal: Rejected | None, operation: Operation | None, *on: ProposalId) -> None:
            key = (question.stage, question.key, 0 if repair is None else 1, len(found), raw)
            found.append(
                Proposal(
                    id=ProposalId(content_hash("proposal", *key)),
                    stage=question.stage,
                    ordinal=len(found),
                    operation=operation if refusal is None else None,
                    refusal=refusal,
                    raw=shown,
                    task=question.task,
                    evidence=question.evidence,
                    rests_on=on,
                    prompts=(question.prompt,) if repair is None else (question.prompt, repair),
                )
            )

        for given in reply.salvaged.items:
            item = {"op": "add", "lesson": given} if question.agent.key == "lessons" else given
            raw = (storable(item) if isinstance(item, str) else json.dumps(item, default=str))[:MAX_RAW_CHARACTERS]
            document = bool(self.library.document)
            parsed = parse_item(item, stage=question.stage, labels=self.shown.labels, document=document)
            named = (question.supports[label] for label in parsed.rests_on if label in question.supports)
            rests_on, refusal = tuple(dict.fromkeys(named)), parsed.refusal
            if refusal is None and question.stage == "consolidate" and not rests_on:
                words = "the item names no proposal in 'rests_on' that it carries on, such as 'P1'"
                refusal = Rejected(code="unsupported", reason=words)
            add(raw, raw, refusal, parsed.operation, *rests_on)
        for fault in reply.salvaged.faults:
            add(
                fault,
                reply.raw,
                Rejected(code=fault, reason=_FAULT_SENTENCES[fault].format(key=question.agent.key)),
                None,
            )
        return found

    def _unit(self, stage: Stage, name: str) -> WorkUnit:
        """A work unit whose seed depends only on (run seed, stage, step, name), not on the run's id."""
        key = f"{self.step}/{name}"
        return WorkUnit(self.call_context, stage, key, derive_seed(self.seed, stage, key))

    def _is_right(self, trajectory: Trajectory) -> bool:
        return trajectory.reward is not None and trajectory.reward >= self.threshold

    def _gold(self, task: Task) -> str:
        return f"<gold>\n{task.answer}\n</gold>\n" if self.show_gold and task.answer is not None else ""

    def _problem(self, task: Task) -> str:
        """A task's problem and its expected answer, where the stages may see it, between tags."""
        return f"<problem>\n{task.problem}\n</problem>\n{self._gold(task)}"

    def _reason(self, trajectory: Trajectory) -> str:
        """The reason of a verdict between tags; empty when there is none, or when the stages see none."""
        reason = shown_reason(trajectory) if self.show_reasons else ""
        return f"<reason>\n{reason}\n</reason>\n" if reason else ""


def _one_line(text: str) -> str:
    """The text as one line, at most 800 characters, without control characters, lone surrogates and angle brackets."""
    words = "".join(c if c.isprintable() else " " for c in text).replace("<", "‹").replace(">", "›").split()
    return " ".join(words)[:_MAX_STEP_CHARACTERS]


def labelled_operation(operation: Operation | None, label_of: Mapping[ExperienceId, str]) -> str:
    """An operation in a line, with labels in place of ids."""
    assert operation is not None, "a proposal that could not be parsed never reaches consolidation"
    if isinstance(operation, Edit):
        parts = {"old": operation.old, "new": operation.new}
        words = ", ".join(f"{name} {json.dumps(text, ensure_ascii=False)}" for name, text in parts.items() if text)
        return f"edit {label_of.get(operation.target, '?')}: {words}"
    lesson, targets = lesson_of(operation), ", ".join(label_of.get(target, "?") for target in targets_of(operation))
    lesson = " ".join(lesson.split()) if is_section(lesson) else lesson
    return f"{operation.op}{f' {targets}' if targets else ''}{f': {lesson}' if lesson else ''}"


def _outcome_words(rewards_G: Sequence[float]) -> str:
    if set(rewards_G) <= {0.0, 1.0}:
        right = sum(reward == 1 for reward in rewards_G)
        return f"{right} right, {len(rewards_G) - right} wrong"
    falling = sorted(rewards_G, reverse=True)
    if len(falling) <= _MOST_REWARDS:
        return f"rewards {', '.join(f'{reward:.2f}' for reward in falling)}"
    mean = sum(falling) / len(falling)
    return f"{len(falling)} rewards from {falling[-1]:.2f} to {falling[0]:.2f}, mean {mean:.2f}"
