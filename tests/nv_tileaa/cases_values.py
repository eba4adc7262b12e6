"""Programs that break a rule of operations on values, each beside its nearest legal twin."""

from __future__ import annotations

from tests.nv_tileaa.support import Case


def _elementwise(op: str, operands: str) -> list[Case]:
    """Cases of an element-wise operation on floats, given its operands after the first."""
    rest = operands.count("%")
    short = ", ".join(["tile<8xf32>"] * (rest + 1))
    return [
        Case(
            op,
            "aa-shape",
            "expected 'result' to have the shape of the operands, [8]",
            f"%s = nv_tileaa.{op} %f{operands} : {short} -> tile<4xf32>",
            f"%s = nv_tileaa.{op} %f{operands} : {short} -> tile<8xf32>",
        ),
        Case(
            op,
            "aa-element-type",
            "expected 'result' to have the element type 'f32'",
            f"%s = nv_tileaa.{op} %f{operands} : {short} -> tile<8xf64>",
            f"%s = nv_tileaa.{op} %f{operands} : {short} -> tile<8xf32>",
        ),
        Case(
            op,
            "operand-type",
            "must be a scalar or tile of f16, bf16, f32 or f64, but got 'tile<8xi32>'",
            f"%s = nv_tileaa.{op} {', '.join(['%k'] * (rest + 1))} : tile<8xi32>",
            f"%s = nv_tileaa.{op} {', '.join(['%f'] * (rest + 1))} : tile<8xf32>",
        ),
    ]


def _flush(op: str, count: int) -> Case:
    halves, singles = ", ".join(["%h"] * count), ", ".join(["%f"] * count)
    return Case(
        op,
        "aa-flush-to-zero",
        "flush_to_zero exists for f32 only, but the elements are f16",
        f"%s = nv_tileaa.{op} {halves} {{flush_to_zero}} : tile<8xf16>",
        f"%s = nv_tileaa.{op} {singles} {{flush_to_zero}} : tile<8xf32>",
        {"h": "tile<8xf16>"},
    )


def _rounding(op: str, count: int, bad: str, good: str) -> Case:
    operands = ", ".join(["%f"] * count)
    return Case(
        op,
        "aa-rounding-mode",
        f"but got: {bad}",
        f"%s = nv_tileaa.{op} {operands} {{rounding_mode = {bad}}} : tile<8xf32>",
        f"%s = nv_tileaa.{op} {operands} {{rounding_mode = {good}}} : tile<8xf32>",
    )


ARITHMETIC = [
    *(case for op in ("addf", "subf", "mulf", "divf") for case in _elementwise(op, ", %g")),
    *(case for op in ("fma", "clampf") for case in _elementwise(op, ", %g, %g")),
    *(case for op in ("sqrt", "rsqrt", "exp2") for case in _elementwise(op, "")),
    *(_flush(op, 2) for op in ("addf", "subf", "mulf", "divf")),
    _flush("fma", 3),
    *(_flush(op, 1) for op in ("sqrt", "rsqrt", "exp2")),
    *(_rounding(op, 2, "approx", "rm") for op in ("addf", "subf", "mulf")),
    _rounding("divf", 2, "nearest_int_to_zero", "full"),
    _rounding("fma", 3, "full", "rp"),
    _rounding("sqrt", 1, "full", "approx"),
    Case(
        "divf",
        "aa-rounding-mode",
        "rounding mode approx exists for f32 only, but the elements are f64",
        "%s = nv_tileaa.divf %d, %d {rounding_mode = approx} : f64",
        "%s = nv_tileaa.divf %x, %x {rounding_mode = approx} : f32",
        {"d": "f64"},
    ),
    Case(
        "addf",
        "aa-shape",
        "expected 'rhs' to be a scalar or to have the shape [8], got 'tile<4xf32>'",
        "%s = nv_tileaa.addf %f, %h : tile<8xf32>, tile<4xf32> -> tile<8xf32>",
        "%s = nv_tileaa.addf %f, %x : tile<8xf32>, f32 -> tile<8xf32>",
        {"h": "tile<4xf32>"},
    ),
    Case(
        "mulhiui",
        "operand-type",
        "must be a scalar or tile of i8, i16, i32 or i64, but got 'tile<8xf32>'",
        "%s = nv_tileaa.mulhiui %f, %f : tile<8xf32>",
        "%s = nv_tileaa.mulhiui %k, %k : tile<8xi32>",
    ),
    Case(
        "mulhiui",
        "aa-element-type",
        "expected 'rhs' to have the element type 'i32' of 'lhs', got 'i64'",
        "%s = nv_tileaa.mulhiui %k, %m : tile<8xi32>, i64 -> tile<8xi32>",
        "%s = nv_tileaa.mulhiui %k, %n : tile<8xi32>, i32 -> tile<8xi32>",
    ),
]


