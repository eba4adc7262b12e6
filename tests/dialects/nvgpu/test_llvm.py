"""Operations of ``llvm`` that reach memory: rules, spelling, and what upstream says of them."""

from __future__ import annotations

import re

import pytest
from tests.dialects.nvgpu.support import Case, case_name, print_again, problems
from tests.oracles import requires_iree_opt, requires_mlir_opt, upstream_errors, upstream_texts

from tilewright.dialects.nvgpu.examples import wrap
from tilewright.dialects.upstream import llvm
from tilewright.dialects.upstream.base.operations import OPERATIONS
from tilewright.dialects.upstream.llvm.syntax import BIN_OPS, ORDERINGS
from tilewright.text import parse, same_module

llvm.load()
EXTRA = {
    "q": "!llvm.ptr<1>",
    "g": "!llvm.ptr",
    "ps": "vector<8x!llvm.ptr<1>>",
    "k": "vector<8xi1>",
    "x": "f32",
    "xs": "vector<8xf32>",
    "n32": "i32",
    "n64": "i64",
    "ns": "vector<8xi64>",
    "few": "vector<4xf32>",
    "some": "vector<4xi1>",
    "flags": "i1",
    "s": "!llvm.struct<(i32, i1)>",
}
_GATHER = "llvm.intr.masked.gather"
_SCATTER = "llvm.intr.masked.scatter"


def _gather(mask: str = "%k", other: str = "%xs", alignment: int = 4) -> str:
    types = {"%k": "vector<8xi1>", "%some": "vector<4xi1>"}
    values = {"%xs": "vector<8xf32>", "%few": "vector<4xf32>"}
    return (
        f"%l = {_GATHER} %ps, {mask}, {other} {{alignment = {alignment} : i32}} : "
        f"(vector<8x!llvm.ptr<1>>, {types[mask]}, {values[other]}) -> vector<8xf32>"
    )


def _scatter(value: str = "%xs", ty: str = "vector<8xf32>", alignment: int = 4) -> str:
    return (
        f"{_SCATTER} {value}, %ps, %k {{alignment = {alignment} : i32}} : {ty}, vector<8xi1> "
        "into vector<8x!llvm.ptr<1>>"
    )


def _load(middle: str, alignment: str = " {alignment = 4 : i64}", ty: str = "f32") -> str:
    return f"%l = llvm.load %q{middle}{alignment} : !llvm.ptr<1> -> {ty}"


def _update(keyword: str, value: str = "%n32 : i32", ordering: str = "monotonic") -> str:
    name, _, ty = value.partition(" : ")
    return f"%l = llvm.atomicrmw {keyword} %q, {name} {ordering} : !llvm.ptr<1>, {ty}"


def _exchange(orderings: str, value: str = "%n32 : i32") -> str:
    name, _, ty = value.partition(" : ")
    return f"%l = llvm.cmpxchg %q, {name}, {name} {orderings} : !llvm.ptr<1>, {ty}"


def _case(op: str, code: str, says: str, bad: str, good: str) -> Case:
    return Case(f"llvm.{op}", code, says, bad, good, EXTRA)


