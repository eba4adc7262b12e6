"""Set up and use a development environment: ``python tools/dev.py demo`` or ``... test``.

Needs Python 3.11 or newer and nothing else. Makes ``.venv`` beside this folder, installs the
project with its extras into it, and runs the job. A second call reuses the environment, and
installs again only where ``pyproject.toml`` has changed.

What follows ``test`` goes to pytest: ``test -k softmax -x``, ``test tests/cli``, ``test --long``.
Style and types are checked, too, unless such arguments ask for a part of the tests.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
EXTRAS = {"demo": "", "test": "[test,oracle]", "bench": "[test,oracle]"}
#: Set to 1, the tests' environment gets torch, too, and the tests that need it do not skip.
WITH_TORCH = "TILEWRIGHT_TEST_TORCH"
#: Arguments of ``test`` that ask for more or less of the whole, not for some part of it.
WHOLE = {"--quick", "--long"}


def interpreter() -> Path:
    windows = os.name == "nt"
    return ENVIRONMENT / ("Scripts" if windows else "bin") / ("python.exe" if windows else "python")


def run(*command: str | Path) -> None:
    """Run a command of the environment; its failure ends this script with its exit code."""
    result = subprocess.run([str(part) for part in command], cwd=ROOT, check=False)
    if result.returncode:
        sys.exit(result.returncode)


def make_environment() -> None:
    try:
        venv.create(ENVIRONMENT, with_pip=True)
    except subprocess.CalledProcessError:
        sys.exit(
            f"{sys.executable} cannot make an environment with pip in it; "
            "Debian's and Ubuntu's lacks ensurepip until apt-get install python3-venv"
        )


def install(extras: str, *, optional: bool = False) -> None:
    """Install the project with these extras, unless that is done already.

    What is optional and cannot be had is told, and nothing else happens.
    """
    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    stamp = ENVIRONMENT / f"installed{extras or '-plain'}"
    if stamp.exists() and stamp.read_text() == digest:
        return
    if not interpreter().exists():
        make_environment()
    pip = (interpreter(), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    # Of thousands of modules few are ever imported; those are compiled then.
    command = [str(part) for part in (*pip, "--no-compile", "--editable", f".{extras}")]
    result = subprocess.run(command, cwd=ROOT, check=False)
    if not result.returncode:
        stamp.write_text(digest)
    elif optional:
        print(f"cannot install {extras}: the tests that need it are skipped", file=sys.stderr)
    else:
        sys.exit(result.returncode)


def demo() -> None:
    """Run the command that the softmax example names in its second line."""
    example = ROOT / "examples" / "softmax.tileir"
    command = example.read_text(encoding="utf-8").splitlines()[1].removeprefix("// $ tilewright ")
    print(f"$ tilewright {command}", flush=True)
    run(interpreter(), "-m", "tilewright", *shlex.split(command))


def test(arguments: list[str]) -> None:
    """Style, types and tests; with arguments that select tests, those alone."""
    python = interpreter()
    # Each worker takes a stretch of the tests, so that what a file compiles is compiled once, and in the
    # end half of what the other has left.
    pytest = (python, "-m", "pytest", "-n", "2", "--dist", "worksteal", *arguments)
    if not WHOLE.issuperset(arguments):
        run(*pytest)
        return
    run(python, "-m", "ruff", "check", ".")
    run(python, "-m", "ruff", "format", "--check", ".")
    # pyright uses one core and some tests wait: both are done sooner side by side.
    with tempfile.TemporaryFile() as report:
        pyright = subprocess.Popen(
            [python, "-m", "pyright", "--pythonpath", python],
            cwd=ROOT,
            stdout=report,
            stderr=report,
        )
        try:
            tests = subprocess.run([str(part) for part in pytest], cwd=ROOT, check=False)
        except BaseException:
            pyright.kill()
            raise
        types = pyright.wait()
        report.seek(0)
        print(report.read().decode(errors="replace"), end="", flush=True)
    if types:
        print("the types are wrong: see pyright's errors above", file=sys.stderr)
    sys.exit(tests.returncode or types)


def main() -> None:
    if sys.version_info < (3, 11):
        sys.exit("Tilewright needs Python 3.11 or newer")
    job, *arguments = sys.argv[1:] or ["--help"]
    if job not in EXTRAS or (job == "demo" and arguments):
        print(__doc__)
        print(f"usage: {Path(sys.argv[0]).name} {{demo | test [ARGUMENTS] | bench [ARGUMENTS]}}")
        sys.exit(0 if job in ("-h", "--help") else 2)
    install(EXTRAS[job])
    if job == "demo":
        demo()
    elif job == "test":
        if os.environ.get(WITH_TORCH) == "1":
            install("[torch-test]", optional=True)
        test(arguments)
    else:
        run(interpreter(), "-m", "benchmarks", *arguments)


if __name__ == "__main__":
    main()
