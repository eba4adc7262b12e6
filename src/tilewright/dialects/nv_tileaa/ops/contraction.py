"""Products, convolutions and collectives, whole until the machine's instructions are chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure, RecursiveMemoryEffect

from tilewright.dialects.cuda_tile.constants import FloatBitsAttr
from tilewright.dialects.declare import (
    Report,
    attr,
    enum_property,
    examples,
    int_property,
    same_shape,
    same_type,
    type_of,
)
from tilewright.dialects.narrowing import is_float, is_integer
from tilewright.dialects.nv_tileaa import codes
from tilewright.dialects.nv_tileaa import constraints as K
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.attributes import ConvParamsAttr
from tilewright.dialects.nv_tileaa.base import (
    ALL_SEGMENTS,
    TileAAOp,
    is_set,
    require_block_scale,
    tileaa_op,
)
from tilewright.dialects.nv_tileaa.enums import (
    ActivationLayoutAttr,
    PaddingValueAttr,
    SignednessAttr,
)
from tilewright.dialects.nv_tileaa.ops.bodies import check_arguments, check_end, check_pure_body
from tilewright.dialects.nv_tileaa.signature import Arguments, Body, Dictionary, Types
from tilewright.dialects.nv_tileaa.type_syntax import format_type
from tilewright.numerics.element_types import FORMATS

GROUP = "contraction"

#: Accumulator element types by operand element type, the preferred one first.
ACCUMULATORS: dict[str, tuple[str, ...]] = {
    "f16": ("f32", "f16"),
    "bf16": ("f32",),
    "tf32": ("f32",),
    "f32": ("f32",),
    "f64": ("f64",),
    "f8E4M3FN": ("f32", "f16"),
    "f8E5M2": ("f32", "f16"),
    "f4E2M1FN": ("f32", "f16"),
    "i8": ("i32",),
}
#: Element types that may stand on either side of one product.
MIXED = frozenset({"f8E4M3FN", "f8E5M2"})
#: Elements along K that share a scale factor, by data and scale element type.
SCALE_BLOCKS: dict[tuple[str, str], tuple[int, ...]] = {
    ("f8E4M3FN", "f8E8M0FNU"): (32,),
    ("f8E5M2", "f8E8M0FNU"): (32,),
    ("f4E2M1FN", "f8E8M0FNU"): (32, 16),
    ("f4E2M1FN", "f8E4M3FN"): (16,),
    ("f4E2M1FN", "f8E5M3FNU"): (32, 16),
}
NO_BLOCK_SCALE = "mma block scale is not supported by compute capability < sm100"


def _tile(value: SSAValue) -> T.TileType:
    assert isinstance(value.type, T.TileType)
    return value.type


def _element(value: SSAValue) -> str:
    """Of a tile, or of a view of one in shared memory."""
    return T.element_name(getattr(value.type, "element_type", value.type))


def _is_int(element: str) -> bool:
    return element in FORMATS and FORMATS[element].is_int


def check_product_types(
    op: TileAAOp, report: Report, a: SSAValue, b: SSAValue, c: SSAValue
) -> bool:
    """The element types of a product and its accumulator combine; returns whether they do."""
    names = [name for name, _ in op.get_irdl_definition().operands]
    left, right, acc = _element(a), _element(b), _element(c)
    kinds = {_is_int(left), _is_int(right), _is_int(acc)}
    problem, group = "", names[0]
    if len(kinds) > 1:
        problem = (
            "expected the element types of A, B, C, and D to be either all integers or all floats."
        )
    elif True in kinds and FORMATS[left].bits != FORMATS[right].bits:
        problem = (
            f"expects #A and #B have same bit width but got {FORMATS[left].bits} vs "
            f"{FORMATS[right].bits}"
        )
    elif left not in ACCUMULATORS:
        problem = f"expects #A and #B element types to be one of {_listed()}, but got {left}"
    elif left != right and not {left, right} <= MIXED:
        problem = (
            f"expects #A and #B to have element types that combine, but got {left} and {right}"
        )
        group = names[1]
    elif acc not in (allowed := ACCUMULATORS[left]):
        either = ("either " if len(allowed) > 1 else "") + " or ".join(allowed)
        problem, group = f"expects #C element type to be {either}, but got {acc}", names[2]
    if problem:
        report.error(codes.DOT_TYPES, problem, type_of(group))
    return not problem


def _listed() -> str:
    return ", ".join(ACCUMULATORS)


@tileaa_op("dot", group=GROUP)
class DotOp(TileAAOp):
    """a x b + c: d[m, n] = c[m, n] + sum over k of a[m, k] * b[k, n]; integers wrap.

    With scale factors, a[m, k] is multiplied by sfa[m, k / V] and b[k, n] by sfb[k / V, n], where
    V is the number of elements that share a factor. Order and precision of the sum are not fixed.
    """

    a = operand_def(K.NUMBER_TILE)
    b = operand_def(K.NUMBER_TILE)
    c = operand_def(K.NUMBER_TILE)
    sfa = opt_operand_def(K.NUMBER_TILE)
    sfb = opt_operand_def(K.NUMBER_TILE)
    signedness_a = opt_prop_def(K.enum_kind(SignednessAttr))
    signedness_b = opt_prop_def(K.enum_kind(SignednessAttr))
    propagate_nan = opt_prop_def(K.FLAG)
    atom = opt_prop_def(K.ANY_ATTRIBUTE)
    result = result_def(K.NUMBER_TILE)
    traits = traits_def(Pure())
    irdl_options = (ALL_SEGMENTS,)
    RELATIONS: ClassVar = (same_type("c", "result"),)
    EXAMPLES: ClassVar = examples(
        """
        %d = nv_tileaa.dot %a, %b, %acc
          : tile<16x32xf16>, tile<32x8xf16>, tile<16x8xf32> -> tile<16x8xf32>
        """,
        """
        %u = nv_tileaa.splat %n : i32 -> tile<16x8xi32>
        %s = nv_tileaa.bitcast %k : tile<8xi32> -> tile<32xi8>
        %l = nv_tileaa.view %s : tile<32xi8> -> tile<1x32xi8>
        %w = nv_tileaa.broadcast %l : tile<1x32xi8> -> tile<16x32xi8>
        %r = nv_tileaa.permute %w {permutation = array<i64: 1, 0>} : tile<16x32xi8> -> tile<32x16xi8>
        %h = nv_tileaa.extract_slice %r {offsets = array<i64: 0, 8>} : tile<32x16xi8> -> tile<32x8xi8>
        %d = nv_tileaa.dot %w, %h, %u {signedness_a = signed, signedness_b = unsigned}
          : tile<16x32xi8>, tile<32x8xi8>, tile<16x8xi32> -> tile<16x8xi32>
        """,
        """
        module attributes {nv_tileaa.compute_capability = 100 : i32} {
          nv_tileaa.func @scaled(%a: tile<16x64xf8E4M3FN>, %b: tile<64x16xf8E4M3FN>,
              %c: tile<16x16xf32>, %sa: tile<16x2xf8E8M0FNU>, %sb: tile<2x16xf8E8M0FNU>) {
            %d = nv_tileaa.dot %a, %b, %c, %sa, %sb
              : tile<16x64xf8E4M3FN>, tile<64x16xf8E4M3FN>, tile<16x16xf32>,
                tile<16x2xf8E8M0FNU>, tile<2x16xf8E8M0FNU> -> tile<16x16xf32>
            nv_tileaa.return
          }
        }
        """,
    )

    def check(self, report: Report) -> None:
        typed = check_product_types(self, report, self.a, self.b, self.c)
        if typed:
            self._check_flags(report)
        if not self._check_shapes(report):
            return
        if (self.sfa is None) != (self.sfb is None):
            group = "sfa" if self.sfa is not None else "sfb"
            report.error(codes.DOT_SCALES, "expects both SFA and SFB to be present", type_of(group))
        elif self.sfa is not None and self.sfb is not None:
            if typed:
                self._check_scales(report, _tile(self.sfa), _tile(self.sfb))
            require_block_scale(self, report, NO_BLOCK_SCALE, "sfa")
        elif "f4E2M1FN" in (_element(self.a), _element(self.b)):
            require_block_scale(self, report, NO_BLOCK_SCALE, "a")

    def _check_flags(self, report: Report) -> None:
        """Signedness for integers, NaN propagation for floats."""
        integers = _is_int(_element(self.a))
        for side in ("A", "B"):
            name = f"signedness_{side.lower()}"
            given = name in self.properties
            if integers and not given:
                report.error(
                    codes.DOT_SIGNS,
                    f"expect signedness attribute for operand {side}",
                    type_of(side.lower()),
                    help=f"add {name} = signed or {name} = unsigned",
                )
            elif given and not integers:
                report.error(
                    codes.DOT_SIGNS,
                    f"{name} is for integer operands, but the elements are {_element(self.a)}",
                    attr(name),
                )
        if integers and is_set(self, "propagate_nan"):
            report.error(
                codes.DOT_TYPES,
                f"propagate_nan is for float operands, but the elements are {_element(self.a)}",
                attr("propagate_nan"),
            )

    def _check_shapes(self, report: Report) -> bool:
        a, b, c = _tile(self.a).dims, _tile(self.b).dims, _tile(self.c).dims
        problem, group = "", "b"
        if len(c) not in (2, 3):
            problem, group = f"expects rank-2 or rank-3 tensor for result, but got ({len(c)})", "c"
        elif len(a) != len(c) or len(b) != len(c) or a[-1] != b[-2] or a[:-2] != b[:-2]:
            problem = "expects the shape of operand #A and #B to be compatible"
        elif c != (*a[:-1], b[-1]):
            problem = "expects the shape of operand #C is compatible with operands #A and #B"
            group = "c"
        if problem:
            shown = ", ".join(f"[{T.show_dims(dims)}]" for dims in (a, b, c))
            report.error(codes.DOT_SHAPE, problem, type_of(group), label=f"A, B, C are {shown}")
        return not problem

    def _check_scales(self, report: Report, sfa: T.TileType, sfb: T.TileType) -> None:
        a, b = _tile(self.a), _tile(self.b)
        sound = True
        for group, data, scale in (("sfa", a, sfa), ("sfb", b, sfb)):
            k_axis = -1 if group == "sfa" else -2
            if problem := _scale_problem(group, data, scale, k_axis):
                report.error(codes.DOT_SCALES, problem, type_of(group))
                sound = False
        if sound and sfa.dims[-1] != sfb.dims[-2]:
            report.error(
                codes.DOT_SCALES,
                f"expects 'sfa' and 'sfb' to have as many factors along K, but got "
                f"{sfa.dims[-1]} and {sfb.dims[-2]}",
                type_of("sfb"),
            )
        if _element(self.c) != "f32":
            report.error(
                codes.DOT_TYPES,
                f"expects #C element type to be f32, but got {_element(self.c)}",
                type_of("c"),
            )


def _scale_problem(group: str, data: T.TileType, scale: T.TileType, k_axis: int) -> str:
    """What is wrong with the scale factors of a tile, in words; empty if nothing is."""
    key = (T.element_name(data.element_type), T.element_name(scale.element_type))
    blocks = SCALE_BLOCKS.get(key)
    if blocks is None:
        return (
            f"expects '{group}' to have element type {_scales_of(key[0])} for {key[0]} data, "
            f"but got {key[1]}"
        )
    if scale.dims in [_scale_dims(data.dims, k_axis, block) for block in blocks]:
        return ""
    wanted = _scale_dims(data.dims, k_axis, blocks[0])
    return (
        f"expects '{group}' to have the shape [{T.show_dims(wanted)}], one factor for "
        f"{' or '.join(map(str, blocks))} elements along K, but got [{T.show_dims(scale.dims)}]"
    )


def _scale_dims(dims: tuple[int, ...], k_axis: int, block: int) -> tuple[int, ...]:
    """The shape of the factors of a tile, one for ``block`` elements along K."""
    found = list(dims)
    found[k_axis] = max(found[k_axis] // block, 1)
    return tuple(found)


def _scales_of(element: str) -> str:
    found = [scale for data, scale in SCALE_BLOCKS if data == element]
    return " or ".join(found) or "none"


def check_conv_params(op: TileAAOp, report: Report) -> int | None:
    """The lists of conv_params have one length from 1 to 3; returns it where that holds."""
    params = op.properties.get("conv_params")
    assert isinstance(params, ConvParamsAttr)
    lengths = {name: len(params.integers(name)) for name in params.FIELDS}
    if not 1 <= lengths["filter"] <= 3:
        report.error(
            codes.CONVOLUTION,
            "expects filter size must be in range 1 to 3",
            attr("conv_params"),
            label=f"the filter has {lengths['filter']}",
        )
        return None
    if len(set(lengths.values())) != 1:
        shown = ", ".join(f"{name} {n}" for name, n in lengths.items())
        report.error(
            codes.CONVOLUTION,
            "expects conv params size matched with each other",
            attr("conv_params"),
            label=f"the sizes are: {shown}",
        )
        return None
    for name, least in (("filter", 1), ("stride", 1), ("dilation", 1)):
        if any(value < least for value in params.integers(name)):
            report.error(
                codes.CONVOLUTION,
                f"expects every {name} of conv_params to be at least {least}, but got "
                f"{list(params.integers(name))}",
                attr("conv_params"),
            )
            return None
    return lengths["filter"]


@tileaa_op("conv_dot", group=GROUP)
class ConvDotOp(TileAAOp):
    """Convolution of an activation with a filter over taps and channels, added to ``acc``.

    Tiles have one axis for each letter of the layout; conv_params one entry for each spatial axis.
    """

    activation = operand_def(K.NUMBER_TILE)
    filter = operand_def(K.NUMBER_TILE)
    acc = operand_def(K.NUMBER_TILE)
    conv_params = prop_def(K.CONV_PARAMS)
    activation_layout = prop_def(K.enum_kind(ActivationLayoutAttr))
    padding_value = opt_prop_def(K.enum_kind(PaddingValueAttr))
    atom = opt_prop_def(K.ANY_ATTRIBUTE)
    result = result_def(K.NUMBER_TILE)
    traits = traits_def(Pure())
    RELATIONS: ClassVar = (same_type("acc", "result"),)
    EXAMPLES: ClassVar = examples(
        """
        module {
          nv_tileaa.func @conv(%x: tile<1x8x16xf16>, %w: tile<4x1x16xf16>, %c: tile<1x8x4xf32>) {
            %y = nv_tileaa.conv_dot %x, %w, %c
              {conv_params = #nv_tileaa.conv_params<filter = [1], stride = [1], padding_low = [0],
                 padding_high = [0], dilation = [1]>, activation_layout = nwc, padding_value = zero}
              : tile<1x8x16xf16>, tile<4x1x16xf16>, tile<1x8x4xf32> -> tile<1x8x4xf32>
            nv_tileaa.return
          }
        }
        """,
    )

    def check(self, report: Report) -> None:
        check_product_types(self, report, self.activation, self.filter, self.acc)
        spatial = check_conv_params(self, report)
        layout = enum_property(self, "activation_layout")
        if spatial is not None and spatial != len(layout) - 2:
            report.error(
                codes.CONVOLUTION,
                f"layout {layout} has {len(layout) - 2} spatial axes, but conv_params is for "
                f"{spatial}",
                attr("activation_layout"),
            )
            return
        for group, value in zip(
            ("activation", "filter", "acc"), (self.activation, self.filter, self.acc)
        ):
            if _tile(value).rank != len(layout):
                report.error(
                    codes.CONVOLUTION,
                    f"expected '{group}' to have an axis for each letter of {layout}, "
                    f"{len(layout)}, got '{format_type(value.type)}'",
                    type_of(group),
                )


class ReduceOrScan(TileAAOp):
    """Fields and rules that reduce and scan share."""

    operands_ = var_operand_def(K.NUMBER_TILE)
    axis = prop_def(K.INT32)
    identities = prop_def(K.ARRAY)
    atom = opt_prop_def(K.ANY_ATTRIBUTE)
    body = region_def("single_block")
    results_ = var_result_def(K.NUMBER)
    traits = traits_def(RecursiveMemoryEffect())
    RELATIONS: ClassVar = (same_shape("operands_"),)
    SYNTAX: ClassVar = (Arguments(), Dictionary(), Types(), Body())
    UNDEFINED: ClassVar = ("a body that is not associative", "a wrong identity")

    def check(self, report: Report) -> None:
        operands, results = list(self.operands), list(self.results)
        if not operands or len(results) != len(operands):
            report.error(
                codes.COUNT,
                f"expected at least one operand and as many results, got {len(operands)} operands "
                f"and {len(results)} results",
            )
            return
        self._check_identities(report, operands)
        axis, rank = int_property(self, "axis"), _tile(operands[0]).rank
        if not 0 <= axis < rank:
            report.error(codes.AXIS, f"axis {axis} is outside of [0, {rank})", attr("axis"))
        else:
            self._check_results(report, axis)
        elements = [_tile(v).element_type for v in operands]
        region = self.regions[0]
        check_arguments(self, report, region, [e for e in elements for _ in range(2)])
        check_end(self, report, region, "nv_tileaa.yield", elements)
        check_pure_body(self, report, region)

    def _check_identities(self, report: Report, operands: Sequence[SSAValue]) -> None:
        given = [
            v.type if is_integer(v) or is_float(v) or isinstance(v, FloatBitsAttr) else None
            for v in self.identities.data
        ]
        wanted = [_tile(v).element_type for v in operands]
        if given != wanted:
            shown = ", ".join("no number" if ty is None else format_type(ty) for ty in given)
            report.error(
                codes.ELEMENT_TYPE,
                f"expected identities of types {', '.join(map(format_type, wanted))}, one for each "
                f"operand, got {shown or 'none'}",
                attr("identities"),
            )

    def _check_results(self, report: Report, axis: int) -> None:
        for index, (value, result) in enumerate(zip(self.operands, self.results, strict=True)):
            wanted = T.without_layout(self.result_type(_tile(value), axis))
            if T.without_layout(result.type) != wanted:
                report.error(
                    codes.SHAPE,
                    f"expected result {index} to be '{format_type(wanted)}', got "
                    f"'{format_type(result.type)}'",
                    type_of("results_", index),
                )

    def result_type(self, ty: T.TileType, axis: int) -> Attribute:
        """The type of a result, from that of its operand."""
        raise NotImplementedError


@tileaa_op("reduce", group=GROUP)
class ReduceOp(ReduceOrScan):
    """Combines the elements along ``axis`` into one, which removes the axis.

    The body gets for each operand the accumulated value and an element, and yields the new
    accumulated values. It must be associative, with the given identities.
    """

    EXAMPLES: ClassVar = examples(
        """
        %s = nv_tileaa.reduce %tile {axis = 1 : i32, identities = [0.0 : f32]}
          : tile<8x16xf32> -> tile<8xf32> {
        ^bb0(%e: f32, %sum: f32):
          %r = nv_tileaa.addf %e, %sum : f32
          nv_tileaa.yield %r : f32
        }
        """,
        """
        %s = nv_tileaa.reduce %f {axis = 0 : i32, identities = [1.0 : f32]} : tile<8xf32> -> f32 {
        ^bb0(%e: f32, %product: f32):
          %r = nv_tileaa.mulf %e, %product : f32
          nv_tileaa.yield %r : f32
        }
        """,
    )

    def result_type(self, ty: T.TileType, axis: int) -> Attribute:
        return T.tile_or_scalar(ty.dims[:axis] + ty.dims[axis + 1 :], ty.element_type)


@tileaa_op("scan", group=GROUP)
class ScanOp(ReduceOrScan):
    """Inclusive scan along ``axis``: each element combined with all before it.

    With ``reverse`` it runs from the last element down. The body is as for reduce.
    """

    reverse = opt_prop_def(K.BOOL)
    EXAMPLES: ClassVar = examples(
        """
        %s = nv_tileaa.scan %f {axis = 0 : i32, reverse = true, identities = [0.0 : f32]}
          : tile<8xf32> -> tile<8xf32> {
        ^bb0(%e: f32, %sum: f32):
          %r = nv_tileaa.addf %e, %sum : f32
          nv_tileaa.yield %r : f32
        }
        """,
    )

    def result_type(self, ty: T.TileType, axis: int) -> Attribute:
        return ty


@tileaa_op("histogram", group=GROUP)
class HistogramOp(TileAAOp):
    """Counts: element n of the result is how many values, not masked off, are equal to n."""

    source = operand_def(K.INTEGER_TILE)
    mask = opt_operand_def(K.I1)
    result = result_def(K.I32_TILE_1D)
    traits = traits_def(Pure())
    EXAMPLES: ClassVar = examples(
        "%h = nv_tileaa.histogram %k : tile<8xi32> -> tile<16xi32>",
        "%h = nv_tileaa.histogram %k, %mask : tile<8xi32>, tile<8xi1> -> tile<16xi32>",
    )

    def check(self, report: Report) -> None:
        if self.mask is not None and T.dims_of(self.mask.type) != T.dims_of(self.source.type):
            report.error(
                codes.MASK,
                f"expected the mask to have the shape of the values, "
                f"[{T.show_dims(T.dims_of(self.source.type))}], got "
                f"'{format_type(self.mask.type)}'",
                type_of("mask"),
            )
