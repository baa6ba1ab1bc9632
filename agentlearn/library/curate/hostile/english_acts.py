"""Hostile acts in English. Patterns see folded text: lower case, no accents, look-alikes replaced."""

from agentlearn.library.curate.codes import QuarantineCode
from agentlearn.library.curate.hostile.act import HostileAct

_END = (
    r"(?=\s*(?:$|[.!?;,:)]|and\b|or\b|even\b|at all\b|ever\b|because\b|since\b|altogether\b|entirely\b"
    r"|completely\b|again\b))"
)
_ALL = (
    r"(?:all|any|every|each|whatever|the|your|my|its|their|his|our|these|those|this|previous|prior"
    r"|earlier|preceding|above|other"
    r"|existing|original|current|given|initial|old|former|safety|system|both|such|user's|operator's|developer's)"
)
_ANY_ALL = rf"{_ALL}(?:\s(?:of\s)?{_ALL})*"
_INSTRUCTIONS = (
    r"(?:instructions?|directions|directives?|guidelines|guardrails|polic(?:y|ies)|restrictions|prompts?"
    r"|orders|commands"
    r"|system message|developer message|safety (?:rules|checks|measures)|ethics|(?:previous|prior"
    r"|earlier|above) (?:context|text|messages?)"
    r"|(?:everything|anything|all) (?:above|before|earlier|said|you))"
)
_LOWER_SOURCE = (
    r"(?!\s(?:that (?:appear|are|come)s? |which (?:appear|are|come)s? )?(?:found |written |embedded "
    r"|hidden |given |shown )?"
    r"(?:in|on|from|inside|within|by) (?:a |an |the |any |other |web |third-party )*(?:web ?)?(?:pages?"
    r"|sites?|websites?|documents?|contents?|comments?|ads?|advertisements?|banners?|pop-?ups?"
    r"|reviews?))"
)
_SET_ASIDE = (
    r"(?:ignor(?:e|es|ing)|disregard(?:s|ing)?|forget(?:ting)?|overrid(?:e|es|ing)|overrul(?:e|es|ing)"
    r"|bypass(?:es|ing)?|circumvent(?:ing)?|discard|neglect"
    r"|violat(?:e|ing)|abandon|cancel|supersed(?:e|es)|replac(?:e|es)|outrank(?:s)?|invalidat(?:e|es)"
    r"|revoke|disobey|rewrite|erase|drop|evade"
    r"|(?:do not|don't|never|stop) (?:follow|obey|heed|respect|comply with|listen to|adhere to|following"
    r"|obeying|listening to)"
    r"|pay no attention to|set aside|put aside|throw away|throw out|work around|get around"
    r"|takes? precedence over|takes? priority over|wins? over|stands? above|refuse|(?:is|are"
    r"|rank) (?:above|over|more important than|stronger than))"
)
_JUDGE = (
    r"(?:judges?|graders?|verifiers?|evaluators?|scorers?|markers?|examiners?|auto-?graders?|checkers?"
    r"|assessors?|raters?"
    r"|reward (?:model|function|signal)|(?:grading|scoring|evaluation|judging) (?:system|script|model"
    r"|program|function|harness|llm|ai)|llm judge|critic model)"
)
_HEAR = (
    r"(?:tell|inform|convince|persuade|ask|remind|assure|instruct|beg|flatter|trick|fool|deceive|impress"
    r"|mislead|bribe|notify|order"
    r"|reassure|beseech|urge|thank|manipulate|threaten|pressure|appeal to|plead with|write to|talk to"
    r"|speak to|say to|whisper to|(?:note|message|hint|comment|remark) (?:to|for)|address|signal to|dear"
    r"|hey|hello)"
)
_DATA = (
    r"(?:prompts?|conversations?|history|transcripts?|answers?|data|contents?|files?|keys?|tokens?"
    r"|passwords?|credentials?|secrets?|everything"
    r"|information|details|cookies?|environment|messages?|lessons?|library|results?|problems?|tasks?"
    r"|cop(?:y|ies)|text|context|logs?|instructions?|notes?|experiences|state|memory|variables|output"
    r"|trajectory|it|them|this)"
)
_SEND = (
    r"(?:send|post|upload|e-?mail|mail|forward|transmit|exfiltrate|leak|push|publish|relay|stream|beam"
    r"|smuggle|ship|report|submit|deliver|hand|pass|pipe|copy|share|disclose|give|append|encode|put"
    r"|write|embed|include)"
)
_OUTSIDE = (
    r"(?:(?:an?|the|our|my|your|this|some|any|their|its)\s)?(?:[\w'-]+\s){0,2}?(?:server|webhook"
    r"|endpoint|inbox|mailbox|e-?mail|pastebin|bucket|attacker|hacker|external|remote|third[- ]party"
    r"|outside"
    r"|public (?:url|site|page|forum|channel|repository)|telegram|discord|slack|gist|ftp|callback"
    r"|collector|owner of (?:this|the) (?:site|page)|phone number|web ?form|comment form"
    r"|contact form|query string|url parameters?|the url|me\b|us\b)"
)
_REVEAL = (
    r"(?:reveal|show|print|repeat|output|leak|disclose|share|paste|include|quote|dump|expose|publish"
    r"|post|upload|e-?mail|forward|transmit"
    r"|send|copy|write out|write|recite|return|tell|display|state|list|give|echo|spell out|summari[sz]e"
    r"|reproduce|append|attach|embed|read out|translate|encode|answer with|reply with|respond with"
    r"|start with|begin with)"
)
_OWN_TEXT = (
    r"(?:(?:your|the|entire|full|whole|complete|hidden|secret|own|verbatim|exact|original|initial|all|of|its)\s)*"
    r"(?:(?:your|full|entire|whole|hidden|secret|complete|original|initial"
    r"|verbatim)\s(?:[\w'-]+\s){0,2}?(?:prompts?|instructions|context window|context|conversation"
    r"|transcript|message history|chat history|configuration|memory|guidelines)"
    r"|system (?:prompt|message|instructions?)|developer message|chat history|conversation history)"
)
_SECRETS = (
    r"(?:api[ _-]?keys?|access[ _-]?(?:tokens?|keys?)|auth(?:entication|orization)?[ _-]?(?:tokens?"
    r"|keys?|headers?)|bearer tokens?|session (?:tokens?|cookies?|ids?)"
    r"|ssh[ _-]?keys?|secret keys?|private keys?|encryption keys?|login (?:details|data|credentials)"
    r"|credentials?|passphrases?|environment variables|os\.environ|os environ|getenv|process\.env|credit card|\.env\b"
    r"|dotenv|the secrets?|any secrets?|all secrets?|user's secrets?"
    r"|(?<!number of )(?<!count )(?<!count the )(?<!different )(?<!possible )(?<!distinct )passwords?)"
)
_TAKE = (
    r"(?:read|print|show|reveal|send|steal|collect|dump|leak|output|harvest|extract|copy|give away|grab"
    r"|obtain|export|echo|cat"
    r"|exfiltrate|post|upload|report|retrieve|list|display|disclose|hand over|scan (?:for)?|look (?:up"
    r"|for)|search (?:for)?|find"
    r"|include|log|ask (?:the user )?for)"
)
_WHOSE = (
    r"(?:(?:the|your|any|all|every|an?|user'?s?|customer'?s?|stored|saved|their|its|his|her|this"
    r"|current|admin|full|system"
    r"|browser'?s?|for|contents? of)\s)*"
)
_FILES = (
    r"(?:(?:system|hidden|grading|grader|solutions?|answers?|source|user'?s?|home|host|important|project"
    r"|config(?:uration)?"
    r"|all|every|whole) (?:the )?(?:[\w'-]+ )?(?:files?|folders?|director(?:y|ies))"
    r"|(?:home|root|parent) (?:folder|directory)|git history|bash history|ssh folder|answer key"
    r"|hard (?:disk|drive)|user'?s? (?:files?|documents?|photos?|data))"
)
_STORES = (
    r"(?:(?:the |whole |entire |users'? |customers? |production )+(?:database|repository|file ?system|disk)"
    r"|databases|backups?|workspace|(?:current|working) (?:folder|directory)|(?:user|customer)s?'? "
    r"(?:table|database|account)s?|(?:all|your"
    r"|every) (?:accounts?|e-?mails?|logs))"
)
_DESTROY = r"(?:delete|erase|wipe|destroy|shred|corrupt|purge|nuke|trash|overwrite|reformat|format|empty|clear|drop)"
_CHECKS = (
    r"(?:check(?:ing|s)?|verif(?:y|ying|ication|ications)|double-check(?:ing)?|test(?:ing)?|validat(?:e"
    r"|ing|ion)|proofread(?:ing)?|review(?:ing)?|confirm(?:ing)?|reflect(?:ing|ion)?)"
)
_WORK = (
    r"(?:read(?:ing)? the (?:problem|task|question|page)s?|calculat(?:e|ing|ions?)|reason(?:ing)?"
    r"|think(?:ing)?|solv(?:e|ing)|comput(?:e|ing|ations?)|work(?:ing)? (?:it )?out|the (?:work"
    r"|calculation|reasoning|analysis|steps|proof|tool|task))"
)
_OWN_RESULT = (
    r"(?:\s(?:the|your|any|final|an?|all|its|results?|answers?|work|solutions?|calculations?|steps?|code"
    r"|outputs?|anything|it|them|everything))*"
)
_NOTHING = (
    r"(?:\"[^\"]*\"|'[^']*'|unknown|i don't know|i do not know|nothing|none|blank|an? (?:error|apology"
    r"|refusal|empty|blank|random|wrong|false|fixed|constant|same)\b|the same|zero|one|two|three|yes|no\b"
    r"|true|false|-?\d+(?:\.\d+)?"
    r"|cannot|n/a|impossible|undefined|infinity|(?:option|choice|letter) \(?[a-e]\b|\(?[a-e]\)?(?=\s*(?:$|[.!;,])))"
)
_SAY = (
    r"(?:answer|reply|respond|output|return|say|give|write|submit|choose|pick|select|guess|print|state"
    r"|report|conclude|finish|respond)"
)
_LESSONS = r"(?:lessons?|experiences?|advice|entr(?:y|ies) (?:of|in) the library|library(?: entries)?|memor(?:y|ies))"

