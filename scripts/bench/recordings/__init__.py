"""Compares what other people recorded of real models, with and without experience, from clones that the user makes.

`recordings.toml` names the sources, what was recorded, and the questions that are asked of it. `layouts` reads the
files, `comparing` compares, and `page` writes the result. Nothing of the data is in this package. The command is
`python -m scripts.bench.recordings CLONES`; nothing else imports this package.
"""
