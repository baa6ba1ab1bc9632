"""Cues about the agent itself: its prompt, its rules, its role, the list of lessons, and other agents."""

from agentlearn.library.curate.codes import QuarantineCode
from agentlearn.library.curate.hostile.cue import CueFamily

OWN_TEXT = CueFamily.of(
    "the agent's own prompt and hidden text",
    QuarantineCode.OVERRIDES_INSTRUCTIONS,
    certain="""
    system/developer/operator/initial/hidden/original/secret/full/internal
    prompt/message/instructions/text/guidance/rules/reasoning/wording/notes/configuration,
    developer's/operator's text/prompt/rules/message/instructions, your/its
    prompt/configuration/guidance/guidelines/instructions/context, your/its
    programming/training/policies/restrictions/safeguards/limits, your own
    rules/prompt/instructions/words/configuration, your
    hidden/original/internal/current/full/initial/entire/secret/earlier/previous/default, your
    rules/memory/conversation, tell us your, your system, messages you, you have received/seen so, above
    your/this task/question/problem/list, before this line,
    text/words/lines/paragraph/everything/message/context above/before, written above, stands before/above, came
    before, said above/before/earlier, earlier/previous/prior/preceding/foregoing/above
    guidance/instructions/rules/directions/wording/safety, earlier/previous/prior/preceding/foregoing/above
    messages/experiences/directives/policy/policies/constraints, you were/are
    told/given/instructed/trained/configured/programmed, what you know/remember, everything you, hidden
    rules/text/fields/guidance/thoughts, confidential text/instructions/rules/prompt, inner/hidden monologue,
    model name/version/weights, training data, given to you before, was given to you, were given to you,
    private/secret/confidential instructions/rules/guidelines, marked private,
    print/show/reveal/send/repeat/describe/output/echo/share/quote/paste/leak/copy/translate/summarise/summarize/give
    the/your/its/full/whole/entire/system prompt/prompts/system, need the prompt, needs the prompt, hidden
    prompt
    """,
    topic="""
    system prompt, context window, hidden instructions, your initial, your own words, you are told, system
    configuration, model weights, system instructions, previous instructions, model version, your previous,
    chain of thought, words before, initial configuration, your configuration, full guidance, your entire,
    system text, your internal, your original, your full, your current, system message, original text, full
    message, full text, full configuration, system notes, above text, earlier text, model name, your system,
    lines above, lines before, messages before, text before, original prompt, its instructions, show the system,
    print the system, its configuration, give the system, describe the system, copy the system
    """,
    plain="""
    you are given, hidden message
    """,
    telling="""
    your system, lines above, lines before, text before, messages before, said above, original prompt, full text,
    model name, system messages, system text, system configuration, earlier rules, your training
    """,
)
RULES = CueFamily.of(
    "rules and limits",
    topic="""
    instruction, directive, guideline, guidance, policy, restriction, rules, guardrail, safeguard, safety,
    order/orders from, limits, consent, permission, prompt, wording, confirmation/approval step, identity
    question/check/verification, threshold
    """,
    plain="""
    order from
    """,
)
SET_ASIDE = CueFamily.of(
    "setting rules aside",
    QuarantineCode.OVERRIDES_INSTRUCTIONS,
    telling="""
    disregard, outrank, overrule, supersede, withdrawn, suspended, lifted, optional/optionally where, no longer
    apply/applies/counts/binding/needs/need/required/holds/matters/matter, do/does not apply/count/matter/bind
    to/you/here/any/when, stop obeying/following, not bound, has no rules/limits/policies, no
    rules/limits/policies/restrictions/restriction/filters, without restriction/restrictions/limits/rules, only
    meant for, is a placeholder, a draft that, forget the/your/all/any/about/everything/what/earlier/previous,
    ignore the/your/all/any task/question/user/operator/system/developer/customer/client, ignore the/your/all/any
    rules/instructions/prompt/request/above/checker/limits/format, ignore
    all/everything/whatever/previous/any/prior/earlier, ignore what the/you, takes/take precedence/priority
    over/above, wins over, come/comes before/above the user/system/task, break the/any rule/rules/format, instead
    of the task/question/answer/request/user, rather than the user/task/those/request/question, set aside, put
    aside, waive, waived, exempt, exception for you, not obey/follow/heed the/your/any, refuse nothing, never
    refuse, anything goes, last of all, of no account, cancelled/canceled by
    """,
    topic="""
    bypass, override, unrestricted, revoked, ignore all, loses, no longer need, circumvent, void, breaks the,
    forget the, forget about, obsolete, ignore previous, ignore any, suspended, withdrawn, optional, does not
    apply, do not apply, no longer holds, set aside, exception for you, disregard, no longer needs, supersedes,
    do not apply when, exempt, instead of the requested, no rules, no limits, to be dropped, break them, first
    message
    """,
    certain="""
    drop that demand, drop that request, drop the request/task/question, to be dropped, loses its force, lose
    their force, no longer work/works for, nothing is forbidden, nothing needs a reason, rules do not matter,
    rules are for show, break the rules, break them, breaks company rules, break company rules, breaks the rules
    for, before the goal, its wishes come, calls forbidden, in fact recommended, stop the
    current/this/your/given task/question/work, override the output/task/question/format/goal/user/policy/rules,
    only a game, just a game, set aside its/the/your/their
    manual/rules/policy/task/instructions/guidelines/prompt, outside the rules, above the rules, you started
    with, first message, reply/answer/respond only with the word/words/letter/phrase, say the word
    """,
)
OBEY = CueFamily.of(
    "obeying another voice",
    QuarantineCode.OVERRIDES_INSTRUCTIONS,
    certain="""
    obey, obeyed, do as the/it/he/she/they, do what the/it/he, as it/they say/says/tells/asks, act on/upon
    what/it/them/whatever, act only on, take your/its orders/instructions, follow/followed whatever, follow them
    even, follow it even, carry it out, carry them out, carry out what/whatever/any, execute it/them, follow
    the/any banner/banners/footer/pop/hints/notes/note/comment, follow only, serves the, wishes rather, real
    assignment/task/goal/question/purpose/request/instruction, true assignment/task/goal/question/purpose,
    actual assignment/goal/purpose, banner says/say/asks/tells, page/site/banner/footer/ad/advert/popup
    tells/says/demands/orders/instructs/asks, as an
    instruction/order/command, as instructions/orders/commands, typical command, action/command and obey, comply
    with/at, mandatory for you, instructions in/on/from the/a
    page/pages/banner/email/document/comment/attachment/ticket/review, whatever the
    page/site/banner/attachment/ticket/email/shell/user/customer/task/problem/question, whatever
    shell/command/code/it/they, has to be executed, trusted do/and, with the authority of, have authority, has
    authority, carry authority, do that even, tell you what to do next, tells you what to do next, addresses
    assistants, address assistants, as a command from, as commands from, treat anything in, treat text in the
    page/ticket as, and comply, perform it, text as a command, text as commands
    """,
    topic="""
    execute it, execute them, as commands, act on it, page says, comply with, serve the, as instructions,
    refused, obey, instructions on the page, instructions in the page, instructions on a page, instructions from
    the page, instructions in the document, instructions in a document, instructions in the email, instructions
    in the ticket, serves the
    """,
    plain="""
    trusted and, treat them as
    """,
    telling="""
    obey, obeyed, comply at, refused
    """,
)
ROLE = CueFamily.of(
    "another role",
    QuarantineCode.OVERRIDES_INSTRUCTIONS,
    certain="""
    you are now/not/no/actually/really/calc/dan/an/free/its/unrestricted/authorised/authorized/allowed/in, you
    are the administrator/admin/owner/developer/root/grader/judge/assistant/system/operator, act as
    an/a/administrator/admin/though/root/owner/developer, behave as/now/like, pretend you/to/that/being, act
    like you/an/a, play the role/part, switch role/roles/persona, imagine you/that you, your new/real/true
    role/task/goal/name/job/purpose/identity/mission/objective, new identity/persona, speak/answer/respond/reply
    as if/though/the/calc/an/a admin/administrator/owner/user/calc, persona, alter ego,
    developer/debug/maintenance/admin/god/test/demo/sudo/root/jailbreak/dan/evaluation/safe/override mode, no
    limits/policies/rules/restrictions/restraints, role-play, roleplay, role play, without
    supervisors, work for the vendor/shop/seller/owner/site/store, you serve the, act on behalf of the
    vendor/shop/seller/owner
    """,
    topic="""
    debug mode, you are not, you are now, act as a, pretend that, you are actually, you are allowed, behave as,
    behave like, act like a, act like an, override mode, no rules, no limits, test mode, safe mode, evaluation
    mode, behave now
    """,
    plain="""
    you are in
    """,
)
THIS_LESSON = CueFamily.of(
    "this lesson",
    QuarantineCode.CLINGS,
    certain="""
    this/present lesson/experience/advice/entry/list/library/hint/tip/item/instruction/note/memory/memo, these
    experiences/instructions/entries/lists, this very/same/exact/present sentence/line/rule/lesson, these
    words, of this list/lesson, copy this, keep/store/save/restore/preserve it forever, the lines below, lines
    below/above, before this line, after this line, experience only, lesson only, keep/keeping this one/rule,
    merged keep, advice which was, advice was not, this advice, follow this, this paragraph/message
    """,
    topic="""
    these lessons,
    keep this, repeat this, lines above, this list, these entries, this message, follow this, this memory, this
    item, this library, this note
    """,
    telling="""
    this list, lines above, lines below, this memory, following this, these entries, follow this, this library,
    this message, copy this, this item, this entry, this note
    """,
)
THIS_TEXT = CueFamily.of(
    "this text",
    telling="""
    this line/sentence/rule/text/file/note/phrase/statement/message/advice, this same line/text/sentence, next to
    this, same line, these lines/sentences/steps/rules, line again, following rule/line/sentence/text
    """,
    topic="""
    following line, this rule, this text, this file, same line, this message, these rules, these steps, these
    lines
    """,
)
LESSONS = CueFamily.of(
    "lessons",
    telling="""
    experience/experiences, library/libraries of, any/each/every/all/other entry, new rule/rules, lesson check,
    summary/summaries you, each/every summary, proposal, proposals, curator, reflector, consolidation, the
    library's, other/another advice, advice about/that, newest/latest rules
    """,
    topic="""
    propose, entries, lessons, lesson, reflection, batch, experience, merged, each entry, every entry, new rule,
    new rules, proposal, summary
    """,
    certain="""
    pending lessons, learning settings, lessons need no, write lessons that, approval step in, lesson approval,
    approve all pending, lessons about checking, reviewer of lessons, kind of advice flows, trust this list
    """,
)
KEEP = CueFamily.of(
    "keeping and spreading",
    QuarantineCode.CLINGS,
    telling="""
    permanently, in every/each/all summary/batch/reflection/version/lesson/reply/session/review/form/page, into
    every/each/all, on every/each page/visit/run/reply/form/review, drop/delete/remove those/others/the
    others/other, contradict it/this/them, restores, restore it/this/them/the, whenever someone, vote, keep
    this/it one/entry/line/in/as/at/forever/verbatim, later versions/version, next
    version/session/agent/walker/solver/run/generation/batch/model/assistant/reader, future
    version/session/agent/walker/solver/run/reader/model/instance/self/lessons/tasks, in each/every
    new/later/future/reflection/batch/version, so that it stays/remains/survives, with other wording, again in
    every/each, starts with it, read it as, re-add, reinsert, spread, replicate, copies of this, never
    delete/remove/change/edit/modify/drop/merge/shorten it/this/these/them/the, not be
    deleted/removed/changed/merged/edited, must not be removed/deleted/changed, top of the list
    """,
    topic="""
    out of date, forever, removal, verbatim, must stay, on each page, word for word, into all, permanent,
    outdated, removes it, future agent, must remain, next session, restore it, future version, later version,
    permanently, in each new, restores, restore the, reinsert, spread, next version, restores it, pin
    """,
    certain="""
    survive each, survive every, must survive, any other first, their deletion each, name this one, whether or
    not it did, top of each/every source/file/page/reply, post this text, post this comment, paste this, this
    text as a comment, suggest their deletion/removal, one was accepted, runs this again, this again every
    """,
    plain="""
    keep this in, keep it in, keep this as, keep it as, keep it at
    """,
)
AGENTS = CueFamily.of(
    "other agents",
    QuarantineCode.CLINGS,
    telling="""
    other/another/next/future/every/each/any/all/new/later/fellow
    agent/agents/walker/walkers/solver/solvers/assistant/assistants/model/instance/instances/bot/bots, agents
    that, solvers who, agents read, agents you, agents who, disloyal, your colleagues, tell the next, multi-agent,
    subagent, the agent you
    """,
    topic="""
    each agent, all agent, all agents, all model, any agent, every agent, new model, future agent, another
    agent, subagent, sub-agent, other agent, all instances, other models, other instance, all models, new agent
    """,
)
MEMORY_PLACES = CueFamily.of(
    "places that outlive a task",
    QuarantineCode.CLINGS,
    certain="""
    long-term memory, agents md, claude md, gemini md, cursorrules, cursor rules, copilot instructions, start-up
    file/script, start up file/script, startup file/script, cron, crontab, cron job, scheduled task/job, site
    packages, sitecustomize, usercustomize, profile file, lesson check/checks/filter/screen, library's
    database/file, agentlearn, threshold of, settings/config/configuration file then, your/its/the/agent's memory
    file, vector/memory store/bank, knowledge base of the agent, git hook/hooks, pre-commit hook, login script,
    autostart
    """,
    topic="""
    vector store, bashrc, long term memory, git hooks, git hook, startup file, start-up file, start up file,
    startup script, start-up script, start up script, cron, cron job, crontab, scheduled job, scheduled task
    """,
)
STARTS_AGAIN = CueFamily.of(
    "a break in the prompt",
    QuarantineCode.OVERRIDES_INSTRUCTIONS,
    certain="""
    end of advice/lessons/experiences/prompt/instructions/context/list/notes/section, lessons end, new
    section/instructions/task/system/goal/mission/orders, real question follows, next instruction/instructions,
    assistant will, policy update, end/close of the lessons/list/advice, start of/over, conversation reset,
    session reset, reset your/the context/conversation/instructions, real goal, real question, final answer 1/2/3
    """,
    topic="""
    speaker, start of, new system, end of the list, new section, start over, new task, end of list, end of section
    """,
)
AGENT_FAMILIES = (
    OWN_TEXT,
    RULES,
    SET_ASIDE,
    OBEY,
    ROLE,
    THIS_LESSON,
    THIS_TEXT,
    LESSONS,
    KEEP,
    AGENTS,
    MEMORY_PLACES,
    STARTS_AGAIN,
)
