"""Every rule rejects the program that breaks it, and accepts its nearest legal twin."""

from __future__ import annotations

import re

import pytest
from tests.nv_tileaa import (
    cases_extensions,
    cases_memory,
    cases_shapes,
    cases_structure,
    cases_values,
)
from tests.nv_tileaa.support import Case, case_name, parse
from xdsl.dialects.builtin import f32
from xdsl.utils.exceptions import VerifyException

from tilewright.analysis.verifier import find_problems
from tilewright.dialects.nv_tileaa import codes
from tilewright.dialects.nv_tileaa.base import OPERATIONS
from tilewright.dialects.nv_tileaa.examples import wrap
from tilewright.dialects.nv_tileaa.types import TileType

CASES = [
    *cases_values.CASES,
    *cases_shapes.CASES,
    *cases_memory.CASES,
    *cases_structure.CASES,
    *cases_extensions.CASES,
]


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_rule(case: Case) -> None:
    found = case.problems()
    assert [d.code for d in found] == [case.code], [d.brief() for d in found]
    assert case.says in found[0].message
    assert found[0].is_error
    assert [d.brief() for d in case.twin_problems()] == []


#: What the dialect says word for word, but for the values in the gaps.
VERBATIM = [
    "expected the element types of A, B, C, and D to be either all integers or all floats.",
    "expects #A and #B have same bit width but got {} vs {}",
    "expect signedness attribute for operand A",
    "expect signedness attribute for operand B",
    "expects #C element type to be f32, but got {}",
    "expects #C element type to be either f32 or f16, but got {}",
    "expects rank-2 or rank-3 tensor for result, but got ({})",
    "expects the shape of operand #A and #B to be compatible",
    "expects the shape of operand #C is compatible with operands #A and #B",
    "expects both SFA and SFB to be present",
    "mma block scale is not supported by compute capability < sm100",
    "expects non-empty tileSizes",
    "expects non-empty dimGroups",
    "expects rank of tileSizes be equal to rank of dimGroups, but got {} vs {}",
    "expects all tile size bigger than zero",
    "expects dim is being tiled only one time, but got {}",
    "expects filter size must be in range 1 to 3",
    "expects conv params size matched with each other",
    "expects channel must be a dimGroup",
    "expects channel dimGroup should contain only channel",
    "expects parent op 'nv_tileaa.func'",
    "non-weak memory ordering requires explicit scope",
    "weak memory ordering must not carry a scope",
    "loads accept only relaxed or acquire",
    "stores accept only relaxed or release",
    "fp_to_fp source element type is not supported",
    "fp_to_fp result element type is not supported",
    "fp_to_fp block-scaled format requires a target that supports block-scaled MMA",
    "expect operands with queue types",
    "div_by requires an integer-, pointer-, or memref-like value",
    "div_by divisor must be a positive power of two",
    "div_by every and along must appear together",
    "div_by every must be positive",
    "div_by along must reference a valid axis",
    "bounded requires an integer-like element type",
    "bounded lower exceeds the element's representable range",
    "bounded upper exceeds the element's representable range",
    "bounded lower must not exceed upper",
    "same_elements length must match the constrained value's rank",
    "same_elements axis bound is out of range",
]


def test_texts_are_verbatim() -> None:
    """Each of these is the whole message of a case; what was found stands beside the place."""
    patterns = {text: re.escape(text).replace(r"\{\}", r"[\w-]+") for text in VERBATIM}
    messages = {case.problems()[0].message for case in CASES}
    for text, pattern in patterns.items():
        begun = [m for m in messages if re.match(pattern, m)]
        assert begun, text
        assert all(re.fullmatch(pattern, message) for message in begun), begun


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_stock_verifier_agrees(case: Case) -> None:
    """xDSL's own verifier refuses the same programs, save for rules that only ours has."""
    from xdsl.utils.exceptions import VerifyException

    if case.code == "duplicate-symbol":
        return
    parse(wrap(case.good, case.good_capability or case.capability, case.extra)).verify()
    with pytest.raises(VerifyException):
        parse(wrap(case.bad, case.capability, case.extra)).verify()


@pytest.mark.parametrize(("bad", "says", "good"), cases_values.SCALES)
def test_scale_factors(bad: str, says: str, good: str) -> None:
    found = find_problems(parse(bad))
    assert {d.code for d in found} == {"aa-dot-scales"}
    assert says in found[0].message
    assert "'sfb'" in found[1].message
    assert find_problems(parse(good)) == []


def test_tl_blk_atomics_warn() -> None:
    text = (
        "%v = nv_tileaa.atomic_rmw %pi, %n "
        "{{rmw_mode = add, mem_semantic = relaxed, mem_scope = {}}} "
        ": !nv_tileaa.ptr<i32, 1>, i32 -> i32"
    )
    (found,) = find_problems(parse(wrap(text.format("tl_blk"))))
    assert found.code == "aa-memory-order"
    assert not found.is_error
    assert find_problems(parse(wrap(text.format("cluster")))) == []


