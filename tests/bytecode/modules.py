"""Modules made in Python that cover what bytecode can say, and comparisons of modules.

The modules are legal on the wire, which is all that reading and writing need; most of their
operations would not verify, for their operands have any type.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FileLineColLoc,
    FloatAttr,
    IntAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    UnknownLoc,
    f32,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tilewright.bytecode.layout import FALSE_FOR_EACH, Arity, OpLayout, body_operations, layout_of
from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.attributes import (
    BoundedAttr,
    DivByAttr,
    OptimizationHintsAttr,
    SameElementsAttr,
)
from tilewright.dialects.cuda_tile.constants import FloatBitsAttr, TileConstantAttr
from tilewright.dialects.cuda_tile.constraints import FieldKind
from tilewright.dialects.cuda_tile.debug_info import (
    CallSiteAttr,
    DICompileUnitAttr,
    DIFileAttr,
    DILexicalBlockAttr,
    DILocAttr,
    DISubprogramAttr,
)
from tilewright.dialects.cuda_tile.enums import (
    PaddingValue,
    PtrAttr,
    SymbolVisibility,
    SymbolVisibilityAttr,
)
from tilewright.dialects.cuda_tile.ops.control_flow import ReturnOp
from tilewright.dialects.cuda_tile.ops.core import ConstantOp
from tilewright.dialects.cuda_tile.ops.memory import MakeTokenOp
from tilewright.dialects.cuda_tile.ops.module import EntryOp, GlobalOp, ModuleOp
from tilewright.dialects.declare import bool_array
from tilewright.dialects.versions import V13_3, V13_4, V13_5, Version
from tilewright.numerics.element_types import CONSTANT_TYPES, FORMATS

F32 = T.scalar("f32")
I32 = T.scalar("i32")
I1 = T.scalar("i1")


def layouts(version: Version) -> dict[int, OpLayout]:
    """The layouts of all operations that can occur in a body at a version, by opcode."""
    return {opcode: layout_of(op, version) for opcode, op in body_operations(version).items()}


@cache
def types_of(version: Version) -> list[Attribute]:
    """At least one type of every kind that a version has, with every optional part."""
    known = [name for name, fmt in FORMATS.items() if fmt.since <= version]
    found: list[Attribute] = [T.TOKEN]
    for name in known:
        element = T.ELEMENT_TYPES[name]
        found.append(T.tile((4, 8), element))
        if name in T.NUMBER_NAMES:
            found.append(T.tile((), T.PtrType(element)))
    view = T.TensorViewType(f32, (T.DYNAMIC, 64), (64, 1))
    found += [view, T.TensorViewType(f32, (), ()), T.TensorViewType(f32, (3,), (T.DYNAMIC,))]
    paddings = [None, *PaddingValue]
    found += [T.PartitionViewType((4, 8), view, (1, 0), padding) for padding in paddings]
    if version >= V13_3:
        for padding in paddings:
            found.append(T.StridedViewType((4, 8), (3, 5), view, None, padding))
            found.append(T.GatherScatterViewType((4, 8), view, 1, padding))
    if version >= V13_4:
        attributes = list(PtrAttr) if version >= V13_5 else [PtrAttr.NONE]
        found += [T.tile((), T.PtrType(f32, attr)) for attr in attributes]
        found += [T.TensorViewType(f32, (8,), (1,), attr) for attr in attributes]
    return found


@cache
def constants_of(version: Version) -> list[TileConstantAttr]:
    """Splats and full constants of every type that has them."""
    rng = random.Random(0)
    found: list[TileConstantAttr] = []
    for name in CONSTANT_TYPES:
        fmt = FORMATS[name]
        if fmt.since > version:
            continue
        shapes: list[tuple[int, ...]] = [(2,), (4,), (2, 2, 4), (16,)]
        for shape in shapes:
            ty = T.tile(shape, T.ELEMENT_TYPES[name])
            bits = [rng.randrange(fmt.mask + 1) for _ in range(ty.element_count)]
            found.append(TileConstantAttr.from_bits(ty, bits))
            found.append(TileConstantAttr.from_bits(ty, bits[:1]))
            found.append(TileConstantAttr.from_bits(ty, [fmt.mask]))
    return found


HINTS = OptimizationHintsAttr(
    {
        "sm_100": {
            "allow_tma": IntegerAttr(1, 1),
            "latency": IntegerAttr(3, 32),
            "text": StringAttr("a\udcff"),
            "type": I32,
            "float": FloatAttr(1.5, f32),
            "list": ArrayAttr([IntegerAttr(-1, 8), StringAttr("x")]),
            "nested": DictionaryAttr({"deep": DivByAttr(8)}),
        },
        "default": {},
    }
)

PREDICATES = (
    DivByAttr(16),
    DivByAttr(2**62, 4, 1),
    SameElementsAttr((1, 4)),
    SameElementsAttr(()),
    BoundedAttr(0, None),
    BoundedAttr(-(2**63), 2**63 - 1),
    BoundedAttr(None, None),
)

IDENTITIES = ArrayAttr(
    [
        IntegerAttr(0, 1),
        IntegerAttr(-1, 8),
        IntegerAttr(-(2**31), 32),
        IntegerAttr(2**63 - 1, 64),
        FloatBitsAttr(T.ELEMENT_TYPES["f16"], 0xFE01),
        FloatBitsAttr(T.ELEMENT_TYPES["tf32"], 0x7FFFF),
        FloatBitsAttr(T.ELEMENT_TYPES["f64"], 0xFFF0000000000000),
        FloatBitsAttr(T.ELEMENT_TYPES["f8E5M2"], 0x81),
    ]
)


@cache
def values_of_kind(kind: FieldKind, version: Version) -> list[Attribute]:
    """Values of every sort that a field can have at a version."""
    if kind.wire == "enum":
        cls = kind.enum
        return [cls(m) for m in cls.enum_type if cls.SINCE.get(m, version) <= version]
    if kind.wire == "int":
        half = 1 << (kind.width - 1)
        return [IntegerAttr(v, kind.width) for v in (0, 1, -1, half - 1, -half)]
    if kind.wire == "const":
        return [*constants_of(version)]
    table: dict[str, list[Attribute]] = {
        "bool": [IntegerAttr(0, 1), IntegerAttr(1, 1)],
        "str": [StringAttr("hello %d\n"), StringAttr(""), StringAttr("\udc80é")],
        "sym": [SymbolRefAttr("a symbol")],
        "i32s": [DenseArrayBase.from_list(IntegerType(32), v) for v in ([], [1, 0], [-5])],
        "array": [IDENTITIES, ArrayAttr([])],
        "hints": [HINTS, OptimizationHintsAttr({})],
        "tagged": list(PREDICATES),
    }
    return table[kind.wire]


class _Body:
    """Fills a block; knows the values that can be used."""

    def __init__(self, block: Block, version: Version, rng: random.Random):
        self.block = block
        self.version = version
        self.rng = rng
        self.visible: list[SSAValue] = list(block.args)
        self.types = types_of(version)

    def add(self, op: Operation) -> None:
        self.block.add_op(op)
        self.visible.extend(op.results)

    def operation(self, layout: OpLayout, variant: int) -> Operation:
        """An operation; even variants have nothing optional, odd ones everything."""
        rng, full = self.rng, variant % 2 == 1
        properties: dict[str, Attribute] = {}
        if full:
            properties.update((name, UnitAttr()) for name, _ in layout.units)
        sizes = [self._group_size(field.arity, field.present, full) for field in layout.operands]
        for field in layout.attributes:
            if field.bit and not full:
                continue
            if field.name in FALSE_FOR_EACH:
                names = [operand.name for operand in layout.operands]
                count = sizes[names.index(FALSE_FOR_EACH[field.name])]
                properties[field.name] = bool_array([rng.random() < 0.5 for _ in range(count)])
                continue
            values = values_of_kind(field.kind, self.version)
            properties[field.name] = values[variant // 2 % len(values)]
        self._add_defaults(layout, properties, sizes)
        if layout.has_segments:
            properties["operandSegmentSizes"] = DenseArrayBase.from_list(IntegerType(32), sizes)
        return layout.op.create(
            operands=[rng.choice(self.visible) for _ in range(sum(sizes))],
            result_types=self._result_types(layout, properties, variant),
            properties=properties,
            regions=[self._region(optional and not full) for _, optional in layout.regions],
        )

    def _group_size(self, arity: Arity, present: bool, full: bool) -> int:
        if arity is Arity.ONE:
            return 1
        if not present or not full:
            return 0
        return 1 if arity is Arity.OPTIONAL else self.rng.randrange(1, 4)

    def _add_defaults(
        self, layout: OpLayout, properties: dict[str, Attribute], sizes: list[int]
    ) -> None:
        for field in layout.absent:
            if field.name in FALSE_FOR_EACH:
                names = [operand.name for operand in layout.operands]
                count = sizes[names.index(FALSE_FOR_EACH[field.name])]
                properties[field.name] = bool_array([False] * count)
            elif field.default is not None:
                properties[field.name] = field.default

    def _result_types(
        self, layout: OpLayout, properties: dict[str, Attribute], variant: int
    ) -> list[Attribute]:
        constant = properties.get("value")
        if isinstance(constant, TileConstantAttr):
            return [constant.type]
        count = len(layout.results) - layout.has_variadic_results
        if layout.has_variadic_results and variant % 2:
            count += 2
        picked = [self.types[(variant + i) % len(self.types)] for i in range(count)]
        return [*picked, *(ty for _, ty in layout.absent_results)]

    def _region(self, empty: bool) -> Region:
        if empty:
            return Region()
        block = Block(arg_types=[I32, F32])
        inner = _Body(block, self.version, self.rng)
        inner.visible += self.visible
        inner.add(MakeTokenOp.create(result_types=[T.TOKEN]))
        block.add_op(ReturnOp.create(operands=[self.rng.choice(inner.visible)]))
        return Region(block)


def variants(layout: OpLayout, version: Version) -> range:
    """Enough variants to see every value of every field, with and without what is optional."""
    most = max(
        (
            len(values_of_kind(field.kind, version))
            for field in layout.attributes
            if field.name not in FALSE_FOR_EACH
        ),
        default=1,
    )
    return range(2 * most)


def coverage_module(version: Version, seed: int = 0) -> ModuleOp:
    """Every operation, type and attribute value of a version, in several kernels."""
    rng = random.Random(seed)
    module = ModuleOp.make("kernels", "a producer" if version >= V13_3 else None)
    for index, constant in enumerate(constants_of(version)):
        if constant.type.rank == 1:
            module.block.add_op(make_global(f"g{index}", constant, version, index))
    body = start_kernel(module, "all_ops", version, rng)
    for layout in layouts(version).values():
        for variant in variants(layout, version):
            body.add(body.operation(layout, variant))
    body.add(ReturnOp.create())
    body = start_kernel(module, "all_types", version, rng, HINTS)
    for ty in types_of(version):
        body.add(MakeTokenOp.create(result_types=[ty]))
    body.add(ReturnOp.create())
    entry = module.entry("all_types")
    if version >= V13_5:
        entry.properties["arg_attrs"] = ArrayAttr(
            [DictionaryAttr({"cuda_tile.x": IntegerAttr(1, 32)}), *[DictionaryAttr({})] * 2]
        )
    add_debug_info(entry, rng)
    return module


def sample_module(version: Version, seed: int, count: int = 40) -> ModuleOp:
    """Some operations of a version in one kernel with debug info, and a global."""
    rng = random.Random(seed)
    module = ModuleOp.make()
    globals_ = [c for c in constants_of(version) if c.type.rank == 1]
    module.block.add_op(make_global("g", rng.choice(globals_), version, seed))
    body = start_kernel(module, "some_ops", version, rng, HINTS)
    for layout in rng.choices(list(layouts(version).values()), k=count):
        body.add(body.operation(layout, rng.choice(variants(layout, version))))
    body.add(ReturnOp.create())
    add_debug_info(module.entry(), rng)
    return module


def make_global(name: str, value: TileConstantAttr, version: Version, variant: int) -> GlobalOp:
    private = version >= V13_3 and variant % 2
    properties: dict[str, Attribute] = {
        "sym_name": StringAttr(name),
        "value": value,
        "alignment": IntegerAttr(variant % 3 * 16, 64),
        "symbol_visibility": SymbolVisibilityAttr(
            SymbolVisibility.PRIVATE if private else SymbolVisibility.PUBLIC
        ),
    }
    if version >= V13_3 and variant % 3 == 0:
        properties["constant"] = UnitAttr()
    return GlobalOp.create(properties=properties)


def start_kernel(
    module: ModuleOp,
    name: str,
    version: Version,
    rng: random.Random,
    hints: OptimizationHintsAttr | None = None,
) -> _Body:
    entry = EntryOp.make(name, [F32, I32, T.tile((), T.PtrType(f32))], hints)
    module.block.add_op(entry)
    return _Body(entry.block, version, rng)


def add_debug_info(entry: EntryOp, rng: random.Random) -> None:
    """Give a kernel a location and some of its operations locations of all kinds."""
    file = DIFileAttr("k.py", "/src")
    unit = DICompileUnitAttr(file)
    subprogram = DISubprogramAttr.make(file, 3, entry.symbol, entry.symbol, unit, 4)
    block = DILexicalBlockAttr(subprogram, file, IntAttr(5), IntAttr(2))
    inner = DILexicalBlockAttr(block, file, IntAttr(6), IntAttr(0))

    def position(line: int) -> FileLineColLoc:
        return FileLineColLoc(StringAttr("/src/k.py"), IntAttr(line), IntAttr(line % 3))

    entry.location = DILocAttr(position(3), subprogram)  # pyright: ignore
    places = [DILocAttr(position(7), subprogram), DILocAttr(position(8), inner), UnknownLoc()]
    places.append(CallSiteAttr(places[1], places[0]))
    places.append(CallSiteAttr(places[3], DILocAttr(position(9), block)))
    for op in entry.walk():
        if op is not entry:
            op.location = rng.choice(places)  # pyright: ignore


def simple_module(*ops: Operation, arguments: tuple[Attribute, ...] = ()) -> ModuleOp:
    """A module with a kernel ``k`` that runs some operations."""
    module = ModuleOp.make()
    entry = EntryOp.make("k", list(arguments))
    entry.block.add_ops(ops)
    entry.block.add_op(ReturnOp.create())
    module.block.add_op(entry)
    return module


def constant(value: float = 0, ty: T.TileType = I32) -> ConstantOp:
    return ConstantOp.create(
        result_types=[ty], properties={"value": TileConstantAttr.splat(ty, value)}
    )


def differences(first: Operation, second: Operation) -> Iterator[str]:
    """How two modules differ, locations included; nothing where they are the same."""
    if not first.is_structurally_equivalent(second):
        yield "the structure"
    # Operations share locations, each of which is a tree.
    same: set[tuple[int, int]] = set()
    for a, b in zip(first.walk(), second.walk(), strict=False):
        if type(a) is not type(b):
            yield f"{a.name} against {b.name}"
            return
        if a.properties != b.properties:
            yield f"properties of {a.name}: {a.properties} against {b.properties}"
        if (places := (id(a.location), id(b.location))) not in same:
            if a.location != b.location:
                yield f"location of {a.name}: {a.location} against {b.location}"
            same.add(places)
        if [r.type for r in a.results] != [r.type for r in b.results]:
            yield f"result types of {a.name}"


__all__ = [
    "F32",
    "HINTS",
    "I1",
    "I32",
    "add_debug_info",
    "constant",
    "constants_of",
    "coverage_module",
    "differences",
    "layout_of",
    "make_global",
    "sample_module",
    "simple_module",
    "types_of",
]
