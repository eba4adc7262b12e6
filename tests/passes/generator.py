"""Random kernels: integer, float and tile arithmetic under ifs and loops, free of undefined
behaviour, whose every value can reach memory.

A kernel takes three i32 numbers, an i1 and a pointer to ``OUT_WORDS`` i32. Equal seeds give equal
text. The shapes that the passes look for are drawn often: comparisons of counters with values
from outside, negated and repeated conditions, exits in branches, constant conditions, equal
expressions, unused results.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

OUT_WORDS = 64
_ROOM = 8
_MAX_DEPTH = 3

I32, I1, F32, TILE, MASK = "tile<i32>", "tile<i1>", "tile<f32>", "tile<4xi32>", "tile<4xi1>"
_PREDICATES = (
    "equal",
    "not_equal",
    "less_than",
    "less_than_or_equal",
    "greater_than",
    "greater_than_or_equal",
)
_ORDERS = _PREDICATES[2:]
_WORDS = ("signed", "unsigned")

Scope = dict[str, list[str]]


class Generator:
    """Writes one kernel."""

    def __init__(self, seed: int):
        self.random = Random(seed)
        self.lines: list[str] = []
        self.count = 0
        self.counters: list[str] = []
        self.loops: list[tuple[str, list[str]]] = []

    def kernel(self) -> str:
        """The text of an entry ``@k``."""
        scope: Scope = {I32: ["%x", "%y", "%z"], I1: ["%b"], F32: [], TILE: [], MASK: []}
        self.put("entry @k(%x: tile<i32>, %y: tile<i32>, %z: tile<i32>, %b: tile<i1>,")
        self.put("         %p: tile<ptr<i32>>) {")
        self.value(scope, F32, "constant <f32: 1.25> : tile<f32>")
        self.value(scope, TILE, "iota : tile<4xi32>")
        self.value(scope, MASK, "constant <i1: [true, false, true, false]> : tile<4xi1>")
        self.statements(scope, 0, _ROOM + 6)
        for value in scope[I32][-4:]:
            self.store(scope, value)
        self.put("return")
        self.put("}")
        return "\n".join(self.lines) + "\n"

    def put(self, line: str) -> None:
        self.lines.append(line)

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def value(self, scope: Scope, kind: str, expression: str) -> str:
        name = self.name()
        self.put(f"{name} = {expression}")
        scope[kind].append(name)
        return name

    def pick(self, scope: Scope, kind: str) -> str:
        """A visible value, recent ones more often."""
        known = scope[kind]
        return known[-1 - min(int(self.random.expovariate(0.3)), len(known) - 1)]

    def constant(self, scope: Scope, number: int) -> str:
        return self.value(scope, I32, f"constant <i32: {number}> : tile<i32>")

    def statements(self, scope: Scope, depth: int, room: int) -> None:
        choices: list[Callable[[Scope, int], None]] = [self.arithmetic] * 5 + [self.comparison] * 3
        choices += [self.floats, self.tiles, self.tiles, self.output, self.assumption]
        choices += [self.selection] * 2
        if depth < _MAX_DEPTH:
            choices += [self.conditional] * 4 + [self.counted, self.endless]
        for _ in range(self.random.randint(2, room)):
            self.random.choice(choices)(scope, depth)

    def arithmetic(self, scope: Scope, depth: int) -> None:
        lhs, rhs = self.pick(scope, I32), self.pick(scope, I32)
        kind = self.random.randrange(6)
        if kind == 0:
            self.constant(scope, self.random.choice((-1, 0, 1, 2, 7, 100)))
        elif kind == 1:
            op = self.random.choice(("maxi", "mini"))
            word = self.random.choice(_WORDS)
            self.value(scope, I32, f"{op} {lhs}, {rhs} {word} : tile<i32>")
        elif kind == 2:
            divisor = self.constant(scope, self.random.choice((3, 5, 16)))
            op = self.random.choice(("remi", "divi", "shri"))
            self.value(scope, I32, f"{op} {lhs}, {divisor} signed : tile<i32>")
        else:
            op = self.random.choice(("addi", "subi", "muli", "andi", "ori", "xori"))
            for _ in range(self.random.choice((1, 1, 2))):
                self.value(scope, I32, f"{op} {lhs}, {rhs} : tile<i32>")

    def comparison(self, scope: Scope, depth: int) -> None:
        kind = self.random.randrange(6)
        if kind == 0:
            true = self.value(scope, I1, "constant <i1: true> : tile<i1>")
            self.value(scope, I1, f"xori {self.pick(scope, I1)}, {true} : tile<i1>")
        elif kind == 1:
            number = self.random.choice(("true", "false"))
            self.value(scope, I1, f"constant <i1: {number}> : tile<i1>")
        elif kind == 2:
            op = self.random.choice(("andi", "ori", "xori"))
            lhs, rhs = self.pick(scope, I1), self.pick(scope, I1)
            self.value(scope, I1, f"{op} {lhs}, {rhs} : tile<i1>")
        else:
            self.compare(scope, self.pick(scope, I32), self.random.choice(_PREDICATES), "signed")

    def compare(self, scope: Scope, lhs: str, predicate: str, word: str) -> str:
        rhs = self.pick(scope, I32)
        if self.random.random() < 0.3:
            lhs, rhs = rhs, lhs
        expression = f"cmpi {predicate} {lhs}, {rhs}, {word} : tile<i32> -> tile<i1>"
        return self.value(scope, I1, expression)

    def selection(self, scope: Scope, depth: int) -> None:
        if self.random.random() < 0.3:
            self.special_selection(scope)
            return
        kind = self.random.choice((I32, I32, I1, F32, TILE))
        on_true, on_false = self.pick(scope, kind), self.pick(scope, kind)
        if self.random.random() < 0.3 and kind == I32:
            on_true, on_false = self.constant(scope, 1), self.constant(scope, 0)
            if self.random.random() < 0.5:
                on_true, on_false = on_false, on_true
        mask = MASK if kind == TILE else I1
        condition = self.pick(scope, mask)
        if mask == I1 and self.random.random() < 0.3:
            true = self.constant_of(scope, I1)
            condition = self.value(scope, I1, f"xori {condition}, {true} : tile<i1>")
        inner = self.value(
            scope, kind, f"select {condition}, {on_true}, {on_false} : {mask}, {kind}"
        )
        if self.random.random() < 0.4:
            other = self.pick(scope, kind)
            arms = [inner, other]
            self.random.shuffle(arms)
            expression = f"select {condition}, {', '.join(arms)} : {mask}, {kind}"
            inner = self.value(scope, kind, expression)
        self.keep(scope, kind, inner)

    def keep(self, scope: Scope, kind: str, name: str) -> None:
        """Make a scalar number reach memory."""
        if kind == I1:
            name = self.value(scope, I32, f"exti {name} unsigned : tile<i1> -> tile<i32>")
        if kind in (I1, I32):
            self.store(scope, name)

    def special_selection(self, scope: Scope) -> None:
        """Arms that the condition compares, or constants throughout."""
        if self.random.random() < 0.5:
            lhs, rhs = self.pick(scope, I32), self.pick(scope, I32)
            predicate = self.random.choice(("equal", "not_equal", "less_than"))
            expression = f"cmpi {predicate} {lhs}, {rhs}, signed : tile<i32> -> tile<i1>"
            condition = self.value(scope, I1, expression)
            arms = [lhs, rhs]
            self.random.shuffle(arms)
            chosen = self.value(scope, I32, f"select {condition}, {', '.join(arms)} : {I1}, {I32}")
            self.keep(scope, I32, chosen)
            return
        kind, mask = self.random.choice(((I1, I1), (I1, I1), (TILE, MASK)))
        parts = [self.constant_of(scope, part) for part in (mask, kind, kind)]
        if kind == I1:
            parts[0] = self.pick(scope, I1)
        chosen = self.value(scope, kind, f"select {', '.join(parts)} : {mask}, {kind}")
        self.keep(scope, kind, chosen)

    def constant_of(self, scope: Scope, kind: str) -> str:
        element, choices = {
            I1: ("i1", ("true", "false")),
            MASK: ("i1", ("[true, false, false, true]", "[false, true, false, false]", "true")),
            TILE: ("i32", ("[1, 2, 3, 4]", "5", "[-1, 0, 0, 9]")),
        }[kind]
        literal = self.random.choice(choices)
        return self.value(scope, kind, f"constant <{element}: {literal}> : {kind}")

    def assumption(self, scope: Scope, depth: int) -> None:
        """Assumes once or twice what every i32 fulfils."""
        name = self.pick(scope, I32)
        for _ in range(self.random.choice((1, 2))):
            name = self.value(scope, I32, f"assume bounded<-2147483648, ?>, {name} : tile<i32>")

    def floats(self, scope: Scope, depth: int) -> None:
        lhs, rhs = self.pick(scope, F32), self.pick(scope, F32)
        product = self.value(scope, F32, f"mulf {lhs}, {rhs} : tile<f32>")
        operands = [product, self.pick(scope, F32)]
        self.random.shuffle(operands)
        op = self.random.choice(("addf", "subf"))
        total = self.value(scope, F32, f"{op} {operands[0]}, {operands[1]} : tile<f32>")
        if self.random.random() < 0.5:
            self.value(scope, I32, f"bitcast {total} : tile<f32> -> tile<i32>")

    def tiles(self, scope: Scope, depth: int) -> None:
        kind = self.random.randrange(4)
        if kind == 0:
            one = self.name()
            self.put(f"{one} = reshape {self.pick(scope, I32)} : tile<i32> -> tile<1xi32>")
            self.value(scope, TILE, f"broadcast {one} : tile<1xi32> -> tile<4xi32>")
        elif kind == 1:
            op = self.random.choice(("addi", "muli", "subi"))
            lhs, rhs = self.pick(scope, TILE), self.pick(scope, TILE)
            self.value(scope, TILE, f"{op} {lhs}, {rhs} : tile<4xi32>")
        elif kind == 2:
            lhs, rhs = self.pick(scope, TILE), self.pick(scope, TILE)
            expression = f"cmpi less_than {lhs}, {rhs}, signed : tile<4xi32> -> tile<4xi1>"
            self.value(scope, MASK, expression)
        else:
            self.reduction(scope)

    def reduction(self, scope: Scope) -> None:
        tile, lhs, rhs, total = (self.pick(scope, TILE), self.name(), self.name(), self.name())
        outer = self.pick(scope, I32)
        self.put(f"{self.name()} = reduce {tile} dim=0 identities=[0 : i32] : {TILE} -> {I32}")
        scope[I32].append(f"%v{self.count}")
        self.put(f"({lhs}: tile<i32>, {rhs}: tile<i32>) {{")
        # The outer value is computed with but does not count, so that the order stays free.
        self.put(f"{self.name()} = muli {outer}, {outer} : tile<i32>")
        self.put(f"{total} = addi {lhs}, {rhs} : tile<i32>")
        self.put(f"yield {total} : tile<i32>")
        self.put("}")

    def output(self, scope: Scope, depth: int) -> None:
        if self.random.random() < 0.3:
            value = self.pick(scope, I32)
            self.put(f'{self.name()} = print_tko "%d ", {value} : tile<i32> -> token')
        else:
            self.store(scope, self.pick(scope, I32))

    def store(self, scope: Scope, value: str) -> None:
        slot = self.constant(scope, self.random.randrange(OUT_WORDS))
        address = self.name()
        self.put(f"{address} = offset %p, {slot} : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>")
        pair = "tile<ptr<i32>>, tile<i32> -> token"
        self.put(f"{self.name()} = store_ptr_tko weak {address}, {value} : {pair}")

    def conditional(self, scope: Scope, depth: int) -> None:
        condition = self.pick(scope, I1)
        if self.counters and self.random.random() < 0.5:
            word = self.random.choice(("signed", "signed", "unsigned"))
            counter = self.random.choice(self.counters)
            condition = self.compare(scope, counter, self.random.choice(_ORDERS), word)
        if self.random.random() < 0.15:
            self.put(f"if {self.pick(scope, I1)} {{")
            self.put(f"if {condition} {{")
            self.store(self.copy(scope), self.pick(scope, I32))
            self.put("}")
            self.put("}")
        for _ in range(self.random.choice((1, 1, 1, 2))):
            self.branch(scope, depth, condition)

    def branch(self, scope: Scope, depth: int, condition: str) -> None:
        kinds = [
            self.random.choice((I32, I1, TILE)) for _ in range(self.random.choice((0, 0, 1, 2)))
        ]
        names = [self.name() for _ in kinds]
        results = f"{', '.join(names)} = " if kinds else ""
        arrow = f" -> ({', '.join(kinds)})" if kinds else ""
        self.put(f"{results}if {condition}{arrow} {{")
        leaves = self.region(scope, depth, kinds, self.random.random() < 0.2)
        if kinds or self.random.random() < 0.5:
            self.put("} else {")
            self.region(scope, depth, kinds, self.random.random() < (0.4 if leaves else 0.2))
        self.put("}")
        for kind, name in zip(kinds, names, strict=True):
            scope[kind].append(name)
            if self.random.random() < 0.5:
                self.keep(scope, kind, name)

    def region(self, scope: Scope, depth: int, kinds: list[str], leaves: bool) -> bool:
        """The contents of a branch; returns whether it ends in an exit."""
        inner = {kind: list(known) for kind, known in scope.items()}
        if self.random.random() < 0.7:
            self.statements(inner, depth + 1, _ROOM // 2)
        if leaves and self.leave(inner):
            return True
        self.finish("yield", inner, kinds)
        return False

    def finish(self, word: str, scope: Scope, kinds: list[str]) -> None:
        values = ", ".join(
            self.constant_of(scope, kind)
            if kind == I1 and self.random.random() < 0.5
            else self.pick(scope, kind)
            for kind in kinds
        )
        self.put(f"{word} {values} : {', '.join(kinds)}" if kinds else word)

    def leave(self, scope: Scope) -> bool:
        """An exit that is legal here; a loop is left, as its counter would not advance."""
        if not self.loops:
            self.put("return")
            return True
        word, kinds = self.loops[-1]
        self.finish(word, scope, kinds)
        return True

    def counted(self, scope: Scope, depth: int) -> None:
        """A ``for`` of few iterations."""
        lower = self.constant(scope, self.random.choice((-3, 0, 1)))
        seven = self.constant(scope, 7)
        upper = self.value(scope, I32, f"andi {self.pick(scope, I32)}, {seven} : tile<i32>")
        step = self.constant(scope, self.random.choice((1, 1, 2, 3)))
        flag = self.random.choice(("", "", "unsigned "))
        if flag:
            lower = self.constant(scope, self.random.choice((0, 1, 2)))
        kinds = [self.random.choice((I32, I1, TILE)) for _ in range(self.random.randint(0, 2))]
        counter, inner, carried = self.name(), self.copy(scope), ""
        names = [self.name() for _ in kinds]
        if kinds:
            arguments = [self.name() for _ in kinds]
            pairs = ", ".join(
                f"{a} = {self.pick(scope, kind)}" for a, kind in zip(arguments, kinds, strict=True)
            )
            carried = f" iter_values({pairs}) -> ({', '.join(kinds)})"
            for kind, argument in zip(kinds, arguments, strict=True):
                inner[kind].append(argument)
        head = f"{', '.join(names)} = for" if names else "for"
        bounds = f"({lower} to {upper}, step {step}) : tile<i32>"
        self.put(f"{head} {flag}{counter} in {bounds}{carried} {{")
        inner[I32].append(counter)
        self.counters.append(counter)
        self.loops.append(("continue", kinds))
        self.conditional(inner, depth + 1)
        self.statements(inner, depth + 1, _ROOM // 2)
        self.finish("continue", inner, kinds)
        self.loops.pop()
        self.counters.pop()
        self.put("}")
        for kind, name in zip(kinds, names, strict=True):
            scope[kind].append(name)

    def endless(self, scope: Scope, depth: int) -> None:
        """A ``loop`` that a count brings to its end; exits in its body break it."""
        zero, one, limit = (self.constant(scope, number) for number in (0, 1, 3))
        result, counter, after, enough = (self.name() for _ in range(4))
        self.put(f"{result} = loop iter_values({counter} = {zero}) : tile<i32> -> tile<i32> {{")
        inner = self.copy(scope)
        inner[I32].append(counter)
        self.put(f"{after} = addi {counter}, {one} : tile<i32>")
        self.put(f"{enough} = cmpi greater_than {after}, {limit}, signed : tile<i32> -> tile<i1>")
        self.put(f"if {enough} {{")
        self.finish("break", inner, [I32])
        self.put("}")
        self.loops.append(("break", [I32]))
        counters, self.counters = self.counters, []
        self.statements(inner, depth + 1, _ROOM // 2)
        self.counters = counters
        self.loops.pop()
        self.put(f"continue {after} : tile<i32>")
        self.put("}")
        scope[I32].append(result)

    @staticmethod
    def copy(scope: Scope) -> Scope:
        return {kind: list(known) for kind, known in scope.items()}


def kernel(seed: int) -> str:
    """The text of a random kernel ``@k``."""
    return Generator(seed).kernel()
