"""Whole programs: read, verified, printed in both forms, and read by upstream."""

from __future__ import annotations

import random

import pytest
from tests.dialects.nvgpu.programs import HOPPER, PROGRAMS
from tests.dialects.nvgpu.support import problems
from tests.oracles import requires_mlir_opt, upstream_texts

from tilewright.diagnostics import TileIRError
from tilewright.text import parse, print_text, same_module


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_is_legal(name: str) -> None:
    assert [d.brief() for d in problems(PROGRAMS[name])] == []
    parse(PROGRAMS[name]).verify()


@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program_survives_printing(name: str, generic: bool) -> None:
    module = parse(PROGRAMS[name])
    text = print_text(module, generic=generic)
    again = parse(text)
    assert same_module(module, again) is None
    # The generic form shows defaults that reading adds to operations of xDSL.
    settled = print_text(again, generic=generic)
    assert print_text(parse(settled), generic=generic) == settled
    assert generic or settled == text


@requires_mlir_opt
@pytest.mark.oracle
@pytest.mark.parametrize("name", PROGRAMS)
def test_upstream_reads_what_we_print(name: str) -> None:
    """The generic form of upstream's modules ends in an operation that ours need not have."""
    printed = print_text(parse(PROGRAMS[name]))
    assert upstream_texts("mlir-opt-19", [printed]) == upstream_texts(
        "mlir-opt-19", [PROGRAMS[name]]
    )


@requires_mlir_opt
@pytest.mark.oracle
@pytest.mark.parametrize("flag", [(), ("--mlir-print-op-generic",), ("--mlir-print-local-scope",)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_we_read_what_upstream_prints(name: str, flag: tuple[str, ...]) -> None:
    (printed,) = upstream_texts("mlir-opt-19", [PROGRAMS[name]], flags=flag)
    module = parse(printed)
    assert [d.brief() for d in problems(printed)] == []
    assert upstream_texts("mlir-opt-19", [print_text(module)]) == upstream_texts(
        "mlir-opt-19", [PROGRAMS[name]]
    )


def test_values_of_other_blocks_must_dominate() -> None:
    """A value of a block that may be jumped over cannot be used behind it."""
    found = problems(
        HOPPER.replace(
            "nvvm.cp.async.bulk.wait_group 0 {read}", "%x = arith.addi %tid, %da0 : index"
        ).replace("%da = ", "%da0 = arith.constant 7 : index\n      %da = ")
    )
    assert [d.code for d in found] == ["value-not-visible"]
    assert "in a block that does not dominate this use" in found[0].message
    (undefined,) = problems(
        HOPPER.replace("cf.br ^end\n    ^multiply", "cf.br ^nowhere\n    ^multiply")
    )
    assert undefined.code == "undefined-block"


def test_errors_are_found_at_once() -> None:
    """Mistakes in several operations of a kernel are all told in one run, in order."""
    text = (
        HOPPER.replace("init %bar[%c1], %c1", "init %bar[%c1], %one")
        .replace("decrease 40", "decrease 41")
        .replace("{transposeB, waitGroup", "{transposeA, waitGroup")
        .replace("arith.cmpi uge, %warp, %four", "arith.cmpi uge, %warp, %one")
    )
    try:
        found = list(problems(text))
    except TileIRError as error:
        found = list(error.diagnostics)
    assert [d.code for d in found] == ["value-type-mismatch", "value-type-mismatch"]
    mended = text.replace("init %bar[%c1], %one", "init %bar[%c1], %c1").replace(
        "uge, %warp, %one", "uge, %warp, %four"
    )
    assert [d.code for d in problems(mended)] == ["nvvm-register-count", "nvgpu-wgmma-transpose"]


@pytest.mark.parametrize("seed", range(60))
def test_mutilated_text_gives_diagnostics(seed: int) -> None:
    """Any text ends in diagnostics with places, never in another exception."""
    draw = random.Random(seed)
    text = draw.choice(list(PROGRAMS.values()))
    for _ in range(draw.randint(1, 4)):
        start = draw.randrange(len(text))
        end = min(len(text), start + draw.randint(0, 12))
        piece = draw.choice(["", " ", "<", ">", "{", "%c0", ":", "3", '"', "nvgpu.", "\n", ", "])
        text = text[:start] + piece + text[end:]
    for diagnostic in problems(text):
        assert diagnostic.message
        assert diagnostic.code
