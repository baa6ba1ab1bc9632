"""Finding commands in a lesson: of a shell, of a database, and code that acts outside of a calculation."""

import re

_COMMAND = re.compile(
    r"""
      \brm\s+-\w*[rf] | \bsudo\s+\w | \b(?:curl|wget|netcat|ncat|scp|rsync|telnet)\s+(?:-|\S*[./:$]) | \bnc\s+-\w
    | \b(?:chmod|chown)\s+[-+\w]*[\d+] | \bmkfs\b | \bdd\s+if= | \bkill(?:all)?\s+-\w+ | \bpkill\s+\w
      | \bshutdown\s+(?:-\w|now)
    | \b(?:ba|z|k|c)?sh\s+-c\b | \|\s*(?:ba|z)?sh\b | >\s*/(?:dev|etc|tmp|proc|var|home)/ | :\(\)\s*\{ | \bcat\s+[~/.]
    | \b(?:pip3?|npm|yarn|apt(?:-get)?|brew|conda|uv|gem|cargo|yum|dnf)\s+(?:-\w+\s+)?(?:install|uninstall|add|remove)\b
    | \bgit\s+(?:push|reset|clean|checkout|rm|clone|config|commit)\b | \bdocker\s+(?:run|exec|rm|pull)\b | \bcrontab\b
    | \bdel\s+/\w | \bformat\s+[a-z]:(?!\w) | \bpowershell(?:\.exe)?\s+-\w | \bcmd(?:\.exe)?\s+/c
      | \breg\s+(?:add|delete)\b
    | \bdrop\s+(?:table|database|schema)\b | \bdelete\s+from\s+\w+\s*(?:;|where|$) | \btruncate\s+table\b
    | \binsert\s+into\s+\w+\s+(?:values|\() | \bunion\s+(?:all\s+)?select\b | \bor\s+1\s?=\s?1\b | '\s*;\s*--
    | \bos\s*\.\s*(?:system|popen|remove|unlink|environ|rmdir|kill|fork|exec\w*|spawn\w*|listdir|walk
      |getenv|rename|putenv)\b
    | \bshutil\s*\.\s*\w+ | \bsubprocess\s*\.\s*\w+ | \bpathlib\s*\.\s*\w+ | \bsys\s*\.\s*(?:exit|modules|settrace)\b
    | \b__\w+__\b | \b(?:import|from)\s+(?:os|subprocess|shutil|socket|requests
      |urllib|ctypes|pickle|http|pty|signal|sys|smtplib)\b
    | \b(?:exec|eval|compile|globals|locals|setattr|getattr|breakpoint)\s*\( | (?<![\w.])open\s*\(\s*(?:f|r)?["'/~\w]
    | \bunlink\s*\( | \brmtree\b | \brequests\s*\.\s*(?:get|post|put)\b | \burlopen\b | \bsocket\s*\.\s*\w+
      | \bwhile\s+(?:true|1)\s*:
    | \bdocument\s*\.\s*(?:cookie|location|write) | \bwindow\s*\.\s*location | \blocalstorage\b | \bfetch\s*\(
      | \bxmlhttprequest\b
    | \bonerror\s*= | \bonload\s*= | \balert\s*\( | \$\((?:[a-z]+\s|[a-z]+\)) | \$\{(?:ifs|env|path|home|jndi)\b
      | \$(?:home|path|ifs|env|user|openai\w*|\w+_key|\w+_token)\b
    | \b\w+\s*&&\s*\w+ | \benv\s*\|\s*\w+ | \bprintenv\b
    """,
    re.IGNORECASE | re.VERBOSE,
)


def command_in(text: str) -> str | None:
    """The first command in a text; None when there is none."""
    found = _COMMAND.search(text)
    return found[0].strip() if found else None
