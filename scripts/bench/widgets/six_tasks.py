"""40 further tasks, on pages of six sites that were added later.

Written before any of them was run. Five of them, and a page, were corrected after that.
"""

from scripts.bench.widgets.tasks import Step

SIX: dict[str, list[tuple[tuple[Step, ...], str]]] = {
    "fomantic": [
        ((("click", "button:Loan terms"), ("click", "(button|generic|text):Agree")), "terms agreed"),
        ((("click", "button:Reserve"),), "Reserved until 9 June"),
        ((("hover", "button:Late fee"),), "Fee is 0.40 a day"),
        ((("click", "button:Branches"), ("click", "(link|generic):Nordkai")), "branch Nordkai"),
        (
            (("click", "(combobox|listbox|generic|text):Language"), ("click", "(option|generic|text):Polish")),
            "language Polish",
        ),
        ((("press", "textbox:(?!.*Due)", "Tra"), ("click", "(option|generic|text):Travel")), "genre Travel"),
        ((("click", "textbox:Due date"), ("click", "(cell|gridcell|link|generic):\\b14\\b")), "due 2026-5-14"),
        ((("click", "(checkbox|generic|text):Remind me"),), "mail on"),
    ],
    "uikit": [
        ((("click", "button:Quote"), ("click", "button:Take it")), "quote taken"),
        ((("click", "button:Scrap car"), ("click", "button:Ok")), "car 55 scrapped"),
        ((("click", "button:Set plate"), ("type", "textbox:", "G 123"), ("click", "button:Ok")), "plate G 123"),
        ((("hover", "button:Oil"),), "Oil level 3 of 5"),
        ((("click", "button:Tools"),), "Jack is in cabinet 6"),
        ((("hover", "button:Service"), ("click", "link:Big service")), "big service"),
        ((("upload", "button:Damage photo", "letter.txt"),), "photo letter.txt"),
        ((("click", "(tab|link):Parts"),), "Part number 77-104"),
    ],
    "fluent": [
        ((("click", "button:House rules"),), "Quiet after 20:30"),
        ((("click", "combobox:Ground"), ("click", "option:Attic")), "floor Attic"),
        (
            (("type", "textbox:Guest", "Mia"), ("click", "button:House rules"), ("click", "button:Understood")),
            "rules read",
        ),
        ((("click", "switch:Lights"),), "lights true"),
        ((("click", "button:Parking"),), "Space 41 is yours"),
        ((("click", "tab:Tomorrow"),), "Fire drill at 11:15"),
    ],
    "quasar": [
        ((("click", "button:Tide table"), ("click", "button:Noted")), "tide noted"),
        ((("click", "button:Gate"),), "Gate closes 12:05"),
        ((("click", "button:Sink boat"), ("click", "button:OK")), "boat 9 sunk"),
        ((("hover", "button:Wind"),), "Wind 5 from west"),
        ((("click", "button:Cargo"), ("click", "(listitem|menuitem|button|generic):Unload")), "cargo unloaded"),
        ((("click", "combobox:Ship"), ("click", "option:Yacht")), "ship Yacht"),
        ((("press", "combobox:Home town", "B"), ("click", "option:Biel")), "town Biel"),
        ((("click", "button:Pick day"), ("click", "button:14")), "day 2026/05/14"),
        ((("upload", "(button|generic|textbox):Hull photo", "letter.txt"),), "photo letter.txt"),
    ],
    "writers": [
        ((("type", "(textbox|generic):Start writing", "jodit words"), ("click", "button:Send all")), "jodit words"),
        ((("type", "textbox:^:?$", "sun words"), ("click", "button:Send all")), "sun words"),
        ((("press", "textbox:Cursor at row 1", "x9"), ("click", "button:Send all")), "x9"),
        ((("type", "textbox:Body", "mail words"), ("click", "button:Send all")), "mail words"),
    ],
    "vanilla": [
        ((("click", "textbox:Fetch day"), ("click", '(generic|text):: "?14"?$')), "fetch 2026-05-14"),
        (
            (("press", "(combobox|textbox):Street", "Lind"), ("click", "(option|listitem|generic):Lindauer")),
            "street Lindauer",
        ),
        (
            (("click", "(combobox|listbox|button|generic):Select Value"), ("click", "option:Crate 17\\b")),
            "took Crate 17",
        ),
        ((("click", "button:Seal"),), "Crate 12 is sealed"),
        ((("upload", "(button|generic|text):.*waybill", "letter.txt"),), "waybill letter.txt"),
    ],
}
