"""What generated programs are made of; see ``generate``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.sanitizer.generate import DTYPES, Mutation, Writer

_SHAPES = ((4, 8), (2, 4), (1, 16), (8, 1), (8, 8))
_ATOMIC_MODES = ("add", "and", "or", "xor", "max", "min", "umax", "umin")


@dataclass(slots=True)
class Slot:
    """One tile of a block's own: the tokens that a next access must follow."""

    written: str | None = None
    read: list[str] = field(default_factory=list)

    @property
    def all(self) -> list[str]:
        return [*([self.written] if self.written else []), *self.read]


@dataclass(slots=True)
class Tiles:
    """An array of which every tile block has ``slots`` tiles of its own, one below the other.

    ``ragged`` tensors lack their last column; their tiles stick out and are padded.
    """

    base: str
    view: str
    view_type: str
    element: str
    shape: tuple[int, int]
    ragged: bool
    slots: list[Slot]

    @classmethod
    def make(cls, w: Writer) -> Tiles:
        element, (rows, columns) = w.rng.choice(list(DTYPES)), w.rng.choice(_SHAPES)
        count = w.rng.randint(1, 3)
        ragged = columns > 1 and w.rng.random() < 0.3
        width = columns - ragged
        base = w.array("data", (w.count * count * rows, width), element)
        tensor = f"tensor_view<{w.count * count * rows}x{width}x{element}, strides=[{width},1]>"
        padding = ", padding_value = zero" if ragged else ""
        view_type = f"partition_view<tile=({rows}x{columns}){padding}, {tensor}>"
        height = w.count * count * rows
        whole = w.value(
            f"make_tensor_view {base}, shape = [{height}, {width}], strides = [{width}, 1] "
            f": {tensor}"
        )
        view = w.value(f"make_partition_view {whole} : {view_type}")
        slots = [Slot() for _ in range(count)]
        return cls(base, view, view_type, element, (rows, columns), ragged, slots)

    @property
    def dims(self) -> str:
        return f"{self.shape[0]}x{self.shape[1]}x"

    @property
    def tile(self) -> str:
        return f"tile<{self.dims}{self.element}>"

    def row_of(self, w: Writer, slot: int | str) -> str:
        """The index of a slot's tile of this tile block; a slot by number or by SSA value."""
        slots = w.constant(len(self.slots))
        first = w.value(f"muli %block, {slots} : tile<i32>")
        number = w.constant(slot) if isinstance(slot, int) else slot
        return w.value(f"addi {first}, {number} : tile<i32>")

    def load(self, w: Writer, row: str, needed: list[str]) -> tuple[str, str]:
        value = w.name()
        text = f"load_view_tko weak {self.view}[{row}, %zero]AFTER : {self.view_type}, tile<i32>"
        return value, w.access(f"{text} -> {self.tile}, token", needed, value)

    def store(self, w: Writer, row: str, value: str, needed: list[str]) -> str:
        text = f"store_view_tko weak {value}, {self.view}[{row}, %zero]AFTER"
        return w.access(f"{text} : {self.tile}, {self.view_type}, tile<i32> -> token", needed)

    def rewrite(self, w: Writer) -> None:
        """Load, change and store one tile, once through the view and once through pointers."""
        step_by_view(w, self)
        step_by_pointers(w, self)


def step_by_view(w: Writer, tiles: Tiles) -> None:
    """Load, change and store a tile; or one of these only."""
    number = w.rng.randrange(len(tiles.slots))
    slot, row, value = tiles.slots[number], tiles.row_of(w, number), None
    if w.rng.random() < 0.8:
        value, token = tiles.load(w, row, [slot.written] if slot.written else [])
        slot.read.append(token)
    if w.rng.random() < 0.2:
        return
    start = value or w.constant(w.rng.randint(1, 9), tiles.element, tiles.dims)
    changed = w.compute(start, tiles.element, tiles.dims)
    token = tiles.store(w, row, changed, slot.all)
    slot.written, slot.read = token, []
    # The same slot of block 0, for all blocks.
    w.mutant("overlap", f"[{row}, ", f"[{'%one' if number else '%zero'}, ")


