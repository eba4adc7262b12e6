"""Write docs/reference/agreement.md: each operation with each element type on each machine.

``python tools/agreement.py`` runs small kernels on all machines, which takes some minutes; with
``--check`` nothing is written, and the exit code is 1 where the page is not up to date.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "agreement.md"
sys.path.insert(0, str(ROOT))

from tests.every_machine import MACHINES  # noqa: E402
from tests.machine.kernels import ELEMENTS, kernel_text  # noqa: E402
from tests.machine.test_ops import CASES, Case  # noqa: E402

from tilewright.analysis.verifier import find_problems  # noqa: E402
from tilewright.diagnostics import TileIRError  # noqa: E402
from tilewright.dialects.cuda_tile.base import OPERATIONS  # noqa: E402
from tilewright.lowering.tileaa.table import LOWERINGS  # noqa: E402
from tilewright.machine.compile import IMPLEMENTATIONS  # noqa: E402
from tilewright.numerics.element_types import FORMATS  # noqa: E402
from tilewright.text import parse  # noqa: E402

SHOWN = ("reference", "cpu", "sim:sm_80", "sim:sm_90a", "sim:sm_120a")
COUNT, ROWS = 64, 16
#: How many jobs one kernel does: compiling takes most of the time.
BATCH = 10
DTYPES = {name: dtype for dtype, name in ELEMENTS.items()}
#: Types without arrays in NumPy, and the type from which and to which a kernel converts them.
CARRIERS = {"tf32": "f32", "f8E5M3FNU": "f32", "f4E2M1FN": "f32", "i4": "i32"}
TYPES = (*DTYPES, *CARRIERS)
FLOATS = tuple(name for name in TYPES if name in FORMATS and FORMATS[name].is_float)
INTS = tuple(name for name in TYPES if name not in FLOATS)

# -- what is run -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kernel:
    """A body that computes ``%r``, or fills the memory behind ``%ptr_r``, from ``%a``, ``%b`` and ``%c``.

    ``{T}`` is the tile of 64 elements that the inputs are, ``{t}`` their type; local names begin with
    ``%l_``. ``result`` is the type of the elements of ``%r``, ``shape`` its extents. ``inputs`` says
    what numbers fit, ``sums`` over how many products or elements an element of the result goes.
    """

    body: str
    result: str = ""
    shape: tuple[int, ...] = (COUNT,)
    inputs: str = "any"
    sums: int = 0


def _unary(op: str) -> list[Kernel]:
    return [Kernel(f"%r = {op} %a : {{T}}")]


def _binary(op: str, *flags: str, inputs: str = "any") -> list[Kernel]:
    return [Kernel(f"%r = {op} %a, %b {flag} : {{T}}", inputs=inputs) for flag in flags or ("",)]


_BOTH = ("signed", "unsigned")
_TRUTH = "tile<64xi1>"
_POINTERS = """
%l_1 = reshape %ptr_{where} : tile<ptr<{{t}}>> -> tile<1xptr<{{t}}>>
%l_2 = broadcast %l_1 : tile<1xptr<{{t}}>> -> tile<64xptr<{{t}}>>
%l_i = iota : tile<64xi32>
%l_p = offset %l_2, %l_i : tile<64xptr<{{t}}>>, tile<64xi32> -> tile<64xptr<{{t}}>>
"""
_FROM, _TO = _POINTERS.format(where="a"), _POINTERS.format(where="r")
_MODES = ("add", "and", "or", "xor", "max", "min", "umax", "umin", "xchg", "addf")


def _conversions(op: str, targets: Iterable[str], *flags: str, inputs: str = "any") -> list[Kernel]:
    return [
        Kernel(f"%r = {op} %a {flag} : {{T}} -> tile<64x{to}>", to, inputs=inputs)
        for to in targets
        for flag in flags or ("",)
    ]


def _fold(op: str, inner: str, identity: str) -> Kernel:
    """Along the second axis of 16 x 4; ``inner`` combines two elements."""
    flag = "reverse=false " if op == "scan" else ""
    shape = (ROWS, 4) if op == "scan" else (ROWS,)
    dims = "x".join(map(str, shape))
    return Kernel(
        "%l_m = reshape %a : {T} -> tile<16x4x{t}>\n"
        f"%r = {op} %l_m dim=1 {flag}identities=[{identity} : {{t}}] : tile<16x4x{{t}}> -> "
        f"tile<{dims}x{{t}}> (%l_x: tile<{{t}}>, %l_y: tile<{{t}}>) {{{{\n"
        f"%l_z = {inner} : tile<{{t}}>\nyield %l_z : tile<{{t}}>\n}}}}",
        shape=shape,
        sums=4,
        inputs="moderate",
    )


def _folds(op: str) -> list[Kernel]:
    pair = "%l_x, %l_y"
    return [
        _fold(op, f"addi {pair}", "0"),
        _fold(op, f"maxi {pair} signed", "0"),
        _fold(op, f"addf {pair}", "0.0"),
        _fold(op, f"maxf {pair}", "0.0"),
    ]


def _product(op: str, flags: str, sums: str) -> Kernel:
    return Kernel(
        "%l_a = reshape %a : {T} -> tile<8x8x{t}>\n%l_b = reshape %b : {T} -> tile<8x8x{t}>\n"
        f"%l_c = constant <{sums}: {'0.0' if op == 'mmaf' else '0'}> : tile<8x8x{sums}>\n"
        f"%r = {op} %l_a, %l_b, %l_c {flags} : tile<8x8x{{t}}>, tile<8x8x{{t}}>, tile<8x8x{sums}>",
        sums,
        (8, 8),
        "moderate",
        8,
    )


_VIEWS = Kernel("%r = reshape %a : {T} -> {T}")
_THROUGH_POINTERS = Kernel(
    _FROM
    + "%l_v, %l_t = load_ptr_tko weak %l_p : tile<64xptr<{t}>> -> {T}, token\n"
    + _TO.replace("%l_", "%l_s")
    + "%l_u = store_ptr_tko weak %l_sp, %l_v token = %l_t : tile<64xptr<{t}>>, {T} -> token"
)

KERNELS: dict[str, list[Kernel]] = {
    **{op: _unary(op) for op in ("absf", "negf", "ceil", "floor", "sqrt", "rsqrt", "exp", "exp2")},
    **{op: _unary(op) for op in ("log", "log2", "sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{op: _unary(op) for op in ("absi", "negi")},
    **{op: _binary(op) for op in ("addf", "subf", "mulf", "divf", "remf", "fpowf", "atan2")},
    **{op: _binary(op, "", "propagate_nan") for op in ("maxf", "minf")},
    **{op: _binary(op) for op in ("addi", "subi", "muli", "mulhii", "andi", "ori", "xori")},
    **{op: _binary(op, *_BOTH) for op in ("maxi", "mini")},
    **{op: _binary(op, *_BOTH, inputs="divisor") for op in ("divi", "remi")},
    "shli": _binary("shli", inputs="shift"),
    "shri": _binary("shri", *_BOTH, inputs="shift"),
    "fma": [Kernel("%r = fma %a, %b, %c : {T}")],
    "fpowi": [
        Kernel(
            "%l_n = iota : tile<64xi32>\n%l_6 = constant <i32: 30> : tile<64xi32>\n"
            "%l_e = subi %l_n, %l_6 : tile<64xi32>\n%r = fpowi %a, %l_e : {T}, tile<64xi32>"
        )
    ],
    "cmpf": [
        Kernel(f"%r = cmpf {how} {order} %a, %b : {{T}} -> {_TRUTH}", "i1")
        for how in ("equal", "not_equal", "less_than", "greater_than_or_equal")
        for order in ("ordered", "unordered")
    ],
    "cmpi": [
        Kernel(f"%r = cmpi {how} %a, %b, {sign} : {{T}} -> {_TRUTH}", "i1")
        for how in ("equal", "less_than", "greater_than_or_equal")
        for sign in _BOTH
    ],
    "select": [
        Kernel(
            "%l_n = iota : tile<64xi32>\n%l_6 = constant <i32: 30> : tile<64xi32>\n"
            f"%l_c = cmpi less_than %l_n, %l_6, signed : tile<64xi32> -> {_TRUTH}\n"
            f"%r = select %l_c, %a, %b : {_TRUTH}, {{T}}"
        )
    ],
    "bitcast": _conversions("bitcast", TYPES),
    "exti": _conversions("exti", INTS, *_BOTH),
    "trunci": _conversions("trunci", INTS),
    "ftof": _conversions("ftof", FLOATS, "", "rounding<positive_inf>"),
    "ftoi": _conversions("ftoi", INTS, *_BOTH, inputs="small"),
    "itof": _conversions("itof", FLOATS, *_BOTH),
    "constant": [Kernel("%r = constant <{t}: {one}> : {T}")],
    "iota": [Kernel("%r = iota : {T}")],
    "reshape": [Kernel("%r = reshape %a : {T} -> tile<16x4x{t}>", shape=(16, 4))],
    "broadcast": [
        Kernel(
            "%l_m = reshape %a : {T} -> tile<1x64x{t}>\n"
            "%r = broadcast %l_m : tile<1x64x{t}> -> tile<4x64x{t}>",
            shape=(4, 64),
        )
    ],
    "permute": [
        Kernel(
            "%l_m = reshape %a : {T} -> tile<16x4x{t}>\n"
            "%r = permute %l_m [1, 0] : tile<16x4x{t}> -> tile<4x16x{t}>",
            shape=(4, 16),
        )
    ],
    "cat": [Kernel("%r = cat %a, %b dim = 0 : {T}, {T} -> tile<128x{t}>", shape=(128,))],
    "extract": [
        Kernel(
            "%l_i = constant <i32: 1> : tile<i32>\n%r = extract %a[%l_i] : {T} -> tile<16x{t}>",
            shape=(16,),
        )
    ],
    "insert": [
        Kernel(
            "%l_i = constant <i32: 1> : tile<i32>\n%l_x = extract %b[%l_i] : {T} -> tile<16x{t}>\n"
            "%r = insert %l_x, %a[%l_i] : tile<16x{t}>, {T}"
        )
    ],
    "pack": [Kernel("%r = pack %a : {T} -> tile<{bytes}xi8>", "i8", (-1,))],
    "unpack": [
        Kernel(
            "%l_b = pack %a : {T} -> tile<{bytes}xi8>\n%r = unpack %l_b : tile<{bytes}xi8> -> {T}"
        )
    ],
    "reduce": _folds("reduce"),
    "scan": _folds("scan"),
    "mmaf": [_product("mmaf", "", sums) for sums in ("f16", "f32", "f64")],
    "mmai": [_product("mmai", f"{x} {y}", "i32") for x in _BOTH for y in _BOTH],
    **{
        op: [_VIEWS]
        for op in ("load_view_tko", "store_view_tko", "make_tensor_view", "make_partition_view")
    },
    **{op: [_THROUGH_POINTERS] for op in ("load_ptr_tko", "store_ptr_tko", "offset")},
    "atomic_rmw_tko": [
        Kernel(
            _TO + f"%l_o, %l_t = atomic_rmw_tko relaxed device %l_p, {mode}, %a "
            ": tile<64xptr<{t}>>, {T} -> {T}, token",
            inputs="moderate",
        )
        for mode in _MODES
    ],
    "atomic_cas_tko": [
        Kernel(
            _TO + "%l_o, %l_t = atomic_cas_tko relaxed device %l_p, %b, %a "
            ": tile<64xptr<{t}>>, {T} -> {T}, token"
        )
    ],
    **{
        op: [
            Kernel(
                "%l_n = ptr_to_int %ptr_a : tile<ptr<{t}>> -> tile<i64>\n"
                "%l_q = int_to_ptr %l_n : tile<i64> -> tile<ptr<{t}>>\n"
                "%l_v, %l_t = load_ptr_tko weak %l_q : tile<ptr<{t}>> -> tile<{t}>, token\n"
                "%r = reshape %l_v : tile<{t}> -> tile<1x{t}>",
                shape=(1,),
            )
        ]
        for op in ("ptr_to_int", "int_to_ptr")
    },
    "ptr_to_ptr": [
        Kernel(
            "%l_q = ptr_to_ptr %ptr_a : tile<ptr<{t}>> -> tile<ptr<i8>>\n"
            "%l_v, %l_t = load_ptr_tko weak %l_q : tile<ptr<i8>> -> tile<i8>, token\n"
            "%r = reshape %l_v : tile<i8> -> tile<1xi8>",
            "i8",
            (1,),
        )
    ],
}
"""Operations that take several element types. The others are run as ``tests/machine/test_ops.py`` has them."""

#: How far a result may be from the reference's, in units of its last place, where it is not the same.
#: Tests of ``tests/cpu/mathlib`` hold the functions of the CPU against exact results; the reference
#: is within half a unit of those.
ULP: dict[str, int] = {
    **dict.fromkeys(
        ("exp", "exp2", "log", "log2", "tan", "cosh", "tanh", "rsqrt", "fpowf", "fpowi"), 2
    ),
    **dict.fromkeys(("sin", "cos", "sinh", "atan2"), 3),
}


#: What is known to differ, by operation, type of the result and machine.
DIFFERS: dict[tuple[str, str, str], str] = {}


# -- numbers ---------------------------------------------------------------------------------------


def _floats(rng: np.random.Generator, what: str) -> np.ndarray:
    if what == "small":
        return rng.uniform(0, 2, COUNT) // 1
    if what == "moderate":
        return rng.standard_normal(COUNT)
    numbers = rng.standard_normal(COUNT) * 2.0 ** rng.integers(-20, 20, COUNT)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 1e-40, 1e-310, 65504.0, 3e38]
    numbers[: len(special)] = special
    return numbers


def _integers(rng: np.random.Generator, dtype: np.dtype, what: str, name: str) -> np.ndarray:
    bits = 8 * dtype.itemsize
    if what == "shift":
        return (rng.integers(0, bits, COUNT) if name == "b" else _whole(rng, bits)).astype(dtype)
    if what == "divisor" and name == "b":
        return rng.integers(1, min(100, 1 << bits - 2), COUNT).astype(dtype)
    return _whole(rng, bits).astype(dtype)


def _whole(rng: np.random.Generator, bits: int) -> np.ndarray:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    found = rng.integers(low, high, COUNT, endpoint=True)
    found[:6] = [0, 1, -1, low, high, low + 1]
    return found


def numbers(element: str, what: str, name: str) -> np.ndarray:
    """The input of that name, the same in every run and for every operation."""
    rng = np.random.default_rng(crc32(f"{what} {element} {name}".encode()))
    dtype = np.dtype(DTYPES[element])
    if element == "i1":
        if what == "divisor":  # -1 by -1 overflows
            return np.full(COUNT, name == "b")
        return rng.integers(0, 2, COUNT) > 0
    if what == "shift" and name == "b":
        return (rng.integers(0, 8 * dtype.itemsize, COUNT)).astype(dtype)
    if dtype.kind == "i":
        return _integers(rng, dtype, what, name)
    with np.errstate(over="ignore", invalid="ignore"):
        found = _floats(rng, what)
        return (np.abs(found) if element == "f8E8M0FNU" else found).astype(dtype)


# -- runs ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """The body of a kernel for an element type, and its arrays; the result is ``%{into}``."""

    op: str
    element: str
    kernel: Kernel
    body: str
    inputs: dict[str, np.ndarray]
    result: np.ndarray
    into: str


def _carried(element: str) -> str:
    return CARRIERS.get(element, element)


def _convert(name: str, source: str, target: str, shape: str) -> str:
    """``%name`` of one type from ``%name_c`` of its carrier, or back as ``%name_c``."""
    to_carrier = source in CARRIERS
    op = (
        {True: "exti {0} signed", False: "trunci {0}"}[to_carrier]
        if "i4" in (source, target)
        else ("ftof {0}")
    )
    given, made = (f"%{name}", f"%{name}_c") if to_carrier else (f"%{name}_c", f"%{name}")
    return f"{made} = {op.format(given)} : tile<{shape}x{source}> -> tile<{shape}x{target}>\n"


def job(op: str, element: str, kernel: Kernel) -> Job | None:
    """The kernel with its arrays; None where the verifier refuses it, so that it is none of the language."""
    held, result = _carried(element), kernel.result or element
    if element in CARRIERS and "%ptr_" in kernel.body:
        return None
    width = FORMATS[element].bits if element in FORMATS else 8
    body = kernel.body.format(
        T=f"tile<{COUNT}x{element}>",
        t=element,
        one="true" if element == "i1" else "1" if element in INTS else "1.0",
        bytes=COUNT * width // 8,
    )
    shape = tuple(COUNT * width // 8 if extent < 0 else extent for extent in kernel.shape)
    inputs: dict[str, np.ndarray] = {}
    for name in ("a", "b", "c"):
        if re.search(rf"%(ptr_)?{name}\b", body):
            key = name if element == held else f"{name}_c"
            inputs[key] = numbers(held, kernel.inputs, name)
            if element != held:
                body = _convert(name, held, element, str(COUNT)) + body
    into = "r"
    if result in CARRIERS:
        body += "\n" + _convert("r", result, CARRIERS[result], "x".join(map(str, shape)))
        into = "r_c"
    array = np.zeros(shape, DTYPES[_carried(result)])
    made = Job(op, element, kernel, body, inputs, array, into)
    try:
        module = parse(text_of([made]))
    except TileIRError:
        return None
    return None if any(problem.is_error for problem in find_problems(module)) else made


def text_of(jobs: Sequence[Job]) -> str:
    """One kernel that does several jobs on the same inputs, with a result for each."""
    bodies: list[str] = []
    results: dict[str, np.ndarray] = {}
    inputs: dict[str, np.ndarray] = {}
    for number, given in enumerate(jobs):
        body = re.sub(r"%(l_|r\b|r_c\b|[abc]\b(?!_))", rf"%j{number}\1", given.body)
        body = re.sub(r"%ptr_r\b", f"%ptr_j{number}r", body)
        body = re.sub(rf"%j{number}([abc])\b", _input_of(given, number), body)
        bodies.append(body)
        results[f"j{number}{given.into}"] = given.result
        inputs |= given.inputs
    return kernel_text("\n".join(bodies), inputs, results)


def _input_of(given: Job, number: int) -> str:
    """How a job names an input: by its own name where it converts it."""
    return rf"%j{number}\1" if given.element in CARRIERS else r"%\1"


def outcomes(machine: str, jobs: Sequence[Job]) -> list[np.ndarray | str]:
    """What a machine leaves for each job, or why it refuses."""
    inputs: dict[str, np.ndarray] = {}
    for given in jobs:
        inputs |= given.inputs
    arrays = [array.copy() for array in (*inputs.values(), *(g.result for g in jobs))]
    try:
        MACHINES[machine](parse(text_of(jobs)), (1, 1, 1), arrays)
    except TileIRError as error:
        if len(jobs) == 1:
            return [error.diagnostics[0].message]
        half = len(jobs) // 2
        return [*outcomes(machine, jobs[:half]), *outcomes(machine, jobs[half:])]
    return list(arrays[len(inputs) :])


def ulps(found: np.ndarray, expected: np.ndarray) -> int:
    """By how many units in the last place results differ at most; NaN equal each other."""
    bits = np.dtype(f"i{found.itemsize}")
    wide = found.astype(np.float64), expected.astype(np.float64)
    lost = np.isnan(wide[0]) & np.isnan(wide[1])

    def order(array: np.ndarray) -> np.ndarray:
        whole = array.view(bits).astype(object)
        return np.where(whole < 0, -(whole & ((1 << 8 * found.itemsize - 1) - 1)), whole)

    return int(max(np.where(lost, 0, abs(order(found) - order(expected))).ravel(), default=0))


def same(found: np.ndarray, expected: np.ndarray) -> bool:
    if found.tobytes() == expected.tobytes():
        return True
    if found.dtype.kind in "iub":
        return False
    lost = np.isnan(found.astype(np.float64)) & np.isnan(expected.astype(np.float64))
    bits = f"u{found.itemsize}"
    return bool(np.all(lost | (found.view(bits) == expected.view(bits))))


class Disagreement(Exception):
    """A machine gives something else than it may."""


def cell(machine: str, given: Job, found: np.ndarray | str, expected: np.ndarray | str) -> str:
    """What is to be said of one run."""
    if isinstance(found, str):
        return f"no: {found}"
    assert not isinstance(expected, str), expected
    if same(found, expected):
        return "="
    where = f"{given.op} on {given.element}, {machine}: {given.kernel.body}"
    if (
        known := DIFFERS.get((given.op, given.kernel.result, machine.partition(":")[0]))
    ) is not None:
        return f"no: {known}"
    if found.dtype.kind in "iub":
        raise Disagreement(f"{where}: {found} instead of {expected}")
    if given.kernel.sums:
        eps = 2.0 ** -(FORMATS[ELEMENTS[found.dtype]].precision - 1)
        far = np.abs(found.astype(np.float64) - expected.astype(np.float64)).max()
        size = given.kernel.sums * eps * 16
        if far > size:
            raise Disagreement(f"{where}: off by {far}, not {size}")
        return "order"
    bound, far = ULP.get(given.op, 0), ulps(found, expected)
    if far > bound:
        raise Disagreement(f"{where}: {far} ulp, not {bound}")
    return f"{bound} ulp"


# -- operations without element types ------------------------------------------------------------


def _case_outcome(machine: str, case: Case) -> str:
    inputs = {name: np.asarray(value).copy() for name, value in case.inputs.items()}
    start = case.options.get("start", {})
    results = {
        name: np.array(start.get(name, np.zeros_like(np.asarray(value))))
        for name, value in case.expected.items()
    }
    module = parse(kernel_text(case.body, inputs, results, case.globals))
    arrays = [*inputs.values(), *results.values()]
    held = [array.reshape(1) if not array.ndim else array for array in arrays]
    x, y, z = (*case.grid, 1, 1)[:3]
    try:
        MACHINES[machine](module, (x, y, z), held)
    except TileIRError as error:
        return f"no: {error.diagnostics[0].message}"
    for name, value in case.expected.items():
        if not same(results[name].reshape(np.shape(value)), np.asarray(value)):
            raise Disagreement(f"{case.op} on {machine}: {results[name]} instead of {value}")
    return "="


def _without_types(op: str) -> dict[str, list[str]]:
    """The cells of an operation as the hand-checked cases have it."""
    cls = OPERATIONS[op]
    refusals = {"reference": IMPLEMENTATIONS.answer(cls)} | dict.fromkeys(
        SHOWN[1:], LOWERINGS.answer(cls)
    )
    cells: dict[str, list[str]] = {machine: [] for machine in SHOWN}
    cases = [case for case in CASES if case.op == op]
    if not cases:  # what reduces may do so in another order
        named = re.compile(rf"\b{re.escape(op)}\b")
        others = (case for case in CASES if case.op not in ("reduce", "scan"))
        cases = [case for case in others if named.search(case.body + case.globals)]
    if not cases and refusals["reference"].startswith("no"):
        return {machine: [refusals["reference"]] for machine in SHOWN}  # nothing runs it
    for machine in SHOWN:
        if refusals[machine].startswith("no"):
            cells[machine].append(refusals[machine])
            continue
        if not cases:
            cells[machine].append("around")
        cells[machine] += [_case_outcome(machine, case) for case in cases]
    return cells


# -- the page ----------------------------------------------------------------------------------------

HEAD = """\
# One program, every machine

