"""Install the wheel as a user would, and run every command that README, docs and examples name.

    python tools/check_wheel.py [WORD]

Builds the wheel, installs it with its documented extras into a fresh environment outside of the
clone, and runs the commands there, those of a document one after the other in a folder of its own
that has the examples and the files that documents name, one document on each processor; with WORD
only those commands that contain it. Then runs two programs with the oldest cuTile. Ends with exit status 1 where a command does not do what its document says.

What a command needs beyond ``tilewright[cutile]`` and pytest stands behind it as a comment: ``# needs
torch``. Such a command is run all the same, and must work or end with the message that NEEDS has.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_S = 600
#: What may stand behind ``# needs``, and how a command ends without it: exit status and message.
NEEDS = {
    "torch": (1, "ModuleNotFoundError: No module named 'torch'"),
    "a GPU": (1, "needs the package cuda-bindings, which is not installed"),
    "ptxas": (1, "needs ptxas"),
    "nvdisasm": (1, "needs nvdisasm"),
}
#: The oldest cuTile that the documents name, which is tried last.
OLDEST = "cuda-tile==1.6.*"
#: Arguments that documents leave out.
ELLIPSIS = "--arg x=iota:f32:1000 --arg out=zeros:f32:1000 --arg n=1000"
_PROGRAMS = ("tilewright", "python", "pytest")
#: A word that stands for another, as in ``tilewright check FILE...``.
_PLACEHOLDER = re.compile(r"(?<![\w-])(?:[A-Z]{3,}(?:\.\.\.)?|\[.*\])(?![\w.])")


@dataclass(frozen=True)
class Command:
    """A line for the shell, where it stands, and what it needs (a key of NEEDS, or nothing).

    ``error`` is how the error begins that the document shows below it; ``files`` are those that the
    document spells out above, by name.
    """

    where: str
    line: str
    needs: str
    error: str = ""
    files: tuple[tuple[str, str], ...] = ()


def commands() -> Iterator[Command]:
    """All commands, in the order in which a reader meets them."""
    for document in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        files: dict[str, str] = {}
        for block in _blocks(document):
            if block.language == "python":
                files |= _named(block)
            elif block.language in ("", "console"):
                for number, line in enumerate(block.lines):
                    follows = block.lines[number + 1 : number + 2]
                    error = re.match(r"error\[[\w-]+\]", follows[0]) if follows else None
                    for found in _command(document.name, line.removeprefix("$ ")):
                        yield replace(
                            found, error=error[0] if error else "", files=tuple(files.items())
                        )
    for path in sorted((ROOT / "examples").rglob("*.*")):
        if path.suffix in (".py", ".tileir", ".mlir"):
            line = path.read_text(encoding="utf-8").splitlines()[1]
            found = list(_command(path.name, re.sub(r"^(//|#) \$ ", "", line)))
            if not found:
                raise SystemExit(f"{path}: the second line names no command")
            yield from found


@dataclass(frozen=True)
class Block:
    """A block of code: its language, its lines (continued ones as one), and the text line above."""

    language: str
    lines: list[str]
    above: str


def _blocks(document: Path) -> Iterator[Block]:
    language, lines, above = None, [], ""
    text = document.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if line.startswith("```") and language is None:
            language, lines = line.removeprefix("```"), []
        elif line.startswith("```"):
            yield Block(language or "", lines, above)
            language, above = None, ""
        elif language is not None:
            lines.append(line)
        elif line:
            above = line


def _named(block: Block) -> dict[str, str]:
    """The file that a block of Python spells out: its first line says the name, or the line above."""
    first = block.lines[0] if block.lines else ""
    name = re.match(r"# (\w+\.py)$", first) or re.match(r'"""(\w+\.py)', first)
    name = name or re.match(r"This is `(\w+\.py)`:$", block.above)
    return {name[1]: "\n".join(block.lines) + "\n"} if name else {}


