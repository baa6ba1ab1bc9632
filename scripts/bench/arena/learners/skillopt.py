"""SkillOpt's loop as its public code describes it (github.com/microsoft/SkillOpt, its base settings); our own words.

The wheel 0.2.0 on PyPI lacks its prompt files, so it cannot run from there. Kept: batches of rollouts, analysts of
minibatches of 8 that propose at most L edits, merging, ranking down to L, L from 4 to 2 along a cosine, the gate on the
tasks to choose by (better, not equal), the edits that were refused shown to the next analysts, and the best skill at
the end. Left out: slow update and meta skill, which write advice that is no rule of these worlds, and their calls.
A batch is half of the tasks (theirs: 40), so that an epoch has two steps; epochs go on until the calls are used up.
"""

import math
from random import Random

from scripts.bench.arena.proxy import Conclusion, Proxy, Spent, Task, rewritten
from scripts.bench.arena.reflecting import merged

MINIBATCH, MOST_EDITS, LEAST_EDITS = 8, 4, 2


def skillopt(proxy: Proxy) -> str:
    """Train the skill until the calls are used up."""
    ground, draw = proxy.ground, Random(proxy.ground.seed)
    best = current = ground.start
    batch = math.ceil(len(ground.train) / 2)
    per_step = batch + len(ground.choose) + 6
    steps, step, refused = max(1, (proxy.left - len(ground.choose)) // per_step), 0, set[Conclusion]()
    try:
        best_score = current_score = _score(proxy, current)
        while True:
            order = draw.sample(list(ground.train), len(ground.train))
            refused.clear()
            for at in range(0, len(order), batch):
                share = min(step / max(1, steps - 1), 1.0)
                most = round(LEAST_EDITS + (MOST_EDITS - LEAST_EDITS) * (1 + math.cos(math.pi * share)) / 2)
                step += 1
                edits = _edits(proxy, current, order[at : at + batch], most, refused)
                candidate = rewritten(current, edits)
                if candidate == current:
                    continue
                if (score := _score(proxy, candidate)) > current_score:
                    current, current_score = candidate, score
                    if score > best_score:
                        best, best_score = candidate, score
                else:
                    refused.update(edits)
    except Spent:
        return best


def _edits(proxy: Proxy, skill: str, batch: list[Task], most: int, refused: set[Conclusion]) -> list[Conclusion]:
    """Rollouts, analysts, merging and ranking of one step."""
    solved = [(task, proxy.solves(skill, task)) for task in batch]
    patches = list[list[Conclusion]]()
    for side in (False, True):
        tasks = [task for task, right in solved if right == side]
        for at in range(0, len(tasks), MINIBATCH):
            shown = "\n".join(f"{problem} Reference: {gold}" for problem, gold in tasks[at : at + MINIBATCH])
            found = list[Conclusion]()

            def analyst(shown: str = shown, found: list[Conclusion] = found, fails: bool = not side) -> str:
                found += [one for one in proxy.concluded(shown, skill) if one not in refused] if fails else []
                return str(found[:most])

            proxy.reflect(f"{skill}\n{sorted(refused)}\n{shown}", analyst)
            if found:
                patches.append(found[:most])
    if len(patches) > 1:
        proxy.reflect(f"{skill}\n{patches}", lambda: str(patches))
    pool = [change for change, _ in merged([("", one) for patch in patches for one in patch], proxy.ground.about)]
    if len(pool) > most:
        proxy.reflect(f"{skill}\n{pool}", lambda: str(pool[:most]))
    return pool[:most]


def _score(proxy: Proxy, skill: str) -> float:
    tasks = proxy.ground.choose
    return sum(proxy.solves(skill, task) for task in tasks) / len(tasks)
