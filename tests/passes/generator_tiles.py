"""Random kernels that also compute with float tiles, views, pointers, reductions and atomics.

A kernel takes the arguments of ``generator`` and: ``%a``, 16 x 8 f32 to read; ``%o``, for each tile
block 16 x 8 f32 to write and read again; ``%c``, 8 counters of i32; ``%rows``, how many rows of
``%a`` and ``%o`` the views see, 13 to 16. Blocks share nothing that they write but the counters, to which they
only add, so the result does not depend on the order of blocks.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.passes.generator import I1, I32, OUT_WORDS, Generator, Scope

ROWS, COLUMNS, COUNTERS = 16, 8, 8

WIDE = "tile<4x8xf32>"
TALL = "tile<8x4xf32>"
HALF = "tile<4x8xf16>"
LINE = "tile<8xf32>"
WORDS = "tile<4x8xi32>"
FLAGS = "tile<4x8xi1>"
_VIEW = "tensor_view<?x8xf32, strides=[8,1]>"
_TILES = f"partition_view<tile=(4x8), padding_value = zero, {_VIEW}>"
_TURNED = f"partition_view<tile=(8x4), padding_value = neg_inf, {_VIEW}, dim_map=[1, 0]>"
_FLOAT_OPS = ("addf", "subf", "mulf", "maxf", "minf")
_INT_OPS = ("addi", "subi", "muli", "andi", "ori", "xori", "maxi", "mini")


class TileGenerator(Generator):
    """Writes one kernel."""

    def kernel(self) -> str:
        kinds = (I32, I1, "tile<f32>", "tile<4xi32>", "tile<4xi1>")
        more = (WIDE, TALL, HALF, LINE, WORDS, FLAGS)
        scope: Scope = {kind: [] for kind in (*kinds, *more)}
        scope[I32] += ["%x", "%y", "%z", "%rows"]
        scope[I1].append("%b")
        self.put("entry @k(%x: tile<i32>, %y: tile<i32>, %z: tile<i32>, %b: tile<i1>,")
        self.put("         %whole: tile<ptr<i32>>, %a: tile<ptr<f32>>, %out: tile<ptr<f32>>,")
        self.put("         %c: tile<ptr<i32>>, %rows: tile<i32>) {")
        self.put("%block, %by, %bz = get_tile_block_id : tile<i32>")
        for name, whole, element, words in (
            ("p", "whole", "i32", OUT_WORDS),
            ("o", "out", "f32", ROWS * COLUMNS),
        ):
            self.put(f"%{name}_words = constant <i32: {words}> : tile<i32>")
            self.put(f"%{name}_from = muli %block, %{name}_words : tile<i32>")
            ty = f"tile<ptr<{element}>>"
            self.put(f"%{name} = offset %{whole}, %{name}_from : {ty}, tile<i32> -> {ty}")
        for name in ("a", "o"):
            self.put(
                f"%{name}_view = make_tensor_view %{name}, shape = [%rows, 8], strides = [8, 1] : "
                f"tile<i32> -> {_VIEW}"
            )
            self.put(f"%{name}_tiles = make_partition_view %{name}_view : {_TILES}")
            self.put(f"%{name}_turned = make_partition_view %{name}_view : {_TURNED}")
        scope[I32].append("%block")
        self.value(scope, "tile<f32>", "constant <f32: 1.25> : tile<f32>")
        self.value(scope, "tile<4xi32>", "iota : tile<4xi32>")
        self.value(scope, "tile<4xi1>", "constant <i1: [true, false, true, false]> : tile<4xi1>")
        self.value(scope, WIDE, f"constant <f32: 0.75> : {WIDE}")
        self.value(scope, TALL, f"constant <f32: -3.5> : {TALL}")
        self.value(scope, HALF, f"constant <f16: 0.5> : {HALF}")
        self.value(
            scope, LINE, f"constant <f32: [1.0, 2.0, 3.0, 4.0, -1.0, -2.0, 0.5, 0.0]> : {LINE}"
        )
        self.value(scope, WORDS, f"constant <i32: 3> : {WORDS}")
        self.value(scope, FLAGS, f"constant <i1: true> : {FLAGS}")
        self.load_view(scope, 0)
        self.statements(scope, 0, 8)
        self.store_view(scope, 0)
        for value in scope[I32][-3:]:
            self.store(scope, value)
        self.put("return")
        self.put("}")
        return "\n".join(self.lines) + "\n"

    def statements(self, scope: Scope, depth: int, room: int) -> None:
        choices: list[Callable[[Scope, int], None]] = [self.arithmetic, self.comparison]
        choices += [self.float_tiles] * 4 + [self.word_tiles] * 2 + [self.load_view] * 2
        choices += [
            self.store_view,
            self.pointers,
            self.pointers,
            self.atomic,
            self.fold,
            self.fold,
        ]
        choices += [self.prefix, self.product, self.shapes, self.shapes, self.conversions]
        choices += [self.output, self.store_words]
        if depth < 2:
            choices += [self.conditional] * 3 + [self.counted] * 2 + [self.endless]
        for _ in range(self.random.randint(2, room)):
            self.random.choice(choices)(scope, depth)

    def row(self, scope: Scope, limit: int) -> str:
        """An index below ``limit``, a power of two, known only when the kernel runs, or constant."""
        if self.random.random() < 0.3:
            return self.constant(scope, self.random.randrange(limit))
        mask = self.constant(scope, limit - 1)
        return self.value(scope, I32, f"andi {self.pick(scope, I32)}, {mask} : tile<i32>")

    def float_tiles(self, scope: Scope, depth: int) -> None:
        kind = self.random.choice((WIDE, WIDE, TALL, HALF, LINE))
        lhs, rhs = self.pick(scope, kind), self.pick(scope, kind)
        choice = self.random.randrange(5)
        if choice == 0:
            self.value(
                scope, kind, f"{self.random.choice(('negf', 'absf', 'floor'))} {lhs} : {kind}"
            )
        elif choice == 1 and kind == WIDE:
            order = self.random.choice(("less_than", "equal", "greater_than_or_equal"))
            self.value(scope, FLAGS, f"cmpf {order} ordered {lhs}, {rhs} : {WIDE} -> {FLAGS}")
        elif choice == 2 and kind == WIDE:
            flags = self.pick(scope, FLAGS)
            self.value(scope, WIDE, f"select {flags}, {lhs}, {rhs} : {FLAGS}, {WIDE}")
        else:
            self.value(scope, kind, f"{self.random.choice(_FLOAT_OPS)} {lhs}, {rhs} : {kind}")

    def word_tiles(self, scope: Scope, depth: int) -> None:
        lhs, rhs = self.pick(scope, WORDS), self.pick(scope, WORDS)
        if self.random.random() < 0.3:
            expression = f"cmpi less_than {lhs}, {rhs}, signed : {WORDS} -> {FLAGS}"
            self.value(scope, FLAGS, expression)
            return
        op = self.random.choice(_INT_OPS)
        word = " signed" if op in ("maxi", "mini") else ""
        self.value(scope, WORDS, f"{op} {lhs}, {rhs}{word} : {WORDS}")

    def load_view(self, scope: Scope, depth: int) -> None:
        """Of what is read only, or of what the block itself wrote before."""
        name = self.random.choice(("a", "o"))
        if self.random.random() < 0.6:
            row, column, view, kind, tiles = (
                self.row(scope, 4),
                self.row(scope, 1),
                _TILES,
                WIDE,
                "tiles",
            )
        else:
            row, column, view, kind, tiles = (
                self.row(scope, 1),
                self.row(scope, 4),
                _TURNED,
                TALL,
                "turned",
            )
        tile = self.name()
        self.put(
            f"{tile}, {self.name()} = load_view_tko weak %{name}_{tiles}[{row}, {column}] : {view}, "
            f"tile<i32> -> {kind}, token"
        )
        scope[kind].append(tile)

    def store_view(self, scope: Scope, depth: int) -> None:
        value, row, column = self.pick(scope, WIDE), self.row(scope, 4), self.row(scope, 1)
        self.put(
            f"{self.name()} = store_view_tko weak {value}, %o_tiles[{row}, {column}] : {WIDE}, "
            f"{_TILES}, tile<i32> -> token"
        )

    def pointers(self, scope: Scope, depth: int) -> None:
        """A load or store of eight neighbours, the last of which may be masked off."""
        base = self.random.choice(("%a", "%o"))
        one, all_, lanes, moved, at, limit, mask = (self.name() for _ in range(7))
        start = self.row(scope, 8)
        self.put(f"{one} = reshape {base} : tile<ptr<f32>> -> tile<1xptr<f32>>")
        self.put(f"{all_} = broadcast {one} : tile<1xptr<f32>> -> tile<8xptr<f32>>")
        self.put(f"{lanes} = iota : tile<8xi32>")
        self.put(
            f"{moved} = offset {all_}, {lanes} : tile<8xptr<f32>>, tile<8xi32> -> tile<8xptr<f32>>"
        )
        spread = self.spread(start)
        self.put(
            f"{at} = offset {moved}, {spread} : tile<8xptr<f32>>, tile<8xi32> -> tile<8xptr<f32>>"
        )
        self.put(f"{limit} = constant <i32: {self.random.choice((0, 3, 8))}> : tile<8xi32>")
        self.put(f"{mask} = cmpi less_than {lanes}, {limit}, signed : tile<8xi32> -> tile<8xi1>")
        line = self.pick(scope, LINE)
        if base == "%o" and self.random.random() < 0.5:
            types = f"tile<8xptr<f32>>, {LINE}, tile<8xi1> -> token"
            self.put(f"{self.name()} = store_ptr_tko weak {at}, {line}, {mask} : {types}")
            return
        loaded = self.name()
        types = f"tile<8xptr<f32>>, tile<8xi1>, {LINE} -> {LINE}, token"
        self.put(f"{loaded}, {self.name()} = load_ptr_tko weak {at}, {mask}, {line} : {types}")
        scope[LINE].append(loaded)

    def spread(self, scalar: str) -> str:
        one, all_ = self.name(), self.name()
        self.put(f"{one} = reshape {scalar} : tile<i32> -> tile<1xi32>")
        self.put(f"{all_} = broadcast {one} : tile<1xi32> -> tile<8xi32>")
        return all_

    def atomic(self, scope: Scope, depth: int) -> None:
        slot, pointer = self.row(scope, COUNTERS), self.name()
        value = self.pick(scope, I32)
        self.put(f"{pointer} = offset %c, {slot} : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>")
        self.put(
            f"{self.name()}, {self.name()} = atomic_rmw_tko relaxed device {pointer}, add, {value} : "
            "tile<ptr<i32>>, tile<i32> -> tile<i32>, token"
        )

    def fold(self, scope: Scope, depth: int) -> None:
        """A reduction of a float or integer tile, down to a number that is stored."""
        if self.random.random() < 0.5:
            source, element, result = self.pick(scope, WIDE), "f32", LINE
            op, identity = self.random.choice((("addf", "0.0"), ("maxf", "0xFF800000")))
            self.reduce(scope, source, WIDE, 0, f"{identity} : f32", element, op, result)
        else:
            first = self.name()
            op, identity = self.random.choice(
                (("addi", "0"), ("xori", "0"), ("maxi", "-2147483648"))
            )
            word = " signed" if op == "maxi" else ""
            source = self.pick(scope, WORDS)
            self.put(
                self.folding("reduce", first, source, WORDS, 1, f"{identity} : i32", "tile<4xi32>")
            )
            self.body(op, "i32", word)
            scope["tile<4xi32>"].append(first)
            total = self.name()
            self.put(
                self.folding("reduce", total, first, "tile<4xi32>", 0, f"{identity} : i32", I32)
            )
            self.body(op, "i32", word)
            scope[I32].append(total)
            self.store(scope, total)

    def reduce(
        self,
        scope: Scope,
        source: str,
        kind: str,
        dim: int,
        identity: str,
        element: str,
        op: str,
        result: str,
    ) -> None:
        name = self.name()
        self.put(self.folding("reduce", name, source, kind, dim, identity, result))
        self.body(op, element)
        scope[result].append(name)

    @staticmethod
    def folding(
        op: str, name: str, source: str, kind: str, dim: int, identity: str, result: str
    ) -> str:
        reverse = " reverse=true" if op == "scan" and dim else ""
        reverse = " reverse=false" if op == "scan" and not dim else reverse
        return f"{name} = {op} {source} dim={dim}{reverse} identities=[{identity}] : {kind} -> {result}"

    def body(self, op: str, element: str, word: str = "") -> None:
        lhs, rhs, total = (self.name() for _ in range(3))
        self.put(f"({lhs}: tile<{element}>, {rhs}: tile<{element}>) {{")
        self.put(f"{total} = {op} {lhs}, {rhs}{word} : tile<{element}>")
        self.put(f"yield {total} : tile<{element}>")
        self.put("}")

    def prefix(self, scope: Scope, depth: int) -> None:
        name, dim = self.name(), self.random.randrange(2)
        self.put(self.folding("scan", name, self.pick(scope, WORDS), WORDS, dim, "0 : i32", WORDS))
        self.body("addi", "i32")
        scope[WORDS].append(name)

    def product(self, scope: Scope, depth: int) -> None:
        wide, tall, total = self.pick(scope, WIDE), self.pick(scope, TALL), self.name()
        self.put(f"{total} = constant <f32: 0.5> : tile<4x4xf32>")
        product, flat = self.name(), self.name()
        self.put(f"{product} = mmaf {wide}, {tall}, {total} : {WIDE}, {TALL}, tile<4x4xf32>")
        self.put(
            f"{flat} = cat {product}, {product} dim = 1 : tile<4x4xf32>, tile<4x4xf32> -> {WIDE}"
        )
        scope[WIDE].append(flat)

    def shapes(self, scope: Scope, depth: int) -> None:
        choice = self.random.randrange(5)
        if choice == 0:
            self.value(scope, TALL, f"permute {self.pick(scope, WIDE)} [1, 0] : {WIDE} -> {TALL}")
        elif choice == 1:
            self.value(scope, TALL, f"reshape {self.pick(scope, WIDE)} : {WIDE} -> {TALL}")
        elif choice == 2:
            one = self.name()
            self.put(f"{one} = reshape {self.pick(scope, LINE)} : {LINE} -> tile<1x8xf32>")
            self.value(scope, WIDE, f"broadcast {one} : tile<1x8xf32> -> {WIDE}")
        elif choice == 3:
            part, row, column = self.name(), self.row(scope, 4), self.row(scope, 1)
            source = self.pick(scope, WIDE)
            self.put(f"{part} = extract {source}[{row}, {column}] : {WIDE} -> tile<1x8xf32>")
            self.value(scope, LINE, f"reshape {part} : tile<1x8xf32> -> {LINE}")
        else:
            lane = self.name()
            self.put(f"{lane} = iota : tile<8xi32>")
            one = self.name()
            self.put(f"{one} = reshape {lane} : tile<8xi32> -> tile<1x8xi32>")
            self.value(scope, WORDS, f"broadcast {one} : tile<1x8xi32> -> {WORDS}")

    def conversions(self, scope: Scope, depth: int) -> None:
        choice = self.random.randrange(4)
        if choice == 0:
            self.value(scope, HALF, f"ftof {self.pick(scope, WIDE)} : {WIDE} -> {HALF}")
        elif choice == 1:
            self.value(scope, WIDE, f"ftof {self.pick(scope, HALF)} : {HALF} -> {WIDE}")
        elif choice == 2:
            self.value(scope, WIDE, f"itof {self.pick(scope, WORDS)} signed : {WORDS} -> {WIDE}")
        else:
            self.value(scope, WORDS, f"bitcast {self.pick(scope, WIDE)} : {WIDE} -> {WORDS}")

    def store_words(self, scope: Scope, depth: int) -> None:
        """Make a tile of integers reach memory."""
        value = self.value(
            scope, WIDE, f"itof {self.pick(scope, WORDS)} signed : {WORDS} -> {WIDE}"
        )
        row, column = self.row(scope, 4), self.row(scope, 1)
        self.put(
            f"{self.name()} = store_view_tko weak {value}, %o_tiles[{row}, {column}] : {WIDE}, "
            f"{_TILES}, tile<i32> -> token"
        )


def tile_kernel(seed: int) -> str:
    """The text of a random kernel ``@k``."""
    return TileGenerator(seed).kernel()
