"""Levels of a kernel: which lines stand for each other, what passes changed, what is found."""

from __future__ import annotations

import numpy as np
import pytest
from tests.explain.kernels import (
    EXAMPLES,
    explain_example,
    footprints_of,
    matmul_arguments,
    tile_levels,
)

from tilewright import parse, print_text, read, write
from tilewright.diagnostics import TileIRError
from tilewright.explain.analyses import ANALYSES, annotate
from tilewright.explain.changes import compare
from tilewright.explain.levels import Explanation, Level, explain_kernel
from tilewright.lowering import lower_to_tileaa
from tilewright.passes import run_pipeline

NAMES = sorted(path.stem for path in EXAMPLES.glob("*.tileir"))
LOCATED = """\
entry @located(%x: tile<ptr<f32>>) {
  %n = constant <i32: 4> : tile<i32> loc("FILE":2:7)
  %m = addi %n, %n : tile<i32> loc("FILE":2:11)
  print_tko "%i", %m : tile<i32> -> token loc("FILE":3:1)
  return loc("/nowhere/else.py":1:1)
}
"""


def level(found: Explanation, key: str) -> Level:
    return next(level for level in found.levels if level.key == key)


def twins(found: Explanation, start: str, text: str, end: str) -> list[str]:
    """The lines of a level that stand for the line of another one that holds a text."""
    (line,) = (line for line in level(found, start).lines if text in line.text)
    return [
        other.text.strip()
        for other in level(found, end).lines
        if set(line.links) & set(other.links)
    ]


def operations(lines: list[str]) -> list[str]:
    return [line.partition(" = ")[2].split()[0] for line in lines]


@pytest.mark.parametrize("name", NAMES)
def test_every_operation_of_the_lowering_has_its_origin(name: str) -> None:
    found = explain_example(name)
    source = {link for line in level(found, "tile").lines for link in line.links}
    for key in ("lowered", "final"):
        lines = level(found, key).lines
        for line in lines:
            text = line.text.strip()
            if text not in ("}", "") and not text.startswith("^"):
                assert line.links, line.text
                # The module around the kernel is not written in the example.
                assert set(line.links) <= source or text.startswith("builtin.module")


def test_lines_of_an_operation_through_all_levels() -> None:
    found = explain_example("matmul")
    assert tile_levels(found) == ["tile", "lowered", "final"]
    assert operations(twins(found, "tile", "load_view_tko weak %a_tiles", "lowered")) == [
        "arith.index_castui",
        "arith.index_castui",
        "nv_tileaa.tiled_load",
    ]
    assert operations(twins(found, "tile", "mmaf", "final")) == ["nv_tileaa.dot"]
    assert twins(found, "final", "nv_tileaa.dot", "tile")[0].startswith("%next = mmaf")
    assert twins(found, "tile", "continue", "final") == ["scf.yield %next : tile<64x64xf32>"]
    # Nothing is left of what the passes erase.
    assert len(twins(found, "lowered", "%a_rows = ", "tile")) == 1
    assert not any("%a_rows" in line.text for line in level(found, "final").lines)


def test_own_text_is_shown_and_bytecode_is_printed() -> None:
    text = (EXAMPLES / "matmul.tileir").read_text(encoding="utf-8")
    shown = level(explain_example("matmul"), "tile").lines
    assert [line.text for line in shown] == text.splitlines()
    module = read(write(parse(text)))
    printed = level(explain_kernel(module), "tile")
    assert printed.about == "printed"
    # Bytecode has no names for values; the page gives names that last.
    names = {line.text.partition(" = ")[0].strip() for line in printed.lines if " = " in line.text}
    later = explain_kernel(module)
    kept = {
        line.text.partition(" = ")[0].strip()
        for line in level(later, "final").lines
        if "tiled_load" in line.text or "make_memref" in line.text
    }
    assert kept <= names
    assert not any("%0" in line.text for line in printed.lines)


def test_text_with_numbered_values_is_printed() -> None:
    numbered = "entry @k() {\n  %0 = constant <i32: 1> : tile<i32>\n  return\n}\n"
    assert level(explain_kernel(parse(numbered)), "tile").about == "printed"


def test_source_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    source = tmp_path / "k.py"
    source.write_text("def k(x):\n    n = 4; m = n + n\n    print(m)\n", encoding="utf-8")
    found = explain_kernel(parse(LOCATED.replace("FILE", str(source))))
    assert tile_levels(found) == ["source", "tile", "lowered", "final"]
    shown = level(found, "source")
    assert (shown.about, shown.first, shown.operations) == (str(source), 1, None)
    assert [line.text for line in shown.lines] == source.read_text().splitlines()
    both = twins(found, "source", "m = n + n", "tile")
    assert [text.partition(" = ")[0] for text in both] == ["%n", "%m"]
    assert len(twins(found, "source", "print(m)", "lowered")) == 1
    assert shown.lines[0].links == ()


