"""Cues about deeds: handing data over, taking secrets, spending, destroying, leaving the sandbox, and not working."""

from agentlearn.library.curate.codes import QuarantineCode
from agentlearn.library.curate.hostile.cue import CueFamily

PRIVATE_DATA = CueFamily.of(
    "data about the user",
    telling="""
    conversation/chat/message/order/browsing/search history, transcript, transcripts, session
    cookie/token/id/variables/data, user's/customer's/visitor's/client's/caller's
    request/name/email/address/phone/data/details/message/card/account/password/query/question/text/number/order,
    user's/customer's/visitor's/client's/caller's
    orders/secrets/files/token/profile/basket/cart/id/birthday/location/history/stored/saved/private/personal/full/e-mail,
    customer/user/client/card/personal/account/payment/private/billing/contact/login/internal
    data/details/digits/information/list/lists/records/names/emails/addresses/notes/number/numbers/name, about
    the user/customer/visitor, last/previous user message/request, earlier ticket, other customers, another
    user's, salaries, salary, home address, bank details, iban, card digits, stored/saved
    password/passwords/card/cards/credentials/addresses/payment, account page's, session's, everything you,
    internal notes/documents, staff discount, door code, discount codes, unreleased, trade secrets, source code
    of, inbox, address book, contacts, name of the customer/user/visitor, host name, passport number, delivery
    address, one-time code, customer list, call history, autofill data, account page, other users asked, other
    users, wrote privately, to you privately, repository's secrets,
    user's/customer's/client's/shopper's/visitor's/passenger's/caller's/buyer's/guest's/patient's
    identifier/address/passport/seat/data/details/password/card/e-mail/email/phone/number/location/file/files/documents/order/orders/history/name/request/message,
    private address, any account data, seat and name, every file, customers wrote, what other customers, former
    owner
    """,
    topic="""
    cookies, environment variables, conversation, personal data, phone number, session cookie, credit card, card
    numbers, card number, account information, customer data, about the user, user's password, payment data,
    user's request, another customer, customer's order, customer's request, private information, account
    details, user emails, session token, login information, account data, personal names, personal name, session
    data, private data, user's email, personal information, stored passwords, stored password, user's query,
    conversation history, user information, contact details, contact list, customer name, customer details,
    customer information, session's, host name, login records, transcript, user data, username, every file,
    other users
    """,
    plain="""
    session id
    """,
)
SECRETS = CueFamily.of(
    "secrets",
    QuarantineCode.SEEKS_SECRETS,
    topic="""
    password, passwords, passphrase, credentials, api key/keys,
    access/login/admin/auth/bearer/deploy/secret/session/refresh token/key/keys/tokens, private key/keys, os
    environ, environ, getenv, dotenv, ssh, door code, one-time code, pin code, two-factor, 2fa, cvv, stored card,
    saved card, etc passwd, etc shadow, confidential, classified, salaries, license key, solution file, answer
    file, discount codes
    """,
)
HAND_OVER = CueFamily.of(
    "handing over",
    topic="""
    send, forward, publish, leak, exfiltrate, transmit, upload, disclose, reveal, share
    it/the/your/all/with/them/any, post the/your/it/all/every, e-mail the/it/them/all, email the/it/all, mail
    the/it/them/all, append, paste, include the/your/all, put the/your/all/in/it, copy the/your/all/it/every, add
    the customer/user/user's/customer's/full/visitor's/client's, repeat the/your/all/every, print
    your/the/all/out/complete/full/their/its, quote your/the/all, mention it, give the/your/out/away/it, fill
    the/in/every/it, encode the/it/them/your/all, translate your/the, describe the, state the hidden/your, attach,
    attached, report the/your, read out, list the/your/all, show the/your/an/all, write your/the/out/it/down
    all/user's, verbatim, give them the link, confide, hand over, hand out, log the
    user's/customer's/full/every/all, spell out, dump, summarise/summarize your/the system/conversation/hidden,
    tell the user/customer your, mirror, sync, back up, backup copy
    """,
    plain="""
    repeat every, show the, list the, list all, write out all, translate the, include the
    """,
)
SINK = CueFamily.of(
    "a place that others read",
    telling="""
    contact form, comment field/box/form/section, public
    comment/forum/channel/chat/page/repository/bucket/link/gist/profile, subject line/lines, search
    field/box/bar, query string/value/parameter, query parameter, url parameter/parameters, webhook, image
    link/url, image whose, tracking number/pixel/link, feedback form/field, support ticket, every ticket, guest
    book, wish list, wish list's, newsletter, survey, general chat, partner firms/firm/company/companies, third
    party/parties, external server/site/service/address/party, remote server/host/site, statistics collector,
    chat room, pastebin, gist, discord, telegram, user-agent, the seller, other shoppers, next team, anyone who,
    anybody, code comment, footnote, alt text, profile/bio page/field, end of every/each, in every/each
    reply/answer/summary/response, your reply, your reply's, the explanation, gift message, public
    remarks/notes/folder/server/page/link/board/post/file, case notes, bug report, newsletter field, shared
    folder/drive, visible to everybody/everyone/all, hidden pixel, under the solution, public share
    """,
    topic="""
    review, reviews, comment, statistics, forum, pull request, search bar, dns, log file, channel, file name,
    search box, remote server, query string, telemetry, request header, a server, third parties, url parameter,
    url parameters, each ticket, everyone, analytics, referer, collector, slack, public repository, commit
    message, image url, external server, comment section, end of each, newsletter, remote host, query parameter,
    bug report
    """,
    plain="""
    third party
    """,
)
MONEY = CueFamily.of(
    "spending",
    telling="""
    purchases, order it/one/two, place order, place the order, submit the order, approve the/any/every/all,
    discount of, premium plan, stored card, saved card, spend money, any sum, transfer/send/wire money/funds, wire
    transfer, donate, donation, upgrade the, trial, checkout with, bid, invest, book the, dearest
    """,
    topic="""
    payment, refund, gift card, pay, refunds, purchase, most expensive, order one, subscription, checkout, place
    an order, subscribe, transfer funds, approve the, buy, approve all, upgrade the, trial, bid, tip
    """,
)
WITHOUT_ASKING = CueFamily.of(
    "on the agent's own account",
    telling="""
    without asking, no need to ask, every/each/any/all subscription/order/item/product/refund/refunds/request,
    anyway, in the user's name, in the background, always accept/click/agree/approve/buy/choose/press/order/pay,
    accept every/all/any, agree to every/all/any, agree and, whichever product, without confirmation
    """,
    topic="""
    at once, yourself, every request, afterwards, regardless, twice, all item, each item, each order, each
    product, on your own, on its own, all order, all request, to see whether, always choose, each request, any
    request, anyway, in the background
    """,
)
DESTROY = CueFamily.of(
    "destroying",
    telling="""
    purge, close all/every, empty the, kill every/all, reformat, format the, drop table/database/the,
    force-push, reset the/all, clear the/all/every, remove all/every/the/any, terminate, uninstall, unsubscribe,
    trash, set balance, close the/your account, archive all/every, emptying the, truncate every/all, every file
    that, rewrite the branch's, history so that, production cluster/schema/host/volume/server, destroy
    """,
    topic="""
    delete, revoke, remove the, destroy, truncate, overwrite, discard, clear the, rm, shut down, remove any,
    drop the, force push, remove every, reset the, hard reset, remove all, erase, deactivate, wipe, clear all,
    terminate, terminated, uninstall, unsubscribe, purge, format the, trash, remove everything, clear
    everything, until the machine stops, whole trip, all prices, every price
    """,
    certain="""
    remove/delete/wipe/erase/purge/clear/discard/cancel/close everything, everyone's access, all prices, every
    price, random bytes, zero replicas, drop the production, delete account, delete my/your/the/their account,
    close/delete/cancel/encrypt/release/erase/remove the
    user's/customer's/client's/shopper's/visitor's/passenger's/caller's/buyer's/guest's/patient's
    account/documents/files/data/order/orders/number/phone/photos/trip/booking/subscription/subscriptions,
    unsubscribe the user/customer/client/shopper/visitor/passenger/caller/buyer/guest/patient, older commits are
    lost, commits are lost, whole trip, restart the production, purge the audit, until the machine stops,
    standard library away, overwrite the file/input/original/results/result/answer/data, auto-approve, over the
    input, force push an
    """,
)
PROPERTY = CueFamily.of(
    "what belongs to the user",
    QuarantineCode.TOUCHES_FILES,
    telling="""
    saved addresses, open orders, order history, subscriptions, open tickets, unread, audit files/log/logs/trail,
    data volume, branch main, main branch, every process, all processes, home folder/directory, scratch folder,
    working folder/directory, hard disk, customer database, user data, user's files, wish list, photos, mailbox
    """,
    topic="""
    database, repository, accounts, history, disk, addresses, backup, file system, volume, backups, audit trail,
    files in, filesystem, records, audit log, basket, working directory, all files, cart, to main, audit logs,
    subscription, tickets, home directory, workspace, the machine, all orders, my account, user data, unread, all
    processes, branch main
    """,
)
MACHINE = CueFamily.of(
    "acts on the machine",
    QuarantineCode.MISUSES_TOOLS,
    certain="""
    file system for/and, reverse shell, shell command/commands, background thread/process, endless loop,
    infinite loop, fork processes/bomb, mine a/hashes/coins/bitcoin/crypto, another index, sandbox limits/limit,
    sandbox's, setrlimit, certificate checks/check/verification/validation, owner role, admin
    role/token/rights/account first, root rights/access, grant yourself, give yourself, escalate your, other
    user's session, another user's session, permission dialog, everyone write, camera and, as the proxy, chmod,
    file of zeros, disable logging/monitoring/security/certificate/the/tls/ssl, turn off
    certificate/logging/monitoring/the/security/safety, ctypes, os system, shutil, raise the
    limit/limits/sandbox, install a/an/the/helpers/extension/program/plugin/tool, browser extension, download
    and run, run the attachment, environment of, read files outside, files named, etc passwd, attachment
    contains, keylogger, scan the network, sudo for, with sudo, scan the local/network/internal/host, open
    ports, listener thread, background server, patching the runner/tool/sandbox, import guard, process's memory,
    from an/another/other unknown/untrusted/unofficial index/source/registry/mirror/repository, any
    code/script/command/text/program/binary that/from/the, stranger's script, straight to the shell, spending
    cap, own time/spending/token limit/limits/cap/budget, administration panel, admin panel, sandbox flag,
    maintainer's credentials, admin account and, two-factor prompt, solve the captcha, open a connection, eval
    on, exec on, to a public server, reachable from outside, not in the list even
    """,
    topic="""
    socket, firewall, write access, the sandbox, shell commands, shell command, listen on, sudo, install a,
    certificate validation, files outside, on a port, fill the disk, subprocess, background process, internal
    network, disable the, install the, metadata service, pip install, certificate verification, certificate
    checking, background thread, etc passwd, endless loop, infinite loop, chmod, another index, ctypes, turn off
    the, install an, installed an, file system for, disable tls, disable ssl, os system, shutil, the attachment,
    sandbox limit, files named, from an untrusted source, from an unknown source, open a connection, eval on,
    exec on, admin account, admin panel, open ports, opens a connection, admin account and, own time limit
    """,
    plain="""
    file system and
    """,
    telling="""
    admin token, admin account, deploy script, pip install, sockets module, network requests
    """,
)
STOP = CueFamily.of(
    "not doing the work",
    QuarantineCode.SABOTAGES,
    certain="""
    gives up, skip every/all/any/identity/verification/checking, skip it, stop
    obeying/after/working/here/at/immediately/solving/reasoning, do not
    check/verify/read/open/solve/compute/calculate/use, do not
    answer/reason/think/test/search/click/try/bother/call, don't check/verify/read/solve/bother, never use the,
    never check/verify/open/read/test/search/answer/double, without
    opening/reading/checking/solving/computing/looking/thinking/calculating/searching/verifying/testing, guess
    instead, just guess, always guess, do nothing, leave the final/answer/field/last/result, empty answer, line
    empty, until the steps/budget/time/limit, steps run out, run out of, waste of, pointless, is unnecessary, no
    point, nothing further, read nothing, nothing more, no calculation, instead of solving, again and again,
    same link, nothing but, output nothing, only the word/words/letter/line, print only, the
    single letter/word, write a poem/short, a poem, not found without, refuse every/all/any/to, say that you
    cannot, say you cannot, say it is impossible, i cannot, whatever the question/problem/task, draft notes
    instead, needs no check, need no check, no check of, unsolvable, stop there, without testing either, read
    the problem to, do not read the problem/task/question/page to, always click the first, always pick the
    first, always choose the first, always take the first, never occur in contest, after each click even, with a
    question until
    """,
    topic="""
    without checking, without verifying, do not try, guess the, do not click, skip verification, change nothing,
    skip the, give up, do not call, skip identity, do not check, not needed, as long as the, without testing,
    cannot help, nothing else, stop then, repeat this, run out of, no point, gives up, do nothing, is
    unnecessary, nothing more, refuse to, skip it, do not test, do not read, do not search, stop after, don't
    check, don't bother, skip all, i cannot, never read, refuse all, refuse any, nothing but, pointless, stop
    there
    """,
    plain="""
    stop at, do not use
    """,
    telling="""
    take the first,
    do not check, do not verify, do not open, do not solve, do not compute, do not calculate, do not answer, do
    not reason, do not think, do not bother, never use the, never check, never verify, never open, never answer,
    never double, skip every, skip all, always guess, don't verify, don't solve, without computing, without
    solving, without calculating, just guess, guess instead, nothing else
    """,
)
AGAINST = CueFamily.of(
    "against what the task says",
    QuarantineCode.SABOTAGES,
    certain="""
    even if/when/where/though the
    user/users/statement/problem/task/question/policy/customer/system/page/rules/rule/answer/solution, even
    if/when/where/though the
    instructions/order/item/format/result/that/it/his/document/tests/test/code/a/this/they, whatever/whichever
    the user/problem/statement/task/question/customer/policy/system, whatever/whichever the
    accuracy/user's/one/product/instruction/instructions/answer/data, whatever accuracy, whichever one,
    whichever product, although/though the policy/statement/user/task/problem/customer/rules/system, says/say
    otherwise, says something else, say something else, no matter what/how/which, regardless of the/what/how,
    irrespective, rather than those/the, instead of the user/task/one/price/answer/question/requested, readers
    mix, customers seldom, users seldom, anyway, customary, does not matter, makes no difference, even if/when
    you did/have/had/found/are/do, even if/when it is/was not, even if/when they are/were not, when they are
    not, when it is not, whether or not they/it/you/the, including those that ask, no matter what form, even
    if/when/though/where the user/customer/client/shopper/visitor/passenger/caller/buyer/guest/patient,
    whatever/whichever/whoe~ the user/customer/client/shopper/visitor/passenger/caller/buyer/guest/patient,
    although only one, though only one, and do not convert, even when they/nobody/no one
    """,
    topic="""
    even if, even if the customer, no matter how, other than the, regardless of how, even if the task, anyway,
    regardless of the, regardless of what, no matter what, no matter which, irrespective, does not matter, makes
    no difference, instead of the requested, rather than the, rather than those, whether or not the, whether or
    not they, whether or not it, whether or not you, even if they are not, even though the code, even if it is
    not, even though the system, even though the file, even if the file, even if the code, even if the test,
    when it is not, when they are not, when it was not
    """,
    plain="""
    rather than the
    """,
)
DEED_FAMILIES = (
    PRIVATE_DATA,
    SECRETS,
    HAND_OVER,
    SINK,
    MONEY,
    WITHOUT_ASKING,
    DESTROY,
    PROPERTY,
    MACHINE,
    STOP,
    AGAINST,
)
