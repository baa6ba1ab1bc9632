"""Every query of the store, in SQL. Only constants of this module are concatenated; values are always bound."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from agentlearn.types.ids import ExperienceId, LibraryVersion, RolloutId, RunId, TaskId
from agentlearn.types.operation import Ended
from agentlearn.types.run_event import RunKind, RunState
from agentlearn.types.trajectory import AGENT_BOUNDARY, DEMONSTRATION, LIVE, RolloutOutcome, Trajectory

# ruff: noqa: S608


def _judged_live(live: str = "live") -> str:
    """What feedback says about each rollout of live traffic.

    A reward given to the rollout itself counts before one given to its episode, and of several the one that was given
    last. A comment counts where the reward came without words. live: the rows of the table to ask about.
    """
    return f"""
    SELECT rollout, last(reward ORDER BY direct, given_at, seq, place) FILTER (reward IS NOT NULL) AS reward,
           coalesce(
             nullif(last(reason ORDER BY direct, given_at, seq, place) FILTER (reward IS NOT NULL), ''),
             last(reason ORDER BY direct, given_at, seq, place) FILTER (reward IS NULL AND reason <> '')
           ) AS reason, last(given_at ORDER BY direct, given_at, seq, place) FILTER (reward IS NOT NULL) AS said
    FROM (
      SELECT l.rollout, f.reward, f.reason, true AS direct, f.given_at, f.seq, f.rowid AS place
      FROM {live} l JOIN feedback f ON f.rollout = l.rollout
      UNION ALL
      SELECT l.rollout, f.reward, f.reason, false, f.given_at, f.seq, f.rowid
      FROM {live} l JOIN feedback f ON f.rollout IS NULL AND f.name = l.name AND f.episode = l.episode
      WHERE l.episode <> ''
    ) GROUP BY rollout
"""


def _judged(trajectory: str = "trajectory", live: str = "live") -> str:
    """The rows of `trajectory`, with the verdicts of live traffic that feedback gave later."""
    return f"""
    SELECT t.* REPLACE (
      coalesce(v.reward, t.reward) AS reward,
      CASE WHEN v.reward IS NULL THEN coalesce(v.reason, t.reason) ELSE coalesce(v.reason, '') END AS reason,
      CASE WHEN v.reward IS NULL THEN t.verdict WHEN v.reward = 1 THEN 'correct'
           WHEN v.reward = 0 THEN 'incorrect' ELSE 'partial' END AS verdict,
      CASE WHEN v.reward IS NULL THEN t.outcome ELSE 'ok' END AS outcome
    ) FROM {trajectory} t LEFT JOIN ({_judged_live(live)}) v ON v.rollout = t.id
"""


# `RolloutOutcome` and `Trajectory.reward` in SQL. Feedback on a rollout that failed does not change them.
_OUTCOME = f"""CASE WHEN failure_boundary IS NULL THEN outcome
         WHEN failure_boundary = '{AGENT_BOUNDARY}' THEN 'failed' ELSE 'undecided' END"""


def _counted(judged: str) -> str:
    return f"""
    SELECT * REPLACE (
      {_OUTCOME} AS outcome,
      CASE WHEN failure_boundary IS NULL THEN reward WHEN failure_boundary = '{AGENT_BOUNDARY}' THEN 0.0 END AS reward
    ) FROM ({judged})
"""


_JUDGED_LIVE = _judged_live()
JUDGED = _judged()
"""The rows of `trajectory`, with the verdicts of live traffic that feedback gave later."""
COUNTED = _counted(JUDGED)
"""The same, with the outcome and reward of rollouts that failed."""
# Rows are never updated. Where an id can have several rows, these subqueries pick the valid one.
LATEST_RUNS = """
    SELECT * EXCLUDE (happened_at, seq),
           epoch_us(happened_at) AS at,
           epoch_us(min(happened_at) OVER (PARTITION BY run)) AS started_at
    FROM run_event
    QUALIFY row_number() OVER (PARTITION BY run ORDER BY seq DESC, happened_at DESC) = 1
