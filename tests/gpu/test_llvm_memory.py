"""Memory by address: the instructions that it becomes on each architecture, and what it computes."""

from __future__ import annotations

import ctypes
import re
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from tests.gpu.kernels import kernel, shared
from tests.gpu.support import machine_code, ptx_of, requires_nvdisasm, requires_ptxas

from tilewright import gpu
from tilewright.diagnostics import TileIRError
from tilewright.dialects.upstream.llvm.syntax import BIN_OPS
from tilewright.text import parse

ARCHITECTURES = ("sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")
PARAMETERS = "%p: !llvm.ptr<1>, %q: !llvm.ptr<1>, %g: !llvm.ptr, %n: i32, %l: i64"
MANY = """\
%t = arith.index_cast %tid : index to i64
%ts = vector.broadcast %t : i64 to vector<4xi64>
%by = arith.constant dense<4> : vector<4xi64>
%t4 = arith.muli %ts, %by : vector<4xi64>
%iota = arith.constant dense<[0, 1, 2, 3]> : vector<4xi64>
%i = arith.addi %t4, %iota : vector<4xi64>
%ls = vector.broadcast %l : i64 to vector<4xi64>
%some = arith.cmpi slt, %i, %ls : vector<4xi64>
%all = arith.constant dense<true> : vector<4xi1>
%from = llvm.getelementptr %p[%i] : (!llvm.ptr<1>, vector<4xi64>) -> vector<4x!llvm.ptr<1>>, {e}
%to = llvm.getelementptr %q[%i] : (!llvm.ptr<1>, vector<4xi64>) -> vector<4x!llvm.ptr<1>>, {e}
%x = llvm.intr.masked.gather %from, {mask} {{alignment = {size} : i32}} : (vector<4x!llvm.ptr<1>>, vector<4xi1>) -> vector<4x{e}>
llvm.intr.masked.scatter %x, %to, {mask} {{alignment = {size} : i32}} : vector<4x{e}>, vector<4xi1> into vector<4x!llvm.ptr<1>>
"""


def many(element: str, size: int, mask: str = "%some") -> str:
    return kernel(PARAMETERS, MANY.format(e=element, size=size, mask=mask))


def accesses(ptx: str) -> list[str]:
    """The instructions that reach memory, without their operands."""
    return re.findall(r"^\s+(?:@!?%p\d+ )?((?:ld|st|atom|red|fence)\.(?!param)\S*?);?\s", ptx, re.M)


def code(body: str, arch: str = "sm_80") -> list[str]:
    return accesses(ptx_of(kernel(PARAMETERS, body), arch))


@requires_nvdisasm
@pytest.mark.oracle
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_masks_become_predicates(arch: str) -> None:
    found = machine_code(many("f32", 4), arch)
    assert len(re.findall(r"@!?P\d+ LDG\.E", found)) == 4
    assert "STG.E" in found


@pytest.mark.parametrize(
    ("element", "size", "width"),
    [("f64", 8, 64), ("f32", 4, 32), ("f16", 2, 16), ("i8", 1, 8), ("i1", 1, 8), ("f8E5M2", 1, 8)],
)
def test_elements_have_their_width(element: str, size: int, width: int) -> None:
    found = accesses(ptx_of(many(element, size), "sm_80"))
    assert found == [f"ld.global.b{width}"] * 4 + [f"st.global.b{width}"] * 4


