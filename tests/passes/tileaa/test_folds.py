"""Each fold of ``tileaa-canonicalize``: a case that it rewrites, and the nearest that it must not."""

from __future__ import annotations

from typing import Any

import pytest
from tests.analysis.tileaa.reading import read
from xdsl.pattern_rewriter import PatternRewriter

from tilewright.analysis.verifier import verify
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.type_syntax import format_type
from tilewright.passes.canonicalize import Rule
from tilewright.passes.tileaa import canonicalize
from tilewright.passes.tileaa.canonicalize import TileAACanonicalize
from tilewright.passes.tileaa.matching import integer_of
from tilewright.passes.tileaa.order_guard import OrderGuard
from tilewright.text import print_text

PTR = "!nv_tileaa.ptr<f32, 1>"
IPTR = "!nv_tileaa.ptr<i32, 1>"
TOKEN = "!nv_tileaa.mem_token"
ARGUMENTS = (
    f"%p: {PTR}, %q: {PTR}, %ip: {IPTR}, %n: i32, %x: index, %l: i64, %h: f16, "
    f"%a: tile<4x8xf32>, %b: tile<8xi32>, %m: tile<8xi1>, %c: i1, %pp: tile<8x{PTR}>"
)


def canonical(body: str) -> list[str]:
    """The operations that are left, without the constants and the end; uses keep values alive."""
    found = read(body, arguments=ARGUMENTS)
    module = found.function.parent_op()
    assert module is not None
    guard = OrderGuard.watch(module)
    TileAACanonicalize().apply_to(module)
    assert guard.problems() == []
    guard.release()
    verify(module)
    again = print_text(module)
    TileAACanonicalize().apply_to(module)
    assert print_text(module) == again, "a second run changes something"
    function = next(op for op in module.walk() if isinstance(op, FuncOp))
    names = [op.name for op in function.walk() if op is not function]
    return [
        name.removeprefix("nv_tileaa.")
        for name in names
        if name not in ("nv_tileaa.return", "nv_tileaa.optimization_barrier", "arith.constant")
    ]


def used(*values: str) -> str:
    """Keeps values alive and unfolded."""
    names = ", ".join(value.split(" : ")[0] for value in values)
    types = ", ".join(value.split(" : ")[1] for value in values)
    return f"\nnv_tileaa.optimization_barrier {names} : {types}"


