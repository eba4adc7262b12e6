"""Programs that break a rule, each beside its nearest legal twin."""

from __future__ import annotations

from tests.dialects.arith.support import Case

_INTEGER_NAMES = (
    "addi subi muli shli divsi divui ceildivsi ceildivui floordivsi remsi remui andi ori xori "
    "shrsi shrui maxsi maxui minsi minui"
)
_INTEGERS = tuple(f"arith.{name}" for name in _INTEGER_NAMES.split())
_EXTREMA = ("arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf")
_FLOATS = (*_EXTREMA, "arith.remf", "math.atan2", "math.powf")
_MATH_NAMES = "absf ceil floor cos sin tan cosh sinh tanh exp log log2"
_UNARY_FLOATS = (
    "arith.negf",
    *(f"math.{name}" for name in _MATH_NAMES.split()),
)
_WORDS = "must be a scalar or tile of i1, i8, i16, i32, i64 or index, but got"
_NUMBERS = "must be a scalar or tile of f16, bf16, f32 or f64, but got"


def _pair(op: str, good: str, ty: str, wanted: str, bad: str, bad_type: str) -> list[Case]:
    """Two operands of a kind and of one type; ``good`` and ``bad`` are values."""
    other = {"i32": "tile<8xi32>", "f32": "tile<8xf32>"}
    return [
        Case(
            op,
            "operand-type",
            f"{wanted} '{bad_type}'",
            f"%s = {op} {bad}, {bad} : {bad_type}",
            f"%s = {op} {good}, {good} : {ty}",
        ),
        Case(
            op,
            "type-relation",
            f"have same type: 'lhs' is '{ty}', 'rhs' is '{other[ty]}'",
            f'%s = "{op}"({good}, %v) : ({ty}, {other[ty]}) -> {ty}',
            f'%s = "{op}"({good}, {good}) : ({ty}, {ty}) -> {ty}',
            {"v": other[ty]},
        ),
    ]


def _unary(op: str, good: str, ty: str, wanted: str, bad: str, bad_type: str) -> list[Case]:
    return [
        Case(
            op,
            "operand-type",
            f"{wanted} '{bad_type}'",
            f"%s = {op} {bad} : {bad_type}",
            f"%s = {op} {good} : {ty}",
        ),
        Case(
            op,
            "type-relation",
            "have same type",
            f'%s = "{op}"({good}) : ({ty}) -> tile<8x{ty}>',
            f'%s = "{op}"({good}) : ({ty}) -> {ty}',
        ),
    ]


KINDS = [
    *(c for op in _INTEGERS for c in _pair(op, "%n", "i32", _WORDS, "%f", "tile<8xf32>")),
    *(c for op in _FLOATS for c in _pair(op, "%x", "f32", _NUMBERS, "%k", "tile<8xi32>")),
    *(c for op in _UNARY_FLOATS for c in _unary(op, "%x", "f32", _NUMBERS, "%n", "i32")),
    *_unary("math.absi", "%n", "i32", _WORDS, "%x", "f32"),
]

PROPERTIES = [
    *(
        Case(
            op,
            "aa-flush-to-zero",
            "flush_to_zero exists for f32 only, but the elements are f16",
            f"%s = {op} %h, %h {{flush_to_zero}} : f16",
            f"%s = {op} %x, %x {{flush_to_zero}} : f32",
            {"h": "f16"},
        )
        for op in _EXTREMA
    ),
    *(
        Case(
            op,
            "arith-rounding-mode",
            f"'{op}' is one of: approx, full, but got: nearest_even",
            f"%s = {op} %x {{rounding_mode = nearest_even}} : f32",
            f"%s = {op} %x {{rounding_mode = approx}} : f32",
        )
        for op in ("math.exp", "math.tanh")
    ),
    *(
        Case(
            op,
            "arith-rounding-mode",
            "rounding mode approx exists for f32 only, but the elements are f64",
            f"%s = {op} %d {{rounding_mode = approx}} : tile<4xf64>",
            f"%s = {op} %d {{rounding_mode = full}} : tile<4xf64>",
            {"d": "tile<4xf64>"},
        )
        for op in ("math.exp", "math.tanh")
    ),
]