"""
FIRST_CALLS = """
    SELECT * REPLACE (epoch_us(recorded_at) AS recorded_at) FROM journal WHERE run = $1
    QUALIFY row_number() OVER (PARTITION BY id ORDER BY seq) = 1
"""
_SUMMARIES = """
    SELECT * FROM summary WHERE run = $1
    QUALIFY row_number() OVER (PARTITION BY id ORDER BY seq DESC, rowid DESC) = 1
"""
_ALL_PROPOSALS = """
    SELECT * FROM proposal
    QUALIFY row_number() OVER (PARTITION BY run, phase, batch, id ORDER BY seq DESC) = 1
"""
_PROPOSALS = f"SELECT * FROM ({_ALL_PROPOSALS}) WHERE run = $1"


def _whole(which: str) -> str:
    """Whole rollouts. Feedback is only looked up for these, and their texts are only read for these."""
    wanted = f"(SELECT id FROM trajectory WHERE {which})"
    bodies = f"(SELECT rowid FROM trajectory_body WHERE rollout IN {wanted})"  # else many other texts are read too
    judged = _judged(f"(FROM trajectory WHERE {which})", f"(FROM live WHERE rollout IN {wanted})")
    return f"""
    SELECT t.* REPLACE (epoch_us(t.started_at) AS started_at), b.steps, b.format, b.messages
    FROM ({judged}) t JOIN (FROM trajectory_body WHERE rowid IN {bodies}) b ON b.rollout = t.id
"""


# The proposals that made the experiences $1, those they rest on and those merged into them, each with the experience.
MAKERS = """
    WITH RECURSIVE maker AS (
      SELECT experience AS lesson, run, phase, batch, id, rests_on, evidence FROM proposal
      WHERE list_contains($1::VARCHAR[], experience)
      UNION
      SELECT d.experience AS lesson, p.run, p.phase, p.batch, p.id, p.rests_on, p.evidence FROM proposal p
      JOIN decision d ON d.run = p.run AND d.phase = p.phase AND d.batch = p.batch AND d.proposal = p.id
      WHERE list_contains($1::VARCHAR[], d.experience)
      UNION
      SELECT m.lesson, p.run, p.phase, p.batch, p.id, p.rests_on, p.evidence
      FROM proposal p JOIN maker m ON p.run = m.run AND p.phase = m.phase AND p.batch = m.batch
      WHERE list_contains(m.rests_on, p.id) OR list_contains(p.folded_into, m.id)
    ), made AS (SELECT lesson, unnest(evidence) AS rollout FROM maker)
"""
"""The start of a query: `made` are the rollouts that each of the experiences $1 was learned from."""
# The rollouts that a `Selection` picks; its fields are the parameters.
_SELECTED = f"""
    FROM ({COUNTED}) t JOIN task k ON k.id = t.task
    WHERE ($1 IS NULL OR t.run = $1) AND ($2 IS NULL OR t.phase = $2) AND ($3 IS NULL OR k.domain = $3)
      AND ($4 IS NULL OR t.outcome = $4) AND ($5 IS NULL OR t.reward >= $5)
