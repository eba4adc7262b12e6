"""Programs that break a rule of shapes and tilings, each beside its nearest legal twin."""

from __future__ import annotations

from tests.nv_tileaa.cases_values import conv_params
from tests.nv_tileaa.support import Case

_MR = "!nv_tileaa.memref<?x?xf32, 1>"
_VIEW = "!nv_tileaa.tiled_view<{}xf32, source = {}>"


def _block(
    sizes: str = "8, 16",
    groups: str = "[[0], [1]]",
    more: str = "",
    shape: str = "8x16",
    source: str = _MR,
) -> str:
    return (
        f"%v = nv_tileaa.block_tile %mr {{tileSizes = array<i64{':' if sizes else ''} {sizes}>, "
        f"dimGroups = {groups}{more}}} : {_MR} -> {_VIEW.format(shape, source)}"
    )


def _conv_tile(
    taps: str = "3",
    groups: str = "[[0], [1]]",
    channel: int = 1,
    filter_: str = "[3]",
    shape: str = "8x16",
) -> str:
    return (
        f"%v = nv_tileaa.conv_tile %mr {{conv_params = #nv_tileaa.conv_params<{conv_params(filter_)}>, "
        f"filterSizes = array<i64: {taps}>, dimGroups = {groups}, channel = {channel}}} "
        f": {_MR} -> {_VIEW.format(shape, _MR)}"
    )


