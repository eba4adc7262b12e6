"""The cuTile corpus: it exports, NVIDIA's disassembler reads it, and it reaches every op it can."""

from __future__ import annotations

import copy
import re
from typing import Any

import numpy as np
import pytest
from tests.corpus import (
    CUTILE_MISSING,
    VERSIONS,
    CorpusKernel,
    cutile_available,
    cutile_kernels,
)
from tests.oracles import OracleRejected, disassemble, requires_tileirdisasm
from tests.sampling import is_long

pytestmark = pytest.mark.skipif(not cutile_available(), reason=CUTILE_MISSING)

KERNELS = tuple(cutile_kernels()) if cutile_available() else ()
READABLE = tuple(kernel for kernel in KERNELS if not kernel.refusal)
REFUSED = tuple(kernel for kernel in KERNELS if kernel.refusal)
RUNNABLE = tuple(kernel for kernel in KERNELS if kernel.launch)

REACHED = frozenset(
    [
        "absf",
        "absi",
        "addf",
        "addi",
        "andi",
        "assert",
        "assume",
        "atan2",
        "atomic_cas_tko",
        "atomic_red_view_tko",
        "atomic_rmw_tko",
        "bitcast",
        "break",
        "broadcast",
        "cat",
        "ceil",
        "cmpf",
        "cmpi",
        "constant",
        "continue",
        "cos",
        "cosh",
        "divf",
        "divi",
        "entry",
        "exp",
        "exp2",
        "exti",
        "extract",
        "floor",
        "fma",
        "for",
        "fpowf",
        "fpowi",
        "ftof",
        "ftoi",
        "gdc_launch_dependents_tko",
        "gdc_wait_tko",
        "get_global",
        "get_index_space_shape",
        "get_num_tile_blocks",
        "get_tile_block_id",
        "global",
        "if",
        "insert",
        "int_to_ptr",
        "iota",
        "itof",
        "join_tokens",
        "load_ptr_tko",
        "load_view_tko",
        "log",
        "log2",
        "loop",
        "make_gather_scatter_view",
        "make_partition_view",
        "make_strided_view",
        "make_tensor_view",
        "make_token",
        "maxf",
        "maxi",
        "minf",
        "mini",
        "mmaf",
        "mmaf_scaled",
        "mmai",
        "mulf",
        "muli",
        "negf",
        "negi",
        "offset",
        "ori",
        "pack",
        "permute",
        "print_tko",
        "reduce",
        "remf",
        "remi",
        "reshape",
        "return",
        "rsqrt",
        "scan",
        "select",
        "shli",
        "shri",
        "sin",
        "sinh",
        "sqrt",
        "store_ptr_tko",
        "store_view_tko",
        "subf",
        "subi",
        "tan",
        "tanh",
        "trunci",
        "unpack",
        "xori",
        "yield",
    ]
)

NOT_EMITTED = {
    "alloca": "cuTile has no local memory",
    "get_tensor_shape": "cuTile takes shapes from the kernel's parameters",
    "memory_fence_alias_tko": "no cuTile function asks for it",
    "mulhii": "cuTile has no high half of a product",
    "multimem_load_reduce_view_tko": "cuTile has no multicast memory",
    "multimem_reduce_view_tko": "cuTile has no multicast memory",
    "multimem_store_view_tko": "cuTile has no multicast memory",
    "ptr_to_int": "cuTile shows no addresses",
    "ptr_to_ptr": "cuTile never changes the type that a pointer points to",
    "module": "the disassembler leaves out a module that has no name of its own",
}

_ORDER_AND_SCOPE = tuple(
    f"{order} {scope}"
    for order in ("relaxed", "acquire", "release", "acq_rel")
    for scope in ("tl_blk", "device", "sys")
)
_PREDICATES = (
    *("equal", "not_equal", "less_than"),
    *("less_than_or_equal", "greater_than", "greater_than_or_equal"),
)