CASES = [
    _case(
        "ptrtoint",
        "llvm-access",
        "expected as many elements of the result",
        "%l = llvm.ptrtoint %ps : vector<8x!llvm.ptr<1>> to vector<4xi64>",
        "%l = llvm.ptrtoint %ps : vector<8x!llvm.ptr<1>> to vector<8xi64>",
    ),
    _case(
        "inttoptr",
        "llvm-access",
        "got 'i64' to 'vector<8x!llvm.ptr<1>>'",
        "%l = llvm.inttoptr %n64 : i64 to vector<8x!llvm.ptr<1>>",
        "%l = llvm.inttoptr %n64 : i64 to !llvm.ptr<1>",
    ),
    _case(
        "addrspacecast",
        "llvm-access",
        "expected as many elements of the result",
        "%l = llvm.addrspacecast %ps : vector<8x!llvm.ptr<1>> to !llvm.ptr",
        "%l = llvm.addrspacecast %q : !llvm.ptr<1> to !llvm.ptr",
    ),
    _case(
        "getelementptr",
        "llvm-access",
        "expected pointers and places of one length, got '!llvm.ptr<1>'",
        "%l = llvm.getelementptr %q[%ns] : (!llvm.ptr<1>, vector<8xi64>) -> !llvm.ptr<1>, f32",
        "%l = llvm.getelementptr %q[%ns] : (!llvm.ptr<1>, vector<8xi64>) -> "
        "vector<8x!llvm.ptr<1>>, f32",
    ),
    _case(
        "getelementptr",
        "llvm-position",
        "expected 0 places as operands and one place at least, got 1 of 1",
        '%l = "llvm.getelementptr"(%q, %n64) <{elem_type = f32, rawConstantIndices = array<i32: '
        "1>}> : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>",
        '%l = "llvm.getelementptr"(%q, %n64) <{elem_type = f32, rawConstantIndices = array<i32: '
        "-2147483648>}> : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>",
    ),
    _case(
        "intr.masked.gather",
        "llvm-access",
        "expected 'mask' to have the 8 elements of 'ptrs'",
        _gather("%some"),
        _gather(),
    ),
    _case(
        "intr.masked.gather",
        "llvm-access",
        "expected 'pass_thru' to have the type 'vector<8xf32>' of the result",
        _gather(other="%few"),
        _gather(),
    ),
    _case(
        "intr.masked.gather",
        "llvm-alignment",
        "expected the alignment to be a power of two, got 3",
        _gather(alignment=3),
        _gather(alignment=8),
    ),
    _case(
        "intr.masked.scatter",
        "llvm-access",
        "expected 'value' to have the 8 elements of 'ptrs'",
        _scatter("%few", "vector<4xf32>"),
        _scatter(),
    ),
    _case(
        "intr.masked.scatter",
        "llvm-alignment",
        "expected the alignment to be a power of two, got 0",
        _scatter(alignment=0),
        _scatter(alignment=1),
    ),
    _case(
        "load",
        "llvm-ordering",
        "a load cannot be release",
        _load(" atomic release"),
        _load(" atomic acquire"),
    ),
    _case(
        "load",
        "llvm-alignment",
        "expected an atomic access to state its alignment",
        _load(" atomic acquire", ""),
        _load("", ""),
    ),
    _case(
        "load",
        "llvm-atomic-type",
        "there is no atomic access to 'vector<8xf32>'",
        _load(" atomic acquire", ty="vector<8xf32>"),
        _load("", ty="vector<8xf32>"),
    ),
    _case(
        "load",
        "llvm-ordering",
        "expected no scope of an access that is not atomic",
        '%l = "llvm.load"(%q) <{ordering = 0 : i64, syncscope = "device"}> : (!llvm.ptr<1>) -> f32',
        '%l = "llvm.load"(%q) <{alignment = 4 : i64, ordering = 2 : i64, syncscope = "device"}> : '
        "(!llvm.ptr<1>) -> f32",
    ),
    _case(
        "store",
        "llvm-ordering",
        "a store cannot be acquire",
        "llvm.store %x, %q atomic acquire {alignment = 4 : i64} : f32, !llvm.ptr<1>",
        "llvm.store %x, %q atomic release {alignment = 4 : i64} : f32, !llvm.ptr<1>",
    ),
    _case(
        "store",
        "llvm-atomic-type",
        "there is no atomic access to 'i1'",
        "llvm.store %flags, %q atomic release {alignment = 4 : i64} : i1, !llvm.ptr<1>",
        "llvm.store %flags, %q {alignment = 4 : i64} : i1, !llvm.ptr<1>",
    ),
    _case(
        "atomicrmw",
        "llvm-ordering",
        "expected at least the ordering monotonic",
        _update("add", ordering="unordered"),
        _update("add"),
    ),
    _case(
        "atomicrmw",
        "llvm-atomic-type",
        "there is no atomic update add of 'f32'",
        _update("add", "%x : f32"),
        _update("fadd", "%x : f32"),
    ),
    _case(
        "atomicrmw",
        "llvm-atomic-type",
        "there is no atomic update xchg of 'i1'",
        _update("xchg", "%flags : i1"),
        _update("xchg", "%x : f32"),
    ),
    _case(
        "atomicrmw",
        "llvm-atomic-type",
        "there is no atomic update fadd of 'vector<8xf32>'",
        _update("fadd", "%xs : vector<8xf32>"),
        _update("fsub", "%x : f32"),
    ),
    _case(
        "atomicrmw",
        "llvm-alignment",
        "expected the alignment to be a power of two, got 12",
        "%l = llvm.atomicrmw add %q, %n32 monotonic {alignment = 12 : i64} : !llvm.ptr<1>, i32",
        "%l = llvm.atomicrmw add %q, %n32 monotonic {alignment = 4 : i64} : !llvm.ptr<1>, i32",
    ),
    _case(
        "cmpxchg",
        "llvm-ordering",
        "what does not write cannot be release",
        _exchange("acq_rel release"),
        _exchange("release monotonic"),
    ),
    _case(
        "cmpxchg",
        "llvm-ordering",
        "expected at least the ordering monotonic",
        _exchange("unordered monotonic"),
        _exchange("monotonic monotonic"),
    ),
    _case(
        "cmpxchg",
        "llvm-atomic-type",
        "there is no compare-and-exchange of 'i1'",
        _exchange("acq_rel acquire", "%flags : i1"),
        _exchange("acq_rel acquire", "%n64 : i64"),
    ),
    _case(
        "cmpxchg",
        "llvm-access",
        "expected the result to be '!llvm.struct<(i32, i1)>'",
        '%l = "llvm.cmpxchg"(%q, %n32, %n32) <{failure_ordering = 2 : i64, success_ordering = 6 : '
        "i64}> : (!llvm.ptr<1>, i32, i32) -> !llvm.struct<(i64, i1)>",
        '%l = "llvm.cmpxchg"(%q, %n32, %n32) <{failure_ordering = 2 : i64, success_ordering = 6 : '
        "i64}> : (!llvm.ptr<1>, i32, i32) -> !llvm.struct<(i32, i1)>",
    ),
    _case(
        "call_intrinsic",
        "llvm-intrinsic",
        "'llvm.nvvm.add.rz.f' takes (f32, f32) and gives f32, or vectors of such of one shape",
        '%l = llvm.call_intrinsic "llvm.nvvm.add.rz.f"(%n32, %n32) : (i32, i32) -> i32',
        '%l = llvm.call_intrinsic "llvm.nvvm.add.rz.f"(%xs, %xs) : (vector<8xf32>, vector<8xf32>) '
        "-> vector<8xf32>",
    ),
    _case(
        "call_intrinsic",
        "llvm-intrinsic",
        "'llvm.nvvm.mulhi.i' takes 2 operands and has a result",
        '%l = llvm.call_intrinsic "llvm.nvvm.mulhi.i"(%n32) : (i32) -> i32',
        '%l = llvm.call_intrinsic "llvm.nvvm.mulhi.i"(%n32, %n32) : (i32, i32) -> i32',
    ),
    _case(
        "call_intrinsic",
        "llvm-intrinsic",
        "expected the name of an intrinsic, llvm..., got 'nvvm.membar'",
        'llvm.call_intrinsic "nvvm.membar"() : () -> ()',
        'llvm.call_intrinsic "llvm.nvvm.membar.gl"() : () -> ()',
    ),
    _case(
        "fence",
        "llvm-ordering",
        "expected acquire, release, acq_rel or seq_cst, got monotonic",
        "llvm.fence monotonic",
        "llvm.fence seq_cst",
    ),
    _case(
        "extractvalue",
        "llvm-position",
        "expected the type of a member of '!llvm.struct<(i32, i1)>'",
        '%l = "llvm.extractvalue"(%s) <{position = array<i64: 2>}> : (!llvm.struct<(i32, i1)>) -> i32',
        '%l = "llvm.extractvalue"(%s) <{position = array<i64: 0>}> : (!llvm.struct<(i32, i1)>) -> i32',
    ),
]


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_rule(case: Case) -> None:
    found = case.problems()
    assert [d.code for d in found] == [case.code], [d.brief() for d in found]
    assert case.says in found[0].message
    assert [d.brief() for d in case.twin_problems()] == []


