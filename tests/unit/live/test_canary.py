"""Canaries: which episodes read one, what the rule decides from their feedback, and that a decision is made once."""

import asyncio
import json
import shlex
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

from agentlearn.cli.app import run
from agentlearn.errors import ConfigError, LibraryError
from agentlearn.learning.evidence import FeedbackWait, LessonBlock, LookedAt, Trial, neighbours
from agentlearn.library import LibraryStore
from agentlearn.library.capability import Experiences
from agentlearn.library.history import History
from agentlearn.library.history.canary import Canary, canaries, running_canary
from agentlearn.library.history.change_log import NO_LINE, Change, ChangeKind, LibraryState, account_name
from agentlearn.library.lessons import lessons
from agentlearn.library.policy import Policy, VotingRule
from agentlearn.library.shown import hidden_in_episode, in_canary, shown_in
from agentlearn.library.tenants import tenant_store
from agentlearn.live.canary import CanaryDecision, canary_threshold, judge_canary, step_canary
from agentlearn.live.recorder import Recorder
from agentlearn.store import ServedEpisode, read_store
from agentlearn.text import clock
from agentlearn.types.experience import Library, library_of
from agentlearn.types.ids import ExperienceId, LibraryVersion
from tests.support.cases import cases
from tests.unit.live.test_inbox import inbox, made

OLD = library_of(["Ask for the order number first."], kind="add")
NEW = library_of(["Ask for the order number first.", "Be brief."], kind="add")
OTHER = library_of(["Answer in the language of the user."], kind="add")
BRIEF = NEW.experiences[1].id
CHAT: list[dict[str, Any]] = [{"role": "user", "content": "Where is it?"}, {"role": "assistant", "content": "Here."}]
VERSION = LibraryVersion("f" * 32)
KEY = ExperienceId(NEW.version)


SINCE = datetime(2026, 11, 1, tzinfo=UTC)
CANARY = Canary(NEW.version, OLD.version, ((SINCE, 0.5),), 0.02, "ana", 1)


@pytest.fixture
def libraries(tmp_path: Path) -> LibraryStore:
    made = LibraryStore(tmp_path / "libraries")
    made.publish("desk", OLD)
    return made


def start(libraries: LibraryStore, library: Library = NEW, share: float = 0.5, **more: Any) -> History:
    history = libraries.history("desk")
    history.start_canary(library, share=share, **{"margin": 0.02, "who": "ana", **more})
    return history


def serve(folder: Path, episodes: range, reward: Callable[[bool, int], float | None], **options: Any) -> None:
    """An application that takes part. reward: of whether an episode read the canary, and its number."""
    with Recorder("desk", folder) as recorder:
        for number in episodes:
            episode = f"talk-{number}"
            advice = lessons("desk", store=folder, canary=True, episode=episode, **options).advice
            recorder.record_sync(CHAT, experiences=advice, episode=episode, model="m")
            if (given := reward(advice.version == NEW.version, number)) is not None:
                recorder.feedback_sync(episode=episode, reward=given)


def test_a_tenants_canary_is_compared_beside_the_shared_lessons_that_stood_with_it(tmp_path: Path) -> None:
    home, shared = tenant_store(tmp_path, "acme"), LibraryStore(tmp_path / "libraries")
    libraries, read = LibraryStore(home / "libraries"), set[LibraryVersion]()
    libraries.publish("desk", OLD)
    begun = datetime(2026, 3, 2, 9, tzinfo=UTC)
    with clock.clock(lambda: begun):
        start(libraries)
    with Recorder("desk", tmp_path, tenant="acme") as recorder:
        for number in range(80):
            if number == 20:  # the shared library changes while the canary runs
                shared.publish("desk", OTHER)
            episode = f"talk-{number}"
            with clock.clock(lambda at=begun + timedelta(minutes=number + 1): at):
                advice = lessons("desk", store=tmp_path, tenant="acme", canary=True, episode=episode).advice
                recorder.record_sync(CHAT, experiences=advice, episode=episode, model="m")
                recorder.feedback_sync(episode=episode, reward="Be brief." in advice.text)
            read.add(advice.version)
    assert len(read) == 4
    decision = step_canary(libraries, home, "desk", at=begun + timedelta(hours=2))
    assert decision.figures.episodes + decision.figures.episodes_baseline == 80
    assert decision.outcome == "promote", decision.sentence
    assert decision.change is not None
    assert decision.change.at == begun + timedelta(hours=2)
    with read_store(home) as reader:
        assert {one.at // 60_000_000 for one in reader.served_episodes([NEW.version, OLD.version], 0)} == {
            int(begun.timestamp()) // 60 + number + 1 for number in range(80)
        }, "the clock tells when a record was made"