COMPARISONS = [
    Case(
        "arith.cmpi",
        "arith-predicate",
        "expected predicate to be one of: eq, ne, slt, sle, sgt, sge, ult, ule, ugt, uge, got: 10",
        '%s = "arith.cmpi"(%n, %n) <{predicate = 10 : i64}> : (i32, i32) -> i1',
        '%s = "arith.cmpi"(%n, %n) <{predicate = 9 : i64}> : (i32, i32) -> i1',
    ),
    Case(
        "arith.cmpf",
        "arith-predicate",
        "got: uno",
        '%s = "arith.cmpf"(%x, %x) <{predicate = 14 : i64}> : (f32, f32) -> i1',
        '%s = "arith.cmpf"(%x, %x) <{predicate = 13 : i64}> : (f32, f32) -> i1',
    ),
    Case(
        "arith.cmpi",
        "type-relation",
        "have same shape: 'lhs' is 'tile<8xi32>', 'result' is 'i1'",
        '%s = "arith.cmpi"(%k, %k) <{predicate = 0 : i64}> : (tile<8xi32>, tile<8xi32>) -> i1',
        '%s = "arith.cmpi"(%k, %k) <{predicate = 0 : i64}> '
        ": (tile<8xi32>, tile<8xi32>) -> tile<8xi1>",
    ),
    Case(
        "arith.cmpi",
        "operand-type",
        f"{_WORDS} '!nv_tileaa.ptr<f32, 1>'",
        "%s = arith.cmpi eq, %p32, %p32 : !nv_tileaa.ptr<f32, 1>",
        "%s = arith.cmpi eq, %m, %m : i64",
    ),
    Case(
        "arith.cmpf",
        "operand-type",
        f"{_NUMBERS} 'f8E5M2'",
        "%s = arith.cmpf olt, %e, %e : f8E5M2",
        "%s = arith.cmpf olt, %x, %x : f32",
        {"e": "f8E5M2"},
    ),
    Case(
        "arith.select",
        "arith-condition",
        "expected the condition to be 'i1' or to have the shape of 'tile<8x16xf32>', got 'tile<8xi1>'",
        "%s = arith.select %mask, %tile, %tile : tile<8xi1>, tile<8x16xf32>",
        "%s = arith.select %c, %tile, %tile : tile<8x16xf32>",
    ),
    Case(
        "arith.select",
        "arith-condition",
        "to have the shape of '!nv_tileaa.mem_token', got 'tile<8xi1>'",
        "%s = arith.select %mask, %t, %t : tile<8xi1>, !nv_tileaa.mem_token",
        "%s = arith.select %c, %t, %t : !nv_tileaa.mem_token",
    ),
    Case(
        "arith.select",
        "operand-type",
        "must be a scalar or tile of i1, but got 'tile<8xi32>'",
        "%s = arith.select %k, %f, %g : tile<8xi32>, tile<8xf32>",
        "%s = arith.select %mask, %f, %g : tile<8xi1>, tile<8xf32>",
    ),
    Case(
        "arith.select",
        "type-relation",
        "have same type: 'true_value' is 'i32', 'false_value' is 'i64'",
        '%s = "arith.select"(%c, %n, %m) : (i1, i32, i64) -> i32',
        '%s = "arith.select"(%c, %n, %n) : (i1, i32, i32) -> i32',
    ),
]

