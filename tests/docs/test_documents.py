"""What README.md and docs/ show works: Python blocks run, commands succeed, links lead somewhere."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tilewright import builder, print_text, write
from tilewright.cli.main import main
from tilewright.dialects.cuda_tile.ops.module import ModuleOp
from tilewright.text import parse

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
CLI = ROOT / "docs" / "cli.md"

KERNEL = """entry @double(%x: tile<ptr<f32>>, %out: tile<ptr<f32>>, %n: tile<i32>) {
  %block, %by, %bz = get_tile_block_id : tile<i32>
  %from = make_tensor_view %x, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
  %to = make_tensor_view %out, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
  %tiles = make_partition_view %from : partition_view<tile=(128), tensor_view<?xf32, strides=[1]>>
  %places = make_partition_view %to : partition_view<tile=(128), tensor_view<?xf32, strides=[1]>>
  %v, %t = load_view_tko weak %tiles[%block] : partition_view<tile=(128), tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<128xf32>, token
  %sum = addf %v, %v : tile<128xf32>
  %done = store_view_tko weak %sum, %places[%block] : tile<128xf32>, partition_view<tile=(128), tensor_view<?xf32, strides=[1]>>, tile<i32> -> token
}
"""
PRODUCT = """entry @product() {
  %a = constant <bf16: 1.0> : tile<16x16xbf16>
  %b, %c = "test.other"() : () -> (tile<16x16xbf16>, tile<16x16xf16>)
  %r = mmaf %a, %b, %c : tile<16x16xbf16>, tile<16x16xbf16>, tile<16x16xf16>
}
"""


def blocks(document: Path, language: str) -> list[str]:
    """The fenced blocks of one language; "" for those that name none."""
    found: list[str] = []
    lines: list[str] | None = None
    for line in document.read_text(encoding="utf-8").splitlines(keepends=True):
        if not line.startswith("```"):
            if lines is not None:
                lines.append(line)
        elif lines is None:
            lines, current = [], line.strip().removeprefix("```")
        else:
            if current == language:
                found.append("".join(lines))
            lines = None
    return found


def commands(document: Path, language: str, prompt: str) -> list[list[str]]:
    """The arguments of the `tilewright` commands in the blocks; placeholders are left out."""
    found: list[list[str]] = []
    for block in blocks(document, language):
        for line in block.replace("\\\n", " ").splitlines():
            if not line.startswith(f"{prompt}tilewright "):
                continue
            words = shlex.split(line.removeprefix(prompt), comments=True)[1:]
            if ">" in words:
                del words[words.index(">") :]
            if not any(re.fullmatch(r"[A-Z]*(\.\.\.)?", word) for word in words):
                found.append(words)
    return found


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that holds the files which the documents name, as the current one."""
    module = parse(KERNEL)
    assert isinstance(module, ModuleOp)
    for name in ("kernel", "kernels"):
        (tmp_path / f"{name}.tileir").write_text(print_text(module), encoding="utf-8")
    other = KERNEL.replace("@double", "@other")
    (tmp_path / "cases.tileir").write_text(f"{KERNEL}// -----\n{other}", encoding="utf-8")
    for name in ("kernel", "other", "module", "new"):
        (tmp_path / f"{name}.tileirbc").write_bytes(write(module))
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def readable(words: list[str]) -> str:
    return " ".join(words)[:60]


@pytest.mark.parametrize(
    "words",
    [*commands(README, "console", r"$ "), *commands(CLI, "", "")],
    ids=readable,
)
def test_commands_succeed(words: list[str], workplace: Path) -> None:
    words = [name for word in words for name in expanded(workplace, word)]
    assert main(words) == 0


def expanded(folder: Path, word: str) -> list[str]:
    """A word as a shell expands it."""
    return sorted(p.name for p in folder.glob(word)) if "*" in word else [word]


def test_the_commands_are_found() -> None:
    assert len(commands(README, "console", "$ ")) >= 6
    assert len(commands(CLI, "", "")) >= 15


def test_python_of_the_readme(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    namespace: dict[str, object] = {}
    sources = blocks(README, "python")
    assert len(sources) >= 2
    for source in sources:
        exec(compile(source, str(README), "exec"), namespace)
    printed = capsys.readouterr().out
    assert "entry @vector_add" in printed


def test_python_of_the_builder() -> None:
    source = re.findall(r"(?:^    .*\n)+", builder.__doc__ or "", re.MULTILINE)[0]
    namespace: dict[str, object] = {"ModuleBuilder": builder.ModuleBuilder, "ptr": builder.ptr}
    exec("import tilewright\nif True:\n" + source, namespace)
    assert "entry @scale" in str(namespace["text"])


def test_the_error_of_the_readme(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shown,) = [b for b in blocks(README, "") if b.startswith("error[")]
    (workplace / "product.tileir").write_text(PRODUCT, encoding="utf-8")
    assert main(["check", "--allow-unregistered", "product.tileir"]) == 1
    assert shown in capsys.readouterr().err


def test_jobs_of_the_development_script() -> None:
    jobs = re.findall(r"tools/dev\.py (\w+)", README.read_text(encoding="utf-8"))
    source = (ROOT / "tools" / "dev.py").read_text(encoding="utf-8")
    assert jobs[:2] == ["demo", "test"]
    for job in jobs:
        assert f'"{job}": "' in source


def documents() -> list[Path]:
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("document", documents(), ids=lambda p: p.name)
def test_links_and_paths_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    named = re.findall(r"`((?:docs|src|tests|examples|benchmarks|tools)/[\w/.]+)[`:]", text)
    missing = [link for link in links if not (document.parent / link).exists()]
    missing += [path for path in named if not (ROOT / path).exists()]
    assert missing == []


@pytest.mark.parametrize("document", documents(), ids=lambda p: p.name)
def test_python_is_well_formed(document: Path) -> None:
    for source in blocks(document, "python"):
        compile(source, str(document), "exec")