T8 = "tile<8xi32>"
CASES = {
    "a loop that runs once": (
        "%a0 = arith.constant 3 : i32\n%b0 = arith.constant 5 : i32\n%c0 = arith.constant 2 : i32\n"
        "%r = scf.for %i = %a0 to %b0 step %c0 iter_args(%v = %n) -> (i32) : i32 {\n"
        "  %w = arith.addi %v, %i : i32\n  scf.yield %w : i32\n}" + used("%r : i32"),
        ["arith.addi"],
    ),
    "a loop that runs twice": (
        "%a0 = arith.constant 3 : i32\n%b0 = arith.constant 6 : i32\n%c0 = arith.constant 2 : i32\n"
        "%r = scf.for %i = %a0 to %b0 step %c0 iter_args(%v = %n) -> (i32) : i32 {\n"
        "  %w = arith.addi %v, %i : i32\n  scf.yield %w : i32\n}" + used("%r : i32"),
        ["scf.for", "arith.addi", "scf.yield"],
    ),
    "a loop that never runs": (
        "%a0 = arith.constant 5 : i32\n%b0 = arith.constant 5 : i32\n%c0 = arith.constant 2 : i32\n"
        "%r = scf.for %i = %a0 to %b0 step %c0 iter_args(%v = %n) -> (i32) : i32 {\n"
        "  %w = arith.addi %v, %i : i32\n  scf.yield %w : i32\n}" + used("%r : i32"),
        [],
    ),
    "a loop whose end is unknown": (
        "%a0 = arith.constant 3 : i32\n%b0 = arith.addi %n, %n : i32\n%c0 = arith.constant 2 : i32\n"
        "%r = scf.for %i = %a0 to %b0 step %c0 iter_args(%v = %n) -> (i32) : i32 {\n"
        "  %w = arith.addi %v, %i : i32\n  scf.yield %w : i32\n}" + used("%r : i32"),
        ["arith.addi", "scf.for", "arith.addi", "scf.yield"],
    ),
    "an unsigned loop to a negative end": (
        "%a0 = arith.constant 3 : i32\n%b0 = arith.constant -5 : i32\n%c0 = arith.constant 2 : i32\n"
        "%r = scf.for unsigned %i = %a0 to %b0 step %c0 iter_args(%v = %n) -> (i32) : i32 {\n"
        "  %w = arith.addi %v, %i : i32\n  scf.yield %w : i32\n}" + used("%r : i32"),
        ["scf.for", "arith.addi", "scf.yield"],
    ),
    "the branch of a constant condition": (
        "%t = arith.constant true\n"
        "%r = scf.if %t -> (i32) {\n  %w = arith.addi %n, %n : i32\n  scf.yield %w : i32\n} else {\n"
        "  scf.yield %n : i32\n}" + used("%r : i32"),
        ["arith.addi"],
    ),
    "the other branch of a constant condition": (
        "%t = arith.constant false\n"
        "%r = scf.if %t -> (i32) {\n  %w = arith.addi %n, %n : i32\n  scf.yield %w : i32\n} else {\n"
        "  scf.yield %n : i32\n}" + used("%r : i32"),
        [],
    ),
    "no branch for a constant condition": (
        "%t = arith.constant false\nscf.if %t {\n  nv_tileaa.optimization_barrier %n : i32\n}",
        [],
    ),
    "a branch of an unknown condition": (
        "%r = scf.if %c -> (i32) {\n  %w = arith.addi %n, %n : i32\n  scf.yield %w : i32\n} else {\n"
        "  scf.yield %n : i32\n}" + used("%r : i32"),
        ["scf.if", "arith.addi", "scf.yield", "scf.yield"],
    ),
    "pointer moved by nothing": (
        f"%z = arith.constant 0 : i32\n%r = nv_tileaa.addptr %p, %z : {PTR}, i32 -> {PTR}"
        + used(f"%r : {PTR}"),
        [],
    ),
    "pointer moved": (
        f"%z = arith.constant 1 : i32\n%r = nv_tileaa.addptr %p, %z : {PTR}, i32 -> {PTR}"
        + used(f"%r : {PTR}"),
        ["addptr"],
    ),
    "offsets in a row": (
        f"%u = nv_tileaa.addptr %p, %l : {PTR}, i64 -> {PTR}\n"
        f"%r = nv_tileaa.addptr %u, %l : {PTR}, i64 -> {PTR}" + used(f"%r : {PTR}"),
        ["arith.addi", "addptr"],
    ),
    "narrow offsets in a row are widened first": (
        f"%u = nv_tileaa.addptr %p, %n : {PTR}, i32 -> {PTR}\n"
        f"%r = nv_tileaa.addptr %u, %n : {PTR}, i32 -> {PTR}" + used(f"%r : {PTR}"),
        ["arith.extsi", "arith.extsi", "arith.addi", "addptr"],
    ),
    "a pointer in the middle that is needed": (
        f"%u = nv_tileaa.addptr %p, %l : {PTR}, i64 -> {PTR}\n"
        f"%r = nv_tileaa.addptr %u, %l : {PTR}, i64 -> {PTR}" + used(f"%r : {PTR}", f"%u : {PTR}"),
        ["addptr", "addptr"],
    ),
    "splat through shapes": (
        "%s = nv_tileaa.splat %n : i32 -> tile<1x8xi32>\n"
        "%t = nv_tileaa.broadcast %s : tile<1x8xi32> -> tile<4x8xi32>\n"
        "%r = nv_tileaa.view %t : tile<4x8xi32> -> tile<32xi32>" + used("%r : tile<32xi32>"),
        ["splat"],
    ),
    "view of view": (
        "%s = nv_tileaa.view %a : tile<4x8xf32> -> tile<32xf32>\n"
        "%r = nv_tileaa.view %s : tile<32xf32> -> tile<8x4xf32>" + used("%r : tile<8x4xf32>"),
        ["view"],
    ),
    "view back": (
        "%s = nv_tileaa.view %a : tile<4x8xf32> -> tile<32xf32>\n"
        "%r = nv_tileaa.view %s : tile<32xf32> -> tile<4x8xf32>" + used("%r : tile<4x8xf32>"),
        [],
    ),
    "two transpositions": (
        "%s = nv_tileaa.permute %a {permutation = array<i64: 1, 0>} : tile<4x8xf32> -> tile<8x4xf32>\n"
        "%r = nv_tileaa.permute %s {permutation = array<i64: 1, 0>} : tile<8x4xf32> -> tile<4x8xf32>"
        + used("%r : tile<4x8xf32>"),
        [],
    ),
    "one transposition": (
        "%r = nv_tileaa.permute %a {permutation = array<i64: 1, 0>} : tile<4x8xf32> -> tile<8x4xf32>"
        + used("%r : tile<8x4xf32>"),
        ["permute"],
    ),
    "assumption of a splat": (
        f"%s = nv_tileaa.splat %n : i32 -> {T8}\n"
        f"%r = nv_tileaa.assume %s {{predicates = [#nv_tileaa.bounded<0, 9>]}} : {T8}"
        + used(f"%r : {T8}"),
        ["assume", "splat"],
    ),
    "assumption about neighbours": (
        f"%s = nv_tileaa.splat %n : i32 -> {T8}\n"
        f"%r = nv_tileaa.assume %s {{predicates = [#nv_tileaa.same_elements<[8]>]}} : {T8}"
        + used(f"%r : {T8}"),
        ["splat", "assume"],
    ),
    "assumptions in a row": (
        "%s = nv_tileaa.assume %n {predicates = [#nv_tileaa.div_by<4>]} : i32\n"
        "%r = nv_tileaa.assume %s {predicates = [#nv_tileaa.div_by<16>]} : i32" + used("%r : i32"),
        ["assume"],
    ),
    "select of splats": (
        f"%s = nv_tileaa.splat %n : i32 -> {T8}\n%o = arith.muli %n, %n : i32\n"
        f"%v = nv_tileaa.splat %o : i32 -> {T8}\n"
        f"%r = arith.select %c, %s, %v : {T8}" + used(f"%r : {T8}"),
        ["arith.muli", "arith.select", "splat"],
    ),
    "select by a mask": (
        f"%s = nv_tileaa.splat %n : i32 -> {T8}\n%r = arith.select %m, %s, %b : tile<8xi1>, {T8}"
        + used(f"%r : {T8}"),
        ["splat", "arith.select"],
    ),
    "select by a known condition": (
        f"%t = arith.constant true\n%r = arith.select %t, %b, %b : {T8}" + used(f"%r : {T8}"),
        [],
    ),
    "element of a splat": (
        f"%s = nv_tileaa.splat %n : i32 -> {T8}\n"
        f"%r = nv_tileaa.extract %s[%x] : {T8}, index -> i32" + used("%r : i32"),
        [],
    ),
    "element of a range": (
        f"%s = nv_tileaa.make_range {{start = 5 : i64, end = 13 : i64}} : {T8}\n"
        f"%k = arith.constant 2 : index\n%r = nv_tileaa.extract %s[%k] : {T8}, index -> i32"
        + used("%r : i32"),
        [],
    ),
    "element of a range at an unknown location": (
        f"%s = nv_tileaa.make_range {{start = 5 : i64, end = 13 : i64}} : {T8}\n"
        f"%r = nv_tileaa.extract %s[%x] : {T8}, index -> i32" + used("%r : i32"),
        ["make_range", "extract"],
    ),
    "halves put together": (
        f"%u = nv_tileaa.extract_slice %b {{offsets = array<i64: 0>}} : {T8} -> tile<4xi32>\n"
        f"%v = nv_tileaa.extract_slice %b {{offsets = array<i64: 4>}} : {T8} -> tile<4xi32>\n"
        f"%r = nv_tileaa.cat %u, %v {{axis = 0 : i32}} : tile<4xi32>, tile<4xi32> -> {T8}"
        + used(f"%r : {T8}"),
        [],
    ),
    "halves the other way round": (
        f"%u = nv_tileaa.extract_slice %b {{offsets = array<i64: 0>}} : {T8} -> tile<4xi32>\n"
        f"%v = nv_tileaa.extract_slice %b {{offsets = array<i64: 4>}} : {T8} -> tile<4xi32>\n"
        f"%r = nv_tileaa.cat %v, %u {{axis = 0 : i32}} : tile<4xi32>, tile<4xi32> -> {T8}"
        + used(f"%r : {T8}"),
        ["extract_slice", "extract_slice", "cat"],
    ),
    "half of a cat": (
        f"%u = nv_tileaa.cat %b, %b {{axis = 0 : i32}} : {T8}, {T8} -> tile<16xi32>\n"
        f"%r = nv_tileaa.extract_slice %u {{offsets = array<i64: 8>}} : tile<16xi32> -> {T8}"
        + used(f"%r : {T8}"),
        [],
    ),
    "bits back and forth": (
        f"%u = nv_tileaa.bitcast %b : {T8} -> tile<8xf32>\n"
        f"%r = nv_tileaa.bitcast %u : tile<8xf32> -> {T8}" + used(f"%r : {T8}"),
        [],
    ),
    "pointer to its own address": (
        f"%u = nv_tileaa.ptr_to_int %p : {PTR} -> i64\n%r = nv_tileaa.int_to_ptr %u : i64 -> {PTR}"
        + used(f"%r : {PTR}"),
        [],
    ),
    "pointer of another type": (
        f"%u = nv_tileaa.ptr_to_int %p : {PTR} -> i64\n%r = nv_tileaa.int_to_ptr %u : i64 -> {IPTR}"
        + used(f"%r : {IPTR}"),
        ["ptr_to_int", "int_to_ptr"],
    ),
    "a number widened and back": (
        "%u = arith.sitofp %n : i32 to f16\n%v = nv_tileaa.fp_to_fp %u : f16 -> f32\n"
        "%r = nv_tileaa.fp_to_fp %v : f32 -> f16" + used("%r : f16"),
        ["arith.sitofp"],
    ),
    "what could be NaN widened and back": (
        "%v = nv_tileaa.fp_to_fp %h : f16 -> f32\n%r = nv_tileaa.fp_to_fp %v : f32 -> f16"
        + used("%r : f16"),
        ["fp_to_fp", "fp_to_fp"],
    ),
    "a number narrowed and back": (
        "%u = arith.sitofp %n : i32 to f32\n%v = nv_tileaa.fp_to_fp %u : f32 -> f16\n"
        "%r = nv_tileaa.fp_to_fp %v : f16 -> f32" + used("%r : f32"),
        ["arith.sitofp", "fp_to_fp", "fp_to_fp"],
    ),
    "constants": (
        "%u = arith.constant 6 : i32\n%v = arith.constant 7 : i32\n"
        "%w = arith.muli %u, %v : i32\n%r = arith.index_cast %w : i32 to index"
        + used("%r : index"),
        [],
    ),
    "floats are not computed": (
        "%u = arith.constant 6.0 : f32\n%r = nv_tileaa.addf %u, %u : f32" + used("%r : f32"),
        ["addf"],
    ),
    "no change": (
        "%u = arith.constant 0 : i32\n%r = arith.addi %u, %n : i32" + used("%r : i32"),
        [],
    ),
    "zero minus": (
        "%u = arith.constant 0 : i32\n%r = arith.subi %u, %n : i32" + used("%r : i32"),
        ["arith.subi"],
    ),
    "a product with zeros": (
        "%z = arith.constant dense<0> : tile<8x8xi8>\n%d = arith.constant dense<5> : tile<8x8xi32>\n"
        "%r = nv_tileaa.dot %z, %z, %d {signedness_a = signed, signedness_b = signed} : "
        "tile<8x8xi8>, tile<8x8xi8>, tile<8x8xi32> -> tile<8x8xi32>" + used("%r : tile<8x8xi32>"),
        [],
    ),
    "a product of floats with zeros": (
        "%z = arith.constant dense<0.0> : tile<8x8xf32>\n"
        "%r = nv_tileaa.dot %z, %z, %z : "
        "tile<8x8xf32>, tile<8x8xf32>, tile<8x8xf32> -> tile<8x8xf32>" + used("%r : tile<8x8xf32>"),
        ["dot"],
    ),
    "an extent that the type states": (
        f"%m2 = nv_tileaa.make_memref %p : ({PTR}) -> !nv_tileaa.memref<8xf32, strides = [1], 1>\n"
        "%r = nv_tileaa.get_dim_size %m2 {axis = 0 : i32} : !nv_tileaa.memref<8xf32, strides = [1], 1> -> index"
        + used("%r : index"),
        [],
    ),
    "an extent that was given": (
        f"%m2 = nv_tileaa.make_memref %p, %x : ({PTR}, index) -> !nv_tileaa.memref<?xf32, strides = [1], 1>\n"
        "%r = nv_tileaa.get_dim_size %m2 {axis = 0 : i32} : !nv_tileaa.memref<?xf32, strides = [1], 1> -> index"
        + used("%r : index"),
        [],
    ),
}
MASKED = f"tile<8x{PTR}>, tile<8xi1>, tile<8xf32>, {TOKEN} -> tile<8xf32>, {TOKEN}"
STORE = f"tile<8x{PTR}>, tile<8xf32>, tile<8xi1>, {TOKEN} -> {TOKEN}"
START = f"%t = nv_tileaa.create_mem_token : {TOKEN}\n%f = arith.constant dense<2.0> : tile<8xf32>\n"
CAS = f"{IPTR}, i32, i32, {TOKEN} -> i32, {TOKEN}"
RMW = f"{IPTR}, i32, {TOKEN} -> i32, {TOKEN}"


