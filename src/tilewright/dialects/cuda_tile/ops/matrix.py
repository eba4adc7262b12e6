"""Matrix products: rank 2, or rank 3 with a batch dimension in front."""

from __future__ import annotations

from typing import ClassVar

from xdsl.irdl import operand_def, opt_prop_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from tilewright.diagnostics import define_code
from tilewright.dialects.cuda_tile import constraints as K
from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.base import TileOp, tile_op, tile_types
from tilewright.dialects.cuda_tile.directives import syntax
from tilewright.dialects.cuda_tile.enums import SignednessAttr
from tilewright.dialects.declare import (
    Report,
    examples,
    same_element_type,
    same_rank,
    same_type,
    type_of,
)
from tilewright.dialects.syntax.directives import (
    EnumKeyword,
    Flag,
)
from tilewright.dialects.versions import V13_3

MATRIX_SHAPE = define_code(
    "matrix-shape",
    "The tiles of a matrix product must be MxK, KxN and MxN, or BxMxK, BxKxN and BxMxN.",
)
MATRIX_TYPES = define_code(
    "matrix-element-types",
    "The element types of the operands and of the accumulator do not combine.",
    "f8E4M3FN, f8E5M2 and f16 accumulate in f16 or f32; bf16, tf32 and f32 in f32; f64 in f64. "
    "Scaled products take f8 operands with f8E8M0FNU scales in blocks of 32, and f4E2M1FN "
    "operands with f8E8M0FNU or f8E5M3FNU scales in blocks of 16 or 32, or with f8E4M3FN scales "
    "in blocks of 16.",
)

#: Accumulator element types by operand element type.
ACCUMULATORS: dict[str, tuple[str, ...]] = {
    "f8E4M3FN": ("f16", "f32"),
    "f8E5M2": ("f16", "f32"),
    "f16": ("f16", "f32"),
    "bf16": ("f32",),
    "tf32": ("f32",),
    "f32": ("f32",),
    "f64": ("f64",),
}

#: Block sizes along K by operand and scale element type.
SCALE_BLOCKS: dict[tuple[str, str], tuple[int, ...]] = {
    ("f8E4M3FN", "f8E8M0FNU"): (32,),
    ("f8E5M2", "f8E8M0FNU"): (32,),
    ("f4E2M1FN", "f8E8M0FNU"): (16, 32),
    ("f4E2M1FN", "f8E4M3FN"): (16,),
    ("f4E2M1FN", "f8E5M3FNU"): (16, 32),
}

HEAD = syntax("$lhs, $rhs, $acc")
TYPES = syntax("attr-dict : type($lhs), type($rhs), type($acc)")


def check_matrix_shapes(report: Report, lhs: T.TileType, rhs: T.TileType, acc: T.TileType) -> bool:
    """Report the first extent that does not fit (m, k) x (k, n) -> (m, n), or these with a batch in front; returns
    whether all do.
    """
    if lhs.rank not in (2, 3):
        report.error(
            MATRIX_SHAPE, f"operands must be 2D or 3D tiles, got rank {lhs.rank}", type_of("lhs")
        )
        return False
    a, b, c = lhs.dims, rhs.dims, acc.dims
    pairs = [
        ("rhs", -1, "lhs", -1, b[-2], a[-1], "K"),
        ("acc", -2, "lhs", -2, c[-2], a[-2], "M"),
        ("acc", -1, "rhs", -1, c[-1], b[-1], "N"),
    ]
    if lhs.rank == 3:
        pairs += [
            ("rhs", 0, "lhs", 0, b[0], a[0], "batch"),
            ("acc", 0, "lhs", 0, c[0], a[0], "batch"),
        ]
    for group, _, other, _, found, expected, name in pairs:
        if found != expected:
            report.error(
                MATRIX_SHAPE,
                f"shape error: dim {name} of {group} is {found}, expected {expected} as in {other}",
                type_of(group),
            )
            return False
    return True


