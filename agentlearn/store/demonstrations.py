"""Right answers that persons wrote for recorded rollouts become rollouts, in the commit that takes them in.

Feedback may be stored before the rollout that it is about, by another process; only the database knows both.
"""

from typing import Any

import duckdb
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelRequest, ModelResponse, TextPart, UserPromptPart

from agentlearn.store.codec import RowGroup, time_of, trajectory_rows
from agentlearn.store.text import unescape
from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.ids import RolloutId, RunId, TaskId
from agentlearn.types.trajectory import DEMONSTRATION, ModelTurn, Trajectory, Treatment, Verdict

PERSON = "person"
"""Model of a rollout that a person wrote."""

_NEW = f"""
    SELECT f.id, t.run, t.task, k.problem, f.demonstration, f.reason, f.who, epoch_us(f.given_at) AS at,
           row_number() OVER (PARTITION BY t.run, t.task ORDER BY f.seq, f.rowid)
             - 1 + (
               SELECT count(*) FROM trajectory o
               WHERE o.run = t.run AND o.task = t.task AND o.phase = '{DEMONSTRATION}'
             ) AS g
    FROM feedback f JOIN live l ON l.rollout = f.rollout JOIN trajectory t ON t.id = f.rollout
    JOIN task k ON k.id = t.task
    WHERE f.demonstration <> '' AND f.id NOT IN (SELECT id FROM trajectory WHERE phase = '{DEMONSTRATION}')
"""  # noqa: S608 - a constant of ours


def new_demonstrations(connection: duckdb.DuckDBPyConnection) -> list[RowGroup]:
    """The rows of every demonstration that is no rollout yet and whose rollout is stored. Raises duckdb.Error."""
    found = connection.execute(_NEW)
    columns = [column[0] for column in found.description]
    units = dict[str, RowGroup]()  # an entry that was stored twice has the same id
    for values in found.fetchall():
        fields = dict(zip(columns, values, strict=True))
        units.setdefault(fields["id"], _rows(fields))
    return list(units.values())


def _rows(found: dict[str, Any]) -> RowGroup:
    answer, problem, who = unescape(found["demonstration"]), unescape(found["problem"]), unescape(found["who"])
    at = time_of(found["at"])
    trajectory = Trajectory(
        id=RolloutId(found["id"]),
        run=RunId(found["run"]),
        phase=DEMONSTRATION,
        task=TaskId(found["task"]),
        g=found["g"],
        seed=0,
        treatment=Treatment(model=PERSON, library=EMPTY_LIBRARY.version),
        steps=(ModelTurn(text=answer),),
        answer=answer,
        verdict=Verdict(
            status="correct",
            reward=1.0,
            reason=unescape(found["reason"]) or f"a right answer, written by {who or 'a person'}",
        ),
        started_at=at,
    )
    messages = [
        ModelRequest(parts=[UserPromptPart(content=problem, timestamp=at)]),
        ModelResponse(parts=[TextPart(content=answer)], timestamp=at),
    ]
    return trajectory_rows(trajectory, ModelMessagesTypeAdapter.dump_json(messages))