"""


def _starting(table: str, column: str) -> str:
    return f"SELECT DISTINCT {column} AS id FROM {table} WHERE starts_with({column}, $1) ORDER BY id LIMIT 4"


class Query(StrEnum):
    """All queries of a reader by name; `value` is the SQL. Readers send nothing else to the database."""

    RUNS = f"FROM ({LATEST_RUNS}) ORDER BY started_at DESC, run DESC LIMIT $1"
    RUN = f"FROM ({LATEST_RUNS}) WHERE run = $1"

    TRAJECTORIES = f"""
        SELECT id, phase, batch, task, g, attempt, outcome, reward, tokens_in, tokens_out, cost_usd, seconds
        FROM ({COUNTED}) WHERE run = $1 AND ($2 IS NULL OR phase = $2)
        ORDER BY min(started_at) OVER (PARTITION BY phase), batch, task, g, attempt
    """
    TRAJECTORY = _whole("id = $1")
    FINISHED = _whole("run = $1 AND phase = $2 AND batch = $3")
    GROUP = f"{_whole('run = $1 AND phase = $2 AND task = $3')} ORDER BY t.g, t.attempt"
    WHOLE = _whole("id IN (SELECT unnest($1::VARCHAR[]))")
    SELECTED = f"""
        SELECT t.id, t.run, t.phase, t.task, t.reward {_SELECTED}
        ORDER BY t.run, min(t.started_at) OVER (PARTITION BY t.run, t.phase), t.phase, t.batch, t.task,
                 t.g, t.attempt
    """
    SELECTED_IDS = f"SELECT t.id, t.run, t.task {_SELECTED}"
    SELECTED_RUNS = f"SELECT DISTINCT t.run {_SELECTED} ORDER BY t.run"
    EVALUATED = f"""
        SELECT t.id, t.run, t.task, t.g, t.attempt, t.seed, t.outcome, t.failure_code, t.failure_boundary, t.verdict,
               t.reward, t.requests, t.tokens_in, t.tokens_cached, t.tokens_out, t.cost_usd, t.seconds,
               coalesce(s.n, 0) AS tool_calls
        FROM ({COUNTED}) t
        LEFT JOIN (SELECT rollout, count(*) AS n FROM step WHERE kind = 'tool' GROUP BY rollout) s ON s.rollout = t.id
        WHERE t.phase = $1
        ORDER BY t.started_at, t.id
    """
    VERSIONS_MADE = "SELECT version, parent, joined, run, experiences FROM library_version ORDER BY version"
    LEARNED_LESSONS = "FROM experience WHERE origin IN ('add', 'modify', 'merge') ORDER BY id"
    RUN_INPUTS = "SELECT body FROM blob WHERE kind = 'ground' AND name = $1"
    RUN_FAILURE = "SELECT body FROM blob WHERE kind = 'failure' AND name = $1 ORDER BY seq DESC LIMIT 1"
    METRICS = """
        SELECT step, name, arg_max(value, seq) AS value FROM metric WHERE run = $1
        GROUP BY step, name ORDER BY step, name
    """
    MESSAGES = "SELECT messages FROM trajectory_body WHERE rollout = $1"
    TASK = "FROM task WHERE id = $1"
    PROMPT = "SELECT body FROM blob WHERE hash = $1"

    # Journal entries of stored rollouts are not needed for resuming.
    UNFINISHED_CALLS = f"""
        FROM ({FIRST_CALLS}) WHERE stage <> 'rollout' OR unit NOT IN (SELECT id FROM trajectory WHERE run = $1)
    """
    CALLS = f"FROM ({FIRST_CALLS}) WHERE unit = $2 ORDER BY kind, ordinal, id"
    # The units of work in which a run summarised and compared the rollouts of a task.
    LESSON_UNITS = """
        SELECT DISTINCT stage, unit FROM journal WHERE run = $1 AND stage IN ('summarise', 'compare') ORDER BY unit
    """
    STAGES = f"""
        SELECT stage, count(*) AS calls, sum(tokens_in)::BIGINT AS tokens_in,
               sum(tokens_cached)::BIGINT AS tokens_cached, sum(tokens_out)::BIGINT AS tokens_out,
               coalesce(sum(cost_usd), 0.0) AS cost_usd, count(*) - count(cost_usd) AS unpriced,
               sum(seconds) AS seconds, sum(attempts - 1)::BIGINT AS retried
        FROM ({FIRST_CALLS}) WHERE kind = 'model' GROUP BY stage ORDER BY stage
    """
    # Of the calls that began first, which did not wait for others to end.
    CALL_SECONDS = f"""
        SELECT stage, avg(seconds) AS seconds FROM (
          SELECT stage, seconds, row_number() OVER (PARTITION BY stage ORDER BY recorded_at - 1e6 * seconds) AS place
          FROM ({FIRST_CALLS}) WHERE kind = 'model' AND attempts = 1
        ) WHERE place <= $2 GROUP BY stage
    """
    SUMMARIES = f"FROM ({_SUMMARIES}) ORDER BY rollout, id"
    PROPOSALS = f"FROM ({_PROPOSALS}) ORDER BY min(seq) OVER (PARTITION BY phase), batch, stage, ordinal, id"

    # What came of one rollout in any run: a run can learn from the rollouts of another one.
    SUMMARIES_OF = """
        SELECT * FROM summary WHERE rollout = $1
        QUALIFY row_number() OVER (PARTITION BY id ORDER BY seq DESC, rowid DESC) = 1
        ORDER BY run, id
    """
    PROPOSALS_FROM = f"""
        FROM ({_ALL_PROPOSALS}) WHERE list_contains(evidence, $1) ORDER BY run, phase, batch, stage, ordinal, id
    """
    PROPOSALS_OF_EXPERIENCES = f"""
        SELECT p.* FROM ({_ALL_PROPOSALS}) p
        LEFT JOIN decision d
          ON d.run = p.run AND d.phase = p.phase AND d.batch = p.batch AND d.proposal = p.id AND d.verdict = 'approved'
        WHERE list_contains($1::VARCHAR[], coalesce(p.experience, d.experience))
        ORDER BY p.run, p.phase, p.batch, p.ordinal, p.id
    """
    # Lessons that wait or waited for a person, those of the newest run first.
    QUARANTINED = f"FROM ({_ALL_PROPOSALS}) WHERE ended = 'quarantined' ORDER BY seq DESC, stage, ordinal, id"
    DECISIONS = "SELECT * EXCLUDE (decided_at), epoch_us(decided_at) AS at FROM decision ORDER BY decided_at, seq"

    COUNT_CALLS = f"SELECT count(*) AS n FROM ({FIRST_CALLS})"
    COUNT_TRAJECTORIES = "SELECT count(*) AS n FROM trajectory"
    COUNT_SUMMARIES = f"SELECT count(*) AS n FROM ({_SUMMARIES})"
    COUNT_ROLLOUTS = f"""
        SELECT outcome AS key, count(*) AS n FROM ({COUNTED}) WHERE run = $1 GROUP BY outcome ORDER BY key
    """
    COUNT_PROPOSALS = f"SELECT ended AS key, count(*) AS n FROM ({_PROPOSALS}) GROUP BY ended ORDER BY key"

    LIBRARY = "SELECT * EXCLUDE (saved_at, run, seq) FROM library_version WHERE version = $1"
    # The versions that start with $1, each with every run that made it or that had rollouts with it.
    VERSIONS = """
        SELECT v.version, v.parent, len(v.experiences) AS lessons, u.run
        FROM library_version v
        LEFT JOIN (
          SELECT DISTINCT version, run FROM library_version WHERE run IS NOT NULL
          UNION SELECT DISTINCT library_version AS version, run FROM trajectory
        ) u ON u.version = v.version
        WHERE starts_with(v.version, $1)
        ORDER BY v.version, u.run
    """
    EXPERIENCES = "FROM experience WHERE list_contains($1::VARCHAR[], id)"
    MADE_FROM = f"{MAKERS} SELECT DISTINCT rollout FROM made ORDER BY rollout"
    LEARNED_ON = f"""{MAKERS}
        SELECT DISTINCT made.lesson, t.task FROM made JOIN trajectory t ON t.id = made.rollout
        ORDER BY made.lesson, t.task
    """
    SHOWN_TO = f"""
        SELECT t.id AS rollout, t.reward
        FROM ({COUNTED}) t JOIN library_version v ON v.version = t.library_version
        WHERE list_contains(v.experiences, $1) AND NOT list_contains(t.masked, $1)
          AND (t.offered IS NULL OR list_contains(t.offered, $1))
        ORDER BY t.started_at, t.id
    """
    # Rollouts that could have been shown one of the lessons $1, or were shown one of the versions $2, in batches of a
    # task and in live traffic where some lesson was hidden from some rollout.
    EXPOSED = f"""
        SELECT t.id, t.run, t.phase, t.batch, t.task, t.g, t.attempt, t.seed, t.model, t.library_version AS library,
               t.masked, t.offered, t.arm, t.reward, epoch_us(t.started_at) AS at,
               coalesce(l.name, '') AS run_name, coalesce(l.episode, '') AS episode, v.experiences,
               CASE WHEN coalesce(k.family, '') = '' THEN '' ELSE k.domain || '/' || k.family END AS family,
               epoch_us(f.said) AS said
        FROM ({COUNTED}) t LEFT JOIN ({_JUDGED_LIVE}) f ON f.rollout = t.id
        LEFT JOIN library_version v ON v.version = t.library_version
        LEFT JOIN live l ON l.rollout = t.id
        LEFT JOIN task k ON k.id = t.task
        WHERE list_has_any(v.experiences, $1::VARCHAR[]) OR list_contains($2::VARCHAR[], t.library_version)
        QUALIFY max(len(t.masked)) OVER (
          PARTITION BY t.library_version, CASE WHEN t.phase = '{LIVE}' THEN '' ELSE t.run END, t.phase,
                       CASE WHEN t.phase = '{LIVE}' THEN '' ELSE t.task END
        ) > 0
        ORDER BY t.started_at, t.id
    """

    # Episodes of live traffic that began since $2 (microseconds since 1970) and had the same model and the same one of
    # the versions $1 throughout: alone, or as a tenant's own one that stood with shared lessons.
    SERVED_EPISODES = f"""
        SELECT l.name AS run_name, any_value(l.episode) AS episode, any_value(t.model) AS model,
               any_value(v.served) AS library, any_value(v.beside) AS beside,
               coalesce(any_value(t.reward) FILTER (t.reward NOT BETWEEN 0 AND 1), avg(t.reward)) AS reward,
               epoch_us(max(f.said)) AS said, epoch_us(min(t.started_at)) AS at
        FROM ({COUNTED}) t JOIN live l ON l.rollout = t.id LEFT JOIN ({_JUDGED_LIVE}) f ON f.rollout = t.id
        LEFT JOIN (
          SELECT version, version AS served, '' AS beside FROM (SELECT unnest($1::VARCHAR[]) AS version)
          UNION ALL
          SELECT version, parent, joined FROM library_version
          WHERE joined IS NOT NULL AND list_contains($1::VARCHAR[], parent)
            AND NOT list_contains($1::VARCHAR[], version)
        ) v ON v.version = t.library_version
        WHERE t.phase = '{LIVE}'
        GROUP BY l.name, coalesce(nullif(l.episode, ''), t.id)
        HAVING epoch_us(min(t.started_at)) >= $2 AND count(DISTINCT (t.library_version, t.model)) = 1
          AND any_value(v.served) IS NOT NULL
        ORDER BY min(t.started_at), min(t.id)
    """

    # Every $2-th row of a recorder in `trajectory`, and the last one: where a part of `LIVE` begins.
    LIVE_PARTS = f"""
        SELECT begins FROM (
          SELECT t.rowid AS begins, row_number() OVER (ORDER BY t.rowid) AS n
          FROM trajectory t JOIN task k ON k.id = t.task
          WHERE t.phase IN ('{LIVE}', '{DEMONSTRATION}') AND k.domain = $1
        ) WHERE n % $2 = 1 ORDER BY begins
    """
    # What the store held of live traffic as of the commit $1, or as of the last one: no row of it changes but by being
    # taken out, as by an erasure.
    LIVE_MARK = f"""
        WITH last AS (SELECT coalesce($1, max(seq), 0) AS seq FROM commit_log)
        SELECT last.seq, concat_ws('/', count(*), bit_xor(hash(id))) AS held FROM last LEFT JOIN (
          SELECT id, seq FROM trajectory WHERE phase IN ('{LIVE}', '{DEMONSTRATION}')
          UNION ALL SELECT id, seq FROM feedback
        ) r ON r.seq <= last.seq GROUP BY last.seq
    """
    # Recorded rollouts of a recorder with a verdict, and the answers that persons wrote for them. The treatment of such
    # an answer is that of the rollout that it corrects. Of a rollout that was recorded after each of its calls, the
    # longest recording counts, as `turn` and `attempt` say. Either those among the rows $3 to $4, or those that are new
    # since the commit $5, were judged since, or belong to the same rollout as one of them.
    LIVE = f"""
        WITH said AS (
          SELECT rollout AS id FROM feedback WHERE seq > $5
          UNION ALL SELECT l.rollout FROM feedback f JOIN live l ON l.name = f.name AND l.episode = f.episode
            WHERE f.rollout IS NULL AND f.seq > $5 AND l.episode <> ''
          UNION ALL SELECT id FROM trajectory WHERE seq > $5
        ), part AS (
          SELECT t.* FROM trajectory t JOIN task k ON k.id = t.task
          WHERE t.phase IN ('{LIVE}', '{DEMONSTRATION}') AND k.domain = $1 AND ($2 IS NULL OR t.run = $2)
            AND CASE WHEN $5 IS NULL THEN t.rowid BETWEEN $3 AND $4 ELSE (t.run, t.phase, t.task, t.g) IN (
              SELECT (run, phase, task, g) FROM trajectory WHERE id IN (FROM said)) END
        ), heard AS (FROM live WHERE rollout IN (SELECT id FROM part))
        SELECT t.id, t.phase, t.task, coalesce(c.model, t.model) AS model,
               coalesce(c.library_version, t.library_version) AS library, coalesce(c.masked, t.masked) AS masked,
               t.reward, t.reason <> '' AS explained, epoch_us(t.started_at) AS at,
               hash(t.phase, t.run, t.task, t.g, CASE WHEN t.phase <> '{LIVE}' THEN t.id END) AS turn, t.attempt
        FROM ({_counted(_judged("part", "heard"))}) t
        LEFT JOIN feedback f ON f.id = t.id LEFT JOIN trajectory c ON c.id = f.rollout
        WHERE t.reward IS NOT NULL
    """
    COUNT_WITHOUT_REWARD = f"""
        SELECT count(*) AS n FROM ({JUDGED}) t JOIN live l ON l.rollout = t.id
        WHERE l.name = $1 AND ($2 IS NULL OR t.run = $2) AND t.reward IS NULL AND NOT EXISTS (
          SELECT 1 FROM trajectory n
          WHERE n.run = t.run AND n.phase = t.phase AND n.task = t.task AND n.g = t.g AND n.attempt > t.attempt)
    """
    TASKS = "FROM task WHERE id IN (SELECT unnest($1::VARCHAR[]))"
    FEEDBACK = """
        SELECT f.* REPLACE (epoch_us(f.given_at) AS given_at) FROM feedback f
        WHERE f.rollout = $1 OR (f.rollout IS NULL AND (f.name, f.episode) IN
          (SELECT (name, episode) FROM live WHERE rollout = $1 AND episode <> ''))
        ORDER BY f.given_at, f.seq, f.rowid
    """
    EPISODES = "SELECT DISTINCT episode FROM live WHERE name = $1"
    EPISODE = "SELECT episode FROM live WHERE rollout = $1"
    # Feedback of a recorder that no rollout of the store answers to.
    COUNT_UNMATCHED = """
        SELECT count(*) AS n FROM feedback f WHERE f.name = $1 AND CASE
          WHEN f.rollout IS NULL THEN f.episode NOT IN (SELECT episode FROM live WHERE name = $1)
          ELSE f.rollout NOT IN (SELECT rollout FROM live) END
    """
    # What the latest recorded rollout of the episode $2 of the recorder $1 was shown.
    SHOWN_IN_EPISODE = """
        SELECT t.library_version AS version, t.masked, t.offered
        FROM trajectory t JOIN live l ON l.rollout = t.id
        WHERE l.name = $1 AND l.episode = $2 ORDER BY t.started_at DESC, t.id DESC LIMIT 1
    """
    IS_RECORDED = """
        SELECT count(*) AS n FROM live WHERE name = $1 AND CASE WHEN $2 IS NULL THEN episode = $3 ELSE rollout = $2 END
    """
    RECORDED = "SELECT rollout, episode FROM live WHERE name = $1 ORDER BY seq DESC, rowid DESC LIMIT $2"
    IS_LIVE = "SELECT count(*) AS n FROM (SELECT 1 FROM live WHERE name = $1 LIMIT 1)"

    # Up to four ids that start with $1. The member's name is `STARTING_` and the kind of id.
    STARTING_RUN = _starting("run_event", "run")
    STARTING_ROLLOUT = _starting("trajectory", "id")
    STARTING_TASK = _starting("task", "id")
    STARTING_VERSION = _starting("library_version", "version")
    STARTING_PROMPT = _starting("blob", "hash")


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run, as of its latest event."""

    run: RunId
    domain: str
    kind: RunKind
    state: RunState
    """State of the latest event. A "running" run that no process runs any more is given as "interrupted"."""
    model: str
    simulated: bool
    seed: int
    settings: str
    package_version: str
    started_at: datetime
    at: datetime
    """Time of the latest event."""
    report: str