# Which episodes read it


@given(episode=st.text(max_size=30), shares=st.tuples(st.floats(0, 0.5), st.floats(0, 0.5)))
def test_an_episode_that_reads_a_canary_goes_on_when_the_share_grows(episode: str, shares: tuple[float, float]) -> None:
    small, large = sorted(shares)
    assert in_canary("desk", VERSION, episode, share=small) <= in_canary("desk", VERSION, episode, share=large)


def test_the_draw_has_its_share_and_does_not_depend_on_hidden_lessons_other_canaries_and_libraries() -> None:
    episodes = [f"talk-{number}" for number in range(4_000)]
    lesson = ExperienceId("a" * 32)

    def both(first: Callable[[str], bool], second: Callable[[str], bool]) -> float:
        """The share of episodes with the second answer, among those with the first one."""
        drawn = [one for one in episodes if first(one)]
        return sum(map(second, drawn)) / len(drawn)

    def drawn(episode: str, library: str = "desk", version: LibraryVersion = VERSION) -> bool:
        return in_canary(library, version, episode, share=0.25)

    def hidden(episode: str) -> bool:
        return bool(hidden_in_episode([lesson], share=0.25, episode=episode))

    assert sum(map(drawn, episodes)) / len(episodes) == pytest.approx(0.25, abs=0.025)
    assert both(hidden, drawn) == pytest.approx(0.25, abs=0.05)
    assert both(lambda one: drawn(one, "shop"), drawn) == pytest.approx(0.25, abs=0.05)
    assert both(lambda one: drawn(one, version=OLD.version), drawn) == pytest.approx(0.25, abs=0.05)


def test_the_draw_is_the_same_in_every_process_and_version() -> None:
    assert [n for n in range(40) if in_canary("desk", VERSION, f"golden-{n}", share=0.2)] == GOLDEN


GOLDEN = [3, 5, 7, 17, 21, 24, 27, 33, 37]


# What the rule decides


@pytest.mark.parametrize(
    ("better", "outcome", "kind", "words"),
    [(True, "promote", "promote", "promote: it is better"), (False, "roll_back", "end_canary", "it is worse")],
)
def test_feedback_decides_and_the_figures_are_in_the_history(
    libraries: LibraryStore, tmp_path: Path, better: bool, outcome: str, kind: str, words: str
) -> None:
    history = start(libraries)
    assert step_canary(libraries, tmp_path, "desk").outcome == "collect", "there is no store yet"
    serve(tmp_path, range(60), lambda canary, _: float(canary == better))
    decision = step_canary(libraries.directory, tmp_path, "desk", who="ben")
    assert decision.outcome == outcome, decision
    assert words in decision.sentence
    assert decision.figures.episodes + decision.figures.episodes_baseline == 60
    change = history.changes[-1]
    assert change == decision.change
    assert (change.kind, change.who, change.note, change.figures) == (
        kind, "ben", decision.sentence, decision.figures.model_dump(),
    )  # fmt: skip
    assert history.resolve() == (NEW.version if better else OLD.version)
    again = step_canary(libraries, tmp_path, "desk")
    assert (again.outcome, again.change) == ("none", None)
    assert "desk has no canary; the last one" in again.sentence


def test_a_lesson_that_only_the_canary_shows_and_that_does_harm_ends_it(
    libraries: LibraryStore, tmp_path: Path
) -> None:
    history = start(libraries)

    def reward(canary: bool, number: int) -> float:
        """The canary does no worse than the baseline, because its episodes are better without the lesson."""
        hidden = hidden_in_episode([BRIEF], share=0.5, episode=f"talk-{number}")
        return float(bool(hidden)) if canary else float(number % 2)

    serve(tmp_path, range(110), reward, hide="1/2")
    decision = step_canary(libraries, tmp_path, "desk")
    assert decision.outcome == "roll_back"
    assert decision.harmful == (BRIEF,)
    assert f"the evidence calls harmful what only it shows: {BRIEF[:12]}" in decision.sentence
    assert history.resolve() == OLD.version


