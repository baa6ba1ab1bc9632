"""Training-free GRPO: learning lessons from groups of rollouts, without changing weights.

learn             `learn` for an agent or a program; run_learning: resolve the settings, then start or resume a run
lesson_run        one run: measure, learn batch by batch, publish, report
lesson_learner    one update: the three stages over a batch, then the next library version
stages            1 summarise: a trajectory becomes numbered steps; 2 compare: a group's summaries become at most three
                  proposals; 3 consolidate: a batch's proposals become fewer
stage_agent       one question to a model, its prompts, and the items in a reply of any shape
look_up           a trajectory that is too long for a request, as a file that the reflector's programs read
candidates        what the rollouts say about each version; selection: compare versions, choose one, publish it or not
trust             whose text the lessons could repeat, what waits for a person, and what persons decided
"""