def _command(where: str, line: str) -> Iterator[Command]:
    code, _, comment = line.partition("  #")
    words = code.split()
    if not words or words[0] not in _PROGRAMS or "tools/dev.py" in code:
        return
    if _PLACEHOLDER.search(re.sub(r"'[^']*'", "", code)) or (words[-1] == "..." and len(words) < 4):
        return
    needs = comment.strip().removeprefix("needs ") if comment.strip().startswith("needs ") else ""
    if needs and needs not in NEEDS:
        raise SystemExit(f"{where}: '# needs {needs}'; known are {', '.join(NEEDS)}")
    # The shell is bash, which has no fpath.
    code = code.replace("--arg ...", ELLIPSIS).replace("${fpath[1]}", "$HOME")
    yield Command(where, code.strip(), needs)


class Environment:
    """A fresh environment with the wheel in it, and a folder to work in, called ``name``."""

    def __init__(self, folder: Path, name: str = "work"):
        self.folder = folder
        self.work = folder / name
        scripts = "Scripts" if os.name == "nt" else "bin"
        self.scripts = folder / "environment" / scripts
        home = folder / f"{name}-home"
        for path in (".local/share/bash-completion/completions", ".config/fish/completions"):
            (home / path).mkdir(parents=True)
        self.variables = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("PYTHON", "TILEWRIGHT", "VIRTUAL_ENV"))
        } | {
            "PATH": os.pathsep.join([str(self.scripts), os.environ["PATH"]]),
            "HOME": str(home),
            "TILEWRIGHT_CACHE_DIR": str(folder / f"{name}-cache"),
        }

    def install(self) -> None:
        venv.create(self.folder / "environment", with_pip=True)
        pip = [str(self.scripts / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "wheel", "--no-deps", "-w", self.folder, ROOT], check=True)
        (wheel,) = self.folder.glob("tilewright-*.whl")
        for what in (f"{wheel}", f"{wheel}[cutile]", "pytest"):
            before, started = self._bytes(), time.perf_counter()
            subprocess.run([*pip, "install", what], check=True, cwd=self.folder)
            seconds, more = time.perf_counter() - started, self._bytes() - before
            name = what.replace(str(wheel), "tilewright")
            print(f"pip install {name}: {seconds:.1f} s, {more / 1e6:.0f} MB", flush=True)

    def _bytes(self) -> int:
        files = (self.folder / "environment").rglob("*")
        return sum(path.lstat().st_size for path in files if path.is_file())

    def shell(self, line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            line if os.name == "nt" else ["bash", "-c", line],
            shell=os.name == "nt",
            cwd=self.work,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    def beside(self, name: str) -> Environment:
        """The same environment, with a folder to work in that has what this one has now."""
        other = Environment(self.folder, name)
        shutil.copytree(self.work, other.work)
        return other

    def fill(self) -> None:
        """The examples, and under the names that documents use, kernels and a program."""
        self.work.mkdir()
        shutil.copytree(ROOT / "examples", self.work / "examples")
        kernel = _DOUBLE
        for name in ("kernel.tileir", "kernels.tileir", "other.tileir"):
            (self.work / name).write_text(kernel, encoding="utf-8")
        cases = kernel + "// -----\n" + kernel.replace("@double", "@other")
        (self.work / "cases.tileir").write_text(cases, encoding="utf-8")
        for name in ("kernel", "other", "module", "new"):
            self._must(f"tilewright as kernel.tileir -o {name}.tileirbc")
        program = self.work / "examples" / "cutile" / "vector_addition.py"
        for name in ("program.py", "script.py", "test_program.py"):
            text = program.read_text(encoding="utf-8")
            (self.work / name).write_text(
                text.replace("def main()", "def test_main()").replace(
                    "    main()", "    test_main()"
                )
                if name.startswith("test_")
                else text,
                encoding="utf-8",
            )

    def _must(self, line: str) -> None:
        done = self.shell(line)
        if done.returncode:
            raise SystemExit(f"{line}\n{done.stderr}")


_VIEW = "tensor_view<?xf32, strides=[1]>"
_TILES = f"partition_view<tile=(128), {_VIEW}>"
_DOUBLE = f"""entry @double(%x: tile<ptr<f32>>, %out: tile<ptr<f32>>, %n: tile<i32>) {{
  %block, %by, %bz = get_tile_block_id : tile<i32>
  %from = make_tensor_view %x, shape = [%n], strides = [1] : tile<i32> -> {_VIEW}
  %to = make_tensor_view %out, shape = [%n], strides = [1] : tile<i32> -> {_VIEW}
  %tiles = make_partition_view %from : {_TILES}
  %places = make_partition_view %to : {_TILES}
  %v, %t = load_view_tko weak %tiles[%block] : {_TILES}, tile<i32> -> tile<128xf32>, token
  %sum = addf %v, %v : tile<128xf32>
  %done = store_view_tko weak %sum, %places[%block] : tile<128xf32>, {_TILES}, tile<i32> -> token
}}
"""


def check(environment: Environment, command: Command) -> str:
    """What is wrong with what the command does; "" where nothing is."""
    for name, text in command.files:
        (environment.work / name).write_text(text, encoding="utf-8")
    try:
        done = environment.shell(command.line)
    except subprocess.TimeoutExpired:
        return f"no end within {TIMEOUT_S} s"
    status, message = NEEDS[command.needs] if command.needs else (0, "")
    if command.error:
        # A program may show an error and go on.
        if done.returncode in (0, 1) and command.error in done.stdout + done.stderr:
            return ""
        return f"no '{command.error}'\n{done.stdout[-500:]}{done.stderr[-1500:]}"
    # What a command needs may be there, such as a GPU.
    told = done.stdout + done.stderr
    if done.returncode == 0 or (done.returncode == status and message in told):
        return ""
    wanted = f"exit status {status}" + (f" and '{message}'" if message else "")
    return f"exit status {done.returncode}, not {wanted}\n{done.stdout[-500:]}{done.stderr[-1500:]}"


def check_oldest(environment: Environment) -> int:
    """How many programs do not run with the oldest cuTile that the documents name; replaces cuTile."""
    command = [str(environment.scripts / "python"), "-m", "pip", "--quiet", "install", OLDEST]
    subprocess.run([*command, "--disable-pip-version-check"], check=True, cwd=environment.folder)
    failed = 0
    for line in ("tilewright run script.py", "pytest -q -p tilewright.pytest test_program.py"):
        problem = check(environment, Command(OLDEST, line, ""))
        failed += bool(problem)
        print(f"{'FAILED' if problem else 'ok':6} {OLDEST}: {line}\n{problem}".rstrip(), flush=True)
    return failed


def check_all(environment: Environment, wanted: Sequence[Command]) -> int:
    """How many of the commands of a document fail, each of which is told."""
    failed = 0
    for command in wanted:
        started = time.perf_counter()
        problem = check(environment, command)
        failed += bool(problem)
        seconds = time.perf_counter() - started
        needs = f"  (without {command.needs})" if command.needs else ""
        mark = "FAILED" if problem else "ok"
        line = f"{mark:6} {seconds:5.1f} s  {command.where}: {command.line[:110]}{needs}"
        print("\n".join(filter(None, (line, problem))), flush=True)
    return failed


def main(word: str = "") -> int:
    wanted = [command for command in commands() if word in command.line]
    documents: dict[str, list[Command]] = {}
    for command in wanted:
        documents.setdefault(command.where, []).append(command)
    with tempfile.TemporaryDirectory(prefix="tilewright-wheel-") as name:
        environment = Environment(Path(name))
        environment.install()
        environment.fill()
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            # The longest first, so that in the end no processor waits for one of them.
            longest = sorted(documents.items(), key=lambda item: -len(item[1]))
            failed = sum(
                pool.map(lambda item: check_all(environment.beside(item[0]), item[1]), longest)
            )
        failed_with_oldest = check_oldest(environment)
    print(f"commands: {len(wanted) - failed} passed, {failed} failed")
    return 1 if failed or failed_with_oldest or not wanted else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
