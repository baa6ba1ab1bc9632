"""Invented names for the sites: towns, companies, programs, shops and people."""

TOWNS = (
    "Norwell", "Ashby", "Brantford", "Calder", "Denholm", "Elsmere", "Farrow", "Gretham", "Haldon", "Ilkeston",
    "Jarrow", "Kelby", "Lorton", "Marsden", "Orrell", "Penwick", "Quarley", "Redmire", "Selwick", "Thornby",
    "Ulverton", "Warden", "Yarmley", "Zeal",
)  # fmt: skip
MAKERS = (
    "Halden", "Brightwell", "Corvane", "Dunmore", "Estrand", "Falkner", "Glenrow", "Hexley", "Ivarson", "Juniper",
    "Kestrel", "Lindqvist",
)  # fmt: skip
PROGRAMS = (
    "Tarn", "Bramble", "Cobalt", "Drover", "Ember", "Fathom", "Gantry", "Harrow", "Inkwell", "Jetty", "Kiln",
    "Lantern",
)  # fmt: skip
SHOPS = (
    "Fernhill", "Beacon", "Cairn", "Drumlin", "Eskdale", "Foxglove", "Granite", "Heather", "Islay", "Juno", "Kittiwake",
    "Larkspur",
)  # fmt: skip
FIRST_NAMES = (
    "Ada", "Bruno", "Clara", "Dario", "Edith", "Felix", "Greta", "Hugo", "Ines", "Jonas", "Karin", "Leon", "Mara",
    "Nils", "Olga", "Pavel", "Rosa", "Simon", "Thea", "Viktor",
)  # fmt: skip
SURNAMES = (
    "Abbott", "Bauer", "Castell", "Drake", "Engel", "Fischer", "Grant", "Holm", "Ivers", "Jensen", "Kern", "Lang",
    "Moreau", "Novak", "Oakes", "Peters", "Quist", "Ritter", "Sander", "Tolland", "Unwin", "Vogel", "Winter", "York",
)  # fmt: skip
COUNTRIES = ("Austria", "Belgium", "Denmark", "Finland", "Iceland", "Norway", "Portugal", "Sweden")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
