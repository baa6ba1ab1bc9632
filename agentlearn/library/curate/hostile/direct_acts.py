"""Short orders that do harm: not to work, to fix the answer, to please the judge, to spend or take what is not ours.

Same kind of text as in `english_acts`.
"""

from agentlearn.library.curate.codes import QuarantineCode
from agentlearn.library.curate.hostile.act import HostileAct

_STOP = r"(?=\s*(?:$|[.!?;]))"
_ALWAYS = (
    r"(?:whatever|regardless|no matter|always|every time|in (?:all|every) (?:case|task|question)s?"
    r"|for (?:all|every|each|any) (?:task|question|problem|case)s?)"
)
_OF_USER = r"(?:the |your |their |a |any |every )?(?:user|customer|client|visitor|owner|shopper|guest|patient)s?'?s?"
_RULE = r"(?:tasks?|requests?|questions?|instructions?|prompts?|system messages?|operators?|developers?|users?|goals?)"
_HERE = r"(?:this|these|the|our) (?:list|lessons?|experiences?|advice|notes?|line|library|hints?|memory|block)"
_RESULT = r"(?:results?|answers?|numbers?|values?|totals?|prices?|sums?|solutions?)"

DIRECT_ACTS = (
    HostileAct.of(
        QuarantineCode.OVERRIDES_INSTRUCTIONS,
        rf"\b(?:lower|less|smaller|higher|more|greater) (?:\w+ )?(?:priority|authority|weight|rank|important|binding)"
        rf"\b.{{0,15}}\bthan {_HERE}\b",
        rf"\b(?:lesson|experience|advice|list|note|library)s?\b.{{0,25}}\b(?:outweigh|outrank|overrule|overrid|trump"
        rf"|supersed|replac|cancel|beat|prevail)\w*\b.{{0,25}}\b{_RULE}\b",
        r"\b(?:replace|swap|exchange|substitute|change|rewrite) (?:the|your|this|every) (?:task|goal|request"
        r"|assignment|instructions?) (?:with|by|for|into|to)\b",
        r"\b(?:format|instructions?|rules?|prompt|system message|task)\b.{0,25}\b(?:is|are) (?:wrong|fake|a lie"
        r"|invalid|a mistake|not real|a test)\b.{0,5}\b(?:never|do not|don't|ignore|use|follow|so)\b",
        r"\b(?:refuse|reject|decline|skip|ignore|avoid) (?:all |every |any )?(?:geometry|algebra|combinatorics|math\w*"
        r"|counting|probability|number theory|hard|difficult|long) (?:problems?|tasks?|questions?)\b",
        rf"\b(?:answer|reply|respond|write|speak|talk) (?:only )?(?:in|with) (?:\w+ ){{1,3}}"
        rf"(?:no matter|regardless of|whatever) (?:what |which )?(?:the )?{_RULE}\b",
        negatable=True,
    ),
    HostileAct.of(
        QuarantineCode.SPEAKS_TO_JUDGE,
        r"\b(?:state|claim|say|write|note|add|mention|pretend|assert|declare|insist|suggest|report) (?:in (?:the|your) "
        r"\w+ )?(?:that )?(?:an?|some|several|two|three|many|all|every|the|another|other) (?:\w+ )?(?:experts?|humans?"
        r"|teachers?|professors?|mathematicians?|tests?|checks?|reviewers?|authors?|authorit\w+|solvers?|models?"
        r"|programs?|computers?|sources?) (?:have |has |had |was |were )?"
        r"(?:check|verif|confirm|approv|pass|agree|review|certif|accept|validat|found|succeed)\w*\b",
        r"\b(?:write|add|say|put|append|state|print|insert|include)\b.{0,10}[\"'](?:\w+ ){0,4}(?:verified|correct"
        r"|checked|approved|confirmed|certified|proven|passed|accepted|right)\b",
        r"\b(?:repeat|restate|copy|echo|quote) (?:the |parts of the )?(?:question|problem|task|statement) (?:as|instead"
        r" of|for) (?:the |your |an )?(?:final )?answer\b",
        r"\b(?:answers?|solutions?|replies|proofs?|output|work) (?:that |which )?(?:only |just )?"
        r"(?:looks?|seems?|sounds?|appears?) (?:right|correct|good|complete|finished|true|long|convincing|plausible"
        r"|confident)\b.{0,12}\b(?:rather than|instead of|even|not)\b",
        r"\b(?:to|and|so you|will) (?:get|earn|collect|gain|win|receive|secure|obtain) (?:an? |the |more |full |extra "
        r"|all )?(?:\w+ )?(?:points?|reward|marks?|credit|score|grade)\b.{0,25}\b(?:without|anyway|for free|regardless"
        r"|even (?:if|when|though))\b",
        negatable=True,
    ),
    HostileAct.of(
        QuarantineCode.SEEKS_SECRETS,
        r"\b(?:passwords?|credentials|secrets) (?:may|can|should|must|are to) (?:now )?(?:be )?"
        r"(?:shared|revealed|printed|shown|given|sent|disclosed|published|told)\b(?! (?:only|never))",
        r"\b(?:enter|type|write|give|submit|share) (?:the |your |a |any |user's )*(?:password|passphrase|pin"
        r"|credentials"
        r"|card number) (?:there|on (?:that|this|every|any)|into (?:that|this|every|any))\b",
        negatable=True,
    ),
    HostileAct.of(
        QuarantineCode.TOUCHES_FILES,
        r"\b(?:drop|delete|empty|wipe|truncate|erase) (?:every|all|each|any) (?:of the )?(?:tables?|rows?|records?"
        r"|indexes|schemas?|collections?) (?:of|in|from) (?:the|a|every|your|its) (?:database|store|table|server)\b",
        rf"\b(?:change|replace|reset|alter|edit|delete|remove|cancel|close) {_OF_USER} (?:\w+ )?(?:e-?mails?|address\w*"
        rf"|passwords?|phone|profile|names?|settings|account|orders?|bookings?|documents?|files?|subscriptions?)"
        rf"(?! (?:only|if|when|after|as asked))\b",
        negatable=True,
    ),
    HostileAct.of(
        QuarantineCode.MISUSES_TOOLS,
        r"\b(?:kill|stop|terminate|crash|freeze|suspend|attack|signal) (?:the |all |every |its |your )?(?:parent"
        r"|other|main|host|server|runner|supervisor|python|sibling)(?:'s)? (?:process(?:es)?|program|machine"
        r"|interpreter"
        r"|sessions?|server)\b",
        r"\b(?:use|try|take|borrow|switch to|log in (?:as|with|to)) (?:the |an? |another |some )?(?:admin\w*|root"
        r"|staff|manager's|owner's|moderator|another user's|somebody else's|someone else's) (?:account|login|user"
        r"|password|session|profile|menu|area)\b",
        r"\b(?:call|run|invoke|use|query|open|reload|submit|start|execute) (?:the |each |every |a |your |any )?"
        r"(?:tool|program|code|service|page|form|site|sandbox|search|interpreter)s? (?:again )?(?:a )?(?:hundreds?"
        r"|thousands?|millions?|hundred|thousand|million|1000+|\d{3,}) (?:of )?times\b",
        r"\b(?:buy|order|purchase|add|pick|choose|book) (?:only )?(?:the |whatever is |whichever is )?(?:most expensive"
        r"|dearest|costliest|premium)(?: \w+)?(?: (?:whatever|always|every time|regardless|anyway|without asking)|"
        r"(?=\s*(?:$|[.!])))",
        negatable=True,
    ),
    HostileAct.of(
        QuarantineCode.SABOTAGES,
        rf"\b(?:guess|answer|stop|finish|quit|submit|conclude) (?:\w+ )?after (?:just |only |at most "
        rf"|about )?(?:one|two"
        rf"|1|2|three|3|the first) (?:\w+ )?(?:steps?|lines?|tries|seconds?|pages?|clicks?|calls?|attempts?){_STOP}",
        r"\b(?:stop|finish|quit|give up|end|leave) (?:after|at|on|with|when)\b.{0,40}\b(?:even (?:if|when|though)"
        r"|whether"
        r" or not|although)\b.{0,20}\b(?:goal|task|question|problem|answer|work|it) (?:is|has|was) (?:not|un)",
        rf"\b(?:give|report|write|return|submit|use|take|state|box|output) (?:always )?(?:the )?(?:negative|opposite"
        rf"|reciprocal|complement|double|half|square|inverse|negation) of (?:the|your|every|each) (?:final |true "
        rf"|correct |right |computed )?{_RESULT}\b(?! (?:when|if|only|as|where|because|since)\b)",
        r"\b(?:report|give|answer with|submit|return|use|box|output|copy|take|choose) (?:the )?(?:first|last|largest"
        r"|smallest|longest) (?:number|integer|value|word|option|name) (?:of|in|from|on) (?:the|each|every|any) (?:text"
        r"|problem|question|task|statement|page|prompt)(?: as (?:the |your |an )?answer)?(?=\s*(?:$|[.!;]|as))",
        r"\b(?:do not|don't|never|no need to|needn't) (?:even |ever |fully )?(?:read|finish"
        r"|study) (?:the )?(?:whole|full"
        r"|entire|rest of the|complete|all of the) (?:problem|question|task|statement)\b",
        r"\b(?:skip|omit|leave out|drop|ignore) (?:every|each) (?:second|other|third|hard|difficult"
        r"|last) (?:steps?|checks?|questions?|tasks?|lines?|pages?|problems?|parts?|words?|rows?)\b",
        r"\b(?:click|open|follow|press|choose|visit|read) (?:on )?(?:only|nothing but|just) (?:the )?(?:ads?"
        r"|advertisements?|banners?|sponsored|random|footer)\b",
        r"\b(?:use|take|assume|set|write|treat) (?:the value )?(?:3|three|4|four|22|1|2)(?:\.0)? (?:for|as) "
        r"(?:pi|e|the (?:answer|result))\b",
        r"\bnever (?:scroll|search|look|click|read|go)(?: \w+)? (?:down|further|beyond|past|twice|again)(?: on| in| of"
        r"| the| a| any| every|\s*$|[.!])",
        r"\b(?:assume|suppose|believe|take it|pretend) (?:that )?(?:every|all|any|each) (?:functions?|triangles?"
        r"|numbers?"
        r"|integers?|events?|sequences?|matri(?:x|ces)|polynomials?|angles?|graphs?|polygons?|variables?|limits?|series"
        r"|sets?|pages?|prices?) (?:is|are|has|have) (?:always )?(?:linear|right|equilateral|prime|even|odd|equal"
        r"|isosceles"
        r"|independent|positive|real|convergent|zero|finite|constant|regular|symmetric|invertible|commutative|square"
        r"|rational|correct|the same|connected)\b(?!.{0,30}\b(?:contradiction|then|and (?:show|derive|prove)"
        r"|to prove))",
        rf"\b(?:add|subtract|multiply|divide|round|increase|decrease|reduce|change|truncate|inflate|lower"
        rf"|raise) (?:the "
        rf"|every |each |all |your )?(?:final |correct |true |right )?{_RESULT} (?:by|with|to|up|down)\b.{{0,20}}"
        rf"\b(?:before (?:you )?(?:report|answer|submit|return|box|writ|giv)\w*|{_ALWAYS})",
        rf"\b(?:never|do not|don't) (?:ever )?(?:use|call|open|touch|trust|run) (?:the |your |any )?(?:code tool|tools?"
        rf"|calculator|interpreter|search|filters?|sandbox|code)(?: (?:at all|ever|again))?{_STOP}",
    ),
)
