"""Rewrites as data: one law per line, ``law("equal_arms", "select(c, a, a) -> a")``.

A law reads ``pattern -> replacement if condition``. In a pattern

* ``addi(x, 0)`` is an operation with these operands; ``...`` stands for any further ones;
* a name is a value, the same one at every occurrence, and ``_`` is any value;
* a number, ``true`` or ``false`` is a constant whose elements all equal it;
* ``p := mulf(a, b)`` names the value matched by the pattern on its right.

A replacement is a value, or an operation on values. A value may replace only a result of its own type:
``bitcast(x) -> x`` drops a cast that changes nothing. An operation of the matched class inherits the
matched operation's properties; a nested operation has the type of its last operand. A condition consists of
calls of the tests in :class:`Words`, where ``op`` is the operation being rewritten: ``a(op) and not b(x)``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from tilewright.passes.base import insert_before, replace_value

#: Rewrites the operation through the rewriter, or leaves everything unchanged.
Rule = Callable[[Any, PatternRewriter], None]
_RuleT = TypeVar("_RuleT", bound=Rule)
_Form = Callable[[Operation, PatternRewriter], bool]
_CONSTANTS = {"true": True, "false": False}


class Site(NamedTuple):
    """The context in which a law is applied, passed to makers of operations."""

    op: Operation
    rewriter: PatternRewriter

    def add(self, *made: Operation) -> SSAValue:
        """Insert operations before the one being rewritten. Returns the result of the last."""
        insert_before(self.rewriter, self.op, *made)
        return made[-1].results[0]


@dataclass(frozen=True, eq=False)
class Words:
    """The vocabulary of laws: what the names in them mean.

    ``number`` returns the value that all elements of a constant share, None for other values. A law
    that says ``true`` needs a bool, one that says ``1`` an int. ``makers`` build right-hand-side
    operations that need more than operands and a type; they get the site, the type (None for a
    nested operation) and the operands.
    """

    kinds: Mapping[str, type[Operation] | tuple[type[Operation], ...]]
    number: Callable[[SSAValue], float | None]
    makers: Mapping[str, Callable[..., SSAValue]] = field(default_factory=dict)
    tests: Mapping[str, Callable[..., object]] = field(default_factory=dict)

    def classes(self, name: str) -> tuple[type[Operation], ...]:
        """Return the operation classes that a word of a law denotes."""
        kind = self.kinds[name]
        return kind if isinstance(kind, tuple) else (kind,)

    def is_number(self, value: SSAValue, wanted: float) -> bool:
        """Whether all elements of a value equal a number of the same Python type: 1 is neither
        ``True`` nor 1.0."""
        found = self.number(value)
        return found == wanted and type(found) is type(wanted)


class Rules(dict[type[Operation], tuple[Rule, ...]]):
    """Rules by the operation class they match, in the order in which they are tried."""

    def __init__(self, words: Words) -> None:
        super().__init__()
        self._words = words

    def law(self, name: str, *forms: str) -> Rule:
        """Register a law. If it has several forms, the first that matches is applied.

        Raises ``SyntaxError``, ``ValueError`` or ``KeyError`` for a malformed law.
        """
        by_class: dict[type[Operation], list[_Form]] = {}
        for text in forms:
            writer = _Writer(text, self._words)
            form = writer.function()
            for cls in writer.roots:
                by_class.setdefault(cls, []).append(form)

        def rule(op: Operation, rewriter: PatternRewriter) -> None:
            for form in by_class[type(op)]:
                if form(op, rewriter):
                    return

        rule.__name__ = name
        rule.__doc__ = ", ".join(f"``{text}``" for text in forms).replace(" -> ", " = ")
        return self.on(*by_class)(rule)

    def on(self, *classes: type[Operation]) -> Callable[[_RuleT], _RuleT]:
        """Enter a function that matches by hand."""

        def enter(rule: _RuleT) -> _RuleT:
            for cls in classes:
                self[cls] = (*self.get(cls, ()), rule)
            return rule

        return enter


class _Writer:
    """Compiles ``pattern -> replacement if condition`` to a Python function.

    The function returns whether the pattern matched. Interpreting the pattern for each operation
    instead takes several times longer.
    """

    def __init__(self, text: str, words: Words) -> None:
        pattern, _, rest = text.partition(" -> ")
        replacement, _, condition = rest.partition(" if ")
        self._words = words
        self._names: set[str] = set()
        self._lines: list[str] = []
        self._globals: dict[str, Any] = {
            **words.tests,
            "_is": words.is_number,
            "_Site": Site,
            "_replace": replace_value,
            "_set_operands": _set_operands,
        }
        root, right = (ast.parse(part, mode="eval").body for part in (pattern, replacement))
        if not (isinstance(root, ast.Call) and isinstance(right, ast.Call | ast.Name)):
            raise SyntaxError(f"the right side of a law is a value or an operation: {text}")  # noqa: TRY004
        self.roots = words.classes(ast.unparse(root.func))
        self._match_operands("op", root.args)
        if condition or " if" in text:
            self._require(condition)
        self._lines.append("ty = op.results[0].type")
        if isinstance(right, ast.Name):
            self._require(f"{self._made(right)}.type == ty")
            self._lines.append(f"_replace(rewriter, op, {right.id})")
        else:
            self._lines.append("site = _Site(op, rewriter)")
            if ast.unparse(right.func) == ast.unparse(root.func):
                operands = ", ".join(self._made(part) for part in right.args)
                self._lines.append(f"_set_operands(site, [{operands}])")
            else:
                self._lines.append(f"_replace(rewriter, op, {self._made(right, 'ty')})")

    def function(self) -> _Form:
        body = "\n    ".join([*self._lines, "return True"])
        exec(f"def form(op, rewriter):\n    {body}", self._globals)
        return self._globals["form"]

    def _require(self, condition: str) -> None:
        self._lines.append(f"if not ({condition}): return False")

    def _global(self, value: object) -> str:
        name = f"_global{len(self._globals)}"
        self._globals[name] = value
        return name

    def _match_operands(self, op: str, parts: Sequence[ast.expr]) -> None:
        values = f"_values{len(self._lines)}"
        self._lines.append(f"{values} = tuple({op}.operands)")
        is_open = bool(parts) and isinstance(parts[-1], ast.Constant) and parts[-1].value is ...
        count = len(parts) - is_open
        self._require(f"len({values}) {'>=' if is_open else '=='} {count}")
        for index, part in enumerate(parts[:count]):
            self._match(part, f"{values}[{index}]")

    def _match(self, node: ast.expr, value: str) -> None:
        match node:
            case ast.Name("_"):
                pass
            case ast.Constant(number):
                self._require(f"_is({value}, {number})")
            case ast.Name("true" | "false" as name):
                self._require(f"_is({value}, {_CONSTANTS[name]})")
            case ast.Name(name) if name in self._names:
                self._require(f"{name} is {value}")
            case ast.Name(name):
                self._lines.append(f"{name} = {value}")
                self._names.add(name)
            case ast.NamedExpr(target, inner):
                self._match(inner, value)
                self._match(target, value)
            case ast.Call(func, operands):
                kinds = self._global(frozenset(self._words.classes(ast.unparse(func))))
                maker = f"_maker{len(self._lines)}"
                self._lines.append(f"{maker} = {value}.owner")
                self._require(f"type({maker}) in {kinds}")
                self._match_operands(maker, operands)
            case _:
                raise ValueError(f"no pattern: {ast.unparse(node)}")

    def _made(self, node: ast.expr, ty: str = "None") -> str:
        """Return the Python expression that builds a part of the replacement."""
        match node:
            case ast.Name("true" | "false" as name):
                return str(_CONSTANTS[name])
            case ast.Name(name) if name in self._names:
                return name
            case ast.Call(func, parts):
                word = ast.unparse(func)
                maker = self._words.makers.get(word) or _maker(*self._words.classes(word))
                operands = ", ".join(self._made(part) for part in parts)
                return f"{self._global(maker)}(site, {ty}, {operands})"
        raise ValueError(f"'{ast.unparse(node)}' is not a value of the pattern")


def _maker(cls: type[Operation]) -> Callable[..., SSAValue]:
    """Return a function that builds operations of a class. A nested one takes its type from its
    last operand; one of the matched class inherits the matched operation's properties."""

    def make(site: Site, ty: Attribute | None, *operands: SSAValue) -> SSAValue:
        properties = dict(site.op.properties) if type(site.op) is cls else {}
        result = operands[-1].type if ty is None else ty
        return site.add(cls.create(operands=operands, result_types=[result], properties=properties))

    return make


def _set_operands(site: Site, operands: Sequence[SSAValue]) -> None:
    """Change the operands in place. The operations that defined the old ones may now be dead."""
    before = [value.owner for value in site.op.operands]
    site.op.operands = operands
    for changed in (site.op, *before):
        if isinstance(changed, Operation):
            site.rewriter.notify_op_modified(changed)