def _dot(a: str, b: str, c: str, attributes: str = "") -> str:
    return (
        f"%d = nv_tileaa.dot %l, %r, %u {attributes} : tile<16x32x{a}>, tile<32x8x{b}>, "
        f"tile<16x8x{c}> -> tile<16x8x{c}>"
    )


def _operands(a: str, b: str, c: str) -> dict[str, str]:
    return {"l": f"tile<16x32x{a}>", "r": f"tile<32x8x{b}>", "u": f"tile<16x8x{c}>"}


def _module(params: str, body: str, capability: int = 90) -> str:
    return (
        f"module attributes {{nv_tileaa.compute_capability = {capability} : i32}} {{\n"
        f"nv_tileaa.func @f({params}) {{\n{body}\nnv_tileaa.return\n}}\n}}"
    )


def _typed_dot(a: str, b: str, c: str, attributes: str = "", capability: int = 90) -> str:
    params = ", ".join(f"%{name}: {ty}" for name, ty in _operands(a, b, c).items())
    return _module(params, _dot(a, b, c, attributes), capability)


_SIGNS = "{signedness_a = signed, signedness_b = unsigned}"


def _dot_types(
    says: str, bad: tuple[str, str, str], good: tuple[str, str, str], attrs: str = ""
) -> Case:
    return Case("dot", "aa-dot-types", says, _typed_dot(*bad, attrs), _typed_dot(*good, attrs))


def _scaled(
    data: str = "f8E4M3FN",
    scale: str = "f8E8M0FNU",
    acc: str = "f32",
    extent: int = 2,
    capability: int = 100,
    operands: str = "%a, %b, %c, %sa, %sb",
    extent_b: int | None = None,
) -> str:
    types = {
        "a": f"tile<16x64x{data}>",
        "b": f"tile<64x8x{data}>",
        "c": f"tile<16x8x{acc}>",
        "sa": f"tile<16x{extent}x{scale}>",
        "sb": f"tile<{extent if extent_b is None else extent_b}x8x{scale}>",
    }
    names = [name.strip("% ") for name in operands.split(",")]
    segments = [int(n in names) for n in ("a", "b", "c", "sa", "sb")]
    body = (
        f"%d = nv_tileaa.dot {operands} "
        f"{{operandSegmentSizes = array<i32: {', '.join(map(str, segments))}>}} : "
        f"{', '.join(types[name] for name in names)} -> {types['c']}"
    )
    return _module(", ".join(f"%{n}: {ty}" for n, ty in types.items()), body, capability)