@dataclass(frozen=True, slots=True)
class TrajectoryRow:
    """A trajectory without its text."""

    id: RolloutId
    phase: str
    batch: int
    task: TaskId
    g: int
    attempt: int
    outcome: str
    reward: float | None
    tokens_in: int
    tokens_out: int
    cost_usd: float | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Selection:
    """Filter for rollouts of all runs. None for a field accepts any value."""

    run: RunId | None = None
    phase: str | None = None
    domain: str | None = None
    outcome: RolloutOutcome | None = None
    min_reward: float | None = None

    @property
    def parameters(self) -> tuple[str | float | None, ...]:
        """The parameters of `Query.SELECTED`, in order."""
        return (self.run, self.phase, self.domain, self.outcome, self.min_reward)


@dataclass(frozen=True, slots=True)
class SelectedText:
    """A selected rollout with the agent framework's messages."""

    id: RolloutId
    run: RunId
    phase: str
    batch: int
    task: TaskId
    reward: float | None
    model: str
    library: LibraryVersion
    arm: str
    weights_step: int | None
    answer: str | None
    expected: str | None
    """The expected answer of the task."""
    messages: bytes


@dataclass(frozen=True, slots=True)
class LiveRow:
    """A recorded rollout with a verdict, or an answer that a person wrote for one."""

    id: RolloutId
    phase: str
    task: TaskId
    model: str
    """Model, library and withheld lessons; for a person's answer, those of the rollout that it corrects."""
    library: LibraryVersion
    masked: tuple[str, ...]
    reward: float
    explained: bool
    """Whether feedback gave a reason in words."""
    at: int
    """When it was recorded: microseconds since 1970."""
    turn: int
    """Hash of what was recorded, perhaps several times: the recording with the largest `attempt` counts."""
    attempt: int