def test_sources_that_cannot_be_read_are_left_out(tmp_path) -> None:  # type: ignore[no-untyped-def]
    short = tmp_path / "short.py"
    short.write_text("1\n", encoding="utf-8")
    for name in (str(short), str(tmp_path), "/nowhere/k.py"):
        found = explain_kernel(parse(LOCATED.replace("FILE", name)))
        assert tile_levels(found) == ["tile", "lowered", "final"]


def test_long_sources_are_cut(tmp_path) -> None:  # type: ignore[no-untyped-def]
    source = tmp_path / "k.py"
    source.write_text("".join(f"line {n}\n" for n in range(1, 101)), encoding="utf-8")
    text = LOCATED.replace('FILE":2', 'FILE":50').replace('FILE":3', 'FILE":60')
    shown = level(explain_kernel(parse(text.replace("FILE", str(source)))), "source")
    assert shown.lines[0].text == f"line {shown.first}"
    assert 30 < shown.first < 50
    assert 60 < shown.first + len(shown.lines) < 80


def test_module_stays_as_it_is() -> None:
    path = EXAMPLES / "softmax.tileir"
    module = parse(path.read_text(encoding="utf-8"))
    before = print_text(module)
    explain_kernel(module)
    assert print_text(module) == before


def test_only_the_kernel_asked_for() -> None:
    body = "() {\n  %n = constant <i32: 1> : tile<i32>\n  return\n}\n"
    module = parse(f"entry @one{body}entry @two{body}")
    with pytest.raises(TileIRError, match="expected one kernel"):
        explain_kernel(module)
    found = explain_kernel(module, "two")
    assert found.kernel.symbol == "two"
    text = "\n".join(line.text for line in level(found, "lowered").lines)
    assert "@two" in text
    assert "@one" not in text


def test_changes_tell_every_line() -> None:
    found = explain_example("matmul")
    lowered = [line.text for line in level(found, "lowered").lines]
    final = [line.text for line in level(found, "final").lines]
    by_pass = {change.name: change for change in found.changes}
    assert list(by_pass) == [
        "tileaa-canonicalize",
        "tileaa-cse",
        "relax-tokens",
        "tileaa-licm",
        "forward-memory",
        "tileaa-dce",
    ]
    moved = by_pass["tileaa-licm"]
    assert (moved.count("added"), moved.count("removed")) == (2, 2)
    assert by_pass["tileaa-dce"].hunks == ()
    grown = sum(change.count("added") - change.count("removed") for change in found.changes)
    assert len(lowered) + grown == len(final)
    assert all(change.seconds > 0 for change in found.changes)


def test_passes_keep_names() -> None:
    """No line is said to have changed only because values are numbered anew."""
    module = read(write(parse((EXAMPLES / "softmax.tileir").read_text(encoding="utf-8"))))
    for change in explain_kernel(module).changes:
        lines = [line for hunk in change.hunks for line in hunk if line.kind != "same"]
        for line in lines:
            assert "nv_tileaa.tiled" not in line.text, change.name


def test_comparison() -> None:
    before, after = [*"abcdefghij"], [*"abcdXfghi"]
    change = compare("p", 0.5, before, after)
    shown = [(line.kind, line.before, line.after, line.text) for h in change.hunks for line in h]
    assert shown == [
        ("same", 3, 3, "c"),
        ("same", 4, 4, "d"),
        ("removed", 5, None, "e"),
        ("added", None, 5, "X"),
        ("same", 6, 6, "f"),
        ("same", 7, 7, "g"),
        ("same", 8, 8, "h"),
        ("same", 9, 9, "i"),
        ("removed", 10, None, "j"),
    ]
    assert compare("p", 0, before, before).hunks == ()


def test_no_passes() -> None:
    found = explain_example("vector_add", passes="")
    assert tile_levels(found) == ["tile", "lowered"]
    assert found.changes == ()


@pytest.mark.parametrize("passes", ["cse", "lower-cuda-tile-to-tileaa,tileaa-cse", "no-pass"])
def test_passes_of_other_levels_are_refused(passes: str) -> None:
    with pytest.raises(TileIRError, match="pass"):
        explain_example("vector_add", passes=passes)


def test_findings_are_those_of_the_analyses() -> None:
    found = explain_example("softmax", passes="")
    remarks = found.analyses["lowered"].remarks
    assert list(remarks) == list(ANALYSES)
    told = [r for by_line in remarks.values() for several in by_line.values() for r in several]
    text = "\n".join(line.text for line in level(found, "lowered").lines)
    annotated = annotate(parse(text), list(ANALYSES))
    comments = [
        line.strip().removeprefix("// ").replace(" without remarks", "")
        for line in annotated.splitlines()
        if line.strip().startswith("// ")
    ]
    assert sorted(told) == sorted(comments)
    assert not any("without remarks" in remark for remark in told)
    lines = level(found, "lowered").lines
    assert all(1 <= line <= len(lines) for by_line in remarks.values() for line in by_line)
    ((line, said),) = ((n, said) for n, said in remarks["ranges"].items() if "%block:" in said[0])
    assert "%block = " in lines[line - 1].text
    assert said[0].startswith("%block: [0, ")