def step_by_pointers(w: Writer, tiles: Tiles) -> None:
    """The same through a tile of pointers, maybe masked."""
    if tiles.ragged:
        return
    number = w.rng.randrange(len(tiles.slots))
    slot, row = tiles.slots[number], tiles.row_of(w, number)
    size, element = tiles.shape[0] * tiles.shape[1], tiles.element
    first = w.value(f"muli {row}, {w.constant(size)} : tile<i32>")
    dims, line = f"{size}x", len(w.lines) - 1
    firsts, lanes = w.spread(first, "i32", dims), w.value(f"iota : tile<{size}xi32>")
    index = w.value(f"addi {firsts}, {lanes} : tile<{size}xi32>")
    bases = w.spread(tiles.base, f"ptr<{element}>", dims)
    pointers = f"tile<{size}xptr<{element}>>"
    where = w.value(f"offset {bases}, {index} : {pointers}, tile<{size}xi32> -> {pointers}")
    masked, mask, padding, types = w.rng.random() < 0.5, "", "", ""
    if masked:
        limit = w.constant(w.rng.randint(1, size), "i32", dims)
        name = w.value(
            f"cmpi less_than {lanes}, {limit}, signed : tile<{size}xi32> -> tile<{size}xi1>"
        )
        fill = w.constant(1, element, dims)
        mask, types, padding = f", {name}", f", tile<{size}xi1>", f", {fill}"
    value, tile = w.name(), f"tile<{size}x{element}>"
    needed = [slot.written] if slot.written else []
    given = f"{pointers}{types}{f', {tile}' if masked else ''}"
    text = f"load_ptr_tko weak {where}{mask}{padding}AFTER : {given} -> {tile}, token"
    slot.read.append(w.access(text, needed, value))
    changed = w.compute(value, element, dims)
    text = f"store_ptr_tko weak {where}, {changed}{mask}AFTER : {pointers}, {tile}{types} -> token"
    slot.written = w.access(text, slot.all)
    slot.read = []
    w.mutations.append(Mutation("overlap", line, w.lines[line].replace(f"{row}, ", "%zero, ")))


def loop_over_tiles(w: Writer, tiles: Tiles) -> None:
    """A loop that goes round the block's tiles, more than once maybe; its token is carried."""
    used = [token for slot in tiles.slots for token in slot.all]
    clause = w.after(used) or f" token = {w.value('make_token : token')}"
    start = clause.removeprefix(" token = ")
    rounds = w.rng.randint(1, 5)
    limit, count = w.constant(rounds), w.constant(len(tiles.slots))
    carried, end = w.name("t"), w.name("t")
    counter = w.name("i")
    w.open(
        f"{end} = for {counter} in (%zero to {limit}, step %one) : tile<i32> "
        f"iter_values({carried} = {start}) -> (token)"
    )
    slot = w.value(f"remi {counter}, {count} signed : tile<i32>")
    row = tiles.row_of(w, slot)
    known = len(w.mutations)
    value, loaded = tiles.load(w, row, [carried])
    if not tiles.slots[0].written:
        # Without a store before the loop the first rounds have nothing to race with.
        del w.mutations[known:]
    changed = w.compute(value, tiles.element, tiles.dims)
    stored = tiles.store(w, row, changed, [loaded])
    w.emit(f"continue {stored} : token")
    w.close()
    for number, own in enumerate(tiles.slots):
        if number < rounds or own.written:
            own.written, own.read = end, []
        elif own.read:
            own.read = [end]