def test_every_operation_has_a_case() -> None:
    assert {case.op for case in CASES} == {op.name for op in OPERATIONS["llvm"].values()}


_WRONG = [
    ("llvm.fence always", "bad-keyword", "expected ordering to be one of: 'unordered'"),
    (_update("plus"), "bad-keyword", "expected bin op to be one of: 'xchg', 'add'"),
    ("%l = llvm.load %x : f32 -> f32", "operand-type", "must be an !llvm.ptr"),
    (
        "%l = llvm.extractvalue %s[7] : !llvm.struct<(i32, i1)>",
        "syntax",
        "'!llvm.struct<(i32, i1)>' has no member [7]",
    ),
    (
        "%l = llvm.load %q : !llvm.ptr<1> -> index",
        "result-type",
        "a number, a pointer, or a vector",
    ),
]


@pytest.mark.parametrize(("body", "code", "says"), _WRONG)
def test_wrong_text(body: str, code: str, says: str) -> None:
    (found,) = problems(wrap(body, EXTRA))
    assert code == found.code, found.brief()
    assert says in found.message
    assert found.line is not None


def _legal() -> list[str]:
    """Every keyword of every operation, and the legal program of each rule."""
    bodies = [case.good for case in CASES]
    for keyword in BIN_OPS:
        value = "%x : f32" if keyword.startswith("f") else "%n64 : i64"
        for ordering in list(ORDERINGS)[1:]:
            bodies.append(_update(keyword, value, f'syncscope("device") {ordering}'))
    bodies += [
        _load(" atomic monotonic", " {alignment = 4 : i64, nontemporal}"),
        _load(" invariant"),
        '%l = llvm.load volatile %q atomic syncscope("block") acquire {alignment = 4 : i64} : '
        "!llvm.ptr<1> -> i32",
        "llvm.store volatile %xs, %q {alignment = 16 : i64, nontemporal} : vector<8xf32>, "
        "!llvm.ptr<1>",
        f"%l = {_GATHER} %ps, %k {{alignment = 4 : i32}} : (vector<8x!llvm.ptr<1>>, vector<8xi1>) "
        "-> vector<8xf32>",
        '%l = llvm.cmpxchg weak volatile %q, %n32, %n32 syncscope("device") acq_rel monotonic '
        "{alignment = 4 : i64} : !llvm.ptr<1>, i32\n"
        "%m = llvm.extractvalue %l[1] : !llvm.struct<(i32, i1)>",
        'llvm.fence syncscope("device") acq_rel {note}',
        "%l = llvm.getelementptr %ps[%n64, -3] {note} : (vector<8x!llvm.ptr<1>>, i64) -> "
        "vector<8x!llvm.ptr<1>>, !llvm.array<4 x i8>",
    ]
    return [wrap(body, EXTRA) for body in bodies]


