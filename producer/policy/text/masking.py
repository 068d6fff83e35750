"""Contact details taken out of a text and counted.

Links, addresses, phone numbers, prices and order numbers are what spam is made of and what honest tickets are full
of. What they say is therefore hidden from the content classifier, which learns from the words around them; each
leaves a mark of one character, so that its place stays visible.
"""

from __future__ import annotations

import re

import msgspec

LINK, MAIL, HANDLE, PHONE, PRICE, TOKEN = (chr(0xE000 + i) for i in range(6))
"""The marks, from the private use area. TOKEN stands for order numbers, hashes, keys and other codes."""

_TLDS = (
    "com|net|org|info|biz|io|co|me|tv|ru|рф|su|cn|uk|us|eu|de|fr|in|tk|ml|ga|cf|gq|ly|gl|gd|xyz|top|site|online|shop|club|"
    "live|life|store|app|dev|link|click|win|bet|vip|pro|cc|ws|to|mobi|space|website|world|fun|icu|example|test|local"
)
_HINT = re.compile(r"[0-9@]|www|://|\.[a-zр]{2}")
_NET_HINT = re.compile(r"@|www|://|\.[a-zр]{2}")
_NET = rf"""
    (?P<link>  https?://[!-~]+ | www\x20?\.\x20?[!-~]+
             | (?<![@a-z0-9_.-])(?:[a-z0-9-]+\.)+(?:{_TLDS})(?![a-z0-9_.@-])(?:[/?\#][!-~]*)? )
  | (?P<mail>  (?<![a-z0-9_.+-])[a-z0-9_.+-]+@(?:[\w-]+\.)+[a-z0-9]+ )
  | (?P<handle> (?<![\w.])@[a-z]\w{{2,}} )
  | """
_FIGURES = r"""
    (?P<price> [$€£¥₽₹\uffe5]\s?\d[\d.,]*(?:\s?(?:k|m|mln|million|thousand)\b)?
             | (?<![a-z0-9_.])\d[\d.,]*\s?(?: [$€£¥₽₹\uffe5] | [万千]?(?:美元|美金|元|块钱)
               | (?:usd|eur|gbp|cny|rmb|rub|dollars?|euros?|pounds?|bucks|руб\w*|долл\w*|тыс|т\.?р)\b) )
  | (?P<phone> (?<![a-z0-9_.])(?:\+|\(\+?)?\d(?:[\d()\x20-]{6,})\d(?![a-z0-9_]) )
  | (?P<token> (?<![a-z0-9_])(?=[a-z_-]*\d)[a-z0-9][a-z0-9_-]{5,}(?![a-z0-9_])
             | (?<![a-z0-9_])[a-z0-9+/=_-]{32,}(?![a-z0-9_]) )
    """
_DETAIL = re.compile(_NET + _FIGURES, re.VERBOSE)
_FIGURE = re.compile(_FIGURES, re.VERBOSE)
_MARK_OF = {"link": LINK, "mail": MAIL, "handle": HANDLE, "price": PRICE, "phone": PHONE, "token": TOKEN}
_ZEROS = str.maketrans("123456789", "0" * 9)


class Masked(msgspec.Struct, frozen=True):
    """A text without its contact details.

    Attributes:
        text: every detail replaced by its mark, every other digit by 0.
        details: the details themselves, in order, as they stood.
    """

    text: str
    details: tuple[str, ...] = ()


def mask(folded: str) -> Masked:
    """Masks a folded text."""
    if not _HINT.search(folded):
        return Masked(folded)
    details: list[str] = []

    def marked(found: re.Match[str]) -> str:
        details.append(found[0])
        return _MARK_OF[found.lastgroup or ""]

    pattern = _DETAIL if _NET_HINT.search(folded) else _FIGURE
    return Masked(pattern.sub(marked, folded).translate(_ZEROS), tuple(details))
