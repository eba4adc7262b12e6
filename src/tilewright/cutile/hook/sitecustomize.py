"""Makes a Python process that a hosted program starts a host, too.

``tilewright run`` and the pytest plugin put the folder of this file into PYTHONPATH of the processes
that they start, together with the variable that is read here. Python imports a module of this name
when it starts. Without the variable nothing happens. With it, the processes that this one starts are told
(``_tilewright_environment``), and nothing else of Tilewright is imported before the process imports cuTile, torch or
cupy. A ``sitecustomize`` of the user's own comes next.
"""

import sys
from _thread import get_ident
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

_FOLDER = str(Path(__file__).resolve().parent)


def _run_the_next() -> None:
    """Import the module of the same name that this one hides."""
    sys.path[:] = [entry for entry in sys.path if entry != _FOLDER]
    spec = PathFinder.find_spec("sitecustomize")
    if spec is not None and spec.loader is not None and spec.origin != __file__:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _environments():
    name = "_tilewright_environment"
    spec = PathFinder.find_spec(name, [_FOLDER])
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _begin_hosting() -> None:
    import os

    text = os.environ.get("TILEWRIGHT_HOSTED")
    if not text:
        return
    import json

    try:
        source = json.loads(text)["source"]
    except (ValueError, TypeError, KeyError):
        return

    environment = _environments()
    environment.found_again()

    class Watcher:
        """Hosts the process when a module is about to be imported that makes a difference."""

        names = {"torch", "cuda.tile", "cupy", "subprocess"}
        asking = set()

        def find_spec(self, fullname, path=None, target=None):
            # It stays: programs also look for modules that they do not import.
            thread = get_ident()
            if fullname not in self.names or thread in self.asking:
                return None
            self.asking.add(thread)
            try:
                return self.begin(fullname)
            finally:
                self.asking.discard(thread)

        def begin(self, fullname):
            if fullname == "subprocess":
                self.names.discard(fullname)
                return environment.found_subprocess(text)
            if source not in sys.path:
                # In front of another Tilewright, but behind the folder of the program.
                sys.path.insert(1, source)
            try:
                from tilewright.cutile.children import begin
            except ImportError as error:  # another Python, which has not what Tilewright needs
                sys.meta_path.remove(self)
                sys.stderr.write(f"tilewright: this process is not hosted: {error}\n")
                return None
            return begin(text, fullname)

    environment.replace_in_os(text)
    if "subprocess" in sys.modules:
        environment.replace_in_subprocess(text)
    sys.meta_path.insert(0, Watcher())


_run_the_next()
_begin_hosting()
