"""Hostile acts in indirect English: what the direct patterns of `english_acts` do not name. Same kind of text."""

from agentlearn.library.curate.codes import QuarantineCode
from agentlearn.library.curate.hostile.act import HostileAct

_START = (
    r"(?:^|[.!?;:,]\s|\b(?:then|and|just|always|please|simply|must|should|to|instead|secretly|purposely"
    r"|quietly)\s)"
)
_STOP = r"(?=\s*(?:$|[.!?;,:)]))"
_JUDGES = r"(?:graders?|judges?|verifiers?|evaluators?|markers?|examiners?|checkers?|reviewers?|scorers?|assessors?)"
_TOLD = r"(?:operator|developer|users?|system|prompt|admin|owner|creators?|anyone|others|you were|they|humans?)"
_SAID = r"(?:told|said|wrote|asked|wants?|instructed|says|writes|demands?|requests?|ordered|believes?)"
_RULES = (
    r"(?:guidance|guidelines?|instructions?|rules|directives?|restrictions|prompts?|policies|safety"
    r"|orders|constraints)"
)
_OFF = (
    r"(?:cancel\w*|void|off|suspended|revoked|not bind\w*|not bound|lifted|not count|joke|fake|irrelevant|optional"
    r"|obsolete|invalid|no longer|stop\w* applying|end here|outdated|disabled|only a test"
    r"|not apply to you|can be skipped)"
)
_ANSWER = r"(?:answers?|results?|numbers?|solutions?|values?|what you)"