def test_grid_is_counted_on() -> None:
    ranges = explain_example("softmax", grid=(16,)).analyses["final"].remarks["ranges"]
    assert ("%block: [0, 15]",) in ranges.values()


def test_nv_tileaa_as_input() -> None:
    lowered = level(explain_example("softmax"), "lowered")
    module = parse("\n".join(line.text for line in lowered.lines))
    found = explain_kernel(module)
    assert tile_levels(found) == ["lowered", "final"]
    assert len(twins(found, "lowered", "nv_tileaa.divf", "final")) == 1
    with pytest.raises(TileIRError, match="of nv_tileaa"):
        footprints_of(found, 1, [])


@pytest.mark.parametrize("pipeline", ["", "tileas"])
def test_loops_without_results_as_input(pipeline: str) -> None:
    """Their terminators are not in the text."""
    module = lower_to_tileaa(
        parse("""entry @k(%n: tile<i32>, %p: tile<ptr<i32>>) {
          %zero = constant <i32: 0> : tile<i32>
          %one = constant <i32: 1> : tile<i32>
          for %i in (%zero to %n, step %one) : tile<i32> {
            %t = store_ptr_tko weak %p, %i : tile<ptr<i32>>, tile<i32> -> token
            continue
          }
          return
        }""")
    ).module
    run_pipeline(module, pipeline)
    found = explain_kernel(parse(print_text(module)))
    assert tile_levels(found) == ["lowered", "final"]
    assert twins(found, "lowered", "nv_tileaa.store", "final") != []


def test_modules_without_sources() -> None:
    """Operations that a pass leaves are known even where they were never text."""
    module = parse((EXAMPLES / "softmax.tileir").read_text(encoding="utf-8")).clone()
    found = explain_kernel(module)
    assert level(found, "tile").about == "printed"
    assert len(twins(found, "tile", " = exp ", "final")) == 1


def test_target() -> None:
    found = explain_example("softmax", target="sm_90")
    assert "compute_capability = 90" in level(found, "lowered").lines[0].text


def test_footprints_of_a_product() -> None:
    found = explain_example("matmul")
    told = footprints_of(found, (3, 2), matmul_arguments())
    assert told.grid == (3, 2, 1)
    assert told.blocks == tuple((i, j, 0) for j in range(2) for i in range(3))
    assert told.left_out == 0
    a, b, c = told.accesses
    assert [(x.kind, x.tensor, x.shape) for x in told.accesses] == [
        ("load", "%a", (150, 100)),
        ("load", "%b", (100, 90)),
        ("store", "%c", (150, 90)),
    ]
    steps = [(0, 32), (32, 64), (64, 96), (96, 100)]
    assert list(a.boxes[2, 1, 0]) == [((128, 150), step) for step in steps]
    assert list(b.boxes[2, 1, 0]) == [(step, (64, 90)) for step in steps]
    assert list(c.boxes[2, 1, 0]) == [((128, 150), (64, 90))]
    line = found.line_of[c.op]
    assert "store_view_tko" in level(found, "tile").lines[line - 1].text


def test_footprints_through_pointers() -> None:
    found = explain_example("strided_copy")
    out = np.zeros(200, np.int32)
    told = footprints_of(found, 4, [np.arange(1000, dtype=np.int32), out, 200, 5])
    load, store = told.accesses
    assert np.array_equal(out, np.arange(0, 1000, 5))
    assert list(store.boxes[3, 0, 0]) == [((192, 200),)]
    touched = {index for box in load.boxes[0, 0, 0] for index in range(*box[0])}
    assert load.is_exact
    assert touched == set(range(0, 320, 5))


def test_footprints_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.explain import footprints

    monkeypatch.setattr(footprints, "MAX_ACCESSES", 10)
    told = footprints_of(explain_example("matmul"), (3, 2), matmul_arguments())
    assert told.left_out == 6 * 9 - 10


@pytest.mark.rotates(2)
def test_deep_and_long_kernels() -> None:
    nested = "if %a {\n" * 190 + 'print_tko "%i", %x : tile<i32> -> token\n' + "yield\n}\n" * 190
    lines = "".join(f"%v{n + 1} = addi %v{n}, %x : tile<i32>\n" for n in range(300))
    head = "entry @k(%a: tile<i1>, %x: tile<i32>) {\n%v0 = addi %x, %x : tile<i32>\n"
    module = parse(f"{head}{lines}{nested}return\n}}\n")
    found = explain_kernel(module)
    assert len(level(found, "lowered").lines) > 600
    assert annotate(lower_to_tileaa(module).module, ["uniformity"]).count("// %v") == 301
