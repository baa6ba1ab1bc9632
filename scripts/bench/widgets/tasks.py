"""40 tasks on the pages of this folder: what to do, with the elements as a view shows them, and what must be read.

Each step is an act and what it names: `role:name` of the element, and a text or a file. The last value of a task is a
pattern of what the last view must show.
"""

Step = tuple[str, ...]
TASKS: dict[str, list[tuple[tuple[Step, ...], str]]] = {
    "element": [
        ((("click", "button:Shipping terms"), ("click", "button:Accept")), "terms accepted"),
        ((("click", "button:Shipping terms"),), "costs 12.50 from zone 4"),
        ((("click", "button:Delete order"), ("click", "button:Delete it")), "order 7741 deleted"),
        ((("click", "button:Check stock"),), "Stock is 318 pieces"),
        ((("click", "button:Track"),), "arrives on 4 May"),
        ((("click", "button:Filters"), ("click", "(checkbox|generic):Only sale")), "only sale items"),
        ((("click", "combobox:Delivery day"), ("click", "(cell|generic|gridcell):\\b14\\b")), "day 2026-05-14"),
        ((("press", "(textbox|combobox|searchbox):City", "Gr"), ("click", "option:Graz")), "city Graz"),
        ((("click", "combobox:Unit"), ("click", 'option:"gram')), "unit gram"),
        ((("hover", "(button|generic|text):Reports"), ("click", "menuitem:Yearly")), "yearly report shown"),
        ((("hover", "button:Weight"),), "Weighs 2.4 kg"),
        ((("upload", "button:Attach file", "letter.txt"),), "files letter.txt"),
    ],
    "antd": [
        ((("click", "button:Opening hours"),), "Monday 7 to 19"),
        ((("click", "button:Cancel visit"), ("click", "button:Yes, cancel")), "visit 88 cancelled"),
        ((("click", "button:Show result"),), "Value is 5.6 mmol"),
        ((("click", "button:Free rooms"),), "Room 12 is free"),
        ((("click", "textbox:Visit day"), ("click", "(cell|gridcell|generic):\\b14\\b")), "visit on 2026-05-14"),
        ((("click", "combobox:Doctor"), ("click", "(option|generic|text):Dr Maier")), "with Dr Maier"),
        ((("press", "combobox:Illness", "mu"), ("click", "(option|generic|text):mumps")), "illness mumps"),
        ((("hover", "button:File"), ("click", "menuitem:Send file")), "chose s"),
        ((("hover", "button:Phone"),), "Call 0660 1234"),
        ((("upload", "button:Upload letter", "letter.txt"),), "got letter.txt"),
    ],
    "ionic": [
        ((("click", "button:Book trip"), ("click", "button:Book it")), "trip booked"),
        ((("click", "button:Fare"),), "Fare is 17.40"),
        ((("click", "button:Weather"),), "Rain until 16:00"),
        ((("press", "searchbox:search text", "Gr"),), "Graz Hbf"),
        ((("click", "(tab|generic):Return"),), "way back"),
        ((("scroll", "end"),), "Train 219"),
    ],
    "editors": [
        ((("type", "textbox:Rich Text Editor", "Dear Eva"), ("click", "button:Save letter")), "Dear Eva"),
        ((("type", "(textbox|generic|list):one", "bread"), ("click", "button:Save letter")), "\\| bread \\|"),
        ((("type", "(textbox|generic):In a frame", "framed words"), ("click", "button:Save letter")), "framed words"),
        ((("type", "(textbox|generic):First", "summer note"), ("click", "button:Save letter")), "summer note"),
    ],
    "widgets": [
        ((("click", "button:Contract"), ("click", "button:Sign")), "contract signed"),
        ((("click", "button:Remind me"),), "Meeting at 15:20"),
        ((("click", "button:Remove page"), ("click", "button:Remove\\b(?! page)")), "page 3 removed"),
        (
            (("click", "textbox:Deadline"), ("click", "(generic|text|button|gridcell):.*\\b(May )?14\\b")),
            "deadline 2026-05-14",
        ),
        ((("press", "(textbox|combobox):Town", "Li"), ("click", "option:nz")), "town Linz"),
        ((("hover", "button:Who signed"),), "Signed by M. Novak"),
    ],
    "prime": [
        ((("click", "button:Return policy"), ("click", "button:Agree")), "policy agreed"),
        ((("click", "button:Row actions"), ("click", "(menuitem|link|generic|text):Erase row")), "row erased"),
    ],
}
