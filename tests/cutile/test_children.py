"""Python processes that a hosted program starts are hosts, too."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

#: Children with an environment of their own do not have the one that hides torch, which takes 2 s to import.
CHILD = """
import sys
sys.modules["torch"] = None
import numpy as np
import cuda.tile as ct
from tilewright.cutile.settings import active

@ct.kernel
def double(x):
    ct.store(x, ct.bid(0), ct.load(x, ct.bid(0), (8,)) * 2)

x = np.ones(16, np.float32)
ct.launch(0, (2,), double, (x,))
print(active().machine, active().options.resident, active().options.sanitize, x.sum())
"""


ASKING = """
import sys
sys.modules["torch"] = None
import cuda.tile
from tilewright.cutile.settings import active
print(active().machine, active().options.resident, active().options.sanitize)
"""


@pytest.fixture
def asking(tmp_path: Path) -> Path:
    """A child that tells its settings, and launches nothing."""
    path = tmp_path / "asking.py"
    path.write_text(ASKING)
    return path


@pytest.fixture
def child(tmp_path: Path) -> Path:
    path = tmp_path / "child.py"
    path.write_text(CHILD)
    return path


def run(program: str, tmp_path: Path, *options: str, **environment: str):
    script = tmp_path / "parent.py"
    script.write_text(textwrap.dedent(program))
    return subprocess.run(
        [sys.executable, "-m", "tilewright", "run", *options, script],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=280,
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--machine", "cpu"], "cpu None False 32.0\n"),
        (["--sanitize", "--resident", "1"], "reference 1 True 32.0\n"),
    ],
)
def test_a_child_has_the_machine_and_the_settings(
    child: Path, tmp_path: Path, options: list[str], told: str
) -> None:
    program = f"""
        import subprocess, sys
        subprocess.run([sys.executable, {str(child)!r}], check=True)
    """
    done = run(program, tmp_path, *options)
    assert (done.returncode, done.stdout, done.stderr) == (0, told, "")


@pytest.mark.rotates(2)
def test_an_environment_of_its_own_and_other_ways_to_start(asking: Path, tmp_path: Path) -> None:
    program = f"""
        import os, subprocess, sys
        import cuda.tile
        child = [sys.executable, {str(asking)!r}]
        bare = {{"PATH": os.environ["PATH"]}}
        other = {{**os.environ, "PYTHONPATH": os.path.dirname(child[1])}}
        for env in (bare, other):
            print(subprocess.check_output(child, env=env, text=True), end="", flush=True)
        os.system(" ".join(child))
        saved = dict(os.environ)
        os.environ.pop("PYTHONPATH"), os.environ.pop("TILEWRIGHT_HOSTED")
        subprocess.run(child)
        os.environ.update(saved)
        os.spawnv(os.P_WAIT, child[0], child)
        subprocess.run(child, env={{os.fsencode("PATH"): os.fsencode(os.environ["PATH"])}})
        os.waitpid(os.posix_spawn(child[0], child, bare), 0)
        os.spawnve(os.P_WAIT, child[0], child, bare)
        pid = os.fork()
        if not pid:
            os.execve(child[0], child, env=bare)
        os.waitpid(pid, 0)
        for start in ("subprocess.run({{}})", "subprocess.run({{}}, env={{{{}}}})"):
            grandchild = "import subprocess; " + start.format(child)
            subprocess.run([sys.executable, "-c", grandchild])
        grandchild = "import os; os.execve({{!r}}, {{}}, {{{{}}}})".format(child[0], child)
        subprocess.run([sys.executable, "-c", grandchild])
    """
    done = run(program, tmp_path, "--machine", "cpu")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == 12 * "cpu None False\n"


def test_children_of_a_test(child: Path, tmp_path: Path) -> None:
    (tmp_path / "test_child.py").write_text(
        textwrap.dedent(f"""
        import subprocess, sys

        def test_child():
            told = subprocess.check_output([sys.executable, {str(child)!r}], text=True)
            assert told == "cpu None False 32.0\\n"
        """)
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-p", "tilewright.pytest", "--tilewright-machine=cpu", "test_child.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout


def test_a_child_that_needs_none_of_it_loads_none_of_it(tmp_path: Path) -> None:
    """And a ``sitecustomize`` of the user's own runs as it does otherwise."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.of_the_user = 5\n")
    program = """
        import subprocess, sys
        code = (
            "import sys, sitecustomize; "
            "print(sys.of_the_user, sitecustomize.__file__, 'tilewright' in sys.modules)"
        )
        subprocess.run([sys.executable, "-c", code], check=True)
    """
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = run(program, tmp_path, PYTHONPATH=path)
    assert done.stdout == f"5 {tmp_path / 'sitecustomize.py'} False\n", done.stderr


