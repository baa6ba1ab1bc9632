"""Questions about universities."""

from agentlearn_web.questions.problem import Problem
from agentlearn_web.sites.site import slug, target
from agentlearn_web.sites.university import (
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


def office_rooms(number: int) -> list[Problem]:
    """Rooms of people whose name an older colleague bears as well."""
    it = university(number)
    return [
        Problem({"name": one.name, "subject": one.subject, "site": it.name}, one.room, (one.target,))
        for one in it.newcomers
    ]


def course_lecturers(number: int) -> list[Problem]:
    """Lecturers of past years, of the level that stands on the second page."""
    it = university(number)
    return [
        Problem(
            {"course": f"{subject} {LEVELS[1]}", "year": year, "site": it.name},
            it.lecturers[year, subject, LEVELS[1]],
            ("/courses", f"/courses/{slug(year)}", f"/courses/{slug(year)}?page=2"),
        )
        for year in YEARS[1:]
        for subject in SUBJECTS
    ]


def exam_halls(number: int) -> list[Problem]:
    """Halls of all sittings but the one that the form has preset."""
    it = university(number)
    return [
        Problem(
            {"subject": subject, "year": year, "term": term, "site": it.name},
            it.halls[year, term, subject],
            ("/examinations", target("/examinations/find", [("year", year), ("term", term)])),
        )
        for year, term in SITTINGS[1:]
        for subject in SUBJECTS
    ]


def library_hours(number: int) -> list[Problem]:
    """Closing times of special libraries that differ from every other time given for them or next to them."""
    it = university(number)
    return [
        Problem(
            {"branch": one.name, "day": day, "site": it.name},
            one.closes[at],
            ("/libraries", f"/libraries/{slug(one.name)}"),
        )
        for one in it.branches
        for at, day in enumerate(DAYS)
        if one.kind != BRANCHES[0] and one.closes[at] not in _other_times(it, one, at)
    ]


def _other_times(it: University, branch: Branch, day: int) -> set[str]:
    main = next(one for one in it.branches if one.campus == branch.campus)
    return {branch.teased[day], branch.reported[day], main.closes[day], main.teased[day], main.reported[day]}