DOT = [
    _dot_types(
        "expected the element types of A, B, C, and D to be either all integers or all floats.",
        ("i8", "f16", "f32"),
        ("f16", "f16", "f32"),
    ),
    _dot_types(
        "expects #A and #B have same bit width but got 8 vs 16",
        ("i8", "i16", "i32"),
        ("i8", "i8", "i32"),
        _SIGNS,
    ),
    _dot_types("but got i16", ("i16", "i16", "i32"), ("i8", "i8", "i32"), _SIGNS),
    _dot_types(
        "expects #C element type to be i32, but got i64",
        ("i8", "i8", "i64"),
        ("i8", "i8", "i32"),
        _SIGNS,
    ),
    _dot_types(
        "expects #C element type to be f32, but got f16",
        ("bf16", "bf16", "f16"),
        ("bf16", "bf16", "f32"),
    ),
    _dot_types(
        "expects #C element type to be either f32 or f16, but got f64",
        ("f16", "f16", "f64"),
        ("f16", "f16", "f16"),
    ),
    _dot_types(
        "expects #C element type to be f64, but got f32",
        ("f64", "f64", "f32"),
        ("f64", "f64", "f64"),
    ),
    _dot_types("but got f16 and bf16", ("f16", "bf16", "f32"), ("f8E5M2", "f8E4M3FN", "f32")),
    _dot_types("but got f8E8M0FNU", ("f8E8M0FNU", "f8E8M0FNU", "f32"), ("tf32", "tf32", "f32")),
    Case(
        "dot",
        "aa-dot-types",
        "propagate_nan is for float operands",
        _typed_dot(
            "i8",
            "i8",
            "i32",
            "{signedness_a = signed, signedness_b = signed, propagate_nan = true}",
        ),
        _typed_dot("f16", "f16", "f32", "{propagate_nan = true}"),
    ),
    Case(
        "dot",
        "aa-dot-signedness",
        "expect signedness attribute for operand A",
        _typed_dot("i8", "i8", "i32", "{signedness_b = signed}"),
        _typed_dot("i8", "i8", "i32", "{signedness_a = unsigned, signedness_b = signed}"),
    ),
    Case(
        "dot",
        "aa-dot-signedness",
        "expect signedness attribute for operand B",
        _typed_dot("i8", "i8", "i32", "{signedness_a = signed}"),
        _typed_dot("i8", "i8", "i32", _SIGNS),
    ),
    Case(
        "dot",
        "aa-dot-signedness",
        "signedness_a is for integer operands, but the elements are f16",
        _typed_dot("f16", "f16", "f32", "{signedness_a = signed}"),
        _typed_dot("f16", "f16", "f32"),
    ),
    Case(
        "dot",
        "aa-dot-shape",
        "expects rank-2 or rank-3 tensor for result, but got (1)",
        _module(
            "%a: tile<8xf16>, %c: tile<8xf32>",
            "%d = nv_tileaa.dot %a, %a, %c : tile<8xf16>, tile<8xf16>, tile<8xf32> -> tile<8xf32>",
        ),
        _module(
            "%a: tile<8x8xf16>, %c: tile<8x8xf32>",
            "%d = nv_tileaa.dot %a, %a, %c "
            ": tile<8x8xf16>, tile<8x8xf16>, tile<8x8xf32> -> tile<8x8xf32>",
        ),
    ),
    Case(
        "dot",
        "aa-dot-shape",
        "expects the shape of operand #A and #B to be compatible",
        _module(
            "%a: tile<4x8xf16>, %b: tile<16x4xf16>, %c: tile<4x4xf32>",
            "%d = nv_tileaa.dot %a, %b, %c "
            ": tile<4x8xf16>, tile<16x4xf16>, tile<4x4xf32> -> tile<4x4xf32>",
        ),
        _module(
            "%a: tile<2x4x8xf16>, %b: tile<2x8x4xf16>, %c: tile<2x4x4xf32>",
            "%d = nv_tileaa.dot %a, %b, %c "
            ": tile<2x4x8xf16>, tile<2x8x4xf16>, tile<2x4x4xf32> -> tile<2x4x4xf32>",
        ),
    ),
    Case(
        "dot",
        "aa-dot-shape",
        "expects the shape of operand #C is compatible with operands #A and #B",
        _module(
            "%a: tile<4x8xf16>, %b: tile<8x2xf16>, %c: tile<4x4xf32>",
            "%d = nv_tileaa.dot %a, %b, %c "
            ": tile<4x8xf16>, tile<8x2xf16>, tile<4x4xf32> -> tile<4x4xf32>",
        ),
        _module(
            "%a: tile<4x8xf16>, %b: tile<8x4xf16>, %c: tile<4x4xf32>",
            "%d = nv_tileaa.dot %a, %b, %c "
            ": tile<4x8xf16>, tile<8x4xf16>, tile<4x4xf32> -> tile<4x4xf32>",
        ),
    ),
    Case(
        "dot",
        "type-relation",
        "have same type: 'c' is 'tile<16x8xf32>', 'result' is 'tile<16x8xf16>'",
        "%d = nv_tileaa.dot %a, %b, %acc "
        ": tile<16x32xf16>, tile<32x8xf16>, tile<16x8xf32> -> tile<16x8xf16>",
        "%d = nv_tileaa.dot %a, %b, %acc "
        ": tile<16x32xf16>, tile<32x8xf16>, tile<16x8xf32> -> tile<16x8xf32>",
    ),
    Case(
        "dot",
        "aa-dot-scales",
        "expects both SFA and SFB to be present",
        _scaled(operands="%a, %b, %c, %sa"),
        _scaled(),
    ),
    Case(
        "dot",
        "aa-dot-scales",
        "expects both SFA and SFB to be present",
        _scaled(operands="%a, %b, %c, %sb"),
        _scaled(),
    ),
    Case(
        "dot",
        "aa-target",
        "mma block scale is not supported by compute capability < sm100",
        _scaled(capability=90),
        _scaled(capability=100),
    ),
    Case(
        "dot",
        "aa-target",
        "mma block scale is not supported by compute capability < sm100",
        _typed_dot("f4E2M1FN", "f4E2M1FN", "f32", capability=89),
        _typed_dot("f4E2M1FN", "f4E2M1FN", "f16", capability=120),
    ),
    Case(
        "dot",
        "aa-dot-scales",
        "expects 'sfa' and 'sfb' to have as many factors along K, but got 4 and 2",
        _scaled("f4E2M1FN", extent=4, extent_b=2),
        _scaled("f4E2M1FN", extent=4),
    ),
    Case(
        "dot",
        "aa-dot-types",
        "expects #C element type to be f32, but got f16",
        _scaled(acc="f16"),
        _scaled(acc="f32"),
    ),
]

