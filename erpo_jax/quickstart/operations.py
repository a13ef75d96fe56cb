"""The vocabulary of the miniature language: what a problem can ask for, in words and in Python, and how it is misread.

An operation is one step of a pipeline. Its `right` expressions are equal in meaning; each of its phrases says it in
words and carries the misreading that this very wording invites, with the chance that a programmer falls for it. The
chance belongs to the phrase, not to the programmer: so wrong programs agree with each other, as those of real
policies do. Many misreadings differ from the right program only on inputs that the input grammar makes rare (a value
equal to a bound, a negative odd number, equal maxima, nothing left); these hide from probes.

Left out: anything that needs an import, nested data, or more than one expression. In the templates `{v}` is the
variable and `{k}` the operation's constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["numbers", "words", "letters", "text"]


@dataclass(frozen=True)
class Phrase:
    """One wording; `misread` is the wrong expression it invites, with probability `chance` in [0, 1]."""

    text: str
    misread: str
    chance: float


@dataclass(frozen=True)
class Operation:
    """One step. `takes`/`gives` are the kinds of list before and after; finals give "text", what `print` is called
    with.

    `constants` are the values `{k}` may take (empty: no constant). `thins` marks a step that may leave nothing,
    `needs_items` one that is undefined on nothing: a pipeline never has both.
    """

    name: str
    takes: Kind
    gives: Kind
    right: tuple[str, ...]
    phrases: tuple[Phrase, ...]
    constants: tuple[int, ...] = ()
    thins: bool = False
    needs_items: bool = False


@dataclass(frozen=True)
class Source:
    """Where the list comes from. `right` are statements per style, `{v}` the variable; `grammar` says the input in
    words; `weight` is its relative frequency."""

    name: str
    gives: Kind
    right: tuple[str, ...]
    phrases: tuple[Phrase, ...]
    grammar: str
    weight: float


def _step(
    name: str,
    kind: Kind,
    right: str | tuple[str, ...],
    *phrases: tuple[str, str, float],
    gives: Kind | None = None,
    constants: tuple[int, ...] = (),
    thins: bool = False,
    needs_items: bool = False,
) -> Operation:
    spellings = (right,) if isinstance(right, str) else right
    wordings = tuple(Phrase(*phrase) for phrase in phrases)
    return Operation(name, kind, gives or kind, spellings, wordings, constants, thins, needs_items)


# The tables below read best with a step and its wordings on a line each.
# fmt: off
def _shared_steps(kind: Kind, noun: str) -> list[Operation]:
    """Steps that make sense for any list."""
    small = (2, 3)
    return [
        _step("reverse", kind, ("{v}[::-1]", "list(reversed({v}))"),
              ("reverse the order", "sorted({v})[::-1]", 0.05),
              ("read them from the back", "{v}[-1:] + {v}[:-1]", 0.15)),
        _step("first", kind, "{v}[:{k}]",
              (f"take the first {{k}} {noun}", "{v}[:{k} + 1]", 0.05),
              (f"stop after {{k}} {noun}", "{v}[:{k} - 1]", 0.10), constants=small),
        _step("last", kind, "{v}[-{k}:]",
              (f"take the last {{k}} {noun}", "{v}[:{k}]", 0.05),
              (f"keep {{k}} {noun} at the end", "{v}[:-{k}]", 0.12), constants=small),
        _step("skip", kind, "{v}[{k}:]",
              (f"skip the first {{k}} {noun}", "{v}[:{k}]", 0.06),
              (f"start after {{k}} {noun}", "{v}[{k} + 1:]", 0.12), constants=(1, 2)),
        _step("every_other", kind, "{v}[::2]",
              ("take every other one from the first", "{v}[1::2]", 0.06),
              ("leave out each second one", "{v}[1::2]", 0.15)),
        _step("rotate", kind, "{v}[1:] + {v}[:1]",
              ("move the first to the end", "{v}[-1:] + {v}[:-1]", 0.06),
              ("shift left by one in a circle", "{v}[1:]", 0.90)),
        _step("unique", kind, ("list(dict.fromkeys({v}))", "[x for i, x in enumerate({v}) if x not in {v}[:i]]"),
              ("remove repeats, keeping the order", "sorted(set({v}))", 0.10),
              ("keep each value once", "sorted(set({v}))", 0.90)),
        _step("sort", kind, "sorted({v})",
              ("sort them", "sorted({v}, reverse=True)", 0.03),
              ("sort upwards", "sorted(set({v}))", 0.65)),
        _step("sort_down", kind, ("sorted({v}, reverse=True)", "sorted({v})[::-1]"),
              ("sort downwards", "sorted({v})", 0.06),
              ("sort from the greatest", "sorted(set({v}))[::-1]", 0.75)),
    ]


_BOUNDS = tuple(range(6, 30))

_NUMBER_STEPS = [
    *_shared_steps("numbers", "numbers"),
    _step("even", "numbers", ("[x for x in {v} if x % 2 == 0]", "[x for x in {v} if not x % 2]"),
          ("keep the even numbers", "[x for x in {v} if x % 2]", 0.03),
          ("remove the odd numbers", "[x for x in {v} if x % 2]", 0.12), thins=True),
    _step("odd", "numbers", ("[x for x in {v} if x % 2 == 1]", "[x for x in {v} if x % 2]"),
          ("keep the odd numbers", "[x for x in {v} if x % 2 == 0]", 0.03),
          ("remove the even numbers", "[x for x in {v} if x % 2 == 0]", 0.12), thins=True),
    _step("above", "numbers", "[x for x in {v} if x > {k}]",
          ("keep numbers greater than {k}", "[x for x in {v} if x >= {k}]", 0.10),
          ("keep numbers past {k}", "[x for x in {v} if x >= {k}]", 0.75), constants=_BOUNDS, thins=True),
    _step("at_least", "numbers", "[x for x in {v} if x >= {k}]",
          ("keep numbers of at least {k}", "[x for x in {v} if x > {k}]", 0.30),
          ("remove numbers under {k}", "[x for x in {v} if x > {k}]", 0.85), constants=_BOUNDS, thins=True),
    _step("below", "numbers", "[x for x in {v} if x < {k}]",
          ("keep numbers less than {k}", "[x for x in {v} if x <= {k}]", 0.10),
          ("keep numbers until {k}", "[x for x in {v} if x <= {k}]", 0.75), constants=_BOUNDS, thins=True),
    _step("at_most", "numbers", "[x for x in {v} if x <= {k}]",
          ("keep numbers up to {k}", "[x for x in {v} if x < {k}]", 0.70),
          ("remove numbers over {k}", "[x for x in {v} if x < {k}]", 0.85), constants=_BOUNDS, thins=True),
    _step("multiples", "numbers", "[x for x in {v} if x % {k} == 0]",
          ("keep multiples of {k}", "[x for x in {v} if x % {k}]", 0.05),
          ("keep what {k} divides", "[x for x in {v} if x and {k} % x == 0]", 0.12), constants=(3, 4, 5), thins=True),
    _step("positive", "numbers", "[x for x in {v} if x > 0]",
          ("keep the positive numbers", "[x for x in {v} if x >= 0]", 0.65),
          ("remove what is not positive", "[x for x in {v} if x >= 0]", 0.80), thins=True),
    _step("add", "numbers", "[x + {k} for x in {v}]",
          ("add {k} to each", "[x * {k} for x in {v}]", 0.03),
          ("raise each by {k}", "[x * {k} for x in {v}]", 0.10), constants=tuple(range(2, 10))),
    _step("times", "numbers", "[x * {k} for x in {v}]",
          ("multiply each by {k}", "[x + {k} for x in {v}]", 0.03),
          ("make each {k} times as large", "[x + {k} * x for x in {v}]", 0.15), constants=tuple(range(2, 8))),
    _step("square", "numbers", ("[x * x for x in {v}]", "[x ** 2 for x in {v}]"),
          ("square each", "[x * 2 for x in {v}]", 0.05),
          ("take each to the second power", "[x * 2 for x in {v}]", 0.12)),
    _step("absolute", "numbers", "[abs(x) for x in {v}]",
          ("take absolute values", "[-x for x in {v}]", 0.05),
          ("drop the minus signs", "[x for x in {v} if x >= 0]", 0.88)),
    _step("negate", "numbers", "[-x for x in {v}]",
          ("negate each", "[abs(x) for x in {v}]", 0.06),
          ("flip all signs", "[-abs(x) for x in {v}]", 0.12)),
    _step("halve", "numbers", "[x // 2 for x in {v}]",
          ("halve each, rounding down", "[int(x / 2) for x in {v}]", 0.70),
          ("divide each by 2 with floor", "[int(x / 2) for x in {v}]", 0.15)),
    _step("modulo", "numbers", "[x % {k} for x in {v}]",
          ("take each modulo {k}", "[x // {k} for x in {v}]", 0.06),
          ("take remainders by {k}", "[abs(x) % {k} for x in {v}]", 0.85), constants=(3, 4, 5, 7, 10)),
    _step("running", "numbers", "[sum({v}[:i + 1]) for i in range(len({v}))]",
          ("take running sums", "[sum({v}[:i]) for i in range(len({v}))]", 0.12),
          ("replace each by the sum so far", "[sum({v}[:i]) for i in range(len({v}))]", 0.90)),
    _step("steps", "numbers", "[y - x for x, y in zip({v}, {v}[1:])]",
          ("subtract each from the next", "[x - y for x, y in zip({v}, {v}[1:])]", 0.12),
          ("take the change to the next", "[abs(y - x) for x, y in zip({v}, {v}[1:])]", 0.15)),
]

_WORD_STEPS = [
    *_shared_steps("words", "words"),
    _step("flip", "words", "[w[::-1] for w in {v}]",
          ("reverse each word", "{v}[::-1]", 0.06),
          ("spell each backwards", "{v}[::-1]", 0.12)),
    _step("upper", "words", "[w.upper() for w in {v}]",
          ("write them in capitals", "[w.title() for w in {v}]", 0.15),
          ("make them upper case", "[w.lower() for w in {v}]", 0.03)),
    _step("title", "words", ("[w.capitalize() for w in {v}]", "[w.title() for w in {v}]"),
          ("capitalize each word", "[w.upper() for w in {v}]", 0.06),
          ("make the first letters capital", "[w[0].upper() for w in {v}]", 0.88)),
    _step("long", "words", "[w for w in {v} if len(w) > {k}]",
          ("keep words longer than {k}", "[w for w in {v} if len(w) >= {k}]", 0.10),
          ("keep words past {k} letters", "[w for w in {v} if len(w) >= {k}]", 0.90), constants=(3, 4, 5), thins=True),
    _step("short", "words", "[w for w in {v} if len(w) <= {k}]",
          ("keep words of at most {k} letters", "[w for w in {v} if len(w) < {k}]", 0.12),
          ("keep words up to {k} letters", "[w for w in {v} if len(w) < {k}]", 0.90), constants=(4, 5, 6), thins=True),
    _step("by_length", "words", "sorted({v}, key=len)",
          ("sort by length", "sorted({v})", 0.06),
          ("sort from short to long, else as given", "sorted(sorted({v}), key=len)", 0.85)),
    _step("initials", "words", "[w[0] for w in {v}]",
          ("take their first letters", "[w[:1].upper() for w in {v}]", 0.06),
          ("cut each to one letter", "[w[-1] for w in {v}]", 0.15)),
    _step("double", "words", "[w + w for w in {v}]",
          ("write each word twice in one", "{v} + {v}", 0.15),
          ("double each word", "{v} * 2", 0.10)),
    _step("vowel", "words", '[w for w in {v} if w[0] in "aeiou"]',
          ("keep words that start with a vowel", '[w for w in {v} if w[-1] in "aeiou"]', 0.05),
          ("keep words with a vowel in front", '[w for w in {v} if w[1] in "aeiou"]', 0.12), thins=True),
    _step("with_a", "words", '[w for w in {v} if "a" in w]',
          ("keep words with an a", '[w for w in {v} if w[0] == "a"]', 0.08),
          ("remove words without an a", '[w for w in {v} if "a" not in w]', 0.15), thins=True),
    _step("lengths", "words", ("[len(w) for w in {v}]", "list(map(len, {v}))"),
          ("take their lengths", "[len(set(w)) for w in {v}]", 0.05),
          ("count the letters of each", "[len(set(w)) for w in {v}]", 0.20), gives="numbers"),
]

_LETTER_STEPS = [
    *_shared_steps("letters", "letters"),
    _step("upper", "letters", "[c.upper() for c in {v}]",
          ("write them in capitals", "[c.title() for c in {v}][::-1]", 0.05),
          ("make them upper case", "[c.lower() for c in {v}]", 0.03)),
    _step("vowels", "letters", '[c for c in {v} if c in "aeiou"]',
          ("keep the vowels", '[c for c in {v} if c not in "aeiou"]', 0.05),
          ("remove the consonants", '[c for c in {v} if c in "aeiouy"]', 0.70), thins=True),
    _step("consonants", "letters", '[c for c in {v} if c not in "aeiou"]',
          ("remove the vowels", '[c for c in {v} if c in "aeiou"]', 0.05),
          ("keep the consonants", '[c for c in {v} if c not in "aeiouy"]', 0.70), thins=True),
    _step("twice", "letters", "[c + c for c in {v}]",
          ("double each letter", "{v} + {v}", 0.15),
          ("write each letter twice", "{v} * 2", 0.12)),
]


def _shared_finals(kind: Kind) -> list[Operation]:
    return [
        _step("count", kind, "len({v})",
              ("print how many there are", "len(set({v}))", 0.08),
              ("print their count", "len({v}) - 1", 0.04), gives="text"),
        _step("distinct", kind, "len(set({v}))",
              ("print how many different ones there are", "len({v})", 0.15),
              ("print the number of values without repeats", "sum({v}.count(x) == 1 for x in {v})", 0.85),
              gives="text"),
    ]


_FINALS = [
    *_shared_finals("numbers"),
    _step("sum", "numbers", "sum({v})",
          ("print the sum", "len({v})", 0.03), ("print what they add up to", "max({v}, default=0)", 0.06),
          gives="text"),
    _step("list", "numbers", "*{v}",
          ("print them", "{v}", 0.05), ("print them in a line", "sum({v})", 0.05), gives="text"),
    _step("max", "numbers", "max({v}, default=0)",
          ("print the largest, 0 if none", "max({v})", 0.65), ("print the maximum or 0", "max({v} + [0])", 0.85),
          gives="text"),
    _step("min", "numbers", "min({v}, default=0)",
          ("print the smallest, 0 if none", "min({v})", 0.65), ("print the minimum or 0", "min({v} + [0])", 0.80),
          gives="text"),
    _step("spread", "numbers", "max({v}) - min({v})",
          ("print largest minus smallest", "{v}[0] - {v}[-1]", 0.12),
          ("print the span", "max({v}) - min({v}) + 1", 0.15), gives="text", needs_items=True),
    _step("positives", "numbers", "sum(x > 0 for x in {v})",
          ("print how many are positive", "sum(x >= 0 for x in {v})", 0.70),
          ("print how many are above 0", "sum(x > 0 for x in set({v}))", 0.70), gives="text"),
    _step("where", "numbers", "{v}.index(max({v})) + 1",
          ("print the position of the largest, from 1", "{v}.index(max({v}))", 0.15),
          ("print where the maximum is, from 1", "{v}.index(max({v}))", 0.88), gives="text", needs_items=True),
    *_shared_finals("words"),
    _step("list", "words", "*{v}",
          ("print them", "{v}", 0.05), ("print them in a line", '"".join({v})', 0.08), gives="text"),
    _step("dashes", "words", '"-".join({v})',
          ("print them with dashes between", '"_".join({v})', 0.10),
          ("join with - and print", '*{v}, sep=" - "', 0.12), gives="text"),
    _step("longest", "words", "max({v}, key=len)",
          ("print the longest, the first of equals", "sorted({v}, key=len)[-1]", 0.65),
          ("print the first of the longest", "max({v})", 0.12), gives="text", needs_items=True),
    _step("total", "words", "sum(len(w) for w in {v})",
          ("print the total of their lengths", 'len(" ".join({v}))', 0.12),
          ("print how many letters in all", 'len(set("".join({v})))', 0.15), gives="text"),
    *_shared_finals("letters"),
    _step("glue", "letters", '"".join({v})',
          ("print them as one word", "{v}", 0.05), ("print the word they make", "*{v}", 0.10), gives="text"),
    _step("list", "letters", "*{v}",
          ("print them with spaces", '"".join({v})', 0.10), ("print them one by one", '*{v}, sep="\\n"', 0.88),
          gives="text"),
]

SOURCES: tuple[Source, ...] = (
    Source("line", "numbers", ("{v} = list(map(int, input().split()))", "{v} = [int(t) for t in input().split()]"),
           (Phrase("Read a line of integers", "", 0.0), Phrase("Given integers in one line", "", 0.0)),
           "one line with 4 to 9 integers from -60 to 99", 3.0),
    Source("counted", "numbers", ("input()\n{v} = list(map(int, input().split()))",
                                  "n = int(input())\n{v} = [int(t) for t in input().split()][:n]"),
           (Phrase("Read n and then n integers", "", 0.0),),
           "a line with n from 4 to 9, then a line with n integers from -60 to 99", 1.0),
    Source("range", "numbers", ("{v} = list(range(1, int(input()) + 1))",
                                "n = int(input())\n{v} = list(range(1, n + 1))"),
           (Phrase("Read n and take 1 to n", "{v} = list(range(1, int(input())))", 0.08),
            Phrase("Read n and list the numbers up to n from 1", "{v} = list(range(int(input())))", 0.12)),
           "one line with an integer from 3 to 120", 1.0),
    Source("digits", "numbers", ("{v} = list(map(int, input()))", "{v} = [int(c) for c in input()]"),
           (Phrase("Read a number and take its digits", "{v} = list(map(int, input().split()))", 0.05),),
           "one line with a positive integer of 5 to 10 digits", 2.0),
    Source("words", "words", ("{v} = input().split()", "{v} = [w for w in input().split()]"),
           (Phrase("Read a line of words", "{v} = list(input())", 0.02),
            Phrase("Given words in one line", "{v} = list(input())", 0.05)),
           "one line with 4 to 8 words of 2 to 7 small letters", 3.0),
    Source("letters", "letters", ("{v} = list(input())", "{v} = [c for c in input()]"),
           (Phrase("Read a word and take its letters", "{v} = input().split()", 0.05),),
           "one line with a word of 3 to 17 small letters", 1.0),
)

STEPS: dict[Kind, tuple[Operation, ...]] = {
    "numbers": tuple(_NUMBER_STEPS), "words": tuple(_WORD_STEPS), "letters": tuple(_LETTER_STEPS),
}
FINALS: dict[Kind, tuple[Operation, ...]] = {
    kind: tuple(final for final in _FINALS if final.takes == kind) for kind in STEPS
}