def test_a_mask_that_always_holds_is_none() -> None:
    plain = ptx_of(many("f32", 4, "%all"), "sm_90")
    assert accesses(plain) == ["ld.global.b32"] * 4 + ["st.global.b32"] * 4
    assert "bra" not in plain


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (
            "%x = llvm.load %p : !llvm.ptr<1> -> vector<4xf32>\nSTORE vector<4xf32>",
            ["ld.global.v4.b32", "st.global.v4.b32"],
        ),
        ("%x = llvm.load %g : !llvm.ptr -> f32\nSTORE f32", ["ld.global.b32", "st.global.b32"]),
        (
            "%x = llvm.load %p invariant : !llvm.ptr<1> -> f32\nSTORE f32",
            ["ld.global.nc.b32", "st.global.b32"],
        ),
        (
            "%x = llvm.load volatile %p : !llvm.ptr<1> -> f32\nSTORE f32",
            ["ld.volatile.global.b32", "st.global.b32"],
        ),
        (
            "%x = llvm.load %p {alignment = 1 : i64} : !llvm.ptr<1> -> i16\nSTORE i16",
            ["ld.global.b8", "ld.global.b8", "st.global.b16"],
        ),
        (
            '%x = llvm.load %p atomic syncscope("device") acquire {alignment = 4 : i64} : !llvm.ptr<1> -> f32\n'
            'llvm.store %x, %q atomic syncscope("block") release {alignment = 4 : i64} : f32, !llvm.ptr<1>',
            ["ld.acquire.gpu.global.b32", "st.release.cta.global.b32"],
        ),
        (
            "%x = llvm.load %p atomic monotonic {alignment = 8 : i64} : !llvm.ptr<1> -> i64\nSTORE i64",
            ["ld.relaxed.sys.global.b64", "st.global.b64"],
        ),
        ('llvm.fence syncscope("device") acq_rel', ["fence.acq_rel.gpu"]),
        ("llvm.fence seq_cst", ["fence.sc.sys"]),
        ('llvm.fence syncscope("block") release', ["fence.acq_rel.cta"]),
    ],
)
def test_accesses(body: str, wanted: list[str]) -> None:
    body = re.sub(r"STORE (.*)", r"llvm.store %x, %q : \1, !llvm.ptr<1>", body)
    assert code(body) == wanted


_PTX_UPDATES = {
    "xchg": "exch.b32",
    "add": "add.u32",
    "sub": "add.u32",
    "_and": "and.b32",
    "_or": "or.b32",
    "_xor": "xor.b32",
    "max": "max.s32",
    "min": "min.s32",
    "umax": "max.u32",
    "umin": "min.u32",
    "uinc_wrap": "inc.u32",
    "udec_wrap": "dec.u32",
}


def _update(keyword: str, ty: str = "i32", qualifiers: str = "monotonic") -> str:
    value = "%n" if ty == "i32" else "%x"
    cast = "" if ty == "i32" else f"%x = arith.constant 1{'.0' if 'f' in ty else ''} : {ty}\n"
    return (
        f"{cast}%o = llvm.atomicrmw {keyword} %p, {value} {qualifiers} : !llvm.ptr<1>, {ty}\n"
        f"llvm.store %o, %q : {ty}, !llvm.ptr<1>"
    )


def unused(update: str) -> str:
    """The same where nobody asks for what was there."""
    return update.rpartition("\n")[0]


@pytest.mark.parametrize("keyword", _PTX_UPDATES)
def test_updates_are_instructions(keyword: str) -> None:
    name = f"relaxed.sys.global.{_PTX_UPDATES[keyword]}"
    assert code(_update(keyword))[0] == f"atom.{name}"
    # What exchanges is always an atom.
    assert code(unused(_update(keyword))) == [f"{'atom' if keyword == 'xchg' else 'red'}.{name}"]


@pytest.mark.parametrize(
    ("qualifiers", "wanted"),
    [
        ('syncscope("device") monotonic', ["atom.relaxed.gpu"]),
        ('syncscope("device") acq_rel', ["atom.acq_rel.gpu"]),
        ('syncscope("block") acquire', ["atom.acquire.cta"]),
        ("release", ["atom.release.sys"]),
        ('syncscope("device") seq_cst', ["fence.sc.gpu", "atom.acquire.gpu"]),
    ],
)
def test_updates_keep_ordering_and_scope(qualifiers: str, wanted: list[str]) -> None:
    """LLVM 22 drops both; also loops that compare and exchange have them."""
    found = code(_update("add", qualifiers=qualifiers))[:-1]
    assert [name.partition(".global")[0] for name in found] == wanted
    reduced = [
        name.partition(".global")[0] for name in code(unused(_update("add", qualifiers=qualifiers)))
    ]
    # A reduction cannot acquire.
    weak = qualifiers.endswith(("monotonic", "release"))
    assert reduced == ([name.replace("atom", "red") for name in wanted] if weak else wanted)
    loop = code(unused(_update("nand", qualifiers=qualifiers)))
    assert [name.partition(".global")[0] for name in loop[1:]] == wanted
    assert loop[-1].endswith("cas.b32")