@tile_op("mmaf", opcode=0x49, group="floating_point")
class MmaFOp(TileOp):
    """lhs x rhs + acc: result[i, j] = acc[i, j] + sum over k of lhs[i, k] * rhs[k, j].

    The order and precision of the sum are not fixed. ``fast_acc`` allows a narrower accumulator.
    """

    lhs = operand_def(K.MMAF_OPERAND_TILE)
    rhs = operand_def(K.MMAF_OPERAND_TILE)
    acc = operand_def(K.MMAF_ACC_TILE)
    fast_acc = opt_prop_def(K.UNIT)
    result = result_def(K.MMAF_ACC_TILE)
    traits = traits_def(Pure())
    SINCE_OF: ClassVar = {"fast_acc": V13_3}
    RELATIONS: ClassVar = (
        same_type("acc", "result"),
        same_element_type("lhs", "rhs"),
        same_rank("lhs", "rhs", "acc"),
    )
    SYNTAX: ClassVar = (*HEAD, Flag("fast_acc"), *TYPES)
    INFER: ClassVar = {"result": "acc"}
    EXAMPLES: ClassVar = examples(
        """
        %a = constant <f16: 1.0> : tile<16x32xf16>
        %b = constant <f16: 2.0> : tile<32x8xf16>
        %acc = constant <f32: 0.0> : tile<16x8xf32>
        %c = mmaf %a, %b, %acc : tile<16x32xf16>, tile<32x8xf16>, tile<16x8xf32>  // all 64.0
        """,
        """
        %a = constant <f8E4M3FN: 1.0> : tile<2x16x32xf8E4M3FN>
        %b = constant <f8E4M3FN: 2.0> : tile<2x32x16xf8E4M3FN>
        %acc = constant <f32: 0.0> : tile<2x16x16xf32>
        %c = mmaf %a, %b, %acc fast_acc
          : tile<2x16x32xf8E4M3FN>, tile<2x32x16xf8E4M3FN>, tile<2x16x16xf32>
        """,
    )

    def check(self, report: Report) -> None:
        types = tile_types(self.lhs, self.rhs, self.acc)
        if types is None or len({ty.rank for ty in types}) != 1:
            return
        lhs, _, acc = types
        if not check_matrix_shapes(report, *types):
            return
        allowed = ACCUMULATORS.get(lhs.element)
        if allowed is not None and acc.element not in allowed:
            report.error(
                MATRIX_TYPES,
                f"unsupported combination of element types: {lhs.element} operands accumulate in "
                f"{' or '.join(allowed)}, got {acc.element}",
                type_of("acc"),
            )


@tile_op("mmai", opcode=0x4A, group="integer")
class MmaIOp(TileOp):
    """lhs x rhs + acc of 8-bit integers, modulo 2**32; each operand is signed or unsigned."""

    lhs = operand_def(K.I8_TILE)
    rhs = operand_def(K.I8_TILE)
    acc = operand_def(K.I32_TILE)
    signedness_lhs = prop_def(K.enum_field(SignednessAttr))
    signedness_rhs = prop_def(K.enum_field(SignednessAttr))
    result = result_def(K.I32_TILE)
    traits = traits_def(Pure())
    RELATIONS: ClassVar = (same_type("acc", "result"), same_rank("lhs", "rhs", "acc"))
    SYNTAX: ClassVar = (
        *HEAD,
        EnumKeyword("signedness_lhs", SignednessAttr, what="signedness"),
        EnumKeyword("signedness_rhs", SignednessAttr, what="signedness"),
        *TYPES,
    )
    INFER: ClassVar = {"result": "acc"}
    EXAMPLES: ClassVar = examples(
        """
        %a = constant <i8: -1> : tile<16x32xi8>
        %b = constant <i8: -1> : tile<32x16xi8>
        %acc = constant <i32: 0> : tile<16x16xi32>
        // -1 is 255 when read unsigned.
        %c = mmai %a, %b, %acc unsigned signed : tile<16x32xi8>, tile<32x16xi8>, tile<16x16xi32>
        """,
    )

    def check(self, report: Report) -> None:
        types = tile_types(self.lhs, self.rhs, self.acc)
        if types is not None and len({ty.rank for ty in types}) == 1:
            check_matrix_shapes(report, *types)


