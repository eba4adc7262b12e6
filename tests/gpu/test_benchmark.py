"""``python -m benchmarks.gpu`` rehearsed without a GPU: all of it but the hardware."""

from __future__ import annotations

import functools
import itertools
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.gpu.fake_cuda import FakeCuda
from tests.gpu.support import requires_nvdisasm, requires_ptxas, together
from xdsl.dialects.builtin import IntegerType, MemRefType

pytest.importorskip("cuda.tile")

from benchmarks import gpu as benchmark
from benchmarks import gpu_micro, gpu_torch, gpu_triton, gpu_worker
from benchmarks.gpu_cases import Case, cases
from benchmarks.gpu_compilers import Compiled, in_process, tileiras, tileiras_path
from benchmarks.gpu_device import TILE_KERNEL_BLOCK, Code, Device
from benchmarks.gpu_measured import constants_file, report
from benchmarks.gpu_references import BOUNDS, errors_of, few_of, inputs_of, part_of, reference_of

from tilewright.bytecode import read
from tilewright.dialects.nvgpu.types import TensorMapDescriptorType
from tilewright.gpu.tiles import TileProgram
from tilewright.gpu.tools import assemble, disassemble_to_json
from tilewright.launching.machine import load
from tilewright.lowering.nvgpu.tensor_maps import Argument, TensorMapPlan
from tilewright.lowering.nvgpu.types import FLOATS, SHARED_SPACE
from tilewright.model.elf import read_cubin_file
from tilewright.model.sass import Kernel, read_kernels
from tilewright.model.tables import GPUS, load_constants

CASES = {case.name: case for case in cases()}
#: One of each kind, those that the simulator runs in a moment.
FEW = ("vector add f16 4096", "softmax f16 1x1024", "product f16 64x64x64", "histogram f32 64 bins")
SMALL = 1 << 16


def launched(case: Case, arrays: list[Any], arguments: Any, grid: Any) -> list[Any]:
    """The arrays of a case behind a launch on another machine."""
    after = [array.copy() for array in arrays]
    rest = iter(after)
    flat: list[Any] = []
    for size, value in gpu_worker.scalars_of(arguments, range(len(arrays))):
        flat.append(next(rest).reshape(-1) if size == 8 else value)
    machine = "reference" if case.group == "memory" else "cpu"
    load(read(case.bytecode()), machine).launch(None, grid, flat)
    return after


@pytest.mark.parametrize("name", CASES)
def test_references_are_what_kernels_compute(name: str) -> None:
    """The float64 references against machines without a GPU; and none takes a wrong result."""
    case = CASES[name]
    arrays = inputs_of(case, case.few, 5)
    after = launched(case, arrays, *few_of(case))
    found = errors_of(case, case.few, arrays, after, 5)
    assert found["right"], found
    if found["bound"]:
        assert found["error"] > 0 or name.startswith(("top-k", "sort", "transpose", "embedding"))
    for output in reference_of(case).outputs:
        wrong = [array.copy() for array in after]
        flat = part_of(case, wrong, 5)[output]
        assert flat.size
        wrong[output] = (wrong[output].astype(np.float64) * 1.5 + 1).astype(wrong[output].dtype)
        assert not errors_of(case, case.few, arrays, wrong, 5)["right"]


@pytest.mark.parametrize("name", ["vector add f16 4096", "sort f32 256", "product i8 128x128x128"])
def test_what_is_not_written_is_found(name: str) -> None:
    case = CASES[name]
    arrays = inputs_of(case, case.few, 5)
    after = launched(case, arrays, *few_of(case))
    (output,) = reference_of(case).outputs
    after[output].reshape(-1)[3] = arrays[output].reshape(-1)[3]
    found = errors_of(case, case.few, arrays, after, 5)
    assert found["unwritten"] == 1 and not found["right"]


def test_nan_is_no_result() -> None:
    case = CASES["softmax f16 1x1024"]
    arrays = inputs_of(case, case.few, 5)
    after = launched(case, arrays, *few_of(case))
    after[1].reshape(-1)[5] = np.float16("nan")
    found = errors_of(case, case.few, arrays, after, 5)
    assert not found["right"] and not found["unwritten"]


