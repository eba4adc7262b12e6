"""Generated modules: printing and parsing are inverse to each other."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampling import is_long
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    NameLoc,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, Block, Region, SSAValue

from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.constants import TileConstantAttr
from tilewright.dialects.cuda_tile.debug_info import file_position
from tilewright.dialects.cuda_tile.enums import (
    IntegerOverflow,
    IntegerOverflowAttr,
    RoundingMode,
    RoundingModeAttr,
)
from tilewright.dialects.cuda_tile.ops.control_flow import (
    ContinueOp,
    ForOp,
    IfOp,
    ReturnOp,
    YieldOp,
)
from tilewright.dialects.cuda_tile.ops.core import ConstantOp
from tilewright.dialects.cuda_tile.ops.floating_point import AddFOp
from tilewright.dialects.cuda_tile.ops.integer import AddIOp
from tilewright.dialects.cuda_tile.ops.module import EntryOp, ModuleOp
from tilewright.dialects.cuda_tile.ops.reductions import ReduceOp, identity
from tilewright.numerics.element_types import CONSTANT_TYPES, FORMATS
from tilewright.text import parse, print_text, same_module

TYPES = st.builds(
    T.tile,
    st.sampled_from([(), (1,), (2, 4), (8,), (1, 2, 1)]),
    st.sampled_from(
        [T.ELEMENT_TYPES[name] for name in sorted(CONSTANT_TYPES) if FORMATS[name].bits != 4]
    ),
)
#: What UTF-8 can encode; asked by the name of the codec, hypothesis tries a million characters one by one.
CHARACTERS = st.characters(exclude_categories=["Cs"])
NAMES = st.none() | st.from_regex(
    r"[a-zA-Z_$.-][a-zA-Z0-9_$.-]{0,4}", fullmatch=True, alphabet=CHARACTERS
)
STRINGS = st.text(CHARACTERS, max_size=8)
POSITIONS = st.builds(
    file_position,
    STRINGS,
    st.integers(0, 2**31),
    st.integers(0, 99),
)
LOCATIONS = (
    st.just(UnknownLoc())
    | POSITIONS
    | st.builds(lambda name, inner: NameLoc(StringAttr(name), inner), STRINGS, POSITIONS)
)
SCALARS: st.SearchStrategy[Attribute] = (
    st.builds(StringAttr, STRINGS)
    | st.builds(IntegerAttr, st.integers(-(2**31), 2**31 - 1), st.sampled_from([32, 64]))
    | st.builds(lambda v: IntegerAttr(int(v), 1), st.booleans())
)
ATTRIBUTES = st.recursive(
    SCALARS,
    lambda inner: (
        st.builds(ArrayAttr, st.lists(inner, max_size=3))
        | st.builds(DictionaryAttr, st.dictionaries(STRINGS.filter(bool), inner, max_size=3))
    ),
    max_leaves=6,
)


class Generator:
    """Fills blocks with random operations over the values in sight."""

    def __init__(self, draw: Callable[[st.SearchStrategy[object]], object]):
        self.draw = draw

    def pick(self, values: list[SSAValue], *wanted: str) -> SSAValue | None:
        fitting = [v for v in values if not wanted or v.type.element in wanted]
        return self.draw(st.sampled_from(fitting)) if fitting else None

    def add(self, block: Block, op: TileOp, values: list[SSAValue]) -> None:
        for result in op.results:
            result._name = self.draw(NAMES)
            values.append(result)
        op.location = self.draw(LOCATIONS)
        if self.draw(st.integers(0, 9)) == 0:
            op.attributes["note"] = self.draw(ATTRIBUTES)
        block.add_op(op)

    def fill(self, block: Block, outer: list[SSAValue], depth: int) -> list[SSAValue]:
        values = [*outer, *block.args]
        for argument in block.args:
            argument._name = self.draw(NAMES)
        self.add(block, self.constant(values, depth), values)
        for _ in range(self.draw(st.integers(0, 4))):
            makers = [self.constant, self.arithmetic]
            if depth:
                makers += [self.branch, self.counting, self.reduction]
            op = self.draw(st.sampled_from(makers))(values, depth)
            if op is not None:
                self.add(block, op, values)
        return values

    def constant(self, values: list[SSAValue], depth: int) -> TileOp:
        ty = self.draw(TYPES)
        fmt = FORMATS[ty.element]
        count = self.draw(st.sampled_from([1, ty.element_count]))
        bits = self.draw(st.lists(st.integers(0, fmt.mask), min_size=count, max_size=count))
        value = TileConstantAttr.from_bits(ty, bits)
        return ConstantOp.create(result_types=[ty], properties={"value": value})

    def arithmetic(self, values: list[SSAValue], depth: int) -> TileOp:
        value = self.pick(values)
        assert value is not None
        if FORMATS[value.type.element].is_int:
            overflow = IntegerOverflowAttr(self.draw(st.sampled_from(IntegerOverflow)))
            kind, properties = AddIOp, {"overflow": overflow}
        else:
            modes = [RoundingMode.NEAREST_EVEN, RoundingMode.ZERO]
            mode = RoundingModeAttr(self.draw(st.sampled_from(modes)))
            kind, properties = AddFOp, {"rounding_mode": mode}
        return kind.create(
            operands=[value, value], result_types=[value.type], properties=properties
        )

    def branch(self, values: list[SSAValue], depth: int) -> TileOp | None:
        condition = self.scalar(values, "i1")
        if condition is None:
            return None
        result = self.draw(TYPES)
        regions: list[Region] = []
        for _ in range(2):
            block = Block()
            inner = self.fill(block, values, depth - 1)
            fitting = [v for v in inner if v.type == result]
            if not fitting:
                return None
            block.add_op(YieldOp.create(operands=[fitting[-1]]))
            regions.append(Region(block))
        return IfOp.create(operands=[condition], result_types=[result], regions=regions)

    def counting(self, values: list[SSAValue], depth: int) -> TileOp | None:
        bound = self.scalar(values, "i32")
        if bound is None:
            return None
        carried = [self.pick(values) for _ in range(self.draw(st.integers(0, 3)))]
        block = Block(arg_types=[bound.type, *(v.type for v in carried)])
        self.fill(block, values, depth - 1)
        block.add_op(ContinueOp.create(operands=block.args[1:]))
        return ForOp.create(
            operands=[bound, bound, bound, *carried],
            result_types=[v.type for v in carried],
            regions=[Region(block)],
        )

    def reduction(self, values: list[SSAValue], depth: int) -> TileOp | None:
        ranked = [v for v in values if v.type.rank]
        if not ranked:
            return None
        operands = self.draw(st.lists(st.sampled_from(ranked), min_size=1, max_size=2))
        scalars = [T.tile((), v.type.element_type) for v in operands]
        block = Block(arg_types=[ty for ty in scalars for _ in range(2)])
        self.fill(block, values, 0)
        block.add_op(YieldOp.create(operands=block.args[::2]))
        bits = [self.draw(st.integers(0, FORMATS[ty.element].mask)) for ty in scalars]
        return ReduceOp.create(
            operands=operands,
            result_types=[v.type.with_shape(v.type.dims[1:]) for v in operands],
            properties={
                "dim": IntegerAttr(0, 32),
                "identities": ArrayAttr(
                    [identity(ty.element, b) for ty, b in zip(scalars, bits, strict=True)]
                ),
            },
            regions=[Region(block)],
        )

    def scalar(self, values: list[SSAValue], element: str) -> SSAValue | None:
        fitting = [v for v in values if v.type == T.scalar(element)]
        return self.draw(st.sampled_from(fitting)) if fitting else None


@st.composite
def modules(draw: Callable[..., object]) -> ModuleOp:
    module = ModuleOp.make("kernels")
    for index in range(draw(st.integers(1, 2))):
        entry = EntryOp.make(f"k{index}", [T.scalar("i32"), T.scalar("i1")])
        Generator(draw).fill(entry.block, [], 2)
        entry.block.add_op(ReturnOp.create())
        entry.location = draw(LOCATIONS)
        module.block.add_op(entry)
    return module


@settings(max_examples=120 if is_long() else 50, deadline=None)
@given(modules())
def test_print_and_parse_are_inverse(module: ModuleOp) -> None:
    for generic in (False, True):
        text = print_text(module, generic=generic, locations=True)
        again = parse(text)
        assert same_module(module, again, locations=True) is None
        assert print_text(again, generic=generic, locations=True) == text
    bare = print_text(module, bare=True)
    assert same_module(module, parse(bare)) is None
    assert print_text(parse(bare), bare=True) == bare
