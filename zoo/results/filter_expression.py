"""The language of ``zoo list --where``: parsed as Python, evaluated by this module alone.

A condition has names of columns, texts, numbers, ``true`` and ``false``; ``== != < <= > >=`` (also chained), ``in`` and
``not in``; ``and``, ``or``, ``not``; ``+ - * /``; and ``missing(x)``, ``not_published(x)`` and ``not_applicable(x)``. A
column whose name is not a word stands in backquotes: `` `train-nperclass-5_test` < 40 ``. Texts are compared without
regard to case.

Types are checked once, before any encoder is looked at. A comparison with a missing value is unknown, neither true nor
false, as in SQL: ``epochs > 100`` and ``not epochs > 100`` both leave out encoders whose epochs are missing.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ..cards.schema import Kind, Missing
from ..errors import QueryError, UnknownName

Values: TypeAlias = Callable[[str], Any]
"""From the name of a column to the value of one encoder, or the reason why it has none."""

_Evaluate: TypeAlias = Callable[[Values], Any]
_Type: TypeAlias = Literal["text", "number", "truth", "list of texts"]

_TYPES: dict[Kind, _Type] = {
    "text": "text",
    "whole number": "number",
    "number": "number",
    "true or false": "truth",
    "list": "list of texts",
}

_MOST_CHARACTERS = 1_000
_QUOTED = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|`([^`]*)`""")  # texts, and names in backquotes
_UNKNOWN = Missing.NOT_PUBLISHED  # stands for "unknown" between operators; which reason it was no longer matters
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_MISSING_TESTS: dict[str, Callable[[Any], bool]] = {
    "missing": lambda value: isinstance(value, Missing),
    "not_published": lambda value: value is Missing.NOT_PUBLISHED,
    "not_recorded": lambda value: value is Missing.NOT_RECORDED,
    "not_applicable": lambda value: value is Missing.NOT_APPLICABLE,
}


@dataclass(frozen=True, slots=True)
class Condition:
    """A checked condition and the columns that it reads."""

    names: frozenset[str]
    evaluate: _Evaluate

    def holds(self, values: Values) -> bool:
        """True if the condition is true, not merely unknown."""
        return self.evaluate(values) is True