@tile_op("mmaf_scaled", opcode=0x72, since=V13_3, group="floating_point")
class MmaFScaledOp(TileOp):
    """mmaf on lhs[i, k] * lhs_scale[i, k / V] and rhs[k, j] * rhs_scale[k / V, j].

    V is K divided by the extent of the scales along K.
    """

    lhs = operand_def(K.SCALED_OPERAND_TILE)
    rhs = operand_def(K.SCALED_OPERAND_TILE)
    acc = operand_def(K.F32_TILE)
    lhs_scale = operand_def(K.SCALE_TILE)
    rhs_scale = operand_def(K.SCALE_TILE)
    result = result_def(K.F32_TILE)
    traits = traits_def(Pure())
    RELATIONS: ClassVar = (
        same_type("acc", "result"),
        same_element_type("lhs", "rhs"),
        same_element_type("lhs_scale", "rhs_scale"),
        same_rank("lhs", "rhs", "acc", "lhs_scale", "rhs_scale"),
    )
    SYNTAX: ClassVar = syntax(
        *HEAD, ", $lhs_scale, $rhs_scale", *TYPES, ", type($lhs_scale), type($rhs_scale)"
    )
    INFER: ClassVar = {"result": "acc"}
    EXAMPLES: ClassVar = examples(
        """
        %a = constant <f8E4M3FN: 1.0> : tile<16x64xf8E4M3FN>
        %b = constant <f8E4M3FN: 1.0> : tile<64x16xf8E4M3FN>
        %acc = constant <f32: 0.0> : tile<16x16xf32>
        // One scale for each block of 32 along K.
        %as = constant <f8E8M0FNU: 2.0> : tile<16x2xf8E8M0FNU>
        %bs = constant <f8E8M0FNU: 0.5> : tile<2x16xf8E8M0FNU>
        %c = mmaf_scaled %a, %b, %acc, %as, %bs
          : tile<16x64xf8E4M3FN>, tile<64x16xf8E4M3FN>, tile<16x16xf32>,
            tile<16x2xf8E8M0FNU>, tile<2x16xf8E8M0FNU>
        """,
    )
    UNDEFINED: ClassVar = ("a negative f8E4M3FN scale",)
    UNDEFINED_AT_USE: ClassVar = True

    def check(self, report: Report) -> None:
        types = tile_types(self.lhs, self.rhs, self.acc, self.lhs_scale, self.rhs_scale)
        if types is None or len({ty.rank for ty in types}) != 1:
            return
        lhs, rhs, acc, lhs_scale, rhs_scale = types
        if check_matrix_shapes(report, lhs, rhs, acc):
            _check_scales(report, lhs, rhs, lhs_scale, rhs_scale)


def _check_scales(
    report: Report,
    lhs: T.TileType,
    rhs: T.TileType,
    lhs_scale: T.TileType,
    rhs_scale: T.TileType,
) -> None:
    k, blocks = lhs.dims[-1], lhs_scale.dims[-1]
    expected = [
        ("lhs_scale", "M", lhs_scale.dims[-2], lhs.dims[-2]),
        ("rhs_scale", "N", rhs_scale.dims[-1], rhs.dims[-1]),
        ("rhs_scale", "K_s", rhs_scale.dims[-2], blocks),
    ]
    if lhs.rank == 3:
        expected += [
            ("lhs_scale", "batch", lhs_scale.dims[0], lhs.dims[0]),
            ("rhs_scale", "batch", rhs_scale.dims[0], lhs.dims[0]),
        ]
    for group, name, found, wanted in expected:
        if found != wanted:
            report.error(
                MATRIX_SHAPE,
                f"shape error: dim {name} of {group} is {found}, expected {wanted}",
                type_of(group),
            )
            return
    if k % blocks:
        report.error(
            MATRIX_SHAPE,
            f"dim K_s of lhs_scale ({blocks}) must be a divisor of dim K of lhs ({k})",
            type_of("lhs_scale"),
        )
        return
    allowed = SCALE_BLOCKS.get((lhs.element, lhs_scale.element))
    if allowed is None:
        report.error(
            MATRIX_TYPES,
            f"unsupported combination of element types: {lhs.element} operands with "
            f"{lhs_scale.element} scales",
            type_of("lhs_scale"),
        )
    elif k // blocks not in allowed:
        report.error(
            MATRIX_TYPES,
            f"expected a block size of {' or '.join(map(str, allowed))} for {lhs.element} operands "
            f"with {lhs_scale.element} scales, got K / K_s = {k // blocks}",
            type_of("lhs_scale"),
        )
