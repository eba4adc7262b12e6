"""Programs on the CPU, from Tile IR to results."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

import tilewright
from tilewright import LaunchOptions
from tilewright.cpu import Program
from tilewright.cpu.compiled_kernels import CompileOptions
from tilewright.cpu.runtime import kernels
from tilewright.cpu.runtime.engine import OptLevel
from tilewright.cpu.runtime.modules import digest_of
from tilewright.cpu.runtime.records import record_key
from tilewright.diagnostics import TileIRError, render
from tilewright.lowering import lower_to_tileaa

ADD = """
entry @add(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %out: tile<ptr<f32>>, %n: tile<i32>) {
  %block, %by, %bz = get_tile_block_id : tile<i32>
  %xv = make_tensor_view %x, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
  %yv = make_tensor_view %y, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
  %ov = make_tensor_view %out, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
  %xt = make_partition_view %xv : partition_view<tile=(64), padding_value = zero, tensor_view<?xf32, strides=[1]>>
  %yt = make_partition_view %yv : partition_view<tile=(64), padding_value = zero, tensor_view<?xf32, strides=[1]>>
  %ot = make_partition_view %ov : partition_view<tile=(64), tensor_view<?xf32, strides=[1]>>
  %a, %at = load_view_tko weak %xt[%block] : partition_view<tile=(64), padding_value = zero, tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<64xf32>, token
  %b, %bt = load_view_tko weak %yt[%block] : partition_view<tile=(64), padding_value = zero, tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<64xf32>, token
  %sum = addf %a, %b : tile<64xf32>
  %s = store_view_tko weak %sum, %ot[%block] : tile<64xf32>, partition_view<tile=(64), tensor_view<?xf32, strides=[1]>>, tile<i32> -> token
  return
}
entry @other(%n: tile<i32>) { return }
"""
TELL = """
entry @tell(%n: tile<i32>) {
  %block, %by, %bz = get_tile_block_id : tile<i32>
  print_tko "block %d of %d\\n", %block, %n : tile<i32>, tile<i32> -> token
  %i = iota : tile<4xi32>
  %r = reshape %block : tile<i32> -> tile<1xi32>
  %b = broadcast %r : tile<1xi32> -> tile<4xi32>
  %ok = cmpi not_equal %i, %b, signed : tile<4xi32> -> tile<4xi1>
  assert %ok, "i is the block" : tile<4xi1>
  return
}
"""


@pytest.fixture
def module():
    found = tilewright.parse(ADD)
    tilewright.verify(found)
    return found


def arguments(count: int = 1000) -> tuple[np.ndarray, ...]:
    generator = np.random.default_rng(count)
    x, y = (generator.random(count, np.float32) for _ in range(2))
    return x, y, np.zeros(count, np.float32)


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("cpu_name", ["host", "generic"])
def test_a_launch(module, threads: int, cpu_name: str) -> None:
    x, y, out = arguments()
    program = Program(module, LaunchOptions(cpu=cpu_name, threads=threads))
    for _ in range(3):
        out[:] = 0
        result = program.launch("add", 16, (x, y, out, 1000))
        np.testing.assert_array_equal(out, x + y)
        assert result.outputs[2] is out
        assert (result.text, result.failures) == ("", ())


def test_a_module_of_nv_tileaa(module) -> None:
    x, y, out = arguments()
    tilewright.run(lower_to_tileaa(module).module, "add", 16, (x, y, out, 1000), machine="cpu")
    np.testing.assert_array_equal(out, x + y)


def test_torch_tensors(module) -> None:
    torch = pytest.importorskip("torch")
    x, y, out = (torch.from_numpy(array) for array in arguments())
    tilewright.run(module, "add", (16, 1, 1), (x, y, out, 1000), machine="cpu")
    assert torch.equal(out, x + y)


def test_arrays_that_overlap(module) -> None:
    x, y, _ = arguments()
    expected = x + y
    program = Program(module)
    with pytest.raises(TileIRError) as error:
        program.launch("add", 16, (x, y, x, 1000))
    assert error.value.diagnostics[0].code == "overlapping-arguments"
    program.launch("add", 16, (x, y, x, 1000), LaunchOptions(allow_overlap=True))
    np.testing.assert_array_equal(x, expected)


def test_addresses(module) -> None:
    x, y, out = arguments()
    program = Program(module)
    program.launch("add", 16, (program.map_array(x), program.map_array(y), out, 1000))
    np.testing.assert_array_equal(out, x + y)


def test_launches_from_several_threads(module) -> None:
    program = Program(module, LaunchOptions(threads=2))
    sets = [arguments(1000 + n) for n in range(4)]

    def run(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
        for _ in range(20):
            program.launch("add", 32, (x, y, out, x.size))

    threads = [threading.Thread(target=run, args=arrays) for arrays in sets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for x, y, out in sets:
        np.testing.assert_array_equal(out, x + y)


def test_unknown_kernels(module) -> None:
    program = Program(module)
    for name in (None, "no_such"):
        with pytest.raises(TileIRError) as error:
            program.launch(name, 1, (1,))
        assert error.value.diagnostics[0].code == "unknown-entry"


def test_the_second_program_finds_the_code_on_disk(module, own_cache, monkeypatch) -> None:
    first, second = Program(module), Program(module)
    for program in (first, second):
        # As in a new process: nothing is in memory.
        monkeypatch.setattr(kernels, "_libraries", kernels.OrderedDict())
        program.prepare("add")
    assert "optimise" in first.timings.seconds
    assert set(second.timings.seconds) == {"look on disk", "link"}
    x, y, out = arguments()
    second.launch("add", 16, (x, y, out, 1000))
    np.testing.assert_array_equal(out, x + y)
    # One entry for the code, one for what is known of the kernel.
    assert len(list(own_cache.glob("??/*.bin"))) == 2


def test_records_tell_kernels_apart(module, own_cache) -> None:
    keys = set()
    for source in (ADD, ADD.replace("addf", "mulf")):
        other = tilewright.parse(source)
        for name in ("add", "other"):
            for options in (CompileOptions(), CompileOptions(distinct_arguments=False)):
                for level in (OptLevel(), OptLevel(2)):
                    keys.add(record_key(digest_of(other), name, options, level))
    assert len(keys) == 16
    assert None not in keys


def test_what_a_kernel_reports_is_recorded_without_where(own_cache, monkeypatch) -> None:
    seen = []
    for name in ("first.tileir", "second.tileir", "second.tileir"):
        monkeypatch.setattr(kernels, "_libraries", kernels.OrderedDict())
        program = Program(tilewright.parse(TELL, name), LaunchOptions(threads=1))
        result = program.launch(None, 6, (6,), LaunchOptions(check_asserts=False))
        with pytest.raises(TileIRError) as error:
            program.launch(None, 6, (6,))
        assert {each.source.file for each in result.failures} == {name}
        failed = [(each.source.line, each.index, each.block) for each in result.failures]
        seen.append((result.text, failed, render(error.value.diagnostics)))
        assert ("optimise" in program.timings.seconds) == (name == "first.tileir")
    first, second, third = seen
    assert second == third and len(first[1]) == 4
    assert first[:2] == second[:2]
    assert first[2].replace("first.tileir", "second.tileir") == second[2]


def test_code_that_is_gone_is_made_again(module, own_cache, monkeypatch) -> None:
    Program(module).prepare("add")
    for path in own_cache.glob("??/*.bin"):
        if path.stat().st_size > 500:
            path.unlink()
    monkeypatch.setattr(kernels, "_libraries", kernels.OrderedDict())
    program = Program(module)
    program.prepare("add")
    assert "optimise" in program.timings.seconds


def test_prints_and_assertions() -> None:
    program = Program(tilewright.parse(TELL, "tell.tileir"))
    result = program.launch(None, 6, (6,), LaunchOptions(check_asserts=False))
    assert sorted(result.text.splitlines()) == [f"block {n} of 6" for n in range(6)]
    found = sorted((failure.block[0], failure.index) for failure in result.failures)
    assert found == [(n, (n,)) for n in range(4)]
    with pytest.raises(TileIRError) as error:
        program.launch(None, 2, (2,))
    assert [d.code for d in error.value.diagnostics] == ["assertion-failed"] * 2
    location = error.value.diagnostics[0].location
    assert location is not None
    assert location.file_name == "tell.tileir"


def test_assertions_are_told_as_on_the_reference_machine() -> None:

    module = tilewright.parse(TELL)
    with pytest.raises(TileIRError) as expected:
        tilewright.run(module, None, 3, (3,))
    with pytest.raises(TileIRError) as found:
        tilewright.run(module, None, 3, (3,), machine="cpu", options=LaunchOptions(threads=1))
    # What was compared is told by the reference machine alone.
    assert [n.message for n in expected.value.diagnostics[0].notes] == ["0 != 0 does not hold"]
    assert found.value.diagnostics == tuple(
        replace(diagnostic, notes=()) for diagnostic in expected.value.diagnostics
    )


def test_a_global_that_is_not_there(module) -> None:
    with pytest.raises(KeyError, match="no public global 'counter'; public globals: none"):
        Program(module).global_array("counter")