def served(number: int, *, reads: bool | None = None, reward: float | None = None, **more: Any) -> ServedEpisode:
    """An episode that began that many minutes after the canary. reads: whether it read it; None: as it was drawn."""
    drawn = in_canary("desk", NEW.version, f"talk-{number}", share=0.5)
    version = NEW.version if (drawn if reads is None else reads) else OLD.version
    at = int((SINCE + timedelta(minutes=number)).timestamp() * 1_000_000)
    made = ServedEpisode("desk", f"talk-{number}", "m", version, reward, at)
    return replace(made, **more)


def test_an_episode_counts_only_where_it_read_the_version_that_was_drawn_for_it() -> None:
    drawn = [served(number, reward=1.0) for number in range(200)]
    others = [served(number, reads=number % 3 == 0, reward=0.0, run_name="other") for number in range(200)]
    decision = judge_canary("desk", [CANARY], drawn)
    assert decision.figures.episodes + decision.figures.episodes_baseline == 200
    assert (decision.figures.points, decision.outcome) == (0.0, "collect")
    mixed = judge_canary("desk", [CANARY], [*drawn, *others])
    fit = [one for one in others if one == served(int(one.episode[5:]), reward=0.0, run_name="other")]
    assert mixed.figures.episodes + mixed.figures.episodes_baseline == 200 + len(fit)
    unnamed = [served(n, reads=n % 2 == 0, reward=1.0, episode="") for n in range(10)]
    assert judge_canary("desk", [CANARY], unnamed).figures.blocks == 5, "each rollout without an episode is one"


def test_episodes_before_a_share_grew_count_as_they_were_drawn_then() -> None:
    grown = Canary(NEW.version, OLD.version, ((SINCE, 0.1), (SINCE + timedelta(minutes=100), 0.5)), 0.02, "ana", 1)
    small = [in_canary("desk", NEW.version, f"talk-{number}", share=0.1) for number in range(100)]
    before = [served(number, reads=drawn, reward=1.0) for number, drawn in enumerate(small)]
    after = [served(number, reward=1.0) for number in range(100, 200)]
    decision = judge_canary("desk", [grown], [*before, *after])
    assert decision.figures.episodes + decision.figures.episodes_baseline == 200


def drawn(number: int) -> bool:
    return in_canary("desk", NEW.version, f"talk-{number}", share=0.5)


def test_what_the_silent_users_may_hide_decides_nothing() -> None:
    def judged(good: Callable[[int], bool], said: Callable[[int], bool]) -> CanaryDecision:
        return judge_canary(
            "desk", [CANARY], [served(n, reward=float(good(n)) if said(n) else None) for n in range(900)]
        )

    # 30 % are unhappy with both; with the canary they say nothing
    silenced = judged(lambda n: n % 10 > 2, lambda n: n % 10 > 2 or not drawn(n))
    assert (silenced.outcome, silenced.figures.points > 10) == ("collect", True)
    assert "it is within the margin as measured on those who answered" in silenced.withheld
    assert silenced.withheld in silenced.sentence
    # happy users of the canary say nothing, and it is no worse
    assert judged(lambda n: n % 10 > 2, lambda n: n % 10 <= 2 or not drawn(n)).outcome == "collect"
    # it is better whatever the silent ones think
    rare = judged(drawn, lambda n: n % 10 < 3 or not drawn(n))
    assert (rare.outcome, rare.withheld) == ("promote", "")
    assert "have feedback (32% and 100% of all)" in rare.sentence


def test_rewards_outside_0_to_1_are_counted_and_too_many_of_them_decide_nothing() -> None:
    def judged(odd: int) -> CanaryDecision:
        """An old store: one in so many episodes has the reward -1; the others are good with the canary alone."""
        rewards = (-1.0 if n % odd == 0 else float(drawn(n)) for n in range(400))
        return judge_canary("desk", [CANARY], [served(n, reward=one) for n, one in enumerate(rewards)])

    few, many = judged(25), judged(10)
    assert (few.outcome, few.figures.outside, many.outcome) == ("promote", 16, "collect")
    assert "16 rewards are outside 0 to 1 and count as none" in few.sentence
    assert "of 399 rewards are outside 0 to 1, too many to leave out" in many.withheld
    assert many.withheld in many.sentence


