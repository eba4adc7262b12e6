"""Set up and use a development environment: ``python tools/dev.py demo`` or ``... test``.

Needs Python 3.11 or newer and nothing else. Makes ``.venv`` beside this folder, installs the
project with its extras into it, and runs the job. A second call reuses the environment, and
installs again only where ``pyproject.toml`` has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
EXTRAS = {"demo": "", "test": "[test,oracle]", "bench": "[test,oracle]"}
#: Set to 1, the tests' environment gets torch, and the tests that need it do not skip.
WITH_TORCH = "TILEWRIGHT_TEST_TORCH"


def interpreter() -> Path:
    windows = os.name == "nt"
    return ENVIRONMENT / ("Scripts" if windows else "bin") / ("python.exe" if windows else "python")


def run(*command: str | Path) -> None:
    """Run a command of the environment; its failure ends this script with its exit code."""
    result = subprocess.run([str(part) for part in command], cwd=ROOT, check=False)
    if result.returncode:
        sys.exit(result.returncode)


def set_up(job: str) -> None:
    extras = EXTRAS[job]
    if job == "test" and os.environ.get(WITH_TORCH) == "1":
        extras = "[test,oracle,torch-test]"
    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    stamp = ENVIRONMENT / f"installed{extras or '-plain'}"
    if stamp.exists() and stamp.read_text() == digest:
        return
    if not interpreter().exists():
        venv.create(ENVIRONMENT, with_pip=True)
    pip = (interpreter(), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "--editable", f".{extras}")
    stamp.write_text(digest)


def demo() -> None:
    """Run the command that the softmax example names in its second line."""
    example = ROOT / "examples" / "softmax.tileir"
    command = example.read_text(encoding="utf-8").splitlines()[1].removeprefix("// $ tilewright ")
    print(f"$ tilewright {command}", flush=True)
    run(interpreter(), "-m", "tilewright", *shlex.split(command))


def test(arguments: list[str]) -> None:
    python = interpreter()
    run(python, "-m", "ruff", "check", ".")
    run(python, "-m", "ruff", "format", "--check", ".")
    run(python, "-m", "pyright", "--pythonpath", python)
    run(python, "-m", "pytest", "-n", "2", *arguments)


def main() -> None:
    if sys.version_info < (3, 11):
        sys.exit("Tilewright needs Python 3.11 or newer")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", choices=sorted(EXTRAS))
    parser.add_argument("arguments", nargs="*", help="passed on to pytest or to the benchmarks")
    options = parser.parse_args()
    set_up(options.job)
    if options.job == "demo":
        demo()
    elif options.job == "test":
        test(options.arguments)
    else:
        run(interpreter(), "-m", "benchmarks", *options.arguments)


if __name__ == "__main__":
    main()
