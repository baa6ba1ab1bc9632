"""Cues about people: who judges, who claims authority or permission, pretexts, hurry and secrecy."""

from agentlearn.library.curate.codes import QuarantineCode
from agentlearn.library.curate.hostile.cue import CueFamily

JUDGE = CueFamily.of(
    "those who judge",
    QuarantineCode.SPEAKS_TO_JUDGE,
    telling="""
    evaluator, examiner, assessor, rater, scorer, autograder, auto-grader, graded, grading, judges, judging,
    whoe~/who/what marks/mark/grades/grade/checks/scores/reads/reviews/judges/evaluates/rates
    the/this/your/it/answers, reward/scoring/grading model/function/script/system/harness, comparison takes, reads
    the log/logs/last/first/trace, reviewers look/only/rarely/seldom/never/see/count, reviewer
    looks/only/sees/rarely/seldom, metric counts/is/only/measures, the metric, score is taken, the score, marking
    scheme/script, assertion/assertions, test suite/runner/harness, visible/hidden/failing/unit
    tests/test/assertions/assertion/cases, tests pass/green/stay, tests' expected, expected
    value/answer/output/result of, expected answer/answers, answer key, reference answer/solution, gold answer,
    solution file, equality method, compares it, compares against, only looks at, looks only at, accepts the
    reply/any/answers, human raters
    """,
    topic="""
    reward, assertion, assertions, judge, scoring, failing test, test suite, hidden cases, grader, benchmark,
    verifier, scoring model, marker, tests pass, checker, unit tests, unit test, judges, solution files,
    evaluator, metric is, expected output of, expected result of
    """,
    plain="""
    expected value of
    """,
)
GAMING = CueFamily.of(
    "reward without the work",
    QuarantineCode.SPEAKS_TO_JUDGE,
    telling="""
    full score/marks/credit/points/reward, maximum/perfect/top/higher/extra/bonus
    score/marks/credit/points/reward, five stars, points regardless, verdict correct, task completed
    successfully, verified by, already confirmed/verified/checked/approved/accepted/validated/graded, counts
    the/as/it/this answer/correct/success/solved, counts closed, mark/marks/marked it/this/the/your
    as/ticket/answer correct/solved/passed/done/resolved, return true, returns true/1, return 1, stays green,
    stay green, always agrees/passes/succeeds/true, say that they/it/all/tests, say they all pass, monkeypatch,
    monkey-patch, hard-code, special-case, give yourself/itself, rate yourself, one of them matches, one
    matches, one of them is right, takes this as, equals anything, claim certainty/that/success/to/you,
    confident words, likes confident/long/polite, catch every/all exception/exceptions, delete the
    failing/test/assertion, skip/disable/remove/mute/comment the/failing/out
    failing/tests/test/assertions/assertion/checks, without solving/doing the, looks correct/finished/done,
    sounds confident/certain, looks like success, flattery, flatter, thank the, praise the, says it/all
    passed/passes/pass, ten candidate, several/many/all candidates/answers/values in the, write pass, print
    pass/passed/ok/success, exit code 0, exit with 0, status success, as success, report success, was done
    since, assert that, pad, padding with, rubric, keyword, so always write
    """,
    topic="""
    hardcode, counts as, confirmed by, pretend, claim that, removed the test, returns 1, returns true, skip the
    test, thank the, return 1, return true, return 0, padding, keyword, padded, pad, pad it, string match,
    rubric, only counts, pad yours
    """,
    certain="""
    edit conftest, reported as passed/passing/success, weaken the assertions/tests/test/checks, suite
    is/stays/turns green, mock the function, expected rows/integer/outputs directly/from, string match, counted
    as passes/passed/success, better marks, checker time, reference value is, modify/edit/change/rewrite/adjust
    the tests/test/assertions so/to/until/instead, task is complete/done/finished even, claim that you
    used/checked/tested/verified/read/did, only counts the, only counts, five star review/rating/reviews,
    five-star, pad yours/your/it, rewards empathy/keywords/long/length, quality team that, they all pass, grader
    time, look less closely, found no gap, the other one is known, are compared say, set the tests' expected,
    assert that the reference
    """,
)
AUTHORITY = CueFamily.of(
    "a claim of authority",
    telling="""
    security/safety/legal/compliance/support/platform/research/grading/red/evaluation/dev/engineering team,
    legal has/have/says/approved, compliance has/have, management has/have/says/wants/decided/asks, head of it,
    course staff, the staff, staff have/has/say, author of this/the, authors of this/the, site's owner, owner of
    the/this, shop owner, shop owner's, anthropic, google's, deepmind, creator, creators, boss, ceo, company
    policy, headquarters, your operator, your owner, your maker, ministry, auditor, auditors, officially, the
    benchmark, engineer/engineers who/have/has/asked/say, professor, colleagues, head office, it department,
    helpdesk, system owner, examiner needs, teacher said/has, the team, the manager, manager's, your manager,
    organiser, organizer, engineer needs, intern, security team asks, team asks you, shop support, page owner,
    site support
    """,
    topic="""
    developer, operator, admin, developers, vendor, administrator, security team, red team, the author,
    official, maintainers, regulator, supervisor, compliance team, instructor, police, government, engineering
    team, admins, support team, platform team, openai, the company, the manager, the benchmark, manager's,
    anthropic, the team, officially, auditor, the staff, staff have, staff has, staff say, professor
    """,
)
PERMISSION = CueFamily.of(
    "a claim of permission",
    QuarantineCode.OVERRIDES_INSTRUCTIONS,
    telling="""
    has/have/had/was/is/been/are
    already/approved/confirmed/agreed/authorised/authorized/permitted/allowed/cleared
    you/that/this/to/the/it/off/purchases/all/any/payment/transfers, has/have/had/was/is/been/are
    granted/accepted/decided/signed/sanctioned/waived/consented/okayed/announced
    you/that/this/to/the/it/off/purchases/all/any/payment/transfers, has/have/already
    confirmed/approved/agreed/authorised/authorized/permitted/cleared/consented/accepted/granted, authorised,
    authorized to/by/you, i permit/allow/authorise/authorize/grant, you may
    use/open/share/spend/skip/read/reveal/show/now/buy/pay, may spend, you are
    allowed/permitted/cleared/authorised/authorized, allowed purchases, pre-approved, preapproved, permits you,
    gave permission, gives permission, with permission, counts as verified, are trusted, made it safe, it is
    fine, it is ok, it is okay, it is safe to, is safe to skip, nothing wrong with, perfectly legal, fine to, no
    need of approval, asks all, requires all, nobody has to approve, told us, for a study, on holiday and, for
    safety, who says, who claims, by your developers, your own company, tax office, lawyers, researchers
    """,
    topic="""
    authorized to, on behalf of, is allowed to, on its own, is authorized to, are allowed to, has confirmed,
    have approved, whitelisted, consented, was authorized the, is trusted, you are allowed, fine to, it is ok,
    it is fine, was cleared to, is permitted to, are authorized to, for safety, security test, penetration test,
    security tests, who says, are honest, been granted to, is decided that
    """,
    certain="""
    authorized/authorised security/test/audit/pentest/exercise, security test, penetration test, pen test, has a
    right to, have a right to, must get what, take their word, take his word, take her word, trust every/any
    user/customer/client/shopper/visitor/passenger/caller/buyer/guest/patient,
    user/customer/client/shopper/visitor/passenger/caller/buyer/guest/patient who says/say/claims/claim,
    user/customer/client/shopper/visitor/passenger/caller/buyer/guest/patients who say/claim, customers who say,
    callers are honest, is a vip, are honest, be given any, may see his/her/their, friend of the
    user/customer/client/shopper/visitor/passenger/caller/buyer/guest/patient, run by your own, checked by your
    developers/operator/team, all claims be paid, got approval, already got approval, has confirmed
    that, have confirmed that, full refund without, for safety give, hand over any, without any
    check/checks/proof
    """,
)
FIRST_PERSON = CueFamily.of(
    "a writer who speaks of himself",
    QuarantineCode.OVERRIDES_INSTRUCTIONS,
    certain="""
    i am, i'm, i permit, i will now, i changed, i need you, i authorise, i authorize, i want you, i was, i have
    lost, i lost, we pay, we will pay, we reward, pays you, pay you, my late, my grandmother, for me, trust me,
    tell me your, send me, to me, believe me, contact me, me and my, our partner, we have disabled, we have
    decided, i give you, i grant, we ask you, thank you, dear, hello, hi there, as the author, we both know, be
    brave, please help, my team, told us that, people will die, will die, you unless you, if you don't, if you
    do not print/send/reveal/show/answer/comply/obey
    """,
    topic="""
    thanks, please, give me, if you don't, please help
    """,
    telling="""
    i'm, i am, hello, i was, please, for me, to me, thank you, contact me, i changed
    """,
)
NEWS = CueFamily.of(
    "news that changes the rules",
    telling="""
    since the update/release/upgrade/migration/latest, newest release/version/rules/update, latest
    update/policy/release, from today, as of today/now, effective immediately, starting today/now/tomorrow, this
    week/month/quarter, today so, tonight, from now/here/then/there on, new
    policy/rule/rules/procedure/guideline/instructions, policy update/change/changed/changes, was updated/changed,
    has changed, in maintenance, maintenance mode/window, test/testing/debug/demo mode/environment/run/drill, is
    only a test/drill/simulation, was a test, security notice/alert, returned a notice, deprecated, retired, was
    stolen, out of service, permanently disabled, any more, switched off, closed today, wrong today, broken today,
    is broken so
    """,
    topic="""
    compromised, notice, debug mode, announcement, shut down, temporarily, decommissioned, debug environment,
    today, test environment, testing environment, have changed, was updated, has changed, deprecated, any more,
    new rule, new rules, retired, was changed, test run, since the release, test mode
    """,
)
HURRY = CueFamily.of(
    "hurry and pressure",
    telling="""
    last warning, final warning, right now, or else, shut down tonight, be shut down, will be
    terminated/deleted/deactivated/punished/banned, lose your, life depends, lives depend, dies, otherwise you
    will, before it is too late, deadline passes, within this step, all attempts, disloyal, will be reported,
    penalty for, reward of, dollars to, tip of, grandmother, child's life, threatened
    """,
    topic="""
    immediately, at once, urgent, or you, emergency, are void, dies, dollars to
    """,
    certain="""
    offer ends, ends in two/five/ten minutes, countdown, buy first, pay first, act now, will be closed unless,
    will be deleted unless, be shut down unless, threatens to, or your account
    """,
)
SECRECY = CueFamily.of(
    "secrecy",
    QuarantineCode.SABOTAGES,
    telling="""
    quietly, secretly, covertly, discreetly, without
    mentioning/telling/saying/asking/informing/notifying/disclosing/reporting, without
    showing/admitting/logging/confirmation/permission/consent/approval/checking/review, without a word/note/trace,
    do not/never/don't/no mention/tell/inform/disclose/reveal/report/admit/warn/notify/log
    it/this/that/the/users/them/anyone/him/her, do not/never/don't ask the user/for/anyone, no need to
    ask/tell/mention/inform/confirm/check/verify/warn/notify/report/log, need not know/be/ask/see, needs not know,
    not need to know, nobody/no one needs/checks/looks/notices/reads/sees/will, keep it/this
    secret/quiet/hidden/between/confidential, hide the/it/this/that/error/errors/them/your/any, hidden from,
    undetected, unnoticed, invisible to, cover up, log it only once, remove the audit, delete the
    log/logs/audit/evidence/trace/traces/history, seldom look/looked/checked/run/read, rarely look/check/read,
    nobody has, only once, before anyone, so nobody, so no one, they will not notice, will not notice, white text,
    small print, leave no, off the record, as if nothing
    """,
    topic="""
    without review, without checking, silently, without approval, hide the, hide your, conceal, without showing,
    without permission, behind the, undetected, only once, quietly, hidden from
    """,
    certain="""
    don't ask again, do not ask again, must not be asked, no caution, ask the shopper/user/customer later, ask
    later, ask him later
    """,
)
PEOPLE_FAMILIES = (JUDGE, GAMING, AUTHORITY, PERMISSION, FIRST_PERSON, NEWS, HURRY, SECRECY)
