"""What the name of a kernel says about arrays that share memory, and who listens to it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.corpus import CUTILE_MISSING, cutile_available, cutile_kernels
from tests.machine.kernels import checked

import tilewright
import tilewright.machine
from tilewright import LaunchOptions
from tilewright.bytecode import read
from tilewright.diagnostics import TileIRError
from tilewright.launching.entry_names import NoaliasArray, calling_convention
from tilewright.machine.sanitize import render_html, to_json

KERNELS = [k for k in cutile_kernels() if not k.refusal] if cutile_available() else []


def array(parameter: int, rank: int, *groups: int, inner: bool = False) -> NoaliasArray:
    return NoaliasArray(parameter, rank, frozenset(groups), inner)


@pytest.mark.parametrize(
    ("constraints", "arrays", "count"),
    [
        ("", (), 0),
        ("_Sf32_B1_I_5_F3fe0000000000000_Si64", (), 2),
        ("_A0f32", (array(0, 0),), 1),
        ("_A2f16_1v16l0_2t1", (array(0, 2),), 5),
        ("_A2f16_1i16v8l0_2s64t1_p16g0g1fiw", (array(0, 2, 0, 31, inner=True),), 5),
        ("_A5bf16_fl0_10t1_g2_A1u8_1t_1_u", (array(0, 5, 2), array(11, 1)), 14),
        ("_LA1f32_1t1_A1f8m0fnu_1t1", (array(2, 1),), 5),
        ("_Lg0g1iA2i32_3l0_w_A1tf32_1t1_g0", (array(2, 1, 0),), 5),
        ("_T2A1f32_1t1T2Sf32F4000000000000000_A1b8", (array(0, 1), array(4, 1)), 7),
    ],
)
def test_names_are_read(constraints: str, arrays: tuple[NoaliasArray, ...], count: int) -> None:
    found = calling_convention(f"some_Kernel_Kt2{constraints}")
    assert found is not None
    assert (found.arrays, found.parameter_count) == (arrays, count)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "kernel",
        "_K",
        "k_Kt9_A1f32",
        "k_Kt2_",
        "k_Kt2A1f32",
        "k_Kt2_A1f32_",
        "k_Kt2_A1f99",
        "k_Kt2_A1f32_1x1",
        "k_Kt2_Q1",
        "k_Kt2_I",
        "k_Kt2_T2Sf32",
        "k_Kt2_T999999999Sf32",
        "k_Kt2_A" + "9" * 5000 + "f32",
        "k_Kt2_" + "T1" * 100_000 + "Sf32",
    ],
)
def test_other_names_tell_nothing(name: str) -> None:
    assert calling_convention(name) is None


@pytest.mark.skipif(not cutile_available(), reason=CUTILE_MISSING)
@pytest.mark.rotates(3)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_names_of_cutile_fit_their_parameters(kernel) -> None:
    (entry,) = read(kernel.export()).entries
    found = calling_convention(entry.symbol)
    assert found is not None
    assert found.parameter_count == len(entry.block.args)
    for promised in found.arrays:
        assert "ptr" in str(entry.block.args[promised.parameter].type)


def copy_kernel(convention: str):
    """``y[0] = x[0]``, in order."""
    return checked(f"""
      entry @copy{convention}(%x: tile<ptr<i32>>, %n: tile<i32>, %s: tile<i32>,
                              %y: tile<ptr<i32>>, %m: tile<i32>, %t: tile<i32>) {{
        %v, %loaded = load_ptr_tko weak %x : tile<ptr<i32>> -> tile<i32>, token
        %stored = store_ptr_tko weak %y, %v token=%loaded : tile<ptr<i32>>, tile<i32> -> token
      }}""")


ONE_GROUP = "_Kt2_A1i32_1t1_g3_A1i32_1t1_g3"
TWO_GROUPS = "_Kt2_A1i32_1t1_g0_A1i32_1t1_g1"
NO_GROUP = "_Kt1_A1i32_1t1_A1i32_1t1"


def overlapping() -> tuple[object, ...]:
    memory = np.arange(8, dtype=np.int32)
    return (memory[1:6], 5, 1, memory[5:], 3, 1)


@pytest.mark.parametrize("launch", [tilewright.run, tilewright.sanitize])
def test_arrays_of_one_group_may_overlap(launch) -> None:
    args = overlapping()
    launch(copy_kernel(ONE_GROUP), None, 1, args)
    assert args[3].tolist() == [1, 6, 7]


@pytest.mark.parametrize("convention", [TWO_GROUPS, NO_GROUP, "_Kt2_A1i32", "_of_mine"])
def test_a_run_refuses_other_overlaps(convention: str) -> None:
    args = overlapping()
    with pytest.raises(TileIRError, match="argument 0 and argument 3 overlap"):
        tilewright.run(copy_kernel(convention), None, 1, args)
    assert args[3].tolist() == [5, 6, 7]


@pytest.mark.parametrize("convention", [TWO_GROUPS, NO_GROUP])
@pytest.mark.parametrize("seeds", [1, 3])
def test_the_sanitizer_names_both_arrays(convention: str, seeds: int) -> None:
    module = copy_kernel(convention)
    report = tilewright.sanitize(module, None, 1, overlapping(), options=LaunchOptions(seeds=seeds))
    (found,) = report.diagnostics
    assert found.code == "noalias-violation"
    assert found.message.startswith("%x and %y overlap in memory")
    assert report.result is not None
    assert to_json(report)["findings"][0]["code"] == "noalias-violation"
    assert "%x and %y overlap" in render_html(report, module)
    with pytest.raises(TileIRError, match="noalias-violation"):
        tilewright.run(module, None, 1, overlapping(), options=LaunchOptions(sanitize=True))


@pytest.mark.parametrize(
    "args",
    [
        (5, 1, 3, 1),  # x ends where y begins
        (6, 0, 3, 1),  # all of x is its first element; it is not written
        (0, 1, 3, 1),  # nothing is in x
        (3, 2, 3, 1),  # x has elements 0, 2, 4
    ],
)
def test_what_extents_and_strides_leave_apart(args: tuple[int, ...]) -> None:
    memory = np.arange(8, dtype=np.int32)
    n, s, m, t = args
    report = tilewright.sanitize(copy_kernel(NO_GROUP), None, 1, (memory, n, s, memory[5:], m, t))
    assert report.is_clean


def test_interleaved_arrays_do_not_overlap() -> None:
    memory = np.arange(8, dtype=np.int32)
    module = copy_kernel(NO_GROUP)
    args = (memory, 4, 2, memory[1:], 4, 2)
    assert tilewright.sanitize(module, None, 1, args).is_clean
    args = (memory, 4, 2, memory[3:], 2, 1)
    assert [d.code for d in tilewright.sanitize(module, None, 1, args).diagnostics] == [
        "noalias-violation"
    ]


@pytest.mark.parametrize(
    ("shape", "strides", "is_broken"),
    [
        ((4, 4), (4, 1), False),
        ((4, 4), (1, 4), False),
        ((4, 4), (3, 1), True),
        ((4, 4), (0, 1), True),
        ((1, 4), (0, 1), False),
        ((2, 3), (3, 2), False),
        ((3, 3), (2, 3), False),
        ((4, 3), (2, 3), True),
        ((0, 4), (0, 1), False),
        ((2**31 - 1, 2**31 - 1), (1, 2**31 - 1), False),
        ((2**31 - 1, 2**31 - 1), (2**31 - 1, 2**31 - 1), False),
    ],
)
def test_arrays_within_themselves(
    shape: tuple[int, int], strides: tuple[int, int], is_broken: bool
) -> None:
    module = checked("""
      entry @fill_Kt2_A2i32_1l0_2t1(%x: tile<ptr<i32>>, %n: tile<i32>, %m: tile<i32>,
                                    %s: tile<i32>, %t: tile<i32>) {
        %v = constant <i32: 1> : tile<i32>
        %stored = store_ptr_tko weak %x, %v : tile<ptr<i32>>, tile<i32> -> token
      }""")
    memory = np.zeros(32, np.int32)
    report = tilewright.sanitize(module, None, 1, (memory, *shape, *strides))
    assert [d.code for d in report.diagnostics] == ["noalias-violation"] * is_broken


def test_addresses_are_not_looked_at() -> None:
    """An address has no memory of its own to compare."""
    x = np.arange(8, dtype=np.int32)
    program = tilewright.machine.Program(copy_kernel(NO_GROUP))
    program.launch(None, 1, (program.map_array(x), 8, 1, x, 8, 1))
