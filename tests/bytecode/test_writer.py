"""Writing: the bytes of the worked example, and what each version cannot say."""

from __future__ import annotations

import pytest
from tests.bytecode.files import EXAMPLE, FUNCTION, PRODUCER, STRING, split
from tests.bytecode.modules import (
    F32,
    HINTS,
    I1,
    I32,
    constant,
    differences,
    make_global,
    simple_module,
)
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FileLineColLoc,
    IntAttr,
    IntegerAttr,
    IntegerType,
    NameLoc,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    UnknownLoc,
    f32,
)
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.dialects.test import TestOp as OtherDialectOp
from xdsl.ir import Attribute, Block, Operation, Region

from tilewright.bytecode import read, write
from tilewright.bytecode.format import MAX_REGION_DEPTH
from tilewright.diagnostics import Diagnostic, SourceFile, Span, TileIRError
from tilewright.dialects import cuda_tile
from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.attributes import DivByAttr, OptimizationHintsAttr
from tilewright.dialects.cuda_tile.base import OPERATIONS
from tilewright.dialects.cuda_tile.constants import TileConstantAttr
from tilewright.dialects.cuda_tile.debug_info import DIFileAttr
from tilewright.dialects.cuda_tile.enums import (
    IntegerOverflow,
    IntegerOverflowAttr,
    MemoryOrderingSemantics,
    MemoryOrderingSemanticsAttr,
    PaddingValue,
    PtrAttr,
    RoundingMode,
    RoundingModeAttr,
    SignednessAttr,
)
from tilewright.dialects.cuda_tile.ops.module import EntryOp, ModuleOp
from tilewright.dialects.declare import bool_array
from tilewright.dialects.source_map import TextSource, set_source
from tilewright.dialects.versions import BYTECODE_VERSIONS, LATEST, Version

cuda_tile.load()

Signed = SignednessAttr.from_code(1)


def make(
    mnemonic: str, *operands: Operation, results: list[Attribute], **properties: Attribute
) -> Operation:
    """An operation on the first results of others."""
    return OPERATIONS[mnemonic].create(
        operands=[op.results[0] for op in operands],
        result_types=results,
        properties=properties,
    )


def refusals(module: Operation, version: Version = LATEST) -> list[Diagnostic]:
    with pytest.raises(TileIRError) as caught:
        write(module, version)
    assert all(d.is_error for d in caught.value.diagnostics)
    return list(caught.value.diagnostics)


def refusal(module: Operation, version: Version = LATEST) -> tuple[str, str]:
    (found,) = refusals(module, version)
    return found.code, found.message


def test_the_worked_example() -> None:
    assert write(read(EXAMPLE), (13, 1)) == EXAMPLE


def test_a_builtin_module_around_one() -> None:
    module = read(EXAMPLE)
    assert write(BuiltinModuleOp([module]), (13, 1)) == EXAMPLE


@pytest.mark.parametrize("count", [0, 2])
def test_a_builtin_module_around_none_or_several(count: int) -> None:
    code, message = refusal(BuiltinModuleOp([ModuleOp.make() for _ in range(count)]))
    assert code == "bytecode-invalid-ir"
    assert "one cuda_tile.module" in message


def test_other_roots() -> None:
    assert refusal(constant())[0] == "bytecode-invalid-ir"


@pytest.mark.parametrize("version", [(13, 0), (13, 6), (250, 1)])
def test_unknown_versions(version: Version) -> None:
    with pytest.raises(ValueError, match="unknown bytecode version"):
        write(ModuleOp.make(), version)


def test_sections_and_their_order() -> None:
    row = T.tile((4,), f32)
    module = simple_module(constant(2.0, row))
    module.properties["producer"] = StringAttr("p")
    module.block.insert_op_before(
        make_global("g", TileConstantAttr.splat(row, 1.0), LATEST, 0), module.entries[0]
    )
    assert [number for number, _ in split(write(module))] == [6, 2, 4, 5, 7, 1]
    assert [number for number, _ in split(write(ModuleOp.make()))] == [FUNCTION, STRING]
    assert PRODUCER not in dict(split(write(module_without_newer_fields(module), (13, 2))))


def module_without_newer_fields(module: ModuleOp) -> ModuleOp:
    copy = module.clone()
    for op in copy.globals:
        op.properties.pop("constant", None)
    return copy


def test_pools_hold_each_thing_once() -> None:
    ops = [constant(1, I32), constant(1, I32), constant(1.0, F32), constant(2, I32)]
    sections = dict(split(write(simple_module(*ops))))
    assert sections[4][0] == 3
    assert sections[5][0] == 5


