"""The queries of the pages of `agentlearn view`, in SQL: parts of tables, with texts cut to what a page shows."""

from enum import StrEnum

from agentlearn.store.queries import COUNTED, FIRST_CALLS, JUDGED, LATEST_RUNS

# ruff: noqa: S608

# The rows of the rollout $1. All of them came with one commit, whose number finds them without a search through all.
_OF_ONE = "rollout = $1 AND seq = (SELECT seq FROM trajectory WHERE id = $1)"
# The pictures and other files in the messages of the rollout $1, with the number of replies before each.
_PICTURES = f"""
    WITH message AS (
      SELECT unnest(json_extract(messages, '$[*]')) AS one,
             generate_subscripts(json_extract(messages, '$[*]'), 1) AS place
      FROM trajectory_body WHERE {_OF_ONE}
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


class PageQuery(StrEnum):
    """All queries of pages by name, see `Query`."""

    PAGE_OF_RUNS = f"""
        SELECT * EXCLUDE (settings) REPLACE (
          CASE WHEN report IS NULL OR report = '' THEN '' ELSE CAST(json_object(
            'delta', report->'$.delta', 'before', json_object('mean', report->'$.before.mean'),
            'after', json_object('mean', report->'$.after.mean'), 'contrasts', report->'$.contrasts',
            'baseline', report->'$.baseline', 'rounds', report->'$.rounds', 'pilot', report->'$.pilot',
            'cost_usd', report->'$.cost_usd', 'wall_s', report->'$.wall_s', 'library', report->'$.library'
          ) AS VARCHAR) END AS report
        ), CASE WHEN coalesce(settings, '') = '' THEN '' ELSE CAST(json_object(
            'arms', settings->'$.arms', 'models', settings->'$.models'
          ) AS VARCHAR) END AS settings
        FROM ({LATEST_RUNS}) ORDER BY started_at DESC, run DESC LIMIT $1 OFFSET $2
    """
    COUNT_RUNS = "SELECT count(DISTINCT run) AS n FROM run_event"
    PHASES = f"""
        SELECT phase, count(*) AS rollouts, count(DISTINCT task) AS tasks, avg(reward) AS mean,
               count(*) FILTER (outcome = 'failed') AS failed, count(*) FILTER (outcome = 'undecided') AS undecided,
               CASE WHEN count(cost_usd) = count(*) THEN sum(cost_usd) END AS cost_usd, min(library_version) AS library
        FROM ({COUNTED}) WHERE run = $1 GROUP BY phase ORDER BY min(started_at), phase
    """
    # The tasks of a run in one phase $2, or in two, $2 and $3. $4 names a filter, $5 a family or a code of failures.
    GRID_TASKS = f"""
        WITH found AS (
          SELECT task, min(started_at) AS at, avg(reward) FILTER (phase = $2) AS before,
                 avg(reward) FILTER (phase = $3) AS after, bool_or(reward < 1) AS wrong, max(reward) AS best,
                 list(DISTINCT coalesce(failure_code, 'verifier')) FILTER (outcome = 'undecided') AS codes
          FROM ({COUNTED}) WHERE run = $1 AND phase IN ($2, $3) GROUP BY task
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
        FROM ({COUNTED}) WHERE run = $1 AND phase IN ($2, $3) AND list_contains($4::VARCHAR[], task)
        QUALIFY row_number() OVER (PARTITION BY task, phase ORDER BY g, attempt) <= $5
        ORDER BY task, phase, g, attempt
    """
    FAMILIES = """
        SELECT coalesce(k.family, '') AS name, count(DISTINCT t.task) AS n
        FROM trajectory t JOIN task k ON k.id = t.task
        WHERE t.run = $1 GROUP BY name ORDER BY name LIMIT 200
    """
    UNDECIDED_CODES = f"""
        SELECT coalesce(failure_code, 'verifier') AS name, count(*) AS n FROM ({COUNTED})
        WHERE run = $1 AND outcome = 'undecided' GROUP BY name ORDER BY n DESC, name LIMIT 50
    """
    TRAJECTORY_HEAD = f"""
        SELECT t.* REPLACE (epoch_us(t.started_at) AS started_at), '[]' AS steps FROM ({JUDGED}) t WHERE t.id = $1
    """
    # How many steps the rollout $1 has, and whether its messages hold files.
    COUNT_STEPS = f"""
        SELECT (SELECT count(*) FROM step WHERE {_OF_ONE}) AS n,
               (SELECT bool_or(contains(messages, '"kind":"binary"')) FROM trajectory_body WHERE {_OF_ONE}) AS pictured
    """
    TURNS_BEFORE = f"SELECT count(*) AS n FROM step WHERE {_OF_ONE} AND kind = 'model' AND ordinal < $2"
    # The labels of lessons, such as G7, in what the model wrote.
    LABELS_NAMED = f"""
        SELECT DISTINCT unnest(regexp_extract_all(said, '\\bG[0-9]{{1,4}}\\b')) AS label FROM (
          SELECT unnest(json_extract_string(steps, '$[*].text')) AS said
          FROM trajectory_body WHERE {_OF_ONE}
        )
    """
    # The steps $2 to $3 - 1 of a rollout; each text is cut after $4 characters.
    STEPS = f"""
        WITH found AS (
          SELECT json_extract(steps, list_transform(range($2, $3), lambda i: '$[' || i || ']')) AS parts
          FROM trajectory_body WHERE {_OF_ONE}
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
    STEP_TEXT = f"""
        SELECT substr(whole, $3, $4) AS text, length(whole) AS size FROM (
          SELECT coalesce(json_extract_string(steps, '$[' || $2 || '].text'),
                          json_extract_string(steps, '$[' || $2 || '].content'), '') AS whole
          FROM trajectory_body WHERE {_OF_ONE}
        )
    """
    PICTURES = f"SELECT n, turn, media, size FROM ({_PICTURES}) ORDER BY n LIMIT 500"
    PICTURE = f"SELECT media, body FROM ({_PICTURES}) WHERE n = $2"
    CALLS_PAGE = f"""
        SELECT id, stage, unit, ordinal, name, ok, tokens_in, tokens_out, cost_usd, seconds, recorded_at AS at,
               count(*) OVER () AS total
        FROM ({FIRST_CALLS}) WHERE kind = 'model' AND stage <> 'rollout' AND ($2 IS NULL OR stage = $2)
        ORDER BY recorded_at, id LIMIT $3 OFFSET $4
    """
    CALL = f"FROM ({FIRST_CALLS}) WHERE id = $2"
    # A call that a resumed run replays has several rows and was paid for once.
    COSTS = """
        SELECT *, sum(calls) OVER ()::BIGINT AS all_calls, sum(tokens_in + tokens_out) OVER ()::BIGINT AS all_tokens,
               sum(cost_usd) OVER () AS all_usd, count(*) OVER () AS total
        FROM (
          SELECT epoch_us(recorded_at) // 86400000000 AS day, run, stage, count(*) AS calls,
                 sum(tokens_in)::BIGINT AS tokens_in, sum(tokens_out)::BIGINT AS tokens_out,
                 sum(cost_usd) AS cost_usd, count(*) - count(cost_usd) AS unpriced
          FROM (
            SELECT recorded_at, run, stage, tokens_in, tokens_out, cost_usd
            FROM journal WHERE kind = 'model' AND ($1 IS NULL OR run = $1)
            QUALIFY row_number() OVER (PARTITION BY id ORDER BY seq) = 1
          ) GROUP BY ALL
        ) ORDER BY day DESC, run DESC, stage LIMIT $2 OFFSET $3
    """
    SHOWN_TOTALS = f"""
        SELECT count(*) AS n, avg(t.reward) AS mean
        FROM ({COUNTED}) t JOIN library_version v ON v.version = t.library_version
        WHERE list_contains(v.experiences, $1) AND NOT list_contains(t.masked, $1)
          AND (t.offered IS NULL OR list_contains(t.offered, $1))
    """
    SHOWN_PAGE = f"""
        SELECT t.id, t.run, t.phase, t.task, t.g, t.reward, left(k.problem, 200) AS problem
        FROM ({COUNTED}) t JOIN library_version v ON v.version = t.library_version LEFT JOIN task k ON k.id = t.task
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
        SELECT t.id, l.episode, l.user_name, left(k.problem, 600) AS problem,
               left(coalesce(t.answer, ''), 600) AS answer, t.reward,
               left(coalesce(t.reason, ''), 300) AS reason, epoch_us(t.started_at) AS at, count(*) OVER () AS total
        FROM live l JOIN ({JUDGED}) t ON t.id = l.rollout LEFT JOIN task k ON k.id = t.task
        WHERE l.name = $1 AND ($2 IS NULL OR l.episode = $2)
          AND CASE $3 WHEN 'open' THEN t.reward IS NULL WHEN 'wrong' THEN t.reward < 1 ELSE true END
        ORDER BY t.started_at DESC, t.id LIMIT $4 OFFSET $5
    """
    RECORDER_OF = "SELECT name FROM live WHERE rollout = $1"
    # Where the text $1, in lower case, stands: in lessons, in tasks, in reasons and answers, in conversations.
    # $2 is the text as JSON writes it, and so is the snippet of a step. With a run $3, only what belongs to it.
    # Reading ends when enough is found.
    SEARCH = f"""
        SELECT 'lesson' AS kind, id, '' AS run, '' AS phase, NULL::DOUBLE AS reward, left(lesson, 320) AS snippet
        FROM experience WHERE $3 IS NULL AND contains(lower(lesson), $1)
        UNION ALL
        SELECT 'task', k.id, t.run, t.phase, NULL, left(k.problem, 320) FROM task k JOIN (
          SELECT task, max(run) AS run, arg_max(phase, run) AS phase FROM trajectory
          WHERE $3 IS NULL OR run = $3 GROUP BY task
        ) t ON t.task = k.id WHERE contains(lower(k.problem), $1)
        UNION ALL
        SELECT 'attempt', id, run, phase, reward,
               left(concat_ws(' ', reason, failure_message, 'answer: ' || answer), 320)
        FROM ({COUNTED}) WHERE contains(lower(concat_ws(' ', reason, failure_message, answer)), $1)
          AND ($3 IS NULL OR run = $3)
        UNION ALL
        SELECT 'step', t.id, t.run, t.phase, t.reward, b.snippet FROM (
          SELECT rollout, substr(steps, greatest(strpos(lower(steps), $2) - 100, 1), 320) AS snippet
          FROM trajectory_body WHERE contains(lower(steps), $2)
            AND ($3 IS NULL OR rollout IN (SELECT id FROM trajectory WHERE run = $3))
          LIMIT $4 + $5
        ) b JOIN ({COUNTED}) t ON t.id = b.rollout
        LIMIT $4 OFFSET $5
    """
    # The tasks of two runs, each in one phase, with the score and the lowest rollout of each side.
    SHARED_TASKS = f"""
        WITH side AS (
          SELECT which, task, avg(reward) AS score, arg_min(id, coalesce(reward, 2)) AS rollout FROM (
            SELECT 1 AS which, * FROM ({COUNTED}) WHERE run = $1 AND phase = $2
            UNION ALL SELECT 2, * FROM ({COUNTED}) WHERE run = $3 AND phase = $4
          ) GROUP BY which, task
        )
        SELECT a.task, '' AS sub, a.score AS before, b.score AS after, a.rollout AS before_rollout,
               b.rollout AS after_rollout,
               left(k.problem, 200) AS problem, count(*) OVER () AS total, avg(a.score) OVER () AS before_mean,
               avg(b.score) OVER () AS after_mean, count(*) FILTER (a.score <> b.score) OVER () AS flips
        FROM side a JOIN side b ON b.task = a.task AND b.which = 2 LEFT JOIN task k ON k.id = a.task
        WHERE a.which = 1
        ORDER BY abs(coalesce(a.score - b.score, 0)) DESC, a.task LIMIT $5 OFFSET $6
    """
    # The tasks on which the arms of a comparison differ, as its report has them.
    FLIPS = """
        SELECT flip->>'$.task' AS task, left(flip->>'$.problem', 300) AS problem,
               concat(flip->>'$.arm', ' against ', flip->>'$.baseline') AS sub,
               CAST(flip->>'$.baseline_score' AS DOUBLE) AS before, CAST(flip->>'$.score' AS DOUBLE) AS after,
               flip->>'$.baseline_rollout' AS before_rollout, flip->>'$.rollout' AS after_rollout,
               count(*) OVER () AS total
        FROM (
          SELECT unnest(json_extract(report, '$.flips[*]')) AS flip FROM (
            SELECT report FROM run_event WHERE run = $1 AND coalesce(report, '') <> '' ORDER BY seq DESC LIMIT 1
          )
        )
        WHERE CASE $2 WHEN 'lost' THEN after < before WHEN 'won' THEN after > before ELSE true END
        ORDER BY after >= before, abs(after - before) DESC, task LIMIT $3 OFFSET $4
    """