CASES = [
    Case(
        "splat",
        "aa-element-type",
        "expected 'result' to have the element type 'f32' of 'source', got 'f64'",
        "%s = nv_tileaa.splat %x : f32 -> tile<4xf64>",
        "%s = nv_tileaa.splat %x : f32 -> tile<4xf32>",
    ),
    Case(
        "splat",
        "operand-type",
        "must be a scalar, but got 'tile<8xf32>'",
        "%s = nv_tileaa.splat %f : tile<8xf32> -> tile<8xf32>",
        "%s = nv_tileaa.splat %x : f32 -> tile<8xf32>",
    ),
    Case(
        "broadcast",
        "aa-shape",
        "source [8], result [16]",
        "%s = nv_tileaa.broadcast %f : tile<8xf32> -> tile<16xf32>",
        "%s = nv_tileaa.broadcast %h : tile<1xf32> -> tile<16xf32>",
        {"h": "tile<1xf32>"},
    ),
    Case(
        "broadcast",
        "aa-shape",
        "expected a result of rank 1",
        "%s = nv_tileaa.broadcast %f : tile<8xf32> -> tile<4x8xf32>",
        "%s = nv_tileaa.broadcast %h : tile<1x8xf32> -> tile<4x8xf32>",
        {"h": "tile<1x8xf32>"},
    ),
    Case(
        "expand_dims",
        "aa-axis",
        "expected axes to be ascending positions in [0, 3), got [2, 0]",
        "%s = nv_tileaa.expand_dims %f {axes = array<i64: 2, 0>} : tile<8xf32> -> tile<1x8x1xf32>",
        "%s = nv_tileaa.expand_dims %f {axes = array<i64: 0, 2>} : tile<8xf32> -> tile<1x8x1xf32>",
    ),
    Case(
        "expand_dims",
        "aa-shape",
        "expected a result of shape [8, 1]",
        "%s = nv_tileaa.expand_dims %f {axes = array<i64: 1>} : tile<8xf32> -> tile<1x8xf32>",
        "%s = nv_tileaa.expand_dims %f {axes = array<i64: 0>} : tile<8xf32> -> tile<1x8xf32>",
    ),
    Case(
        "view",
        "aa-shape",
        "expected a view of the source's 8 elements",
        "%s = nv_tileaa.view %f : tile<8xf32> -> tile<4x4xf32>",
        "%s = nv_tileaa.view %f : tile<8xf32> -> tile<2x4xf32>",
    ),
    Case(
        "view",
        "aa-element-type",
        "expected 'result' to have the element type 'f32'",
        "%s = nv_tileaa.view %f : tile<8xf32> -> tile<2x4xi32>",
        "%s = nv_tileaa.view %f : tile<8xf32> -> tile<2x4xf32>",
    ),
    Case(
        "view",
        "aa-shape",
        "expected a memref to be viewed as a memref",
        f"%s = nv_tileaa.view %mr : {_MR} -> tile<8xf32>",
        f"%s = nv_tileaa.view %mr : {_MR} -> !nv_tileaa.memref<?xf32, 1>",
    ),
    Case(
        "view",
        "aa-element-type",
        "expected a view of 'f32' elements, got 'f16'",
        f"%s = nv_tileaa.view %mr : {_MR} -> !nv_tileaa.memref<?x?xf16, 1>",
        f"%s = nv_tileaa.view %mr : {_MR} -> !nv_tileaa.memref<?x4xf32, 1>",
    ),
    Case(
        "view",
        "aa-address-space",
        "expected a view in address space 1 of its source, got 4",
        f"%s = nv_tileaa.view %mr : {_MR} -> !nv_tileaa.memref<?x?xf32, 4>",
        f"%s = nv_tileaa.view %mr : {_MR} -> !nv_tileaa.memref<?x?xf32, 1>",
    ),
    Case(
        "view",
        "aa-provenance",
        "expected a view with the alias scope of its source, none, got 3",
        f"%s = nv_tileaa.view %mr : {_MR} -> !nv_tileaa.memref<?x?xf32, alias_scope = 3, 1>",
        f"%s = nv_tileaa.view %mr : {_MR} -> !nv_tileaa.memref<?x?xf32, 1>",
    ),
    Case(
        "view",
        "aa-shape",
        "expected a view of the source's 12 elements, got 8",
        "%s = nv_tileaa.view %h : !nv_tileaa.memref<3x4xf32, 1> -> !nv_tileaa.memref<8xf32, 1>",
        "%s = nv_tileaa.view %h : !nv_tileaa.memref<3x4xf32, 1> -> !nv_tileaa.memref<12xf32, 1>",
        {"h": "!nv_tileaa.memref<3x4xf32, 1>"},
    ),
    Case(
        "extract",
        "aa-index-count",
        "expected 1 to 1 indices, at most one for each axis, got 2",
        "%s = nv_tileaa.extract %f[%i, %j] : tile<8xf32>, index, index -> f32",
        "%s = nv_tileaa.extract %f[%i] : tile<8xf32>, index -> f32",
    ),
    Case(
        "extract",
        "aa-shape",
        "expected a result of shape [16]",
        "%s = nv_tileaa.extract %tile[%i] : tile<8x16xf32>, index -> tile<8xf32>",
        "%s = nv_tileaa.extract %tile[%i] : tile<8x16xf32>, index -> tile<16xf32>",
    ),
    Case(
        "extract_slice",
        "aa-range",
        "expected a slice within [0, 8) along axis 0, got [6, 10)",
        "%s = nv_tileaa.extract_slice %f {offsets = array<i64: 6>} : tile<8xf32> -> tile<4xf32>",
        "%s = nv_tileaa.extract_slice %f {offsets = array<i64: 3>} : tile<8xf32> -> tile<4xf32>",
    ),
    Case(
        "extract_slice",
        "aa-index-count",
        "got 1 and 1",
        "%s = nv_tileaa.extract_slice %f[%i] {offsets = array<i64: 0>} : tile<8xf32>, index -> tile<4xf32>",
        "%s = nv_tileaa.extract_slice %f[%i] : tile<8xf32>, index -> tile<4xf32>",
    ),
    Case(
        "extract_slice",
        "aa-shape",
        "expected a slice of rank 2",
        "%s = nv_tileaa.extract_slice %tile[%i, %j] : tile<8x16xf32>, index, index -> tile<16xf32>",
        "%s = nv_tileaa.extract_slice %tile[%i, %j] : tile<8x16xf32>, index, index -> tile<1x16xf32>",
    ),
    Case(
        "cat",
        "aa-axis",
        "axis 1 is outside of [0, 1)",
        "%s = nv_tileaa.cat %f, %g {axis = 1} : tile<8xf32>, tile<8xf32> -> tile<16xf32>",
        "%s = nv_tileaa.cat %f, %g {axis = 0} : tile<8xf32>, tile<8xf32> -> tile<16xf32>",
    ),
    Case(
        "cat",
        "aa-shape",
        "expected operands that differ along axis 0 only",
        "%s = nv_tileaa.cat %tile, %h {axis = 0} : tile<8x16xf32>, tile<8x8xf32> -> tile<16x16xf32>",
        "%s = nv_tileaa.cat %tile, %tile {axis = 0} : tile<8x16xf32>, tile<8x16xf32> -> tile<16x16xf32>",
        {"h": "tile<8x8xf32>"},
    ),
    Case(
        "cat",
        "aa-shape",
        "expected a result of shape [16], both operands",
        "%s = nv_tileaa.cat %f, %g {axis = 0} : tile<8xf32>, tile<8xf32> -> tile<8xf32>",
        "%s = nv_tileaa.cat %f, %g {axis = 0} : tile<8xf32>, tile<8xf32> -> tile<16xf32>",
    ),
    Case(
        "permute",
        "aa-axis",
        "expected a permutation of 0 to 1, got [0, 0]",
        "%s = nv_tileaa.permute %tile {permutation = array<i64: 0, 0>} : tile<8x16xf32> -> tile<8x8xf32>",
        "%s = nv_tileaa.permute %tile {permutation = array<i64: 0, 1>} : tile<8x16xf32> -> tile<8x16xf32>",
    ),
    Case(
        "permute",
        "aa-shape",
        "expected a result of shape [16, 8]",
        "%s = nv_tileaa.permute %tile {permutation = array<i64: 1, 0>} : tile<8x16xf32> -> tile<8x16xf32>",
        "%s = nv_tileaa.permute %tile {permutation = array<i64: 1, 0>} : tile<8x16xf32> -> tile<16x8xf32>",
    ),
    Case(
        "make_range",
        "aa-range",
        "expected end - start to be the extent of the result, 8, got 7",
        "%r = nv_tileaa.make_range {start = 1, end = 8} : tile<8xi32>",
        "%r = nv_tileaa.make_range {start = 1, end = 9} : tile<8xi32>",
    ),
    Case(
        "make_range",
        "aa-range",
        "got 0 operands and the attributes: start",
        "%r = nv_tileaa.make_range {start = 1} : tile<8xi32>",
        "%r = nv_tileaa.make_range {start = 0, end = 8} : tile<8xi32>",
    ),
    Case(
        "make_range",
        "aa-element-type",
        "expected 'bounds' to have the element type 'i32'",
        "%r = nv_tileaa.make_range %n, %m : i32, i64 -> tile<8xi32>",
        "%r = nv_tileaa.make_range %n, %n : i32, i32 -> tile<8xi32>",
    ),
    Case(
        "generate",
        "aa-body-arguments",
        "expected body arguments of types (index, index), got (index)",
        "%r = nv_tileaa.generate : tile<8x8xf32> {\n^bb0(%l: index):\n  nv_tileaa.yield %x : f32\n}",
        "%r = nv_tileaa.generate : tile<8xf32> {\n^bb0(%l: index):\n  nv_tileaa.yield %x : f32\n}",
    ),
    Case(
        "generate",
        "aa-yield-types",
        "expected the region to yield (f32), got (i32)",
        "%r = nv_tileaa.generate : tile<8xf32> {\n^bb0(%l: index):\n  nv_tileaa.yield %n : i32\n}",
        "%r = nv_tileaa.generate : tile<8xi32> {\n^bb0(%l: index):\n  nv_tileaa.yield %n : i32\n}",
    ),
    Case("block_tile", "aa-tiling", "expects non-empty tileSizes", _block(sizes=""), _block()),
    Case("block_tile", "aa-tiling", "expects non-empty dimGroups", _block(groups="[]"), _block()),
    Case(
        "block_tile",
        "aa-tiling",
        "expects rank of tileSizes be equal to rank of dimGroups, but got 1 vs 2",
        _block(sizes="64"),
        _block(),
    ),
    Case(
        "block_tile",
        "aa-tiling",
        "expects all tile size bigger than zero",
        _block(sizes="8, 0"),
        _block(),
    ),
    Case(
        "block_tile",
        "aa-tiling",
        "expects dim is being tiled only one time, but got 0",
        _block(groups="[[0], [0]]"),
        _block(groups="[[1], [0]]"),
    ),
    Case(
        "block_tile",
        "aa-tiling",
        "expects dims of the memref, in [0, 2), but got 2",
        _block(groups="[[0], [2]]"),
        _block(),
    ),
    Case(
        "block_tile",
        "aa-tiling",
        "expects dimGroups to be lists of axes",
        _block(groups="[0, 1]"),
        _block(),
    ),
    Case(
        "block_tile",
        "aa-tiling",
        "expects a positive traversal stride for each of 2 tile axes, but got [4]",
        _block(more=", traversalStrides = array<i64: 4>"),
        _block(more=", traversalStrides = array<i64: 4, 4>"),
    ),
    Case(
        "block_tile",
        "aa-axis",
        "sparseDim 2 is outside of [0, 2)",
        _block(more=", sparseDim = 2"),
        _block(more=", sparseDim = 1"),
    ),
    Case(
        "block_tile",
        "aa-shape",
        "expected a view of tiles of shape [8, 16], got [16, 8]",
        _block(shape="16x8"),
        _block(shape="8x16"),
    ),
    Case(
        "block_tile",
        "aa-provenance",
        "expected a view of the operand",
        _block(source="!nv_tileaa.memref<?x?xf32, alias_scope = 1, 1>"),
        _block(),
    ),
    Case(
        "block_tile",
        "aa-element-type",
        "padding_value nan is for float elements, but the elements are i32",
        "%v = nv_tileaa.block_tile %h {tileSizes = array<i64: 8>, dimGroups = [[0]], "
        "padding_value = nan} : !nv_tileaa.memref<?xi32, 1> "
        "-> !nv_tileaa.tiled_view<8xi32, source = !nv_tileaa.memref<?xi32, 1>>",
        "%v = nv_tileaa.block_tile %h {tileSizes = array<i64: 8>, dimGroups = [[0]], "
        "padding_value = zero} : !nv_tileaa.memref<?xi32, 1> "
        "-> !nv_tileaa.tiled_view<8xi32, source = !nv_tileaa.memref<?xi32, 1>>",
        {"h": "!nv_tileaa.memref<?xi32, 1>"},
    ),
    Case(
        "conv_tile",
        "aa-convolution",
        "expects filter size must be in range 1 to 3",
        _conv_tile(taps="3, 3, 3, 3"),
        _conv_tile(),
    ),
    Case(
        "conv_tile",
        "aa-convolution",
        "expects conv params size matched with each other",
        _conv_tile(taps="3, 3"),
        _conv_tile(),
    ),
    Case(
        "conv_tile",
        "aa-convolution",
        "expects channel must be a dimGroup",
        _conv_tile(channel=2),
        _conv_tile(channel=0),
    ),
    Case(
        "conv_tile",
        "aa-convolution",
        "expects channel dimGroup should contain only channel",
        _conv_tile(groups="[[0, 1]]", shape="8"),
        _conv_tile(groups="[[1]]", shape="8"),
    ),
    Case(
        "conv_tile",
        "aa-shape",
        "expected tiles with an axis for each of 2 dimGroups, got rank 1",
        _conv_tile(shape="8"),
        _conv_tile(shape="8x8"),
    ),
    Case(
        "get_dim_size",
        "aa-axis",
        "axis 2 is outside of [0, 2)",
        f"%n0 = nv_tileaa.get_dim_size %mr {{axis = 2}} : {_MR} -> index",
        f"%n0 = nv_tileaa.get_dim_size %mr {{axis = 1}} : {_MR} -> index",
    ),
]