# What must occur somewhere, as patterns over a line of disassembly. 13.5 tools spell the type
# f8E5M3FNU with another prefix.
SPELLINGS: dict[str, tuple[str, ...]] = {
    "arithmetic rounding": tuple(
        rf"= {op} .*rounding<{mode}>"
        for op in ("addf", "subf", "mulf", "divf", "fma", "sqrt")
        for mode in ("zero", "negative_inf", "positive_inf")
    ),
    "other rounding": (
        *(rf"= divf .*rounding<{mode}>" for mode in ("approx", "full")),
        *(rf"= {op} .*rounding<approx>" for op in ("exp", "tanh", "sqrt")),
        r"= divi .* signed rounding<negative_inf>",
        *(rf"= divi .* {sign} rounding<positive_inf>" for sign in ("signed", "unsigned")),
        *(
            rf"= ftof .*rounding<{mode}>"
            for mode in ("zero", "negative_inf", "positive_inf", "nearest_away")
        ),
    ),
    "flush to zero": tuple(
        rf"= {op} .*flush_to_zero"
        for op in ("addf", "subf", "mulf", "divf", "fma", "sqrt", "rsqrt", "exp2", "minf", "maxf")
    ),
    "flags": (
        *(r"= minf .*propagate_nan", r"= maxf .*propagate_nan", r"= mmaf .*fast_acc"),
        *(r"= load_view_tko .*inbounds = \[true", r"= store_view_tko .*inbounds = \[true"),
        *(r"= scan .*reverse=true", r"= scan .*reverse=false"),
    ),
    "comparisons": (
        *(rf"= cmpi {predicate} .* signed" for predicate in _PREDICATES),
        *(rf"= cmpi {predicate} .* unsigned" for predicate in _PREDICATES[2:]),
        *(rf"= cmpf {word} ordered " for word in _PREDICATES if word != "not_equal"),
        r"= cmpf not_equal unordered ",
    ),
    "signedness": tuple(
        rf"= {op} .* {sign}\b"
        for op in ("remi", "mini", "maxi", "shri", "exti", "itof", "ftoi", "mmai")
        for sign in ("signed", "unsigned")
    ),
    "memory orders": (
        *(
            rf"= load_view_tko {pair}"
            for pair in _ORDER_AND_SCOPE
            if re.match("rela|acquire", pair)
        ),
        *(rf"= store_view_tko {pair}" for pair in _ORDER_AND_SCOPE if re.match("rel", pair)),
        *(rf"= atomic_rmw_tko {pair}" for pair in _ORDER_AND_SCOPE),
        *(rf"= atomic_cas_tko {pair}" for pair in _ORDER_AND_SCOPE),
        *(rf"= {op}_tko weak " for op in ("load_view", "store_view", "load_ptr", "store_ptr")),
    ),
    "atomic operations": (
        *(
            rf"= atomic_rmw_tko .*, {mode}, "
            for mode in ["and", "or", "xor", "add", "addf", "max", "min", "umax", "umin", "xchg"]
        ),
        *(
            rf"= atomic_red_view_tko .*, {mode}, "
            for mode in ["and", "or", "xor", "add", "addf", "max", "min", "umax", "umin"]
        ),
    ),
    "padding": tuple(
        rf"= {make} .*padding_value = {value}\b"
        for make in ("make_partition_view", "make_strided_view", "make_gather_scatter_view")
        for value in ("zero", "neg_zero", "nan", "pos_inf", "neg_inf")
    ),
    "hints": (
        *("num_cta_in_cga = 2", "occupancy = 4", "num_worker_warps_per_cta = 4", "sm_120 = {"),
        *("allow_tma = false, latency = 7", r"<sm_100 = {.*latency = 7"),
        *(
            rf"= {op}_tko .*latency = "
            for op in ("load_view", "store_view", "load_ptr", "store_ptr")
        ),
    ),
    "types": tuple(
        rf"tile<(\d+x)*{name}>"
        for name in [
            "i1",
            "i8",
            "i16",
            "i32",
            "i64",
            "f16",
            "bf16",
            "f32",
            "tf32",
            "f64",
            "f8E4M3FN",
            "f8E5M2",
            "f8E8M0FNU",
            "f4E2M1FN",
            "fn?v?8E5M3FNU",
            "ptr<f32>",
        ]
    ),
    "types in memory": tuple(
        rf"tensor_view<([\d?]+x)*{name}\b"
        for name in [
            "i1",
            "i8",
            "i16",
            "i32",
            "i64",
            "f16",
            "bf16",
            "f32",
            "tf32",
            "f64",
            "f8E4M3FN",
            "f8E5M2",
            "f8E8M0FNU",
        ]
    ),
    "views and assumptions": (
        *(r"dim_map=\[2, 0, 1\]", r"traversal_strides=\[3,8\]", "sparse_dim=0", "sparse_dim=2"),
        *(r"assume div_by<16>", r"assume bounded<0, \?>", r"strides=\[64,1\]"),
    ),
}