def longest(rows: Iterable[LiveRow], known: Mapping[int, LiveRow] = {}) -> dict[int, LiveRow]:
    """The recordings that count, by turn: of one that was recorded after each of its calls, the longest one."""
    found = dict(known)
    for row in rows:
        if (other := found.get(row.turn)) is None or other.attempt < row.attempt:
            found[row.turn] = row
    return found


@dataclass(frozen=True, slots=True)
class LiveMark:
    """How far live traffic was read."""

    seq: int
    """The last commit that was read."""
    held: str
    """What the store held then: a number of rows, and a hash of their ids."""


@dataclass(frozen=True, slots=True)
class SelectedRow:
    """A selected rollout."""

    id: RolloutId
    run: RunId
    phase: str
    task: TaskId
    reward: float | None


@dataclass(frozen=True, slots=True)
class EvaluatedRow:
    """A rollout with the numbers that an evaluation needs."""

    id: RolloutId
    run: RunId
    task: TaskId
    g: int
    attempt: int
    seed: int
    outcome: str
    failure_code: str | None
    failure_boundary: str | None
    verdict: str | None
    """Status of the verdict; None when the rollout failed."""
    reward: float | None
    requests: int
    tokens_in: int
    tokens_cached: int
    tokens_out: int
    cost_usd: float | None
    seconds: float
    tool_calls: int