@pytest.mark.parametrize(
    ("keyword", "ty", "arch", "wanted"),
    [
        ("fadd", "f32", "sm_80", "add.f32"),
        ("fadd", "f64", "sm_80", "add.f64"),
        ("fadd", "f16", "sm_80", "add.noftz.f16"),
        ("fadd", "bf16", "sm_90", "add.noftz.bf16"),
        ("fadd", "bf16", "sm_89", "cas.b32"),
        ("xchg", "f32", "sm_80", "exch.b32"),
        ("fmax", "f32", "sm_80", "cas.b32"),
        ("add", "i16", "sm_80", "cas.b32"),
        ("nand", "i64", "sm_80", "cas.b64"),
        ("uinc_wrap", "i64", "sm_80", "cas.b64"),
    ],
)
def test_updates_of_other_types(keyword: str, ty: str, arch: str, wanted: str) -> None:
    """What the hardware lacks is a loop."""
    assert code(unused(_update(keyword, ty)), arch)[-1].endswith(wanted)


@requires_ptxas
@pytest.mark.oracle
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_update_assembles(arch: str) -> None:
    floats, integers = ("f16", "bf16", "f32", "f64"), ("i8", "i16", "i32", "i64")
    pairs = [(op, ty) for op in BIN_OPS for ty in (floats if op[0] == "f" else integers)]
    body = []
    for number, (keyword, ty) in enumerate(pairs):
        value = "1.0" if "f" in ty else "1"
        body.append(
            f"%x{number} = arith.constant {value} : {ty}\n"
            f'%o{number} = llvm.atomicrmw {keyword} %p, %x{number} syncscope("block") acq_rel : '
            f"!llvm.ptr<1>, {ty}\nllvm.store %o{number}, %q : {ty}, !llvm.ptr<1>\n"
            f"%r{number} = llvm.atomicrmw {keyword} %p, %x{number} release : !llvm.ptr<1>, {ty}"
        )
    ptx = ptx_of(kernel(PARAMETERS, "\n".join(body)), arch)
    assert gpu.assemble(ptx, arch).cubin


def test_compare_and_exchange() -> None:
    body = """\
%pair = llvm.cmpxchg %p, %n, %n syncscope("device") acq_rel acquire : !llvm.ptr<1>, i32
%old = llvm.extractvalue %pair[0] : !llvm.struct<(i32, i1)>
%won = llvm.extractvalue %pair[1] : !llvm.struct<(i32, i1)>
llvm.store %old, %q : i32, !llvm.ptr<1>
llvm.store %won, %g : i1, !llvm.ptr
"""
    found = code(body)
    assert found == ["atom.acq_rel.gpu.global.cas.b32", "st.global.b32", "st.global.b8"]


@pytest.mark.parametrize(
    ("body", "arch", "says"),
    [
        ('llvm.fence syncscope("agent") acq_rel', "sm_90", "'llvm.fence' has the scope 'agent'"),
        (
            'llvm.fence syncscope("cluster") acq_rel',
            "sm_80",
            "'llvm.fence' needs thread block clusters",
        ),
        ("%x = llvm.load %p : !llvm.ptr<1> -> i4", "sm_90", "'llvm.load' reaches whole bytes"),
        (
            "%x = llvm.getelementptr %p[0, 1] : (!llvm.ptr<1>) -> !llvm.ptr<1>, !llvm.array<2 x i8>",
            "sm_90",
            "'llvm.getelementptr' counts numbers and pointers only",
        ),
        (
            "%x = llvm.getelementptr %p[0, 1] : (!llvm.ptr<1>) -> !llvm.ptr<1>, f32",
            "sm_90",
            "expected no place inside of 'f32', got 1 places",
        ),
    ],
)
def test_what_is_refused(body: str, arch: str, says: str) -> None:
    with pytest.raises(TileIRError) as caught:
        code(body, arch)
    (found,) = caught.value.diagnostics
    assert says in found.message and found.line


