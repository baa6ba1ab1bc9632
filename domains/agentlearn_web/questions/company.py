"""Questions about companies."""

from agentlearn_web.questions.problem import Problem
from agentlearn_web.sites.company import DEALERS_PER_PAGE, MEASURES, OFFICES, PER_PAGE, YEARS, company
from agentlearn_web.sites.site import slug, target
from agentlearn_web.sites.vocabulary import COUNTRIES


def report_figures(number: int) -> list[Problem]:
    """Final figures of past years."""
    it = company(number)
    problems: list[Problem] = []
    for year in YEARS[1:]:
        for measure in MEASURES:
            whole, tenth = divmod(it.figures[year, measure].final, 10)
            params = {"measure": measure, "year": str(year), "site": it.name}
            targets = ("/investors", f"/investors/{year}", f"/investors/{year}/annual")
            problems.append(Problem(params, f"{whole}.{tenth} million euros", targets))
    return problems


def office_phones(number: int) -> list[Problem]:
    """Numbers of service centres that stand behind the first page of the list."""
    it = company(number)
    problems: list[Problem] = []
    for at, (kind, town) in enumerate(it.phones):
        if kind == OFFICES[1] and at >= PER_PAGE:
            pages = tuple(f"/offices?page={page}" for page in range(2, at // PER_PAGE + 2))
            name = f"{kind} {town}"
            targets = ("/offices", *pages, f"/offices/{slug(name)}")
            problems.append(Problem({"office": name, "site": it.name}, it.phones[kind, town], targets))
    return problems


def dealer_phones(number: int) -> list[Problem]:
    """Numbers on the second page of a country that the form does not have preset."""
    it = company(number)
    problems: list[Problem] = []
    for at, ((country, dealer), phone) in enumerate(it.dealers.items()):
        place = at % (len(it.dealers) // len(COUNTRIES))
        if country != COUNTRIES[0] and place >= DEALERS_PER_PAGE:
            first = target("/dealers/find", [("country", country)])
            second = target("/dealers/find", [("country", country), ("page", "2")])
            params = {"dealer": dealer, "country": country, "site": it.name}
            problems.append(Problem(params, phone, ("/dealers", first, second)))
    return problems


def job_deadlines(number: int) -> list[Problem]:
    """Deadlines of vacancies that the careers page does not show."""
    it = company(number)
    return [
        Problem({"job": one.title, "town": one.town, "site": it.name}, one.deadline, (one.target,)) for one in it.hidden
    ]
