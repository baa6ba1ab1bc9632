"""Questions about universities."""

from agentlearn_demo.web.questions.problem import Problem
from agentlearn_demo.web.sites.site import slug, target
from agentlearn_demo.web.sites.university import (
    BRANCHES,
    DAYS,
    LEVELS,
    SITTINGS,
    SUBJECTS,
    YEARS,
    Branch,
    University,
    university,
)


def office_room_problems(number: int) -> list[Problem]:
    """Return problems about rooms of people who share a name with an older colleague."""
    facts = university(number)
    return [
        Problem({"name": one.name, "subject": one.subject, "site": facts.name}, one.room, (one.target,))
        for one in facts.newcomers
    ]


def course_lecturer_problems(number: int) -> list[Problem]:
    """Return problems about lecturers of past years, for the level on the second page."""
    facts = university(number)
    return [
        Problem(
            {"course": f"{subject} {LEVELS[1]}", "year": year, "site": facts.name},
            facts.lecturers[year, subject, LEVELS[1]],
            ("/courses", f"/courses/{slug(year)}", f"/courses/{slug(year)}?page=2"),
        )
        for year in YEARS[1:]
        for subject in SUBJECTS
    ]


def exam_hall_problems(number: int) -> list[Problem]:
    """Return problems about the halls of all sittings except the form's default."""
    facts = university(number)
    return [
        Problem(
            {"subject": subject, "year": year, "term": term, "site": facts.name},
            facts.halls[year, term, subject],
            ("/examinations", target("/examinations/find", [("year", year), ("term", term)])),
        )
        for year, term in SITTINGS[1:]
        for subject in SUBJECTS
    ]


def library_hour_problems(number: int) -> list[Problem]:
    """Return problems about closing times of special libraries that differ from every other time shown near them."""
    facts = university(number)
    return [
        Problem(
            {"branch": one.name, "day": day, "site": facts.name},
            one.closes[at],
            ("/libraries", f"/libraries/{slug(one.name)}"),
        )
        for one in facts.branches
        for at, day in enumerate(DAYS)
        if one.kind != BRANCHES[0] and one.closes[at] not in _other_times(facts, one, at)
    ]


def _other_times(facts: University, branch: Branch, day: int) -> set[str]:
    main = next(one for one in facts.branches if one.campus == branch.campus)
    return {branch.teased[day], branch.reported[day], main.closes[day], main.teased[day], main.reported[day]}
