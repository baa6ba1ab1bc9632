"""A pass of `live` over many records, the pass after it with a few new ones, and other commands beside the first.

One SQL statement per table creates the records, in a store with the real schema and settings: questions of a support
desk, each about a device, a place and a symptom; of four, one is asked again, and one again in other words. One in
`--wrong` is wrong. CPU seconds are of the process that learns, with all its threads, without imports for the second
pass. The commands beside it are processes of their own; `alone_worst_s` is without a pass.

    just bench live --records 100000 --new 100
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path

import duckdb

from agentlearn.live.recorder import Recorder
from agentlearn.store.database import Database
from agentlearn.store.group_commit import GroupCommit
from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.task import Task
from scripts.bench.found import Found, Row, Target

MEMORY_MB, TIMES_ALONE, SHARE = 400.0, 2.0, 0.03
ROUNDS = 5
"""Rounds of the commands without a pass beside them."""
NAME = "support"
_NOUNS = "printer invoice router badge laptop calendar mailbox contract payroll scanner projector licence"
_SYMPTOMS = "refuses blinks freezes vanishes duplicates overheats restarts stalls rejects loses"
_PLACES = "berlin madrid oslo lyon turin porto vienna prague riga dublin gdansk ghent"
_LEARN = """
import asyncio, json, sys, time
from pathlib import Path
from agentlearn.live.passes import keep_learning
for line in sys.stdin:
    began = time.process_time()
    done = asyncio.run(keep_learning("support", model="sim:reflector", store=Path(sys.argv[1]), passes=1, every_s=0))
    (peak_kb,) = (line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
    cpu_s = time.process_time() - began
    print(json.dumps({"outcome": done.outcome, "groups": done.groups, "cpu_s": cpu_s, "peak_mb": int(peak_kb) / 1024}))
    sys.stdout.flush()
"""
_COMMANDS = {
    "runs list": "from agentlearn.cli.app import run; sys.exit(run(['runs', 'list', '--store', sys.argv[1]]))",
    "a page of view": """
from pathlib import Path
from agentlearn.pages.web_app.server import Site
sys.exit(Site(Path(sys.argv[1]), 80).answer("/runs", {}, more=False).status_code != 200)
""",
    "a record": """
from agentlearn import Recorder
with Recorder("other", sys.argv[1]) as recorder:
    said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    recorder.feedback_sync(recorder.record_sync(said), reward=1)
""",
}


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--records", type=int, default=100_000, help="records in the store before the first pass")
    parser.add_argument("--new", type=int, default=100, help="records before the second pass")
    parser.add_argument("--wrong", type=int, default=5_000, help="one record in so many is wrong")


def measure(chosen: argparse.Namespace) -> Found:
    """Measure two passes, and the commands beside the first."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder, "store")
        fill(store, chosen.records, chosen.wrong)
        alone = _beside(store, lambda rounds: rounds < ROUNDS)
        learning = subprocess.Popen(
            [sys.executable, "-c", _LEARN, str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        done = list[dict[str, float]]()

        def a_pass() -> None:
            assert learning.stdin is not None
            assert learning.stdout is not None
            learning.stdin.write("\n")
            learning.stdin.flush()
            done.append(json.loads(learning.stdout.readline()))

        with learning:
            first = threading.Thread(target=a_pass)
            first.start()
            beside = _beside(store, lambda rounds: first.is_alive())
            first.join()
            with Recorder(NAME, store) as recorder:
                for number in range(chosen.records, chosen.records + chosen.new):
                    chat = [{"role": "user", "content": question(number)}, {"role": "assistant", "content": "…"}]
                    recorder.feedback_sync(recorder.record_sync(chat, model="openai:model"), reward=number % 50 > 0)
            a_pass()
            assert learning.stdin is not None
            learning.stdin.close()
    share = done[1]["cpu_s"] / done[0]["cpu_s"]
    figures = {name: {"alone_worst_s": max(alone[name][0]), "beside_worst_s": max(beside[name][0])} for name in alone}
    return Found(
        rows=(
            *(
                Row(name=name, figures={key: one[key] for key in ("groups", "cpu_s", "peak_mb")})
                for name, one in zip(("the first pass", f"the pass after {chosen.new} more"), done, strict=True)
            ),
            *(
                Row(name=name, figures={**of, "times": len(beside[name][0]), "refused": beside[name][1]})
                for name, of in figures.items()
            ),
        ),
        targets=(
            Target(what="the second pass, share of the first one's CPU", figure=share, bound="at_most", limit=SHARE),
            Target(what="memory of a pass, MB", figure=done[1]["peak_mb"], bound="at_most", limit=MEMORY_MB),
            *(
                Target(
                    what=f"{name} beside a pass, worst, in times of alone",
                    figure=of["beside_worst_s"] / of["alone_worst_s"],
                    bound="at_most",
                    limit=TIMES_ALONE,
                )
                for name, of in figures.items()
            ),
        ),
        failures=tuple(f"{name} was refused beside a pass" for name, (_, refused) in beside.items() if refused),
    )


def _beside(store: Path, goes_on: Callable[[int], bool]) -> dict[str, tuple[list[float], int]]:
    """Wall seconds of each command, and how often it failed; at least one round."""
    found: dict[str, tuple[list[float], int]] = {name: ([], 0) for name in _COMMANDS}
    for rounds in count(1):
        for name, program in _COMMANDS.items():
            began = time.perf_counter()
            command = [sys.executable, "-c", f"import sys\n{program}", str(store)]
            failed = subprocess.run(command, capture_output=True, check=False).returncode != 0
            times, refused = found[name]
            found[name] = ([*times, time.perf_counter() - began], refused + failed)
        if not goes_on(rounds):
            return found
    raise AssertionError("the rounds end")


def fill(directory: Path, records: int, wrong: int = 3) -> None:
    """Make a store with that many live records, each with a reward, one in so many wrong."""
    tasks = [Task.of(NAME, question(number), None) for number in range(records)]
    unique = list({task.id: task for task in tasks}.values())
    with closing(Database(directory, create=True)) as database, closing(GroupCommit(database)) as commits:

        def insert(connection: duckdb.DuckDBPyConnection, seq: int) -> int:
            connection.execute(
                "INSERT INTO task BY NAME SELECT unnest($1::VARCHAR[]) AS id, $3 AS domain, unnest($2::VARCHAR[]) AS"
                " problem, NULL AS answer, '' AS family, 'train' AS split, 'live' AS source, '' AS start,"
                " []::VARCHAR[] AS path, '' AS extra, $4 AS seq",
                [[one.id for one in unique], [one.problem for one in unique], NAME, seq],
            )
            connection.execute(
                "CREATE TEMP TABLE asked AS SELECT generate_subscripts($1::VARCHAR[], 1) - 1 AS i,"
                " unnest($1::VARCHAR[]) AS task",
                [[one.id for one in tasks]],
            )
            for statement in _FILL:
                connection.execute(statement.replace("{seq}", str(seq)).replace("{wrong}", str(wrong)))
            return records

        commits.add(insert)


_FILL = (
    f"""
    INSERT INTO trajectory BY NAME
    SELECT md5('live' || i) AS id, '01jd0000000000000000000000' AS run, 'live' AS phase, 0 AS batch, task,
           i::INTEGER AS g, 0 AS attempt, 0 AS seed, 'openai:model' AS model,
           '{EMPTY_LIBRARY.version}' AS library_version, []::VARCHAR[] AS masked, NULL::VARCHAR[] AS offered,
           'main' AS arm,
           NULL::BIGINT AS weights_step, NULL::DOUBLE AS temperature,
           'ok' AS outcome, 'undecided' AS verdict, NULL::DOUBLE AS reward, 'recorded without feedback' AS reason,
           'Answer ' || i AS answer, 1 AS requests, 500 AS tokens_in, 0 AS tokens_cached, 100 AS tokens_out,
           TIMESTAMPTZ '2026-01-01 00:00:00+00' + to_seconds(i) AS started_at, 1.0 AS seconds, '[]' AS prompts,
           '' AS isolation, {{seq}} AS seq
    FROM asked ORDER BY i
    """,
    """
    INSERT INTO trajectory_body BY NAME
    SELECT md5('live' || i) AS rollout, 'pydantic-ai/2' AS format,
           '[{"kind":"model","text":"' || repeat(md5('t' || i), 20) || '"}]' AS steps,
           '[{"parts":[{"content":"hi","timestamp":"2026-01-01T00:00:00Z","part_kind":"user-prompt"}],"kind":"request"},'
           || '{"parts":[{"content":"' || repeat(md5('t' || i), 20) || '","part_kind":"text"}],"model_name":"m",'
           || '"kind":"response"}]' AS messages, {seq} AS seq
    FROM asked ORDER BY i
    """,
    """
    INSERT INTO live BY NAME
    SELECT md5('live' || i) AS rollout, 'support' AS name, 'e' || (i // 3) AS episode, '' AS user_name, {seq} AS seq
    FROM asked ORDER BY i
    """,
    """
    INSERT INTO feedback BY NAME
    SELECT md5('said' || i) AS id, 'support' AS name, md5('live' || i) AS rollout, '' AS episode,
           (hash(i) % {wrong} > 0)::INTEGER::DOUBLE AS reward, '' AS reason, '' AS demonstration, 'ana' AS who,
           TIMESTAMPTZ '2026-01-02 00:00:00+00' + to_seconds(i) AS given_at, {seq} AS seq
    FROM asked ORDER BY i
    """,
)


def question(number: int) -> str:
    """The task of a record. Of four, one is asked a second time, and one again in other words."""
    n = number if number % 4 < 2 else number - 2
    where = f"My {_NOUNS.split()[n % 12]} in the {_PLACES.split()[n // 7 % 12]} office {_SYMPTOMS.split()[n // 3 % 10]}"
    what = f"colleague{n * 37 % 4999} opens file{n * 101 % 7919} with setting{n * 13 % 997}"
    if number % 4 == 3:
        return f"{where}: {what}, so which step{n % 89} is next?"
    return f"{where} whenever {what}; what should step{n % 89} be?"
