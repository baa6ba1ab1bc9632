"""Export and import of a large store: peak memory at two sizes, and time per rollout beside a bare DuckDB COPY.

One SQL statement per table creates the rows, in a store with the real schema and settings. Each rollout has four
messages of about three KB together, in the layout of pydantic-ai. Every command runs in a process of its own, whose
peak memory is its largest resident size (VmHWM; `ru_maxrss` would include that of the parent), all imports included.

    just bench export --rollouts 300000 --small 30000
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import duckdb

from agentlearn.store.codec import sql_string
from agentlearn.store.database import Database
from scripts.bench.found import Found, Row, Target

GROUP_SIZE, TASKS_PER_BATCH, GROUPS_PER_RUN = 8, 20, 6_000
_AT_ONCE = 20 * GROUP_SIZE * GROUPS_PER_RUN
"""Rollouts that are made in one go: whole runs."""
EXPORT_MB, OTHER_MB = 300.0, 400.0
GROWTH = 1.5
"""Largest allowed ratio of the peak memory at ten times as many rollouts."""

FORMATS = ("openai-jsonl", "trl-jsonl", "trl-sft", "trl-grpo", "trl-dpo", "parquet")

_RUN = f"left(md5('run' || (i // {GROUP_SIZE * GROUPS_PER_RUN})), 26)"
_FILLER = "md5(i || 'a') || ' then ' || md5(i || 'b') || ' so '"
_MESSAGES = f"""
    '[{{"parts":[{{"content":"Problem ' || (i // {GROUP_SIZE}) || ': ' || repeat(md5((i // {GROUP_SIZE})::VARCHAR), 12)
    || '","timestamp":"2026-01-01T00:00:00Z","part_kind":"user-prompt"}}],"instructions":"Be brief.",'
    || '"kind":"request"}},'
    || '{{"parts":[{{"content":"' || repeat({_FILLER}, 12) || '","part_kind":"text"}},{{"tool_name":"python","args":'
    || '"{{\\"code\\": \\"2+2\\"}}","tool_call_id":"t1","part_kind":"tool-call"}}],'
    || '"model_name":"m","kind":"response"}},'
    || '{{"parts":[{{"tool_name":"python","content":"' || repeat(md5(i || 'c'), 20) || '","tool_call_id":"t1",'
    || '"part_kind":"tool-return"}}],"kind":"request"}},'
    || '{{"parts":[{{"content":"' || (i % 997) || '","part_kind":"text"}}],"model_name":"m","kind":"response"}}]'
"""
FILL = (
    f"""
    INSERT INTO run_event BY NAME
    SELECT DISTINCT {_RUN} AS run, 'math' AS domain, 'learn' AS kind, 'done' AS state, 'openai:model' AS model,
           false AS simulated, 0 AS seed, '{{}}' AS settings, '0' AS package_version,
           TIMESTAMPTZ '2026-01-01 00:00:00+00' AS happened_at, '' AS report, 1 AS seq
    FROM range({{first}}, {{end}}) AS rows(i)
    """,
    f"""
    INSERT INTO task BY NAME
    SELECT md5('task' || i) AS id, 'math' AS domain, 'Problem ' || i AS problem, (i % 997)::VARCHAR AS answer,
           '' AS family, 'train' AS split, '' AS source, '' AS start, []::VARCHAR[] AS path, '' AS extra, 1 AS seq
    FROM range({{first}} // {GROUP_SIZE}, ({{end}} + {GROUP_SIZE - 1}) // {GROUP_SIZE}) AS rows(i)
    """,
    f"""
    INSERT INTO trajectory BY NAME
    SELECT md5(i::VARCHAR) AS id, {_RUN} AS run,
           'epoch-' || (1 + i // {GROUP_SIZE * GROUPS_PER_RUN // 3} % 3) AS phase,
           (i // {GROUP_SIZE * TASKS_PER_BATCH})::INTEGER AS batch, md5('task' || (i // {GROUP_SIZE})) AS task,
           (i % {GROUP_SIZE})::INTEGER AS g, 0 AS attempt, i AS seed, 'openai:model' AS model,
           md5('version' || (i // {GROUP_SIZE * TASKS_PER_BATCH})) AS library_version, []::VARCHAR[] AS masked,
           'main' AS arm, 0.7 AS temperature, 'ok' AS outcome, 'partial' AS verdict, (hash(i) % 2)::DOUBLE AS reward,
           '' AS reason, (i % 997)::VARCHAR AS answer, 3 AS requests, 2700 + i % 500 AS tokens_in, 900 AS tokens_cached,
           600 + i % 100 AS tokens_out, 0.001 AS cost_usd,
           TIMESTAMPTZ '2026-01-01 00:00:00+00' + to_seconds(i // 10) AS started_at, 3.0 AS seconds, '[]' AS prompts,
           '' AS isolation, i // 16 AS seq
    FROM range({{first}}, {{end}}) AS rows(i)
    """,
    f"""
    INSERT INTO trajectory_body BY NAME
    SELECT md5(i::VARCHAR) AS rollout, 'pydantic-ai/2' AS format,
           '[{{"kind":"model","text":"' || repeat(md5(i || 'd'), 30) || '"}}]' AS steps,
           {_MESSAGES} AS messages, i // 16 AS seq
    FROM range({{first}}, {{end}}) AS rows(i)
    ORDER BY i // 160, hash(i)
    """,
    """
    INSERT INTO step BY NAME
    SELECT md5((i // 3)::VARCHAR) AS rollout, (i % 3)::INTEGER AS ordinal, 'model' AS kind, '' AS call,
           []::VARCHAR[] AS asked, 10 AS tokens_in, 0 AS tokens_cached, 10 AS tokens_out, 1.0 AS seconds, i // 48 AS seq
    FROM range(3 * {first}, 3 * {end}) AS rows(i)
    """,
    """
    INSERT INTO journal BY NAME
    SELECT md5('call' || i) AS id, '' AS run, 'rollout' AS stage, md5((i // 2)::VARCHAR) AS unit,
           (i % 2)::INTEGER AS ordinal, 'model' AS kind, 'm' AS name, true AS ok,
           repeat(md5(i || 'e'), 20) AS response, '' AS request_hash,
           10 AS tokens_in, 0 AS tokens_cached, 10 AS tokens_out, 1 AS attempts, 1.0 AS seconds,
           TIMESTAMPTZ '2026-01-01 00:00:00+00' AS recorded_at, i // 32 AS seq
    FROM range(2 * {first}, 2 * {end}) AS rows(i)
    """,
)
_COMMITS = """
    INSERT INTO commit_log
    SELECT seq, TIMESTAMPTZ '2026-01-01 00:00:00+00', count(*), NULL
    FROM (FROM (SELECT seq FROM run_event) UNION ALL SELECT seq FROM task UNION ALL SELECT seq FROM trajectory
          UNION ALL SELECT seq FROM trajectory_body UNION ALL SELECT seq FROM step UNION ALL SELECT seq FROM journal)
    GROUP BY seq
"""
_CHILD = """
import json, sys, time
from agentlearn.cli.app import run
began = time.perf_counter()
status = run(sys.argv[1:])
(peak_kb,) = (line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print("\\n" + json.dumps({"status": status, "wall_s": time.perf_counter() - began, "peak_mb": int(peak_kb) / 1024}))
"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--rollouts", type=int, default=300_000, help="rollouts in the large store")
    parser.add_argument("--small", type=int, default=30_000, help="rollouts in the small store")


def fill(directory: Path, count: int) -> None:
    """Make a sound store with that many rollouts."""
    with closing(Database(directory, create=True)) as database, database.cursor() as cursor:
        for first in range(0, count, _AT_ONCE):
            for statement in FILL:
                end = min(first + _AT_ONCE, count)
                cursor.execute(statement.replace("{first}", str(first)).replace("{end}", str(end)))
        cursor.execute(_COMMITS)
        database.acknowledge((count - 1) // 16)


def command(*arguments: str) -> dict[str, float]:
    """Run one command in a process of its own; return its wall time and its peak memory. Raises RuntimeError."""
    done = subprocess.run([sys.executable, "-c", _CHILD, *arguments], capture_output=True, text=True, check=False)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"status": 1}
    if figures["status"]:
        raise RuntimeError(f"{arguments} failed: {done.stderr}")
    return figures


def measure(chosen: argparse.Namespace) -> Found:
    """Measure every export, a snapshot and an import, at both sizes."""
    with tempfile.TemporaryDirectory() as folder:
        small = _figures(Path(folder, "small"), chosen.small)
        large = _figures(Path(folder, "large"), chosen.rollouts)
    growth = chosen.rollouts / chosen.small
    return Found(
        rows=tuple(
            Row(
                name=name,
                figures={
                    f"wall_s_{chosen.small}": small[name]["wall_s"],
                    f"peak_mb_{chosen.small}": small[name].get("peak_mb"),
                    f"wall_s_{chosen.rollouts}": large[name]["wall_s"],
                    f"peak_mb_{chosen.rollouts}": large[name].get("peak_mb"),
                    "times_copy": large[name]["wall_s"] / large["bare COPY"]["wall_s"],
                },
            )
            for name in large
        ),
        targets=tuple(
            target
            for name in large
            if name != "bare COPY"
            for target in (
                Target(
                    what=f"{name}, peak MB",
                    figure=large[name]["peak_mb"],
                    bound="at_most",
                    limit=EXPORT_MB if name in FORMATS else OTHER_MB,
                ),
                Target(
                    what=f"{name}, memory at {growth:g} times as many rollouts",
                    figure=large[name]["peak_mb"] / small[name]["peak_mb"],
                    bound="at_most",
                    limit=GROWTH,
                ),
            )
        ),
        notes=("times_copy: beside a COPY of the same bodies to one Parquet file by DuckDB alone, unordered",),
    )


def _figures(folder: Path, count: int) -> dict[str, dict[str, float]]:
    store, out = folder / "store", folder / "out"
    out.mkdir(parents=True)
    fill(store, count)
    found = {"bare COPY": _bare_copy(store, out / "copy.parquet")}
    for form in FORMATS:
        name = str(out / form) + (".jsonl" if form != "parquet" else "")
        found[form] = command("store", "export", "--format", form, "--out", name, "--store", str(store))
    found["snapshot"] = command("store", "snapshot", "--out", str(out / "snapshot"), "--store", str(store))
    found["import of a third"] = command(
        "store", "import", str(_third(out / "openai-jsonl.jsonl")), "--domain", "d", "--store", str(folder / "imported")
    )
    return found


def _bare_copy(store: Path, out: Path) -> dict[str, float]:
    began = time.perf_counter()
    with duckdb.connect(str(store / "store.duckdb"), read_only=True, config={"threads": 2}) as connection:
        connection.execute(f"COPY (FROM trajectory_body) TO {sql_string(out)} (FORMAT parquet, COMPRESSION zstd)")
    return {"wall_s": time.perf_counter() - began}


def _third(exported: Path) -> Path:
    third = exported.with_name("third.jsonl")
    with exported.open() as lines, third.open("w") as kept:
        kept.writelines(line for at, line in enumerate(lines) if at % 3 == 0)
    return third
