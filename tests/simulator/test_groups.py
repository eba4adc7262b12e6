"""Warps that go together compute, count and find what they do one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tests.simulator.bugs import BUGS, Bug
from tests.simulator.kernels import EXAMPLES, codes, kernel, only, run

from tilewright import LaunchOptions
from tilewright.simulator import Program, SimulationResult, groups

_NEEDS_OTHER_BLOCK = {"a product of a group of three warps": 128}


def _outcome(result: SimulationResult) -> tuple[Any, ...]:
    return codes(result), result.completed


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_bugs_are_found_both_ways(bug: Bug) -> None:
    found = [
        run(bug.bad, bug.parameters, bug.args(), block=bug.block, in_groups=mode, **bug.options)
        for mode in (False, True)
    ]
    assert all(bug.code in codes(result) for result in found)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_twins_are_alike_both_ways(bug: Bug) -> None:
    block = _NEEDS_OTHER_BLOCK.get(bug.name, max(bug.block, 128))
    results, arrays = [], []
    for mode in (False, True):
        args = bug.args()
        results.append(run(bug.good, bug.parameters, args, block=block, in_groups=mode))
        arrays.append([arg for arg in args if isinstance(arg, np.ndarray)])
    assert _outcome(results[0]) == _outcome(results[1])
    if results[0].completed:
        assert results[0].counters.as_dict() == results[1].counters.as_dict()
    for one, other in zip(*arrays, strict=True):
        np.testing.assert_array_equal(one, other)


@dataclass(frozen=True)
class Case:
    """A kernel that writes ``%d`` for each of 128 threads, with the number of groups it makes."""

    name: str
    body: str
    groups: int


_STORE = "memref.store %r, %d[%tid] : memref<128xi32>\n"
_WARP = "%w = arith.index_cast %warp : index to i32\n%t = arith.index_cast %tid : index to i32\n"
_EXCHANGE = """\
%at{n} = arith.addi %tid, %c32 : index
%size{n} = arith.muli %c32, %c4 : index
%other{n} = arith.remui %at{n}, %size{n} : index
memref.store {value}, %cells[%tid] : memref<128xi32, 3>
gpu.barrier
%{result} = memref.load %cells[%other{n}] : memref<128xi32, 3>
gpu.barrier
"""


def _exchange(value: str, result: str, n: int = 0) -> str:
    """Each thread gets what the thread 32 behind it has."""
    return _EXCHANGE.format(n=n, value=value, result=result)


CASES = [
    Case("straight", _WARP + _exchange("%t", "r") + _STORE, 1),
    Case(
        "a branch without waits",
        _WARP
        + "%h = arith.cmpi uge, %warp, %c2 : index\n"
        + "%v = scf.if %h -> (i32) {\n%x = arith.addi %t, %t : i32\nscf.yield %x : i32\n"
        + "} else {\nscf.yield %w : i32\n}\n"
        + _exchange("%v", "r")
        + _STORE,
        1,
    ),
    Case(
        "loops of different length",
        _WARP
        + "%v = scf.for %i = %c0 to %warp step %c1 iter_args(%a = %t) -> (i32) {\n"
        + "%x = arith.addi %a, %t : i32\nscf.yield %x : i32\n}\n"
        + _exchange("%v", "r")
        + _STORE,
        1,
    ),
    Case(
        "a barrier in a loop",
        _WARP
        + "%r = scf.for %i = %c0 to %c4 step %c1 iter_args(%a = %t) -> (i32) {\n"
        + _exchange("%a", "o")
        + "%x = arith.addi %o, %a : i32\nscf.yield %x : i32\n}\n"
        + _STORE,
        1,
    ),
    Case(
        "a barrier that warps reach from two places",
        _WARP
        + "%h = arith.cmpi uge, %warp, %c2 : index\n"
        + "%v = scf.if %h -> (i32) {\ngpu.barrier\nscf.yield %t : i32\n"
        + "} else {\ngpu.barrier\nscf.yield %w : i32\n}\n"
        + _exchange("%v", "r")
        + _STORE,
        4,
    ),
    Case(
        "a loop until each warp has enough",
        _WARP
        + "%one = arith.constant 1 : i32\n"
        + "%v = scf.while (%a = %w) : (i32) -> i32 {\n"
        + "%five = arith.constant 5 : i32\n%go = arith.cmpi slt, %a, %five : i32\n"
        + "scf.condition(%go) %a : i32\n} do {\n^bb0(%b: i32):\n"
        + "%x = arith.addi %b, %b : i32\n%y = arith.addi %x, %one : i32\nscf.yield %y : i32\n}\n"
        + _exchange("%v", "r")
        + _STORE,
        2,
    ),
    Case(
        "memory of threads",
        _WARP
        + "%own = memref.alloca() : memref<2xi32, 5>\n"
        + "memref.store %t, %own[%c1] : memref<2xi32, 5>\n"
        + _exchange("%w", "o")
        + "%mine = memref.load %own[%c1] : memref<2xi32, 5>\n%r = arith.addi %mine, %o : i32\n"
        + _STORE,
        1,
    ),
    Case(
        "named barriers of two warps",
        _WARP
        + "%half = arith.divui %warp, %c2 : index\n%n = arith.index_cast %half : index to i32\n"
        + "%one = arith.constant 1 : i32\n%id = arith.addi %n, %one : i32\n"
        + "%threads = arith.constant 64 : i32\n"
        + "memref.store %t, %cells[%tid] : memref<128xi32, 3>\n"
        + "nvvm.barrier id = %id number_of_threads = %threads\n"
        + "%next = arith.xori %tid, %c32 : index\n"
        + "%o = memref.load %cells[%next] : memref<128xi32, 3>\n"
        + "gpu.barrier\n"
        + _exchange("%o", "r")
        + _STORE,
        2,
    ),
    Case(
        "branches between blocks",
        _WARP
        + "%odd0 = arith.remui %warp, %c2 : index\n%odd1 = arith.cmpi eq, %odd0, %c1 : index\n"
        + "%v = scf.execute_region -> i32 {\ncf.cond_br %odd1, ^one(%t : i32), ^two(%w : i32)\n"
        + "^one(%a: i32):\n%x = arith.addi %a, %a : i32\ncf.br ^end(%x : i32)\n"
        + "^two(%b: i32):\n%y = arith.muli %b, %t : i32\ncf.br ^end(%y : i32)\n"
        + "^end(%e: i32):\nscf.yield %e : i32\n}\n"
        + _exchange("%v", "r")
        + _STORE,
        2,
    ),
    Case(
        "products of i8 and of f64",
        _WARP
        + "%t8 = arith.trunci %t : i32 to i8\n"
        + "%a = vector.broadcast %t8 : i8 to vector<4x4xi8>\n"
        + "%b = vector.broadcast %t8 : i8 to vector<2x4xi8>\n"
        + "%c = vector.broadcast %w : i32 to vector<2x2xi32>\n"
        + "%p = nvgpu.mma.sync (%a, %b, %c) {mmaShape = [16, 8, 32]} : (vector<4x4xi8>, vector<2x4xi8>, vector<2x2xi32>) -> vector<2x2xi32>\n"
        + "%td = arith.sitofp %t : i32 to f64\n"
        + "%x = vector.broadcast %td : f64 to vector<1x1xf64>\n"
        + "%y = vector.broadcast %td : f64 to vector<1x2xf64>\n"
        + "%q = nvgpu.mma.sync (%x, %x, %y) {mmaShape = [8, 8, 4]} : (vector<1x1xf64>, vector<1x1xf64>, vector<1x2xf64>) -> vector<1x2xf64>\n"
        + "%pr = vector.extract %p[1, 1] : i32 from vector<2x2xi32>\n"
        + "%qr = vector.extract %q[0, 1] : f64 from vector<1x2xf64>\n"
        + "%qi = arith.fptosi %qr : f64 to i32\n%sum = arith.addi %pr, %qi : i32\n"
        + "%most = arith.constant 16777215 : i32\n%r = arith.andi %sum, %most : i32\n"
        + _STORE,
        1,
    ),
    Case(
        "memory that warps choose",
        _WARP
        + "%more = memref.get_global @more : memref<128xi32, 3>\n"
        + "%h = arith.cmpi uge, %warp, %c2 : index\n"
        + "%mine = scf.if %h -> (memref<128xi32, 3>) {\nscf.yield %cells : memref<128xi32, 3>\n"
        + "} else {\nscf.yield %more : memref<128xi32, 3>\n}\n"
        + "%its = arith.select %h, %more, %cells : memref<128xi32, 3>\n"
        + "memref.store %t, %mine[%tid] : memref<128xi32, 3>\n"
        + "memref.store %w, %its[%tid] : memref<128xi32, 3>\n"
        + "%x = memref.load %cells[%tid] : memref<128xi32, 3>\n"
        + "%y = memref.load %more[%tid] : memref<128xi32, 3>\n"
        + "%four = arith.addi %y, %y : i32\n%r = arith.addi %x, %four : i32\n"
        + _STORE,
        1,
    ),
    Case(
        "what lanes of a warp exchange",
        _WARP
        + "%five = arith.constant 5 : i32\n%width = arith.constant 16 : i32\n"
        + "%x, %x_is = gpu.shuffle xor %t, %five, %width : i32\n"
        + "%i, %i_is = gpu.shuffle idx %x, %five, %width : i32\n"
        + "%u, %u_is = gpu.shuffle up %t, %five, %width : i32\n"
        + "%most = gpu.subgroup_reduce maxsi %u : (i32) -> i32\n"
        + "%y = arith.addi %i, %most : i32\n%z = arith.addi %y, %x : i32\n"
        + "%plus = arith.extui %u_is : i1 to i32\n%r = arith.addi %z, %plus : i32\n"
        + _STORE,
        1,
    ),
    Case(
        "gathers and scatters under masks",
        _WARP
        + "%flat = vector.broadcast %tid : index to vector<2xindex>\n"
        + "%both = arith.constant dense<[0, 64]> : vector<2xindex>\n"
        + "%half = arith.constant dense<64> : vector<2xindex>\n"
        + "%wrapped = arith.remui %flat, %half : vector<2xindex>\n"
        + "%at = arith.addi %wrapped, %both : vector<2xindex>\n"
        + "%low = arith.cmpi ult, %tid, %c64 : index\n"
        + "%mask = vector.broadcast %low : i1 to vector<2xi1>\n"
        + "%ts = vector.broadcast %t : i32 to vector<2xi32>\n"
        + "vector.scatter %cells[%c0][%at], %mask, %ts : memref<128xi32, 3>, vector<2xindex>, vector<2xi1>, vector<2xi32>\n"
        + "gpu.barrier\n"
        + "%odd0 = arith.remui %tid, %c2 : index\n%odds = arith.cmpi eq, %odd0, %c1 : index\n"
        + "%some = vector.broadcast %odds : i1 to vector<2xi1>\n"
        + "%g = vector.gather %cells[%c0][%at], %some, %ts : memref<128xi32, 3>, vector<2xindex>, vector<2xi1>, vector<2xi32> into vector<2xi32>\n"
        + "%all = vector.gather %cells[%c0][%at], %mask, %g : memref<128xi32, 3>, vector<2xindex>, vector<2xi1>, vector<2xi32> into vector<2xi32>\n"
        + "%sum = arith.addi %g, %all : vector<2xi32>\n"
        + "%r = vector.reduction <add>, %sum : vector<2xi32> into i32\n"
        + _STORE,
        1,
    ),
    Case(
        "vectors taken apart and put together",
        _WARP
        + "%v = vector.from_elements %t, %w, %t, %w : vector<4xi32>\n"
        + "%s = vector.shuffle %v, %v [3, 0, 5, 6] : vector<4xi32>, vector<4xi32>\n"
        + "%e = vector.extract_strided_slice %s {offsets = [1], sizes = [2], strides = [1]} : vector<4xi32> to vector<2xi32>\n"
        + "%n = vector.insert_strided_slice %e, %v {offsets = [0], strides = [1]} : vector<2xi32> into vector<4xi32>\n"
        + "%place = arith.remui %tid, %c4 : index\n"
        + "%x = vector.extract %n[%place] : i32 from vector<4xi32>\n"
        + "%m = vector.insert %x, %s [%place] : i32 into vector<4xi32>\n"
        + "%r = vector.reduction <add>, %m : vector<4xi32> into i32\n"
        + _STORE,
        1,
    ),
    Case(
        "accesses of some lanes of some warps",
        _WARP
        + "%at = arith.remui %tid, %c64 : index\n"
        + "%two = vector.broadcast %t : i32 to vector<2xi32>\n"
        + "%zero = arith.constant 0 : i32\nmemref.store %zero, %cells[%tid] : memref<128xi32, 3>\n"
        + "gpu.barrier\n%even0 = arith.remui %lane, %c2 : index\n"
        + "%evens = arith.cmpi eq, %even0, %c0 : index\n%low = arith.cmpi ult, %tid, %c64 : index\n"
        + "%some = arith.andi %evens, %low : i1\n"
        + "scf.if %some {\nvector.store %two, %cells[%at] : memref<128xi32, 3>, vector<2xi32>\n}\n"
        + "gpu.barrier\n%r = scf.if %evens -> (i32) {\n"
        + "%y = memref.load %cells[%at] : memref<128xi32, 3>\nscf.yield %y : i32\n"
        + "} else {\nscf.yield %t : i32\n}\n"
        + _STORE,
        1,
    ),
]


def _run_case(case: Case, *, in_groups: bool) -> tuple[np.ndarray, SimulationResult]:
    body = "%cells = memref.get_global @cells : memref<128xi32, 3>\n" + case.body
    text = kernel(body, "%d: memref<128xi32>").replace(
        'memref.global "private" @words',
        'memref.global "private" @cells : memref<128xi32, 3>\n'
        'memref.global "private" @more : memref<128xi32, 3>\nmemref.global "private" @words',
        1,
    )
    out = np.full(128, -1, np.int32)
    result = Program.parse(text).launch(
        None, 1, [out], options=LaunchOptions(block=128, in_groups=in_groups)
    )
    return out, result


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_groups_compute_what_warps_do(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    enter = groups.Group.__init__

    def count(self: groups.Group, *args: Any) -> None:
        made.append(len(args[2]))
        enter(self, *args)

    monkeypatch.setattr(groups.Group, "__init__", count)
    alone, one = _run_case(case, in_groups=False)
    assert not made
    together, other = _run_case(case, in_groups=True)
    np.testing.assert_array_equal(together, alone)
    assert (alone >= 0).all()
    assert one.counters.as_dict() == other.counters.as_dict()
    assert len(made) == case.groups, made


_WRITE = "memref.store %v, %words[{at}] : memref<256xf32, 3>\n"


def test_warps_of_a_group_that_write_the_same_bytes_race() -> None:
    body = "%v = arith.constant 1.0 : f32\n%at = arith.remui %tid, %c64 : index\n"
    found = only(run(body + _WRITE.format(at="%at"), block=128), "sim-race")
    assert "of warp 2" in found.message
    assert "which warp 0 wrote" in found.message


def test_lanes_of_a_warp_may_write_the_same_bytes() -> None:
    body = "%v = arith.constant 1.0 : f32\n"
    assert not run(body + _WRITE.format(at="%warp"), block=128).diagnostics


def test_halves_of_a_word_are_no_race() -> None:
    """Each warp writes every fourth f16."""
    body = (
        "%halves = memref.get_global @halves : memref<64x64xf16, 3>\n"
        "%h = arith.constant 1.0 : f16\n%row = arith.divui %lane, %c16 : index\n"
        "%place = arith.remui %lane, %c16 : index\n%four = arith.muli %place, %c4 : index\n"
        "%column = arith.addi %four, %warp : index\n"
        "memref.store %h, %halves[%row, %column] : memref<64x64xf16, 3>\n"
    )
    assert not run(body, block=128).diagnostics
    word = "%column = arith.addi %four, %warp : index\n"
    overlapping = body.replace(word, "%half = arith.divui %warp, %c2 : index\n%column = arith.addi %four, %half : index\n")  # fmt: skip
    assert codes(run(overlapping, block=128)) == {"sim-race"}


def test_a_read_of_what_another_warp_of_the_group_wrote() -> None:
    body = (
        "%v = arith.constant 1.0 : f32\n"
        + _WRITE.format(at="%tid")
        + "%next = arith.xori %tid, %c32 : index\n"
        + "%x = memref.load %words[%next] : memref<256xf32, 3>\n"
    )
    found = only(run(body, block=128), "sim-race")
    assert "memref.load of warp 0 reads shared bytes 128 to 255" in found.message


def test_a_write_of_what_another_warp_of_the_group_reads() -> None:
    body = (
        "%v = arith.constant 1.0 : f32\n"
        + _WRITE.format(at="%tid")
        + "gpu.barrier\n"
        + "%x = memref.load %words[%tid] : memref<256xf32, 3>\n"
        + "%next = arith.xori %tid, %c32 : index\n"
        + _WRITE.format(at="%next")
    )
    found = only(run(body, block=128), "sim-race")
    assert "which warp 1 reads" in found.message


def test_a_fault_names_the_warp() -> None:
    body = "%at = arith.muli %tid, %c4 : index\n%v = arith.constant 1.0 : f32\n"
    found = only(run(body + _WRITE.format(at="%at"), block=128), "sim-out-of-bounds")
    assert "warp 2" in found.message
    assert "index 256" in found.message


def test_a_masked_store_of_some_warps() -> None:
    out = np.zeros(128, np.float32)
    body = (
        "%v = arith.constant 1.0 : f32\n%some = arith.cmpi uge, %tid, %c64 : index\n"
        "scf.if %some {\n"
        + _WRITE.format(at="%tid")
        + "%x = memref.load %words[%tid] : memref<256xf32, 3>\n"
        + "memref.store %x, %d[%tid] : memref<128xf32>\n}\n"
    )
    result = run(body, "%d: memref<128xf32>", [out], block=128)
    assert not result.diagnostics
    np.testing.assert_array_equal(out, np.arange(128) >= 64)
    assert result.counters.shared_accesses == 4


@pytest.mark.parametrize("seed", [1, 2])
def test_other_seeds_run_warps_one_by_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a group")

    monkeypatch.setattr(groups.Group, "__init__", refuse)
    assert run("gpu.barrier", block=128, seed=seed).completed


def test_the_last_warp_of_a_block_may_lack_lanes() -> None:
    outs = []
    for mode in (False, True):
        out = np.zeros(128, np.float32)
        body = (
            "%i = arith.index_cast %tid : index to i32\n%v = arith.sitofp %i : i32 to f32\n"
            + _WRITE.format(at="%tid")
            + "gpu.barrier\n%c99 = arith.constant 99 : index\n"
            + "%at = arith.subi %c99, %tid : index\n"
            + "%x = memref.load %words[%at] : memref<256xf32, 3>\n"
            + "memref.store %x, %d[%tid] : memref<128xf32>\n"
        )
        assert not run(body, "%d: memref<128xf32>", [out], block=100, in_groups=mode).diagnostics
        outs.append(out)
    np.testing.assert_array_equal(outs[0], outs[1])
    assert outs[0][0] == 99.0


@pytest.mark.parametrize("name", ["matmul_mma.mlir", "vector_add.mlir"])
def test_examples_are_alike_both_ways(name: str) -> None:
    program = Program.parse((EXAMPLES / name).read_text())
    rng = np.random.default_rng(5)
    found = []
    if name == "matmul_mma.mlir":
        a = rng.standard_normal((128, 96)).astype(np.float16)
        b = rng.standard_normal((96, 128)).astype(np.float16)
        shape, grid, inputs = (128, 128), (2, 2), [a, b]
    else:
        x, y = rng.standard_normal((2, 4096)).astype(np.float32)
        shape, grid, inputs = (4096,), (8,), [x, y]
    for mode in (False, True):
        out = np.zeros(shape, np.float32)
        result = program.launch(
            None,
            grid,
            [*inputs, out],
            arch="sm_80",
            options=LaunchOptions(block=128, in_groups=mode),
        )
        found.append((out, result.counters.as_dict()))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]