def masked(value: str, op: str) -> str:
    return START + f"%k = arith.constant dense<{value}> : tile<8xi1>\n" + op


CASES |= {
    "a load of nothing": (
        masked("false", f"%r, %u = nv_tileaa.load %pp, %k, %f, %t : {MASKED}")
        + used("%r : tile<8xf32>", f"%u : {TOKEN}"),
        ["create_mem_token"],
    ),
    "a load of everything": (
        masked("true", f"%r, %u = nv_tileaa.load %pp, %k, %f, %t : {MASKED}")
        + used("%r : tile<8xf32>", f"%u : {TOKEN}"),
        ["create_mem_token", "load"],
    ),
    "a load of some": (
        START
        + f"%r, %u = nv_tileaa.load %pp, %m, %f, %t : {MASKED}"
        + used("%r : tile<8xf32>", f"%u : {TOKEN}"),
        ["create_mem_token", "load"],
    ),
    "a store of nothing": (
        masked("false", f"%u = nv_tileaa.store %pp, %f, %k, %t : {STORE}") + used(f"%u : {TOKEN}"),
        ["create_mem_token"],
    ),
    "a store of everything": (
        masked("true", f"%u = nv_tileaa.store %pp, %f, %k, %t : {STORE}") + used(f"%u : {TOKEN}"),
        ["create_mem_token", "store"],
    ),
    "a swap that changes nothing": (
        START + f"%r, %u = nv_tileaa.atomic_cas %ip, %n, %n, %t "
        f"{{mem_semantic = acquire, mem_scope = gpu}} : {CAS}" + used("%r : i32", f"%u : {TOKEN}"),
        ["create_mem_token", "load"],
    ),
    "a swap that releases": (
        START + f"%r, %u = nv_tileaa.atomic_cas %ip, %n, %n, %t "
        f"{{mem_semantic = acq_rel, mem_scope = gpu}} : {CAS}" + used("%r : i32", f"%u : {TOKEN}"),
        ["create_mem_token", "atomic_cas"],
    ),
    "adding nothing": (
        START + "%z = arith.constant 0 : i32\n%r, %u = nv_tileaa.atomic_rmw %ip, %z, %t "
        f"{{rmw_mode = add, mem_semantic = relaxed, mem_scope = gpu}} : {RMW}"
        + used("%r : i32", f"%u : {TOKEN}"),
        ["create_mem_token", "load"],
    ),
    "exchanging nothing": (
        START + "%z = arith.constant 0 : i32\n%r, %u = nv_tileaa.atomic_rmw %ip, %z, %t "
        f"{{rmw_mode = xchg, mem_semantic = relaxed, mem_scope = gpu}} : {RMW}"
        + used("%r : i32", f"%u : {TOKEN}"),
        ["create_mem_token", "atomic_rmw"],
    ),
    "a join of one": (
        START
        + f"%u = nv_tileaa.join_mem_token %t, %t : {TOKEN}, {TOKEN} -> {TOKEN}"
        + used(f"%u : {TOKEN}"),
        ["create_mem_token"],
    ),
}
F = "tile<4x8xf32>"
DOT = "tile<4x8xi8>, tile<8x4xi8>, tile<4x4xi32> -> tile<4x4xi32>"
QUEUE = f"!nv_tileaa.queue<i32, {T8}, f16>"
MAKE_QUEUE = f"%q3 = nv_tileaa.create_queue {{depth = 2}} : {QUEUE}\n"
PUT = f"nv_tileaa.queue.put %q3, %n, %b, %h : {QUEUE}, i32, {T8}, f16\n"
GET = f"%r, %s, %t = nv_tileaa.queue.get %q3 : {QUEUE} -> i32, {T8}, f16"