#: Rules that both scale factors break at once, with the findings for each.
SCALES = [
    (
        _scaled(scale="f8E4M3FN", extent=4),
        "expects 'sfa' to have element type f8E8M0FNU",
        _scaled(),
    ),
    (
        _scaled(scale="f8E8M0FNU", extent=4),
        "expects 'sfa' to have the shape [16, 2], one factor for 32 elements along K",
        _scaled(),
    ),
    (
        _scaled("f4E2M1FN", "f8E4M3FN", extent=2),
        "expects 'sfa' to have the shape [16, 4], one factor for 16 elements along K",
        _scaled("f4E2M1FN", "f8E4M3FN", extent=4),
    ),
    (
        _scaled("f4E2M1FN", "f8E8M0FNU", extent=8),
        "expects 'sfa' to have the shape [16, 2], one factor for 32 or 16 elements along K",
        _scaled("f4E2M1FN", "f8E8M0FNU", extent=4),
    ),
]


def _conv(
    params: str = "filter = [1], stride = [1], padding_low = [0], padding_high = [0], dilation = [1]",
    layout: str = "nwc",
    x: str = "tile<1x8x16xf16>",
    c: str = "tile<1x8x4xf32>",
) -> str:
    w = "tile<4x1x16xf16>"
    return _module(
        f"%x: {x}, %w: {w}, %c: {c}",
        "%y = nv_tileaa.conv_dot %x, %w, %c {conv_params = "
        f"#nv_tileaa.conv_params<{params}>, activation_layout = {layout}}} : {x}, {w}, {c} -> {c}",
    )


