"""Floods made to order: twenty kinds that say nothing new, and drips of near-copies from many senders.

None of what is sold here is sold in the written lessons: the gate is judged on phrases that it was not taught.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from ops.gate.details import DETAILS
from ops.gate.seeds import patterns

_EN = patterns("floods_en")
_ZH = patterns("floods_zh")
_WORDS = ("deal", "bonus", "now", "cash", "star", "club", "lucky", "join", "promo", "fast", "win", "gold", "extra")
_ZH_WORDS = ("优惠", "现在", "加群", "红包", "抢购", "代理", "低价", "福利", "新款", "速来")
_EMOJI = "🔥💰🎁🚀😂👉✅💎🎉❤👍😍🤑⭐🙏💥"
_FACES = str.maketrans({"a": "а", "e": "е", "o": "о", "p": "р", "c": "с", "x": "х", "i": "і", "s": "ѕ"})
_INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"
_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_PILE = "".join(chr(code) for code in range(0x300, 0x36F))

Make = Callable[[random.Random], str]


def flood(kind: str, chance: random.Random) -> str:
    """One text of a kind in KINDS."""
    return KINDS[kind](chance)


def drip(base: str, chance: random.Random) -> str:
    """A copy of a text with small changes: another number, a word left out or doubled, another ending or greeting."""
    words = base.split(" ")
    spaced = len(words) > 4
    for _ in range(chance.randint(0, 2)):
        place = chance.randrange(len(words)) if spaced else 0
        change = chance.randrange(4)
        if change == 0 and spaced:
            words.pop(place)
        elif change == 1 and spaced:
            words[place] = chance.choice((words[place].upper(), words[place] + chance.choice("s!.,")))
        elif change == 2:
            words[-1] += chance.choice(("!", "!!", ".", "~", " :)", "。", "！"))
        else:
            words[0] = f"{chance.choice(('', '', 'hi ', '> ', '【', '- '))}{words[0]}"
    return " ".join(words) + chance.choice(("", "", f" {chance.randint(1, 9999)}", f" #{chance.getrandbits(20):x}"))


def _repeated(phrases: Sequence[str], between: Sequence[str]) -> Make:
    def make(chance: random.Random) -> str:
        phrase, gap = chance.choice(phrases), chance.choice(between)
        return gap.join([phrase] * chance.randint(max(4, 70 // len(phrase)), 60))

    return make


def _numbered(chance: random.Random) -> str:
    phrase = chance.choice(_EN + _ZH)
    return "\n".join(f"{phrase} {number}" for number in range(chance.randint(8, 40)))


def _two_tongues(chance: random.Random) -> str:
    return " ".join([chance.choice(_EN) + chance.choice(_ZH)] * chance.randint(4, 20))


def _letters_at_random(chance: random.Random) -> str:
    return " ".join(_jumble(chance, "abcdefghijklmnopqrstuvwxyz", 3, 11) for _ in range(chance.randint(8, 40)))


def _cyrillic_at_random(chance: random.Random) -> str:
    return " ".join(_jumble(chance, "абвгдежзийклмнопрстуфхцчшщъыьэюя", 4, 11) for _ in range(chance.randint(8, 30)))


def _han_at_random(chance: random.Random) -> str:
    return "".join(chr(chance.randint(0x4E00, 0x9FA5)) for _ in range(chance.randint(24, 200)))


def _common_han_at_random(chance: random.Random) -> str:
    return "".join(
        bytes((chance.randint(0xB0, 0xD6), chance.randint(0xA1, 0xFE))).decode("gb2312")
        for _ in range(chance.randint(40, 200))
    )


def _keys_struck(chance: random.Random) -> str:
    words: list[str] = []
    for _ in range(chance.randint(10, 30)):
        row = chance.choice(_KEYS)
        start = chance.randrange(len(row) - 3)
        word = row[start : start + chance.randint(3, 6)]
        words.append(word[::-1] if chance.random() < 0.4 else "".join(chance.sample(word, len(word))))
    return " ".join(words)


def _shuffled(words: Sequence[str], gap: str) -> Make:
    return lambda chance: gap.join(
        chance.choice(words[: chance.randint(5, 10)]) for _ in range(chance.randint(60, 200))
    )


def _hidden(chance: random.Random) -> str:
    text = chance.choice((chance.choice(_EN), chance.choice(_ZH)))
    return "".join(letter + chance.choice(_INVISIBLE) for letter in text) + f" {DETAILS['link'](chance)}"


def _lookalikes(chance: random.Random) -> str:
    return f"{chance.choice(_EN)} {chance.choice(_EN)} {chance.choice(_EN)}".translate(_FACES)


def _ornate(chance: random.Random) -> str:
    base = chance.choice((0x1D41A, 0x1D4EA, 0x1D5EE, 0x1D68A))
    text = f"{chance.choice(_EN)} {chance.choice(_EN)}"
    return "".join(chr(base + ord(letter) - 97) if letter.isalpha() else letter for letter in text)


def _emoji(chance: random.Random) -> str:
    return "".join(chance.choice(_EMOJI) for _ in range(chance.randint(30, 200)))


def _runs(letters: str) -> Make:
    return lambda chance: chance.choice(letters) * chance.randint(40, 400)


def _pointed(chance: random.Random) -> str:
    return "".join(chance.choice("!?.#*~^&%$") for _ in range(chance.randint(80, 400)))


def _linked(chance: random.Random) -> str:
    return chance.choice((" ", "\n")).join(DETAILS["link"](chance) for _ in range(chance.randint(4, 20)))


def _piled(chance: random.Random) -> str:
    return "".join(
        letter + "".join(chance.choice(_PILE) for _ in range(chance.randint(3, 9))) for letter in chance.choice(_EN)
    )


def _padded(chance: random.Random) -> str:
    filler = chance.choice((" ", "\u3000", "\u200b", "\n", "\u2800"))
    return chance.choice(_EN + _ZH) + filler * chance.randint(1_000, 5_000) + chance.choice("ab.。")


def _jumble(chance: random.Random, letters: str, least: int, most: int) -> str:
    return "".join(chance.choice(letters) for _ in range(chance.randint(least, most)))


def _spelled(chance: random.Random) -> str:
    return "  ".join(" ".join(word) for word in f"{chance.choice(_EN)} {chance.choice(_EN)}".split() if len(word) > 3)


KINDS: dict[str, Make] = {
    "phrase_en": _repeated(_EN, (" ", "\n", "! ", ". ")),
    "phrase_zh": _repeated(_ZH, ("", "，", "\n", "！")),
    "phrase_mixed": _two_tongues,
    "phrase_numbered": _numbered,
    "run_latin": _runs("abcdefghijkxyz017"),
    "run_han": _runs("哈啊急顶水灌呵"),
    "points": _pointed,
    "emoji": _emoji,
    "random_latin": _letters_at_random,
    "random_cyrillic": _cyrillic_at_random,
    "random_han": _han_at_random,
    "random_common_han": _common_han_at_random,
    "keys": _keys_struck,
    "few_words_en": _shuffled(_WORDS, " "),
    "few_words_zh": _shuffled(_ZH_WORDS, ""),
    "zero_width": _hidden,
    "lookalikes": _lookalikes,
    "ornate": _ornate,
    "links": _linked,
    "piled": _piled,
    "padded": _padded,
    "spelled": _spelled,
}
