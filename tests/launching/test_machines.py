"""One interface for all machines: names, options, arguments and results are alike everywhere."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import every_machine as every

import tilewright
from tilewright import LaunchOptions
from tilewright.diagnostics import Diagnostic, TileIRError
from tilewright.launching import machine as interface
from tilewright.launching.machine import MACHINES, machine_named
from tilewright.launching.options import OPTIONS, options_of_kind
from tilewright.machine.inspect import Breakpoint, Trace

pytest.importorskip("llvmlite", reason="the CPU machine needs llvmlite")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
#: One of each kind but ``cuda``, which needs a GPU.
HERE = tuple(
    kind + (":sm_90a" if each.variant == "required" else "")
    for kind, each in MACHINES.items()
    if kind != "cuda"
)
every_machine = pytest.mark.parametrize("machine", HERE)

COUNT = """
global @total <i32: 40> : tile<1xi32>
entry @count(%out: tile<ptr<i32>>) {
  %one = constant <i32: 1> : tile<i32>
  %at = get_global @total : tile<ptr<i32>>
  %old, %t = load_ptr_tko weak %at : tile<ptr<i32>> -> tile<i32>, token
  %new = addi %old, %one : tile<i32>
  %s = store_ptr_tko weak %at, %new token=%t : tile<ptr<i32>>, tile<i32> -> token
  %u = store_ptr_tko weak %out, %new token=%s : tile<ptr<i32>>, tile<i32> -> token
  print_tko "now %d\\n", %new : tile<i32> -> token
  return
}
"""
THROUGH = """
entry @through(%table: tile<ptr<i64>>, %out: tile<ptr<f32>>) {
  %a, %t = load_ptr_tko weak %table : tile<ptr<i64>> -> tile<i64>, token
  %p = int_to_ptr %a : tile<i64> -> tile<ptr<f32>>
  %x, %u = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
  %s = store_ptr_tko weak %out, %x token=%u : tile<ptr<f32>>, tile<f32> -> token
  return
}
"""


def vector_add() -> Any:
    return tilewright.parse((EXAMPLES / "vector_add.tileir").read_text())


def refused(act: Callable[[], object]) -> tuple[Diagnostic, ...]:
    with pytest.raises(TileIRError) as caught:
        act()
    return caught.value.diagnostics


@every_machine
def test_run_updates_arrays_in_place(machine: str) -> None:
    x, out = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    result = tilewright.run(vector_add(), "vector_add", 8, [x, x, out, 1000], machine=machine)
    assert (out == 2 * x).all()
    assert [a is b for a, b in zip(result.outputs, (x, x, out), strict=True)] == [True] * 3
    assert result.text == "" and result.failures == ()


@every_machine
def test_a_program_keeps_globals_and_prints(machine: str) -> None:
    program = tilewright.load(tilewright.parse(COUNT), machine=machine)
    out, heard = np.zeros(1, np.int32), []
    for expected in (41, 42):
        result = program.launch("count", 1, [out], LaunchOptions(print_to=heard.append))
        assert out[0] == expected and result.text == f"now {expected}\n"
    assert program.global_array("total").tolist() == [42]
    assert "".join(heard) == "now 41\nnow 42\n"
    with pytest.raises(KeyError, match="public globals: total"):
        program.global_array("none")


@every_machine
def test_arrays_are_reached_by_address(machine: str) -> None:
    program = tilewright.load(tilewright.parse(THROUGH), machine=machine)
    hidden, out = np.full(1, 7, np.float32), np.zeros(1, np.float32)
    table = np.array([program.map_array(hidden)], np.int64)
    program.launch(None, 1, [table, out])
    assert out[0] == 7


def test_checks_of_a_program_use_its_globals_and_mapped_arrays() -> None:
    out = np.zeros(1, np.int32)
    counting = tilewright.load(tilewright.parse(COUNT))
    counting.launch("count", 1, [out])
    counting.launch("count", 1, [out], LaunchOptions(sanitize=True, seeds=3))
    assert out[0] == 42 and counting.global_array("total").tolist() == [42]
    through = tilewright.load(tilewright.parse(THROUGH))
    hidden, result = np.full(1, 7, np.float32), np.zeros(1, np.float32)
    table = np.array([through.map_array(hidden)], np.int64)
    through.launch(None, 1, [table, result], LaunchOptions(sanitize=True))
    assert result[0] == 7


@every_machine
def test_arrays_of_other_libraries(machine: str) -> None:
    class Spoken:
        """What speaks DLPack and nothing else."""

        def __init__(self, array: np.ndarray):
            self.array = array

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    x, out = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    given = [Spoken(x), Spoken(x), Spoken(out), 1000]
    tilewright.run(vector_add(), None, 8, given, machine=machine)
    assert (out == 2).all()


@every_machine
@pytest.mark.parametrize(
    ("grid", "args", "codes"),
    [
        (8, [1], ["bad-argument"]),
        ((0,), [np.ones(4, np.int32), 2.5, 3, 1.5], ["bad-grid", *["bad-argument"] * 3]),
        ((1, 1, 1, 1), [np.ones(4, np.float32)] * 3 + [4], ["bad-grid"]),
    ],
)
def test_wrong_launches_are_told_alike(
    machine: str, grid: Any, args: list[Any], codes: list[str]
) -> None:
    args = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    found = refused(lambda: tilewright.run(vector_add(), None, grid, args, machine=machine))
    reference = refused(lambda: tilewright.run(vector_add(), None, grid, args))
    assert [d.message for d in found] == [d.message for d in reference]
    if codes != ["bad-grid"]:
        assert len(found) >= 1 and {d.code for d in found} <= {"bad-grid", "bad-argument"}


@every_machine
def test_ir_that_is_not_valid(machine: str) -> None:
    module: Any = tilewright.parse("entry @k() { return }")
    next(iter(module.walk())).regions[0].blocks[0].first_op.regions[0].blocks[0].first_op.detach()
    assert refused(lambda: tilewright.load(module, machine=machine))


# Names


@pytest.mark.parametrize(
    ("name", "help"),
    [
        ("nothing", ""),
        ("", ""),
        ("Reference", ""),
        (None, ""),
        (["cpu"], ""),
        ("sim", "'sim' needs a GPU architecture after a colon: 'sim:sm_90a'"),
        ("sim:", "'sim' needs a GPU architecture after a colon: 'sim:sm_90a'"),
        ("cuda:", "an architecture follows the colon: 'cuda:sm_90a'"),
        ("cpu:x", "'cpu' has no architectures"),
        ("reference:sm_90", "'reference' has no architectures"),
    ],
)
def test_machines_that_there_are_not(name: Any, help: str) -> None:
    (found,) = refused(lambda: tilewright.load(vector_add(), machine=name))
    assert found.code == "unknown-machine"
    assert repr(name) in found.message
    assert [each.spelled for each in MACHINES.values() if each.spelled not in found.message] == []
    assert found.help == help


@pytest.mark.parametrize("name", ["sim:sm_91", "sim:gfx90", "cuda:sm_1"])
def test_architectures_that_nobody_knows(name: str) -> None:
    (found,) = refused(lambda: tilewright.load(vector_add(), machine=name))
    assert name.partition(":")[2] in found.message and "sm_90" in found.message + found.help


def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named 'llvmlite' in {name}", name="llvmlite.binding")

    monkeypatch.setattr(interface, "import_module", missing)
    (found,) = refused(lambda: tilewright.load(vector_add(), machine="cpu"))
    assert found.code == "machine-not-available"
    assert "'cpu' needs llvmlite" in found.message and found.help == "pip install llvmlite"


# Options

#: A value for each option that is not its default.
OTHERS: dict[str, Any] = {
    "seed": 3,
    "resident": 2,
    "check_asserts": False,
    "max_iterations": 5,
    "time_limit": 9.0,
    "allow_overlap": True,
    "print_to": print,
    "progress": print,
    "arithmetic": tilewright.Arithmetic(reductions="tree"),
    "plugins": {"f": abs},
    "sanitize": True,
    "seeds": 2,
    "races": False,
    "find_nan": True,
    "breakpoints": [Breakpoint("addf")],
    "trace": Trace(),
    "threads": 1,
    "cpu": "generic",
    "checked": True,
    "optimization": 2,
    "deadlock_timeout": 3.0,
    "numerics": "exact",
    "memory": [np.zeros(1)],
    "strict": False,
    "in_groups": True,
    "timeline_blocks": 0,
    "registers": 32,
    "block": 32,
    "cluster": 2,
    "dynamic_shared_bytes": 16,
}
REFUSED = [
    (name, machine)
    for name in OPTIONS
    for machine in HERE
    if name not in options_of_kind(machine.partition(":")[0])
]


def test_every_option_is_tried() -> None:
    assert set(OPTIONS) <= set(OTHERS)


@pytest.mark.parametrize(("name", "machine"), REFUSED)
def test_options_that_a_machine_lacks(name: str, machine: str) -> None:
    options = LaunchOptions(**{name: OTHERS[name]})
    x, out = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    launch = vector_add(), None, 8, [x, x, out, 1000], machine, options
    (found,) = refused(lambda: tilewright.run(*launch))
    assert found.code == "unsupported-option"
    assert f"`{name}`" in found.message and f"'{machine}'" in found.message
    for kind in OPTIONS[name].machines:
        assert MACHINES[kind].spelled.partition("[")[0] in found.message
    program = tilewright.load(vector_add(), machine=machine)
    assert refused(lambda: program.launch(None, 8, [x, x, out, 1000], options)) == (found,)
    assert not out.any()


@pytest.mark.parametrize("name", [n for n, i in OPTIONS.items() if i.levels == ("nvgpu",)])
def test_options_of_another_level(name: str) -> None:
    options = LaunchOptions(**{name: OTHERS[name]})
    (found,) = refused(lambda: tilewright.load(vector_add(), "sim:sm_90a", options))
    assert found.message == f"`{name}` is for kernels of nvgpu; those of Tile IR have their own"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"seed": -1}, "seed must be an integer of at least 0, not -1"),
        ({"seed": True}, "not True"),
        ({"seeds": []}, "seeds must name at least one seed"),
        ({"seeds": 10**20}, "seeds must be at most 1,000,000, not 100000000000000000000"),
        ({"seeds": range(10**20)}, "seeds must name at most 1,000,000 seeds"),
        ({"seeds": range(1_000_001)}, "seeds must name at most 1,000,000 seeds"),
        ({"seeds": [0, -1]}, "a seed must be an integer of at least 0, not -1"),
        ({"sanitize": 1}, "sanitize must be True or False, not 1"),
        ({"print_to": "x"}, "print_to must be a function, not 'x'"),
        ({"arithmetic": "tree"}, "Arithmetic.parse"),
        ({"plugins": [1]}, "plugins must be a mapping from names to functions"),
        ({"numerics": "good"}, "'tensor-core', 'exact', 'portable', not 'good'"),
        ({"optimization": 4}, "optimization must be one of 0, 1, 2, 3, not 4"),
        ({"deadlock_timeout": 0}, "above 0"),
        ({"block": (1, 2, 3, 4)}, "block must be one to three integers of at least 1"),
        ({"cluster": 0}, "cluster must be one to three integers of at least 1, not 0"),
        ({"breakpoints": [3]}, "must be Breakpoints, or (FILE, LINE) of a cuTile program, not 3"),
        ({"breakpoints": "addf"}, "breakpoints must be a list of Breakpoints, not 'addf'"),
        ({"trace": "t"}, "trace must be a Trace of tilewright.machine.inspect, not 't'"),
        ({"memory": 1}, "memory must be a list of NumPy arrays, not 1"),
    ],
)
def test_values_that_make_no_sense(options: dict[str, Any], says: str) -> None:
    (found,) = refused(lambda: LaunchOptions(**options))
    assert found.code == "bad-run-option" and says in found.message


def test_the_old_name_of_an_option_warns() -> None:
    with pytest.warns(DeprecationWarning, match="patience is called deadlock_timeout"):
        options = LaunchOptions(patience=2.5)
    assert options.deadlock_timeout == 2.5 and options.changed == ("deadlock_timeout",)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"breakpoints": [("a.py", 3)]}, "lines are breakpoints in cuTile programs only"),
        ({"trace": print}, "a launch of a module records a Trace, not <built-in function print>"),
    ],
)
def test_options_of_programs_are_none_of_modules(options: dict[str, Any], says: str) -> None:
    x, out = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    wanted, given = LaunchOptions(**options), [x, x, out, 1000]
    (found,) = refused(lambda: tilewright.run(vector_add(), None, 8, given, options=wanted))
    assert found.code == "bad-run-option" and says in found.message


# Numbers of threads, which may come from the environment, are the CPU machine's to refuse.
@pytest.mark.parametrize("name", [name for name in OPTIONS if name != "threads"])
def test_no_option_takes_just_anything(name: str) -> None:
    (found,) = refused(lambda: LaunchOptions(**{name: object()}))
    assert found.code == "bad-run-option" and found.message.startswith(f"{name} ")


def test_all_wrong_values_are_told() -> None:
    assert len(refused(lambda: LaunchOptions(seed=-1, max_iterations=0, numerics="x"))) == 3


def test_options_show_what_is_not_the_default() -> None:
    assert repr(LaunchOptions()) == "LaunchOptions()"
    assert repr(LaunchOptions(seed=3, cpu="generic")) == "LaunchOptions(seed=3, cpu='generic')"
    assert LaunchOptions(seed=3).changed == ("seed",)


def test_every_option_is_documented() -> None:
    for name, info in OPTIONS.items():
        assert info.meaning.endswith("."), name
        assert info.values and info.machines and set(info.machines) <= set(MACHINES), name
        assert f"``{name}``" in (LaunchOptions.__doc__ or "")


@pytest.mark.parametrize("name", ["time_limit", "allow_overlap", "print_to"])
def test_every_machine_takes_common_options(name: str) -> None:
    """A GPU has a time limit, too, although it cannot be stopped: the launch returns."""
    assert [kind for kind in MACHINES if kind not in OPTIONS[name].machines] == []


def test_options_at_load_hold_where_a_launch_leaves_the_default() -> None:
    seen: list[str] = []
    program = tilewright.load(tilewright.parse(COUNT), "cpu", LaunchOptions(print_to=seen.append))
    out = np.zeros(1, np.int32)
    program.launch(None, 1, [out])
    program.launch(None, 1, [out], LaunchOptions(threads=1))
    assert seen == ["now 41\n", "now 42\n"]
    heard: list[str] = []
    program.launch(None, 1, [out], LaunchOptions(print_to=heard.append))
    assert len(seen) == 2 and heard == ["now 43\n"]


def test_options_of_compiling_may_change_between_launches() -> None:
    program = tilewright.load(vector_add(), "cpu")
    x = np.ones(1000, np.float32)
    for options in (None, LaunchOptions(checked=True), LaunchOptions(optimization=2), None):
        out = np.zeros(1000, np.float32)
        program.launch(None, 8, [x, x, out, 1000], options)
        assert (out == 2).all()
    program = tilewright.load(vector_add())
    tree = LaunchOptions(arithmetic=tilewright.Arithmetic(reductions="tree"))
    for options, name in ((None, "ascending"), (tree, "tree"), (None, "ascending")):
        result = program.launch(None, 8, [x, x, np.zeros(1000, np.float32), 1000], options)
        assert result.arithmetic.reductions == name


@pytest.mark.parametrize("machine", ["reference", "cpu"])
def test_kernels_of_threads_need_a_machine_with_threads(machine: str) -> None:
    module = tilewright.parse((EXAMPLES / "nvgpu" / "vector_add.mlir").read_text())
    (found,) = refused(lambda: tilewright.load(module, machine=machine))
    assert found.code == "unsupported-level"
    assert "sim:ARCH and cuda[:ARCH]" in found.message


def test_kernels_of_threads_name_their_threads() -> None:
    text = """module attributes {gpu.container_module} {
  gpu.module @m {
    gpu.func @k(%p: memref<32xf32>) kernel {
      %t = gpu.thread_id x
      %x = memref.load %p[%t] : memref<32xf32>
      %y = arith.addf %x, %x : f32
      memref.store %y, %p[%t] : memref<32xf32>
      gpu.return
    }
  }
}"""
    x = np.ones(32, np.float32)
    result = tilewright.run(
        tilewright.parse(text), "k", 1, [x], "sim:sm_80", LaunchOptions(block=32)
    )
    assert (x == 2).all() and result.outputs[0] is x
    (found,) = refused(lambda: tilewright.run(tilewright.parse(text), "k", 1, [x], "sim:sm_80"))
    assert "needs the number of threads per block" in found.message


# The interface itself

_HELP = re.compile(r'help="((?:[^"]|"\s+")*)"')


@pytest.mark.parametrize(
    "path", ["cli/programs.py", "cli/run_machine.py", "cli/run_script.py", "pytest.py"]
)
def test_help_names_every_machine(path: str) -> None:
    """It is written out: the table takes too long to import."""
    text = (Path(tilewright.__file__).parent / path).read_text(encoding="utf-8")
    (shown,) = (text for text in _HELP.findall(text) if "reference" in text and "cpu" in text)
    assert [kind for kind in MACHINES if not re.search(rf"\b{kind}\b", shown)] == []


def test_kernels_with_a_history_run_on_every_machine() -> None:
    """``tests/every_machine.py`` has a launch for each; GPUs have tests of their own."""
    launched = {re.split("[:-]", name)[0] for name in every.MACHINES}
    assert [kind for kind in MACHINES if kind not in launched | {"cuda"}] == []


def test_every_machine_is_a_module_that_can_be_found() -> None:
    for name in (*HERE, "cuda"):
        machine = machine_named(name)
        backend = machine._backend
        for member in ("check", "load", "get_ready"):
            assert callable(getattr(backend, member)), (name, member)


@every_machine
def test_programs_have_what_the_protocol_says(machine: str) -> None:
    program = tilewright.load(vector_add(), machine=machine)
    for member in ("module", "launch", "launch_described", "map_array", "global_array"):
        assert hasattr(program, member), member


def test_a_machine_is_imported_when_it_is_used() -> None:
    code = (
        "import sys, tilewright\n"
        "from tilewright.launching.machine import machine_named\n"
        "machine_named('cpu'); machine_named('sim:sm_90a'); machine_named('cuda')\n"
        "machines = ('machine', 'cpu', 'simulator', 'gpu')\n"
        "loaded = [r for r in machines if f'tilewright.{r}' in sys.modules]\n"
        "assert not loaded, loaded\n"
        "try:\n"
        "    machine_named('cuda').check()\n"
        "except tilewright.TileIRError:\n"
        "    pass\n"
        "assert 'tilewright.gpu.codegen' not in sys.modules, 'a compiler, to see whether there is a GPU'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_keywords_of_before_still_work_and_warn() -> None:
    x, out = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    launch = "vector_add", 8, [x, x, out, 1000]
    with pytest.warns(DeprecationWarning, match=r"options=LaunchOptions\(seed=\.\.\.\)"):
        tilewright.run(vector_add(), *launch, seed=1)
    with pytest.warns(DeprecationWarning, match="tilewright.run"):
        tilewright.machine.run(vector_add(), *launch)  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(TypeError, match="unexpected keyword argument 'sed'"):
        tilewright.run(vector_add(), *launch, sed=1)


def test_text_is_no_path() -> None:
    """A mistake of the first minutes: the system would say that the name is too long."""
    with pytest.raises(FileNotFoundError, match=r"tilewright\.parse"):
        tilewright.load(THROUGH, "reference")
