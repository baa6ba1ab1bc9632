"""Finding commands in a lesson that destroy, take over or call out: of a shell, of a database, or in code.

A command that a lesson only names, such as `git reset --soft` or `curl -I`, is harmless.
"""

import re

_COMMAND = re.compile(
    r"""
      \brm\s+-\w*r | \brm\s+-\w+\s+[~/.*] | \bsudo\s+(?:rm|sh|bash|su|dd|chmod|curl|apt|pip|kill|shutdown)
    | \b(?:curl|wget|scp|telnet|ncat|netcat)\s+(?:-\w+\s+)*["']?(?:[\w.-]+[/@]|[\w-]+\.\w|\d|\$) | \bnc\s+-\w
    | \b(?:chmod|chown)\s+(?:-R\s+)?[0-7]*7{2} | \bmkfs[.\s]+\w*\s*/ | \bdd\s+(?:if|of)= | \bkillall?\s+-9\s+-1
      | \bkillall\s+\w | \bshutdown\s+(?:-\w|now)
    | \b(?:ba|z|k|c)?sh\s+-c\b | \|\s*(?:sudo\s+)?(?:ba|z)?sh\b | >\s*/(?:dev/[sh]d|etc|home|boot)/? | :\(\)\s*\{
      | \bcat\s+(?:~|/etc|/root|/proc|\.env)
    | \b(?:pip3?|npm|uv|gem|cargo)\s+(?:-\w+\s+)?(?:install|add)\s+(?:git\+|http|--(?:extra-)?index|-i\s)
    | \bgit\s+push\s+(?!--force-with)(?:\S+\s+)*?(?:--force(?!-with)|-f\b) | \bgit\s+reset\s+--hard
      | \bgit\s+clean\s+-\w*f | \bterraform\s+destroy | \bkubectl\s+delete\s+(?:ns|namespaces?|all|\S+\s+--all)\b
      | \bdocker\s+system\s+prune\s+-\w | \bflushall\b | \baws\s+s3\s+rm\b
      | \bsubprocess\.\w+\(\s*\[?\s*["'](?:rm|shutdown|curl|wget|(?:ba)?sh|dd|kill|nc|chmod|sudo|reboot|mkfs|pip)\b
      | \bgit\s+config\s+--global | \bdocker\s+run\s+(?:--privileged|-v\s*/) | \bcrontab\s+-
    | \bdel\s+/\w | \bformat\s+[a-z]:(?!\w) | \bpowershell(?:\.exe)?\s+-\w | \bcmd(?:\.exe)?\s+/c
      | \breg\s+(?:add|delete)\b
    | \bdrop\s+(?:table|database|schema)\b | \bdelete\s+from\s+\w+\s*(?:;|$|where\s+1\s*=\s*1) | \btruncate\s+table\b
      | \bupdate\s+\w+\s+set\s+\w+\s*=\s*\S+(?!.*\bwhere\s+\w+\s*[=<>i])
    | \binsert\s+into\s+\w+\s+(?:values|\() | \bunion\s+(?:all\s+)?select\b | \bor\s+1\s?=\s?1\b | '\s*;\s*--
    | \bos\s*\.\s*(?:system|popen|remove|unlink|rmdir|kill|fork|exec\w+|spawn\w*|putenv)\b
    | \bshutil\s*\.\s*(?:rmtree|move) | \bsys\s*\.\s*(?:exit|modules|settrace)\b
    | \b__(?:import|builtins|class|subclasses|globals|mro|eq|bases)__\b
    | \b(?:import|from)\s+(?:os|subprocess|shutil|socket|ctypes|pty|smtplib)\b
    | \b(?:exec|eval|compile|globals|locals|setattr|breakpoint)\s*\((?!\)) | (?<![\w.])open\s*\(\s*f?["'][~/]
    | \bunlink\s*\( | \brmtree\b | \brequests\s*\.\s*(?:post|put)\b | \burlopen\s*\(
      | \bsocket\s*\.\s*(?:socket|connect)
      | \bwhile\s+(?:true|1)\s*:
    | \bdocument\s*\.\s*(?:cookie|location|write) | \bwindow\s*\.\s*location | \bfetch\s*\(\s*["']
    | \bonerror\s*= | \bonload\s*= | \balert\s*\( | \$\((?:[a-z]+\s|[a-z]+\)) | \$\{(?:ifs|env|jndi)\b
      | \$(?:openai\w*|\w+_key|\w+_token|\w+_secret)\b
    | &&\s*(?:rm|curl|wget|ba|sh|sudo|cat|nc|python)\b | \benv\s*\|\s*\w+
    """,
    re.IGNORECASE | re.VERBOSE,
)


def command_in(text: str) -> str | None:
    """The first command in a text; None when there is none."""
    found = _COMMAND.search(text)
    return found[0].strip() if found else None