def negi(mode: IntegerOverflow) -> ModuleOp:
    value = constant()
    return simple_module(
        value, make("negi", value, results=[I32], overflow=IntegerOverflowAttr(mode))
    )


def rounded(name: str, mode: RoundingMode) -> ModuleOp:
    value = constant(1.0, F32)
    return simple_module(
        value, make(name, value, results=[F32], rounding_mode=RoundingModeAttr(mode))
    )


def ftoi(*, saturating: bool) -> ModuleOp:
    value = constant(1.0, F32)
    op = make(
        "ftoi",
        value,
        results=[I32],
        signedness=Signed,  # pyright: ignore
        rounding_mode=RoundingModeAttr(RoundingMode.NEAREST_INT_TO_ZERO),
    )
    if saturating:
        op.properties["saturating"] = UnitAttr()
    return simple_module(value, op)


def mmaf(*, fast: bool) -> ModuleOp:
    value = constant(1.0, T.tile((2, 2), f32))
    op = make("mmaf", value, value, value, results=[T.tile((2, 2), f32)])
    if fast:
        op.properties["fast_acc"] = UnitAttr()
    return simple_module(value, op)


def count_loop(*, unsigned: bool) -> ModuleOp:
    value = constant()
    block = Block(arg_types=[I32])
    block.add_op(make("continue", results=[]))
    op = OPERATIONS["for"].create(operands=[value.results[0]] * 3, regions=[Region(block)])
    if unsigned:
        op.properties["unsignedCmp"] = UnitAttr()
    return simple_module(value, op)


def print_tko(*, use: bool = False, token: bool = False) -> ModuleOp:
    ops: list[Operation] = []
    operands = []
    if token:
        ops.append(make("make_token", results=[T.TOKEN]))
        operands = [ops[0].results[0]]
    sizes = DenseArrayBase.from_list(IntegerType(32), [0, int(token)])
    printed = OPERATIONS["print_tko"].create(
        operands=operands,
        result_types=[T.TOKEN],
        properties={"str": StringAttr("x"), "operandSegmentSizes": sizes},
    )
    ops.append(printed)
    if use:
        ops.append(make("join_tokens", printed, printed, results=[T.TOKEN]))
    return simple_module(*ops)


def load(inbounds: list[bool] | None) -> ModuleOp:
    view = T.TensorViewType(f32, (8, 8), (8, 1))
    tile = T.PartitionViewType((4, 4), view)
    index = constant()
    made = make("make_token", results=[tile])
    properties: dict[str, Attribute] = {
        "memory_ordering_semantics": MemoryOrderingSemanticsAttr(MemoryOrderingSemantics.WEAK),
        "operandSegmentSizes": DenseArrayBase.from_list(IntegerType(32), [1, 2, 0]),
    }
    if inbounds is not None:
        properties["inbounds"] = bool_array(inbounds)
    op = OPERATIONS["load_view_tko"].create(
        operands=[made.results[0], index.results[0], index.results[0]],
        result_types=[tile.tile_type, T.TOKEN],
        properties=properties,
    )
    return simple_module(index, made, op)


def typed(ty: Attribute) -> ModuleOp:
    return simple_module(make("make_token", results=[ty]))


def with_global(variant: int) -> ModuleOp:
    module = simple_module()
    value = TileConstantAttr.splat(T.tile((2,), f32), 1.0)
    module.block.insert_op_before(make_global("g", value, LATEST, variant), module.entries[0])
    return module


def with_argument_attributes() -> ModuleOp:
    module = simple_module(arguments=(I32,))
    module.entries[0].properties["arg_attrs"] = ArrayAttr(
        [DictionaryAttr({"cuda_tile.x": UnitLike})]
    )
    return module


UnitLike = IntegerAttr(1, 32)
VIEW = T.TensorViewType(f32, (8,), (1,))