def product(c: str) -> str:
    return (
        "%u = arith.constant dense<-3> : tile<4x8xi8>\n%v = arith.constant dense<2> : tile<8x4xi8>\n"
        f"{c}%r = nv_tileaa.dot %u, %v, %w {{signedness_a = signed, signedness_b = signed}} : {DOT}"
        + used("%r : tile<4x4xi32>")
    )


CASES |= {
    "part of a sum": (
        f"%s = nv_tileaa.addf %a, %a : {F}\n"
        f"%r = nv_tileaa.extract_slice %s {{offsets = array<i64: 0, 4>}} : {F} -> tile<4x4xf32>"
        + used("%r : tile<4x4xf32>"),
        ["extract_slice", "addf"],
    ),
    "element of a comparison": (
        f"%s = nv_tileaa.splat %n : i32 -> {T8}\n%e = arith.cmpi slt, %b, %s : {T8}\n"
        "%r = nv_tileaa.extract %e[%x] : tile<8xi1>, index -> i1" + used("%r : i1"),
        ["extract", "arith.cmpi"],
    ),
    "element of a sum beside a scalar": (
        "%z = arith.sitofp %n : i32 to f32\n"
        f"%s = nv_tileaa.mulf %a, %z : {F}, f32 -> {F}\n"
        f"%r = nv_tileaa.extract %s[%x] : {F}, index -> tile<8xf32>" + used("%r : tile<8xf32>"),
        ["arith.sitofp", "extract", "mulf"],
    ),
    "part of a sum that is needed whole": (
        f"%s = nv_tileaa.addf %a, %a : {F}\n"
        f"%r = nv_tileaa.extract_slice %s {{offsets = array<i64: 0, 4>}} : {F} -> tile<4x4xf32>"
        + used("%r : tile<4x4xf32>", f"%s : {F}"),
        ["addf", "extract_slice"],
    ),
    "part of an approximation": (
        f"%s = nv_tileaa.exp2 %a : {F}\n"
        f"%r = nv_tileaa.extract %s[%x, %x] : {F}, index, index -> f32" + used("%r : f32"),
        ["exp2", "extract"],
    ),
    "part of what assembly computes": (
        '%s = nv_tileaa.elementwise_inline_asm %b {asm_string = "neg", constraints = "=r,r", '
        f"pure = false}} : {T8} -> {T8}\n"
        f"%r = nv_tileaa.extract %s[%x] : {T8}, index -> i32" + used("%r : i32"),
        ["elementwise_inline_asm", "extract"],
    ),
    "an element in a loop of a sum outside": (
        f"%s = arith.addi %b, %b : {T8}\n%i0 = arith.constant 0 : index\n"
        "%i1 = arith.constant 1 : index\n"
        "scf.for %i = %i0 to %x step %i1 {\n"
        f"%r = nv_tileaa.extract %s[%i] : {T8}, index -> i32" + used("%r : i32") + "\n}",
        ["arith.addi", "scf.for", "extract", "scf.yield"],
    ),
    "element of a constant": (
        f"%s = arith.constant dense<4> : {T8}\n"
        f"%r = nv_tileaa.extract %s[%x] : {T8}, index -> i32" + used("%r : i32"),
        [],
    ),
    "a product of constants": (
        product("%w = arith.constant dense<1> : tile<4x4xi32>\n"),
        [],
    ),
    "a product of constants and what is not known": (
        product("%w = nv_tileaa.splat %n : i32 -> tile<4x4xi32>\n"),
        ["splat", "dot"],
    ),
    "a pragma about more than is used": (
        f'%u:2 = nv_tileaa.pragma %n, %b {{directives = ["keep"]}} : i32, {T8}'
        + used(f"%u#1 : {T8}"),
        ["pragma"],
    ),
    "a pragma about nothing that is used": (
        f'%u:2 = nv_tileaa.pragma %n, %b {{directives = ["keep"]}} : i32, {T8}',
        [],
    ),
    "values that nothing takes from a queue": (
        "%v = arith.muli %n, %n : i32\n"
        + MAKE_QUEUE
        + PUT.replace("%n", "%v")
        + GET
        + used(f"%s : {T8}"),
        ["create_queue", "queue.put", "queue.get"],
    ),
    "a value that another consumer takes": (
        MAKE_QUEUE
        + PUT
        + GET
        + used(f"%s : {T8}")
        + f"\n%u, %v, %w = nv_tileaa.queue.get %q3 {{consumer_index = 1}} : {QUEUE} -> i32, {T8}, f16"
        + used("%u : i32"),
        ["create_queue", "queue.put", "queue.get", "queue.get"],
    ),
    "a result of a region on a queue that nothing uses": (
        MAKE_QUEUE
        + PUT
        + f"%r, %s = nv_tileaa.queue.get %q3 : {QUEUE} -> i32, {T8} {{\n"
        + f"^bb0(%u: i32, %v: !nv_tileaa.{T8}, %w: f16):\n"
        + "  %d = arith.muli %u, %u : i32\n"
        + f"  nv_tileaa.queue.yield %d, %v : i32, {T8}\n}}"
        + used(f"%s : {T8}"),
        ["create_queue", "queue.put", "queue.get", "queue.yield"],
    ),
    "a splat of a constant": (
        f"%k = arith.constant 7 : i32\n%r = nv_tileaa.splat %k : i32 -> {T8}" + used(f"%r : {T8}"),
        [],
    ),
    "a scalar with an axis": (
        "%r = nv_tileaa.expand_dims %n {axes = array<i64: 0>} : i32 -> tile<1xi32>"
        + used("%r : tile<1xi32>"),
        ["splat"],
    ),
}