def branch(w: Writer, tiles: Tiles) -> None:
    """Every other block changes a tile; the others leave it."""
    number = w.rng.randrange(len(tiles.slots))
    slot, row = tiles.slots[number], tiles.row_of(w, number)
    value, loaded = tiles.load(w, row, [slot.written] if slot.written else [])
    slot.read.append(loaded)
    before = w.after(slot.all).removeprefix(" token = ")
    odd = w.value("andi %block, %one : tile<i32>")
    chosen = w.value(f"cmpi equal {odd}, %zero, signed : tile<i32> -> tile<i1>")
    token = w.name("t")
    w.open(f"{token} = if {chosen} -> (token)")
    changed = w.compute(value, tiles.element, tiles.dims)
    w.emit(f"yield {tiles.store(w, row, changed, [before])} : token")
    w.close("} else {")
    w.depth += 1
    w.emit(f"yield {before} : token")
    w.close()
    slot.written, slot.read = token, []


def scratch(w: Writer, tiles: Tiles) -> None:
    """Memory of the block's own: written, then read."""
    element = w.rng.choice(("i32", "f32", "i8"))
    pointer = w.value(f"alloca num_elem = 4, alignment = 16 : tile<ptr<{element}>>")
    cell = w.element_pointer(pointer, w.constant(w.rng.randrange(4)), element)
    value = w.compute(w.block_value(element, ""), element, "")
    ptr, ty = f"tile<ptr<{element}>>", f"tile<{element}>"
    stored = w.access(f"store_ptr_tko weak {cell}, {value}AFTER : {ptr}, {ty} -> token", [])
    loaded = w.name()
    text = f"load_ptr_tko weak {cell}AFTER : {ptr} -> {ty}, token"
    w.access(text, [stored], loaded)
    out = w.array("out", (w.count,), element)
    mine = w.element_pointer(out, "%block", element)
    w.access(f"store_ptr_tko weak {mine}, {loaded}AFTER : {ptr}, {ty} -> token", [])


def atomics(w: Writer, tiles: Tiles) -> None:
    """All blocks update the same cells, by one mode, on one or several addresses at once."""
    element, mode = w.rng.choice(("i32", "i64")), w.rng.choice(_ATOMIC_MODES)
    base = w.array("data", (4,), element)
    if w.rng.random() < 0.4:
        tensor = f"tensor_view<4x{element}, strides=[1]>"
        view_type = f"partition_view<tile=(4), {tensor}>"
        whole = w.value(f"make_tensor_view {base}, shape = [4], strides = [1] : {tensor}")
        view = w.value(f"make_partition_view {whole} : {view_type}")
        value = w.compute(w.block_value(element, "4x"), element, "4x")
        text = f"atomic_red_view_tko relaxed device {view}[%zero], {mode}, {value}AFTER"
        w.access(f"{text} : tile<4x{element}>, {view_type}, tile<i32> -> token", [])
    else:
        dims = w.rng.choice(("", "8x"))
        pointers = w.spread(base, f"ptr<{element}>", dims)
        if dims:
            lanes = w.value("iota : tile<8xi32>")
            three = w.constant(w.rng.randint(0, 3), "i32", dims)
            index = w.value(f"andi {lanes}, {three} : tile<8xi32>")
            ty = f"tile<8xptr<{element}>>"
            pointers = w.value(f"offset {pointers}, {index} : {ty}, tile<8xi32> -> {ty}")
        value = w.compute(w.block_value(element, dims), element, dims)
        ty = f"tile<{dims}{element}>"
        text = f"atomic_rmw_tko relaxed device {pointers}, {mode}, {value}AFTER"
        w.access(f"{text} : tile<{dims}ptr<{element}>>, {ty} -> {ty}, token", [], value=w.name())
    w.mutant("scope", "relaxed device", "relaxed tl_blk")


def wait_for(w: Writer, cell: str, wanted: str) -> str:
    """Spin until a cell holds a value; gives the token of the acquiring load."""
    got, seen, token = w.name("t"), w.name(), w.name("t")
    w.open(f"{got} = loop : token")
    w.emit(
        f"{seen}, {token} = load_ptr_tko acquire device {cell} : tile<ptr<i32>> -> tile<i32>, token"
    )
    w.mutant("ordering", "acquire", "relaxed")
    w.mutant("scope", "acquire device", "acquire tl_blk")
    there = w.value(f"cmpi equal {seen}, {wanted}, signed : tile<i32> -> tile<i1>")
    w.emit(f"if {there} {{ break {token} : token }}")
    w.close()
    return got