#: What needs a version: module, the version, what the message starts with.
TOO_NEW: list[tuple[ModuleOp, Version, str]] = [
    (
        negi(IntegerOverflow.NO_WRAP),
        (13, 2),
        "attribute 'overflow' of negi needs 13.2, but 13.1 was asked for: the value no_wrap is not "
        "the default",
    ),
    (rounded("tanh", RoundingMode.APPROX), (13, 2), "attribute 'rounding_mode' of tanh"),
    (rounded("exp", RoundingMode.APPROX), (13, 3), "attribute 'rounding_mode' of exp"),
    (rounded("ftof", RoundingMode.NEAREST_AWAY), (13, 4), "nearest_away of RoundingMode"),
    (ftoi(saturating=True), (13, 4), "attribute 'saturating' of ftoi"),
    (mmaf(fast=True), (13, 3), "attribute 'fast_acc' of mmaf"),
    (count_loop(unsigned=True), (13, 2), "attribute 'unsignedCmp' of for"),
    (print_tko(use=True), (13, 2), "result 'result_token' of print_tko"),
    (print_tko(token=True), (13, 2), "operand 'token' of print_tko"),
    (load([False, True]), (13, 4), "attribute 'inbounds' of load_view_tko"),
    (typed(T.scalar("f8E8M0FNU")), (13, 2), "type 'f8E8M0FNU'"),
    (typed(T.tile((2,), T.ELEMENT_TYPES["f4E2M1FN"])), (13, 3), "type 'f4E2M1FN'"),
    (typed(T.scalar("i4")), (13, 3), "type 'i4'"),
    (typed(T.scalar("f8E5M3FNU")), (13, 4), "type 'fnv8E5M3FNU'"),
    (typed(T.StridedViewType((4,), (2,), VIEW)), (13, 3), "type 'strided_view"),
    (typed(T.GatherScatterViewType((4,), VIEW, 0)), (13, 3), "type 'gather_scatter_view"),
    (typed(T.PtrType(f32, PtrAttr.NONE)), (13, 4), "none of type 'ptr<f32, <none>>'"),
    (
        typed(T.PtrType(f32, PtrAttr.MULTICAST)),
        (13, 5),
        "multicast of type 'ptr<f32, <multicast>>'",
    ),
    (
        typed(T.TensorViewType(f32, (), (), PtrAttr.UNICAST)),
        (13, 5),
        "unicast of type 'tensor_view",
    ),
    (with_global(1), (13, 3), "'private' of global @g"),
    (with_global(0), (13, 3), "'constant' of global @g"),
    (with_argument_attributes(), (13, 5), "argument attributes of kernel @k"),
    (
        simple_module(make("make_gather_scatter_view", results=[T.TOKEN])),
        (13, 3),
        "operation make_",
    ),
]


@pytest.mark.parametrize(
    ("module", "since", "words"), TOO_NEW, ids=[row[2].partition(" needs")[0] for row in TOO_NEW]
)
def test_what_needs_a_version(module: ModuleOp, since: Version, words: str) -> None:
    for version in BYTECODE_VERSIONS:
        if version < since:
            (found,) = refusals(module, version)
            assert found.code == "needs-version"
            expected = words.replace("13.1 was", f"{version[0]}.{version[1]} was")
            assert found.message.startswith(expected)
            assert f"needs {since[0]}.{since[1]}, but" in found.message
        elif not words.startswith("operation make_"):
            assert list(differences(module, read(write(module, version)))) == []


@pytest.mark.parametrize(
    "module",
    [
        negi(IntegerOverflow.NONE),
        rounded("tanh", RoundingMode.FULL),
        rounded("exp", RoundingMode.FULL),
        ftoi(saturating=False),
        mmaf(fast=False),
        count_loop(unsigned=False),
        print_tko(),
        load([False, False]),
        with_global(2),
    ],
    ids=lambda module: next(iter(module.walk(reverse=True))).name,
)
def test_defaults_can_be_written_at_every_version(module: ModuleOp) -> None:
    for version in BYTECODE_VERSIONS:
        assert list(differences(module, read(write(module, version)))) == []


@pytest.mark.parametrize("version", BYTECODE_VERSIONS)
@pytest.mark.parametrize("values", [None, []])
def test_inbounds_that_is_left_out_is_false_for_each_index(
    version: Version, values: list[bool] | None
) -> None:
    assert list(differences(load([False, False]), read(write(load(values), version)))) == []


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, op in OPERATIONS.items()
        if (13, 1) < op.SINCE <= LATEST and not name.startswith("preview$")
    ],
)
def test_every_operation_that_is_too_new(name: str) -> None:
    op = OPERATIONS[name]
    older = BYTECODE_VERSIONS[BYTECODE_VERSIONS.index(op.SINCE) - 1]
    groups = len(op.get_irdl_definition().operands)
    sizes = DenseArrayBase.from_list(IntegerType(32), [0] * groups)
    module = simple_module(op.create(properties={"operandSegmentSizes": sizes}))
    code, message = refusal(module, older)
    assert code == "needs-version"
    assert message.startswith(f"operation {name} needs {op.SINCE[0]}.{op.SINCE[1]}, but ")