def test_kernels_take_pointers() -> None:
    made = gpu.compile_kernel(parse(kernel(PARAMETERS, "")), "sm_90")
    fields = [(p.name, p.fields[0].what, p.fields[0].size) for p in made.parameters[:3]]
    assert fields == [("p", "pointer", 8), ("q", "pointer", 8), ("g", "pointer", 8)]
    with pytest.raises(TileIRError, match="only those to global memory"):
        ptx_of(kernel("%p: !llvm.ptr<3>", ""), "sm_90")


# What it computes: LLVM compiles the same code for this CPU, as far as it is no PTX.


def _run(body: str, *arrays: np.ndarray) -> None:
    parameters = ", ".join(f"%a{number}: !llvm.ptr<1>" for number in range(len(arrays)))
    text = f"module {{\nfunc.func @f({parameters}) {{\n{body}\nfunc.return\n}}\n}}\n"
    module = parse(text)
    options = gpu.CompileOptions(optimize=False)
    code = gpu.compile_function(module, "sm_80", "f", options).llvm_ir
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine()
    parsed = llvm.parse_assembly(code)
    parsed.triple, parsed.data_layout = llvm.get_process_triple(), str(machine.target_data)
    with llvm.create_mcjit_compiler(parsed, machine) as engine:
        address = engine.get_function_address("f")
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays))(address)
        function(*(array.ctypes.data for array in arrays))


@pytest.mark.parametrize(
    ("element", "dtype"),
    [("f32", np.float32), ("i8", np.int8), ("i1", np.bool_), ("i64", np.int64)],
)
@pytest.mark.parametrize("mask", ["true, false, true, true", "true, true, true, true"])
def test_gather_and_scatter_run(element: str, dtype: Any, mask: str) -> None:
    size = np.dtype(dtype).itemsize
    body = f"""\
%m = arith.constant dense<[{mask}]> : vector<4xi1>
%i = arith.constant dense<[3, 1, 7, 4]> : vector<4xi32>
%ps = llvm.getelementptr %a0[%i] : (!llvm.ptr<1>, vector<4xi32>) -> vector<4x!llvm.ptr<1>>, {element}
%old = llvm.load %a2 : !llvm.ptr<1> -> vector<4x{element}>
%x = llvm.intr.masked.gather %ps, %m, %old {{alignment = {size} : i32}} : (vector<4x!llvm.ptr<1>>, vector<4xi1>, vector<4x{element}>) -> vector<4x{element}>
%as = llvm.ptrtoint %ps : vector<4x!llvm.ptr<1>> to vector<4xi64>
%a = llvm.ptrtoint %a0 : !llvm.ptr<1> to i64
%b = llvm.ptrtoint %a1 : !llvm.ptr<1> to i64
%far = arith.subi %b, %a : i64
%fars = vector.broadcast %far : i64 to vector<4xi64>
%bs = arith.addi %as, %fars : vector<4xi64>
%qs = llvm.inttoptr %bs : vector<4xi64> to vector<4x!llvm.ptr<1>>
llvm.intr.masked.scatter %x, %qs, %m {{alignment = {size} : i32}} : vector<4x{element}>, vector<4xi1> into vector<4x!llvm.ptr<1>>
llvm.store %x, %a2 : vector<4x{element}>, !llvm.ptr<1>
"""
    source = (np.arange(8) % 3).astype(dtype)
    target, other = np.zeros(8, dtype), np.ones(4, dtype)
    _run(body, source, target, other)
    on = np.array([word.strip() == "true" for word in mask.split(",")])
    places = np.array([3, 1, 7, 4])
    assert (other == np.where(on, source[places], np.ones(4, dtype))).all()
    wanted = np.zeros(8, dtype)
    wanted[places[on]] = source[places[on]]
    assert (target == wanted).all()