def lock(w: Writer, tiles: Tiles) -> None:
    """Blocks change a cell one after the other, by additions, once or several times."""
    held = w.array("lock", (1,), "i32")
    element = w.rng.choice(("i32", "i64", "i16"))
    data = w.array("data", (1,), element)
    value = w.compute(w.block_value(element, ""), element, "")
    limit = w.constant(w.rng.randint(1, 3))
    turns = w.rng.random() < 0.4
    if turns:
        w.open(f"for {w.name('i')} in (%zero to {limit}, step %one) : tile<i32>")
    got, old, token = w.name("t"), w.name(), w.name("t")
    w.open(f"{got} = loop : token")
    w.emit(
        f"{old}, {token} = atomic_cas_tko acquire device {held}, %zero, %one "
        ": tile<ptr<i32>>, tile<i32> -> tile<i32>, token"
    )
    w.mutant("ordering", "acquire", "relaxed")
    w.mutant("scope", "acquire device", "acquire tl_blk")
    won = w.value(f"cmpi equal {old}, %zero, signed : tile<i32> -> tile<i1>")
    w.emit(f"if {won} {{ break {token} : token }}")
    w.close()
    before, ptr, ty = w.name(), f"tile<ptr<{element}>>", f"tile<{element}>"
    loaded = w.access(f"load_ptr_tko weak {data}AFTER : {ptr} -> {ty}, token", [got], before)
    after = w.value(f"addi {before}, {value} : {ty}")
    text = f"store_ptr_tko weak {data}, {after}AFTER : {ptr}, {ty} -> token"
    stored = w.access(text, [loaded])
    if w.rng.random() < 0.5:
        text = f"store_ptr_tko release device {held}, %zeroAFTER : tile<ptr<i32>>, tile<i32>"
        w.access(f"{text} -> token", [stored])
    else:
        text = f"atomic_rmw_tko release device {held}, xchg, %zeroAFTER : tile<ptr<i32>>"
        w.access(f"{text}, tile<i32> -> tile<i32>, token", [stored], w.name())
    w.mutant("ordering", "release", "relaxed")
    w.mutant("scope", "release device", "release tl_blk")
    if turns:
        w.close()


def chain(w: Writer, tiles: Tiles) -> None:
    """Each block waits for the value of the next one (or the one before) and hands on its own."""
    flags, data = w.array("flag", (w.count,), "i32"), w.array("data", (w.count,), "i32")
    upwards = w.rng.random() < 0.5
    step = "subi" if upwards else "addi"
    other = w.value(f"{step} %block, %one : tile<i32>")
    end = "%zero" if upwards else w.constant(w.count - 1)
    waits = w.value(f"cmpi not_equal %block, {end}, signed : tile<i32> -> tile<i1>")
    ptr = "tile<ptr<i32>>"
    got = w.name()
    w.open(f"{got} = if {waits} -> (tile<i32>)")
    token = wait_for(w, w.element_pointer(flags, other, "i32"), "%one")
    theirs, value = w.element_pointer(data, other, "i32"), w.name()
    w.access(f"load_ptr_tko weak {theirs}AFTER : {ptr} -> tile<i32>, token", [token], value)
    w.emit(f"yield {value} : tile<i32>")
    w.close("} else {")
    w.depth += 1
    w.emit("yield %one : tile<i32>")
    w.close()
    value = w.compute(got, "i32", "")
    mine, flag = w.element_pointer(data, "%block", "i32"), w.element_pointer(flags, "%block", "i32")
    stored = w.access(f"store_ptr_tko weak {mine}, {value}AFTER : {ptr}, tile<i32> -> token", [])
    text = f"store_ptr_tko release device {flag}, %oneAFTER : {ptr}, tile<i32> -> token"
    w.access(text, [stored])
    w.mutant("ordering", "release", "relaxed")
    w.mutant("ordering", "release device", "weak")
    w.mutant("scope", "release device", "release tl_blk")