def parse_condition(text: str, kinds: Mapping[str, Kind]) -> Condition:
    """Checks a condition against the kinds of the columns, and makes it a function; QueryError or UnknownName if it is
    wrong.

    >>> condition = parse_condition("1 < 2 * z_dim <= 8", {"z_dim": "whole number"})
    >>> [condition.holds({"z_dim": n}.__getitem__) for n in (0, 4, 5)]
    [False, True, False]
    """
    if len(text) > _MOST_CHARACTERS:
        raise QueryError(f"The condition has {len(text):,} characters, expected at most {_MOST_CHARACTERS:,}.")
    hidden, quoted = _without_backquotes(text)
    checker = _Checker({name: _TYPES[kind] for name, kind in kinds.items()}, quoted)
    try:
        evaluate = checker.truth(ast.parse(hidden.strip(), mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError) as error:
        why = error.msg if isinstance(error, SyntaxError) else "it is nested too deeply"
        raise QueryError(
            f"Cannot read the condition {text!r} ({why}); expected something like "
            "'family == \"vit\" and z_dim <= 768', where == compares and texts stand in quotes."
        ) from error
    return Condition(frozenset(checker.met), evaluate)


def _without_backquotes(text: str) -> tuple[str, dict[str, str]]:
    """The text with a new word for every name in backquotes, and the name behind each word."""
    quoted: dict[str, str] = {}

    def hide(match: re.Match[str]) -> str:
        if match[1]:
            return match[0]
        placeholder = f"_column_{len(quoted)}_"
        quoted[placeholder] = match[2]
        return f" {placeholder} "

    return _QUOTED.sub(hide, text), quoted


class _Checker:
    """Turns a syntax tree into functions; ``met`` collects the columns that it reads."""

    def __init__(self, types: Mapping[str, _Type], quoted: Mapping[str, str]) -> None:
        self.types = types
        self.quoted = quoted
        self.met: set[str] = set()

    def truth(self, node: ast.expr) -> _Evaluate:
        """A part that must be true or false."""
        kind, evaluate = self.term(node)
        if kind != "truth":
            raise QueryError(
                f"{self.shown(node)} is a {kind}, expected something true or false there, such as a comparison."
            )
        return evaluate

    def term(self, node: ast.expr) -> tuple[_Type, _Evaluate]:
        """Type and function of any part."""
        match node:
            case ast.Name(id=name):
                return self.column(name)
            case ast.Constant(value=bool() | str() | int() | float() as value):
                return _type_of(value), lambda values: value
            case ast.BoolOp(op=op, values=parts):
                decisive = isinstance(op, ast.Or)  # one true part decides "or", one false part decides "and"
                return "truth", _joined([self.truth(part) for part in parts], decisive)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return "truth", _lifted(operator.not_, self.truth(operand))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return "number", _lifted(operator.neg, self.number(operand))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                numbers = (self.number(left), self.number(right))
                return "number", _lifted(_ARITHMETIC[type(op)], *numbers)
            case ast.Compare(left=left, ops=ops, comparators=rest):
                sides = [left, *rest]
                links = [self.comparison(a, op, b) for a, op, b in zip(sides, ops, rest, strict=False)]
                return "truth", _joined(links, False)
            case ast.Call(func=ast.Name(id=test), args=[ast.Name(id=name)], keywords=[]) if test in _MISSING_TESTS:
                _, evaluate = self.column(name)
                holds = _MISSING_TESTS[test]
                return "truth", lambda values: holds(evaluate(values))
        raise QueryError(
            f"{self.shown(node)} is not allowed in a condition, which may hold columns, texts, numbers, comparisons, "
            "in, and, or, not, + - * / and missing(column)."
        )

    def column(self, name: str) -> tuple[_Type, _Evaluate]:
        name = self.quoted.get(name, name)
        if name in ("true", "false"):
            return "truth", lambda values: name == "true"
        if name not in self.types:
            raise UnknownName("column", name, self.types, hint="Run 'zoo list --help-columns' to see them all.")
        self.met.add(name)
        return self.types[name], lambda values: values(name)

    def number(self, node: ast.expr) -> _Evaluate:
        kind, evaluate = self.term(node)
        if kind != "number":
            raise QueryError(f"Cannot calculate with {self.shown(node)}, which is a {kind}; expected a number.")
        return evaluate

    def comparison(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> _Evaluate:
        kind, value = self.term(left)
        if isinstance(op, (ast.In, ast.NotIn)):
            evaluate = self.membership(left, kind, value, right)
            return _lifted(operator.not_, evaluate) if isinstance(op, ast.NotIn) else evaluate
        compare = _COMPARE.get(type(op))
        if compare is None:
            raise QueryError("Found 'is' in the condition; write == to compare, or missing(column).")
        other, reference = self.term(right)
        ordered = type(op) not in (ast.Eq, ast.NotEq)
        if kind != other or kind == "list of texts" or (ordered and kind == "truth"):
            word = "order" if ordered else "compare"
            hint = "; ask whether a text is in a list with 'in'" if "list of texts" in (kind, other) else ""
            sides = f"{self.shown(left)}, which is a {kind}, and {self.shown(right)}, which is a {other}"
            raise QueryError(f"Cannot {word} {sides}{hint}.")
        return _lifted(lambda a, b: compare(_folded(a), _folded(b)), value, reference)

    def membership(self, left: ast.expr, kind: _Type, value: _Evaluate, right: ast.expr) -> _Evaluate:
        if isinstance(right, (ast.Tuple, ast.List, ast.Set)):
            choices = [self.comparison(left, ast.Eq(), choice) for choice in right.elts]
            return _joined(choices, True)
        other, container = self.term(right)
        if kind != "text" or other not in ("text", "list of texts"):
            raise QueryError(
                f"Cannot look for {self.shown(left)}, which is a {kind}, in {self.shown(right)}, which is a {other}; "
                'expected a text in a text, or anything in a list such as ("a", "b").'
            )
        return _lifted(lambda text, texts: _folded(text) in _folded(texts), value, container)

    def shown(self, node: ast.expr) -> str:
        text = ast.unparse(node)
        for placeholder, name in self.quoted.items():
            text = text.replace(placeholder, f"`{name}`")
        return text


def _type_of(value: bool | str | int | float) -> _Type:
    if isinstance(value, bool):
        return "truth"
    return "text" if isinstance(value, str) else "number"


def _folded(value: Any) -> Any:
    """A text, or every text of a tuple, in folded case; anything else as it is."""
    if isinstance(value, str):
        return value.casefold()
    return tuple(map(_folded, value)) if isinstance(value, tuple) else value


def _lifted(function: Callable[..., Any], *parts: _Evaluate) -> _Evaluate:
    """The function of the parts' values; unknown if one is missing, or after a division by zero."""

    def evaluate(values: Values) -> Any:
        arguments = [part(values) for part in parts]
        if any(isinstance(argument, Missing) for argument in arguments):
            return _UNKNOWN
        try:
            return function(*arguments)
        except (ZeroDivisionError, OverflowError):
            return _UNKNOWN

    return evaluate


def _joined(parts: Sequence[_Evaluate], decisive: bool) -> _Evaluate:
    """``or`` if True is decisive, ``and`` if False is; unknown if no part decides and one is unknown."""

    def evaluate(values: Values) -> Any:
        unknown = False
        for part in parts:
            value = part(values)
            if value is decisive:
                return decisive
            unknown = unknown or isinstance(value, Missing)
        return _UNKNOWN if unknown else not decisive

    return evaluate
