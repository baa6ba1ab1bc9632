"""The bad habits of the simulated solver on websites, and the words that lessons and walks use for them."""

from agentlearn_demo.sim.skills import Trap

FIRST = "first_link_taken"
FOOTER = "stopped_at_footer"
SEARCH = "search_unused"
ARCHIVE = "wrong_year_opened"
SNIPPET = "snippet_trusted"
DUPLICATE = "near_duplicate_taken"
FORM = "form_left_at_defaults"

TRAPS = (
    Trap(name=FIRST, base=0.34,
        careless=("the first link that sounds right is taken", "the topmost link will do"),
        careful=("all links are compared and the closest match is taken", "the link that matches exactly is chosen"),
        cues=(("link",), ("compar", "match", "exact", "closest")),
        advice=("compare all links before you click one", "choose the link whose words match the wanted thing exactly",
            "read every link and follow the closest match", "look for a link that matches word for word"),
        situations=("several links seem to fit", "a menu leads on in many directions",
            "a page offers many ways to go on")),
    Trap(name=FOOTER, base=0.36,
        careless=("what is shown so far has to do", "the list is left at its footer"),
        careful=("the list goes on, so its next page is read", "the rest of the list is read as well"),
        cues=(("list", "footer"), ("end", "next", "further", "rest", "whole", "continu")),
        advice=("read a list to its very end, page after page", "turn to the next page of a list until it is complete",
            "continue through the whole list before you decide", "look at the rest of the list below the footer",
            "open every further page of a long list"),
        situations=("a list is cut into pages", "a footer comes before the thing has turned up",
            "only a part is in view")),
    Trap(name=SEARCH, base=0.35,
        careless=("the menu should lead there", "browsing the menu is enough"),
        careful=("the search box is used", "the site is searched for the very words"),
        cues=(("search",), ("box", "field", "site", "type")),
        advice=("use the search box of the site", "type the wanted name into the search field",
            "search the site for the very words of the problem", "begin with a search over all of the site"),
        situations=("one particular thing among many is wanted", "a menu shows a selection alone",
            "something has to be found among many pages")),
    Trap(name=ARCHIVE, base=0.33,
        careless=("the newest edition is opened", "the year on top is taken"),
        careful=("the archive of the very year is opened", "the year is checked against the one that is named"),
        cues=(("year", "archiv", "period"), ("check", "match", "exact", "named", "choose", "right")),
        advice=("choose the year that is named in the question", "check that the year on the page is the wanted one",
            "open the archive of exactly the year in question",
            "match the period of the page with the period that is named"),
        situations=("pages are kept year by year", "an archive holds several periods",
            "figures change as time goes by")),
    Trap(name=SNIPPET, base=0.37,
        careless=("the teaser already says it", "the few words shown beside it are trusted"),
        careful=("the page behind the teaser is opened", "the teaser is confirmed on its full page"),
        cues=(("teaser", "snippet", "excerpt", "preview", "summary"), ("open", "full", "behind", "whole", "confirm")),
        advice=("open the page behind a teaser and read the value there", "confirm a snippet on its full page",
            "read the whole text behind an excerpt", "take a teaser as a pointer and open its page"),
        situations=("a few words stand below a headline", "results come with short excerpts",
            "an overview shows figures in passing")),
    Trap(name=DUPLICATE, base=0.34,
        careless=("the first of the lookalikes is taken", "this variant seems near enough"),
        careful=("similar entries are told apart by their details", "the details show which variant is meant"),
        cues=(("alike", "similar", "namesake", "twin", "variant"),
            ("apart", "detail", "tell", "distinguish", "confirm", "check")),
        advice=("tell similar entries apart by their details", "check the details of a namesake before you go on",
            "distinguish variants by place, kind and number",
            "confirm by a detail which of the similar things is meant"),
        situations=("two things bear almost the same name", "names differ in a single word",
            "a result looks right at once")),
    Trap(name=FORM, base=0.36,
        careless=("the form is sent as it stands", "what the form has preset will do"),
        careful=("every field of the form is set before it is sent", "the choices of the form are made first"),
        cues=(("form", "dropdown", "preset"), ("set", "fill", "choose", "select", "choice")),
        advice=("set every field of a form before you send it",
            "fill in the form completely before you press its button",
            "choose the wanted thing in each dropdown of the form",
            "select all that is named in the question in the form"),
        situations=("a page asks for choices first", "fields come with something in them",
            "results depend on a few dropdowns")),
)  # fmt: skip
"""All traps of the domain, in a fixed order."""