def arrive(w: Writer, counter: str, stored: str, ordering: str) -> tuple[str, str]:
    """Count this block; gives how many came before, and the token."""
    before = w.name()
    text = f"atomic_rmw_tko {ordering} device {counter}, add, %oneAFTER : tile<ptr<i32>>, tile<i32>"
    return before, w.access(f"{text} -> tile<i32>, token", [stored], before)


def barrier(w: Writer, tiles: Tiles) -> None:
    """All write, all wait for all, each reads what its neighbour wrote."""
    counter, data = w.array("counter", (1,), "i32"), w.array("data", (w.count,), "i32")
    out = w.array("out", (w.count,), "i32")
    ptr = "tile<ptr<i32>>"
    value = w.compute("%block", "i32", "")
    mine = w.element_pointer(data, "%block", "i32")
    stored = w.access(f"store_ptr_tko weak {mine}, {value}AFTER : {ptr}, tile<i32> -> token", [])
    arrive(w, counter, stored, w.rng.choice(("release", "acq_rel")))
    kept = "acquire" if "acq_rel" in w.lines[-1] else "relaxed"
    w.mutant("ordering", "acq_rel" if kept == "acquire" else "release", kept)
    token = wait_for(w, counter, "%count")
    after = w.value("addi %block, %one : tile<i32>")
    neighbour = w.value(f"remi {after}, %count signed : tile<i32>")
    theirs, seen = w.element_pointer(data, neighbour, "i32"), w.name()
    w.access(f"load_ptr_tko weak {theirs}AFTER : {ptr} -> tile<i32>, token", [token], seen)
    place = w.element_pointer(out, "%block", "i32")
    result = w.compute(seen, "i32", "")
    w.access(f"store_ptr_tko weak {place}, {result}AFTER : {ptr}, tile<i32> -> token", [])


def last_block(w: Writer, tiles: Tiles) -> None:
    """Each block leaves a part; the block that comes last adds them all up."""
    counter, parts = w.array("counter", (1,), "i32"), w.array("data", (w.count,), "i32")
    out = w.array("out", (1,), "i32")
    ptr = "tile<ptr<i32>>"
    mine = w.element_pointer(parts, "%block", "i32")
    value = w.compute("%block", "i32", "")
    stored = w.access(f"store_ptr_tko weak {mine}, {value}AFTER : {ptr}, tile<i32> -> token", [])
    before, token = arrive(w, counter, stored, "acq_rel")
    for weaker in ("acquire", "release", "relaxed"):
        w.mutant("ordering", "acq_rel", weaker)
    w.mutant("scope", "acq_rel device", "acq_rel tl_blk")
    last = w.value("subi %count, %one : tile<i32>")
    comes_last = w.value(f"cmpi equal {before}, {last}, signed : tile<i32> -> tile<i1>")
    w.open(f"if {comes_last}")
    total, so_far, number, part = w.name(), w.name(), w.name("i"), w.name()
    w.open(
        f"{total} = for {number} in (%zero to %count, step %one) : tile<i32> "
        f"iter_values({so_far} = %zero) -> (tile<i32>)"
    )
    cell = w.element_pointer(parts, number, "i32")
    w.access(f"load_ptr_tko weak {cell}AFTER : {ptr} -> tile<i32>, token", [token], part)
    w.emit(f"continue {w.value(f'addi {so_far}, {part} : tile<i32>')} : tile<i32>")
    w.close()
    w.access(f"store_ptr_tko weak {out}, {total}AFTER : {ptr}, tile<i32> -> token", [])
    w.close()


Fragment = Callable[[Writer, Tiles], None]

FRAGMENTS: tuple[Fragment, ...] = (
    step_by_view,
    step_by_pointers,
    loop_over_tiles,
    branch,
    scratch,
    atomics,
    lock,
    chain,
    barrier,
    last_block,
)
