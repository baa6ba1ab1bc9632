"""What runs on the other side: in the zygote and in the sessions that it forks.

Nothing here may import the rest of the library or anything outside the standard library: these modules run in a bare
interpreter, next to code that a stranger wrote. Only `config`, `frames` and `scratch` are also used by our own side.
"""
