"""ACE's offline loop as its authors' public code describes it (github.com/ace-agent/ace); our own words.

That code is no package. Kept: for each task an answer, up to three rounds of reflection and another answer if it is
wrong, one reflection if it is right; a curator after each task that only adds bullets; another answer; the playbook
that does best on the tasks to choose by. The reflector's tags remove nothing, as there. The playbook is measured every
20 tasks (theirs: every 100, which would be never here) and before the calls end; epochs until the calls are used up.
"""

from scripts.bench.arena.proxy import Proxy, Spent, Task

ROUNDS, EVERY = 3, 20


def ace(proxy: Proxy) -> str:
    """Grow a playbook until the calls are used up."""
    ground = proxy.ground
    playbook = best = ground.start
    best_score, since = 0.0, 0
    keep = len(ground.choose)
    try:
        while True:
            for task in ground.train:
                playbook = _after(proxy, playbook, task)
                since += 1
                if since >= EVERY or proxy.left < keep + 9:
                    since = 0
                    score = sum(proxy.solves(playbook, one) for one in ground.choose) / keep
                    if score > best_score:
                        best, best_score = playbook, score
    except Spent:
        return best


def _after(proxy: Proxy, playbook: str, task: Task) -> str:
    """The playbook after one task."""
    problem, gold = task
    right, insights = proxy.solves(playbook, task), list[str]()
    for _ in range(1 if right else ROUNDS):
        shown = f"{problem} Predicted answer {'matches' if right else 'does not match'}. Ground truth: {gold}"

        def reflected(shown: str = shown, fails: bool = not right) -> str:
            insights[:] = [new for _, new in proxy.concluded(shown, playbook)] if fails else []
            return "\n".join(insights)

        proxy.reflect(f"{playbook}\n{shown}", reflected)
        if right or proxy.solves("\n".join([playbook, "Reflection:", *insights]), task):
            break
    added = [one for one in insights if one not in playbook]
    proxy.reflect("\n".join([playbook, *insights]), lambda: "\n".join(added))
    playbook = "\n".join([playbook.rstrip(), *added]) + "\n"
    proxy.solve(playbook, problem)
    return playbook