def test_inputs_are_fresh() -> None:
    case = CASES["vector add f16 4096"]
    first, again, other = (inputs_of(case, case.few, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first[0], again[0])
    assert (first[0] != other[0]).any()


def test_every_kernel_has_a_reference() -> None:
    for case in cases():
        found = reference_of(case)
        arrays = [a for a in case.arguments if isinstance(a, tuple) and len(a) == 2]
        assert len(found.parts) == len(arrays) and max(found.outputs) < len(arrays), case.name


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if gpu_torch.peer_of(case)])
def test_torch_computes_the_same(name: str) -> None:
    torch = pytest.importorskip("torch")
    case = CASES[name]
    arrays = inputs_of(case, case.few, 7)
    outputs = reference_of(case).outputs
    inputs = [gpu_torch.tensor(a, "cpu") for n, a in enumerate(arrays) if n not in outputs]
    peer = gpu_torch.peer_of(case)
    assert peer is not None
    found = peer(torch, *inputs)
    after = [array.copy() for array in arrays]
    value = found.float().numpy().astype(after[outputs[0]].dtype)
    assert value.shape == after[outputs[0]].shape
    after[outputs[0]] = value
    if len(outputs) > 1:
        after[outputs[1]] = np.argsort(-arrays[0], 1, kind="stable")[:, :8].astype(np.int32)
    errors = errors_of(case, case.few, arrays, after, 7)
    # Of some products torch rounds the result to the type of the factors.
    halves = torch.is_floating_point(inputs[0]) and inputs[0].element_size() == 2
    bound = max(errors["bound"], BOUNDS["float16"] if halves else 0.0)
    assert errors["error"] <= bound and not errors["unwritten"], errors


#: Those of f16: Triton's interpreter multiplies bf16 wrongly.
IN_TRITON = [n for n, case in CASES.items() if gpu_triton.peer_of(case) and "bf16" not in n]


@pytest.fixture(scope="module")
def in_triton() -> dict[str, dict[str, Any]]:
    """Errors by case, of Triton's interpreter, which is chosen when Triton is imported: in a process of
    its own."""
    pytest.importorskip("triton")
    env = {**os.environ, "TRITON_INTERPRET": "1"}
    command = [sys.executable, "-c", TRITON, *IN_TRITON]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", IN_TRITON)
def test_triton_computes_the_same(name: str, in_triton: dict[str, dict[str, Any]]) -> None:
    assert in_triton[name]["right"], in_triton[name]


TRITON = """
import json, sys
import torch
from benchmarks import gpu_triton
from benchmarks.gpu_cases import cases
from benchmarks.gpu_references import errors_of, inputs_of
from benchmarks.gpu_torch import tensor
found = {}
for case in cases():
    if case.name not in sys.argv[1:]:
        continue
    arrays = inputs_of(case, case.few, 9)
    tensors = [tensor(array, "cpu") for array in arrays[:-1]]
    out = gpu_triton.output_of(case, tensors)
    gpu_triton.launch_of(case, tensors, out)()
    after = [*arrays[:-1], out.float().numpy().astype(arrays[-1].dtype)]
    found[case.name] = errors_of(case, case.few, arrays, after, 9)
print(json.dumps(found))
"""


def made(case: Case, fake: FakeCuda, compiler: str = "ours") -> Code:
    """Our machine code for the fake, which runs it also where it is to be another compiler's."""
    program = TileProgram(read(case.bytecode()), "sm_90a")
    kernel = program.compile()
    cubin = kernel.assemble().cubin
    if compiler != "ours":
        theirs = cubin + b"\0" * 8
        fake.ptx_of[theirs] = kernel.ptx
        cubin = theirs
    return Code(cubin, kernel.dynamic_shared_bytes, program.scratch_bytes(), program.tensor_maps())


@requires_ptxas
@pytest.mark.oracle
@pytest.mark.parametrize("name", FEW)
def test_a_kernel_is_checked_and_timed(name: str, fake: FakeCuda) -> None:
    case = CASES[name]
    device = Device(SMALL)
    codes = {"ours": made(case, fake), "tileiras": made(case, fake, "tileiras")}
    row = gpu_worker.run_case(device, case, codes, seed=11, small=True)
    assert row["right"] == {"ours": True, "tileiras": True}, row
    assert all(0 < row["seconds"][name] < 100 for name in codes)
    device.close()
    assert fake.used == 0 and fake.loaded == 0


