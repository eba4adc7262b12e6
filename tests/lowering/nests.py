"""Kernels made of nested ``if``, ``for`` and ``loop``, with every kind of exit, from choices.

Each statement prints what it sees, so the order of execution and the values show in the output.
Every kernel ends: loops count their steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

#: Gives a number from 0 up to its argument, without it.
Choose = Callable[[int], int]

MAX_DEPTH = 6
MAX_STEPS = 3


@dataclass
class Place:
    """What may end a region here: the values that each exit takes, None where it is not legal.

    ``counter`` is what a continue passes on as the first value of a loop.
    """

    results: int | None = None
    carried: int | None = None
    broken: int | None = None
    returns: bool = True
    counter: str | None = None


@dataclass
class LoopNest:
    choose: Choose
    lines: list[str] = field(default_factory=list)
    budget: int = 24
    names: int = 0

    def fresh(self) -> str:
        self.names += 1
        return f"%v{self.names}"

    def line(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)

    def pick(self, scope: list[str]) -> str:
        return scope[self.choose(len(scope))]

    def picks(self, scope: list[str], count: int) -> list[str]:
        return [self.pick(scope) for _ in range(count)]

    def kernel(self) -> str:
        self.line(0, "entry @k(%a: tile<i32>, %b: tile<i32>) {")
        scope = ["%a", "%b"]
        for number in range(MAX_STEPS + 1):
            self.line(1, f"%k{number} = constant <i32: {number}> : tile<i32>")
            scope.append(f"%k{number}")
        self.body(1, scope, Place(), ends=False)
        self.line(1, "return")
        self.line(0, "}")
        return "\n".join(self.lines) + "\n"

    def body(self, depth: int, scope: list[str], place: Place, ends: bool = True) -> None:
        """Statements, and a terminator where the region ends with them."""
        scope = list(scope)
        kinds = [self.print, self.compute, *[self.branch] * 4, self.for_, self.loop, self.loop]
        for _ in range(1 + self.choose(4)):
            if self.budget <= 0:
                break
            self.budget -= 1
            kind = kinds[self.choose(len(kinds) if depth <= MAX_DEPTH else 2)]
            kind(depth, scope, place)
        if ends:
            self.end(depth, scope, place)

    def print(self, depth: int, scope: list[str], place: Place) -> None:
        self.names += 1
        value, name = self.pick(scope), f"%t{self.names}"
        self.line(depth, f'{name} = print_tko "{name[1:]} %d;", {value} : tile<i32> -> token')

    def compute(self, depth: int, scope: list[str], place: Place) -> None:
        name, op = self.fresh(), ("addi", "xori", "muli")[self.choose(3)]
        self.line(depth, f"{name} = {op} {self.pick(scope)}, {self.pick(scope)} : tile<i32>")
        scope.append(name)

    def condition(self, depth: int, scope: list[str]) -> str:
        name = self.fresh()
        if self.choose(2):
            self.line(depth, f"{name} = trunci {self.pick(scope)} : tile<i32> -> tile<i1>")
        else:
            pair = ", ".join(self.picks(scope, 2))
            self.line(depth, f"{name} = cmpi less_than {pair}, signed : tile<i32> -> tile<i1>")
        return name

    def branch(self, depth: int, scope: list[str], place: Place) -> None:
        results = self.choose(3)
        condition = self.condition(depth, scope)
        names = [self.fresh() for _ in range(results)]
        head = f"{', '.join(names)} = " if names else ""
        types = f" -> ({_types(results)})" if names else ""
        inner = Place(results, place.carried, place.broken, place.returns, place.counter)
        self.line(depth, f"{head}if {condition}{types} {{")
        self.body(depth + 1, scope, inner)
        if names or self.choose(2):
            self.line(depth, "} else {")
            self.body(depth + 1, scope, inner)
        self.line(depth, "}")
        scope += names

    def for_(self, depth: int, scope: list[str], place: Place) -> None:
        carried = self.choose(3)
        first, last = self.choose(2), self.choose(MAX_STEPS + 1)
        initial = self.picks(scope, carried)
        names = [self.fresh() for _ in range(carried)]
        arguments = [self.fresh() for _ in range(carried)]
        counter = self.fresh()
        head = f"{', '.join(names)} = " if names else ""
        pairs = ", ".join(f"{a} = {v}" for a, v in zip(arguments, initial, strict=True))
        values = f" iter_values({pairs}) -> ({_types(carried)})" if carried else ""
        self.line(
            depth,
            f"{head}for {counter} in (%k{first} to %k{last}, step %k1) : tile<i32>{values} {{",
        )
        self.body(depth + 1, [*scope, counter, *arguments], Place(None, carried, None, False))
        self.line(depth, "}")
        scope += names

    def loop(self, depth: int, scope: list[str], place: Place) -> None:
        carried, broken = 1 + self.choose(2), self.choose(3)
        initial = ["%k0", *self.picks(scope, carried - 1)]
        names = [self.fresh() for _ in range(broken)]
        arguments = [self.fresh() for _ in range(carried)]
        head = f"{', '.join(names)} = " if names else ""
        pairs = ", ".join(f"{a} = {v}" for a, v in zip(arguments, initial, strict=True))
        types = f"{_types(carried)}{f' -> {_types(broken)}' if broken else ''}"
        self.line(depth, f"{head}loop iter_values({pairs}) : {types} {{")
        inside = [*scope, *arguments]
        limit, done, following = f"%k{1 + self.choose(MAX_STEPS)}", self.fresh(), self.fresh()
        self.line(
            depth + 1,
            f"{done} = cmpi greater_than_or_equal {arguments[0]}, {limit}, signed "
            ": tile<i32> -> tile<i1>",
        )
        self.line(depth + 1, f"if {done} {{")
        self.line(depth + 2, f"break{_operands(self.picks(inside, broken))}")
        self.line(depth + 1, "}")
        self.line(depth + 1, f"{following} = addi {arguments[0]}, %k1 : tile<i32>")
        self.body(depth + 1, inside, Place(None, carried, broken, place.returns, following))
        self.line(depth, "}")
        scope += names

    def end(self, depth: int, scope: list[str], place: Place) -> None:
        """A terminator that is legal here; falling through and going on are the likelier ones."""
        ends: list[tuple[str, list[str]]] = []
        if place.results is not None:
            ends += [("yield", self.picks(scope, place.results))] * 4
        if place.carried is not None:
            first = [] if place.counter is None else [place.counter]
            ends += [("continue", first + self.picks(scope, place.carried - len(first)))] * 2
        if place.broken is not None:
            ends.append(("break", self.picks(scope, place.broken)))
        if place.returns:
            ends.append(("return", []))
        word, operands = ends[self.choose(len(ends))]
        self.line(depth, f"{word}{_operands(operands)}")


def _types(count: int) -> str:
    return ", ".join(["tile<i32>"] * count)


def _operands(values: list[str]) -> str:
    return f" {', '.join(values)} : {_types(len(values))}" if values else ""