@pytest.mark.parametrize("keyword", ["nand", "uinc_wrap", "fsub", "fmax"])
def test_loops_run(keyword: str) -> None:
    ty, dtype = ("f32", np.float32) if keyword[0] == "f" else ("i64", np.int64)
    body = f"""\
%x = llvm.load %a1 : !llvm.ptr<1> -> {ty}
%o = llvm.atomicrmw {keyword} %a0, %x monotonic : !llvm.ptr<1>, {ty}
llvm.store %o, %a2 : {ty}, !llvm.ptr<1>
"""
    memory, value, old = np.array([5], dtype), np.array([3], dtype), np.zeros(1, dtype)
    _run(body, memory, value, old)
    wanted = {"nand": ~(5 & 3), "uinc_wrap": 0, "fsub": 2.0, "fmax": 5.0}[keyword]
    assert (old[0], memory[0]) == (5, wanted)


def test_pointers_go_where_numbers_go() -> None:
    """Through choices, branches, loops and vectors."""
    body = """\
%i = llvm.load %a1 : !llvm.ptr<1> -> i32
%zero = arith.constant 0 : i32
%no = arith.cmpi eq, %i, %zero : i32
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%c4 = arith.constant 4 : index
%got = scf.if %no -> (!llvm.ptr<1>) {
  scf.yield %a1 : !llvm.ptr<1>
} else {
  scf.yield %a0 : !llvm.ptr<1>
}
%last = scf.for %k = %c0 to %c4 step %c1 iter_args(%at = %got) -> (!llvm.ptr<1>) {
  %next = llvm.getelementptr %at[1] : (!llvm.ptr<1>) -> !llvm.ptr<1>, f32
  scf.yield %next : !llvm.ptr<1>
}
%chosen = arith.select %no, %a1, %last : !llvm.ptr<1>
%all = vector.broadcast %chosen : !llvm.ptr<1> to vector<2x!llvm.ptr<1>>
%two = arith.constant dense<[0, 2]> : vector<2xi32>
%each = llvm.getelementptr %all[%two] : (vector<2x!llvm.ptr<1>>, vector<2xi32>) -> vector<2x!llvm.ptr<1>>, f32
%on = arith.constant dense<true> : vector<2xi1>
%x = llvm.intr.masked.gather %each, %on {alignment = 4 : i32} : (vector<2x!llvm.ptr<1>>, vector<2xi1>) -> vector<2xf32>
llvm.store %x, %a2 {alignment = 4 : i64} : vector<2xf32>, !llvm.ptr<1>
"""
    source, out = np.arange(8, dtype=np.float32), np.zeros(2, np.float32)
    _run(body, source, np.ones(1, np.int32), out)
    assert out.tolist() == [4.0, 6.0]


@pytest.mark.parametrize("stated", ["", " {alignment = 16 : i64}"], ids=["unknown", "stated"])
def test_what_a_vector_says_of_its_address_makes_it_one_access(stated: str) -> None:
    """LLVM does not see what a run-time number is a multiple of."""
    tile = "memref<4096xi8, #gpu.address_space<workgroup>>"
    around, named = shared("m", tile)
    body = f"""\
{named}
%i = arith.index_cast %n : i32 to index
%v = vector.load %m[%i]{stated} : {tile}, vector<16xi8>
%x = arith.addi %v, %v : vector<16xi8>
vector.store %x, %m[%i]{stated} : {tile}, vector<16xi8>
"""
    ptx = ptx_of(kernel(PARAMETERS, body, around=around), "sm_80")
    found = [name for name in accesses(ptx) if ".shared" in name]
    wide = ["ld.shared.v4.b32", "st.shared.v4.b32"]
    assert [name for name in found if name in wide] == (wide if stated else [])
    assert len(found) == (2 if stated else 32)