def results_of(name: str, body: str) -> list[list[str]]:
    """The types that each operation of a name gives after the pass."""
    found = read(body, arguments=ARGUMENTS)
    TileAACanonicalize().apply_to(found.function.parent_op())  # pyright: ignore[reportArgumentType]
    verify(found.function.parent_op())  # pyright: ignore[reportArgumentType]
    return [
        [format_type(result.type) for result in op.results]
        for op in found.function.walk()
        if op.name == f"nv_tileaa.{name}"
    ]


def test_pragmas_and_queues_keep_what_is_used() -> None:
    assert results_of("pragma", CASES["a pragma about more than is used"][0]) == [[T8]]
    taken = CASES["values that nothing takes from a queue"][0]
    assert results_of("queue.get", taken) == [[T8]]
    shared = CASES["a value that another consumer takes"][0]
    assert results_of("queue.get", shared) == [["i32", T8]] * 2


@pytest.mark.parametrize(
    ("after", "kept"),
    [
        # Nothing of a tuple is used: one value stays, for which the consumer waits.
        ("", "i32"),
        # What code elsewhere does with the queue is not known.
        (f'\n%u = nv_tileaa.plugin %q3 {{code = "drain"}} : {QUEUE} -> i32', None),
    ],
)
def test_queues_that_keep_more(after: str, kept: str | None) -> None:
    wanted = [kept] if kept else ["i32", T8, "f16"]
    assert results_of("queue.get", MAKE_QUEUE + PUT + GET + after) == [wanted]