_SHAPES = {
    "arith.extsi": ("i32", "i64"),
    "arith.extui": ("i32", "i64"),
    "arith.trunci": ("i32", "i8"),
    "arith.index_cast": ("i32", "index"),
    "arith.index_castui": ("i32", "index"),
    "arith.bitcast": ("i32", "f32"),
    "arith.sitofp": ("i32", "f32"),
    "arith.uitofp": ("i32", "f16"),
    "arith.fptosi": ("f32", "i32"),
    "arith.fptoui": ("f32", "i8"),
}
CONVERSIONS = [
    *(
        Case(
            op,
            "type-relation",
            f"have same shape: 'source' is 'tile<8x{source}>', 'result' is 'tile<4x{result}>'",
            f"%s = {op} %v : tile<8x{source}> to tile<4x{result}>",
            f"%s = {op} %v : tile<8x{source}> to tile<8x{result}>",
            {"v": f"tile<8x{source}>"},
        )
        for op, (source, result) in _SHAPES.items()
    ),
    *(
        Case(
            op,
            "arith-width",
            "expected a result wider than the 32 bits of the operand, got 32",
            f"%s = {op} %n : i32 to i32",
            f"%s = {op} %n : i32 to i64",
        )
        for op in ("arith.extsi", "arith.extui")
    ),
    Case(
        "arith.trunci",
        "arith-width",
        "expected a result narrower than the 32 bits of the operand, got 64",
        "%s = arith.trunci %n : i32 to i64",
        "%s = arith.trunci %n : i32 to i4",
    ),
    Case(
        "arith.bitcast",
        "arith-width",
        "expected elements of one width, got 19 and 32 bits",
        "%s = arith.bitcast %v : tf32 to i32",
        "%s = arith.bitcast %x : f32 to i32",
        {"v": "tf32"},
    ),
    Case(
        "arith.bitcast",
        "operand-type",
        "must be a scalar or tile of numbers other than i4, but got 'i4'",
        "%s = arith.bitcast %v : i4 to f4E2M1FN",
        "%s = arith.bitcast %w : f4E2M1FN to f4E2M1FN",
        {"v": "i4", "w": "f4E2M1FN"},
    ),
    *(
        Case(
            op,
            "arith-index-cast",
            f"expected index on one side and integers on the other, got '{source}' and '{source}'",
            f"%s = {op} {value} : {source} to {source}",
            f"%s = {op} {value} : {source} to {result}",
        )
        for op, value, source, result in (
            ("arith.index_cast", "%n", "i32", "index"),
            ("arith.index_castui", "%i", "index", "i32"),
        )
    ),
    *(
        Case(
            op,
            "arith-conversion",
            "integers have no conversion to f8E8M0FNU",
            f"%s = {op} %n : i32 to f8E8M0FNU",
            f"%s = {op} %n : i32 to f8E4M3FN",
        )
        for op in ("arith.sitofp", "arith.uitofp")
    ),
    Case(
        "arith.fptosi",
        "result-type",
        "must be a scalar or tile of i1, i8, i16, i32 or i64, but got 'index'",
        "%s = arith.fptosi %x : f32 to index",
        "%s = arith.fptosi %x : f32 to i64",
    ),
    Case(
        "arith.extsi",
        "operand-type",
        "must be a scalar or tile of i1, i4, i8, i16, i32 or i64, but got 'index'",
        "%s = arith.extsi %i : index to i64",
        "%s = arith.extsi %n : i32 to i64",
    ),
    Case(
        "math.fpowi",
        "operand-type",
        "must be a scalar or tile of i1, i8, i16 or i32, but got 'i64'",
        "%s = math.fpowi %x, %m : f32, i64",
        "%s = math.fpowi %x, %n : f32, i32",
    ),
    Case(
        "math.fpowi",
        "type-relation",
        "have same shape: 'lhs' is 'tile<8xf32>', 'rhs' is 'i32'",
        "%s = math.fpowi %f, %n : tile<8xf32>, i32",
        "%s = math.fpowi %f, %k : tile<8xf32>, tile<8xi32>",
    ),
]

CONSTANTS = [
    Case(
        "arith.constant",
        "arith-constant",
        "the value is of type 'i32', but the result of type 'i64'",
        '%s = "arith.constant"() <{value = 0 : i32}> : () -> i64',
        '%s = "arith.constant"() <{value = 0 : i64}> : () -> i64',
    ),
    Case(
        "arith.constant",
        "arith-constant",
        "the value is of type 'tile<4xf32>', but the result of type 'tile<8xf32>'",
        '%s = "arith.constant"() <{value = dense<0.0> : tile<4xf32>}> : () -> tile<8xf32>',
        '%s = "arith.constant"() <{value = dense<0.0> : tile<8xf32>}> : () -> tile<8xf32>',
    ),
]

CASES = [*KINDS, *PROPERTIES, *COMPARISONS, *CONVERSIONS, *CONSTANTS]
