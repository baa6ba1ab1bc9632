"""A pass of `live` over many records, the pass after it with a few new ones, and other commands beside the first.

One SQL statement per table creates the records, in a store with the real schema and settings: questions of a support
desk, each about a product, a symptom and a place, half of them asked twice. CPU seconds are of the process that learns,
with all its threads; `wait_p99_s` is of the commands beside it, `alone_p99_s` of the same ones without a pass.

    just bench live --records 100000 --new 100
"""

import argparse
from contextlib import closing
from pathlib import Path

from agentlearn.store.database import Database
from agentlearn.store.group_commit import GroupCommit
from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.task import Task

MEMORY_MB, TIMES_ALONE, SHARE = 400.0, 2.0, 0.03
NAME = "support"
_NOUNS = [
    "printer",
    "invoice",
    "router",
    "badge",
    "laptop",
    "calendar",
    "mailbox",
    "contract",
    "payroll",
    "scanner",
    "projector",
    "licence",
]
_SYMPTOMS = [
    "refuses",
    "blinks",
    "freezes",
    "vanishes",
    "duplicates",
    "overheats",
    "restarts",
    "stalls",
    "rejects",
    "loses",
]
_PLACES = [
    "berlin",
    "madrid",
    "oslo",
    "lyon",
    "turin",
    "porto",
    "vienna",
    "prague",
    "riga",
    "dublin",
    "gdansk",
    "ghent",
]
_WRITE = """
import asyncio, json, resource, sys, time
from pathlib import Path
from agentlearn.live.passes import keep_learning
made, told = [], []
def tell(done):
    told.append({"outcome": done.outcome, "groups": done.groups, "words": done.words})
async def main():
    for at in range(int(sys.argv[2])):
        began = time.process_time()
        await keep_learning("support", model="sim:reflector", store=Path(sys.argv[1]), passes=1, every_s=0, told=tell,
                            max_tokens=30_000)
        made.append(time.process_time() - began)
        print(json.dumps({"cpu_s": made[-1]} | told[-1]), flush=True)
        if at + 1 < int(sys.argv[2]):
            sys.stdin.readline()
asyncio.run(main())
(peak_kb,) = (line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"peak_mb": int(peak_kb) / 1024, "all_cpu_s": time.process_time()}), flush=True)
"""
_BESIDE = {
    "runs list": "import sys; from agentlearn.cli.app import run; sys.exit(run(['runs', 'list', '--store', STORE]))",
    "a page of view": """
from agentlearn.cli.app import run
from agentlearn.store import read_store
from agentlearn.pages.web_app.server import Site, app_of
import asyncio, httpx, sys
from pathlib import Path
async def main():
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app_of(Site(Path(STORE)))), base_url='http://127.0.0.1') as one:
        found = await one.get('/')
        sys.exit(found.status_code != 200)
asyncio.run(main())
""",
    "a record": """
from agentlearn import Recorder
with Recorder('other', STORE) as recorder:
    recorder.feedback_sync(recorder.record_sync([{'role': 'user', 'content': 'hi'}, {'role': 'assistant', 'content': 'ho'}]), reward=1)
""",
}


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--records", type=int, default=100_000, help="records in the store before the first pass")
    parser.add_argument("--new", type=int, default=100, help="records before the second pass")


def fill(directory: Path, count: int) -> None:
    """Make a store with that many live records, each with a reward, one in three wrong."""
    tasks = [Task.of(NAME, question(number), None) for number in range(count)]
    unique = list({task.id: task for task in tasks}.values())
    with closing(Database(directory, create=True)) as database, closing(GroupCommit(database)) as commits:

        def insert(connection, seq) -> int:
            connection.execute(
                "INSERT INTO task BY NAME SELECT unnest($1::VARCHAR[]) AS id, $3 AS domain, unnest($2::VARCHAR[]) AS"
                " problem, NULL AS answer, '' AS family, 'train' AS split, 'live' AS source, '' AS start,"
                " []::VARCHAR[] AS path, '' AS extra, $4 AS seq",
                [[one.id for one in unique], [one.problem for one in unique], NAME, seq],
            )
            connection.execute(
                "CREATE TEMP TABLE asked AS SELECT generate_subscripts($1::VARCHAR[], 1) - 1 AS i, unnest($1::VARCHAR[]) AS task",
                [[one.id for one in tasks]],
            )
            for statement in _FILL:
                connection.execute(statement.replace("{seq}", str(seq)))
            return count

        commits.add(insert)


_FILL = (
    f"""
    INSERT INTO trajectory BY NAME
    SELECT md5('live' || i) AS id, '01jd0000000000000000000000' AS run, 'live' AS phase, 0 AS batch, task,
           i::INTEGER AS g, 0 AS attempt, 0 AS seed, 'openai:model' AS model,
           '{EMPTY_LIBRARY.version}' AS library_version, []::VARCHAR[] AS masked, NULL::VARCHAR[] AS offered, 'main' AS arm,
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
           (hash(i) % 3 > 0)::INTEGER::DOUBLE AS reward, CASE WHEN hash(i) % 30 = 0 THEN 'the wrong team' ELSE '' END AS reason,
           '' AS demonstration, 'ana' AS who, TIMESTAMPTZ '2026-01-02 00:00:00+00' + to_seconds(i) AS given_at, {seq} AS seq
    FROM asked ORDER BY i
    """,
)


def question(number: int) -> str:
    """The task of a record. Of four, one is asked a second time, and one again in other words."""
    n = number if number % 4 < 2 else number - 2
    where = f"My {_NOUNS[n % 12]} in the {_PLACES[n // 7 % 12]} office {_SYMPTOMS[n // 3 % 10]}"
    what = f"colleague{n * 37 % 4999} opens file{n * 101 % 7919} with setting{n * 13 % 997}"
    if number % 4 == 3:
        return f"{where}: {what}, so which step{n % 89} is next?"
    return f"{where} whenever {what}; what should step{n % 89} be?"
