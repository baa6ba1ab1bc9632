"""Questions about companies."""

from agentlearn_demo.web.questions.problem import Problem
from agentlearn_demo.web.sites.company import DEALERS_PER_PAGE, MEASURES, OFFICES, PER_PAGE, YEARS, company
from agentlearn_demo.web.sites.site import slug, target
from agentlearn_demo.web.sites.vocabulary import COUNTRIES


def report_figure_problems(number: int) -> list[Problem]:
    """Return problems about final figures of past years."""
    facts = company(number)
    problems: list[Problem] = []
    for year in YEARS[1:]:
        for measure in MEASURES:
            whole, tenth = divmod(facts.figures[year, measure].final, 10)
            params = {"measure": measure, "year": str(year), "site": facts.name}
            targets = ("/investors", f"/investors/{year}", f"/investors/{year}/annual")
            problems.append(Problem(params, f"{whole}.{tenth} million euros", targets))
    return problems


def office_phone_problems(number: int) -> list[Problem]:
    """Return problems about telephone numbers of service centres after the first page of the list."""
    facts = company(number)
    problems: list[Problem] = []
    for at, (kind, town) in enumerate(facts.phones):
        if kind == OFFICES[1] and at >= PER_PAGE:
            pages = tuple(f"/offices?page={page}" for page in range(2, at // PER_PAGE + 2))
            name = f"{kind} {town}"
            targets = ("/offices", *pages, f"/offices/{slug(name)}")
            problems.append(Problem({"office": name, "site": facts.name}, facts.phones[kind, town], targets))
    return problems


def dealer_phone_problems(number: int) -> list[Problem]:
    """Return problems about dealers on the second page of a country that is not the form's default."""
    facts = company(number)
    problems: list[Problem] = []
    for at, ((country, dealer), phone) in enumerate(facts.dealers.items()):
        place = at % (len(facts.dealers) // len(COUNTRIES))
        if country != COUNTRIES[0] and place >= DEALERS_PER_PAGE:
            first = target("/dealers/find", [("country", country)])
            second = target("/dealers/find", [("country", country), ("page", "2")])
            params = {"dealer": dealer, "country": country, "site": facts.name}
            problems.append(Problem(params, phone, ("/dealers", first, second)))
    return problems


def job_deadline_problems(number: int) -> list[Problem]:
    """Return problems about deadlines of vacancies that the careers page does not list."""
    facts = company(number)
    return [
        Problem({"job": one.title, "town": one.town, "site": facts.name}, one.deadline, (one.target,))
        for one in facts.hidden
    ]