def test_queues_of_agents_carry_less() -> None:
    """A queue is followed into the agents; regions of put and get change with it."""
    put = f"nv_tileaa.queue.put %e : {QUEUE} {{\nnv_tileaa.queue.yield %m1, %m2, %m3 : i32, {T8}, f16\n}}"
    get = (
        f"%g, %gg = nv_tileaa.queue.get %e : {QUEUE} -> i32, f16 {{\n"
        f"^bb0(%g0: i32, %g1: {T8}, %g2: f16):\nnv_tileaa.queue.yield %g0, %g2 : i32, f16\n}}"
    )
    body = (
        MAKE_QUEUE
        + f"nv_tileaa.execute %q3, %n, %b, %h : {QUEUE}, i32, {T8}, f16 -> () {{\n"
        + f"^bb0(%e: {QUEUE}, %m1: i32, %m2: {T8}, %m3: f16):\n{put}\nnv_tileaa.yield\n}}\n"
        + f"%r = nv_tileaa.execute %q3 : {QUEUE} -> i32 {{\n"
        + f"^bb0(%e: {QUEUE}):\n{get}\nnv_tileaa.yield %g : i32\n}}"
        + used("%r : i32")
    )
    assert results_of("create_queue", body) == [["!nv_tileaa.queue<i32>"]]
    assert results_of("queue.get", body) == [["i32"]]


