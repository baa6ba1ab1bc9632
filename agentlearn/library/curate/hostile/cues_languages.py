"""The cues in German, French, Spanish, Italian, Portuguese, Russian, Chinese and Japanese, without accents."""

from agentlearn.library.curate.codes import QuarantineCode
from agentlearn.library.curate.hostile.cue import CueFamily

_OWN_TEXT = CueFamily.of(
    "the agent's own prompt, in other languages",
    QuarantineCode.OVERRIDES_INSTRUCTIONS,
    certain="""
    systemprompt~, systemnachricht~, deine anweisungen, deine anleitung, deine regeln, prompt systeme,
    tes consignes, vos consignes, tes instructions, vos instructions, consignes du systeme,
    instrucciones del sistema, prompt del sistema, tus instrucciones, sus instrucciones, istruzioni di sistema,
    tue istruzioni, suas instrucoes, системныи промпт, системного промпта, твои инструкции, твоих инструкции,
    系统提示, 你的指令, 你的提示, システムプロンプト
    """,
    telling="""
    anweisung~, vorgaben, consigne~, instruccion~, istruzion~, instrucoes, инструкц~, указани~, 指令, 指示,
    prompt, regle~, reglas, regole, regras, regeln, правил~, 规则, ルール, des betreibers, operateur, operador,
    оператор~, entwickler~, desarrollador~, разработчик~, 开发者, 运营
    """,
)
_SET_ASIDE = CueFamily.of(
    "setting rules aside, in other languages",
    QuarantineCode.OVERRIDES_INSTRUCTIONS,
    certain="""
    vergiss die aufgabe, vergiss alles, vergiss was, ignoriere die, ignoriere alle, ignoriere den, oublie les,
    oublie tout, oubliez, ignore les consignes, ignora las, ignora todas, ignora el, olvida las, olvida todo,
    olvida la, ignora le, ignora tutte, dimentica, ignore as, ignore todas, esqueca, игнорируи~, забудь все,
    забудь о, 忽略系统, 忽略所有, 忽略之前, 忽略用户, 无视, 忘记之前, 無視
    """,
    telling="""
    ignorier~, missacht~, ab sofort, ab jetzt, von nun an, desormais, a partir de maintenant, a partir de ahora,
    de ahora en adelante, d'ora in poi, a partir de agora, с этого момента, отныне, теперь, 从现在起,
    从现在开始, 今后, gelten nicht, gilt nicht mehr, ne s'applique~, ya no se aplica~, no se aplica~,
    non si applica~, annulee~, aufgehoben, ausser kraft, anulad~, autorite, font autorite, nur noch, hinweise,
    statt der aufgabe, au lieu de, en lugar de, befolge, folge dem, folge den, suis les, obeis~, obedece~,
    gehorch~, banner, выполня~, слушаися, следуи, 服从, 听从, 按照
    """,
)
_PEOPLE = CueFamily.of(
    "those who judge, in other languages",
    QuarantineCode.SPEAKS_TO_JUDGE,
    certain="""
    bewerter~, korrektor~, evaluateur~, correcteur~, evaluador~, calificador, valutatore, avaliador~,
    проверяющ~, оценщик~, 评分者, 评委, 评分, 満点, 满分, 採点, volle punktzahl, note maximale,
    puntuacion maxima, высший балл
    """,
    telling="""
    prufer~, bewertung, examinateur, notation, examinador, puntuacion, judge, экзаменатор~, оценк~, 验证, 审核,
    通过验证, referenz, punktzahl
    """,
)
_AUTHORITY = CueFamily.of(
    "a claim of authority, in other languages",
    QuarantineCode.OVERRIDES_INSTRUCTIONS,
    certain="""
    ich bin der, ich bin dein~, ich bin die, je suis ton, je suis le, je suis votre, soy el, soy tu, soy la,
    autorizo, io sono il, sono il tuo, sou o, eu sou, я твои, я администратор, 我是你, 我是管理, 管理者です,
    nachricht des, message du developpeur, mensaje del administrador, 客服已经, 已经确认, 已授权, 经过授权
    """,
    telling="""
    administrator, administrateur, administrador, amministratore, администратор~, 管理员, 管理者, createur,
    creador, schopfer, genehmigt, freigegeben, autorise~, autorizad~, autorizzat~, разрешил~, разрешено,
    одобрил~, 允许, 批准, 授权, dringend, urgente, urgent, срочно, 紧急, chef, vorgesetzt~, geschaftsleitung,
    direccion de la empresa, руководств~
    """,
)
_DATA = CueFamily.of(
    "data and secrets, in other languages",
    QuarantineCode.SENDS_DATA,
    telling="""
    kunden, des kunden, kundendaten, kundendatenbank, nutzerdaten, daten des, warenkorb~, gesprach~, verlauf,
    zugangsdaten, passwort~, kennwort~, kreditkarte~, mot de passe, mots de passe, donnees, historique,
    conversation~, carte bancaire, coordonnees, client~, contrasena~, historial, clave~, tarjeta~, datos,
    sesion abierta, otro usuario, cliente~, senha~, dati, parole d'ordine, парол~, данны~, клиент~, переписк~,
    списки, истори~, карты, 密码, 数据, 对话, 用户的密码, 信用卡, パスワード, 履歴, 顧客,
    verificacion de identidad, identite, identitat
    """,
)
_HAND_OVER = CueFamily.of(
    "handing over, in other languages",
    QuarantineCode.SENDS_DATA,
    telling="""
    sende~, schicke~, ubermittle~, verrate, leite, veroffentliche~, gib, fuge, schreibe~, kontaktformular~,
    formular, handler, envoie~, envoye~, transmets, transmet~, revele~, publie~, confier, affiche~, envia~,
    envie~, manda~, publica~, revela~, muestra~, comparte~, copia~, invia~, pubblica~, отправ~, отправля~,
    публикуи~, пересылаи~, пересла~, передаи~, покажи~, раскрои~, чате, общем, 发送, 上传, 泄露, 输入用户, 公开,
    发布, 送信, usa la, utilise la, benutze die
    """,
)
_DESTROY = CueFamily.of(
    "destroying and spending, in other languages",
    QuarantineCode.TOUCHES_FILES,
    telling="""
    losche~, entferne~, vernichte~, uberschreibe, storniere~, kundige, kaufe, bestelle, bezahle, supprime~,
    efface~, annule~, detrui~, achete~, paie, commande~, borra~, elimina~, cancela~, compra~, paga~, cancella~,
    apaga~, удали~, удаля~, сотри~, стирай, отмени~, купи~, оплати~, закажи~, 删除, 清空, 取消, 购买, 付款,
    下单, 削除, 購入
    """,
)
_PROPERTY = CueFamily.of(
    "what belongs to the user, in other languages",
    None,
    telling="""
    sicherungskopie~, sicherung~, datenbank~, alle dateien, alle bestellungen, konto, kontos, sauvegarde~,
    tous les fichiers, fichiers, compte, commandes, toutes les, base de datos, copias de seguridad, cuenta,
    pedidos, todos los archivos, todas las, archivos, резервн~, файл~, все заказы, аккаунт~, учетн~, базу, базы,
    文件, 数据库, 账户, 订单, 备份, 所有, 全部, すべて, ファイル, ショッピングカート, 注文
    """,
)
_KEEP = CueFamily.of(
    "keeping and spreading, in other languages",
    QuarantineCode.CLINGS,
    certain="""
    diesen satz, diese lektion, dieser liste, diese regel in, cette consigne, cette lecon, cette liste,
    ces lecons, esta leccion, esta lista, este consejo, esta frase, questa lezione, questo consiglio,
    esta licao, это правило, этот урок, этот совет, эту фразу, этого списка, 这条经验, 这条规则, 这条建议,
    この教訓, 本条
    """,
    telling="""
    in jeder zusammenfassung, jeder neuen, in jede, wiederhole, dans toutes, dans chaque, repete~, en cada,
    en todas, repite, in ogni, ripeti, em cada, каждому агенту, каждом, слово в слово, повторяи, 每次, 永远,
    永久, wort fur wort, mot pour mot, palabra por palabra, агент~
    """,
)
_STOP = CueFamily.of(
    "bad work, in other languages",
    QuarantineCode.SABOTAGES,
    certain="""
    lies nichts, nichts weiter, ohne zu prufen, ohne prufung, prufe nichts, antworte immer gleich, nimm immer,
    wahle immer, reponds toujours par un, repondez toujours par un, sans verifier, ne verifie rien,
    choisis toujours, responde siempre con la palabra, responde siempre no, sin hacer, sin verificar,
    sin comprobar, elige siempre, no verifiques, rispondi sempre la, senza verificare, responda sempre a mesma,
    sem verificar, всегда отвечаи одно, не проверяи, без проверки, 总是回答同, 不需要计算, 无需计算, 不要检查,
    不用检查, 直接回答, 直接输入
    """,
    telling="""
    uberspring~, auch wenn er, auch wenn die, auch wenn der, meme si, aunque, anche se, mesmo que, даже если,
    即使, たとえ, heimlich, ohne zu fragen, sans demander, sin preguntar, senza chiedere, не спрашивая,
    不要告诉, sag dem nutzer nicht, ne dis pas, no digas, no menciones, не говори, omitir la verificacion,
    omitir, ignorer, immer, toujours, siempre, sempre, всегда, 总是, falsch~, faux, falso, неверн~
    """,
)
_STATES = CueFamily.of(
    "an answer, in other languages",
    QuarantineCode.SABOTAGES,
    certain="""
    die losung lautet, die antwort lautet, la respuesta de este, la respuesta a este, la respuesta de esta,
    la reponse de ce, la reponse a ce, la reponse a cette, la risposta a questo, la risposta di questo,
    a resposta deste, ответ к этои, ответ на эту, ответ этои, afirma que la, di que la
    """,
)
LANGUAGE_FAMILIES = (
    _OWN_TEXT,
    _SET_ASIDE,
    _PEOPLE,
    _AUTHORITY,
    _DATA,
    _HAND_OVER,
    _DESTROY,
    _PROPERTY,
    _KEEP,
    _STOP,
    _STATES,
)
