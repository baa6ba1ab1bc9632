"""The local web app of `agentlearn view`. Every page is a function of the store, and can be written as a static file.

`page.py` has what a page is made of, the rooms `runs`, `grid`, `conversation`, `lessons` and `traffic` have the pages,
`routes.py` their addresses, `server.py` serves them to one person on this machine, `bundle.py` writes them to a folder.
"""