@pytest.mark.oracle
@pytest.mark.skipif(
    tileiras_path() is None, reason="needs tileiras: pip install nvidia-cuda-tileiras"
)
@pytest.mark.parametrize("name", ["softmax f16 1x1024", "product f16 64x64x64"])
def test_both_compilers_take_the_same_parameters(name: str) -> None:
    """Their code is launched in the same way as ours."""
    case = CASES[name]
    found = tileiras(case.bytecode(), "sm_90a")
    (kernel,) = read_cubin_file(found.cubin).kernels
    sizes = [size for size, _ in gpu_worker.scalars_of(case.arguments, range(9))]
    assert [parameter.size for parameter in kernel.parameters] == sizes


@requires_ptxas
@pytest.mark.oracle
def test_code_of_tiles_is_launched_as_such_where_the_driver_knows_it(fake: FakeCuda) -> None:
    """NVIDIA's driver wants one thread of a kernel of tiles; one that does not know these, all of them."""
    case = CASES["vector add f16 4096"]
    device = Device(SMALL)
    code = replace(made(case, fake), block=TILE_KERNEL_BLOCK)
    row = gpu_worker.run_case(device, case, {"tileiras": code}, seed=11, small=True)
    assert row["right"] == {"tileiras": True} and "tileiras" not in row["failures"]
    blocks = [args[0].blockDimX for name, args in fake.calls if name == "cuLaunchKernelEx"]
    assert blocks[:2] == [1, 128] and set(blocks[1:]) == {128}


@requires_ptxas
@pytest.mark.oracle
def test_a_driver_that_is_older_than_ptxas_gets_ptx(fake: FakeCuda) -> None:
    case = CASES["vector add f16 4096"]
    device = Device(SMALL)
    code = made(case, fake)
    young = replace(code, cubin=code.cubin + b"\0" * 16, ptx=fake.ptx_of[code.cubin])
    row = gpu_worker.run_case(device, case, {"ours": young}, seed=11, small=True)
    assert row["right"] == {"ours": True} and "ours" not in row["failures"]
    row = gpu_worker.run_case(device, case, {"ours": replace(young, ptx="")}, seed=1, small=True)
    assert "rejected the code" in row["failures"]["ours"]


