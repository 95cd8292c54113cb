"""Make conversations in 13 languages, and questions about them: the data that memories are measured with.

In each language, a user says 24 facts, one about each of six things in each of four ways, and an agent
answers. So every fact has many others that share its words: those of the same way, and those of the same
thing. Questions ask in other words and forms: *I booked* becomes *was I booking*; half of them name the thing
as it was said. Some answers of the agent name a thing, too. All of it is made here; the seed decides which
answers come, and the order.
"""
# ruff: noqa: RUF001  # texts of other scripts

import random
from dataclasses import dataclass
from typing import Final

from google.adk.events import Event
from google.adk.sessions import Session
from google.genai import types


@dataclass(frozen=True)
class Language:
    """What a user of one language says and asks; ``{x}`` stands for a thing."""

    facts: tuple[tuple[str, str], ...]
    """What is said, and how it is asked for."""
    things: tuple[tuple[str, str], ...]
    """A thing as it is said, and as it is asked for."""
    chatter: tuple[str, ...]
    """An agent's answers."""


@dataclass(frozen=True)
class Question:
    """A question and the event that answers it."""

    language: str
    text: str
    answer: str
    """Id of the event."""


LANGUAGES: Final = {
    "English": Language(
        facts=(
            ("I booked the {x} for Tuesday", "On which day was I booking that {x}?"),
            ("My neighbour repaired our {x} last winter", "Who did the repairs of the {x} that we have?"),
            ("The {x} cost me four hundred", "What were the costs that I had for my {x}?"),
            ("I promised Hanna to lend her the {x}", "To whom did I make promises about lending my {x}?"),
        ),
        things=tuple(
            (x, x + "s") for x in ("sailboat", "caravan", "accordion", "telescope", "greenhouse", "projector")
        ),
        chatter=(
            "Thank you, I have noted that about the {x} and will remind you in time.",
            "Shall I look for more offers in your area, or is this enough for now?",
            "Good morning! How can I help you today?",
        ),
    ),
    "German": Language(
        facts=(
            ("Ich habe die {x} für Dienstag gebucht", "An welchem Tag war die Buchung von meiner {x}?"),
            ("Mein Nachbar hat unsere {x} repariert", "Wer machte die Reparatur an der {x}, die wir haben?"),
            ("Die {x} hat mich vierhundert gekostet", "Was waren die Kosten, die ich für meine {x} hatte?"),
            ("Ich habe Hanna die {x} versprochen", "Wem gab ich das Versprechen wegen der {x}?"),
        ),
        things=(
            ("Ferienwohnung", "Wohnung"),
            ("Segeljacht", "Jacht"),
            ("Nähmaschine", "Maschine"),
            ("Standuhr", "Uhr"),
            ("Ziehharmonika", "Harmonika"),
            ("Werkstatt", "Werkstätte"),
        ),
        chatter=(
            "Danke, das mit der {x} habe ich notiert und erinnere dich rechtzeitig.",
            "Soll ich noch nach weiteren Angeboten in deiner Nähe suchen, oder reicht das?",
            "Guten Morgen! Wie kann ich dir heute helfen?",
        ),
    ),
    "French": Language(
        facts=(
            ("J'ai réservé la {x} pour mardi", "Pour quel jour était la réservation de ma {x} ?"),
            ("Mon voisin a réparé notre {x}", "Qui s'est occupé des réparations de la {x} que nous avons ?"),
            ("La {x} m'a coûté quatre cents", "Quels étaient les coûts que j'ai eus avec ma {x} ?"),
            ("J'ai promis de prêter la {x} à Hanna", "À qui ai-je fait la promesse d'un prêt de ma {x} ?"),
        ),
        things=(
            ("péniche", "peniche"),
            ("caméra", "camera"),
            ("tondeuse", "tondeuses"),
            ("roulotte", "roulottes"),
            ("guitare", "guitares"),
            ("échelle", "echelles"),
        ),
        chatter=(
            "Merci, j'ai bien noté cela pour la {x} et je vous le rappellerai à temps.",
            "Dois-je chercher d'autres offres près de chez vous, ou cela suffit-il ?",
            "Bonjour ! Comment puis-je vous aider aujourd'hui ?",
        ),
    ),
    "Spanish": Language(
        facts=(
            ("Reservé la {x} para el martes", "¿Para qué día era la reserva de mi {x}?"),
            ("Mi vecino reparó nuestra {x}", "¿Quién hizo la reparación de la {x} que tenemos?"),
            ("La {x} me costó cuatrocientos", "¿Cuáles fueron los costes que tuve con mi {x}?"),
            ("Prometí prestarle la {x} a Hanna", "¿A quién hice la promesa de un préstamo de mi {x}?"),
        ),
        things=(
            ("cámara", "camaras"),
            ("guitarra", "guitarras"),
            ("carretilla", "carretillas"),
            ("canoa", "canoas"),
            ("lámpara", "lamparas"),
            ("escalera", "escaleras"),
        ),
        chatter=(
            "Gracias, he anotado lo de la {x} y te lo recordaré a tiempo.",
            "¿Busco más ofertas cerca de ti, o con esto es suficiente?",
            "¡Buenos días! ¿En qué puedo ayudarte hoy?",
        ),
    ),
    "Russian": Language(
        facts=(
            ("Я забронировал {x} на вторник", "На какой день у меня бронь с {x}?"),
            ("Сосед починил {x} прошлой зимой", "Кто занимался починкой, когда мы пришли с {x}?"),
            ("Я заплатил за {x} четыреста рублей", "Какой была моя плата, когда я был с {x}?"),
            ("Я обещал Ханне {x} на лето", "Кому я дал обещание, когда был с {x}?"),
        ),
        things=(
            ("палатку", "палаткой"),
            ("гитару", "гитарой"),
            ("камеру", "камерой"),
            ("мастерскую", "мастерской"),
            ("лодку", "лодкой"),
            ("теплицу", "теплицей"),
        ),
        chatter=(
            "Спасибо, про {x} я записал и вовремя напомню вам.",
            "Поискать ещё предложения рядом с вами, или этого достаточно?",
            "Доброе утро! Чем я могу помочь вам сегодня?",
        ),
    ),
    "Polish": Language(
        facts=(
            ("Zarezerwowałem {x} na wtorek", "Na jaki dzień mam rezerwację z {x}?"),
            ("Sąsiad naprawił {x} zeszłej zimy", "Kto zrobił naprawę, kiedy byliśmy z {x}?"),
            ("Zapłaciłem za {x} czterysta złotych", "Jaka była zapłata, kiedy byłem z {x}?"),
            ("Obiecałem Hannie {x} na lato", "Komu dałem obietnicę, kiedy byłem z {x}?"),
        ),
        things=(
            ("łódkę", "lodka"),
            ("gitarę", "gitara"),
            ("kosiarkę", "kosiarka"),
            ("przyczepę", "przyczepa"),
            ("lunetę", "luneta"),
            ("drabinę", "drabina"),
        ),
        chatter=(
            "Dziękuję, zanotowałem to o {x} i przypomnę w porę.",
            "Czy mam szukać innych ofert w okolicy, czy to wystarczy?",
            "Dzień dobry! W czym mogę dzisiaj pomóc?",
        ),
    ),
    "Turkish": Language(
        facts=(
            ("Salı günü için {x} ayırttım", "{x} ayırtmam hangi gün için olmuştu?"),
            ("Komşum geçen kış {x} tamir etti", "{x} tamiri için bize kim yardım etmişti?"),
            ("{x} bana dört yüze mal oldu", "{x} için maliyeti ne kadar olmuştu?"),
            ("Hanna'ya {x} söz verdim", "{x} için kime verdiğim bir sözüm vardı?"),
        ),
        things=(
            ("karavanı", "karavanımın"),
            ("gitarı", "gitarımın"),
            ("teleskobu", "teleskobumun"),
            ("yelkenliyi", "yelkenlimin"),
            ("merdiveni", "merdivenimin"),
            ("kamerayı", "kameramın"),
        ),
        chatter=(
            "Teşekkürler, {x} not ettim ve zamanında hatırlatacağım.",
            "Yakınınızda başka teklifler arayayım mı, yoksa bu yeterli mi?",
            "Günaydın! Bugün size nasıl yardımcı olabilirim?",
        ),
    ),
    "Greek": Language(
        facts=(
            ("Έκλεισα {x} για την Τρίτη", "Για ποια μέρα είναι το κλείσιμο, με {x};"),
            ("Ο γείτονας επισκεύασε {x} τον χειμώνα", "Ποιος έκανε την επισκευή, όταν ήμασταν με {x};"),
            ("Πλήρωσα για {x} τετρακόσια ευρώ", "Ποια ήταν η πληρωμή, όταν ήμουν με {x};"),
            ("Υποσχέθηκα στη Χάνα {x} για το καλοκαίρι", "Σε ποια έδωσα την υπόσχεση, με {x};"),
        ),
        things=(
            ("την κιθάρα", "κιθαρες"),
            ("την κάμερα", "καμερες"),
            ("τη βάρκα", "βαρκες"),
            ("τη σκηνή", "σκηνες"),
            ("τη σκάλα", "σκαλες"),
            ("το τηλεσκόπιο", "τηλεσκοπια"),
        ),
        chatter=(
            "Ευχαριστώ, σημείωσα {x} και θα σας το θυμίσω εγκαίρως.",
            "Να ψάξω κι άλλες προσφορές κοντά σας, ή αρκούν αυτές;",
            "Καλημέρα! Πώς μπορώ να σας βοηθήσω σήμερα;",
        ),
    ),
    "Hindi": Language(
        facts=(
            ("मैंने मंगलवार के लिए {x} बुक किया", "मेरी {x} की बुकिंग किस दिन के लिए थी?"),
            ("पड़ोसी ने सर्दियों में {x} ठीक किया", "मेरी {x} को किस ने ठीक करवाया था?"),
            ("मैंने {x} पर चार सौ रुपये खर्च किए", "मेरी {x} का खर्चा क्या था?"),
            ("मैंने हन्ना को {x} देने का वादा किया", "मेरी {x} के वादे किस से थे?"),
        ),
        things=(
            ("गिटार", "गिटारों"),
            ("दूरबीन", "दूरबीनों"),
            ("नाव", "नावों"),
            ("सीढ़ी", "सीढ़ियों"),
            ("कैमरा", "कैमरों"),
            ("साइकिल", "साइकिलों"),
        ),
        chatter=(
            "धन्यवाद, {x} के बारे में मैंने लिख लिया है और समय पर याद दिलाऊँगा।",
            "क्या मैं आपके पास और प्रस्ताव खोजूँ, या इतना काफ़ी है?",
            "सुप्रभात! आज मैं आपकी क्या मदद कर सकता हूँ?",
        ),
    ),
    "Japanese": Language(
        facts=(
            ("火曜日に{x}を予約しました", "{x}の予約はいつでしたか"),
            ("去年の冬、隣の人が{x}を修理してくれた", "{x}の修理は誰がやってくれましたか"),
            ("{x}には四百ユーロ払った", "{x}の支払いはいくらでしたか"),
            ("ハンナに{x}を貸すと約束した", "{x}を貸す約束は誰としましたか"),
        ),
        things=(
            ("中古の望遠鏡", "望遠鏡"),
            ("赤いヨット", "ヨット"),
            ("古い自転車", "自転車"),
            ("白い温室", "温室"),
            ("祖父の時計", "時計"),
            ("青いテント", "テント"),
        ),
        chatter=(
            "ありがとうございます。{x}のことはメモしました。時間になったらお知らせします。",
            "お近くの他の情報も探しましょうか、それともこれで十分ですか。",
            "おはようございます。今日はどのようなご用件でしょうか。",
        ),
    ),
    "Chinese": Language(
        facts=(
            ("我订了{x},星期二去取", "我是哪一天预订{x}的?"),
            ("去年冬天邻居修好了{x}", "谁帮我们修理了{x}?"),
            ("我买{x}花了四百块", "我买{x}的花费是多少?"),
            ("我答应把{x}借给汉娜", "我答应过借{x}给谁?"),
        ),
        things=(
            ("那台天文望远镜", "望远镜"),
            ("那把旧吉他", "吉他"),
            ("那艘小帆船", "帆船"),
            ("那顶蓝帐篷", "帐篷"),
            ("那辆自行车", "自行车"),
            ("那台投影仪", "投影仪"),
        ),
        chatter=(
            "谢谢,关于{x}的事我记下了,到时候会提醒您。",
            "要我在附近再找一些优惠吗,还是这些就够了?",
            "早上好!今天有什么可以帮您的吗?",
        ),
    ),
    "Korean": Language(
        facts=(
            ("화요일에 {x}을 예약했어요", "제가 예약한 {x}은 무슨 요일이었나요?"),
            ("이웃이 지난겨울에 {x}을 수리했어요", "수리된 {x}은 누가 고쳐 주었나요?"),
            ("{x}에 사백 유로를 썼어요", "제가 쓴 {x}의 비용은 얼마였나요?"),
            ("한나에게 {x}을 빌려주기로 약속했어요", "빌려주겠다는 {x}의 약속은 누구와 했나요?"),
        ),
        things=(
            ("망원경", "망원경"),
            ("자전거", "자전거"),
            ("요트", "요트"),
            ("텐트", "텐트"),
            ("기타", "기타"),
            ("사다리", "사다리"),
        ),
        chatter=(
            "감사합니다, {x}에 대한 내용을 적어 두었고 제때 알려 드릴게요.",
            "근처에서 다른 상품도 찾아볼까요, 아니면 이 정도면 충분할까요?",
            "좋은 아침입니다! 오늘은 무엇을 도와드릴까요?",
        ),
    ),
    "Thai": Language(
        facts=(
            ("ฉันจอง{x}ไว้วันอังคาร", "การจอง{x}ของฉันเป็นวันไหน"),
            ("เพื่อนบ้านซ่อม{x}เมื่อฤดูหนาว", "ใครเป็นคนซ่อมแซม{x}ให้เรา"),
            ("ฉันจ่ายค่า{x}ไปสี่ร้อย", "ค่าใช้จ่ายของ{x}เป็นเท่าไหร่"),
            ("ฉันสัญญาว่าจะให้ฮันนายืม{x}", "คำสัญญาให้ยืม{x}ฉันให้ไว้กับใคร"),
        ),
        things=(
            ("กีตาร์ตัวเก่า", "กีตาร์"),
            ("เรือใบสีขาว", "เรือใบ"),
            ("เต็นท์สีแดง", "เต็นท์"),
            ("จักรยานคันใหม่", "จักรยาน"),
            ("กล้องดูดาว", "กล้อง"),
            ("บันไดไม้", "บันได"),
        ),
        chatter=(
            "ขอบคุณค่ะ บันทึกเรื่อง{x}ไว้แล้ว และจะเตือนให้ทันเวลา",
            "ให้ค้นหาข้อเสนออื่นใกล้คุณเพิ่มไหม หรือเท่านี้ก็พอแล้ว",
            "สวัสดีตอนเช้า วันนี้มีอะไรให้ช่วยไหมคะ",
        ),
    ),
}


def conversations(name: str, *, chatter: int = 100, seed: int = 1) -> tuple[list[Session], list[Question]]:
    """Return a user's sessions in a language, of so many answers, and the questions about them."""
    chance = random.Random(f"{seed} {name}")  # noqa: S311  # data, no secret
    language = LANGUAGES[name]
    statements: list[Event] = []
    questions: list[Question] = []
    for said, asked in language.facts:
        for number, (thing, again) in enumerate(language.things):
            event = _event("user", said.format(x=thing))
            statements.append(event)
            # Every other question names the thing as it was said.
            questions.append(Question(name, asked.format(x=again if number % 2 else thing), event.id))
    answers = [
        _event("agent", chance.choice(language.chatter).format(x=chance.choice(language.things)[0]))
        for _ in range(chatter)
    ]
    turns = [*statements, *answers]
    chance.shuffle(turns)
    sessions = [
        Session(id=f"{name}-{number}", app_name="bench", user_id=name, events=turns[at : at + 20])
        for number, at in enumerate(range(0, len(turns), 20))
    ]
    return sessions, questions


def _event(author: str, text: str) -> Event:
    role = "user" if author == "user" else "model"
    return Event(author=author, content=types.Content(role=role, parts=[types.Part(text=text)]))