def looks_first(tmp_path: Path, name: str) -> None:
    """As programs do that leave tests out where a module is not installed."""
    code = f"""
import importlib.util
print(importlib.util.find_spec({name!r}) is not None)
import {"cuda.tile" if name == "cupy" else name}
from tilewright.cutile.settings import active
print(active().machine)
"""
    program = f"""
        import subprocess, sys
        subprocess.run([sys.executable, "-c", {code!r}], check=True)
    """
    done = run(program, tmp_path, "--machine", "cpu")
    assert (done.stdout, done.stderr) == (f"{name != 'cupy'}\ncpu\n", "")


@pytest.mark.parametrize("name", ["cuda.tile", "cupy"])
def test_a_child_that_looks_for_a_module_first(tmp_path: Path, name: str) -> None:
    looks_first(tmp_path, name)


@pytest.mark.usefixtures("torch")
@pytest.mark.rotates(2)
def test_a_child_that_looks_for_torch_first(tmp_path: Path) -> None:
    looks_first(tmp_path, "torch")


@pytest.mark.usefixtures("torch")
def test_modules_that_are_looked_for_are_served_when_they_are_imported() -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    code = """
import importlib.util
from tilewright.cutile.program import hosting
from tilewright.cutile.settings import Settings
with hosting(Settings("reference")):
    assert importlib.util.find_spec("cupy") is None
    assert importlib.util.find_spec("triton.runtime") is not None
    assert importlib.util.find_spec("triton.runtime.driver") is not None
    from triton.runtime.driver import driver
    print(type(driver.active).__name__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=280)
    assert (done.stdout, done.stderr) == ("HostDriver\n", "")


def test_what_is_told_ends_with_the_host(tmp_path: Path) -> None:
    from tilewright.cutile.program import hosting
    from tilewright.cutile.settings import Settings

    before = {name: os.environ.get(name) for name in ("PYTHONPATH", "TILEWRIGHT_HOSTED")}
    start, execute = subprocess.Popen.__init__, os.execve
    with hosting(Settings("reference"), torch_cuda=False):
        assert "TILEWRIGHT_HOSTED" in os.environ
        assert os.environ["PYTHONPATH"].split(os.pathsep)[0].endswith("hook")
    assert {name: os.environ.get(name) for name in before} == before
    assert subprocess.Popen.__init__ is start
    assert os.execve is execute


@pytest.mark.parametrize("text", ["", "{", "[]", "5"])
def test_a_variable_that_says_nothing(text: str) -> None:
    from tilewright.cutile.hook._tilewright_environment import completed

    environment = completed(os.environ, text)
    code = "import cuda.tile; from tilewright.cutile.settings import active; print(active())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=280
    )
    assert (done.stdout, done.stderr) == ("None\n", "")


@pytest.mark.rotates(2)
def test_options_that_leave_the_environment_aside(asking: Path, tmp_path: Path) -> None:
    """They hold, and the children are hosts all the same."""
    telling = asking.with_name("telling.py")
    telling.write_text(
        "import os, sys\n"
        "print(sys.flags.safe_path, sys.flags.optimize, os.environ.get('PYTHONOPTIMIZE'), sys.argv[1:])\n"
        + ASKING
    )
    program = f"""
        import os, subprocess, sys
        os.environ["PYTHONOPTIMIZE"] = "2"
        child = [{str(telling)!r}, "-I", "-E"]
        for options in (["-I"], ["-E"], ["-uEs"], ["-X", "dev", "-WI", "--check-hash-based-pycs", "never", "-I"]):
            command = [sys.executable, *options, *child]
            assert subprocess.run(command, check=True).args is command
        subprocess.run(args=("python", "-I", *child), executable=sys.executable, env={{}}, check=True)
        command = [sys.executable, "-I", *child]
        os.spawnv(os.P_WAIT, command[0], command)
        os.waitpid(os.posix_spawn(command[0], command, os.environ), 0)
    """
    done = run(program.replace('"python"', "sys.executable"), tmp_path, "--resident", "5")
    told = [
        f"{is_safe} 0 {optimize} ['-I', '-E']\nreference 5 False\n"
        for is_safe, optimize in (
            (True, 2),
            (False, 2),
            (False, 2),
            (True, 2),
            (True, None),
            (True, 2),
            (True, 2),
        )
    ]
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(told)


def test_options_of_others_are_theirs(tmp_path: Path) -> None:
    program = """
        import subprocess, sys
        subprocess.run(["echo", "-I", "-E"])
        subprocess.run("echo -I", shell=True)
        subprocess.run([sys.executable, "-c", "import sys; print(sys.argv)", "-I"])
        subprocess.run([sys.executable, "-m", "calendar", "-h"], stdout=subprocess.DEVNULL, check=True)
        subprocess.run([sys.executable, "-S", "-c", "print(1)"])
        subprocess.run([sys.executable, "-IS", "-c", "print(2)"])
    """
    done = run(program, tmp_path)
    assert done.stdout == "-I -E\n-I\n['-c', '-I']\n1\n2\n"
    assert done.stderr.count("tilewright: Python with -S") == 1
