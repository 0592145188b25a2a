"""How a text is written: its script, its language, and whether an encoding was mistaken for another."""

from __future__ import annotations

import re
from collections import Counter

_LOOK = 300  # signs of a text that tell its script and its language
_WORDS = 5  # frequent words, at least, that tell a language
_AHEAD = 2  # times as many words as of any other language
_SCRIPTS = {
    "Greek": (0x370, 0x3FF),
    "Cyrillic": (0x400, 0x52F),
    "Hebrew": (0x590, 0x5FF),
    "Arabic": (0x600, 0x77F),
    "Devanagari": (0x900, 0x97F),
    "Thai": (0xE00, 0xE7F),
    "Japanese": (0x3040, 0x30FF),
    "Chinese": (0x4E00, 0x9FFF),
    "Korean": (0xAC00, 0xD7AF),
}
_FREQUENT = {
    "English": "the of and to in is that it was for with on are this be at not have from you",
    "German": "der die und das ist nicht ein eine zu mit den auf für sich dem im auch von wird des",
    "French": "le la les et des est une un que dans pour qui pas sur au du avec ce il sont",
    "Spanish": "el la los las que y en un una es por con para del se no su lo como más",
    "Italian": "il di che la e un una per non è con del sono della le si gli nel anche come",
    "Portuguese": "o a os as que e do da em um uma para com não é por dos na no mais",
    "Dutch": "de het een en van is dat niet op te zijn voor met die in er aan ook als bij",
}
_FREQUENT_WORDS = {language: frozenset(words.split()) for language, words in _FREQUENT.items()}
_LATIN = re.compile(r"[^\W\d_]+")
# UTF-8 that was read as Windows-1252: a letter of two or three bytes begins with one of these signs.
_MISREAD = re.compile("[ÂÃÄÅÐÑâã][\u0080-\u00bf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]")
LOST = "\ufffd"


def script_of(text: str) -> str:
    """Name the script of most letters in the beginning of a text.

    >>> script_of("größer"), script_of("больше"), script_of("12 + 3")
    ('Latin', 'Cyrillic', '')
    """
    start = text[:_LOOK]
    if start.isascii():
        return "Latin" if any(sign.isalpha() for sign in start) else ""
    counts = Counter(_script(ord(sign)) for sign in start if sign.isalpha())
    if counts["Japanese"] and counts["Chinese"]:
        counts["Japanese"] += counts.pop("Chinese")
    return counts.most_common(1)[0][0] if counts else ""


def _script(code: int) -> str:
    if code < 0x250:
        return "Latin"
    return next((name for name, (low, high) in _SCRIPTS.items() if low <= code <= high), "another script")


def language_of(text: str) -> str:
    """Guess the language of a text in Latin script from its frequent words.

    >>> language_of("The cat sat on the mat, and it was not happy with that at all.")
    'English'
    >>> language_of("Die Katze ist nicht auf dem Dach, und das Haus ist mit der Tür zu.")
    'German'
    """
    words = _LATIN.findall(text[:_LOOK].lower())
    counts = sorted(
        ((sum(word in frequent_words for word in words), name) for name, frequent_words in _FREQUENT_WORDS.items()),
        reverse=True,
    )
    (most, name), (second, _) = counts[:2]
    return name if most >= _WORDS and most >= _AHEAD * second else ""


def misread(text: str) -> str | None:
    """Undo the reading of UTF-8 as Windows-1252, once.

    >>> misread("CafÃ©"), misread("Café"), misread("donâ€™t")
    ('Café', None, 'don’t')
    """
    if not _MISREAD.search(text):
        return None

    def back(match: re.Match[str]) -> str:
        return _bytes(match[0]).decode("utf-8")

    try:
        mended = re.sub(r"[^\x00-\x7f]+", back, text)
    except UnicodeError:
        return None
    return mended if mended != text else None


def _bytes(text: str) -> bytes:
    """The bytes that Windows-1252 shows as this text; the five it has no sign for are often kept as they are."""
    return b"".join(sign.encode("latin-1") if "\x80" <= sign <= "\x9f" else sign.encode("cp1252") for sign in text)