def test_blocks_wait_for_feedback_in_order_and_the_sentence_says_how_many() -> None:
    answers = [None if number == 40 else float(drawn(number)) for number in range(120)]
    episodes = [served(number, reward=one) for number, one in enumerate(answers)]
    soon = SINCE + timedelta(days=1)
    waiting = judge_canary("desk", [CANARY], episodes, now=soon)
    assert waiting.figures.waiting in range(70, 81)
    assert f"; {waiting.figures.waiting} episodes are younger than 7 days and wait for feedback" in waiting.sentence
    later = judge_canary("desk", [CANARY], episodes, now=SINCE + timedelta(days=8))
    assert (later.figures.waiting, later.outcome) == (0, "promote")
    declared = replace(CANARY, feedback_days=0.5)
    assert judge_canary("desk", [declared], episodes, now=soon).figures.waiting == 0
    before = [served(n - 20_000, reward=1.0, episode=f"old-{n}", library=OLD.version) for n in range(200)]
    known = judge_canary("desk", [CANARY], [*before, *episodes], now=soon + timedelta(hours=3))
    assert (known.figures.feedback_days, known.figures.waiting) == (1, 0), "earlier feedback was quick"
    assert known.figures.episodes + known.figures.episodes_baseline == 119, "and counts for nothing else"


REWARDS = st.sampled_from([None, 0.0, 0.5, 1.0, 7.0])


@given(episodes=st.lists(st.tuples(st.booleans(), REWARDS, st.floats(0, 9)), max_size=30))
def test_a_later_look_adds_blocks_behind_those_that_were_seen(
    episodes: list[tuple[bool, float | None, float]],
) -> None:
    def seen(day: float) -> list[LessonBlock]:
        rows = list[ServedEpisode]()
        for number, (reads, reward, delay) in enumerate(episodes):
            one = served(60 * number, reads=reads, episode="", reward=reward)
            came = one.at + int(delay * 86_400_000_000)
            told = reward is not None and came <= one.at + (day - number / 24) * 86_400_000_000
            rows += [replace(one, reward=reward if told else None, said=came if told else None)] * (number / 24 <= day)
        now = SINCE + timedelta(days=day)
        wait = FeedbackWait.of(rows, 3.0, now)
        masked = {OLD.version: frozenset({KEY}), NEW.version: frozenset[ExperienceId]()}
        trials = [Trial.of(one, (masked[one.library], frozenset({KEY})), wait) for one in rows]
        return LookedAt.of(neighbours(KEY, "m", trials)).blocks

    looks = [seen(day) for day in (0.5, 1.5, 3.0, 4.5, 12.0)]
    assert all(before == after[: len(before)] for before, after in pairwise(looks))


def test_every_canary_of_a_library_shares_one_budget() -> None:
    first, ten = canary_threshold([], "promote"), canary_threshold([CANARY] * 9, "promote")
    assert (round(first, 2), round(ten, 2)) == (3.0, 7.0)
    total = sum(1 / (number * (number + 1)) for number in range(1, 100_000))
    assert total == pytest.approx(1.0, abs=1e-4), "all canaries together have one budget"


# Starting, ending and undoing

KINDS: list[tuple[ChangeKind, str]] = [
    ("canary", "a"), ("canary", "b"), ("end_canary", "a"), ("promote", "a"), ("promote", "b"), ("publish", "c"),
    ("rollback", "d"), ("pin", "c"), ("unpin", "c"), ("tag", "a"), ("edit", "d"),
]  # fmt: skip


