"""Questions over a million trajectories: spread of rewards by group, pass@k, cost by model. Times in ms.

The spread of rewards is also computed by a loop in plain Python, for comparison. One SQL statement creates the rows, in
a store with the real schema and settings. The rows contain only metadata. Message bodies and steps are in other tables,
which these queries do not read.

    just bench million --trajectories 1000000 --rounds 9
"""

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from contextlib import closing
from pathlib import Path

import duckdb

from agentlearn.measure.score import pass_at_k
from agentlearn.store.database import Database
from scripts.bench.found import Found, Row, Target

GROUP_SIZE = 8
TASKS_PER_BATCH = 20
GROUPS_PER_RUN = 6_000
K = 4
LIMIT_MS = 100.0

FILL = f"""
    INSERT INTO trajectory
    SELECT md5(i::VARCHAR) AS id,
           left(md5('run' || (i // {GROUP_SIZE * GROUPS_PER_RUN})), 26) AS run,
           'epoch-' || (1 + i // {GROUP_SIZE * GROUPS_PER_RUN // 3} % 3) AS phase,
           (i // {GROUP_SIZE * TASKS_PER_BATCH})::INTEGER AS batch,
           md5('task' || (i // {GROUP_SIZE})) AS task,
           (i % {GROUP_SIZE})::INTEGER AS g, 0 AS attempt, i AS seed,
           'openai:model-' || (i // {GROUP_SIZE * GROUPS_PER_RUN} % 5) AS model,
           md5('version' || (i // {GROUP_SIZE * TASKS_PER_BATCH})) AS library_version,
           [] AS masked, NULL AS offered, 'learn' AS arm, NULL AS weights_step, 0.7 AS temperature,
           CASE WHEN hash(i) % 50 = 0 THEN 'failed' ELSE 'ok' END AS outcome,
           NULL, NULL, NULL, CASE WHEN hash(i) % 50 = 0 THEN NULL ELSE 'judged' END,
           CASE WHEN hash(i) % 50 = 0 THEN NULL ELSE (hash(i) % 100 < 20 + 60 * (i // {GROUP_SIZE} % 2))::DOUBLE END,
           '', (i % 997)::VARCHAR, 3, 2700 + i % 500, 900, 600 + i % 100, 0.001 + (i % 100) / 1e5,
           TIMESTAMPTZ '2026-01-01 00:00:00+00' + to_seconds(i // 10), 3.0, '[]', '', i // 16
    FROM range({{count}}) AS rows(i)
"""
GROUP_STD = """
    SELECT run, phase, task, stddev_pop(reward) AS std FROM trajectory
    WHERE reward IS NOT NULL GROUP BY run, phase, task
"""
PASS_COUNTS = """
    SELECT n, c, count(*) AS tasks
    FROM (SELECT count(*) AS n, count(*) FILTER (reward >= 1) AS c FROM trajectory GROUP BY run, phase, task)
    GROUP BY n, c
"""
"""Number of tasks by rollouts and right rollouts. pass@k depends only on these, so Python gets only a few rows."""
COST = """
    SELECT model, count(*) AS rollouts, sum(tokens_in)::BIGINT AS tokens_in, sum(tokens_out)::BIGINT AS tokens_out,
           sum(cost_usd) AS cost_usd
    FROM trajectory GROUP BY model ORDER BY model
"""
SPREAD = f"SELECT count(*), count(*) FILTER (std > 0), avg(std) FROM ({GROUP_STD})"


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--trajectories", type=int, default=1_000_000, help="rows in the store")
    parser.add_argument("--rounds", type=int, default=9, help="number of repetitions; medians are printed")


def measure(chosen: argparse.Namespace) -> Found:
    """Measure the time of each query in ms (median and slowest)."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        with closing(Database(Path(folder), create=True)) as database, database.cursor() as cursor:
            cursor.execute(FILL.format(count=chosen.trajectories))
        filled_s = time.perf_counter() - began
        size_mb = sum(file.stat().st_size for file in Path(folder).iterdir() if file.is_file()) / 2**20
        with closing(Database(Path(folder), create=False)) as database, database.cursor() as cursor:
            rows, answers = _asked(cursor, chosen.rounds)
    what = f"of {chosen.trajectories:,} trajectories"
    return Found(
        rows=(*rows, Row(name="the store", figures={"rows": chosen.trajectories, "mb": size_mb, "filled_s": filled_s})),
        targets=tuple(
            Target(
                what=f"{row.name} {what}, p50, ms",
                figure=float(row.figures["p50_ms"] or 0),
                bound="at_most",
                limit=LIMIT_MS,
            )
            for row in rows
            if row.name in answers
        ),
        notes=(
            "the rows were created by one SQL statement and contain only metadata",
            *(f"{name}: {said}" for name, said in answers.items()),
        ),
    )


def _asked(cursor: duckdb.DuckDBPyConnection, rounds: int) -> tuple[list[Row], dict[str, str]]:
    questions = {"group std": _group_std, f"pass@{K}": _pass_at_k, "cost by model": _cost}
    answers = {name: ask(cursor) for name, ask in questions.items()}  # the first run reads the file
    taken: dict[str, list[float]] = {name: [] for name in questions}
    for _ in range(rounds):
        for name, ask in questions.items():
            began = time.perf_counter()
            ask(cursor)
            taken[name].append(1000 * (time.perf_counter() - began))
    rows = [
        Row(name=name, figures={"p50_ms": statistics.median(taken_ms), "worst_ms": max(taken_ms)})
        for name, taken_ms in taken.items()
    ]
    return [*rows, _in_python(cursor, statistics.median(taken["group std"]))], answers


def _group_std(cursor: duckdb.DuckDBPyConnection) -> str:
    (groups, mixed, mean), *_ = cursor.execute(SPREAD).fetchall()
    return f"{groups:,} groups, {mixed:,} of them mixed, mean {mean:.3f}"


def _pass_at_k(cursor: duckdb.DuckDBPyConnection) -> str:
    counted = [(pass_at_k(n, c, K), tasks) for n, c, tasks in cursor.execute(PASS_COUNTS).fetchall()]
    known = [(share, tasks) for share, tasks in counted if share is not None]
    tasks = sum(tasks for _, tasks in known)
    return f"{sum(share * tasks for share, tasks in known) / tasks:.4f} over {tasks:,} tasks"


def _cost(cursor: duckdb.DuckDBPyConnection) -> str:
    return ", ".join(f"{model} ${cost_usd:,.2f}" for model, *_, cost_usd in cursor.execute(COST).fetchall())


def _in_python(cursor: duckdb.DuckDBPyConnection, sql_ms: float) -> Row:
    """Time a Python loop over the rows that computes the same spread, without the time to fetch the rows."""
    found = cursor.execute("SELECT run, phase, task, reward FROM trajectory WHERE reward IS NOT NULL").fetchall()
    began = time.perf_counter()
    groups = defaultdict[tuple[str, str, str], list[float]](list)
    for run, phase, task, reward in found:
        groups[run, phase, task].append(reward)
    for rewards_G in groups.values():
        statistics.pstdev(rewards_G)
    python_ms = 1000 * (time.perf_counter() - began)
    return Row(name="group std, a Python loop", figures={"p50_ms": python_ms, "times_sql": python_ms / sql_ms})