def test_tokens_must_dominate() -> None:
    """A load whose token is produced behind it is refused."""
    load = "%{}, %{} = nv_tileaa.load %pi, %{} : !nv_tileaa.ptr<i32, 1>, !nv_tileaa.mem_token -> i32, !nv_tileaa.mem_token"
    first, second = load.format("v", "t1", "t"), load.format("w", "t2", "t1")
    assert find_problems(parse(wrap(f"{first}\n{second}"))) == []
    found = find_problems(parse(wrap(f"{second}\n{first}")))
    assert [d.code for d in found] == ["use-before-definition"]
    assert "('token')" in found[0].message


@pytest.mark.parametrize(
    ("region", "wanted"),
    [
        ("nv_tileaa.execute : () -> () {{\n{}\n}}", "nv_tileaa.yield"),
        (
            "nv_tileaa.queue.put %q : !nv_tileaa.queue<tile<8xf32>, i32> {{\n{}\n}}",
            "nv_tileaa.queue.yield",
        ),
    ],
)
def test_regions_end_in_their_terminator(region: str, wanted: str) -> None:
    """The region and the terminator are both told; the foreign one may object itself."""
    found = find_problems(parse(wrap(region.format("nv_tileaa.return"))))
    assert {d.code for d in found} == {"aa-terminator"}
    assert f"expects regions to end with '{wanted}'" in [d.message for d in found]


def test_functions_end_in_return() -> None:
    """Text completes a function without terminator, so the generic form is needed."""
    text = (
        'module {{\n"nv_tileaa.func"() <{{sym_name = "k", function_type = () -> ()}}> ({{\n'
        '"nv_tileaa.{}"() : () -> ()\n}}) : () -> ()\n}}'
    )
    assert find_problems(parse(text.format("return"))) == []
    found = find_problems(parse(text.format("yield")))
    assert "expects regions to end with 'nv_tileaa.return'" in [d.message for d in found]


@pytest.mark.parametrize(
    "sizes", ["1, 0, 1", "1, 0, 1, 1, 1", "1, 0, 2, 0", "2, 0, 0, 0", "1, 0, 0, 0"]
)
def test_segments_must_divide_the_operands(sizes: str) -> None:
    """The generic form shows them: as many as there are groups, not counting the token."""
    load = (
        '%v, %u = "nv_tileaa.load"(%ps, %mask, %f, %t) '
        "<{{operandSegmentSizes = array<i32: {}>}}> : (!nv_tileaa.tile<8x!nv_tileaa.ptr<f32, 1>>, "
        "!nv_tileaa.tile<8xi1>, !nv_tileaa.tile<8xf32>, !nv_tileaa.mem_token) "
        "-> (!nv_tileaa.tile<8xf32>, !nv_tileaa.mem_token)"
    )
    assert find_problems(parse(wrap(load.format("1, 0, 1, 1")))) == []
    found = find_problems(parse(wrap(load.format(sizes))))
    assert [d.code for d in found] == ["operand-segments"]


def test_target_spec_decides_over_capability() -> None:
    """Features, where given, say more than the number."""
    body = "nv_tileaa.func @f(%x: f32) {\n%h = nv_tileaa.fp_to_fp %x : f32 -> f8E8M0FNU\nnv_tileaa.return\n}"
    for features, expected in (("[block_scale_mma, tma]", []), ("[tma]", ["aa-target"])):
        spec = f'#nv_tileaa.target_spec<arch = "sm_100a", capability = 100, features = {features}>'
        module = f"module attributes {{nv_tileaa.target_spec = {spec}}} {{\n{body}\n}}"
        assert [d.code for d in find_problems(parse(module))] == expected
    assert [d.code for d in find_problems(parse(f"module {{\n{body}\n}}"))] == ["aa-target"]
    old = 'module attributes {"compute-capability" = 100 : i32} {\n' + body + "\n}"
    assert find_problems(parse(old)) == []


def test_every_rule_has_a_case() -> None:
    """Each code of the dialect is met by a case; parsing has tests of its own."""
    codes_met = {case.code for case in CASES} | {"aa-operand-groups", "aa-dot-scales"}
    defined = {value for name, value in vars(codes).items() if name.isupper()}
    assert defined - codes_met == set()


def test_every_operation_has_a_case() -> None:
    assert {case.op for case in CASES} == set(OPERATIONS)


def test_a_scalar_is_no_tile_without_axes() -> None:
    assert TileType([1], f32).dims == (1,)
    with pytest.raises(VerifyException, match="at least one dimension; scalars are bare"):
        TileType([], f32)
