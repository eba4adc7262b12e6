"""Every intrinsic that is known becomes the instruction of its name."""

from __future__ import annotations

import re

import pytest
from tests.gpu.kernels import kernel
from tests.gpu.support import ptx_of, requires_ptxas

from tilewright import gpu
from tilewright.diagnostics import TileIRError
from tilewright.dialects.upstream.llvm.intrinsics import INTRINSICS, Intrinsic

NAMES = list(INTRINSICS)
#: What PTX calls operations whose name is no part of that of their intrinsic.
_PTX = {"fmin": "min", "fmax": "max", "ceil": "cvt.rpi", "floor": "cvt.rmi", "trunc": "cvt.rzi"}
_PTX |= {"round": "cvt.rni", "saturate": "cvt.sat", "mulhi_s": "mul.hi", "mulhi_u": "mul.hi"}
_INTEGER = re.compile(r"[if]\d+$")


def shown(known: Intrinsic) -> str:
    """The instruction that an intrinsic must become."""
    operand, result = known.operands[0], known.result
    modes = [mode for mode, on in (("ftz", known.ftz), ("NaN", known.nan)) if on]
    if known.stem in ("f2s", "f2u"):
        letter = known.stem[2]
        parts = ["cvt", f"{known.rounding}i", *modes, f"{letter}{result[1:]}", operand]
    elif known.stem in ("s2f", "u2f"):
        parts = ["cvt", known.rounding, result, f"{known.stem[0]}{operand[1:]}"]
    elif known.stem == "f2f":
        parts = ["cvt", known.rounding, *modes, result, operand]
    elif known.stem in ("ceil", "floor", "trunc", "round"):
        parts = [_PTX[known.stem], *modes, result, operand]
    elif known.stem == "saturate":
        parts = ["cvt", *modes, "sat", result, operand]
    elif known.stem.startswith("mulhi"):
        parts = ["mul", "hi", f"{known.stem[-1]}{result[1:]}"]
    elif known.stem == "prmt":
        parts = ["prmt", "b32"]
    elif known.stem in ("fmin", "fmax"):
        parts = [_PTX[known.stem], *modes, result]
    else:
        parts = [known.stem, known.rounding, *modes, result]
    return ".".join(parts)


def call(name: str, width: int = 0) -> str:
    """A kernel around a call: of memory's numbers, or of vectors of so many."""
    known = INTRINSICS[name]
    types = [f"vector<{width}x{ty}>" if width else ty for ty in (*known.operands, known.result)]
    lines = [
        f"%x{place} = llvm.load volatile %p : !llvm.ptr<1> -> {ty}"
        for place, ty in enumerate(types[:-1])
    ]
    args = ", ".join(f"%x{place}" for place in range(len(types) - 1))
    lines.append(
        f'%y = llvm.call_intrinsic "{name}"({args}) : ({", ".join(types[:-1])}) -> {types[-1]}'
    )
    lines.append(f"llvm.store %y, %q : {types[-1]}, !llvm.ptr<1>")
    return kernel("%p: !llvm.ptr<1>, %q: !llvm.ptr<1>", "\n".join(lines))


@pytest.mark.parametrize("name", NAMES)
def test_it_becomes_the_instruction(name: str) -> None:
    wanted = shown(INTRINSICS[name])
    ptx = ptx_of(call(name), "sm_80")
    assert re.search(rf"\s{re.escape(wanted)}\s", ptx), ptx[ptx.index("{") :]


@pytest.mark.parametrize("name", NAMES[::7])
def test_vectors_go_by_element(name: str) -> None:
    ptx = ptx_of(call(name, 4), "sm_80")
    assert len(re.findall(rf"\s{re.escape(shown(INTRINSICS[name]))}\s", ptx)) == 4


@requires_ptxas
@pytest.mark.oracle
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
def test_all_assemble(arch: str) -> None:
    body = []
    for number, known in enumerate(INTRINSICS.values()):
        loads = [
            f"%x{number}_{place} = llvm.load volatile %p : !llvm.ptr<1> -> {ty}"
            for place, ty in enumerate(known.operands)
        ]
        args = ", ".join(f"%x{number}_{place}" for place in range(len(known.operands)))
        body += [
            *loads,
            f'%y{number} = llvm.call_intrinsic "llvm.nvvm.{known.name}"({args}) : '
            f"({', '.join(known.operands)}) -> {known.result}",
            f"llvm.store volatile %y{number}, %q : {known.result}, !llvm.ptr<1>",
        ]
    text = kernel("%p: !llvm.ptr<1>, %q: !llvm.ptr<1>", "\n".join(body))
    assert gpu.assemble(ptx_of(text, arch), arch).cubin


def test_others_are_refused() -> None:
    text = kernel("%x: f32", '%y = llvm.call_intrinsic "llvm.nvvm.odd.f"(%x) : (f32) -> f32')
    with pytest.raises(TileIRError, match=r"calls the intrinsic .*odd.*, which is not known"):
        ptx_of(text, "sm_90")