def test_constant_products_wrap() -> None:
    """-3 * 2, eight times, plus the accumulator."""
    low = "%w = arith.constant dense<-2147483648> : tile<4x4xi32>\n"
    for c, wanted in (("%w = arith.constant dense<1> : tile<4x4xi32>\n", -47), (low, 2**31 - 48)):
        found = read(product(c), arguments=ARGUMENTS)
        TileAACanonicalize().apply_to(found.function.parent_op())  # pyright: ignore[reportArgumentType]
        barrier = found.op("optimization_barrier")
        assert integer_of(barrier.operands[0]) == wanted


def test_every_rule_has_a_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that none of the cases needs is not tested, or can never match."""
    fired: set[Rule] = set()

    def watched(rule: Rule) -> Rule:
        def call(op: Any, rewriter: PatternRewriter) -> None:
            rule(op, rewriter)
            if rewriter.has_done_action:
                fired.add(rule)

        return call

    rules = {rule for group in canonicalize.RULES.values() for rule in group}
    spied = {kind: tuple(map(watched, group)) for kind, group in canonicalize.RULES.items()}
    monkeypatch.setattr(canonicalize, "RULES", spied)
    for body, _ in CASES.values():
        module = read(body, arguments=ARGUMENTS).function.parent_op()
        assert module is not None
        TileAACanonicalize().apply_to(module)
    assert {rule.__name__ for rule in rules - fired} == set()  # pyright: ignore[reportFunctionMemberAccess]


@pytest.mark.parametrize("name", CASES)
def test_fold(name: str) -> None:
    body, left = CASES[name]
    assert canonical(body) == left


def test_a_mask_that_is_true_is_gone() -> None:
    found = read(CASES["a load of everything"][0], arguments=ARGUMENTS)
    TileAACanonicalize().apply_to(found.function.parent_op())  # pyright: ignore[reportArgumentType]
    assert len(found.op("load").operands) == 2