def conv_params(filter_: str, stride: str = "[1]", dilation: str = "[1]") -> str:
    return (
        f"filter = {filter_}, stride = {stride}, padding_low = [0], padding_high = [0], "
        f"dilation = {dilation}"
    )


_BODY = (
    "{\n^bb0(%e: f32, %s: f32):\n  %r = nv_tileaa.addf %e, %s : f32\n  nv_tileaa.yield %r : f32\n}"
)


def _reduce(
    attributes: str = "axis = 1, identities = [0.0 : f32]",
    result: str = "tile<8xf32>",
    body: str = _BODY,
) -> str:
    return f"%s = nv_tileaa.reduce %tile {{{attributes}}} : tile<8x16xf32> -> {result} {body}"


def _scan(
    attributes: str = "axis = 0, identities = [0.0 : f32]",
    result: str = "tile<8xf32>",
    body: str = _BODY,
) -> str:
    return f"%s = nv_tileaa.scan %f {{{attributes}}} : tile<8xf32> -> {result} {body}"


CONTRACTION = [
    Case(
        "conv_dot",
        "aa-dot-types",
        "expects #C element type to be either f32 or f16, but got f64",
        _conv(c="tile<1x8x4xf64>"),
        _conv(c="tile<1x8x4xf16>"),
    ),
    Case(
        "conv_dot",
        "aa-convolution",
        "expects filter size must be in range 1 to 3",
        _conv(conv_params("[]")),
        _conv(),
    ),
    Case(
        "conv_dot",
        "aa-convolution",
        "expects conv params size matched with each other",
        _conv(conv_params("[1]", stride="[1, 1]")),
        _conv(conv_params("[1]", stride="[2]")),
    ),
    Case(
        "conv_dot",
        "aa-convolution",
        "expects every dilation of conv_params to be at least 1, but got [0]",
        _conv(conv_params("[1]", dilation="[0]")),
        _conv(conv_params("[1]", dilation="[2]")),
    ),
    Case(
        "conv_dot",
        "aa-convolution",
        "layout nhwc has 2 spatial axes, but conv_params is for 1",
        _conv(layout="nhwc"),
        _conv(layout="ncw"),
    ),
    Case(
        "conv_dot",
        "aa-convolution",
        "expected 'activation' to have an axis for each letter of nwc, 3",
        _conv(x="tile<8x16xf16>"),
        _conv(x="tile<2x8x16xf16>"),
    ),
    Case(
        "reduce",
        "aa-axis",
        "axis 2 is outside of [0, 2)",
        _reduce("axis = 2, identities = [0.0 : f32]"),
        _reduce("axis = 1, identities = [0.0 : f32]"),
    ),
    Case(
        "reduce",
        "aa-shape",
        "expected result 0 to be 'tile<8xf32>', got 'tile<16xf32>'",
        _reduce(result="tile<16xf32>"),
        _reduce("axis = 0, identities = [0.0 : f32]", result="tile<16xf32>"),
    ),
    Case(
        "reduce",
        "aa-element-type",
        "expected identities of types f32, one for each operand, got f64",
        _reduce("axis = 1, identities = [0.0 : f64]"),
        _reduce("axis = 1, identities = [1.0 : f32]"),
    ),
    Case(
        "reduce",
        "aa-element-type",
        "expected identities of types f32, one for each operand, got none",
        _reduce("axis = 1, identities = []"),
        _reduce(),
    ),
    Case(
        "reduce",
        "aa-count",
        "got 1 operands and 2 results",
        "%s:2 = nv_tileaa.reduce %f {axis = 0, identities = [0.0 : f32]} : tile<8xf32> -> f32, f32 "
        + _BODY,
        "%s = nv_tileaa.reduce %f {axis = 0, identities = [0.0 : f32]} : tile<8xf32> -> f32 "
        + _BODY,
    ),
    Case(
        "reduce",
        "aa-body-arguments",
        "expected body arguments of types (f32, f32), got (f32)",
        _reduce(body="{\n^bb0(%e: f32):\n  nv_tileaa.yield %e : f32\n}"),
        _reduce(body="{\n^bb0(%e: f32, %s: f32):\n  nv_tileaa.yield %e : f32\n}"),
    ),
    Case(
        "reduce",
        "aa-yield-types",
        "expected the region to yield (f32), got (i32)",
        _reduce(body="{\n^bb0(%e: f32, %s: f32):\n  nv_tileaa.yield %n : i32\n}"),
        _reduce(body="{\n^bb0(%e: f32, %s: f32):\n  nv_tileaa.yield %x : f32\n}"),
    ),
    Case(
        "reduce",
        "aa-impure-body",
        "only operations without memory effects may stand inside 'nv_tileaa.reduce'",
        _reduce(
            body="{\n^bb0(%e: f32, %s: f32):\n  nv_tileaa.store %p32, %e : !nv_tileaa.ptr<f32, 1>, f32\n"
            "  nv_tileaa.yield %e : f32\n}"
        ),
        _reduce(),
    ),
    Case(
        "reduce",
        "aa-impure-body",
        "uses a tile",
        _reduce(
            body="{\n^bb0(%e: f32, %s: f32):\n  %y = nv_tileaa.extract %f[%i] : tile<8xf32>, index -> f32\n"
            "  nv_tileaa.yield %y : f32\n}"
        ),
        _reduce(
            body="{\n^bb0(%e: f32, %s: f32):\n  %y = nv_tileaa.mulf %e, %x : f32\n"
            "  nv_tileaa.yield %y : f32\n}"
        ),
    ),
    Case(
        "reduce",
        "type-relation",
        "have same shape",
        "%s:2 = nv_tileaa.reduce %f, %h {axis = 0, identities = [0.0 : f32, 0.0 : f32]} "
        ": tile<8xf32>, tile<4xf32> -> f32, f32 {\n"
        "^bb0(%e: f32, %u: f32, %v: f32, %w: f32):\n  nv_tileaa.yield %e, %v : f32, f32\n}",
        "%s:2 = nv_tileaa.reduce %f, %g {axis = 0, identities = [0.0 : f32, 0.0 : f32]} "
        ": tile<8xf32>, tile<8xf32> -> f32, f32 {\n"
        "^bb0(%e: f32, %u: f32, %v: f32, %w: f32):\n  nv_tileaa.yield %e, %v : f32, f32\n}",
        {"h": "tile<4xf32>"},
    ),
    Case(
        "scan",
        "aa-shape",
        "expected result 0 to be 'tile<8xf32>', got 'tile<4xf32>'",
        _scan(result="tile<4xf32>"),
        _scan(),
    ),
    Case(
        "scan",
        "aa-axis",
        "axis -1 is outside of [0, 1)",
        _scan("axis = -1 : i32, identities = [0.0 : f32]"),
        _scan("axis = 0, reverse = false, identities = [0.0 : f32]"),
    ),
    Case(
        "histogram",
        "aa-mask",
        "expected the mask to have the shape of the values, [8]",
        "%h = nv_tileaa.histogram %k, %c : tile<8xi32>, i1 -> tile<16xi32>",
        "%h = nv_tileaa.histogram %k, %mask : tile<8xi32>, tile<8xi1> -> tile<16xi32>",
    ),
    Case(
        "histogram",
        "result-type",
        "must be a tile of i32 of rank 1, but got 'tile<16xi64>'",
        "%h = nv_tileaa.histogram %k : tile<8xi32> -> tile<16xi64>",
        "%h = nv_tileaa.histogram %k : tile<8xi32> -> tile<16xi32>",
    ),
]

CASES = [*ARITHMETIC, *DOT, *CONTRACTION]
