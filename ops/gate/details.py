"""Contact details made to order: the {link}, {phone} and their like in patterns."""

from __future__ import annotations

import random

_NAMES = (
    "Anna Kowalska",
    "J. Smith",
    "Maria",
    "Tom B.",
    "Li Wei",
    "Dr. Patel",
    "Sam O'Neil",
    "Ivan Petrov",
    "Chen",
    "R. Gupta",
)
_HOSTS = (
    "example",
    "myshop",
    "parcel-track",
    "imgur",
    "dropbox",
    "docs.google",
    "bank",
    "help.mobile",
    "photos",
    "tickets",
    "store",
)
_ENDS = ("com", "org", "net", "co.uk", "de", "cn", "io", "example", "shop", "app", "com.cn", "ly")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _digits(chance: random.Random, many: int) -> str:
    return "".join(chance.choice("0123456789") for _ in range(many))


def _word(chance: random.Random, shortest: int = 3, longest: int = 9) -> str:
    return "".join(chance.choice(_LETTERS) for _ in range(chance.randint(shortest, longest)))


def _order(chance: random.Random) -> str:
    shape = chance.randrange(7)
    if shape == 0:
        return _digits(chance, chance.randint(5, 18))
    if shape == 1:
        return f"#{_digits(chance, chance.randint(4, 9))}"
    if shape == 2:
        return f"{_word(chance, 2, 3).upper()}-{_digits(chance, chance.randint(4, 8))}"
    if shape == 3:
        return f"{_word(chance, 1, 3).upper()}{_digits(chance, chance.randint(6, 12))}{_word(chance, 1, 2).upper()}"
    if shape == 4:
        return f"{_digits(chance, 3)}-{_digits(chance, 7)}-{_digits(chance, 7)}"
    if shape == 5:
        return f"{chance.getrandbits(64):016x}"
    return f"20{_digits(chance, 2)}-{_digits(chance, 6)}"


def _link(chance: random.Random) -> str:
    host = f"{chance.choice(_HOSTS)}.{chance.choice(_ENDS)}"
    if chance.random() < 0.3:
        host = f"{_word(chance)}.{chance.choice(_ENDS)}"
    path = chance.choice(
        (
            "",
            "",
            f"/{_word(chance)}",
            f"/orders/{_digits(chance, 6)}",
            f"/{_word(chance)}?id={_digits(chance, 5)}",
            f"/{_word(chance)}.html",
        )
    )
    return chance.choice(("https://", "https://www.", "http://", "www.", "")) + host + path


def _mail(chance: random.Random) -> str:
    name = _word(chance) + chance.choice(("", ".", "_")) + _word(chance, 2, 6) + chance.choice(("", _digits(chance, 2)))
    return f"{name}@{_word(chance)}.{chance.choice(_ENDS)}"


def _phone(chance: random.Random) -> str:
    return chance.choice(
        (
            f"+{_digits(chance, 2)} {_digits(chance, 3)} {_digits(chance, 4)} {_digits(chance, 3)}",
            f"0{_digits(chance, 10)}",
            f"1{_digits(chance, 10)}",
            f"({_digits(chance, 3)}) {_digits(chance, 3)}-{_digits(chance, 4)}",
            f"{_digits(chance, 3)}-{_digits(chance, 4)}-{_digits(chance, 4)}",
            f"0{_digits(chance, 4)} {_digits(chance, 6)}",
        )
    )


def _price(chance: random.Random) -> str:
    amount = chance.choice(
        (
            _digits(chance, 2).lstrip("0") or "7",
            f"{chance.randint(1, 999)}.{_digits(chance, 2)}",
            f"{chance.randint(1, 9)},{_digits(chance, 3)}",
            str(chance.randint(1, 2000)),
        )
    )
    return chance.choice(
        (
            f"${amount}",
            f"£{amount}",
            f"€{amount}",
            f"{amount} USD",
            f"{amount} euros",
            f"{amount}元",
            f"¥{amount}",
            f"{amount} dollars",
            f"$ {amount}",
        )
    )


def _handle(chance: random.Random) -> str:
    return f"{_word(chance, 3, 8)}{_digits(chance, chance.randint(2, 5))}"


def _name(chance: random.Random) -> str:
    return chance.choice(_NAMES)


DETAILS = {
    "order": _order,
    "link": _link,
    "mail": _mail,
    "phone": _phone,
    "price": _price,
    "handle": _handle,
    "name": _name,
}