Made by `tools/agreement.py` from runs of small kernels; do not edit it.

Each operation of `cuda_tile`, with each element type that the verifier takes it with, on each machine, beside the reference machine:

* `=`: the same bits, where any NaN is as good as any other;
* `n ulp`: at most so many units in the last place away, which the tests of the CPU's functions hold;
* `order`: the same products and elements, added in another order or with other roundings between them: at most 16 units in the last place
  of one, for each that is added;
* `around`: it is what other operations stand in, and every kernel runs it;
* a number: refused, for the reason below the table. Beside another answer, some forms are.

An element type is that of the first operand, for `iota` and `constant` that of the result. A type that is in no row of an operation is none
that the operation takes, or, for accesses to memory, one of {carriers}, of which NumPy has no arrays; elsewhere
kernels convert them from and to another type. Where types do not matter, `any` stands for the hand-checked kernels of
`tests/machine/test_ops.py`. 64 elements are compared, special numbers among them; f32 and wider sums of moderate ones.

"""


def answers(ops: Iterable[str]) -> dict[str, dict[str, dict[str, list[str]]]]:
    """The cells of operations: by operation, element type and machine.

    Raises ``Disagreement`` with all results that are not what they may be.
    """
    problems: list[str] = []
    found: dict[str, dict[str, dict[str, list[str]]]] = {op: {} for op in ops}
    batches: dict[tuple[str, str], list[Job]] = defaultdict(list)
    for op in found:
        if op not in KERNELS:
            found[op]["any"] = _without_types(op)
        for element in TYPES:
            for kernel in KERNELS.get(op, ()):
                if (made := job(op, element, kernel)) is not None:
                    batches[element, kernel.inputs].append(made)
                    found[op][element] = {machine: [] for machine in SHOWN}
    for jobs in batches.values():
        for start in range(0, len(jobs), BATCH):
            together = jobs[start : start + BATCH]
            expected = outcomes("reference", together)
            for machine in SHOWN:
                ran = expected if machine == "reference" else outcomes(machine, together)
                for given, result, wanted in zip(together, ran, expected, strict=True):
                    try:
                        answer = cell(machine, given, result, wanted)
                    except Disagreement as problem:
                        problems.append(str(problem))
                        continue
                    found[given.op][given.element][machine].append(answer)
    if problems:
        raise Disagreement("\n".join(problems))
    return found


def _summary(cells: Sequence[str], reasons: dict[str, int]) -> str:
    """One cell for several runs: the answers that there are, the reasons as numbers."""
    kinds = sorted({found for found in cells if not found.startswith("no: ")}, key=_rank)[-1:]
    for found in dict.fromkeys(found for found in cells if found.startswith("no: ")):
        reason = _plain(found.removeprefix("no: "))
        kinds.append(f"[{reasons.setdefault(reason, len(reasons) + 1)}]")
    return ", ".join(dict.fromkeys(kinds))


def _rank(answer: str) -> int:
    ranks = {"=": 0, "around": 0, "order": 100}
    return ranks[answer] if answer in ranks else int(answer.split()[0])


def _plain(reason: str) -> str:
    """A reason without the names of values and places that differ from kernel to kernel."""
    return re.sub(r"%\w+", "%x", reason).replace("|", "\\|").replace("\n", " ")


def rows() -> Iterator[tuple[str, str, list[str]]]:
    """Operation, element types with the same cells, and the cells; then the reasons."""
    reasons: dict[str, int] = {}
    for op, by_element in answers(OPERATIONS).items():
        alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for element, by_machine in by_element.items():
            alike[tuple(_summary(by_machine[m], reasons) for m in SHOWN)].append(element)
        for cells, elements in alike.items():
            yield op, ", ".join(elements), list(cells)
    for reason, number in reasons.items():
        yield "", reason, [str(number)]


def page() -> str:
    """The text of the page, after all kernels have been run."""
    carriers = ", ".join(f"`{name}`" for name in CARRIERS)
    lines = [f"| operation | element types | {' | '.join(SHOWN)} |", f"| --- {'| --- ' * 6}|"]
    notes = []
    for op, elements, cells in rows():
        if op:
            lines.append(f"| `{op}` | {elements} | {' | '.join(cells)} |")
        else:
            notes.append(f"{cells[0]}. {elements}")
    body = "\n".join(lines) + "\n\n## Why not\n\n" + "\n".join(notes) + "\n"
    return HEAD.format(carriers=carriers) + body


def main() -> int:
    text = page()
    if "--check" in sys.argv[1:]:
        return int(PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
