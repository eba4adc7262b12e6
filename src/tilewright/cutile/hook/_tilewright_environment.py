"""Completes the environments that a process makes for others, so that these are hosts, too.

It is loaded in every Python process below a host, before anything else, so it imports nothing but what Python itself
has loaded, and is written for any Python 3: these processes may run another.
"""

import os
import sys
from importlib.machinery import PathFinder

VARIABLE = "TILEWRIGHT_HOSTED"
#: What a process that was to ignore such variables finds again when it has begun, as JSON.
SET_ASIDE = "TILEWRIGHT_SET_ASIDE"
FOLDER = os.path.dirname(os.path.abspath(__file__))

#: Functions of ``os`` that take an environment, and its place among their arguments. The others of their kind call these.
_OF_OS = {"execve": 2, "posix_spawn": 2, "posix_spawnp": 2}
#: Of ``env`` among the arguments of ``subprocess.Popen``.
_PLACE_IN_POPEN = 10
_SHELL_IN_POPEN = 8


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


def _is_this_python(program):
    """Whether a program, by its path or its name, is the interpreter of this process: another may not know the options."""
    name = os.fsdecode(program)
    folders = [""] if os.path.dirname(name) else os.get_exec_path()
    found = [
        path for path in (os.path.join(folder, name) for folder in folders) if os.path.isfile(path)
    ]
    return bool(found and sys.executable) and os.path.samefile(found[0], sys.executable)


def _without_isolation(arguments):
    """The arguments of a Python with what stands for ``-I`` and ``-E`` where variables are not there to be read; None
    where neither is among its options."""
    made, ignores, plain = [arguments[0]], False, False
    rest = list(arguments[1:])
    while rest:
        option = os.fsdecode(rest[0])
        if option == "--check-hash-based-pycs":
            made += rest[:2]
            del rest[:2]
            continue
        if len(option) < 2 or option[0] != "-" or option[1] == "-":
            break
        end = min([at for at, letter in enumerate(option) if letter in "cmWX"], default=len(option))
        letters, value = option[1:end], option[end:]
        plain = plain or "S" in letters
        if "I" in letters or "E" in letters:
            ignores = True
            letters = letters.replace("I", "sP").replace("E", "")
        if letters or value:
            made.append("-" + letters + value)
        del rest[0]
        if value[:1] in ("c", "m"):
            break
        if value in ("W", "X"):
            made += rest[:1]
            del rest[:1]
    if plain and not _has_said:
        _has_said.append(True)
        sys.stderr.write(
            "tilewright: Python with -S imports nothing when it begins: such processes are not hosted\n"
        )
    return [*made, *rest] if ignores and not plain else None


#: Whether this process has started one that cannot be a host.
_has_said: list[bool] = []


def reached(program, arguments, environment, text):
    """The arguments and the environment of a process, so that a Python among programs is a host even if it is not to read
    its environment: what it would have ignored is set aside, and the process finds it when it has begun."""
    if sys.version_info < (3, 11) or not isinstance(arguments, (list, tuple)) or not arguments:
        return arguments, completed(environment, text)
    try:
        changed = _without_isolation(arguments) if _is_this_python(program) else None
        plain = {os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()}
    except (TypeError, ValueError, OSError, AttributeError):
        return arguments, completed(environment, text)
    if changed is None:
        return arguments, completed(environment, text)
    import json

    ignored = {name: plain.pop(name) for name in list(plain) if name.startswith("PYTHON")}
    return changed, completed({**plain, SET_ASIDE: json.dumps(ignored)}, text)


def found_again():
    """Put back into the environment what was set aside."""
    aside = os.environ.pop(SET_ASIDE, None)
    if aside is None:
        return
    import json

    told: dict = dict(completed(json.loads(aside), ""))
    told.pop(VARIABLE)
    os.environ.pop("PYTHONPATH", None)
    os.environ.update(told)


def replace_in_os(text):
    """Have the functions of ``os`` that start processes complete environments; what puts them back."""
    natives = {name: getattr(os, name) for name in ("execv", *_OF_OS) if hasattr(os, name)}

    def replaced(native, place):
        def start(*args, **keywords):
            if len(args) > place:
                arguments, environment = reached(args[0], args[place - 1], args[place], text)
                args = (*args[: place - 1], arguments, environment, *args[place + 1 :])
            elif "env" in keywords:
                keywords["env"] = completed(keywords["env"], text)
            return native(*args, **keywords)

        start.__name__, start.__doc__ = native.__name__, native.__doc__
        return start

    def execv(path, argv):
        """Execute a program with the environment of this process."""
        arguments, environment = reached(path, argv, os.environ, text)
        if arguments is argv:
            natives["execv"](path, argv)
        natives["execve"](path, arguments, environment)

    for name, native in natives.items():
        setattr(os, name, execv if name == "execv" else replaced(native, _OF_OS[name]))
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
        place = _PLACE_IN_POPEN
        given = args[place] if len(args) > place else keywords.get("env")
        # A program may have cleared its own.
        given = os.environ if given is None else given
        told = command = args[0] if args else keywords.get("args")
        if keywords.get("shell") or len(args) > _SHELL_IN_POPEN:
            environment = completed(given, text)
        else:
            program = keywords.get("executable") or (args[2] if len(args) > 2 else None)
            first = command[0] if isinstance(command, (list, tuple)) and command else command
            command, environment = reached(program or first, command, given, text)
        if args:
            args = (command, *args[1:])
        elif "args" in keywords:
            keywords["args"] = command
        if len(args) > place:
            args = (*args[:place], environment, *args[place + 1 :])
        else:
            keywords["env"] = environment
        native(self, *args, **keywords)
        self.args = told

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
