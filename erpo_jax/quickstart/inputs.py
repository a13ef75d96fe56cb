"""Inputs of the miniature language, by the grammar of each source.

`typical` inputs are what a reader of the grammar would write: bounds are met by chance alone, nothing is empty.
`edge` inputs obey the same grammar and look for trouble: values at a bound, equal values, zeros, negative odd
numbers, one-sided lists. Public examples and the probes that the policy learns to write are typical; hidden tests
have both.
"""

from __future__ import annotations

from random import Random

_LOW, _HIGH = -60, 99
_LETTERS = "aabcdeefghiiklmnoopqrsttuvwxyz"


def typical(source: str, rng: Random) -> str:
    """One input text (with its final line end left off) of the source called `source`."""
    match source:
        case "line" | "counted":
            return _numbers(source, [rng.randint(_LOW, _HIGH) for _ in range(rng.randint(4, 9))])
        case "range":
            return str(rng.randint(3, 20) if rng.random() < 0.5 else rng.randint(21, 120))
        case "digits":
            return _digits([rng.randint(0, 9) for _ in range(rng.randint(5, 10))])
        case "words":
            return " ".join(_word(rng, rng.randint(2, 7)) for _ in range(rng.randint(4, 8)))
        case "letters":
            return _word(rng, rng.randint(3, 17))
    raise ValueError(f"there is no source '{source}'")


def edge(source: str, rng: Random, bounds: tuple[int, ...] = ()) -> str:
    """One input text of the same grammar at its edges; `bounds` are the constants of the task."""
    match source:
        case "line" | "counted":
            special = [bound + shift for bound in bounds for shift in (-1, 0, 0, 1)] + [0, -1, 1, -7, -3]
            style = rng.randrange(3)
            count = rng.randint(4, 9)
            if style == 0:
                values = [rng.choice(special) for _ in range(count)]
            elif style == 1:
                pool = [rng.randint(_LOW, _HIGH) for _ in range(2)] + rng.choices(special, k=2)
                values = [rng.choice(pool) for _ in range(count)]
            else:
                values = [-rng.randint(1, 60) for _ in range(count)]
            return _numbers(source, values)
        case "range":
            near = [bound for bound in bounds if 3 <= bound <= 120]
            return str(rng.choice([*near, 3, 4, 5, rng.randint(3, 120)]))
        case "digits":
            digits = [*rng.sample(range(10), 2), 0]
            return _digits([rng.choice(digits) for _ in range(rng.randint(5, 10))])
        case "words":
            lengths = [max(2, min(7, bound + shift)) for bound in bounds for shift in (0, 1)] or [rng.randint(2, 7)]
            words = [_word(rng, rng.choice(lengths)) for _ in range(3)]
            return " ".join(rng.choice(words) for _ in range(rng.randint(4, 8)))
        case "letters":
            letters = rng.sample("aeiouybcd", 4)
            return "".join(rng.choice(letters) for _ in range(rng.randint(3, 17)))
    raise ValueError(f"there is no source '{source}'")


def accepts(source: str, text: str) -> bool:
    """Whether `text` obeys the grammar of the source called `source`; surrounding blanks are forgiven."""
    lines = text.strip().split("\n")
    try:
        match source:
            case "line":
                return len(lines) == 1 and _are_numbers(lines[0])
            case "counted":
                return len(lines) == 2 and _are_numbers(lines[1]) and int(lines[0]) == len(lines[1].split())
            case "range":
                return len(lines) == 1 and 3 <= int(lines[0]) <= 120
            case "digits":
                return len(lines) == 1 and lines[0].isdigit() and lines[0][0] != "0" and 5 <= len(lines[0]) <= 10
            case "words":
                words = lines[0].split()
                return len(lines) == 1 and 4 <= len(words) <= 8 and all(_is_word(word, 2, 7) for word in words)
            case "letters":
                return len(lines) == 1 and _is_word(lines[0], 3, 17)
    except ValueError:  # not an integer
        return False
    raise ValueError(f"there is no source '{source}'")


def _numbers(source: str, values: list[int]) -> str:
    line = " ".join(map(str, values))
    return f"{len(values)}\n{line}" if source == "counted" else line


def _digits(values: list[int]) -> str:
    return "".join(map(str, [values[0] or 1, *values[1:]]))


def _word(rng: Random, length: int) -> str:
    return "".join(rng.choice(_LETTERS) for _ in range(length))


def _are_numbers(line: str) -> bool:
    values = [int(token) for token in line.split()]
    return 4 <= len(values) <= 9 and all(_LOW <= value <= _HIGH for value in values)


def _is_word(word: str, low: int, high: int) -> bool:
    return low <= len(word) <= high and word.isascii() and word.isalpha() and word.islower()
