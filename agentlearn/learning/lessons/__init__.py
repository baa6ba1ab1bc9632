"""Training-free GRPO: learning lessons from groups of rollouts, without changing weights.

run_learning    start a learning run, or resume one
lesson_run      one run: measure, learn batch by batch, publish, report
lesson_learner  one update: the three stages over a batch, then the next library version
summarise       stage 1: a trajectory becomes numbered steps
compare         stage 2: a group's summaries become at most three proposals
consolidate     stage 3: a batch's proposals become fewer
curate          the rules: parse items, check proposals, make the next version; lists the forms of a lesson
proposing       for stages 2 and 3: ask, parse, check, one repair round
stage_agent     one question to a model; reply_schema: the items in a reply of any shape
stage_context   values that the stages share; stage_prompts: the prompts and their versions
"""