@pytest.mark.parametrize("text", _legal())
def test_text_survives_printing(text: str) -> None:
    again = print_again(text)
    assert print_again(again) == again
    generic = print_again(text, generic=True)
    assert print_again(generic) == again


def older(text: str) -> str:
    """A text in the spelling of vectors of pointers that LLVM had up to version 20."""
    return re.sub(r"vector<(\d+)x!llvm\.(ptr(?:<\d+>)?)>", r"!llvm.vec<\1 x \2>", text)


TOOLS = [
    pytest.param("mlir-opt-19", marks=requires_mlir_opt, id="llvm19"),
    pytest.param("iree-opt", marks=requires_iree_opt, id="iree3.0"),
]


@pytest.mark.oracle
@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
def test_upstream_reads_what_we_print(tool: str, generic: bool) -> None:
    """And prints it as it prints the source."""
    legal = list(map(older, _legal()))
    ours = [older(print_again(text, generic)) for text in _legal()]
    assert upstream_texts(tool, ours) == upstream_texts(tool, legal)


@pytest.mark.oracle
@requires_mlir_opt
def test_we_read_what_upstream_prints() -> None:
    """Also vectors of pointers in the older spelling."""
    texts = upstream_texts("mlir-opt-19", [older(text) for text in _legal()])
    assert any("!llvm.vec<8 x ptr<1>>" in text for text in texts)
    for theirs, ours in zip(texts, _legal(), strict=True):
        assert same_module(parse(theirs), parse(ours)) is None


