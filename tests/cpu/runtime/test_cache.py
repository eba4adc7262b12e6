"""Compiled code on disk."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cpu.runtime.hand_written import COUNT, compiled

from tilewright.cpu import Program
from tilewright.cpu.compiled_kernels import CompileOptions
from tilewright.cpu.runtime import kernels
from tilewright.cpu.runtime.engine import DEFAULT_LEVEL, OptLevel, Timings
from tilewright.cpu.runtime.records import find_record
from tilewright.launching.disk_cache import DEFAULT_LIMIT, DiskCache, cache_directory, key_of
from tilewright.text import parse


def files_of(directory: Path) -> list[Path]:
    return sorted(directory.glob("??/*.bin"))


def test_what_was_put_is_got(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "new" / "deep")
    assert cache.get("ab" * 32) is None
    for contents in (b"", b"code", bytes(range(256)) * 1000):
        cache.put("ab" * 32, contents)
        assert DiskCache(cache.directory).get("ab" * 32) == contents


def test_keys_depend_on_every_part_and_their_borders() -> None:
    keys = {key_of(parts) for parts in ([], ["a"], ["a", "b"], ["ab"], ["", "ab"], ["b", "a"])}
    assert len(keys) == 6


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data[:10],
        lambda data: b"",
        lambda data: data[:-3] + bytes([data[-3] ^ 1]) + data[-2:],
        lambda data: b"x" + data[1:],
        lambda data: data + b"more",
    ],
)
def test_a_damaged_entry_is_none_and_is_replaced(tmp_path: Path, damage) -> None:
    cache = DiskCache(tmp_path)
    cache.put("cd" * 32, b"some code")
    (path,) = files_of(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    assert cache.get("cd" * 32) is None
    cache.put("cd" * 32, b"new code")
    assert cache.get("cd" * 32) == b"new code"


def test_an_entry_under_the_name_of_another_is_none(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    one, other = "ab" * 32, "ab" * 31 + "cd"
    cache.put(one, b"the code of one kernel")
    cache.put(other, b"the code of another")
    first, second = files_of(tmp_path)
    kept = first.read_bytes()
    os.replace(second, first)
    second.write_bytes(kept)
    assert cache.get(one) is None and cache.get(other) is None


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _link(path: Path) -> None:
    held = path.rename(path.with_suffix(".held"))
    path.symlink_to(held)


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _endless(path: Path) -> None:
    os.truncate(path, 1 << 42)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owner or mode here")
@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "change",
    [
        _fifo,
        _link,
        _directory,
        _endless,
        lambda path: path.chmod(0o660),
        lambda path: path.chmod(0o602),
        lambda path: path.chmod(0o000),
    ],
    ids=[
        "fifo",
        "link",
        "directory",
        "endless",
        "group may write",
        "others may write",
        "nobody may read",
    ],
)
def test_what_is_no_plain_file_of_ones_own_is_none(tmp_path: Path, change) -> None:
    cache = DiskCache(tmp_path)
    cache.put("cd" * 32, b"some code")
    (path,) = files_of(tmp_path)
    change(path)
    found = cache.get("cd" * 32)
    assert found is None or (os.geteuid() == 0 and not path.stat().st_mode & 0o777)
    cache.use()
    cache.put("cd" * 32, b"new code")
    assert cache.get("cd" * 32) == (None if path.is_dir() else b"new code")
    cache.clear()


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="links are not told apart here")
def test_what_links_lead_to_is_left_alone(tmp_path: Path) -> None:
    outside, cache = tmp_path / "outside", DiskCache(tmp_path / "cache")
    outside.mkdir()
    for name in ("firmware.bin", "old.tmp", "notes"):
        (outside / name).write_text("mine")
        os.utime(outside / name, (0, 0))
    cache.put("cd" * 32, b"some code")
    (cache.directory / "ab").symlink_to(outside, target_is_directory=True)
    (cache.directory / f"limit.{os.getpid()}.tmp").symlink_to(outside / "notes")
    cache.set_limit(0)
    cache.put("ef" * 32, b"more code")
    assert cache.clear().limit_bytes == 0
    assert {path.read_text() for path in outside.iterdir()} == {"mine"}
    assert len(list(outside.iterdir())) == 3


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors are not listed here")
def test_odd_entries_cost_no_descriptors(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    (tmp_path / "cd" / ("cd" * 32 + ".bin")).mkdir(parents=True)
    before = len(os.listdir("/proc/self/fd"))
    assert not any(cache.get("cd" * 32) for _ in range(20))
    assert len(os.listdir("/proc/self/fd")) <= before + 1


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owner here")
def test_files_of_another_user_are_none(tmp_path: Path, monkeypatch) -> None:
    cache = DiskCache(tmp_path)
    cache.put("cd" * 32, b"some code")
    cache.set_limit(12_345)
    assert cache.limit == 12_345
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert cache.get("cd" * 32) is None
    assert cache.limit == DEFAULT_LIMIT


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", ["", "many", "-5", "9" * 5000, "1e9", "\0", "\xff"])
def test_a_limit_that_is_no_number_is_the_default(tmp_path: Path, text: str) -> None:
    (tmp_path / "limit").write_text(text)
    assert DiskCache(tmp_path).limit == (0 if text == "-5" else DEFAULT_LIMIT)


_RECORD = {
    "object": "ab" * 32, "symbol": "kernel.k", "arena_bytes": 0, "may_wait": False,
    "asks_for_memory": False, "has_agents": False, "takes_over": False, "globals": [],
}  # fmt: skip


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"null", b"{}", b"\xff\xfe", b"[" * 100_000, b'"text"',
        *(
            json.dumps(record).encode()
            for record in (
                {**_RECORD, "object": "../../../etc/passwd"},
                {**_RECORD, "object": 5},
                {**_RECORD, "arena_bytes": "many"},
                {**_RECORD, "arena_bytes": True},
                {**_RECORD, "arena_bytes": -8},
                {**_RECORD, "arena_bytes": 1 << 62},
                {**_RECORD, "symbol": ""},
                {**_RECORD, "symbol": "printf"},
                {**_RECORD, "symbol": "kernel.other"},
                {**_RECORD, "symbol": "\ud800"},
                {**_RECORD, "may_wait": None},
                {**_RECORD, "globals": [1]},
                {**_RECORD, "globals": "gh"},
                {**_RECORD, "more": 1},
                {**_RECORD, "sites": 5},
                {**_RECORD, "sites": None},
                {**_RECORD, "sites": "%d"},
                {**_RECORD, "sites": [["%d"]]},
                {**_RECORD, "sites": [[5, []]]},
                {**_RECORD, "sites": [["%d", [["f31", []]]]]},
                {**_RECORD, "sites": [["%d", [["f32", [0]]]]]},
                {**_RECORD, "sites": [["%d", [[["f32"], []]]]]},
                {**_RECORD, "sites": [["message", [True], "assertion-failed"]]},
                {**_RECORD, "sites": [["message", [2], "another-code"]]},
                {name: value for name, value in _RECORD.items() if name != "symbol"},
            )
        ),
    ],
)  # fmt: skip
def test_a_record_of_another_layout_is_none(tmp_path: Path, content: bytes) -> None:
    cache = DiskCache(tmp_path)
    cache.put("ab" * 32, b"code")
    cache.put("cd" * 32, content)
    assert find_record(cache, "cd" * 32, "k", CompileOptions()) is None
    cache.put("cd" * 32, json.dumps(_RECORD).encode())
    assert find_record(cache, "cd" * 32, "k", CompileOptions()) is not None


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    names = [f"{n:02x}" * 32 for n in range(10)]
    long_ago = time.time() - 10_000
    for age, name in enumerate(names):
        cache.put(name, bytes(1000))
        os.utime(next(p for p in files_of(tmp_path) if p.stem == name), (long_ago + age,) * 2)
    assert cache.get(names[0]) is not None  # used: now the youngest
    cache.set_limit(5000)
    kept = {path.stem for path in files_of(tmp_path)}
    assert names[0] in kept
    assert kept - {names[0]} <= set(names[-4:])
    assert cache.use().size_bytes <= 5000
    assert DiskCache(tmp_path).limit == 5000


def test_the_size_is_bounded(tmp_path: Path) -> None:
    DiskCache(tmp_path).set_limit(20_000)
    cache = DiskCache(tmp_path)
    for number in range(200):
        cache.put(f"{number:064x}", bytes(1000))
        assert cache.use().size_bytes <= 20_000 + 2_100


def test_clear(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    for number in range(5):
        cache.put(f"{number:064x}", bytes(10))
    before = cache.clear()
    assert before.entries == 5
    assert cache.use().entries == 0


def test_a_limit_that_cannot_be_written_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = DiskCache(tmp_path)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        cache.set_limit(5)
    cache.put("ab" * 32, b"code")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_what_dead_processes_left_is_removed(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    cache.put("ab" * 32, b"code")
    old, young = tmp_path / "ab" / "old.tmp", tmp_path / "ab" / "young.tmp"
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    cache.set_limit(1000)
    assert not old.exists()
    assert young.exists()


def test_a_place_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    cache = DiskCache(tmp_path / "file")
    cache.put("ab" * 32, b"code")
    assert cache.get("ab" * 32) is None
    assert cache.limit == DEFAULT_LIMIT
    assert cache.clear().entries == 0


@pytest.mark.parametrize("where", ["a" * 5000, "/dev/null", "/dev/null/x"])
def test_a_directory_that_cannot_be_is_an_empty_cache(where: str) -> None:
    cache = DiskCache(Path(where))
    cache.put("00key", b"contents")
    assert cache.get("00key") is None
    assert cache.clear().entries == cache.use().entries == 0


def test_where_it_is(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    assert cache_directory() == tmp_path
    for nowhere in ("", " ", "~nosuchuser/x", "~nosuchuser"):
        monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", nowhere)
        assert cache_directory() is None
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", "~/x")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "x"
    monkeypatch.delenv("TILEWRIGHT_CACHE_DIR")
    if sys.platform == "linux":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
        assert cache_directory() == tmp_path / "xdg" / "tilewright"
        monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
        monkeypatch.setenv("HOME", str(tmp_path))
        assert cache_directory() == tmp_path / ".cache" / "tilewright"


def test_the_second_process_does_not_compile(own_cache: Path) -> None:
    first, second = Timings(), Timings()
    made = kernels.object_code(compiled(COUNT), DEFAULT_LEVEL, first)
    assert "optimise" in first.seconds
    assert kernels.object_code(compiled(COUNT), DEFAULT_LEVEL, second) == made
    assert list(second.seconds) == ["look on disk"]
    assert len(files_of(own_cache)) == 1


def test_options_and_code_tell_entries_apart() -> None:
    keys = {
        kernels.object_key(compiled(ir), level)
        for ir in (COUNT, COUNT.replace("add i64 %old, 1", "add i64 %old, 2"))
        for level in (DEFAULT_LEVEL, OptLevel(2))
    }
    assert len(keys) == 4


def test_one_library_for_the_same_code_in_a_process() -> None:
    first, second = (kernels.load_kernel(compiled(COUNT), {}) for _ in range(2))
    assert first.address == second.address
    assert first.library is second.library


_CONTENTS = {
    "no object file": b"code" * 100,
    "half": None,
}


@pytest.mark.parametrize("content", _CONTENTS)
@pytest.mark.rotates(2)
def test_what_does_not_link_counts_as_absent(own_cache: Path, content: str) -> None:
    """Entries that are as they were put, but no code: of the kernel and of the runtime's own functions."""
    text = (
        "cuda_tile.module @m { entry @k(%x: tile<ptr<i32>>) { %c = constant <i32: 7> : tile<i32> "
    )
    text += "%u = store_ptr_tko weak %x, %c : tile<ptr<i32>>, tile<i32> -> token return } }"
    script = "import sys, numpy as np; from tilewright import parse; from tilewright.cpu import Program\n"
    script += (
        "x = np.zeros(1, np.int32); Program(parse(sys.argv[1])).launch('k', 1, [x]); print(x[0])"
    )
    command = [sys.executable, "-c", script, text]
    environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": str(own_cache)}

    def run() -> str:
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, timeout=120
        ).stdout

    assert run() == "7\n"
    cache, codes = DiskCache(own_cache), 0
    for path in files_of(own_cache):
        found = cache.get(path.stem)
        assert found is not None
        if found[:1] != b"{":
            codes += 1
            bad = _CONTENTS[content]
            cache.put(path.stem, found[: len(found) // 2] if bad is None else bad)
    assert codes > 1
    assert run() == "7\n"
    kept = [cache.get(path.stem) for path in files_of(own_cache)]
    assert run() == "7\n"
    assert [cache.get(path.stem) for path in files_of(own_cache)] == kept


def test_a_record_that_names_an_unknown_global_counts_as_absent(own_cache: Path) -> None:
    text = "cuda_tile.module @m { entry @k() { return } }"
    Program(parse(text)).launch("k", 1, [])
    cache = DiskCache(own_cache)
    for path in files_of(own_cache):
        found = cache.get(path.stem)
        assert found is not None
        if found[:1] == b"{":
            cache.put(path.stem, json.dumps({**json.loads(found), "globals": ["g"]}).encode())
    Program(parse(text)).launch("k", 1, [])


_WRITER = """
import sys
from pathlib import Path
from tilewright.launching.disk_cache import DiskCache
cache = DiskCache(Path(sys.argv[1]))
cache.set_limit(60_000)
for round in range(150):
    key = f"{round % 20:064x}"
    wanted = bytes([round % 20]) * 5000
    found = cache.get(key)
    assert found is None or found == wanted, key
    cache.put(key, wanted)
    if round % 40 == 0:
        cache.clear()
"""


def test_processes_do_not_disturb_each_other(tmp_path: Path) -> None:
    processes = [subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path)]) for _ in range(3)]
    assert [process.wait(120) for process in processes] == [0, 0, 0]
    assert not list(tmp_path.glob("??/*.tmp"))


def test_eviction_spares_an_entry_that_was_replaced_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries are listed first and removed then, in a thread of its own; a process may store one again in between."""
    cache = DiskCache(tmp_path)
    cache.put("cd" * 32, b"some code")
    (path,) = files_of(tmp_path)
    monkeypatch.setattr(DiskCache, "_files", lambda self: [(0.0, 1 << 42, path)])
    cache._evict(1000)
    assert cache.get("cd" * 32) == b"some code"
    size = path.stat().st_size
    monkeypatch.setattr(DiskCache, "_files", lambda self: [(0.0, size, path)])
    cache._evict(0)
    assert not path.exists()