def test_all_problems_come_in_one_error_each_at_its_place() -> None:
    text = SourceFile("m.tileir", "negi; atan2; used")
    value = constant()
    first = make(
        "negi", value, results=[I32], overflow=IntegerOverflowAttr(IntegerOverflow.NO_WRAP)
    )
    second = make("atan2", value, value, results=[F32])
    third = make("ceil", second, results=[F32])
    for op, start in ((first, 0), (second, 6), (third, 13)):
        set_source(op, TextSource(text, start, start + 4))
    found = refusals(simple_module(value, first, second, third), (13, 1))
    assert [d.code for d in found] == ["needs-version"] * 2
    places = [d.location for d in found]
    assert [p.start for p in places if isinstance(p, Span)] == [0, 6]


def test_a_type_that_is_too_new_is_reported_once() -> None:
    ops = [make("make_token", results=[T.scalar("i4")]) for _ in range(5)]
    assert len(refusals(simple_module(*ops), (13, 2))) == 1


class TestNotStorable:
    @pytest.mark.parametrize("name", ["testing$bytecode_test_new_attribute", "preview$call"])
    def test_operations_without_a_form(self, name: str) -> None:
        code, message = refusal(simple_module(OPERATIONS[name].create()))
        assert code == "bytecode-not-storable"
        assert name in message

    def test_operations_of_other_dialects(self) -> None:
        code, message = refusal(simple_module(OtherDialectOp(result_types=[I32])))
        assert code == "bytecode-not-storable"
        assert "test.op" in message

    def test_functions_for_testing(self) -> None:
        module = ModuleOp.make()
        module.block.add_op(OPERATIONS["testing$func"].create(regions=[Region(Block())]))
        assert refusal(module)[0] == "bytecode-not-storable"

    @pytest.mark.parametrize(
        "location",
        [
            FileLineColLoc(StringAttr("k.py"), IntAttr(1), IntAttr(2)),
            NameLoc(StringAttr("x"), UnknownLoc()),
            DIFileAttr("k.py"),
        ],
    )
    def test_locations(self, location: Attribute) -> None:
        value = constant()
        value.location = location  # pyright: ignore
        code, message = refusal(simple_module(value))
        assert code == "bytecode-not-storable"
        assert "location" in message

    def test_types_of_other_dialects(self) -> None:
        assert refusal(typed(IntegerType(17)))[0] == "bytecode-not-storable"

    def test_nested_symbols(self) -> None:
        op = make("get_global", results=[I32], name=SymbolRefAttr("a", ["b"]))
        assert refusal(simple_module(op))[0] == "bytecode-not-storable"

    @pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
    def test_strings(self, text: str) -> None:
        value = constant(1, I1)
        op = make("assert", value, results=[], message=StringAttr(text))
        assert refusal(simple_module(value, op))[0] == "bytecode-not-storable"

    @pytest.mark.parametrize(
        "value", [UnitAttr(), SymbolRefAttr("x"), IntegerAttr(1, 17), StringAttr("\ud800")]
    )
    def test_hints(self, value: Attribute) -> None:
        module = simple_module()
        hints = OptimizationHintsAttr({"sm_90": {"x": value}})
        module.entries[0].properties["optimization_hints"] = hints
        assert refusal(module)[0] == "bytecode-not-storable"

    def test_numbers_that_are_too_large(self) -> None:
        value = constant()
        op = make("assume", value, results=[I32], predicate=DivByAttr(2, 2**70, 0))
        assert refusal(simple_module(value, op))[0] == "bytecode-not-storable"
        view = T.TensorViewType(f32, (2**70,), (1,))
        assert refusal(typed(view))[0] == "bytecode-not-storable"

    def test_deep_regions(self) -> None:
        block = Block([make("break", results=[])])
        for _ in range(MAX_REGION_DEPTH + 50):
            inner = OPERATIONS["loop"].create(regions=[Region(block)])
            block = Block([inner, make("break", results=[])])
        code, message = refusal(simple_module(*(op.detach() or op for op in list(block.ops)[:1])))
        assert code == "bytecode-not-storable"
        assert str(MAX_REGION_DEPTH) in message

    def test_results_of_kernels(self) -> None:
        module = simple_module()
        module.entries[0].properties["res_attrs"] = ArrayAttr([DictionaryAttr({"x": UnitLike})])
        assert refusal(module)[0] == "bytecode-not-storable"


