"""Completes the environments that a process makes for others, so that these are hosts, too.

It is loaded in every Python process below a host, before anything else, so it imports nothing but what Python itself
has loaded, and is written for any Python 3: these processes may run another.
"""

import os
import sys
from importlib.machinery import PathFinder

VARIABLE = "TILEWRIGHT_HOSTED"
FOLDER = os.path.dirname(os.path.abspath(__file__))

#: Functions of ``os`` that take an environment, and its place among their arguments. The others of their kind call these.
_OF_OS = {"execve": 2, "posix_spawn": 2, "posix_spawnp": 2}
#: Of ``env`` among the arguments of ``subprocess.Popen``.
_PLACE_IN_POPEN = 10


def completed(environment, text):
    """A copy of an environment, of texts or of bytes, with what makes Python processes hosts; what is none is left as
    it is."""
    try:
        made: dict[str | bytes, str | bytes] = dict(environment)
    except (TypeError, ValueError):
        return environment
    is_bytes = any(isinstance(name, bytes) for name in made)
    if not all(isinstance(name, (str, bytes)) for name in made):
        return environment
    path = made.pop("PYTHONPATH", None) or made.pop(b"PYTHONPATH", None) or ""
    entries = os.fsdecode(path).split(os.pathsep)
    kept = [entry for entry in entries if entry and entry != FOLDER]
    told: dict[str | bytes, str | bytes] = {
        VARIABLE: text,
        "PYTHONPATH": os.pathsep.join([FOLDER, *kept]),
    }
    if is_bytes:
        made.pop(VARIABLE, None)
        told = {os.fsencode(name): os.fsencode(value) for name, value in told.items()}
    return {**made, **told}


def replace_in_os(text):
    """Have the functions of ``os`` that start processes complete environments; what puts them back."""
    natives = {name: getattr(os, name) for name in _OF_OS if hasattr(os, name)}

    def replaced(native, place):
        def start(*args, **keywords):
            if len(args) > place:
                args = (*args[:place], completed(args[place], text), *args[place + 1 :])
            elif "env" in keywords:
                keywords["env"] = completed(keywords["env"], text)
            return native(*args, **keywords)

        start.__name__, start.__doc__ = native.__name__, native.__doc__
        return start

    for name, native in natives.items():
        setattr(os, name, replaced(native, _OF_OS[name]))
    # What asks for functions by their identity knows ours, too.
    known = {name for name in natives if natives[name] in os.supports_fd}
    os.supports_fd.update(getattr(os, name) for name in known)

    def restore():
        for name, native in natives.items():
            os.supports_fd.discard(getattr(os, name))
            setattr(os, name, native)

    return restore


def replace_in_subprocess(text, before=lambda: None):
    """The same of ``subprocess``, which has been imported; ``before`` is called at each start."""
    popen = sys.modules["subprocess"].Popen
    native = popen.__init__

    def start(self, *args, **keywords):
        before()
        if len(args) > _PLACE_IN_POPEN:
            place = _PLACE_IN_POPEN
            given = os.environ if args[place] is None else args[place]
            args = (*args[:place], completed(given, text), *args[place + 1 :])
        else:
            # A program may have cleared its own.
            given = keywords.get("env")
            keywords["env"] = completed(os.environ if given is None else given, text)
        native(self, *args, **keywords)

    popen.__init__ = start

    def restore():
        popen.__init__ = native

    return restore


def found_subprocess(text):
    """The spec of ``subprocess``, which is about to be imported."""
    spec = PathFinder.find_spec("subprocess")
    if spec is not None and spec.loader is not None:
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            replace_in_subprocess(text)

        spec.loader.exec_module = exec_module
    return spec
