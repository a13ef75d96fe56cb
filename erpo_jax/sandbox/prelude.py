"""What a program will import, and the names a function program may use without importing them.

Modules that a program's code imports are imported once, in C, and not again on each input. The lent names are those
that the sites function problems come from offer. They stand among the builtins, below the program's own names and never
in place of a builtin, so that they shadow nothing; only names that the program speaks of are put there.
"""

from __future__ import annotations

import builtins
import importlib
import os
import sys
from opcode import opmap
from types import CodeType

TYPE_CHECKING = False  # workers do not load `typing`
if TYPE_CHECKING:
    from collections.abc import Iterator

_LENT = {
    "abc": "ABC abstractmethod",
    "bisect": "bisect_left bisect_right insort insort_left insort_right",
    "collections": "ChainMap Counter OrderedDict UserDict UserList UserString defaultdict deque namedtuple",
    "copy": "deepcopy",
    "dataclasses": "dataclass field",
    "datetime": "timedelta",
    "decimal": "Decimal",
    "enum": "Enum IntEnum",
    "fractions": "Fraction",
    "functools": "cache cached_property cmp_to_key lru_cache partial reduce total_ordering wraps",
    "heapq": "heapify heappop heappush heappushpop heapreplace merge nlargest nsmallest",
    "io": "StringIO",
    "itertools": "accumulate chain combinations combinations_with_replacement compress count cycle dropwhile "
    "filterfalse groupby islice pairwise permutations product repeat starmap takewhile tee "
    "zip_longest",
    "math": "acos asin atan atan2 ceil comb copysign cos cosh degrees dist e erf exp fabs factorial floor "
    "fmod frexp fsum gamma gcd hypot inf isclose isfinite isinf isnan isqrt lcm ldexp log log10 log1p "
    "log2 modf nan perm pi prod radians sin sinh sqrt tan tanh tau trunc",
    "operator": "add attrgetter itemgetter mul xor",
    "random": "choice randint randrange shuffle",
    "statistics": "mean median",
    "string": "ascii_letters ascii_lowercase ascii_uppercase digits punctuation",
    "sys": "maxsize",
    "typing": "Any Callable ClassVar DefaultDict Deque Dict Final FrozenSet Generator Generic Hashable "
    "Iterable Iterator List Literal Mapping NamedTuple NewType NoReturn Optional Protocol Sequence "
    "Set SupportsInt Text Tuple Type TypeVar TypedDict Union cast overload",
}
_LENT_MODULES = (
    "array bisect cmath collections copy datetime decimal fractions functools heapq io itertools json math "
    "operator os random re statistics string sys time typing"
)
# imported ahead when a program imports them: modules that do nothing but define, and numpy
_AHEAD = (
    "abc argparse array ast asyncio base64 bisect calendar cmath collections concurrent contextlib copy "
    "ctypes dataclasses datetime decimal difflib enum fractions functools graphlib hashlib heapq inspect io "
    "itertools json logging math numbers numpy operator pprint queue random re sched secrets statistics "
    "string struct textwrap threading time traceback types typing unittest uuid warnings weakref zlib"
)
_IMPORT, _EXTENDED = opmap["IMPORT_NAME"], opmap["EXTENDED_ARG"]


def origins() -> dict[str, tuple[str, str]]:
    """Where each lent name comes from: module and attribute, which is empty for a module itself."""
    table = {name: (module, name) for module, names in _LENT.items() for name in names.split()}
    table |= {name: (name, "") for name in _LENT_MODULES.split()}
    return {name: origin for name, origin in table.items() if not hasattr(builtins, name)}


_ORIGINS = origins()
_SAFE = frozenset(_AHEAD.split())


def import_ahead(code: CodeType) -> None:
    """Imports what `code` imports, as far as that is safe to do for it."""
    wanted = {name for name in _imported(code) if name.split(".")[0] in _SAFE and name not in sys.modules}
    if wanted:
        import_modules(wanted)


def lend(code: CodeType) -> None:
    """Puts the names that `code` speaks of among the builtins."""
    wanted = _spoken(code) & _ORIGINS.keys()
    import_modules({_ORIGINS[name][0] for name in wanted})
    for name in wanted:
        module, attribute = _ORIGINS[name]
        builtins.__dict__[name] = getattr(sys.modules[module], attribute) if attribute else sys.modules[module]


def import_modules(names: set[str]) -> None:
    """Imports those of `names` that exist."""
    # what a module wants done in a forked child (random: a new seed; threading: to forget threads) would be done in
    # every program, which is to start with the same seed and has no thread to forget
    register, os.register_at_fork = os.register_at_fork, lambda **_: None
    try:
        for name in sorted(names):
            try:
                importlib.import_module(name)
            except Exception:  # whatever it is, the program gets the same in its own time
                continue
    finally:
        os.register_at_fork = register


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    """The code and all code in it, without recursion: programs nest deeper than that goes."""
    waiting = [code]
    while waiting:
        code = waiting.pop()
        yield code
        waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _imported(whole: CodeType) -> set[str]:
    names: set[str] = set()
    for code in _with_inner(whole):
        raw, extended = code.co_code, 0
        for at in range(0, len(raw), 2):
            operation, argument = raw[at], raw[at + 1] | extended
            extended = argument << 8 if operation == _EXTENDED else 0
            if operation == _IMPORT and argument < len(code.co_names):
                names.add(code.co_names[argument])
    return names


def _spoken(whole: CodeType) -> set[str]:
    names: set[str] = set()
    for code in _with_inner(whole):
        names.update(code.co_names)
        # a quoted annotation, too
        names.update(text for text in code.co_consts if isinstance(text, str) and text.isidentifier())
    return names