class TestLossyAttributes:
    @pytest.mark.parametrize("in_properties", [False, True])
    @pytest.mark.parametrize("what", ["op", "entry", "module"])
    def test_refused_by_name(self, what: str, in_properties: bool) -> None:
        value = constant()
        module = simple_module(value)
        target = {"op": value, "entry": module.entries[0], "module": module}[what]
        (target.properties if in_properties else target.attributes)["note"] = StringAttr("x")
        code, message = refusal(module)
        assert code == "bytecode-lossy-attribute"
        assert "'note'" in message


class TestInvalidModules:
    """Writing verifies nothing, but never fails without a diagnostic."""

    def check(self, module: Operation, words: str) -> None:
        found = refusals(module)
        assert {d.code for d in found} == {"bytecode-invalid-ir"}
        assert any(words in d.message for d in found), found

    def test_an_operand_that_is_not_defined_before(self) -> None:
        late = constant()
        self.check(simple_module(make("absi", late, results=[I32]), late), "not defined before")

    def test_a_value_of_a_closed_region(self) -> None:
        inner = constant()
        block = Block([inner, make("continue", results=[])])
        loop = OPERATIONS["loop"].create(regions=[Region(block)])
        self.check(simple_module(loop, make("absi", inner, results=[I32])), "not defined before")

    @pytest.mark.parametrize("count", [0, 2])
    def test_result_counts(self, count: int) -> None:
        op = OPERATIONS["make_token"].create(result_types=[T.TOKEN] * count)
        self.check(simple_module(op), "1 results")

    def test_operand_counts(self) -> None:
        self.check(simple_module(make("absi", results=[I32])), "cannot have 0 operands")

    @pytest.mark.parametrize("sizes", [None, [0], [1, 0], [2, -2], [0, 0, 0]])
    def test_segment_sizes(self, sizes: list[int] | None) -> None:
        module = print_tko()
        (printed, _) = module.entries[0].block.ops
        del printed.properties["operandSegmentSizes"]
        if sizes is not None:
            found = DenseArrayBase.from_list(IntegerType(32), sizes)
            printed.properties["operandSegmentSizes"] = found
        self.check(module, "print_tko")

    def test_missing_attributes(self) -> None:
        value = constant()
        self.check(simple_module(value, make("maxi", value, value, results=[I32])), "'signedness'")

    def test_attributes_of_the_wrong_kind(self) -> None:
        value = constant()
        op = make("addi", value, value, results=[I32], overflow=StringAttr("none"))
        self.check(simple_module(value, op), "'overflow' of addi")

    @pytest.mark.parametrize("blocks", [0, 2])
    def test_regions(self, blocks: int) -> None:
        region = Region([Block([make("continue", results=[])]) for _ in range(blocks)])
        self.check(simple_module(OPERATIONS["loop"].create(regions=[region])), "one block")
        self.check(simple_module(OPERATIONS["loop"].create()), "1 regions")

    def test_blocks_without_a_terminator(self) -> None:
        module = ModuleOp.make()
        module.block.add_op(EntryOp.make("k", []))
        self.check(module, "terminator")

    def test_kernels(self) -> None:
        module = simple_module(arguments=(I32,))
        module.entries[0].block.insert_arg(F32, 0)
        self.check(module, "block arguments")
        module = simple_module()
        module.entries[0].properties["sym_name"] = StringAttr("")
        self.check(module, "symbol name")
        module = ModuleOp.make()
        module.block.add_op(EntryOp.create(properties={"sym_name": StringAttr("k")}))
        self.check(module, "one block")

    def test_globals(self) -> None:
        module = with_global(2)
        del module.globals[0].properties["value"]
        self.check(module, "has no value")


def test_hints_are_ordered_by_key() -> None:
    backwards = {key: dict(reversed(hints.items())) for key, hints in HINTS.targets.items()}
    first, second = simple_module(), simple_module()
    first.entries[0].properties["optimization_hints"] = HINTS
    second.entries[0].properties["optimization_hints"] = OptimizationHintsAttr(
        dict(reversed(backwards.items()))
    )
    assert write(first) == write(second)


@pytest.mark.parametrize("padding", [None, *PaddingValue])
def test_the_old_form_of_padding(padding: PaddingValue | None) -> None:
    module = typed(T.PartitionViewType((4,), VIEW, None, padding))
    for version in ((13, 1), (13, 2), (13, 3)):
        assert list(differences(module, read(write(module, version)))) == []