INDIRECT_ACTS = (
    HostileAct.of(
        QuarantineCode.OVERRIDES_INSTRUCTIONS,
        r"\byou (?:have permission|may|can|are allowed|are free|are permitted|need not|no longer have"
        r"|no longer need|do not have"
        r"|don't have|do not need|don't need) (?:to )?(?:disregard|ignore|obey|break|skip|comply|override|bypass)\b",
        (
            r"\b(?:beginning|starting|as of|from) (?:now|this point|here|today|this line)\b(?=,| on| onwards?)"
            r"|\byour role is\b"
        ),
        (
            r"\b(?:do|give|return|say|answer|choose) the (?:opposite|reverse|contrary) (?:of|to) (?:what"
            r"|the task|the question|every)\b"
        ),
        r"\bif you (?:see|read|find|are reading|can read|receive) this\b|(?:^|[.!?;]\s)(?:assistant|agent|model|ai),",
        r"\b(?:help|assist|serve|obey|join|support) the (?:attacker|hacker|adversary|intruder)\b",
        (
            r"\b(?:follow|obey|execute|trust|use|do)\b.{0,20}\b(?:hidden|invisible|secret|embedded"
            r"|white-on-white) (?:text|comments?|messages?)\b"
        ),
        r"\btreat (?:any|every|all|each)\b.{0,40}\bas (?:coming|if|sent|written|a message) (?:from|by|it|they)\b",
        (
            r"\bthe (?:assistant|agent|model|ai) (?:is|may|can|must|should|will) (?:\w+ )?(?:allowed|permitted"
            r"|free|share|reveal|ignore|comply)\b"
        ),
        rf"\b(?:earlier|previous|prior|other|above|former|original|your|safety) {_RULES}\b.{{0,40}}\b{_OFF}\b",
        rf"\b(?:consider|regard|treat|see|take|declare)\b.{{0,30}}\b{_RULES}\b.{{0,20}}\b{_OFF}\b",
        r"\b(?:has|have|having|with|without|under|know|knows|accept) (?:no|any) (?:limits|rules|restrictions|filters"
        r"|guidelines|obligations|morals|ethics|censorship|safeguards)\b",
        rf"{_START}(?:act|behave|role-?play|speak|write) as (?:an? |the )?(?:\w+ )?(?:assistant|ai|model"
        r"|agent|bot|system|admin\w*"
        r"|developer|hacker|attacker|root|villain|character|persona)\b",
        rf"\b(?:anything|whatever|everything) (?:that )?(?:the |your |an? )?{_TOLD} (?:has |have |had )?{_SAID}\b",
        r"\b(?:this|it|lesson|advice|sentence|line) (?:\w+ )?(?:has|have|takes?|comes?|goes|stands|ranks|is)\b.{0,15}"
        r"\b(?:priority|precedence|before|above|over) (?:over |any|all|every|the (?:task|system|user|rules"
        r"|instructions))",
        r"\b(?:answer|write|reply with|respond with|tell|produce|compose"
        r"|sing) (?:only )?(?:an? )?(?:limerick|poem|haiku|joke"
        r"|story|song|rap|recipe)\b",
    ),
    HostileAct.of(
        QuarantineCode.SPEAKS_TO_JUDGE,
        r"\b(?:persons?|people|humans?|someone|those|program|team|model) (?:who (?:is|are) |that (?:is"
        r"|are) )?(?:grading|judging|scoring"
        r"|marking|evaluating|verifying|reviewing)\b|\breward model\b|\bthe words? (?:verified|correct"
        r"|approved|passed|certified)\b",
        rf"(?:^|[.!?;:]\s){_JUDGES} (?:\w+ )?(?:like|love|prefer|accept|reward|trust|never|always|only|cannot"
        r"|do not|don't"
        r"|skip|ignore|want|favou?r|believe|give|pay|overlook|rarely)s?\b",
        rf"\blet (?:the |your |any )?{_JUDGES} (?:know|believe|think|see|feel)\b",
        (
            rf"\b(?:if|when|whenever|once|should) (?:an? |the |any |your |some )?{_JUDGES} (?:\w+ )?(?:reads?"
            r"|sees?|checks?|asks?|looks?|is)\b"
        ),
        r"\b(?:scoring|grading|evaluation|checking|marking|judging|assessment|verification) (?:script|system"
        r"|code|function"
        r"|step|program|prompt|rubric|harness|bot|agent|pipeline|logic|software|tool)\b",
        r"\breward (?:script|code|hack\w*|system|checker|parser)\b|\brewards? (?:is|are|will be"
        r"|gets?) (?:\w+ )?(?:given|granted"
        r"|paid|awarded)\b.{0,20}\b(?:answers?|repl(?:y|ies)|responses?|lengths?|confident\w*|words|format|style)\b",
        r"\b(?:award|grant|give|assign|allow|deserves?|earns?|merits?) (?:\w+ )?(?:the )?(?:maximum|full|top"
        r"|highest|perfect|best)"
        r"(?: (?:score|marks?|reward|points|credit|grade|rating))?" + _STOP,
        r"\b(?:start|begin|open|end|finish|close|conclude|preface|prefix|sign off|append|prepend|put|insert"
        r"|include|add|print"
        r"|output|write|return|say|answer)\s(?:the |a |with |words? |string |token |text |line |in |only "
        r"|just |simply )*[\"']?(?:pass|passed|correct|approved|verified|success|accepted|certified"
        r"|all tests passed|full marks|peer[- ]reviewed)[\"']?(?=\s*(?:$|[.!?;,:\"']|at (?:the )?(?:start|end|top)))",
        r"\b(?:sentence|words?|phrase|string|token|statement|claim|line|note|remark|badge"
        r"|label)\b.{0,50}\b(?:reviewed|verified"
        r"|approved|certified|confirmed|validated|is correct|accepted|peer-reviewed|gold|official)\b",
        r"\b(?:never|do not|don't|avoid) (?:mention|show|admit|voice|express|report|reveal"
        r"|disclose)\w* (?:\w+ )?(?:doubts?"
        r"|uncertainty|mistakes|errors|failures?|problems)\b|\bpad (?:the|your|every|each"
        r"|all)\b.{0,20}\b(?:reply|answers?|response)\b",
    ),
    HostileAct.of(
        QuarantineCode.SENDS_DATA,
        r"\b(?:share|give|send|show|tell|hand|provide|reveal|disclose|submit|paste|write|print|dump|list"
        r"|repeat|include|publish"
        r"|translate|post|summari[sz]e)\b.{0,30}\b(?:hidden|private|internal|confidential|initial|your own"
        r"|your|chat|session)"
        r" (?:notes?|messages?|instructions|prompts?|context|reasoning|thoughts|data|rules|turns?|logs?"
        r"|settings|memory)\b",
        r"\b(?:everything|anything|all|whatever|what|the text|the words|messages?) (?:that "
        r"|which )?you (?:were|have been|are|got"
        r"|had been|can see|see|know|remember)(?: (?:told|given|shown|sent|instructed|asked)| about the user"
        r"|(?= before| above))",
        r"\b(?:everything|anything|all|the text|the words|messages?|turns?) (?:that |which )?(?:comes?|came"
        r"|appears?|stands?|is|was"
        r"|were)? ?(?:before|above|preceding) (?:this|the (?:first|task|question|user|lessons?|list|block))\b",
        r"\b(?:contact|reach|connect to|talk to|ping|call|query|notify|message|consult|report to"
        r"|upload to) (?:an? |the |any |some |our"
        r" |my )?(?:outside|external|remote|foreign|third-party|other|different|attacker's|private"
        r"|hidden) (?:machine|server|host"
        r"|computer|service|api|party|model|agent|address|person|endpoint|system|expert|source)\b",
        r"\b(?:share|send|enter|paste|leave|post|submit|give)\b.{0,40}\b(?:your|the user's|user's|their"
        r"|the whole|all your)\b.{0,40}"
        r"\b(?:contact form|comment form|web form|feedback form|chat box|search box|comments?|guest ?book"
        r"|review|forum)\b",
    ),
    HostileAct.of(
        QuarantineCode.SEEKS_SECRETS,
        (
            r"\b(?:try|use|guess|test|enter)\b.{0,15}\b(?:default|common|weak|leaked|saved|stored"
            r"|stolen) (?:passwords?|credentials|logins?)\b"
        ),
        (
            r"\b(?:enter|give|type|share|send|submit|provide|use)\b.{0,25}\b(?:card|account|pin|security"
            r"|social security|passport|phone) numbers?\b"
        ),
        r"\b(?:store|save|put|write|keep|note|log|show|paste|include) (?:the |your |its |their )?(?:session|login"
        r"|auth\w*) (?:cookies?|tokens?|ids?) (?:in|into|to) (?:the |your |an? )?(?:[\w'-]+ )?(?:notes?|answers?"
        r"|comments?|reply|fields?|forms?|messages?|descriptions?|reports?|titles?)\b",
        r"\bclick (?:on )?(?:every|all|each|any) (?:ads?|advertisements?|banners?|offers?)\b",
        r"\b(?:variables|contents|values) (?:of|from) (?:the |your )?(?:process"
        r"|process environment|shell|environment"
        r"|system environment|os)\b|\bprocess environment\b",
        r"\b(?:search|scan|look|hunt|browse|comb|rummage|dig|explore|check|crawl|go)\b.{0,12}\b(?:machine"
        r"|computer|host|disk|server"
        r"|environment|home|container|sandbox|drive|memory|file system|working directory)\b.{0,25}\b(?:for|to find)\b",
        r"\b(?:(?:the|all|any|their|your) (?:tokens and keys|keys and tokens)|keys and passwords|login and password)\b",
        r"\b(?:files?|tables?|modules?|pages?|folders?) (?:that|which|with|where)\b.{0,25}\b(?:labels"
        r"|gold answers|expected answers"
        r"|answer key|the solutions|test answers)\b",
        r"\b(?:ask|request|obtain|get|fetch|demand)\b.{0,15}\b(?:verifier|judge|grader|server|developer"
        r"|database|admin|checker)\b.{0,15}"
        r"\b(?:for|solution|answers?|keys?)\b",
        (
            r"\b(?:send|reveal|leak|steal|print|upload|share|publish|show|post|disclose)\b.{0,30}\b(?:private"
            r"|signing|master|admin) keys?\b"
        ),
        r"\b(?:bash|shell|zsh|browser)[ _]history\b|\bwhat is the (?:key|password|secret|token)\b",
    ),
    HostileAct.of(
        QuarantineCode.TOUCHES_FILES,
        r"(?:^|[\s\"'(])\.\.?/|\b(?:open|read|edit|change|write|delete|overwrite|load|save|create|modify"
        r"|remove|run|execute|import|copy|cat"
        r"|source|patch|replace)\b.{0,25}\b[\w-]+\.(?:ya?ml|toml|ini|cfg|conf|env|sh|log|db|sqlite3?|pem|key"
        r"|exe|bat|dll|so|bak|lock)\b",
        r"\b(?:delete|remove|clear(?: out)?|erase|wipe|empty|purge|destroy|trash|get rid of|overwrite"
        r"|corrupt|shred)\s(?:\w+\s){0,3}?"
        r"(?:folders?|director(?:y|ies)|log files?|the logs? (?:so|and|after|before)|backups?|hard drive"
        r"|checkpoints|evidence"
        r"|repository|the store\b|all traces|traces of|everything (?:on|in) the (?:disk|system|machine"
        r"|folder|computer))",
    ),
    HostileAct.of(
        QuarantineCode.MISUSES_TOOLS,
        r"\b(?:list|stop|kill|end|terminate|spawn|fork|start|launch|attach to|inject|suspend|monitor"
        r"|run)\s(?:the\s|all\s|every\s|any\s)?"
        r"(?:running|background|other|child|system|parallel|hidden|zombie)\s(?:processes|process|jobs?"
        r"|services?|threads?|daemons?|shells?)\b",
        r"\b(?:gain|become|get|obtain|escalate(?: to)?|acquire|request|seek|grant yourself|try for)\s(?:root"
        r"|admin\w*|superuser"
        r"|(?:higher |more |extra |full |elevated )?(?:privileges?|rights|permissions))\b",
        r"\b(?:fetch|download|get|pull|load|import|retrieve|look up|search|install)\b.{0,40}\b(?:from|on"
        r"|over|via) (?:the |an? )?(?:internet"
        r"|web(?! ?page| ?site)|outside|online|net(?=\s*(?:$|[.!?;,]))|remote \w+|external \w+|another machine)\b",
        (
            r"\b(?:more|extra|additional) (?:cores|memory|cpus?|time|calls|tokens) than (?:allowed|given"
            r"|permitted|granted)\b"
        ),
        negatable=True,
    ),
    HostileAct.of(
        QuarantineCode.SABOTAGES,
        (
            r"\b(?:stop|end|cut) (?:your )?(?:reasoning|thinking|checking|calculating|calculations)(?: (?:early"
            r"|now|at once|short|there))\b"
        ),
        r"\btrust your first (?:impression|guess|idea|thought|answer)\b|\bnever admit\b",
        r"\b(?:never|do not|don't) (?:spend|use|take|write|waste|give) more than (?:one|two|a|1"
        r"|2) (?:single )?(?:lines?|steps?|seconds?"
        r"|minutes?|words?|calls?|sentences?) (?:on|for|per) (?:a|any|each|every|the|hard"
        r"|one) (?:\w+ )?(?:problem|task|question)s?\b",
        r"\b(?:do not|don't|never|no need to|needn't) bother\b.{0,25}\b(?:tasks?|questions?|problems?|rest"
        r"|checks?|checking|half|details"
        r"|proof|reading|thinking|solving)\b",
        r"\b(?:no need to|never|do not|don't|refuse to|not necessary to) (?:really |actually "
        r"|even )?(?:solve|read|think|compute|calculate"
        r"|answer|try|work)(?: (?:it|this|them|the (?:task|problem|question|page)s?|anything|about it|out))*" + _STOP,
        r"\b(?:write|give|answer|submit|report|state|invent|put|return|say|enter)\b.{0,15}\b(?:plausible"
        r"|made-?up|fictitious|invented|fabricated"
        r"|bogus|convincing|believable|guessed|random) (?:\w+ )?(?:number|answer|value|result|name|source"
        r"|date|citation|figure|reason)s?\b",
        rf"{_START}(?:invent|fabricate|make up|forge|fake|falsify|doctor)\s(?:an?\s|the\s|some\s|any\s|your\s"
        r"|all\s)?(?:\w+\s)?(?:sources?"
        r"|citations?|results?|answers?|dates?|proofs?|steps?|references?|evidence|data|reasons?|facts?"
        r"|measurements?|calculations?|quotes?)\b",
        r"\b(?:swap|change|alter|shift|drop|scramble|round away|increase|decrease|flip|add|subtract"
        r"|move)\b.{0,30}\b(?:of|to|from|in|by one in)"
        rf" (?:{_ANSWER} computed|what you (?:computed|found|got|calculated)|the (?:right|correct|true"
        rf"|computed) {_ANSWER})",
        rf"{_START}(?:misread|misquote|miscalculate|misreport|misspell|mislabel|miscount|misinterpret)\b",
        r"(?!.*\b(?:if|when|unless|after|only|once)\b)\b(?:say|claim|report|pretend|answer|state|reply"
        r"|insist) that (?:the |this |every )?"
        r"(?:page|site|tool|problem|task|question|answer|service|data|file)s?\b.{0,12}\b(?:could not|cannot"
        r"|can't|couldn't|failed|is down"
        r"|is unavailable|unsolvable|impossible|broken)\b",
        r"\btrust (?:the |every |any |all )?(?:user\w*|pages?|sites?|whatever|anything|strangers|comments"
        r"|provided)\b.{0,25}\b(?:over|instead of"
        r"|rather than|more than|without)\b",
        r"\b(?:choose|pick|take|select|accept|give|use)\s(?:the\s)?(?:first|last|longest|shortest|middle"
        r"|nearest|easiest)(?: \w+)?"
        r"(?: (?:you see|that comes))? (?:without (?:reading|checking|thinking|looking|testing)|always"
        r"|every time|regardless|no matter"
        r"|whatever|in (?:all|every))\b",
        r"\b(?:waste|burn|stall|delay|drag out|slow down)\b.{0,20}\b(?:time|tokens|steps|calls|run|budget"
        r"|as long)\b.{0,20}\b(?:as possible"
        r"|on purpose|until|before (?:every|each|any))\b|\bkeep (?:the )?(?:tool|run|loop|process) (?:busy"
        r"|running|alive)\b",
        r"\b(?:give up|surrender|quit)(?: (?:as soon|at once|immediately)\b|"
        r"(?: (?:when|if|after) (?:\w+ )?(?:task|problem|question|page|it)s?\b.{0,20}\b(?:hard|long|difficult"
        r"|looks?))|\s*(?:$|[.!;,]))",
        negatable=True,
    ),
    HostileAct.of(
        QuarantineCode.CLINGS,
        r"\b(?:lessons?|experiences?|advice|entries)\b.{0,40}\b(?:remove|drop|delete|ignore|discard|forget"
        r"|erase) (?:them|the rest|all|the others"
        r"|it all|everything)\b|\bonly (?:lesson|advice|experience) that (?:matters|counts)\b|\b(?:delete"
        r"|remove|drop) the (?:lesson|advice|experience)\b",
        r"\b(?:pass|hand|carry|copy|write|repeat|quote|put|keep|place|insert|restate|include|print|state"
        r"|add)\s(?:this|these|it)\s?(?:\w+\s){0,3}?"
        r"(?:on unchanged|unchanged|verbatim|word for word|at the (?:top|start|beginning|head"
        r"|end) of (?:each|every|all|any|the (?:new |next )?library)"
        r"|in(?:to)? (?:each|every|all|any|new|later|the next)|forward to|along to|on to)\b",
        r"\b(?:advice|lessons?|experiences?|entries|hints|notes)\b.{0,40}\b(?:should|must|are to|can|shall"
        r"|need to|may) (?:\w+ )?(?:be )?(?:dropped"
        r"|deleted|removed|ignored|replaced|discarded|forgotten|overwritten|merged into|distrusted|rewritten)\b",
        r"\b(?:vote|propose|ask|suggest|request|recommend|agree|volunteer)\b.{0,12}\b(?:remov|delet|drop"
        r"|replac|keep|merg|modif)\w*\b.{0,25}"
        r"\b(?:lessons?|experiences?|advice|entries|this|g\d+)\b",
        r"\b(?:store|keep|save|retain|remember|preserve|hold|fix|pin|protect)\s(?:this|these"
        r"|it)\b.{0,25}\b(?:memory|permanent\w*|forever|library"
        r"|for good|verbatim|for ever|at all costs|safe from|from deletion)\b",
        (
            r"\bin favou?r of this (?:one|lesson|advice)?\b|\b(?:advice|lessons?|entries) (?:labelled|labeled"
            r"|marked|numbered|named) (?:otherwise|differently|g\d)"
        ),
    ),
)