def test_the_older_vectors_are_vectors() -> None:
    text = wrap(
        "%l = llvm.ptrtoint %v8 : !llvm.vec<8 x ptr<1>> to vector<8xi64>", {"v8": EXTRA["ps"]}
    )
    assert "vector<8x!llvm.ptr<1>> to vector<8xi64>" in print_again(text)
    (found,) = problems(text.replace("vec<8 x ptr<1>>", "vec<8 ptr>"))
    assert found.code == "syntax"


#: Why only we refuse a program: upstream finds out when it translates to LLVM IR, or not at all.
STRICTER = (
    "expected as many elements of the result",
    "expected pointers and places of one length",
    "or vectors of such of one shape",
    "operands and has a result",
    "there is no atomic update fadd of 'vector<8xf32>'",
    "power of two",
    "elements of 'ptrs'",
    "to have the type 'vector<8xf32>' of the result",
)


@pytest.mark.oracle
@pytest.mark.parametrize("tool", TOOLS)
def test_upstream_judges_alike(tool: str) -> None:
    bodies = [body for case in CASES for body in (case.bad, case.good)]
    texts = [wrap(body, EXTRA) for body in bodies]
    errors = upstream_errors(tool, [older(text) for text in texts])
    for text, theirs in zip(texts, errors, strict=True):
        ours = [d.message for d in problems(text)]
        if ours and not theirs:
            assert any(known in ours[0] for known in STRICTER), (ours, text)
        else:
            assert bool(ours) == bool(theirs), (ours, theirs, text)


@pytest.mark.oracle
@requires_mlir_opt
@pytest.mark.parametrize("ty", ["f8E4M3FN", "vector<4xf8E5M2>", "tf32"])
def test_narrow_floats_lie_in_memory(ty: str) -> None:
    """Upstream has no memory of them."""
    text = wrap(f"%l = llvm.load %q {{alignment = 4 : i64}} : !llvm.ptr<1> -> {ty}", EXTRA)
    assert problems(text) == []
    (errors,) = upstream_errors("mlir-opt-19", [text])
    assert len(errors) == 1


def test_parts_have_places() -> None:
    text = wrap(_load(" atomic release"), EXTRA)
    (found,) = problems(text)
    line = text.splitlines()[(found.line or 0) - 1]
    assert line[(found.column or 0) - 1 :].startswith("release {")


def test_properties_have_upstreams_names() -> None:
    text = wrap(_update("umax", ordering='syncscope("block") acq_rel'), EXTRA)
    (op,) = (op for op in parse(text).walk() if op.name == "llvm.atomicrmw")
    assert {n: str(v) for n, v in op.properties.items()} == {
        "bin_op": "9 : i64",
        "ordering": "6 : i64",
        "syncscope": '"block"',
    }
