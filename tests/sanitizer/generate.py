"""Random kernels of several tile blocks without races, and mutations that give them one.

    program = generate(seed)            # the same for the same seed, on every machine
    program.text, program.grid, program.arguments()
    program.mutated(program.mutations[0])

A program is a row of *fragments*, each free of races and with a result that no order of tile blocks
can change: accesses of a tile block to tiles of its own, ordered by tokens; atomics that commute;
critical sections whose updates commute; blocks that hand a value on; a barrier; the block that
comes last. What orders the accesses of a fragment is used nowhere else, so that a mutation, which
takes one such order away, leaves a pair of conflicting accesses that nothing else can order:

* ``token``: an operation that follows a conflicting one by its token loses it;
* ``ordering``, ``scope``: a synchronising operation becomes weaker, or reaches its own block only;
* ``overlap``: a tile of the block's own becomes the same tile for all blocks.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

DTYPES: dict[str, np.dtype[Any]] = {
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
_INT_OPS = ("addi", "subi", "muli", "xori", "andi", "ori", "maxi", "mini")
_FLOAT_OPS = ("addf", "subf", "mulf", "maxf", "minf")


@dataclass(frozen=True, slots=True)
class Mutation:
    """One line of a program replaced by another, which makes the program racy."""

    kind: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Generated:
    """A program. ``arrays`` are its parameters: name, shape, element type."""

    seed: int
    lines: tuple[str, ...]
    grid: tuple[int, int, int]
    arrays: tuple[tuple[str, tuple[int, ...], str], ...]
    mutations: tuple[Mutation, ...]

    @property
    def text(self) -> str:
        return self._text(self.lines)

    def mutated(self, mutation: Mutation) -> str:
        lines = list(self.lines)
        lines[mutation.line] = mutation.text
        return self._text(lines)

    def _text(self, lines: Sequence[str]) -> str:
        parameters = ", ".join(f"%{name}: tile<ptr<{e}>>" for name, _, e in self.arrays)
        body = "\n".join(lines)
        return f"// seed {self.seed}\nentry @k({parameters}) {{\n{body}\n  return\n}}\n"

    def arguments(self) -> list[np.ndarray]:
        """Fresh arrays: small numbers for those named ``data...``, zeros for all others."""
        rng = np.random.default_rng(self.seed)
        found: list[np.ndarray] = []
        for name, shape, element in self.arrays:
            small = rng.integers(-4, 5, shape)
            content = small if name.startswith("data") else np.zeros(shape)
            found.append(content.astype(DTYPES[element]))
        return found


@dataclass(slots=True)
class Writer:
    """The program so far. ``block`` is the number of a tile block, ``count`` how many there are."""

    rng: random.Random
    count: int
    lines: list[str] = field(default_factory=list)
    mutations: list[Mutation] = field(default_factory=list)
    arrays: list[tuple[str, tuple[int, ...], str]] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    """Tokens that any later operation may take as well; only while no region is open."""
    depth: int = 1
    _names: int = 0

    def name(self, prefix: str = "v") -> str:
        self._names += 1
        return f"%{prefix}{self._names}"

    def array(self, prefix: str, shape: tuple[int, ...], element: str) -> str:
        """A new parameter; gives its SSA name."""
        name = self.name(prefix)
        self.arrays.append((name.removeprefix("%"), shape, element))
        return name

    def emit(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def open(self, text: str) -> None:
        self.emit(text + " {")
        self.depth += 1

    def close(self, text: str = "}") -> None:
        self.depth -= 1
        self.emit(text)

    def value(self, text: str) -> str:
        """Emit an operation with one result."""
        name = self.name()
        self.emit(f"{name} = {text}")
        return name

    def mutant(self, kind: str, old: str, new: str) -> None:
        """The line written last may be mutated by replacing a part that it contains."""
        line = self.lines[-1]
        assert old in line, (old, line)
        self.mutations.append(Mutation(kind, len(self.lines) - 1, line.replace(old, new, 1)))

    def constant(self, number: int, element: str = "i32", dims: str = "") -> str:
        literal = f"{number}.0" if "f" in element else str(number)
        return self.value(f"constant <{element}: {literal}> : tile<{dims}{element}>")

    def after(self, needed: Iterable[str]) -> str:
        """The ``token = ...`` of an operation that must follow these, and may follow others."""
        wanted = dict.fromkeys(needed)
        if self.depth == 1 and self.tokens and self.rng.random() < 0.3:
            wanted[self.rng.choice(self.tokens)] = None
        if not wanted:
            return ""
        names = list(wanted)
        token = names[0]
        if len(names) > 1:
            token = self.name("t")
            self.emit(f"{token} = join_tokens {', '.join(names)} : token")
        return f" token = {token}"

    def access(self, text: str, needed: Sequence[str], value: str = "") -> str:
        """Emit a memory operation; ``AFTER`` in its text is where its token belongs.

        ``needed`` are the tokens of conflicting accesses before it: without all of them it races.
        Gives the result token; ``value`` is the name of a result before that.
        """
        clause, token = self.after(needed), self.name("t")
        results = f"{value}, {token}" if value else token
        self.emit(f"{results} = {text.replace('AFTER', clause)}")
        if needed:
            self.mutant("token", clause, "")
        if self.depth == 1:
            self.tokens.append(token)
        return token

    # What kernels compute.

    def compute(self, value: str, element: str, dims: str) -> str:
        """Some arithmetic on a tile."""
        ty = f"tile<{dims}{element}>"
        is_float = "f" in element
        for _ in range(self.rng.randint(1, 3)):
            op = self.rng.choice(_FLOAT_OPS if is_float else _INT_OPS)
            if self.rng.random() < 0.3:
                other = self.block_value(element, dims)
            else:
                other = self.constant(self.rng.randint(1, 5), element, dims)
            sign = " signed" if op in ("maxi", "mini") else ""
            value = self.value(f"{op} {value}, {other}{sign} : {ty}")
            if dims.count("x") == 1 and self.rng.random() < 0.2:
                value = self._sum_everywhere(value, element, dims)
        return value

    def _sum_everywhere(self, value: str, element: str, dims: str) -> str:
        """Every element replaced by the sum of all."""
        scalar, zero = f"tile<{element}>", "0.0" if "f" in element else "0"
        add, a, b = "addf" if "f" in element else "addi", self.name("a"), self.name("a")
        total = self.value(
            f"reduce {value} dim=0 identities=[{zero} : {element}] : tile<{dims}{element}> "
            f"-> {scalar} ({a}: {scalar}, {b}: {scalar}) {{ {a}s = {add} {a}, {b} : {scalar} "
            f"yield {a}s : {scalar} }}"
        )
        return self.spread(total, element, dims)

    def block_value(self, element: str, dims: str) -> str:
        """The number of the tile block, in every element of a tile."""
        block = "%block"
        if "f" in element:
            block = self.value(f"itof {block} signed : tile<i32> -> tile<{element}>")
        elif element == "i64":
            block = self.value(f"exti {block} signed : tile<i32> -> tile<i64>")
        elif element != "i32":
            block = self.value(f"trunci {block} : tile<i32> -> tile<{element}>")
        return self.spread(block, element, dims)

    def spread(self, scalar: str, element: str, dims: str) -> str:
        """A scalar (or pointer) in every element of a tile."""
        if not dims:
            return scalar
        ones = "1x" * dims.count("x")
        one = self.value(f"reshape {scalar} : tile<{element}> -> tile<{ones}{element}>")
        return self.value(f"broadcast {one} : tile<{ones}{element}> -> tile<{dims}{element}>")

    def element_pointer(self, base: str, index: str, element: str) -> str:
        return self.value(
            f"offset {base}, {index} : tile<ptr<{element}>>, tile<i32> -> tile<ptr<{element}>>"
        )


def generate(seed: int) -> Generated:
    """The program of a seed."""
    from tests.sanitizer.fragments import FRAGMENTS, Tiles

    rng = random.Random(seed)
    grid = rng.choice(((2, 1, 1), (3, 1, 1), (4, 1, 1), (5, 1, 1), (2, 2, 1), (1, 3, 1)))
    writer = Writer(rng, grid[0] * grid[1])
    for line in (
        "%bx, %by, %bz = get_tile_block_id : tile<i32>",
        "%nx, %ny, %nz = get_num_tile_blocks : tile<i32>",
        "%above = muli %by, %nx : tile<i32>",
        "%block = addi %above, %bx : tile<i32>",
        "%zero = constant <i32: 0> : tile<i32>",
        "%one = constant <i32: 1> : tile<i32>",
        f"%count = constant <i32: {writer.count}> : tile<i32>",
    ):
        writer.emit(line)
    tiles = [Tiles.make(writer) for _ in range(rng.randint(1, 2))]
    for _ in range(rng.randint(3, 7)):
        rng.choice(FRAGMENTS)(writer, rng.choice(tiles))
    for own in tiles:
        own.rewrite(writer)
    return Generated(seed, tuple(writer.lines), grid, tuple(writer.arrays), tuple(writer.mutations))