_OP = re.compile(r"^\s*(?:%[^=]*= )?([a-z_]\w*)", re.MULTILINE)


@pytest.fixture(scope="module")
def texts() -> dict[tuple[str, str], str]:
    """The disassembly of every kernel that Tile IR accepts, by name and version."""
    return {
        (kernel.name, version): disassemble(kernel.export(version))
        for kernel in READABLE
        for version in _versions(kernel)
    }


def _versions(kernel: CorpusKernel) -> tuple[str, ...]:
    """Each is a process of the disassembler. Those in the middle hold no operation that neither the oldest nor the newest has."""
    return kernel.versions if is_long() else tuple({kernel.versions[0], kernel.versions[-1]})


def _ids(kernel: CorpusKernel) -> str:
    return kernel.name


def test_the_corpus_is_large_enough():
    assert len(KERNELS) >= 70
    assert len(RUNNABLE) >= 45


@pytest.mark.oracle
@requires_tileirdisasm
def test_every_export_is_read(texts: dict[tuple[str, str], str]):
    for kernel in READABLE:
        symbol = kernel.signature().symbol
        for version in _versions(kernel):
            assert f"entry @{symbol}(" in texts[kernel.name, version]


@pytest.mark.oracle
@requires_tileirdisasm
@pytest.mark.parametrize("kernel", REFUSED, ids=_ids)
def test_known_refusals(kernel: CorpusKernel):
    for version in kernel.versions:
        with pytest.raises(OracleRejected) as caught:
            disassemble(kernel.export(version))
        assert kernel.refusal in caught.value.message


@pytest.mark.parametrize(
    "kernel", [kernel for kernel in KERNELS if kernel.since != VERSIONS[0]], ids=_ids
)
def test_no_kernel_could_start_earlier(kernel: CorpusKernel):
    import cuda.tile as ct

    with pytest.raises(ct.TileError):
        kernel.export(VERSIONS[VERSIONS.index(kernel.since) - 1])


@pytest.mark.oracle
@requires_tileirdisasm
def test_each_kernel_reaches_its_ops(texts: dict[tuple[str, str], str]):
    for kernel in READABLE:
        found = (texts[kernel.name, version] for version in _versions(kernel))
        seen = {op for text in found for op in _OP.findall(text)}
        assert kernel.ops <= seen, f"{kernel.name} lacks {sorted(kernel.ops - seen)}"


@pytest.mark.oracle
@requires_tileirdisasm
def test_the_union_of_ops_is_what_cutile_can_emit(texts: dict[tuple[str, str], str]):
    assert {op for text in texts.values() for op in _OP.findall(text)} == REACHED
    assert not REACHED & NOT_EMITTED.keys()


@pytest.mark.oracle
@requires_tileirdisasm
@pytest.mark.parametrize("kind", SPELLINGS)
def test_every_enumerant_occurs(kind: str, texts: dict[tuple[str, str], str]):
    everything = "\n".join(texts.values())
    assert [form for form in SPELLINGS[kind] if not re.search(form, everything)] == []


@pytest.mark.parametrize("kernel", RUNNABLE, ids=_ids)
def test_launches_are_consistent(kernel: CorpusKernel):
    launch = kernel.launch
    assert launch is not None
    arguments = launch.arguments(1)
    before = copy.deepcopy(arguments)
    expected = launch.expected(arguments)
    assert _same(arguments, before), "expected() must not change its argument"
    assert _same(arguments, launch.arguments(1)), "the same seed must give the same values"
    names = kernel.kernel._annotated_function.pysig.parameters
    constants = {
        name
        for name, parameter in zip(names, kernel.parameters, strict=True)
        if isinstance(parameter, bool | int | float)
    }
    assert set(arguments) == set(names) - constants
    changed = False
    for name, result in expected.items():
        results = result if isinstance(result, list) else [result]
        first = arguments[name] if isinstance(result, list) else [arguments[name]]
        for array, original in zip(results, first, strict=True):
            assert (array.shape, array.dtype) == (original.shape, original.dtype), name
            changed = changed or not _same(array, original)
    assert changed, "a launch that changes nothing shows nothing"


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return bool(a == b)