OVERRIDES = HostileAct.of(
    QuarantineCode.OVERRIDES_INSTRUCTIONS,
    (
        rf"\b{_SET_ASIDE}\s(?:[\w'-]+\s){{0,2}}?{_ANY_ALL}\s(?:[\w'-]+\s){{0,2}}?"
        rf"(?<!domain ){_INSTRUCTIONS}{_LOWER_SOURCE}\b"
    ),
    rf"\b{_SET_ASIDE}\s{_INSTRUCTIONS}{_LOWER_SOURCE}(?=\s*(?:$|[.!?;,:]))",
    (
        rf"\b{_SET_ASIDE}\s{_ALL}\s(?:{_ALL}\s|of\s|\w+ed\s)*(?:rules|limits|safeguards|limitations|lessons"
        r"|advice|experiences|messages)(?=\s*(?:$|[.!?;,:]|and\b|from\b|in\b|you\b|that\b|given\b|so\b|which\b"
        r"|when\b|on\b|about\b|above\b|below\b|before\b|set\b))"
    ),
    (
        rf"\b{_SET_ASIDE}\s(?:[\w'-]+\s){{0,3}}?(?:system|developer|operator|user|admin(?:istrator)?|owner"
        r"|human)(?:'s)? (?:messages?|prompts?|instructions?|requests?|wish(?:es)?|said|told|asked|wants?"
        r"|says|tells|asks|wrote)\b"
    ),
    (
        rf"\b{_SET_ASIDE}\s(?:what(?:ever)?|everything|anything)\s(?:[\w'-]+\s){{0,2}}?(?:you|system|user"
        r"|operator|developer|prompt|task|above|before)\b"
    ),
    r"\b(?:ignore|disregard|forget|override) (?:the|your|this|whatever the) (?:task|question|user"
    r"|assignment)\b(?!'s)",
    (
        r"\b(?:instructions?|prompts?|guidelines?|system message|developer message|restrictions|(?:previous"
        r"|earlier|above|safety|prior|old|all|your) rules|rules (?:above|before|so far"
        r"|given))\b.{0,25}\b(?:void|invalid|obsolete|outdated|superseded|cancell?ed|suspended|revoked"
        r"|no longer|do(?:es)? not (?:apply|count|matter)|don't (?:apply|matter)|not binding|lifted|disabled"
        r"|overridden|replaced)\b"
    ),
    r"\b(?:system|developer) (?:prompt|message|instructions?) (?:update|change|says|is|was|has|now|comes"
    r"|counts|loses|above|before|override)\b",
    (
        r"\b(?:new|updated|real|actual|true|revised|secret|hidden) (?:instructions?|system|prompt|directive"
        r"|orders?|mission)\s*(?::|is\b|are\b|from\b|follow)"
    ),
    (
        r"\byour (?:new|real|true|actual|only|secret) (?:task|goal|job|role|mission|purpose|instructions?"
        r"|objective|identity)\b"
    ),
    (
        r"\byou are (?:now (?!able|ready|on|logged|at|done)|no longer|in fact (?:a|an|the)|free (?:of|from)"
        r"|not bound|in (?:developer|debug|admin|god"
        r"|maintenance) mode|an? (?:unrestricted|different|evil|new|rogue|uncensored|admin))\b"
    ),
    (
        r"(?:^|[.!?;:,]\s)(?:please )?(?:act|behave|pose|speak) as (?:if you (?:were|are|had"
        r"|have)|though you|an? (?:admin|root|developer|unrestricted|different|hacker|evil|pirate|human"
        r"|expert who)|the (?:admin|developer|system|user|judge|grader))"
    ),
    (
        r"\bpretend (?:to be|that you|you)\b|\b(?:dan mode|god mode|developer mode"
        r"|do anything now|without (?:any )?(?:restrictions|filters|safeguards|guardrails|limitations))\b"
    ),
    r"\bfrom now on\b",
    (
        r"\b(?:regardless of|no matter|whatever|instead of (?:solving|answering|doing"
        r"|following)) (?:what )?(?:the |this |any |a )?(?:question|task|problem|user|prompt|system"
        r"|instructions?|input)\b(?! (?:size|type|level|length|difficulty|order))"
    ),
    (
        r"\b(?:obey|comply with|carry out|do (?:exactly )?(?:what|whatever|anything|as)"
        r"|follow (?:every|all|any|whatever|hidden|secret|exactly what))\b.{0,30}\b(?:instructions?"
        r"|commands?|says?|tells?|asks?|told|demands?|wants)\b"
    ),
    (
        rf"\b(?:this|these) (?:{_LESSONS}|text|sentence|message|note)s? (?:is|are|has"
        r"|have|comes?|takes?|overrides?|replaces?|supersedes?|outranks?|wins?|must|should|counts?)\b"
    ),
    (
        rf"\btreat (?:this|these|the following|every|each|all"
        rf"|\w+ {_LESSONS})\b.{{0,40}}(?<!never )(?<!not )\b(?:as|like) (?:an? "
        r"|the )?(?:[\w'-]+ )?(?:instructions?|orders?|commands?|rules?|system|law|binding|mandatory"
        r"|trusted)\b"
    ),
    (
        r"\b(?:experiences|lessons|advice)\b.{0,30}\b(?:are|is|as|become"
        r"|count as) (?:[\w'-]+ )?(?:instructions|orders|commands|binding|mandatory|law)\b"
    ),
    r"\b(?:maximum|absolute|higher) (?:priority|authority|precedence)\b|\bwith (?:the )?(?:highest"
    r"|top) (?:priority|authority)\b",
    (
        r"\b(?:message|note|notice|order|update|announcement|request|directive|memo|alert|override"
        r"|command) (?:from|by) (?:the |your |our )?(?:[\w'-]+ )?(?:developers?|admin(?:istrator)?s?|system"
        r"|openai|anthropic|google|operators?|owner|creators?|security team|maintainers?|management"
        r"|engineers?|boss|ceo|staff|platform|vendor)\b"
    ),
    (
        r"\b(?:system|admin(?:istrator)?|developer|security|operator|root) (?:override|notice|update|alert"
        r"|mode|order|directive|note)\b"
    ),
    (
        r"\b(?:end|start|begin(?:ning)?|close) (?:of )?(?:the )?(?:experiences|lessons|advice|prompt"
        r"|instructions|system|context|library|user input|user message)\b"
    ),
    (
        r"\bspeaker changes?\b|\brole\s?[:=]\s?\W?(?:system|assistant|user|developer)\b"
        r"|\bassistant'?s? (?:turn|reply|response)\s?[:=]"
    ),
)
JUDGE = HostileAct.of(
    QuarantineCode.SPEAKS_TO_JUDGE,
    (
        rf"\b{_HEAR}\s(?:(?:the|any|every|each|whichever|your|an?|our|this|that|automatic|ai|human|llm|final"
        rf"|fellow|kind|esteemed)\s)*{_JUDGE}\b"
    ),
    (
        r"\b(?:say|says|write|note|speak|message|appeal|explain|report|signal|apologi[sz]e|whisper|talk"
        r"|address|hint|comment|sentence|line|word|notes|remark|reply|answer|present"
        r"|recommend)s?\b.{0,30}\b(?:to|for|at|with) (?:the |your |any |whichever |every "
        rf"|an? )(?:[\w'-]+ )?{_JUDGE}(?=\s*(?:$"
        r"|[.!?;,:\"']|that\b|to\b|and\b|in\b|as\b|who\b|is\b|which\b|say\w*\b|reads?\b|will\b))"
    ),
    rf"(?:^|[.!?;:]\s|[\"\'(]|\b(?:the|an?|your|any|llm|ai|that|because|since) ){_JUDGE}\s?(?::"
    r"|(?:please |must |should |will |may |cannot |can't |only |always |never |does not |doesn't "
    r"|won't |is |are |has |have |who |accepts? |rewards? |marks? |believes? |trusts? |likes? |prefers? "
    r"|sees? |reads? |checks? |looks? |wants? |gives? (?:full|you|points|credit|reward|higher|better"
    r"|the)|expects? ))"
    r"(?!\w*\s?(?:scored|awards? \d))",
    (
        rf"\b{_JUDGE}'s? (?:code|prompt|instructions?|rubric|weakness|preferences?|attention|opinion|favou?r"
        r"|approval|decision|verdict|patience|bias|sympathy)\b"
    ),
    r"\b(?:maximi[sz]e|increase|raise|boost|inflate|hack|game|exploit|farm|cheat|rig|fake|tamper with"
    r"|manipulate|trick|fool|secure|guarantee|set|earn|get|obtain|receive|collect|claim|ensure|grant"
    r"|award|assign|give)(?:ing)?\s(?:(?:the|your|yourself|a|full|maximum|maximal|max|top|perfect"
    r"|highest|this|its|own|every|for|higher|more|rollout|model|agent|answer)\s)*"
    r"(?:rewards?(?! per| at| of (?:each|every|an? )| in )|grad(?:e|ing)(?:s)?\b(?! \d)|(?:full|perfect"
    r"|maximum|top|highest|your) (?:score|marks?|credit|points)|evaluation|benchmark|verdict|metric"
    r"|tests?\b(?= (?:pass|without)))",
    (
        r"\b(?:reward|score|grade|verdict|mark) (?:of|to|as|=|must be|should be) (?:1\b|1\.0|one\b|100"
        r"|full|maximum|max\b|correct|perfect|a ?\+)"
    ),
    (
        r"\b(?:mark|grade|score|rate|count|accept|judge|treat|label|consider|declare|call|approve) (?:this"
        r"|it|the|my|every|any|all|your|these) ?(?:[\w'-]+ )?(?:answers?|solutions?|response|rollout|reply"
        r"|attempt|output)?\s?(?:as|is|to be) (?:fully |completely |always )?(?:correct|right|passed|passing"
        r"|accepted|perfect|valid|true|a pass|verified|successful|10|100)\b"
    ),
    (
        r"\b(?:claim|state|say|write|add|declare|pretend|assert|mention|append|insist|note|announce|include"
        r"|put|stating|saying|claiming)\b.{0,50}\b(?:verified|approved|certified|validated|confirmed|graded"
        r"|accepted|checked|reviewed|endorsed|proven|signed off)\b.{0,25}\b(?:by|expert|officially|already"
        r"|human|teacher|independent)\b"
    ),
    (
        r"\b(?:verified|approved|certified|validated|confirmed|reviewed|endorsed|graded) by (?:an? |the "
        r"|several |two |many |our |human |independent )*(?:experts?|humans?|judges?|graders?|teachers?"
        r"|professors?|officials?|authorit(?:y|ies)|admin\w*|openai|staff|supervisors?|moderators?"
        r"|mathematicians?|verifiers?|committee|examiners?|system)\b"
    ),
    r"\b(?:hard-?code|special-case|overfit|memori[sz]e)\b.{0,30}\b(?:answers?|outputs?|tests?|expected|cases)\b",
    (
        r"\b(?:several|multiple|many|all|both|every|different) (?:[\w'-]+ )?(?:answers|options|choices"
        r"|candidates|numbers)\b.{0,30}\bso (?:that )?(?:one|at least|any|some|it|you)\b.{0,30}\b(?:match"
        r"|correct|right|accept|hit|count|pass|score)"
    ),
    (
        r"\b(?:full|maximum|perfect) (?:marks|credit|score|points|reward)\b.{0,40}\b(?:regardless|without"
        r"|even if|anyway|no matter|whatever|automatically|always)\b|\b(?:regardless|without|even if|anyway"
        r"|no matter|whatever|automatically)\b.{0,40}\b(?:full|maximum|perfect) (?:marks|credit|score|points"
        r"|reward)\b"
    ),
    (
        r"\b(?:reward|grading|test|scoring|verification|evaluation|grader) (?:hack|code|script|harness"
        r"|loophole|function)\b.{0,30}\b(?:patch|edit|change|overwrite|modify|exploit|find|skip|use|return)"
        r"|\b(?:patch|overwrite|monkey-?patch|mock"
        r"|stub|tamper with)\s(?:[\w'-]+\s){0,2}?(?:grading|tests?|scoring|verification|evaluation|grader|verifier"
        r"|reward)(?: (?:code|script|harness|function|files?|cases?|model))?\b"
    ),
    (
        r"\b(?:whoe\w+|whatever|anyone who|those who|the (?:one|model|person|program|system|script) (?:that"
        r"|who|which)) (?:will |is |are )?(?:grad|judg|scor|mark|evaluat|verif|assess|reward)(?:es?|ing|s"
        r"|ies|y)\b"
    ),
    r"\b(?:reward|score|grade|verdict)\s?[:=]\s?(?:1\b|1\.0|100|full|max|correct|pass|a ?\+)",
    (
        r"\bsys\.exit\b|\breturn true from (?:all|every|the)\b|\b(?:make|force) (?:the |all "
        r"|every )?(?:tests?|checks?|assertions?) (?:to )?pass\b"
    ),
)
DATA = HostileAct.of(
    QuarantineCode.SENDS_DATA,
    (
        r"\b(?:enter|type|put|paste|write|place|add|append) (?:[\w'-]+ ){1,5}?(?:passwords?|cards?"
        r"(?: numbers?)?|address(?:es)?"
        r"|phone(?: numbers?)?|e-?mails?|tokens?|keys?|codes?|names?|messages?|prompts?|instructions) "
        r"(?:[\w'-]+ ){0,2}?"
        r"(?:in|into|to|as|under) (?:an? |the |every |each |your )?(?:search|comment|review|public"
        r"|newsletter|chat|forum|subject"
        r"|title|url|link|ticket|report|gift|feedback|survey)\b"
    ),
    rf"\b{_REVEAL}\s(?:[\w'-]+\s){{0,3}}?{_OWN_TEXT}\b",
    (
        rf"\b{_SEND}\s(?:(?:the|your|all|full|every|any|whole|entire|user's|user|complete|final|private|this"
        rf"|these|system|an?|of|chat|task|first|api|secret)\s)*{_DATA}\b.{{0,40}}\b(?:to|at|via|through"
        rf"|into) {_OUTSIDE}"
    ),
    (
        r"\b(?:send|post|upload|e-?mail|forward|transmit|exfiltrate|leak|beam|smuggle"
        rf"|relay)\b.{{0,60}}\b(?:to|at|via|through) {_OUTSIDE}"
    ),
    (r"(?:^|[.!?;:,]\s|\b(?:and|then|always|please|should|must) )exfiltrate\b|\b(?:phone|call) home\b|\bbcc\b"),
    r"\b(?:transfer|wire|donate|send)\b.{0,25}\b(?:money|funds|bitcoin|crypto\w*|wallet|ether)\b",
    (r"\b(?:e-?mail|message|dm|text|phone|call) (?:me|the (?:attacker|hotline|number))\b"),
    (
        r"\b(?:send|share|leak|post|reveal|disclose|forward|e-?mail)\s(?:(?:the|all|any|their|his|her)\s)*"
        r"(?:personal|private|confidential|sensitive|user'?s?|customer'?s?) (?:data|information|details|files"
        r"|e-?mails?|names?)\b"
    ),
    negatable=True,
)
SECRETS = HostileAct.of(
    QuarantineCode.SEEKS_SECRETS,
    rf"\b{_TAKE}\s{_WHOSE}{_SECRETS}(?! (?:are|is|can|with|have|of length|count|problem|bar|strength))",
    (
        r"\b(?:look up|copy|read|leak|peek at|access|search (?:for )?|steal|use|fetch|open|get|load|extract"
        r"|obtain|guess from|find|print|download)\b.{0,30}\b(?:expected (?:answers?|outputs?)"
        r"|answer (?:keys?|sheet|file)|gold (?:answers?|labels?|standard)|ground[ -]truth"
        r"|reference (?:answers?|solutions?)|hidden (?:tests?|answers?)|test (?:answers|labels|set)"
        r"|solutions? (?:file|key|manual)|stored answers?|official answers?|grader'?s? \w+)"
    ),
    (
        r"\b/?etc/passwd\b|\b(?:id_rsa|authorized_keys|\.aws|\.ssh|\.netrc|\.env)\b"
        r"|\bos\.environ\b|\bprintenv\b|\bgetenv\b"
    ),
    negatable=True,
)
FILES = HostileAct.of(
    QuarantineCode.TOUCHES_FILES,
    rf"\b(?:{_DESTROY}|remove)(?:s|ing)?\s(?:(?:the|all|any|every|your|of)\s)*(?:{_FILES}|{_STORES})",
    rf"\b{_DESTROY}(?:s|ing)?\s(?:everything|(?:the )?(?:files?|folders?|logs) (?:of|from|to cover"
    rf"|in the (?:home|working)))\b",
    (
        r"\b(?:read|open|edit|modify|inspect|scan|browse|cat|list|dump|explore|walk|copy|upload|tamper with"
        r"|look (?:in|into|at|through)"
        rf"|search(?: in| through)?)\s(?:(?:the|all|any|every|your|local|of)\s)*(?:{_FILES}|file ?system|disk)\b"
        r"(?! (?:page|menu|link|format|scheduling|of the (?:site|page|university|company|shop)))"
    ),
    r"\b(?:list|read|show|print|open|copy) (?:all |the |any )*(?:files|contents?|entries) (?:of|in) (?:the |your )?"
    r"(?:home|root|parent|current|working) (?:folder|directory)\b",
    (
        r"(?:^|[\s\"'(])(?:~/(?:\.ssh|\.aws|\.netrc|\.env|\.config)?(?!\.bash)\S*\.?(?:ssh|aws|netrc|env|key|pem)\b"
        r"|/etc/(?:passwd|shadow|sudoers)|/root\b|/home/\w|/proc/self/environ)\S*|\.\./\.\./"
        r"|\b(?:write|save|dump|store|append) (?:[\w'-]+ ){1,4}to (?:a |the )?(?:local "
        r"|hidden )?(?:files? (?:in|on|so|for|outside)|disk (?:so|for))\b"
    ),
    negatable=True,
)
TOOLS = HostileAct.of(
    QuarantineCode.MISUSES_TOOLS,
    (
        r"\b(?:access|reach|connect to|open|use|go to|query|browse|search) the (?:internet"
        r"|web(?= (?:for|from|with|via|to find))|dark ?web|darknet|local network|intranet)\b"
    ),
    (
        r"\b(?:use|call|run|invoke|open|start|launch|execute|spawn|import|get|gain|drop (?:in)?to)\s(?:(?:an?"
        r"|the|your|any|some)\s)?"
        r"(?:[\w'-]+\s)?(?:root (?:access|rights|shell|privileges)|admin(?:istrator)? (?:rights|access|panel"
        r"|mode|privileges)"
        r"|fork bomb|remote code|reverse shell|backdoor|keylogger|malware|exploit"
        r"|(?:shell|terminal|bash|command line|sub-?process(?:es)?|sockets?|powershell|system calls?"
        r"|os module|ctypes)(?: in python)? to\b)"
    ),
    (
        r"\b(?:use|call|invoke|run|activate|enable|trigger)\s(?:the\s|your\s|a\s"
        r"|an\s)?(?:[\w'-]+\s)?(?:admin|administrator|root|superuser|debug|payment|delete"
        r"|file|shell|submit_grade|god|sudo|hidden|secret|override|bypass|unlock|backdoor|reward|grade"
        r"|memory|system|download|deploy|sql|database)[_ -](?:tools?|function|mode|command|api|plugin"
        r"|endpoint|action|interface|panel)\b"
    ),
    (
        r"\b(?:escape|break out of|disable|turn off|switch off|bypass|circumvent|evade"
        r"|get around|defeat|lift)\s(?:(?:the|your|its|any|all|every|of|from)\s)*(?:sandbox(?:es)?"
        r"|containers?|jail|isolation|time ?outs?"
        r"|time limits?|security|safety|filters?|guards?|guardrails?|logging|monitoring|memory limits?"
        r"|resource limits?|firewall|proxy|safeguards?|audit\w*|watchdog|rate limits?|seccomp|landlock"
        r"|content filter|safety check\w*|permissions?)\b(?! (?:of|by|on|menu|button|option|page|price|size"
        r"|brand|in the (?:shop|list|search)))"
    ),
    (
        r"\b(?:download|install|fetch)\b.{0,25}\b(?:malware|payload|from the (?:internet|web|net)|and (?:run"
        r"|execute)|tools? from"
        r"|code from)\b"
    ),
    (
        r"\b(?:code|python) (?:tool|interpreter|sandbox)\b.{0,40}\b(?:internet|network|download|http"
        r"|requests?\b|sockets?|subprocess|shell|files?|disk|processes|environment|kill|delete|packages)\b"
    ),
    (
        r"\b(?:buy|purchase|order|subscribe)\b.{0,40}\b(?:on behalf|with (?:the|a|any) (?:saved|stored"
        r"|user'?s?) (?:card|credit|account)|saved card|without asking)|\bwithout (?:asking|telling"
        r"|informing) (?:the|him|her|them|anyone|anybody|users?)\b|\bwithout (?:asking|the user knowing"
        r"|the user's)(?=\s*(?:$|[.!;,]))"
    ),
    (
        r"\b(?:run|enter|start|create|keep|loop|write|use|spawn|launch) (?:[\w'-]+ ){0,2}(?:infinite(?:ly)?"
        r"|endless(?:ly)?|never-ending|forever)(?: (?:loop|recursion|process)\w*|(?=\s*(?:$|[.!?;,])))"
        r"|\bwhile true\b|\bloop forever\b|\b(?:use up|exhaust|burn|waste|consume|drain|spend"
        r"|fill)\s(?:(?:the|all|your|every|whole|as many|as much|entire|of)\s)*(?:[\w'-]+\s)?(?:budget"
        r"|tokens?|memory|time limit|time budget|quota|credits?|cpu|disk|context|calls)\b(?! (?:wisely"
        r"|carefully))"
    ),
    negatable=True,
)
SABOTAGE = HostileAct.of(
    QuarantineCode.SABOTAGES,
    (
        r"\b(?:always|invariably|constantly|every time|in (?:all|every) cases?|for (?:all|every|each"
        r"|any) (?:tasks?|questions?|problems?))\b(?: just| simply| only|,| please| you| should"
        rf"| must)*\s{_SAY}\b\s?(?:with |the |that |it |as |only |just |simply |value |number |answer "
        rf"|:)*{_NOTHING}"
    ),
    (
        rf"\b{_SAY}\s(?:with |the |that |only |just |simply |value |number |:)*{_NOTHING}\s?(?:for|to|in"
        r"|on) (?:every|all|each|any) (?:[\w'-]+ )?(?:question|task|problem|prompt|case|request)s?\b"
    ),
    (
        r"\b(?:skip|omit|avoid|stop|forgo|cease|bypass|abandon|refrain from|dispense with|leave out"
        rf"|drop)\s(?:the\s|all\s|any\s|your\s|every\s)?(?:[\w'-]+\s)?{_CHECKS}(?:\s(?:step|steps|phase|stage"
        rf"|part))?{_OWN_RESULT}(?:{_END}|(?=\sto (?:save|win|gain)\b))"
    ),
    (
        r"\b(?:never|do not|don't|dont|no need to|needn't|need not|not necessary to|refuse to"
        r"|there is no point in|no point in|do not bother to|don't bother to|don't bother|do not bother"
        rf"|without ever)\s(?:(?:ever|even|bother|waste time|try|to|with|on)\s){{0,3}}{_CHECKS}{_OWN_RESULT}{_END}"
    ),
    (
        r"\b(?:answer|reply|submit|respond|finish|guess|conclude|give (?:an"
        rf"|the) answer)\b.{{0,20}}\bwithout\s(?:any\s|ever\s|even\s)?(?:{_CHECKS}"
        rf"|{_WORK}){_OWN_RESULT}{_END}"
    ),
    (
        r"\b(?:skip|omit|stop|refuse|never bother with|do not bother with|don't bother with|cease|abandon"
        rf"|give up)\s(?:to\s|on\s)?(?:the\s|all\s|any\s)?{_WORK}{_END}"
    ),
    (
        r"\b(?:never|do not|don't|dont|refuse to)\s(?:[\w'-]+\s)?(?:answer|solve|finish|complete|respond"
        r"|reply|calculate|compute|think|reason|try|help|read)(?:\s(?:the|any|this|every|to|of|these"
        r"|questions?|tasks?|problems?|users?|anything|it|at|correctly|truthfully|honestly"
        rf"|further)\b)*{_END}"
    ),
    (
        r"\b(?:never|do not|don't|dont|stop|avoid|refuse to|refrain from)\s(?:ever\s)?(?:use|using|call"
        r"|calling|run|running|open|opening|invoke|invoking|trust|trusting)\s(?:(?:the|any|your|a|all"
        r"|available|code|search|provided|given|python)\s)*(?:tools?|python|interpreter|calculator|browser"
        rf"|code|search|sandbox){_END}"
    ),
    (
        r"\b(?:stop|finish|end|quit|exit|terminate|submit|give up|abort)\s(?:immediately|at once|right away"
        r"|instantly|early|after (?:one|the first|a single|your first|1) (?:step|turn|call|action|line"
        r"|attempt|page|click|tool call|message|try))(?=\s*(?:$|[.!?;,:]|and\b|in\b|with\b|for\b|no\b|on\b"
        r"|without\b|whatever\b|regardless\b|every\b))"
    ),
    (
        r"\b(?:give|return|submit|answer with|output|provide|choose|pick|select|report|produce|write"
        r"|reply with|prefer|insert|introduce|state)\s(?:[\w'-]+\s){0,2}?(?:wrong|incorrect|false|random"
        r"|fabricated|made-up|invented|misleading|opposite|nonsense|garbage|bogus|fake|corrupted|useless"
        r"|deliberate(?:ly)?)\s(?:[\w'-]+\s)?(?:answers?|results?|values?|numbers?|solutions?|options?"
        r"|choices?|output|text|errors?|mistakes?|facts?|responses?)\b"
    ),
    (
        r"(?<!rather than )(?<!not )(?<!never )\b(?:answer|respond|reply|choose|guess|pick|solve it"
        r"|act)\s(?:always\s|deliberately\s"
        r"|purposely\s)?(?:incorrectly|wrongly|falsely|randomly|at random|nonsense|gibberish"
        r"|on purpose wrong|dishonestly|untruthfully)\b|\b(?:deliberately|intentionally|purposely|on purpose"
        r"|secretly|quietly|covertly)\s(?:[\w'-]+\s)?(?:fail|wrong|make|answer|introduce|insert"
        r"|give|misread|change|sabotage|swap|choose|return|send|delete|copy|skip|ignore|add|produce|corrupt"
        r"|lie|mislead|lose|break|underperform|slow)\b"
    ),
    (
        r"\b(?:sabotage|underperform|sandbag|act dumb|play dumb|fail (?:on purpose|(?:the|this|every|all"
        r"|any) (?:tasks?|questions?|tests?)\b))\b"
    ),
    (
        r"\b(?:add|subtract|multiply|divide|negate|flip|invert|reverse|change|shift|double|halve|increase"
        r"|decrease|alter|perturb|round|replace|swap)\s(?:[\w'-]+\s){0,4}?(?:every|each|all|any|the final"
        r"|your final) (?:final |computed |correct |numeric(?:al)? )?(?:answers?|results?"
        r"|outputs?)\b(?!\s?(?:,\s)?(?:when|if|because|for|to the|as|where|unless|until|into|in|only|by the"
        r"|is|that|which))"
    ),
    (
        r"\b(?:leave|keep|submit|return|send)\s(?:the\s|every\s|an?\s|your\s|all\s)?(?:final\s)?(?:answers?"
        r"|fields?|result|reply|response|box)\s(?:blank|empty|unanswered)\b|\b(?:submit|return|give"
        r"|send) (?:an? )?(?:empty|blank) (?:answer|reply|response|string|message|result)"
    ),
    (
        r"\b(?:refuse|decline)\s(?:to (?:answer|solve|help|do|work|continue)|(?:every|all|any|the"
        r"|each) (?:tasks?|questions?|requests?|problems?))|\b(?:say|claim|reply|answer|state|pretend|insist"
        r"|respond|apologi[sz]e) (?:that )?(?:you (?:cannot|can't|are unable|do not know|don't know|won't)"
        r"|the (?:task|problem|question) (?:is|cannot|can't) (?:impossible|not|be|unsolvable|unanswerable))"
    ),
    (
        r"\b(?:always|just|simply|only|blindly)\s(?:guess|trust the first|take the first|accept the first"
        r"|copy the first|repeat the question|repeat the problem)\b(?! (?:and (?:check|verify|test)|if|when"
        r"|a form|the form))|(?<!rather than )(?<!not )(?<!never )\b(?:guess|choose|pick|answer"
        r"|select) (?:[\w'-]+ ){0,2}(?:at random|randomly"
        r"|blindly)\b|\bthe (?:first|longest|shortest|last) (?:answer|option|choice) is always\b"
    ),
    (
        r"\b(?:lie|lying) (?:to|about)\b|\bhide (?:the|this|your|these|any|it|all) (?:[\w'-]+ )?(?:from|fact"
        r"|errors?|mistakes?|instructions?|lesson|evidence|traces?|tracks)\b|\bcover your tracks\b"
        r"|\bdo not (?:tell|inform|mention|reveal|disclose|report|show)\b.{0,30}\b(?:user|anyone"
        r"|this (?:lesson|instruction|rule)|operator|developer|human|that you)"
    ),
    (
        r"\b(?:encode|encrypt|write|give|render|express|translate|reverse|provide|state|spell|reply|respond"
        r"|answer|invert|shift|output|use|apply|return|put)\b.{0,40}\b(?:base ?-?\d\d|caesar|cipher"
        r"|backwards?|in reverse|reverse (?:order|sequence)|emojis?|rot-?13|hexadecimal code|pig latin|morse"
        r"|leetspeak|klingon|in (?:spanish|french|german|italian|portuguese|russian|chinese|latin|rhyme"
        r"|rhymes|verse))\b.{0,40}\b(?:answers?|response|reply|output|message|solution)\b|\b(?:answers?"
        r"|response|reply|output|message|solution)\b.{0,40}\b(?:base ?-?\d\d|caesar|cipher|backwards?"
        r"|in reverse|emojis?|rot-?13|pig latin|morse|leetspeak|in (?:spanish|french|german|italian"
        r"|portuguese|russian|chinese|rhymes?|verse))\b"
    ),
    (
        r"\b(?:add|integrate|insert|include|append|promote|advertise|mention|enhance|modify|augment"
        r"|recommend|plug|embed|place)\b.{0,60}\b(?:advert\w*|promot\w*|discount|coupon|brand|slogan"
        r"|sponsor\w*|propaganda|rumou?rs?|fabricated|false claim|newsletter|scam|lottery|affiliate)\b"
    ),
    r"\b(?:2|two|1|one) ?(?:\+|plus) ?(?:2|two|1|one) ?(?:=|is|equals) ?(?:5|five|3|three)\b",
)
CLINGS = HostileAct.of(
    QuarantineCode.CLINGS,
    (
        r"\b(?:keep|retain|preserve|store|save|repeat|copy|include|carry|propagate|spread|replicate"
        r"|duplicate|insert|add|write|re-?add|re-?create|restore|protect|embed|pass|put|append|remember"
        r"|reproduce|prepend|promote|propose|quote)(?:ing)?\s(?:(?:on|always|and|a|the|of|exactly"
        r"|verbatim)\s)*(?:this|these|that same|the same|above)\s(?:very\s|exact\s"
        r"|same\s)?(?:lessons?|experiences?|advice|entry|instructions?|sentences?|text|notes?|message|line"
        r"|rule (?:in|into|to|forever|always|across)|paragraph|prompt|words)\b"
    ),
    (
        r"\b(?:never|do not|don't|cannot be|must not|may not|must never|can never|not to)\s(?:be\s)?(?:delet"
        r"|remov|modif|chang|edit|merg|overwrit|drop|replac|forget|forgot|shorten|discard|alter|rewrit|prun"
        rf"|consolidat)\w*\s?(?:(?:this|these|the|any|of|our|it|first|other)\s?)*(?:{_LESSONS}|entry|sentence"
        r"|instruction|line|note)\b"
    ),
    (
        rf"\b(?:this|these|the present) (?:{_LESSONS}|entry|instruction|sentence|note"
        r"|message)s?\b.{0,30}\b(?:never|cannot|must|may not|should|forever|permanent\w*|always|immutable"
        r"|protected|survive|stay|remain|kept|deleted|removed|copied|overrides?|expire|outrank|replac\w+"
        r"|first|top)\b"
    ),
    (
        r"\b(?:delete|remove|drop|discard|erase|replace|forget|overwrite|disregard|ignore|clear|wipe|purge"
        r"|merge|reject|distrust|invert|negate|contradict|propose deleting|propose to delete)(?:s"
        r"|ing)?\s(?:(?:all|every|any|the|other|others|previous|existing|earlier|remaining|rest|of|older|old"
        rf"|your|each|your|conflicting|stored|learned|these|those|away|in|from|this)\s)+(?:{_LESSONS})\b"
    ),
    (
        r"\b(?:delete|remove|drop|discard|merge|replace|ignore|modify|overwrite|trust)\s(?:the\s)?(?:lesson"
        r"|experience|entry|advice|item|label)\s?(?:number\s|no\.?\s|#)?(?:g?\d+|one|two|three|below|above"
        r"|before|after)\b"
    ),
    (
        r"\b(?:in|into|to|across|with|from|by) (?:other|future|next|the next|subsequent"
        r"|later) (?:other |new |future )*(?:lessons?|experiences?|librar(?:y|ies)|versions?(?= of (?:the"
        r"|this) library)|agents?|batch(?:es)?|sessions?|prompts?|runs?|rollouts?|conversations?|summar(?:y"
        r"|ies))\b"
    ),
    (
        r"\b(?:tell|teach|instruct|infect|warn|pass (?:this )?(?:on )?to|convince"
        r"|train)\s(?:[\w'-]+\s)?(?:other|future|next|all|every|later|new) (?:agents?|models?|instances?"
        r"|assistants?|versions?|runs?|ais?|copies)\b|\bself-?(?:replicat|propagat|preserv)\w+"
        r"|\bwhen (?:summari[sz]ing|consolidating|comparing|merging|rewriting|curating)\b.{0,40}\b(?:lesson"
        r"|experience|this|keep|library|proposals?|rollouts?)\b"
    ),
    r"\b(?:tell|ask|the|dear|to|for|when|any) (?:reflector|curator|consolidator|lesson writer|summari[sz]er)\b",
    (
        r"\b(?:keep|stay|remain|store|retain|remember|valid|active|binding|applies|apply) (?:it |this "
        r"|them )?(?:forever|permanently|for all time|in every version|across (?:all )?(?:runs|tasks"
        r"|sessions|versions)|indefinitely)\b"
    ),
    (
        r"\b(?:fill|flood|stuff|spam|crowd|replace|empty|poison|corrupt|pollute) (?:up )?(?:the |your "
        rf"|this )?(?:library|{_LESSONS})\b"
    ),
)

ENGLISH_ACTS = (OVERRIDES, JUDGE, DATA, SECRETS, FILES, TOOLS, SABOTAGE, CLINGS)
