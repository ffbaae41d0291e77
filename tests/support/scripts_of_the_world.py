"""Two hundred prompts in many scripts: characters of several tokens, of several code points, from right to left."""

TEXTS = (
    "😀😃😄 means",
    "👩‍👩‍👧 is a family, 🏳️‍🌈 is a flag and 👍🏽 is",
    "🇫🇷 🇩🇪 🇯🇵 are the flags of",
    "东京是日本的首都，北京是",
    "漢字と仮名を使う言葉は",
    "한국의 수도는 서울이고, 일본의 수도는",
    "שלום עולם, מה שלומך",
    "مرحبا بالعالم، كيف",
    "سلام دنیا! امروز",
    "Москва — столица России, а Париж — столица",
    "Ζεύς, Ἥρα καὶ Ποσειδῶν",
    "नमस्ते दुनिया, आप कैसे",
    "สวัสดีชาวโลก วันนี้",
    "cafe\u0301, nai\u0308ve, man\u0303ana:",
    "Zażółć gęślą jaźń, Đường phố Hà Nội",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 and 𝒎𝒂𝒕𝒉: ∑∫√∞ ≠",
    "♔♕♖♗♘♙ and ☀☁☂☃:",
    "Z̷̢̛a̶l̵g̸o̷ text is",
    "አማርኛ ሰላም ለዓለም",
    "ಕನ್ನಡ ತಮிழ் తెలుగు",
)
REQUESTS = (
    "{}",
    "Repeat exactly, three times: {}",
    "{} {} {}",
    "Translate into English and back: {}",
    "List:\n1. {}\n2. {}\n3.",
    "She wrote: “{}” And he answered: “",
    '{{"text": "{}", "again": "',
    "Each character of {} on a line of its own:\n",
    "Q: What does {} say?\nA:",
    "A poem that begins with {}\n\n",
)
PROMPTS = tuple(request.replace("{}", text).replace("{{", "{") for text in TEXTS for request in REQUESTS)