@requires_ptxas
@pytest.mark.oracle
def test_a_peer_that_fails_costs_its_own_time_only(
    fake: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> float:
        raise ValueError("no room")

    case = CASES["vector add f16 4096"]
    monkeypatch.setattr(gpu_worker, "_peers", lambda *args: {"torch": fails})
    row = gpu_worker.run_case(Device(SMALL), case, {"ours": made(case, fake)}, seed=11, small=True)
    assert row["seconds"].keys() == {"ours"} and row["failures"] == {"torch": "ValueError: no room"}


def test_maps_of_all_elements_are_recorded() -> None:
    """The record of a product of 8-bit floats could not be read, which ended the worker."""
    elements = {*FLOATS.values(), *(IntegerType(bits) for bits in (8, 16, 32, 64))}
    for element in elements:
        box = MemRefType(element, [8, 64], memory_space=SHARED_SPACE)
        ty = TensorMapDescriptorType(box, "swizzle_64b")
        plan = TensorMapPlan(ty, 2, (Argument(3), 128), (Argument(4), 1))
        assert TensorMapPlan.of_record(json.loads(json.dumps(plan.as_record()))) == plan


@requires_ptxas
@pytest.mark.oracle
def test_a_wrong_kernel_is_told(fake: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["vector add f16 4096"]
    device = Device(SMALL)
    monkeypatch.setattr(FakeCuda, "_run", lambda *args: None)
    row = gpu_worker.run_case(device, case, {"ours": made(case, fake)}, seed=11, small=True)
    assert row["right"] == {"ours": False} and row["errors"]["ours"]["unwritten"] == 4096


@requires_ptxas
@pytest.mark.oracle
def test_a_kernel_that_loses_the_gpu_ends_its_row(fake: FakeCuda) -> None:
    case = CASES["vector add f16 4096"]
    device = Device(SMALL)
    code = made(case, fake)
    fake.on_launch = 700
    row = gpu_worker.run_case(device, case, {"ours": code}, seed=11, small=True)
    assert "accessed memory that is not allocated" in row["failures"]["ours"]


#: What the loop of each measurement is about.
WORK = {
    "l2_latency": ("LDG", 4),
    "hbm_latency": ("LDG", 4),
    "shared_latency": ("LDS", 4),
    "shuffle_latency": ("SHFL", 8),
    "sfu_latency": ("MUFU", 8),
    "sfu_lanes": ("MUFU", 8),
    "barrier_latency": ("BAR", 8),
    "atomic_latency": ("ATOMG", 4),
    "update_clocks": ("RED|REDG", 1),
    "mma_sync_share": ("HMMA", 4),
    "hbm_share": ("LDG", 1),
}


@functools.cache
def _micro_kernels(target: str) -> dict[str, Kernel]:
    """The machine code of all of them, by one run of the tools, which take long to begin."""
    ptx = {n: micro.kernel(target).ptx for n, micro in enumerate(gpu_micro.MICROS)}
    cubin = assemble(together(ptx, target), target).cubin
    found = {kernel.name: kernel for kernel in read_kernels(cubin, disassemble_to_json)}
    return {micro.constant: found[f"k__{n}"] for n, micro in enumerate(gpu_micro.MICROS)}


@requires_nvdisasm
@pytest.mark.oracle
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120a"])
@pytest.mark.parametrize("micro", gpu_micro.MICROS, ids=lambda micro: micro.constant)
def test_small_kernels_do_what_they_measure(micro: gpu_micro.Micro, target: str) -> None:
    """In the machine code there is a loop with as many of the instructions as a turn is to have, or a multiple
    of it where the assembler has unrolled."""
    kernel = _micro_kernels(target)[micro.constant]
    opcode, count = WORK[micro.constant]
    names = opcode.split("|")
    found = [sum(i.base in names for i in kernel.body(loop)) for loop in kernel.loops]
    assert any(n and n % count == 0 for n in found), found
    assert kernel.spills == 0


@requires_ptxas
@pytest.mark.oracle
@pytest.mark.parametrize("micro", gpu_micro.MICROS, ids=lambda micro: micro.constant)
def test_constants_are_measured(micro: gpu_micro.Micro, fake: FakeCuda) -> None:
    """Each runs, and gives a number; which one, hardware says."""
    device = Device(SMALL)
    gpu = GPUS["h100"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu_micro.Micro, "code", lambda self, target: from_fake(self, fake))
        value = gpu_micro.measure(device, micro, gpu, "sm_90a", 1.7e9, scale=1 << 20)
    assert value > 0 and fake.counts["cuLaunchKernelEx"] == 4 and not fake.lost
    assert micro.constant in gpu.constants
    device.close()


def from_fake(micro: gpu_micro.Micro, fake: FakeCuda) -> Code:
    from tilewright.gpu import CompileOptions, tools
    from tilewright.gpu import compile as compiling
    from tilewright.text import parse

    module: Any = parse(micro.text())
    kernel = compiling.compile_kernel(module, "sm_90a", None, CompileOptions(True))
    return Code(tools.assemble(kernel.ptx, "sm_90a").cubin)


def test_a_chase_goes_through_all_lines() -> None:
    words = gpu_micro.chase(1 << 14)
    at, seen = 0, set()
    for _ in range(1 << 7):
        seen.add(at)
        at = int(words[at // 8])
    assert at == 0 and len(seen) == 1 << 7


def test_values_follow_from_seconds() -> None:
    by_name = {micro.constant: micro for micro in gpu_micro.MICROS}
    gpu = GPUS["h100"]
    assert by_name["l2_latency"].value(4 * 262 / 1e9, gpu, 1, 1e9) == pytest.approx(262)
    seconds = 8 * 1024 / 16 / 1e9  # 132 blocks of 1024 threads, 16 lanes a clock
    assert by_name["sfu_lanes"].value(seconds, gpu, 132, 1e9) == pytest.approx(16)
    seconds = 4 * 4 * 16 * 8 * 16 * 4 / 2048 / 1e9
    assert by_name["mma_sync_share"].value(seconds, gpu, 4 * 132, 1e9) == pytest.approx(1)
    seconds = 32 * 512 * 528 / 3350e9
    assert by_name["hbm_share"].value(seconds, gpu, 528, 1e9) == pytest.approx(1)


def test_gpus_of_the_model() -> None:
    assert gpu_micro.model_of(90, "NVIDIA H200").name == "h200"  # pyright: ignore
    assert gpu_micro.model_of(90, "NVIDIA H100 80GB HBM3").name == "h100"  # pyright: ignore
    assert gpu_micro.model_of(80, "NVIDIA A100-SXM4-80GB").name == "a100"  # pyright: ignore
    assert gpu_micro.model_of(120, "NVIDIA GeForce RTX 5090").name == "rtx5090"  # pyright: ignore
    assert gpu_micro.model_of(75, "T4") is None


# The whole command

WORKER = """
import json, os, sys, time
folder, target, seed, file, *names = sys.argv[1:]
with open(file, "a") as out:
    for name in names:
        out.write(json.dumps({"job": name}) + "\\n"); out.flush()
        what = name.partition(":")[2]
        if what.startswith("vector"):
            os._exit(7)
        if what.startswith("gelu"):
            time.sleep(60)
        row = {"right": {"ours": not what.startswith("sort"), "tileiras": True},
               "seconds": {"ours": 2e-6, "tileiras": 4e-6}, "failures": {"torch": "not here"}}
        if name.startswith("constant"):
            row = {"constant": what, "gpu": "h100", "value": 0.5, "model": 0.25, "clock": 1.7e9}
        out.write(json.dumps({"job": name, "row": row}) + "\\n"); out.flush()
"""


def test_limits_count_what_a_job_computes_not_what_it_waits() -> None:
    """Where others use the machine, a job has a part of it only: rows were recorded without a time for that."""
    assert in_process(lambda: time.sleep(1.5) or "done", 1) == "done"
    with pytest.raises(TimeoutError, match="no end within 1 CPU seconds"):
        in_process(lambda: sum(itertools.count()), 1, patience=60)
    with pytest.raises(TimeoutError, match=r"no end within 0\.5 s"):
        in_process(lambda: time.sleep(60), 0.5, patience=1)


def test_it_goes_on_after_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that ends at a kernel, and one that sticks: the others are measured, and all is written."""
    monkeypatch.setattr(benchmark, "STUCK", 1.0)
    monkeypatch.setattr(benchmark, "CODES", tmp_path / "codes")
    failing = {
        "ours": lambda *args: Compiled(failure="no"),
        "tileiras": lambda *args: Compiled(b"x"),
    }
    monkeypatch.setattr(benchmark, "_COMPILERS", failing)
    kernels = ["vector add", "gelu", "sort", "top-k", "prefix"]
    arguments = ["--all", "--out", str(tmp_path), "--target", "sm_90a", "--no-tests", "--kernels"]
    options = benchmark.parser().parse_args([*arguments, *kernels])
    run = benchmark.run_all(options, [sys.executable, "-c", WORKER])
    rows = {row["job"]: row for row in run.data["rows"]}
    assert len(rows) == len(run.data["rows"]) == 5 + len(gpu_micro.MICROS)
    assert rows["kernel:vector add f16 4096"]["failure"] == "the process ended with 7"
    assert rows["kernel:gelu bf16 2048"]["failure"] == "no end within 1 s"
    written = json.loads((tmp_path / "gpu.json").read_text())
    assert written["rows"] == run.data["rows"] and written["seed"] == run.seed
    text = (tmp_path / "gpu.md").read_text()
    assert "| sort f32 256 | NO | 2.0 us | 0.50 |" in text
    assert "Geometric means of ratios: tileiras 0.50 over 2, worst 0.50" in text
    constants = (tmp_path / "constants_h100.json").read_text()
    assert load_constants(constants, GPUS["h100"])["l2_latency"] == 0.5
    held = json.loads((tmp_path / "codes" / "sm_90a" / "codes.json").read_text())
    assert (
        held["sort f32 256"]["ours"] == {"failure": "no"}
        and "file" in held["sort f32 256"]["tileiras"]
    )


def test_it_ends_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = benchmark.Run(tmp_path, "sm_90a", benchmark.time.monotonic() + 1.5, 1, {})
    slow = "import sys, time; open(sys.argv[4], 'a').close(); time.sleep(60)"
    rows = benchmark.measure(run, ["kernel:a", "kernel:b"], tmp_path, [sys.executable, "-c", slow])
    assert [row["failure"] for row in rows] == ["not run: out of time"] * 2
    assert (tmp_path / "gpu.md").exists()


def test_without_a_gpu_it_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.gpu.test_launch import MISSING

    if not MISSING:
        pytest.skip("there is a GPU")
    with pytest.raises(SystemExit) as caught:
        benchmark.main(["--all", "--no-tests"])
    assert MISSING in str(caught.value)


@requires_ptxas
@pytest.mark.oracle
def test_the_worker_reads_what_was_prepared(
    tmp_path: Path, fake: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Machine code goes through files; rows come back through one."""
    case = CASES["vector add f16 4096"]
    code = made(case, fake)
    shared, scratch = code.dynamic_shared_bytes, code.scratch_bytes
    ready = Compiled(code.cubin, (1.0,), shared, "", scratch, code.maps)
    both = {"ours": lambda *args: ready, "tileiras": lambda *args: Compiled(failure="not there")}
    monkeypatch.setattr(benchmark, "_COMPILERS", both)
    benchmark.prepare([case], "sm_90a", tmp_path, 1)
    monkeypatch.setattr(gpu_worker, "Device", lambda: Device(SMALL))
    monkeypatch.setattr(
        gpu_worker,
        "_launches",
        lambda case, small: [(case.few, case.few_grid), (case.few, case.few_grid)],
    )
    file = tmp_path / "rows.jsonl"
    with file.open("a") as out:
        gpu_worker.work(tmp_path, "sm_90a", 3, [f"kernel:{case.name}"], out)
    begun, done = (json.loads(line) for line in file.read_text().splitlines())
    assert begun == {"job": f"kernel:{case.name}"}
    assert done["row"]["right"] == {"ours": True}
    assert "ours" in report({"rows": [{"job": done["job"], **done["row"]}]})


def test_what_was_prepared_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine without compilers, or to save their time; not for another kernel, architecture or source."""
    asked: list[str] = []

    def compiler(name: str, *, there: bool = True) -> Any:
        def compiled(*args: Any) -> Compiled:
            asked.append(name)
            return Compiled(b"code", (1.0,)) if there else Compiled(failure="not there")

        return compiled

    one, two = CASES["vector add f16 4096"], CASES["gelu bf16 2048"]
    both = {"ours": compiler("ours"), "tileiras": compiler("tileiras")}
    monkeypatch.setattr(benchmark, "_COMPILERS", both)
    benchmark.prepare([one], "sm_90a", tmp_path, 1)
    assert sorted(asked) == ["ours", "tileiras"]
    neither = {name: compiler(name, there=False) for name in both}
    monkeypatch.setattr(benchmark, "_COMPILERS", neither)
    monkeypatch.setattr(benchmark, "_version", lambda package: "")
    asked.clear()
    codes = benchmark.prepare([one, two], "sm_90a", tmp_path, 1)
    assert all("file" in held for held in codes[one.name].values())
    assert all("failure" in held for held in codes[two.name].values()) and len(asked) == 2
    asked.clear()
    monkeypatch.setattr(benchmark, "fingerprint", lambda: "other")
    assert benchmark.prepare([one], "sm_90a", tmp_path, 1)[one.name]["ours"]["failure"]
    assert benchmark.prepare([one], "sm_80", tmp_path, 1)[one.name]["tileiras"]["failure"]
    assert asked == ["ours", "ours", "tileiras"]


@pytest.mark.rotates(2)
def test_tests_that_do_not_end_say_how_far_they_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tests = tmp_path / "test_slow.py"
    tests.write_text(
        "import time\ndef test_a(): pass\ndef test_b(): assert 0\ndef test_c(): time.sleep(60)\n"
    )
    monkeypatch.setattr(benchmark, "GPU_TESTS", (str(tests),))
    run = benchmark.Run(tmp_path, "sm_90a", benchmark.time.monotonic() + 60, 1, {})
    monkeypatch.setattr(benchmark, "TEST_PROCESSES", 0)
    monkeypatch.setattr(benchmark, "TESTS", 8.0)
    found = benchmark.gpu_tests(run)
    assert found["summary"] == "no end within 8 s: 1 passed, 1 failed until then"
    assert "test_b" in found["failed"][0]
    tests.write_text("def test_a(): pass\ndef test_b(): assert 0\n")
    monkeypatch.setattr(benchmark, "TESTS", 60.0)
    found = benchmark.gpu_tests(run)
    assert "1 failed, 1 passed" in found["summary"] and len(found["failed"]) == 1


def test_no_constants_no_file() -> None:
    assert constants_file({"rows": [{"job": "constant:x", "failure": "no"}]}) == {}
