"""Accesses whose addresses and masks are formulas in the lane: wrapping numbers, edges, limits, both extensions."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.differential import agree
from tests.machine.tileaa.support import element

_MEMORY = 1 << 16
_DTYPES = (np.float32, np.float64, np.int8, np.float16, np.bool_)
_LIMITS = (0, 3, 40, 255, -5, 32767, -32768, -32760, 32765, 1 << 14)
_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "uge")
_NEAR = (0, 1, 255, 32767, -32768, -1, 200, -300)


def _body(rng: random.Random, dtype: Any, rows: int, columns: int, *, store: bool) -> str:
    """One access to 65536 elements, by a sum in i16 that may wrap or by rows and columns under a mask."""
    kind, shape = element(np.zeros(1, dtype)), f"{rows}x{columns}"
    one, narrow, wide = f"tile<{rows}x1xi16>", f"tile<{shape}xi16>", f"tile<{shape}xi64>"
    extend = rng.choice(("extsi", "extui"))
    plus, step = (rng.choice(("addi", "subi")) for _ in range(2))
    apart, width = rng.choice((1, 1, 2, 3)), rng.choice((3, 200, 256))
    pointers = f"tile<{shape}x!nv_tileaa.ptr<{kind}, 1>>"
    lines = [
        "%b0 = nv_tileaa.load %ptr_first : !nv_tileaa.ptr<i16, 1> -> i16",
        "%b1 = nv_tileaa.load %ptr_second : !nv_tileaa.ptr<i16, 1> -> i16",
        f"%r0 = nv_tileaa.make_range {{start = 0, end = {rows}}} : tile<{rows}xi16>",
        f"%r1 = nv_tileaa.expand_dims %r0 {{axes = array<i64: 1>}} : tile<{rows}xi16> -> {one}",
        f"%c0 = nv_tileaa.make_range {{start = 0, end = {columns}}} : tile<{columns}xi16>",
        f"%c1 = nv_tileaa.expand_dims %c0 {{axes = array<i64: 0>}} : tile<{columns}xi16> -> tile<1x{columns}xi16>",
        f"%rb = nv_tileaa.splat %b0 : i16 -> {one}",
        f"%cb = nv_tileaa.splat %b1 : i16 -> tile<1x{columns}xi16>",
        f"%rows = arith.{plus} %rb, %r1 : {one}",
        f"%columns = arith.{step} %c1, %cb : tile<1x{columns}xi16>",
        f"%rs0 = nv_tileaa.broadcast %rows : {one} -> {narrow}",
        f"%cs0 = nv_tileaa.broadcast %columns : tile<1x{columns}xi16> -> {narrow}",
        *_limited(rng, "%rs0", "%rs", narrow),
        *_limited(rng, "%cs0", "%cs", narrow),
        f"%re = arith.{extend} %rs : {narrow} to {wide}",
        f"%ce = arith.{extend} %cs : {narrow} to {wide}",
        f"%h = arith.constant dense<{rng.choice((1, 100, 256))}> : {wide}",
        f"%w = arith.constant dense<{width}> : {wide}",
        f"%inside_rows = arith.cmpi ult, %re, %h : {wide}",
        f"%inside_columns = arith.cmpi {rng.choice(('ult', 'ule'))}, %ce, %w : {wide}",
        f"%on = arith.andi %inside_rows, %inside_columns : tile<{shape}xi1>",
    ]
    if rng.random() < 0.5:
        lines += [
            f"%by = arith.constant dense<{rng.choice((8, 1))}> : {narrow}",
            f"%scaled = arith.shli %rs, %by : {narrow}",
            f"%apart = arith.constant dense<{apart}> : {narrow}",
            f"%spread = arith.muli %cs, %apart : {narrow}",
            f"%sum0 = arith.{rng.choice(('addi', 'subi'))} %scaled, %spread : {narrow}",
            *_limited(rng, "%sum0", "%sum", narrow),
            f"%at = arith.{extend} %sum : {narrow} to {wide}",
            f"%middle = arith.constant {_MEMORY // 2 if extend == 'extsi' else 0} : i64",
        ]
        masks = ("", "%on", "%some", "%below")
        compared = rng.choice(("slt", "sge", "ugt", "sle"))
        lines.append(f"%limit = arith.constant dense<{rng.choice((30000, 0, -5))}> : {narrow}")
        lines.append(f"%below = arith.cmpi {compared}, %sum, %limit : {narrow}")
    else:
        lines += [
            f"%stride = arith.constant dense<255> : {wide}",
            f"%moved = arith.muli %re, %stride : {wide}",
            f"%apart = arith.constant dense<{apart if apart * width <= 500 else 1}> : {wide}",
            f"%spread = arith.muli %ce, %apart : {wide}",
            f"%at = arith.addi %moved, %spread : {wide}",
            "%middle = arith.constant 0 : i64",
            f"%both = arith.andi %some, %on : tile<{shape}xi1>",
        ]
        masks = ("%on", "%both")
    lines += [
        f"%p = nv_tileaa.addptr %ptr_memory, %middle : !nv_tileaa.ptr<{kind}, 1>, i64 -> !nv_tileaa.ptr<{kind}, 1>",
        f"%ps = nv_tileaa.splat %p : !nv_tileaa.ptr<{kind}, 1> -> {pointers}",
        f"%there = nv_tileaa.addptr %ps, %at : {pointers}, {wide} -> {pointers}",
    ]
    mask = rng.choice(masks)
    if store:
        return "\n".join([*lines, _store(mask, pointers, f"tile<{shape}x{kind}>", shape)])
    return "\n".join([*lines, _load(mask, pointers, f"tile<{shape}x{kind}>", shape)])


def _limited(rng: random.Random, source: str, result: str, ty: str) -> list[str]:
    """The numbers between two limits, or without one, which leaves them as they are; wrapped, or one of two."""
    lines, held = list[str](), source
    for number, name in enumerate(rng.sample(("maxsi", "minsi", "maxui", "minui"), 2)):
        limit, found = rng.choice(_LIMITS), f"{result}_{number}"
        if rng.random() < 0.6:
            lines.append(f"{found}l = arith.constant dense<{limit}> : {ty}")
            both = [held, f"{found}l"]
            rng.shuffle(both)
            lines.append(f"{found} = arith.{name} {', '.join(both)} : {ty}")
            held = found
    more, held = rng.choice((_kept, _kept, _wrapped, _chosen))(rng, held, result, ty)
    lines += more
    lines.append(f"{result}_0l_ = arith.constant dense<0> : {ty}")
    lines.append(f"{result} = arith.addi {held}, {result}_0l_ : {ty}")
    return lines


def _kept(rng: random.Random, held: str, result: str, ty: str) -> tuple[list[str], str]:
    return [], held


def _wrapped(rng: random.Random, held: str, result: str, ty: str) -> tuple[list[str], str]:
    """What a quotient leaves, or the quotient itself."""
    by = rng.choice((64, 70, 255, 1000, 32767))
    lines = [
        f"{result}_by = arith.constant dense<{by}> : {ty}",
        f"{result}_q = arith.{rng.choice(('floordivsi', 'divui'))} {held}, {result}_by : {ty}",
        f"{result}_m = arith.muli {result}_q, {result}_by : {ty}",
        f"{result}_r = arith.subi {held}, {result}_m : {ty}",
    ]
    return lines, result + rng.choice(("_r", "_r", "_q"))


def _chosen(rng: random.Random, held: str, result: str, ty: str) -> tuple[list[str], str]:
    """A number where a comparison holds, and another one elsewhere: near, or always the same."""
    flags = ty.replace("i16", "i1")
    lines = [
        f"{result}_c = arith.constant dense<{rng.choice(_LIMITS)}> : {ty}",
        f"{result}_k = arith.constant dense<{rng.choice((1, 60, 200))}> : {ty}",
        f"{result}_n = arith.{rng.choice(('addi', 'subi'))} {held}, {result}_k : {ty}",
        f"{result}_if = arith.cmpi {rng.choice(_PREDICATES)}, {held}, {result}_c : {ty}",
    ]
    sides = [held, result + rng.choice(("_k", "_n"))]
    rng.shuffle(sides)
    choice = f"arith.select {result}_if, {', '.join(sides)} : {flags}, {ty}"
    return [*lines, f"{result}_s = {choice}"], f"{result}_s"


def _load(mask: str, pointers: str, ty: str, shape: str) -> str:
    if not mask:
        return f"%out = nv_tileaa.load %there : {pointers} -> {ty}"
    return (
        f"%out = nv_tileaa.load %there, {mask}, %other : {pointers}, tile<{shape}xi1>, {ty} -> {ty}"
    )


def _store(mask: str, pointers: str, ty: str, shape: str) -> str:
    on, kind = (f", {mask}", f", tile<{shape}xi1>") if mask else ("", "")
    return f"nv_tileaa.store %there, %other{on} : {pointers}, {ty}{kind} -> ()"


def _numbers(dtype: Any, *dims: int, seed: int) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(dims) * 50).astype(dtype)


def check_seed(seed: int) -> None:
    rng = random.Random(seed)
    dtype = rng.choice(_DTYPES)
    rows, columns = rng.choice((1, 2, 8)), rng.choice((1, 4, 32, 64))
    store = rng.random() < 0.5
    body = _body(rng, dtype, rows, columns, store=store)
    first, second = (
        np.full(1, rng.choice(_NEAR) + rng.randrange(-9, 9) & 0xFFFF, np.uint16) for _ in range(2)
    )
    inputs = {
        "first": first.view(np.int16),
        "second": second.view(np.int16),
        "some": np.random.default_rng(seed).random((rows, columns)) < 0.6,
        "other": _numbers(dtype, rows, columns, seed=seed),
        "memory": _numbers(dtype, _MEMORY, seed=seed + 1),
    }
    # The body loads these two itself, as scalars.
    results = {} if store else {"out": np.zeros((rows, columns), dtype)}
    agree(body, inputs, results, case=(seed,))


@pytest.mark.rotates(3)
@pytest.mark.parametrize("seed", range(30))
def test_results_are_those_of_the_reference(seed: int) -> None:
    check_seed(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1300))
def test_many_results_are_those_of_the_reference(seed: int) -> None:
    check_seed(seed)