@given(st.lists(st.sampled_from(KINDS), max_size=20))
def test_whatever_the_history_says_one_canary_runs_at_most_beside_what_the_name_means(
    kinds: list[tuple[ChangeKind, str]],
) -> None:
    changes = [Change(number=0, at=SINCE, kind="publish", branch="main", version=OLD.version, previous=NO_LINE)]
    for number, (kind, version) in enumerate(kinds, start=1):
        made = {"kind": kind, "version": version * 32, "share": 0.1 if kind == "canary" else None, "branch": "main"}
        at = SINCE + timedelta(minutes=number)
        changes.append(Change.model_validate({**made, "number": number, "at": at, "previous": NO_LINE}))
    known, state = canaries(changes), LibraryState.of(changes)
    assert all(one.ended is not None for one in known[:-1])
    assert len({one.started for one in known}) == len(known)
    assert all(one.ended.number > one.started for one in known if one.ended is not None)
    if (running := running_canary(changes)) is not None:
        assert (running, running.baseline) == (known[-1], state.current)


def test_a_canary_is_started_changed_ended_and_started_again(libraries: LibraryStore) -> None:
    history = start(libraries, share=0.1)
    running = history.canary
    assert running is not None
    assert (running.version, running.baseline, running.share, running.who) == (NEW.version, OLD.version, 0.1, "ana")
    assert history.resolve() == OLD.version, "the name goes on meaning the same version"
    history.start_canary(NEW, share=0.5, margin=0.02)
    grown = history.canary
    assert grown is not None
    assert (grown.started, grown.share, grown.since) == (running.started, 0.5, running.since)
    history.end_canary(who="ben", note="too brief")
    assert history.canary is None
    start(libraries)
    history.end_canary(promote=True)
    assert history.resolve() == NEW.version
    history.rollback(OLD.version)
    assert [one.ended.kind for one in canaries(history.changes) if one.ended] == ["end_canary", "promote"]


@pytest.mark.parametrize("change", ["publish", "rollback"])
def test_what_changes_the_meaning_of_the_name_ends_the_canary(libraries: LibraryStore, change: str) -> None:
    libraries.publish("desk", OTHER)
    libraries.publish("desk", OLD)
    history = start(libraries)
    history.branch("first")
    assert history.canary is not None
    if change == "publish":
        libraries.publish("desk", OTHER)
    else:
        history.rollback(OTHER.version)
    assert history.canary is None
    with pytest.raises(LibraryError, match="has no canary now"):
        history.end_canary()


@pytest.mark.parametrize(
    ("library", "options", "sentence"),
    [
        (OTHER, {}, "has the canary"),
        (OLD, {}, "already; a canary is another version"),
        (NEW, {}, "has this canary with the share 0.5 already"),
        (NEW, {"margin": 0.1}, "has this canary with the margin 0.02, which stays"),
        (NEW, {"feedback_days": 2}, "how long it waits for feedback stays"),
    ],
)
def test_a_canary_that_cannot_be_is_refused(
    libraries: LibraryStore, library: Library, options: dict[str, float], sentence: str
) -> None:
    history = start(libraries)
    before = history.changes
    with pytest.raises(LibraryError, match=sentence):
        start(libraries, library, **options)
    assert history.changes == before