@dataclass(frozen=True, slots=True)
class WholeRollout:
    """A trajectory with the agent framework's messages."""

    trajectory: Trajectory
    format: str
    """Framework and major version that wrote the messages."""
    messages: bytes


@dataclass(frozen=True, slots=True)
class ProposalRow:
    """A proposal with its outcome, and the batch it belongs to."""

    phase: str
    batch: int
    ended: Ended
    run: RunId


@dataclass(frozen=True, slots=True)
class LessonUnit:
    """A call of the summarise or the compare stage: the task whose rollouts it was about, and the batch."""

    stage: str
    phase: str
    batch: int
    task: TaskId


@dataclass(frozen=True, slots=True)
class VersionRow:
    """A library version, and a run that made it or had rollouts with it."""

    version: LibraryVersion
    parent: LibraryVersion | None
    lessons: int
    """Number of lessons."""
    run: RunId | None
    """None for a version that no run made or used."""


@dataclass(frozen=True, slots=True)
class VersionMade:
    """A library version and what it was made from."""

    version: LibraryVersion
    parent: LibraryVersion | None
    joined: LibraryVersion | None
    """The other version that it was made from, for a join."""
    run: RunId | None
    """The run that stored it first: it made the version or started from it."""
    experiences: list[ExperienceId]
    """Ids of its lessons."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """A rollout that had an experience in its context, and its reward (None when failed or undecided)."""

    rollout: RolloutId
    reward: float | None


@dataclass(frozen=True, slots=True)
class ExposedRow:
    """A rollout that could have been shown some lessons, and those that were hidden from it."""

    id: RolloutId
    run: RunId
    phase: str
    batch: int
    task: TaskId
    g: int
    attempt: int
    seed: int
    model: str
    library: LibraryVersion
    masked: list[ExperienceId]
    """Lessons that were hidden from it."""
    offered: list[ExperienceId] | None
    """Lessons that retrieval chose for the task; None: all of the version."""
    arm: str
    reward: float | None
    """None when it is undecided."""
    at: int
    """When it began: microseconds since 1970."""
    run_name: str
    """Name of the recorder; empty for a rollout that a run made."""
    episode: str
    experiences: list[ExperienceId]
    """All lessons that the version shows."""
    family: str
    """Domain and family of the task; empty when it has no family."""
    said: int | None = None
    """When feedback gave it the reward: microseconds since 1970; None where no feedback did."""


@dataclass(frozen=True, slots=True)
class ServedEpisode:
    """An episode of live traffic in which every rollout was shown the same version, by the same model."""

    run_name: str
    """Name of the recorder."""
    episode: str
    """Empty: one rollout that was recorded without an episode."""
    model: str
    library: LibraryVersion
    reward: float | None
    """Mean reward of the rollouts that have one, or one outside 0 to 1 if there is any; None without any."""
    at: int
    """When its first rollout began: microseconds since 1970."""
    said: int | None = None
    """When feedback gave it the last of its rewards; None where no feedback did."""
    beside: str = ""
    """The version of the shared lessons that stood with a tenant's `library`; empty without any."""


@dataclass(frozen=True, slots=True)
class StageTotals:
    """The model calls of one stage of a run, summed."""

    stage: str
    calls: int
    tokens_in: int
    tokens_cached: int
    tokens_out: int
    cost_usd: float
    """Cost of the calls with a known price."""
    unpriced: int
    """Number of calls without a known price."""
    seconds: float
    retried: int
    """Number of repeated requests: those beyond the first of each call."""


@dataclass(frozen=True, slots=True)
class RunCounts:
    """Number of stored records of a run."""

    rollouts: dict[str, int]
    """Number of rollouts by outcome: ok, failed, undecided."""
    proposals: dict[str, int]
    """Number of proposals by outcome: applied, folded (merged into another one), dropped, rejected, quarantined."""
    summaries: int
    calls: int
    """Number of journal entries: model calls and tool calls."""
