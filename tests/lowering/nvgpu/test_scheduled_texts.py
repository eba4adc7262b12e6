"""What has been scheduled is compiled from where it stands: text of any pass in between goes on to the same program."""

from __future__ import annotations

import numpy as np
import pytest
from tests.passes.tileas import kernels as K
from tests.passes.tileas.test_tma import how, launch, product

from tilewright import LaunchOptions
from tilewright.cpu import Program as CpuProgram
from tilewright.diagnostics import TileIRError
from tilewright.launching.threads import LoweredProgram
from tilewright.lowering.scheduled import schedule as S
from tilewright.passes.pipelines import PIPELINES, parse_pipeline
from tilewright.passes.tileas.decisions import FREE, Decisions
from tilewright.passes.tileas.progress import LAST_PASS
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse, print_text

SHARED_BYTES = 227 << 10
KERNELS = {
    "product": product(64, 64, 64),
    "persistent": product(64, 64, 64, nested=True),
    "attention": K.attention(),
    "row_maxima": K.row_maxima(),
}


def program(text: str, arch: str = "sm_90a", decisions: Decisions = FREE) -> LoweredProgram:
    return LoweredProgram(parse(text), arch, SHARED_BYTES, decisions)


def scheduled(text: str, arch: str = "sm_90a") -> str:
    return print_text(program(text, arch).scheduled("k").module)


def nameless(text: str) -> str:
    """A text whose values have numbers: where two had one name, reading it makes another one."""
    module = parse(text)
    for op in module.walk():
        blocks = [block for region in op.regions for block in region.blocks]
        for value in (*op.results, *(arg for block in blocks for arg in block.args)):
            value.name_hint = None
    return print_text(module)


def test_the_steps_are_the_pipeline() -> None:
    assert list(S.STEPS) == [each.name for each in parse_pipeline(",".join(PIPELINES["tileas"]))]


@pytest.mark.parametrize(
    ("name", "arch", "first"),
    [
        ("product", "sm_90a", 0),
        ("persistent", "sm_90a", 1),
        ("attention", "sm_80", 2),
        ("row_maxima", "sm_80", 0),
    ],
)
def test_text_goes_on_from_every_third_pass(
    name: str, arch: str, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = KERNELS[name]
    whole = nameless(scheduled(text, arch))
    steps = list(S.STEPS)
    halves: list[str] = []
    for last in steps[first::3]:
        with monkeypatch.context() as patch:
            some = {step: S.STEPS[step] for step in steps[: steps.index(last) + 1]}
            patch.setattr(S, "STEPS", some)
            halves.append(scheduled(text, arch))
        assert f'{LAST_PASS} = "{last}"' in halves[-1]
        assert nameless(scheduled(halves[-1], arch)) == whole, last
    assert len(set(halves)) == len(halves)
    threads = [print_text(program(given, arch).kernel("k").module) for given in (text, halves[1])]
    assert nameless(threads[0]) == nameless(threads[1])


def test_the_simulator_runs_scheduled_text() -> None:
    text = product(64, 64, 64)
    ready = TileProgram(parse(scheduled(text)), "sm_90a")
    for seed in range(3):
        options = {"options": LaunchOptions(seed=seed)}
        found, right = launch(ready, (64, 60, 100), (64, 64, 64), how(options=options))
        np.testing.assert_array_equal(found, right)


def test_layouts_that_somebody_has_written_stay() -> None:
    """Text that does not say how far it is has its layouts; the passes behind them go on."""
    text = print_text(K.lowered(K.transposed(), "tileaa,tileas-assign-layouts{num-warps=8}"))
    bare = text.replace(f', {LAST_PASS} = "tileas-assign-layouts"', "")
    assert LAST_PASS not in bare and LAST_PASS in text
    made = scheduled(bare)
    assert "nv_tileas.synchronised" in made
    layouts = [line for line in bare.splitlines() if line.startswith("#layout")]
    assert len(layouts) > 1
    assert [line for line in made.splitlines() if line.startswith("#layout")] == layouts


def test_what_comes_too_late() -> None:
    ready = scheduled(KERNELS["product"])
    with pytest.raises(TileIRError, match="already-scheduled") as caught:
        program(ready, decisions=Decisions(stages=2)).kernel("k")
    assert "up to 'tileas-insert-barriers': decisions come too late" in str(caught.value)


def test_a_pass_that_there_is_not() -> None:
    wrong = scheduled(KERNELS["product"]).replace('"tileas-insert-barriers"', '"tileas-magic"')
    with pytest.raises(TileIRError, match="is not a pass of the pipeline tileas: 'tileas-magic'"):
        program(wrong).kernel("k")


def test_scheduled_text_falls_back_to_nothing() -> None:
    """There is no program without a schedule to lower instead."""
    wrong = scheduled(KERNELS["product"]).replace("offset = 0 : i64", "offset = 1048576 : i64")
    with pytest.raises(TileIRError, match="bytes of shared memory"):
        program(wrong).kernel("k")


def test_arrays_that_no_tensor_map_describes() -> None:
    ready = TileProgram(parse(scheduled(product(64, 64, 64))), "sm_90a")
    a, b, c = (np.zeros(64 * 64 + 1, ty)[1:].reshape(64, 64) for ty in "eef")
    with pytest.raises(TileIRError, match="has been scheduled for tensor maps"):
        ready.launch("k", 1, [a, b, c, 64, 64, 64, 64, 1])


def test_the_cpu_says_what_it_takes() -> None:
    ready = parse(scheduled(KERNELS["product"]))
    values = [np.zeros((64, 64), kind) for kind in "eef"]
    with pytest.raises(TileIRError, match="the kernel is scheduled for a GPU") as caught:
        CpuProgram(ready).launch("k", 1, [*values, 64, 64, 64, 64, 1])
    assert "the CPU compiles the unscheduled kernel" in caught.value.diagnostics[0].help
