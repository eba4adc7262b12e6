"""Output files are written whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tilewright.cli.outputs import write_files, write_text
from tilewright.cli.session import Session, UsageError


@pytest.fixture
def session() -> Session:
    return Session([])


def test_new_file(session: Session, tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    write_text(session, str(target), "a\nb\n")
    assert target.read_bytes() == b"a\nb\n"
    assert os.listdir(tmp_path) == ["out.txt"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no permission bits")
def test_permissions(session: Session, tmp_path: Path) -> None:
    plain, kept = tmp_path / "plain", tmp_path / "kept"
    plain.write_bytes(b"")
    kept.write_bytes(b"old")
    kept.chmod(0o640)
    fresh = tmp_path / "fresh"
    write_files(session, {str(fresh): b"1", str(kept): b"2"})
    assert fresh.stat().st_mode == plain.stat().st_mode
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640
    assert kept.read_bytes() == b"2"


@pytest.mark.skipif(os.name == "nt", reason="symbolic links need rights on Windows")
def test_symbolic_link_stays(session: Session, tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_files(session, {str(link): b"new"})
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_missing_directory(session: Session, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unwritable-output"):
        write_files(session, {str(tmp_path / "no" / "out"): b"x"})
    assert os.listdir(tmp_path) == []


def test_failure_of_one_file_leaves_all_as_they_were(session: Session, tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.write_bytes(b"old")
    with pytest.raises(UsageError):
        write_files(session, {str(first): b"new", str(tmp_path / "no" / "second"): b"x"})
    assert first.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["first"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_failure_while_writing(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    target = tmp_path / "out"
    target.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("os.chmod", fail)
    expected = UsageError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected):
        write_files(session, {str(target): b"new"})
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out"]


def test_failure_while_replacing(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "out"
    target.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(UsageError, match="Permission denied"):
        write_files(session, {str(target): b"new"})
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out"]


def test_two_outputs_to_one_file(session: Session, tmp_path: Path) -> None:
    target = tmp_path / "out"
    with pytest.raises(UsageError, match="two outputs"):
        write_files(session, {str(target): b"1", str(tmp_path / "." / "x" / ".." / "out"): b"2"})
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="the system has no /dev/null")
def test_devices_are_not_replaced(session: Session) -> None:
    write_files(session, {"/dev/null": b"x"})
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
