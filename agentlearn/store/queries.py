"""Every query of the store, in SQL. Only constants of this module are concatenated; values are always bound."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from agentlearn.types.ids import ExperienceId, LibraryVersion, RolloutId, RunId, TaskId
from agentlearn.types.operation import Ended
from agentlearn.types.run_event import RunKind, RunState
from agentlearn.types.trajectory import AGENT_BOUNDARY, DEMONSTRATION, LIVE, RolloutOutcome, Trajectory

# ruff: noqa: S608


# What feedback says about each rollout of live traffic. A reward given to the rollout itself counts before one given to
# its episode, and of several the last one. A comment counts where the reward came without words.
_JUDGED_LIVE = """
    SELECT rollout, last(reward ORDER BY direct, seq, place) FILTER (reward IS NOT NULL) AS reward,
           coalesce(
             nullif(last(reason ORDER BY direct, seq, place) FILTER (reward IS NOT NULL), ''),
             last(reason ORDER BY direct, seq, place) FILTER (reward IS NULL AND reason <> '')
           ) AS reason
    FROM (
      SELECT l.rollout, f.reward, f.reason, true AS direct, f.seq, f.rowid AS place
      FROM live l JOIN feedback f ON f.rollout = l.rollout
      UNION ALL
      SELECT l.rollout, f.reward, f.reason, false, f.seq, f.rowid
      FROM live l JOIN feedback f ON f.rollout IS NULL AND f.name = l.name AND f.episode = l.episode
      WHERE l.episode <> ''
    ) GROUP BY rollout
"""
JUDGED = f"""
    SELECT t.* REPLACE (
      coalesce(v.reward, t.reward) AS reward,
      CASE WHEN v.reward IS NULL THEN coalesce(v.reason, t.reason) ELSE coalesce(v.reason, '') END AS reason,
      CASE WHEN v.reward IS NULL THEN t.verdict WHEN v.reward >= 1 THEN 'correct'
           WHEN v.reward <= 0 THEN 'incorrect' ELSE 'partial' END AS verdict,
      CASE WHEN v.reward IS NULL THEN t.outcome ELSE 'ok' END AS outcome
    ) FROM trajectory t LEFT JOIN ({_JUDGED_LIVE}) v ON v.rollout = t.id
"""
"""The rows of `trajectory`, with the verdicts of live traffic that feedback gave later."""
# `RolloutOutcome` and `Trajectory.reward` in SQL. Feedback on a rollout that failed does not change them.
_OUTCOME = f"""CASE WHEN failure_boundary IS NULL THEN outcome
         WHEN failure_boundary = '{AGENT_BOUNDARY}' THEN 'failed' ELSE 'undecided' END"""
_TRAJECTORY = f"""
    SELECT * REPLACE (
      {_OUTCOME} AS outcome, CASE WHEN failure_boundary = '{AGENT_BOUNDARY}' THEN 0.0 ELSE reward END AS reward
    ) FROM ({JUDGED})
"""
# Rows are never updated. Where an id can have several rows, these subqueries pick the valid one.
_LATEST_RUNS = """
    SELECT * EXCLUDE (happened_at, seq),
           epoch_us(happened_at) AS at,
           epoch_us(min(happened_at) OVER (PARTITION BY run)) AS started_at
    FROM run_event
    QUALIFY row_number() OVER (PARTITION BY run ORDER BY seq DESC, happened_at DESC) = 1
"""
_CALLS = """
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
_WHOLE = f"""
    SELECT t.* REPLACE (epoch_us(t.started_at) AS started_at), b.steps, b.format, b.messages
    FROM ({JUDGED}) t JOIN trajectory_body b ON b.rollout = t.id
"""
# The proposals that made the experiences $1, those they rest on and those merged into them, each with the experience.
_MAKERS = """
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
# The rollouts that a `Selection` picks; its fields are the parameters.
_SELECTED = f"""
    FROM ({_TRAJECTORY}) t JOIN task k ON k.id = t.task
    WHERE ($1 IS NULL OR t.run = $1) AND ($2 IS NULL OR t.phase = $2) AND ($3 IS NULL OR k.domain = $3)
      AND ($4 IS NULL OR t.outcome = $4) AND ($5 IS NULL OR t.reward >= $5)
