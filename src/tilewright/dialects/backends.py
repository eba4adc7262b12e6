"""The table of a back end: each operation and the rule for it, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    from xdsl.ir import Operation

Kind: TypeAlias = "str | type[Operation]"
"""An operation by its name or its class."""

R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


def name_of(kind: Kind) -> str:
    """The full name of an operation."""
    return kind if isinstance(kind, str) else kind.name


class Table(Mapping[Any, R], Generic[R]):
    """The rules of a back end by operation, in the order in which they were entered.

    ``refused`` are operations without a rule and why, in words that fit behind "cannot be run:";
    ``elsewhere`` are those that are handled, but not by a rule, and by what. Keys are full names, and
    names without a dialect are of ``dialect``; with ``by_class`` keys are classes, where operations of
    several dialects share a name.
    """

    def __init__(
        self,
        backend: str,
        *,
        dialect: str = "",
        by_class: bool = False,
        refused: Mapping[Any, str] | None = None,
        elsewhere: Mapping[Any, str] | None = None,
    ):
        self.backend = backend
        self._dialect, self._by_class = dialect, by_class
        self._rules: dict[Any, R] = {}
        self.refused: dict[Any, str] = {}
        self.elsewhere: dict[Any, str] = {}
        for kind, why in (refused or {}).items():
            self.refuse(why, kind)
        for kind, what in (elsewhere or {}).items():
            self.leave(what, kind)

    def key(self, kind: Kind) -> Any:
        """What the table knows an operation by."""
        if self._by_class:
            return kind
        name = name_of(kind)
        if self._dialect and ("." not in name or name.startswith("ext.")):
            return f"{self._dialect}.{name}"
        return name

    def __getitem__(self, kind: Kind) -> R:
        return self._rules[self.key(kind)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rules)

    def __len__(self) -> int:
        return len(self._rules)

    def __contains__(self, kind: object) -> bool:
        return isinstance(kind, str | type) and self.key(kind) in self._rules

    def rule_of(self, op: Operation) -> R | None:
        """The rule for an operation; None where there is none."""
        return self._rules.get(type(op) if self._by_class else op.name)

    def reason(self, op: Operation, otherwise: str) -> str:
        """Why there is no rule for an operation."""
        return self.refused.get(type(op) if self._by_class else op.name, otherwise)

    def enter(self, rule: R, *kinds: Kind) -> None:
        """Enter a rule; ``ValueError`` for an operation that the table has."""
        for kind in kinds:
            self._rules[self._new(kind)] = rule

    def rule(self, *kinds: Kind) -> Callable[[F], F]:
        """The same as a decorator of the rule."""

        def decorate(function: F) -> F:
            self.enter(function, *kinds)  # pyright: ignore[reportArgumentType]
            return function

        return decorate

    def refuse(self, why: str, *kinds: Kind) -> None:
        """Say why there is no rule for operations. Raises ValueError where the table has an entry for one already."""
        for kind in kinds:
            self.refused[self._new(kind)] = why

    def leave(self, what: str, *kinds: Kind) -> None:
        """Say what handles operations that have no rule. Raises ValueError as ``refuse`` does."""
        for kind in kinds:
            self.elsewhere[self._new(kind)] = what

    def _new(self, kind: Kind) -> Any:
        key = self.key(kind)
        if any(key in entries for entries in (self._rules, self.refused, self.elsewhere)):
            raise ValueError(f"{self.backend} has '{name_of(key)}' already")
        return key

    def problems(
        self, operations: Iterable[type[Operation]], others: Iterable[str] = ()
    ) -> list[str]:
        """What keeps the table from being complete for ``operations``: a line for each that has neither
        a rule nor a refusal, and for each entry that is none of them nor named in ``others``."""
        known = {self.key(cls) for cls in operations}
        entered = {*self._rules, *self.refused, *self.elsewhere}
        named = {name_of(key) for key in entered}
        missing = [f"{name_of(key)}: no rule, and no reason why not" for key in known - entered]
        unknown = [
            f"{name}: no such operation"
            for name in named - {name_of(key) for key in known} - set(others)
        ]
        silent = [
            f"{name_of(key)}: refused without a reason" for key in entered if self.is_silent(key)
        ]
        return [f"{self.backend}: {line}" for line in sorted((*missing, *unknown, *silent))]

    def is_silent(self, kind: Kind) -> bool:
        """Whether an operation is refused, or handled elsewhere, without a word about it."""
        key = self.key(kind)
        return self.refused.get(key, "-") == "" or self.elsewhere.get(key, "-") == ""

    def answer(self, cls: type[Operation]) -> str:
        """What becomes of an operation, as a cell of a table: ``yes``, or ``no: `` and why."""
        key = self.key(cls)
        if key in self.refused:
            return f"no: {self.refused[key]}"
        return f"yes: {self.elsewhere[key]}" if key in self.elsewhere else "yes"
