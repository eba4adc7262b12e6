"""Upstream's tools judge as we do, and read what we print; the exceptions are all listed here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import pytest
from tests.dialects.nvgpu import cases, cases_around
from tests.dialects.nvgpu.generate import FAMILIES
from tests.dialects.nvgpu.support import print_again, problems, program
from tests.oracles import (
    requires_iree_opt,
    requires_mlir_opt,
    upstream_errors,
    upstream_texts,
)

from tilewright.dialects.nvgpu.base import OPERATIONS
from tilewright.dialects.nvgpu.examples import wrap

pytestmark = pytest.mark.oracle

TOOLS = [
    pytest.param("mlir-opt-19", marks=requires_mlir_opt, id="llvm19"),
    pytest.param("iree-opt", marks=requires_iree_opt, id="iree3.0"),
]


@dataclass(frozen=True)
class Difference:
    """Why only one side refuses a program: a pattern of its message."""

    why: str
    message: str


STRICTER = [
    Difference("no instruction has the shape", "expected mmaShape to be one of"),
    Difference("no instruction has the accumulator", "expected 'matrixC' to have elements of"),
    Difference("ldmatrix loads 1, 2 or 4 matrices", "expected numTiles to be 1, 2 or 4"),
    Difference("an index for each dimension", "expected 2 indices of 'srcMemref'"),
    Difference(
        "fragments are matrices", r"expected 'matrix\w' to have the shape .*'vector<\d+x\d+x\d+x"
    ),
    Difference("fragments have a fixed length", r"to have the shape 4x2.*'vector<\[4\]x2x"),
    Difference("the box has as many extents as the map", "expected 2 of 'boxDimensions'"),
    Difference("numbers of groups are not negative", "expected a number of (groups|products)"),
    Difference(
        "instructions have 64 rows", "expected the rows of the accumulator to be a multiple"
    ),
    Difference(
        "no product of bf16 has accumulators of f16",
        "there is no product of 'bf16' and 'bf16' with accumulators of 'f16'",
    ),
    Difference(
        "no instruction accumulates in bf16", "expected accumulators of f16, f32 or i32, got .*bf16"
    ),
    Difference("a product has the type of C", "expected 'res' to have elements of"),
    Difference("descriptors are of shared memory", "expected 'tensor' to lie in shared"),
    Difference("the map is of the matrix's elements", "expected 'tensor' to have the element"),
    Difference("the matrix is of known extent", "expected 'tensor' to have static extents"),
    Difference("a descriptor describes its matrix", "expected a descriptor of"),
    Difference("flags of integers, which are ours", "expected operands of integers where"),
    Difference("there is a barrier at least", "num_barriers must be at least 1"),
    Difference("memory has the elements of the accumulator", "expected 'dstMemref' to have the el"),
]
LOOSER = [
    Difference("products of a warp take two kinds of f8", "matrixA and matrixB have same element"),
    Difference("products of fp8 have accumulators of f16", r"limitation: 'f16' \+= 'f8E"),
    Difference("products of i8 have accumulators of i32", r"'i32' \+= 'i8' \* 'i8', it is not"),
    Difference("products of i1 have accumulators of i32", r"limitation: 'i32' \+= 'i1' \* 'i1'"),
    Difference("accumulators of f16 and i32 can be stored", "only f32 results for the time being"),
    Difference("there are accumulators of i32", "xi32>'. It does not fit into warp-group level"),
    Difference(
        "rows of a box fill their swizzle", "last dimension of 128 bytes but it is (64|32) bytes"
    ),
]
#: Operations that are younger than a tool.
UNKNOWN_TO = {
    "mlir-opt-19": ("rcp", "mbarrier.get", "tma.fence.descriptor"),
    "iree-opt": ("mbarrier.get", "tma.fence.descriptor"),
}


#: Properties that upstream drops where it reads the generic form.
OUR_FLAGS = ("wraps", "unsignedA", "unsignedB")
#: Operations around nvgpu that upstream does not have.
OURS_ALONE = ("nvvm.wgmma.product",)


@dataclass(frozen=True)
class Verdict:
    """What we and a tool find wrong with a program."""

    text: str
    ours: tuple[str, ...]
    theirs: tuple[str, ...]

    def differences(self) -> list[Difference] | None:
        """The listed differences that explain why only one refuses the program; None where none
        of them does."""
        if bool(self.ours) == bool(self.theirs):
            return []
        listed = STRICTER if self.ours else LOOSER
        found: list[Difference] = []
        for message in self.ours or self.theirs:
            fitting = [d for d in listed if re.search(d.message, message)]
            if not fitting:
                return None
            found += fitting
        return found

    def __str__(self) -> str:
        return f"{self.text.splitlines()[-4].strip()}\n  ours: {self.ours}\n  theirs: {self.theirs}"


@cache
def _ours(text: str) -> tuple[str, ...]:
    return tuple(d.message for d in problems(text) if d.is_error)


@cache
def verdicts(family: str, tool: str) -> list[Verdict]:
    """On every program of a family that the tool knows the operations of."""
    texts = [program(body, extra) for body, extra in FAMILIES[family]()]
    errors = upstream_errors(tool, texts)
    return [Verdict(t, _ours(t), tuple(e)) for t, e in zip(texts, errors, strict=True)]


#: Upstream reads three extents without counting them.
CRASHES = "mmaShape = [16, 8]}"


def _families(tool: str) -> list[str]:
    return [f for f in FAMILIES if f != "reciprocals" or "rcp" not in UNKNOWN_TO[tool]]


def _rules(tool: str) -> list[Verdict]:
    """On the bad and the good program of every rule."""
    texts = [
        program(body, extra)
        for case in cases.CASES
        if case.op not in UNKNOWN_TO[tool] and CRASHES not in case.bad
        for body, extra in (
            (case.bad, case.extra),
            (case.good, case.extra if case.good_extra is None else case.good_extra),
        )
    ]
    errors = upstream_errors(tool, texts)
    return [Verdict(t, _ours(t), tuple(e)) for t, e in zip(texts, errors, strict=True)]


def _unexplained(found: list[Verdict]) -> str:
    wrong = [str(verdict) for verdict in found if verdict.differences() is None]
    return "\n".join([*wrong[:5], f"{len(wrong)} of {len(found)} differ"]) if wrong else ""


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("family", FAMILIES)
def test_same_verdict(family: str, tool: str) -> None:
    if family not in _families(tool):
        pytest.skip(f"{tool} does not know the operation")
    found = verdicts(family, tool)
    assert len({bool(v.theirs) for v in found}) == 2
    assert not (wrong := _unexplained(found)), wrong


@pytest.mark.parametrize("tool", TOOLS)
def test_same_verdict_on_rules(tool: str) -> None:
    assert not (wrong := _unexplained(_rules(tool))), wrong


@requires_mlir_opt
def test_same_verdict_around() -> None:
    """The bad and the good program of every rule of the dialects around."""
    texts = [
        wrap(body, extra)
        for case in cases_around.CASES
        if case.op not in OURS_ALONE
        for body, extra in (
            (case.bad, case.extra),
            (case.good, case.extra if case.good_extra is None else case.good_extra),
        )
    ]
    errors = upstream_errors("mlir-opt-19", texts)
    found = [Verdict(t, _ours(t), tuple(e)) for t, e in zip(texts, errors, strict=True)]
    assert not (wrong := _unexplained(found)), wrong


@pytest.mark.parametrize("tool", TOOLS)
def test_every_difference_is_met(tool: str) -> None:
    """A listed difference that no program shows is none."""
    found = [v for family in _families(tool) for v in verdicts(family, tool)] + _rules(tool)
    met = {d.why for verdict in found for d in verdict.differences() or ()}
    assert met == {d.why for d in (*STRICTER, *LOOSER)}


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
def test_reads_what_we_print(tool: str, generic: bool) -> None:
    """Of every legal program: upstream prints ours as it prints its source."""
    found = [v for family in _families(tool) for v in verdicts(family, tool)] + _rules(tool)
    legal = [v.text for v in found if not v.ours and not v.theirs]
    legal = [text for text in legal if not any(flag in text for flag in OUR_FLAGS)]
    legal += [
        wrap(example)
        for name, op in OPERATIONS.items()
        if name not in UNKNOWN_TO[tool]
        for example in op.EXAMPLES
    ]
    assert len(legal) > 400
    ours = [print_again(text, generic) for text in legal]
    # Upstream takes the name of a next result for a token of create_group; we print `{}` there.
    theirs = [text.replace("create_group\n", "create_group {}\n") for text in legal]
    assert upstream_texts(tool, ours) == upstream_texts(tool, theirs)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("name", sorted({n for names in UNKNOWN_TO.values() for n in names}))
def test_younger_operations_are_unknown(name: str, tool: str) -> None:
    """An operation that a tool comes to know must join the comparison."""
    text = wrap(OPERATIONS[name].EXAMPLES[0])
    (errors,) = upstream_errors(tool, [text])
    unknown = [f"custom op 'nvgpu.{name}' is unknown"] if name in UNKNOWN_TO[tool] else []
    assert errors == unknown