"""


# The pictures and other files in the messages of the rollout $1, with the number of replies before each.
_PICTURES = """
    WITH message AS (
      SELECT unnest(json_extract(messages, '$[*]')) AS one,
             generate_subscripts(json_extract(messages, '$[*]'), 1) AS place
      FROM trajectory_body WHERE rollout = $1 AND contains(messages, '"kind":"binary"')
    ), piece AS (
      SELECT place, count(*) FILTER (one->>'$.kind' = 'response') OVER (ORDER BY place) AS turn,
             list_concat(json_extract(one, '$.parts[*].content[*]'), json_extract(one, '$.parts[*].content')) AS pieces
      FROM message
    ), file AS (SELECT place, turn, unnest(pieces) AS piece FROM piece)
    SELECT row_number() OVER (ORDER BY place, rank) AS n, turn, media, length(body) * 3 // 4 AS size, body FROM (
      SELECT place, turn, row_number() OVER () AS rank, coalesce(piece->>'$.media_type', '') AS media,
             coalesce(piece->>'$.data', '') AS body
      FROM file WHERE piece->>'$.kind' = 'binary'
    )
"""


def _starting(table: str, column: str) -> str:
    return f"SELECT DISTINCT {column} AS id FROM {table} WHERE starts_with({column}, $1) ORDER BY id LIMIT 4"


class Query(StrEnum):
    """All queries of a reader by name; `value` is the SQL. Readers send nothing else to the database."""

    RUNS = f"FROM ({_LATEST_RUNS}) ORDER BY started_at DESC, run DESC LIMIT $1"
    RUN = f"FROM ({_LATEST_RUNS}) WHERE run = $1"

    TRAJECTORIES = f"""
        SELECT id, phase, batch, task, g, attempt, outcome, reward, tokens_in, tokens_out, cost_usd, seconds
        FROM ({_TRAJECTORY}) WHERE run = $1 AND ($2 IS NULL OR phase = $2)
        ORDER BY min(started_at) OVER (PARTITION BY phase), batch, task, g, attempt
    """
    TRAJECTORY = f"{_WHOLE} WHERE t.id = $1"
    FINISHED = f"{_WHOLE} WHERE t.run = $1 AND t.phase = $2 AND t.batch = $3"
    GROUP = f"{_WHOLE} WHERE t.run = $1 AND t.phase = $2 AND t.task = $3 ORDER BY t.g, t.attempt"
    WHOLE = f"{_WHOLE} WHERE list_contains($1::VARCHAR[], t.id)"
    SELECTED = f"""
        SELECT t.id, t.run, t.phase, t.task, t.reward {_SELECTED}
        ORDER BY t.run, min(t.started_at) OVER (PARTITION BY t.run, t.phase), t.phase, t.batch, t.task,
                 t.g, t.attempt
    """
    SELECTED_IDS = f"SELECT t.id, t.run, t.task {_SELECTED}"
    EVALUATED = f"""
        SELECT t.id, t.run, t.task, t.g, t.attempt, t.seed, t.outcome, t.failure_code, t.failure_boundary, t.verdict,
               t.reward, t.requests, t.tokens_in, t.tokens_out, t.cost_usd, t.seconds, coalesce(s.n, 0) AS tool_calls
        FROM ({_TRAJECTORY}) t
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
        FROM ({_CALLS}) WHERE stage <> 'rollout' OR unit NOT IN (SELECT id FROM trajectory WHERE run = $1)
    """
    CALLS = f"FROM ({_CALLS}) WHERE unit = $2 ORDER BY kind, ordinal, id"
    # The units of work in which a run summarised and compared the rollouts of a task.
    LESSON_UNITS = """
        SELECT DISTINCT stage, unit FROM journal WHERE run = $1 AND stage IN ('summarise', 'compare') ORDER BY unit
    """
    STAGES = f"""
        SELECT stage, count(*) AS calls, sum(tokens_in)::BIGINT AS tokens_in,
               sum(tokens_cached)::BIGINT AS tokens_cached, sum(tokens_out)::BIGINT AS tokens_out,
               coalesce(sum(cost_usd), 0.0) AS cost_usd, count(*) - count(cost_usd) AS unpriced,
               sum(seconds) AS seconds, sum(attempts - 1)::BIGINT AS retried
        FROM ({_CALLS}) WHERE kind = 'model' GROUP BY stage ORDER BY stage
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
    DECISIONS = "SELECT * EXCLUDE (decided_at), epoch_us(decided_at) AS at FROM decision ORDER BY seq"

    COUNT_CALLS = f"SELECT count(*) AS n FROM ({_CALLS})"
    COUNT_SUMMARIES = f"SELECT count(*) AS n FROM ({_SUMMARIES})"
    COUNT_ROLLOUTS = f"""
        SELECT outcome AS key, count(*) AS n FROM ({_TRAJECTORY}) WHERE run = $1 GROUP BY outcome ORDER BY key
    """
    COUNT_PROPOSALS = f"SELECT ended AS key, count(*) AS n FROM ({_PROPOSALS}) GROUP BY ended ORDER BY key"

    LIBRARY = "SELECT parent, experiences, joined, withheld FROM library_version WHERE version = $1"
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
    MADE_FROM = f"{_MAKERS} SELECT DISTINCT rollout FROM made ORDER BY rollout"
    LEARNED_ON = f"""{_MAKERS}
        SELECT DISTINCT made.lesson, t.task FROM made JOIN trajectory t ON t.id = made.rollout
        ORDER BY made.lesson, t.task
    """
    SHOWN_TO = f"""
        SELECT t.id AS rollout, t.reward
        FROM ({_TRAJECTORY}) t JOIN library_version v ON v.version = t.library_version
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
               CASE WHEN coalesce(k.family, '') = '' THEN '' ELSE k.domain || '/' || k.family END AS family
        FROM ({_TRAJECTORY}) t
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

    # Recorded rollouts of a recorder with a verdict, and the answers that persons wrote for them; the latest
    # first. The treatment of such an answer is that of the rollout that it corrects.
    LIVE = f"""
        SELECT t.id, t.phase, t.task, coalesce(c.model, t.model) AS model,
               coalesce(c.library_version, t.library_version) AS library, coalesce(c.masked, t.masked) AS masked,
               t.reward, t.reason <> '' AS explained, epoch_us(t.started_at) AS at
        FROM ({JUDGED}) t JOIN task k ON k.id = t.task
        LEFT JOIN feedback f ON f.id = t.id LEFT JOIN trajectory c ON c.id = f.rollout
        WHERE t.phase IN ('{LIVE}', '{DEMONSTRATION}') AND k.domain = $1 AND ($2 IS NULL OR t.run = $2)
          AND t.reward IS NOT NULL
        ORDER BY t.started_at DESC, t.id LIMIT $3
    """
    COUNT_WITHOUT_REWARD = f"""
        SELECT count(*) AS n FROM ({JUDGED}) t JOIN live l ON l.rollout = t.id
        WHERE l.name = $1 AND ($2 IS NULL OR t.run = $2) AND t.reward IS NULL
    """
    TASKS = "FROM task WHERE list_contains($1::VARCHAR[], id)"
    FEEDBACK = """
        SELECT f.* REPLACE (epoch_us(f.given_at) AS given_at) FROM feedback f
        WHERE f.rollout = $1 OR (f.rollout IS NULL AND (f.name, f.episode) IN
          (SELECT (name, episode) FROM live WHERE rollout = $1 AND episode <> ''))
        ORDER BY f.seq, f.rowid
    """
    EPISODES = "SELECT DISTINCT episode FROM live WHERE name = $1"
    EPISODE = "SELECT episode FROM live WHERE rollout = $1"
    # Feedback of a recorder that no rollout of the store answers to.
    COUNT_UNMATCHED = """
        SELECT count(*) AS n FROM feedback f WHERE f.name = $1 AND CASE
          WHEN f.rollout IS NULL THEN f.episode NOT IN (SELECT episode FROM live WHERE name = $1)
          ELSE f.rollout NOT IN (SELECT rollout FROM live) END
    """
    IS_LIVE = "SELECT count(*) AS n FROM (SELECT 1 FROM live WHERE name = $1 LIMIT 1)"

    # Parts of tables for the pages of `agentlearn.view`. Texts are cut here: no page ever holds a whole rollout.
    PAGE_OF_RUNS = f"""
        SELECT * EXCLUDE (settings) REPLACE (
          CASE WHEN report IS NULL OR report = '' THEN '' ELSE CAST(json_object(
            'delta', report->'$.delta', 'before', json_object('mean', report->'$.before.mean'),
            'after', json_object('mean', report->'$.after.mean'), 'contrasts', report->'$.contrasts',
            'baseline', report->'$.baseline', 'rounds', report->'$.rounds', 'pilot', report->'$.pilot',
            'cost_usd', report->'$.cost_usd', 'wall_s', report->'$.wall_s', 'library', report->'$.library'
          ) AS VARCHAR) END AS report
        ), '' AS settings
        FROM ({_LATEST_RUNS}) ORDER BY started_at DESC, run DESC LIMIT $1 OFFSET $2
    """
    COUNT_RUNS = "SELECT count(DISTINCT run) AS n FROM run_event"
    PHASES = f"""
        SELECT phase, count(*) AS rollouts, count(DISTINCT task) AS tasks, avg(reward) AS mean,
               count(*) FILTER (outcome = 'failed') AS failed, count(*) FILTER (outcome = 'undecided') AS undecided,
               sum(cost_usd) AS cost_usd, min(library_version) AS library
        FROM ({_TRAJECTORY}) WHERE run = $1 GROUP BY phase ORDER BY min(started_at), phase
    """
    # The tasks of a run in one phase $2, or in two, $2 and $3. $4 names a filter, $5 a family or a code of failures.
    GRID_TASKS = f"""
        WITH found AS (
          SELECT task, min(started_at) AS at, avg(reward) FILTER (phase = $2) AS before,
                 avg(reward) FILTER (phase = $3) AS after, bool_or(reward < 1) AS wrong, max(reward) AS best,
                 list(DISTINCT coalesce(failure_code, 'verifier')) FILTER (outcome = 'undecided') AS codes
          FROM ({_TRAJECTORY}) WHERE run = $1 AND phase IN ($2, $3) GROUP BY task
        )
        SELECT f.task, f.before, f.after, left(k.problem, 300) AS problem, coalesce(k.family, '') AS family,
               count(*) OVER () AS total
        FROM found f LEFT JOIN task k ON k.id = f.task
        WHERE CASE $4 WHEN 'wrong' THEN f.wrong WHEN 'all-wrong' THEN f.best < 1
                      WHEN 'undecided' THEN len(f.codes) > 0 AND ($6 = '' OR list_contains(f.codes, $6))
                      WHEN 'flipped' THEN f.before <> f.after ELSE true END
          AND ($5 IS NULL OR coalesce(k.family, '') = $5)
        ORDER BY f.at, f.task LIMIT $7 OFFSET $8
    """
    GRID_CELLS = f"""
        SELECT id, phase, task, g, attempt, outcome, reward, coalesce(failure_code, '') AS code,
               left(coalesce(answer, ''), 80) AS answer, count(*) OVER (PARTITION BY task, phase) AS attempts
        FROM ({_TRAJECTORY}) WHERE run = $1 AND phase IN ($2, $3) AND list_contains($4::VARCHAR[], task)
        QUALIFY row_number() OVER (PARTITION BY task, phase ORDER BY g, attempt) <= $5
        ORDER BY task, phase, g, attempt
    """
    FAMILIES = """
        SELECT coalesce(k.family, '') AS name, count(DISTINCT t.task) AS n
        FROM trajectory t JOIN task k ON k.id = t.task
        WHERE t.run = $1 GROUP BY name ORDER BY name LIMIT 200
    """
    UNDECIDED_CODES = f"""
        SELECT coalesce(failure_code, 'verifier') AS name, count(*) AS n FROM ({_TRAJECTORY})
        WHERE run = $1 AND outcome = 'undecided' GROUP BY name ORDER BY n DESC, name LIMIT 50
    """
    TRAJECTORY_HEAD = f"""
        SELECT t.* REPLACE (epoch_us(t.started_at) AS started_at), '[]' AS steps FROM ({JUDGED}) t WHERE t.id = $1
    """
    COUNT_STEPS = "SELECT count(*) AS n FROM step WHERE rollout = $1"
    TURNS_BEFORE = "SELECT count(*) AS n FROM step WHERE rollout = $1 AND kind = 'model' AND ordinal < $2"
    # The labels of lessons, such as G7, in what the model wrote.
    LABELS_NAMED = """
        SELECT DISTINCT unnest(regexp_extract_all(said, '\\bG[0-9]{1,4}\\b')) AS label FROM (
          SELECT unnest(json_extract_string(steps, '$[*].text')) AS said
          FROM trajectory_body WHERE rollout = $1
        )
    """
    # The steps $2 to $3 - 1 of a rollout; each text is cut after $4 characters.
    STEPS = """
        WITH found AS (
          SELECT json_extract(steps, list_transform(range($2, $3), lambda i: '$[' || i || ']')) AS parts
          FROM trajectory_body WHERE rollout = $1
        ), one AS (
          SELECT unnest(parts) AS step, generate_subscripts(parts, 1) + $2 - 1 AS ordinal FROM found
        )
        SELECT ordinal, step->>'$.kind' AS kind, left(coalesce(step->>'$.text', step->>'$.content', ''), $4) AS text,
               length(coalesce(step->>'$.text', step->>'$.content', '')) AS size,
               left(coalesce(step->>'$.thinking', ''), $4) AS thinking, coalesce(step->>'$.tool', '') AS tool,
               coalesce(step->>'$.ok', 'true') = 'true' AS ok, coalesce(step->>'$.error', '') AS error,
               coalesce(step->>'$.finish', '') AS finish, coalesce(CAST(step->>'$.seconds' AS DOUBLE), 0.0) AS seconds,
               json_extract_string(step, '$.tool_calls[*].tool') AS asked,
               list_transform(json_extract_string(step, '$.tool_calls[*].arguments'), lambda one: left(one, $4))
                 AS arguments
        FROM one WHERE step IS NOT NULL ORDER BY ordinal
    """
    # Characters $3 to $3 + $4 - 1, counted from 1, of the text of one step.
    STEP_TEXT = """
        SELECT substr(whole, $3, $4) AS text, length(whole) AS size FROM (
          SELECT coalesce(json_extract_string(steps, '$[' || $2 || '].text'),
                          json_extract_string(steps, '$[' || $2 || '].content'), '') AS whole
          FROM trajectory_body WHERE rollout = $1
        )
    """
    PICTURES = f"SELECT n, turn, media, size FROM ({_PICTURES}) ORDER BY n LIMIT 500"
    PICTURE = f"SELECT media, body FROM ({_PICTURES}) WHERE n = $2"
    CALLS_PAGE = f"""
        SELECT id, stage, unit, ordinal, name, ok, tokens_in, tokens_out, cost_usd, seconds, recorded_at AS at,
               count(*) OVER () AS total
        FROM ({_CALLS}) WHERE kind = 'model' AND stage <> 'rollout' AND ($2 IS NULL OR stage = $2)
        ORDER BY recorded_at, id LIMIT $3 OFFSET $4
    """
    CALL = f"FROM ({_CALLS}) WHERE id = $2"
    COSTS = """
        SELECT epoch_us(recorded_at) // 86400000000 AS day, run, stage, count(*) AS calls,
               sum(tokens_in)::BIGINT AS tokens_in, sum(tokens_out)::BIGINT AS tokens_out,
               coalesce(sum(cost_usd), 0.0) AS cost_usd, count(*) - count(cost_usd) AS unpriced
        FROM journal WHERE kind = 'model' AND ($1 IS NULL OR run = $1)
        GROUP BY ALL ORDER BY day DESC, run DESC, stage LIMIT $2 OFFSET $3
    """
    SHOWN_TOTALS = f"""
        SELECT count(*) AS n, avg(t.reward) AS mean
        FROM ({_TRAJECTORY}) t JOIN library_version v ON v.version = t.library_version
        WHERE list_contains(v.experiences, $1) AND NOT list_contains(t.masked, $1)
          AND (t.offered IS NULL OR list_contains(t.offered, $1))
    """
    SHOWN_PAGE = f"""
        SELECT t.id, t.run, t.phase, t.task, t.g, t.reward, left(k.problem, 200) AS problem
        FROM ({_TRAJECTORY}) t JOIN library_version v ON v.version = t.library_version LEFT JOIN task k ON k.id = t.task
        WHERE list_contains(v.experiences, $1) AND NOT list_contains(t.masked, $1)
          AND (t.offered IS NULL OR list_contains(t.offered, $1))
        ORDER BY t.started_at DESC, t.id LIMIT $2 OFFSET $3
    """
    CITED_BY = "SELECT DISTINCT rollout AS id, run FROM summary WHERE contains(steps, $1) ORDER BY run, id LIMIT $2"
    VERSIONS_WITH = """
        SELECT version, run, epoch_us(saved_at) AS at FROM library_version WHERE list_contains(experiences, $1)
        ORDER BY saved_at LIMIT $2
    """
    RECORDERS = """
        SELECT l.name, count(*) AS rollouts, count(DISTINCT nullif(l.episode, '')) AS episodes,
               epoch_us(max(t.started_at)) AS at
        FROM live l JOIN trajectory t ON t.id = l.rollout GROUP BY l.name ORDER BY max(t.started_at) DESC LIMIT 200
    """
    LIVE_PAGE = f"""
        SELECT t.id, l.episode, left(k.problem, 600) AS problem, left(coalesce(t.answer, ''), 600) AS answer, t.reward,
               left(coalesce(t.reason, ''), 300) AS reason, epoch_us(t.started_at) AS at, count(*) OVER () AS total
        FROM live l JOIN ({JUDGED}) t ON t.id = l.rollout LEFT JOIN task k ON k.id = t.task
        WHERE l.name = $1 AND ($2 IS NULL OR l.episode = $2)
          AND CASE $3 WHEN 'open' THEN t.reward IS NULL WHEN 'wrong' THEN t.reward < 1 ELSE true END
        ORDER BY t.started_at DESC, t.id LIMIT $4 OFFSET $5
    """
    RECORDER_OF = "SELECT name FROM live WHERE rollout = $1"
    # Where a text, in lower case, stands in the steps of rollouts. It is given as JSON writes it.
    SEARCH_STEPS = f"""
        SELECT t.id, t.run, t.phase, t.task, t.reward, b.snippet FROM (
          SELECT rollout, substr(steps, greatest(strpos(lower(steps), $1) - 100, 1), 320) AS snippet
          FROM trajectory_body WHERE contains(lower(steps), $1)
            AND ($2 IS NULL OR rollout IN (SELECT id FROM trajectory WHERE run = $2))
          LIMIT $3 OFFSET $4
        ) b JOIN ({_TRAJECTORY}) t ON t.id = b.rollout
    """
    SEARCH_REASONS = f"""
        SELECT id, run, phase, task, reward,
               left(concat_ws(' ', reason, failure_message, 'answer: ' || answer), 320) AS snippet
        FROM ({_TRAJECTORY}) WHERE contains(lower(concat_ws(' ', reason, failure_message, answer)), $1)
          AND ($2 IS NULL OR run = $2)
        ORDER BY started_at DESC, id LIMIT $3 OFFSET $4
    """
    SEARCH_TASKS = """
        SELECT k.id, left(k.problem, 320) AS snippet, t.run, t.phase FROM task k
        JOIN (
          SELECT task, max(run) AS run, arg_max(phase, run) AS phase FROM trajectory GROUP BY task
        ) t ON t.task = k.id
        WHERE contains(lower(k.problem), $1) AND ($2 IS NULL OR t.run = $2) LIMIT $3 OFFSET $4
    """
    SEARCH_LESSONS = """
        SELECT id, left(lesson, 320) AS snippet FROM experience WHERE contains(lower(lesson), $1)
        ORDER BY id LIMIT $2 OFFSET $3
    """
    # The tasks of two runs, each in one phase, with the score and the lowest rollout of each side.
    SHARED_TASKS = f"""
        WITH side AS (
          SELECT which, task, avg(reward) AS score, arg_min(id, coalesce(reward, 2)) AS rollout FROM (
            SELECT 1 AS which, * FROM ({_TRAJECTORY}) WHERE run = $1 AND phase = $2
            UNION ALL SELECT 2, * FROM ({_TRAJECTORY}) WHERE run = $3 AND phase = $4
          ) GROUP BY which, task
        )
        SELECT a.task, a.score AS before, b.score AS after, a.rollout AS before_rollout, b.rollout AS after_rollout,
               left(k.problem, 200) AS problem, count(*) OVER () AS total, avg(a.score) OVER () AS before_mean,
               avg(b.score) OVER () AS after_mean, count(*) FILTER (a.score <> b.score) OVER () AS flips
        FROM side a JOIN side b ON b.task = a.task AND b.which = 2 LEFT JOIN task k ON k.id = a.task
        WHERE a.which = 1
        ORDER BY abs(coalesce(a.score - b.score, 0)) DESC, a.task LIMIT $5 OFFSET $6
    """
    FLIPS = """
        SELECT flip->>'$.task' AS task, left(flip->>'$.problem', 300) AS problem, flip->>'$.arm' AS arm,
               flip->>'$.baseline' AS baseline, CAST(flip->>'$.score' AS DOUBLE) AS score,
               CAST(flip->>'$.baseline_score' AS DOUBLE) AS baseline_score, flip->>'$.rollout' AS rollout,
               flip->>'$.baseline_rollout' AS baseline_rollout, count(*) OVER () AS total
        FROM (
          SELECT unnest(json_extract(report, '$.flips[*]')) AS flip FROM (
            SELECT report FROM run_event WHERE run = $1 AND coalesce(report, '') <> '' ORDER BY seq DESC LIMIT 1
          )
        )
        WHERE CASE $2 WHEN 'lost' THEN score < baseline_score WHEN 'won' THEN score > baseline_score ELSE true END
        ORDER BY score - baseline_score, task LIMIT $3 OFFSET $4
    """

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
    masked: list[str]
    reward: float
    explained: bool
    """Whether feedback gave a reason in words."""
    at: int
    """When it was recorded: microseconds since 1970."""


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