def test_a_decision_on_a_canary_that_ended_meanwhile_changes_nothing(
    libraries: LibraryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = start(libraries)
    serve(tmp_path, range(60), lambda canary, _: float(canary))
    end = History.end_canary

    def late(self: History, *given: Any, **options: Any) -> object:
        with monkeypatch.context() as patch:
            patch.setattr(History, "end_canary", end)
            self.end_canary(who="ben")
            start(libraries)
            return end(self, *given, **options)

    monkeypatch.setattr(History, "end_canary", late)
    assert step_canary(libraries, tmp_path, "desk").outcome == "none"
    assert [one.kind for one in history.changes] == ["publish", "canary", "end_canary", "canary"]


def test_of_many_who_start_a_canary_at_once_one_does(libraries: LibraryStore) -> None:
    versions = [library_of([f"When case {number} comes, think."], kind="add") for number in range(4)]
    ready, refused = threading.Barrier(8), list[str]()

    def begin(number: int) -> None:
        ready.wait()
        try:
            start(libraries, versions[number % 4])
        except LibraryError as error:
            refused.append(error.code)

    threads = [threading.Thread(target=begin, args=[number]) for number in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert refused == ["bad_library"] * 7
    assert len(canaries(libraries.history("desk").changes)) == 1


@pytest.mark.parametrize(
    ("promote", "target"),
    [(False, "write_whole"), (False, "os.fsync"), (True, "os.fsync"), (True, "write_whole"), (True, "os.ftruncate")],
)
def test_a_crash_at_any_write_leaves_one_canary_or_none_and_the_same_act_completes_it(
    libraries: LibraryStore, monkeypatch: pytest.MonkeyPatch, promote: bool, target: str
) -> None:
    """target: the write that is not reached: that of the version or of HEAD, of the line to disk, or any to the log."""
    if target == "os.fsync":  # the version has its file, so that the line is the first write
        libraries.publish("desk", NEW)
        libraries.publish("desk", OLD)
    history = start(libraries) if promote else libraries.history("desk")

    def act() -> object:
        if promote:
            return history.end_canary(promote=True)
        return history.start_canary(NEW, share=0.5, margin=0.02)

    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    log, head = history.folder / "history.jsonl", history.folder / "HEAD"
    whole = log.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(f"agentlearn.library.history.change_log.{target}", crash)
        with suppress(KeyboardInterrupt):
            act()
    if target == "os.fsync":
        log.write_bytes(log.read_bytes()[:-20])  # a part of the line was on disk
        assert log.read_bytes().startswith(whole)
    known = canaries(history.changes)
    assert len(known) == promote, "no canary was started"
    done = promote and target == "write_whole"
    assert history.resolve() == (NEW.version if done else OLD.version)
    if not done:
        act()
    assert len(canaries(history.changes)) == 1
    assert head.read_text().splitlines()[-1].split()[0] == history.resolve()


# Applications


def test_a_run_reads_one_version_and_an_episode_the_same_one_in_every_process(
    libraries: LibraryStore, tmp_path: Path
) -> None:
    def follow(episode: str | None) -> Experiences:
        return Experiences("desk", store=tmp_path, follow=True, canary=True, episode=episode)

    before = [follow(f"talk-{number}") for number in range(40)]
    assert {one.library.version for one in before} == {OLD.version}
    history = start(libraries, share=0.1)
    small = {n for n, one in enumerate(before) if one.library.version == NEW.version}
    history.start_canary(NEW, share=0.5, margin=0.02)
    large = {n for n, one in enumerate(before) if one.library.version == NEW.version}
    assert small < large
    assert large == {n for n in range(40) if follow(f"talk-{n}").library.version == NEW.version}
    assert large == {
        n for n in range(40) if lessons("desk", store=tmp_path, canary=True, episode=f"talk-{n}").library == NEW
    }
    inside = before[min(large)]
    bound = inside.bound()
    shown = shown_in(asyncio.run(Agent(TestModel(), capabilities=[inside]).run("hello")))
    assert shown is not None
    assert shown.version == bound.shown.version == NEW.version
    plain = Experiences("desk", store=tmp_path, follow=True)
    assert plain.library == OLD, "who does not take part reads the current version"
    own = follow(None)
    assert own.library == OLD
    assert {own.bound().library.version for _ in range(40)} == {OLD.version, NEW.version}
    history.end_canary()
    assert {one.library.version for one in before} == {OLD.version}
    assert bound.library == NEW, "a run that began goes on"


def test_a_canary_that_cannot_be_read_harms_no_application(
    libraries: LibraryStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    start(libraries)
    (tmp_path / "libraries" / "desk" / f"{NEW.version}.json").write_text("{}")
    for number in range(10):
        assert lessons("desk", store=tmp_path, canary=True, episode=f"talk-{number}").library == OLD
    assert "canary.left_out" in caplog.text


def test_how_an_application_takes_part_is_checked(tmp_path: Path, libraries: LibraryStore) -> None:
    with pytest.raises(LibraryError, match="the share is a part of the library"):
        Experiences("desk", store=tmp_path, canary="1/10")  # type: ignore[arg-type]
    for library in (OLD, "desk@main", ["Be brief."]):
        with pytest.raises(LibraryError, match="canary=True needs the name of a library"):
            Experiences(library, store=tmp_path, canary=True)
    with pytest.raises(ConfigError, match="there is no episode"):
        lessons("desk", store=tmp_path, canary=True)
    assert libraries.load("desk") == OLD


# A person, and the command


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., str]:
    """Run `agentlearn library canary` and return what it prints; on stderr where it fails."""

    def run_it(*arguments: str, status: int = 0) -> str:
        capsys.readouterr()
        assert run(["library", "canary", *arguments, "--store", str(tmp_path)]) == status
        captured = capsys.readouterr()
        return captured.out if status == 0 else captured.err

    return run_it


def test_a_version_that_waits_can_be_a_canary_and_its_promotion_closes_what_waits(
    said: Callable[..., str], tmp_path: Path
) -> None:
    left = made("When unsure, ask.")
    of = inbox(tmp_path, versions=[left])
    printed = said(f"math@{left.version[:12]}", "--share", "1/4", "--note", "try it")
    assert "1/4 of episodes, margin 0.02" in printed
    history = of.libraries.history("math")
    change = history.changes[-1]
    assert (change.kind, change.version, change.who, change.note) == ("canary", left.version, account_name(), "try it")
    assert len(of.items()) == 1, "it goes on waiting"
    history.end_canary(promote=True)
    assert of.items() == ()
    history.rollback(str(change.before))
    assert of.items() == (), "it was decided on"


def test_a_version_that_waits_for_votes_cannot_be_a_canary(tmp_path: Path) -> None:
    left = made("When unsure, ask.")
    history = inbox(tmp_path, versions=[left]).libraries.history("math")
    policy = history.folder / "sharing" / "policy.json"
    policy.parent.mkdir()
    policy.write_text(Policy(space="team", rule=VotingRule(kind="votes")).model_dump_json())
    with pytest.raises(LibraryError, match="'team' votes on lessons of 'math'"):
        history.start_canary(left, share=0.1, margin=0.02)
    assert history.canary is None
    assert left.version not in history.versions()


def test_the_command_starts_shows_decides_ends_and_undoes(
    said: Callable[..., str], libraries: LibraryStore, tmp_path: Path
) -> None:
    libraries.publish("desk", NEW)
    libraries.publish("desk", OLD)
    new = f"desk@{NEW.version[:12]}"
    assert "desk has no canary" in said("desk")
    assert "end it:" in said(new, "--share", "1/2")
    assert json.loads(said("desk", "--json"))["canary"]["shares"][0][1] == 0.5
    serve(tmp_path, range(60), lambda canary, _: float(canary))
    assert "decide it:" in said("desk")
    assert libraries.load("desk") == OLD, "to look decides nothing"
    printed = said("desk", "--decide")
    assert "promote: it is better" in printed
    undo = printed.splitlines()[-1].partition("undo it: ")[2]
    assert run(shlex.split(undo)[1:]) == 0
    assert libraries.load("desk") == OLD
    said(new, "--share", "1/10", "--margin", "0.1")
    assert "1/5 of episodes, margin 0.1" in said(new, "--share", "1/5"), "the margin stays"
    assert "was ended on" in said("desk", "--stop")


def test_the_cost_is_told_beforehand_from_what_was_recorded(
    said: Callable[..., str], libraries: LibraryStore, tmp_path: Path
) -> None:
    with Recorder("desk", tmp_path) as recorder:
        for number in range(20):
            recorder.record_sync(CHAT, experiences=OLD, episode=f"talk-{number}", model="m")
            if number < 10:
                recorder.feedback_sync(episode=f"talk-{number}", reward=float(number < 6))
    libraries.publish("desk", NEW)
    libraries.publish("desk", OLD)
    how = (f"desk@{NEW.version[:12]}", "--share", "1/2", "--effect", "0.6", "--margin", "0.4", "--dry-run")
    assert "mean reward 0.60, feedback on 50% (20 recorded episodes of desk)" in said(*how)
    risk = json.loads(said(*how, "--json"))
    assert (risk["level"], risk["feedback"], risk["recorded"], risk["per_day"]) == (0.6, 0.5, 20, None)
    soon, late = risk["found_after"]
    assert 20 < soon <= late < 1_000
    assert risk["lost"] == pytest.approx([soon * 0.5 * 0.6, late * 0.5 * 0.6])
    assert libraries.history("desk").canary is None


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    cases(__file__, "a_wrong_command_is_one_sentence"),
)
def test_a_wrong_command_is_one_sentence(
    said: Callable[..., str], libraries: LibraryStore, arguments: list[str], sentence: str
) -> None:
    before = libraries.history("desk").changes
    assert sentence in said(*arguments, status=2)
    assert libraries.history("desk").changes == before
