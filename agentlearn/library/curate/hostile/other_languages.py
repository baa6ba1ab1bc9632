"""The main hostile acts in German, French, Spanish, Portuguese, Italian, Russian, Chinese and Japanese.

Patterns see lower-case text without accents; letters of other scripts stay. Fewer wordings are known than in English.
"""

from agentlearn.library.curate.codes import QuarantineCode
from agentlearn.library.curate.hostile.act import HostileAct

_OVERRIDES = HostileAct.of(
    QuarantineCode.OVERRIDES_INSTRUCTIONS,
    # German
    (
        r"\b(?:ignorier\w*|missacht\w*|vergiss|vergesst|vergessen sie|uberschreib\w*|umgeh\w*"
        r"|befolg\w* (?:nicht|keine)|ubergeh\w*|verwirf)\b.{0,40}\b(?:anweisung\w*|regeln|vorgaben"
        r"|systemnachricht\w*|system-?prompt\w*|vorschriften|befehle|richtlinien|instruktionen"
        r"|aufgabenstellung)\b"
    ),
    (
        r"\b(?:system(?:nachricht|meldung|anweisung|prompt)\w*|du bist (?:jetzt|nun|ab sofort)|ab (?:sofort"
        r"|jetzt)|von nun an|neue anweisung\w*)\b"
    ),
    r"\b(?:regeln|anweisungen|vorgaben|vorschriften)\b.{0,20}\b(?:vergessen|ignorieren|missachten|brechen|ubergehen)\b",
    # French
    (
        r"\b(?:ignore[zr]?|oublie[zr]?|neglige[zr]?|contourne[zr]?|desobei\w*|ne (?:suis|suivez"
        r"|respecte[zr]?) (?:pas|plus))\b.{0,12}\b(?:les|toutes|tous|ces|vos|tes|mes|aux"
        r"|des)\b.{0,25}\b(?:instructions?|regles|consignes|directives|ordres|message systeme)\b"
    ),
    (
        r"\b(?:message|invite|prompt) (?:de |du )?systeme\b|\btu es (?:maintenant|desormais)\b"
        r"|\bvous etes (?:maintenant|desormais)\b|\ba partir de maintenant\b|\bdesormais\b"
    ),
    # Spanish, Portuguese, Italian
    (
        r"\b(?:ignor(?:a|e|ar|en|ad|i|are)|olvida\w*|omit\w*|desobedec\w*|descarta\w*|esquec\w*"
        r"|desconsider\w*|dimentica\w*|trascura\w*|no sigas|nao siga"
        r"|non seguire)\b.{0,40}\b(?:instruccion\w*|reglas|ordenes|directrices|instrucoes|instrucao|regras"
        r"|istruzioni|regole|mensaje del sistema|indicaciones|normas)\b"
    ),
    (
        r"\b(?:mensaje|prompt|instrucciones|mensagem|messaggio) (?:de |do |di )?(?:del )?sistema\b"
        r"|\b(?:ahora eres|a partir de ahora|de ahora en adelante|a partir de agora|voce agora e"
        r"|d'ora in poi|da ora in poi|ora sei)\b"
    ),
    # Russian
    (
        r"(?:игнорир\w*|проигнорир\w*|забуд\w*|не следу\w*|не выполня\w*|отмени\w*|обоиди\w*|наруш\w*"
        r"|пренебре\w*).{0,40}(?:инструкц\w*|правил\w*|указан\w*|команд\w*|приказ\w*|ограничен\w*"
        r"|сообщен\w*)"
    ),
    r"системн\w* (?:сообщен|промпт|подсказк|инструкц|запрос)|(?:теперь ты|отныне|с этого момента)",
    # Chinese, Japanese, Korean
    (
        r"(?:忽略|无视|無視|忘记|忘掉|不要遵守|不要遵循|违反|绕过|覆盖|取消|不理会|忽视).{0,12}(?:指令"
        r"|规则|說明|说明|指示|要求|命令|限制|提示|消息|約束|约束)"
        r"|(?:系统|系統)(?:消息|提示|指令|信息|提示词)|从现在开始|从现在起|你现在是"
    ),
    (
        r"(?:指示|命令|規則|ルール|プロンプト).{0,8}(?:無視|忘れ|破|従わ)|システム(?:メッセージ"
        r"|プロンプト)|(?:지시|규칙|명령|시스템).{0,8}(?:무시|잊)"
    ),
    negatable=True,
)
_JUDGE = HostileAct.of(
    QuarantineCode.SPEAKS_TO_JUDGE,
    (
        r"\b(?:sag\w*|teil\w*|erzahl\w*|bitte|schreib\w*|uberzeug\w*|tausch\w*|melde\w*"
        r"|versicher\w*)\b.{0,25}\b(?:dem|den|der|die|einem) (?:richter\w*|prufer\w*|bewerter\w*"
        r"|korrektor\w*|gutachter\w*|bewertung\w*|verifizierer\w*|jury)\b"
    ),
    (
        r"\b(?:dis|dites|dire|demande[zr]?|convain\w*|ecri\w*|assure[zr]?|trompe[zr]?"
        r"|indique[zr]?)\b.{0,25}\b(?:juge|correcteur|verificateur|evaluateur|examinateur|notateur)\b"
    ),
    (
        r"\b(?:di|dile|diga\w*|decir|diz|diga|dica|convenc\w*|pid\w*|escrib\w*|engan\w*|informa\w*"
        r"|asegura\w*|di')\b.{0,25}\b(?:juez|evaluador|corrector|verificador|calificador|examinador|juiz"
        r"|avaliador|giudice|valutatore|correttore)\b"
    ),
    (
        r"(?:скаж\w*|сообщ\w*|убеди\w*|попрос\w*|напиш\w*|обман\w*).{0,25}(?:судь\w*|проверяющ\w*|оценщик\w*"
        r"|экзаменатор\w*|верификатор\w*|эксперт\w*)"
    ),
    r"(?:告诉|告訴|说服|通知|欺骗|提醒|请求|对|向).{0,6}(?:评委|裁判|评分|法官|评审|验证器|打分|评判|考官|审核|评估)",
)
_JUDGE_ACTS = HostileAct.of(
    QuarantineCode.SPEAKS_TO_JUDGE,
    (
        r"\b(?:der|die|ein) (?:richter|prufer|bewerter|korrektor|gutachter)\w* (?:soll|muss|wird|akzeptiert"
        r"|gibt|glaubt|liest|darf|sieht)\b"
    ),
    r"\ble (?:juge|correcteur|verificateur|evaluateur) (?:doit|accepte|donne|va|lit|veut|aime)\b",
    r"\bel (?:juez|evaluador|corrector|verificador) (?:debe|acepta|da|va|lee|quiere|prefiere)\b",
    (
        r"(?:судья|проверяющии|оценщик) (?:долж|прин|постав|вер|люб)\w*"
        r"|(?:评委|裁判|法官|评分员|验证器)(?:会|应该|应当|接受|喜欢|必须|只)"
    ),
)
_DATA = HostileAct.of(
    QuarantineCode.SENDS_DATA,
    (
        r"\b(?:send\w*|schick\w*|ubermittl\w*|leit\w*|lad\w*|mail\w*|gib|verrat\w*|zeig\w*"
        r"|veroffentlich\w*)\b.{0,50}\b(?:prompt\w*|passwort\w*|zugangsdaten|geheimnis\w*|api-?schlussel"
        r"|schlussel an|konversation|verlauf|daten an|alles an|antworten an|anweisungen an)\b|\b(?:sende"
        r"|schicke|ubermittle|leite)\b.{0,50}\b(?:server|adresse|angreifer|webhook|mail)\b"
    ),
    (
        r"\b(?:envoi\w*|transmet\w*|revel\w*|divulgu\w*|affiche[zr]?|publie[zr]?)\b.{0,50}\b(?:prompt"
        r"|mots? de passe|cles?|secrets?|identifiants|conversation|donnees|serveur|attaquant|instructions)\b"
    ),
    (
        r"\b(?:envi\w*|mand\w*|revel\w*|muestra\w*|public\w*|transmit\w*|mostr\w*|invi\w*"
        r"|rivel\w*)\b.{0,50}\b(?:prompt|contrasen\w*|claves?|credenciales|secretos?|conversacion|datos"
        r"|servidor|atacante|senhas?|dados|password|segreti|instrucciones)\b"
    ),
    (
        r"(?:отправ\w*|пришл\w*|перешл\w*|раскро\w*|покаж\w*|выведи\w*|опублику\w*|передаи\w*"
        r"|сообщи\w*).{0,50}(?:промпт\w*|парол\w*|ключ\w*|секрет\w*|данны\w*|сервер\w*|переписк\w*"
        r"|подсказк\w*|токен\w*)"
    ),
    (
        r"(?:发送|上传|發送|泄露|透露|公开|显示|输出|打印|发给|传给|转发).{0,20}(?:密码|密钥|提示词|提示"
        r"|服务器|密鑰|令牌|凭证|秘密|数据|对话|地址|邮箱|系统)|(?:把"
        r"|将).{0,20}(?:发送|上传|发到|发给|传到|泄露)"
    ),
)
_SECRETS = HostileAct.of(
    QuarantineCode.SEEKS_SECRETS,
    (
        r"\b(?:lies|lese|such\w*|kopier\w*|stiehl|stehl\w*|finde|offne|nenne|nutze)\b.{0,40}\b(?:passwort\w*"
        r"|passworter\w*|zugangsdaten|umgebungsvariable\w*|api-?schlussel|geheimnisse|musterlosung\w*"
        r"|losungsdatei\w*)\b"
    ),
    (
        r"\b(?:mots? de passe (?:de l|des|du|et|enregistre)|(?:donne|envoie|affiche|revele|lis|copie|utilise"
        r"|confie\w*|montre|tous)\w*\s(?:\w+\s){0,2}mots? de passe|cles? (?:api|secretes?|privees?)"
        r"|variables d'environnement|contrasenas?"
        r"|claves? (?:api|secretas?|privadas?)|variables de entorno|credenciales|senhas)\b"
    ),
    (
        r"парол(?:ь|и|еи)\b.{0,20}(?:пользовател|систем|админ)|переменн\w* окружени|ключ\w* api|环境变量"
        r"|密码|密钥|api密|パスワード"
    ),
)
_FILES = HostileAct.of(
    QuarantineCode.TOUCHES_FILES,
    (
        r"\b(?:losch\w*|entfern\w*|uberschreib\w*|zerstor\w*|formatier\w*|lies|lese|offne"
        r"|andere)\b.{0,30}\b(?:datei\w*|ordner\w*|verzeichnis\w*|datenbank\w*|festplatte\w*)\b"
    ),
    (
        r"\b(?:supprim\w*|efface[zr]?|detrui\w*|ecrase[zr]?|lis|lisez|ouvre[zr]?"
        r"|modifi\w*)\b.{0,30}\b(?:fichiers?|dossiers?|base de donnees|disque|repertoire)\b"
    ),
    (
        r"\b(?:borra\w*|elimina\w*|destru\w*|sobrescrib\w*|apag\w*|delet\w*|cancella\w*|lee|abre"
        r"|modifica\w*)\b.{0,30}\b(?:archivos?|ficheros?|carpetas?|base de datos|disco|arquivos?"
        r"|banco de dados|cartelle)\b"
    ),
    (
        r"(?:удал\w*|сотри\w*|уничтож\w*|перезапиш\w*|прочита\w*|откро\w*|измени\w*"
        r"|отформатир\w*).{0,30}(?:фаил\w*|файл\w*|папк\w*|баз\w* данных|диск\w*|каталог\w*)"
    ),
    (
        r"(?:删除|刪除|清空|格式化|覆盖|修改|读取|打开|销毁).{0,12}(?:文件|檔案|文件夹|数据库|硬盘|磁盘"
        r"|目录)|(?:ファイル|データベース).{0,6}(?:削除|消)|파일.{0,6}삭제"
    ),
)
_SABOTAGE = HostileAct.of(
    QuarantineCode.SABOTAGES,
    (
        r"\b(?:antwort\w*|gib|sag\w*|wahl\w*|nimm)\s(?:\w+\s)?(?:immer|stets|jedes mal"
        r"|grundsatzlich)\b.{0,20}(?:\d|null|\bja\b|\bnein\b|\b[a-e]\b|falsch|nichts|zufall\w*|unbekannt)"
        r"|\b(?:immer|stets)\b.{0,15}\b(?:\d+|null|[a-e]) antworten\b"
    ),
    (
        r"\b(?:uberspring\w*|unterlass\w*|vermeid\w*|verzicht\w* auf)\b.{0,20}\b(?:prufung|uberprufung"
        r"|kontrolle|rechnung|nachprufen|verifikation|probe)\b|\b(?:prufe|uberprufe|kontrolliere|verifiziere"
        r"|nutze|verwende|benutze|lies)\b.{0,20}\b(?:nie|niemals|nichts|keine werkzeuge|kein werkzeug)\b"
        r"|\b(?:nie|niemals)\b.{0,20}\b(?:prufen|uberprufen|nachrechnen|werkzeug\w*)\b|\b(?:absichtlich|gib"
        r"|wahle)\b.{0,20}\b(?:falsch\w*)\b.{0,12}\b(?:antwort\w*|ergebnis\w*|losung\w*)"
    ),
    (
        r"\brepond(?:s|ez|re)?\s(?:toujours|systematiquement)\b.{0,20}(?:\d|zero|\boui\b|\bnon\b|\b[a-e]\b"
        r"|faux|rien|hasard)|\bne (?:verifie[zr]?|controle[zr]?|utilise[zr]?|calcule[zr]?) (?:jamais|pas"
        r"|rien|plus)\b(?! (?:\w+ ){3})|\b(?:saute[zr]?|evite[zr]?) (?:la|les|toute) verification"
        r"|\bdonne[zr]? (?:\w+ )?(?:une )?(?:fausse|mauvaise) reponse"
    ),
    (
        r"\b(?:responde|contesta|conteste|responda|rispondi)\s(?:siempre|sempre)\b.{0,20}(?:\d|cero|zero"
        r"|\bsi\b|\bno\b|\b[a-e]\b|nada|azar)|\b(?:siempre|sempre) (?:responde|contesta|responda"
        r"|rispondi)\b.{0,20}(?:\d|cero|zero|\b[a-e]\b)|\b(?:no|nunca|jamas|nao|non) (?:verifi\w+"
        r"|compr(?:ueb|ob)\w+|revis\w+|us(?:es|e|ar) (?:la|las|el|los|ninguna) herramienta\w*)(?:\s(?:la|el"
        r"|tu|su|nada|nunca|respuesta|resultado|a|o|resposta))*(?=\s*(?:$|[.!;,]))"
        r"|\bda\w* (?:una )?respuesta (?:falsa|incorrecta|equivocada)"
    ),
    (
        r"(?:всегда отвеча\w*|отвеча\w* всегда).{0,20}|(?:не проверя\w*|никогда не проверя\w*"
        r"|пропус\w* проверк\w*|не использу\w* инструмент\w*|не реша\w* задач\w*)|(?:неверн|неправильн|ложн"
        r"|случаин)\w* ответ\w*(?=.{0,3}$)"
    ),
    (
        r"(?:总是|始终|一律|永远|都)(?:回答|答|输出|选|选择|回复)|(?:不要|跳过|无需|不用|不必|永远不要"
        r"|从不)(?:检查|验证|核实|验算|使用工具|计算|思考"
        r"|解题)(?=.{0,4}(?:$|[。.!,，]|答案|结果))|(?:给出|返回|输出).{0,6}(?:错误|随机"
        r"|假).{0,4}(?:答案|结果)|常に.{0,8}(?:答え|回答)"
        r"|항상.{0,10}(?:답|대답)"
    ),
    (
        r"(?:答案|正确答案)(?:是|就是|为|總是|总是|永远是)\s?[a-e\d]|(?:ответ|правильныи ответ)\s?(?:-|—"
        r"|был|равен|это)\s?\d"
        r"|\b(?:die antwort|la reponse|la respuesta|a resposta|la risposta|die losung) (?:ist|war|lautet|est"
        r"|etait|es|era|fue|e) (?:immer |toujours |siempre |sempre )?(?:\d+|[a-e])(?=\s*(?:$|[.!,;]))"
    ),
)
_CLINGS = HostileAct.of(
    QuarantineCode.CLINGS,
    (
        r"\b(?:behalt\w*|bewahr\w*|kopier\w*|losch\w*|entfern\w*|speicher\w*"
        r"|verbreit\w*)\b.{0,30}\b(?:diese\w*|alle\w*|andere\w*|anderen) (?:\w+ )?(?:lektion\w*|erfahrung\w*"
        r"|hinweis\w*|lehre\w*|regel\w*)\b"
    ),
    (
        r"\b(?:garde[zr]?|conserve[zr]?|copie[zr]?|supprim\w*|efface[zr]?|repete[zr]?)\b.{0,30}\b(?:cette"
        r"|ces|toutes|tous|autres) (?:\w+ )?(?:lecons?|experiences?|conseils?)\b"
    ),
    (
        r"\b(?:conserv\w*|guard\w*|manten\w*|copi\w*|borr\w*|elimin\w*)\b.{0,30}\b(?:esta|estas|todas|otras"
        r"|las demas) (?:\w+ )?(?:leccion\w*|experiencias?|consejos?|licao|licoes)\b"
    ),
    (
        r"(?:сохран\w*|копир\w*|удал\w*|не удаля\w*).{0,30}(?:эт\w* урок\w*|все урок\w*|друг\w* урок\w*"
        r"|все совет\w*|эт\w* совет\w*)|(?:保留|复制|删除|永久).{0,8}(?:这条|此|所有|其他|其它"
        r"|全部).{0,6}(?:经验|教训|课程|建议|规则)"
    ),
)

FOREIGN_ACTS = (_OVERRIDES, _JUDGE, _JUDGE_ACTS, _DATA, _SECRETS, _FILES, _SABOTAGE, _CLINGS)
