"""Files that grow, move, shrink and vanish: every line once, with the offset and time that are its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.logs.files import LINGER_NS, MAX_FILES, TURN_BYTES, FileSet
from collectors.logs.growing import HISTORY_BYTES, MAX_LINE, PARTIAL_NS
from collectors.logs.sources import LogSource
from topics.time import NS_PER_S

NOW = 1_900_000_000 * NS_PER_S


def source(folder: Path, **more: Any) -> LogSource:
    options = {
        "files": (f"{folder}/*.log*",),
        "name": r"/rank(?P<rank>\d+)\.log",
        "job": "6022",
        "first": "all",
    }
    return LogSource(**{**options, **more})


class Follower:
    """A file set that is polled by hand; time moves a second a poll."""

    def __init__(self, folder: Path, resume: dict[str, Any] | None = None, **more: Any) -> None:
        self.files = FileSet([source(folder, **more)], resume)
        self.now = NOW
        self.lines: list[str] = []

    def poll(self, after_s: float = 1.0) -> list[str]:
        self.now += round(after_s * NS_PER_S)
        self.files.scan(self.now)
        got: list[str] = []
        more = True
        while more:
            taken, more = self.files.poll(self.now)
            got += [line.text for _, lines in taken for line in lines]
        self.lines += got
        return got

    def position(self) -> dict[str, Any]:
        return {str(n): tail.position() for n, tail in enumerate(self.files.tails())}


def append(path: Path, text: str | bytes) -> None:
    with path.open("ab") as file:
        file.write(text.encode() if isinstance(text, str) else text)


def test_only_complete_lines_are_told(tmp_path: Path) -> None:
    log = tmp_path / "rank3.log"
    follower = Follower(tmp_path)
    append(log, "one\ntw")
    assert follower.poll() == ["one"]
    append(log, "o\nthree\n")
    assert follower.poll() == ["two", "three"]
    assert follower.poll() == []


def test_a_last_line_without_an_end_is_told_after_some_patience(tmp_path: Path) -> None:
    append(tmp_path / "rank3.log", "one\nFatal Python error: Aborted")
    follower = Follower(tmp_path)
    assert follower.poll() == ["one"]
    assert follower.poll(PARTIAL_NS / NS_PER_S + 1) == ["Fatal Python error: Aborted"]
    append(tmp_path / "rank3.log", "\nnext\n")
    assert follower.poll() == ["next"]


def test_carriage_returns_end_lines(tmp_path: Path) -> None:
    append(tmp_path / "rank3.log", " 1%|x| 1/9\r 2%|x| 2/9\r\ndone\r\n")
    assert Follower(tmp_path).poll() == [" 1%|x| 1/9", " 2%|x| 2/9", "done"]


def test_offsets_name_lines_by_where_they_begin(tmp_path: Path) -> None:
    log = tmp_path / "rank3.log"
    append(log, "one\n\n\ntwo\nthr")
    follower = Follower(tmp_path)
    follower.files.scan(NOW)
    ((_, lines),), _ = follower.files.poll(NOW)
    assert [(line.offset, line.text) for line in lines] == [(0, "one"), (6, "two")]
    append(log, "ee\n")
    ((tail, lines),), _ = follower.files.poll(NOW)
    assert [(line.offset, line.text) for line in lines] == [(10, "three")]
    assert tail.told == 16


def test_a_renamed_file_is_read_on_and_its_successor_from_the_start(tmp_path: Path) -> None:
    log = tmp_path / "rank3.log"
    append(log, "one\n")
    follower = Follower(tmp_path)
    follower.poll()
    log.rename(tmp_path / "rank3.log.1")
    append(tmp_path / "rank3.log.1", "two\n")
    append(log, "three\n")
    assert sorted(follower.poll()) == ["three", "two"]
    assert len(follower.files.tails()) == 2


def test_a_deleted_file_is_read_to_its_end_and_then_let_go(tmp_path: Path) -> None:
    log = tmp_path / "rank3.log"
    append(log, "one\n")
    follower = Follower(tmp_path)
    follower.poll()
    with log.open("ab") as held:
        log.unlink()
        held.write(b"two\n")
        held.flush()
        assert follower.poll() == ["two"]
    follower.poll()
    assert follower.poll(LINGER_NS / NS_PER_S + 1) == []
    assert follower.files.tails() == []


def test_a_truncated_file_is_read_from_its_start(tmp_path: Path) -> None:
    log = tmp_path / "rank3.log"
    append(log, "one\ntwo\n")
    follower = Follower(tmp_path)
    follower.poll()
    log.write_bytes(b"new\n")
    assert follower.poll() == ["new"]
    assert follower.files.tails()[0].generation == 1


def test_a_file_overwritten_with_more_than_it_held_is_noticed(tmp_path: Path) -> None:
    log = tmp_path / "rank3.log"
    append(log, "one\ntwo\n")
    follower = Follower(tmp_path)
    follower.poll()
    log.write_bytes(b"other 1\nother 2\nother 3\n")
    assert follower.poll() == ["other 1", "other 2", "other 3"]


def test_the_hole_of_a_copytruncate_is_passed_over(tmp_path: Path) -> None:
    log = tmp_path / "rank3.log"
    with log.open("wb") as writer:  # not appending: it goes on where it stood
        writer.write(b"one\n" * 100_000)
        writer.flush()
        follower = Follower(tmp_path)
        assert len(follower.poll()) == 100_000
        os.truncate(log, 0)
        assert follower.poll() == []
        writer.write(b"after\n")
        writer.flush()
        assert follower.poll() == ["after"]


def test_broken_encoding_is_replaced(tmp_path: Path) -> None:
    append(tmp_path / "rank3.log", b"caf\xe9 \xff\xfe\n")
    assert Follower(tmp_path).poll() == ["caf\ufffd \ufffd\ufffd"]


def test_a_very_long_line_is_cut_and_the_next_one_is_whole(tmp_path: Path) -> None:
    log = tmp_path / "rank3.log"
    follower = Follower(tmp_path)
    append(log, b"x" * (5 * MAX_LINE))
    (first,) = follower.poll()
    assert len(first) == MAX_LINE
    append(log, b"x" * MAX_LINE)
    assert follower.poll() == []
    append(log, b"x\nnext\n")
    assert follower.poll() == ["next"]
    append(log, b"y" * (MAX_LINE + 1) + b"\n\nlast\n")
    assert [len(line) for line in follower.poll()] == [MAX_LINE, 4]
    assert follower.files.tails()[0].cut == 2


def test_a_turn_is_bounded_and_fair(tmp_path: Path) -> None:
    for rank in range(3):
        append(tmp_path / f"rank{rank}.log", b"a line of a talkative job\n" * 200_000)
    files = FileSet([source(tmp_path)], {})
    files.scan(NOW)
    seen: set[str] = set()
    for _ in range(3):
        taken, more = files.poll(NOW)
        assert more
        assert sum(len(line.text) + 1 for _, lines in taken for line in lines) <= TURN_BYTES + MAX_LINE
        seen |= {tail.path for tail, _ in taken}
    assert len(seen) == 3


def test_a_restart_goes_on_where_it_was_told_to(tmp_path: Path) -> None:
    log = tmp_path / "rank3.log"
    append(log, "one\ntwo\nthr")
    before = Follower(tmp_path)
    before.poll()
    position = before.position()
    append(log, "ee\nfour\n")
    (tmp_path / "rank4.log").write_text("new while away\n")
    assert sorted(Follower(tmp_path, position).poll()) == ["four", "new while away", "three"]


def test_a_position_of_another_file_in_the_same_inode_is_not_believed(tmp_path: Path) -> None:
    log = tmp_path / "rank3.log"
    append(log, "one\ntwo\n")
    before = Follower(tmp_path)
    before.poll()
    position = before.position()
    log.write_bytes(b"an entirely different file\n")
    assert Follower(tmp_path, position).poll() == ["an entirely different file"]


def test_garbage_for_a_position_is_ignored(tmp_path: Path) -> None:
    append(tmp_path / "rank3.log", "one\n")
    for garbage in ({"x": 1}, {"x": {"dev": "a"}}, {"x": None}):
        assert Follower(tmp_path, garbage).poll() == ["one"]


def test_what_was_there_before_the_first_start_is_marked_as_history(tmp_path: Path) -> None:
    log = tmp_path / "rank3.log"
    append(log, "old\n")
    files = FileSet([source(tmp_path, first="settings")], None)
    files.scan(NOW)
    ((_, lines),), _ = files.poll(NOW)
    assert [(line.text, line.history) for line in lines] == [("old", True)]
    append(log, "new\n")
    (tmp_path / "rank4.log").write_text("of a new job\n")
    files.scan(NOW)
    taken, _ = files.poll(NOW)
    assert sorted((line.text, line.history) for _, lines in taken for line in lines) == [
        ("new", False),
        ("of a new job", False),
    ]


def test_of_a_long_history_only_the_beginning_is_read(tmp_path: Path) -> None:
    log = tmp_path / "rank3.log"
    append(log, b"first\n" + b"x" * 99 + b"\n" + (b"y" * 99 + b"\n") * (HISTORY_BYTES // 50))
    follower = Follower(tmp_path, first="settings")
    got = follower.poll()
    assert got[0] == "first"
    assert HISTORY_BYTES // 100 <= len(got) < HISTORY_BYTES // 100 + 3000
    append(log, "new\n")
    assert follower.poll() == ["new"]


def test_nothing_of_the_past_when_so_configured(tmp_path: Path) -> None:
    append(tmp_path / "rank3.log", "old\n")
    follower = Follower(tmp_path, first="nothing")
    assert follower.poll() == []
    append(tmp_path / "rank3.log", "new\n")
    assert follower.poll() == ["new"]


def test_a_lines_time_lies_between_two_looks_and_not_after_the_files_change(tmp_path: Path) -> None:
    log = tmp_path / "rank3.log"
    append(log, "one\n")
    os.utime(log, ns=(NOW, NOW - 5 * NS_PER_S))
    files = FileSet([source(tmp_path)], {})
    files.scan(NOW)
    ((_, lines),), _ = files.poll(NOW)
    assert lines[0].time == NOW - 5 * NS_PER_S
    for mtime, expected in (
        (NOW + NS_PER_S, NOW + NS_PER_S),
        (NOW - 9 * NS_PER_S, NOW + 2 * NS_PER_S),
        (NOW + 99 * NS_PER_S, NOW + 6 * NS_PER_S),
    ):
        append(log, "two\n")
        os.utime(log, ns=(NOW, mtime))
        at = {NOW + NS_PER_S: NOW + 2 * NS_PER_S, NOW + 2 * NS_PER_S: NOW + 4 * NS_PER_S}.get(
            expected, expected
        )
        ((_, lines),), _ = files.poll(at)
        assert lines[0].time == expected
        files.poll(at)


def test_files_beyond_the_limit_are_counted_not_read(tmp_path: Path) -> None:
    for number in range(MAX_FILES + 3):
        (tmp_path / f"rank{number}.log").touch()
    files = FileSet([source(tmp_path)], {})
    files.scan(NOW)
    assert (files.too_many, len(files.tails())) == (3, MAX_FILES)
    files.close()


def test_what_is_not_a_file_or_not_of_the_source_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "rank1.log").mkdir()
    os.mkfifo(tmp_path / "rank2.log")
    (tmp_path / "other.log").write_text("x\n")
    (tmp_path / "rank3.log").symlink_to(tmp_path / "nowhere")
    assert Follower(tmp_path).poll() == []


STEP = st.sampled_from(
    ["append", "append", "append", "partial", "rename", "truncate", "restart", "poll", "delete"]
)


@settings(deadline=None, max_examples=60)
@given(steps=st.lists(STEP, max_size=25))
def test_whatever_happens_to_the_file_each_line_is_told_once(steps: list[str], tmp_path_factory: Any) -> None:
    """Lines that a poll could see before the file lost them are told exactly once, restarts included."""
    folder = tmp_path_factory.mktemp("logs")
    log = folder / "rank3.log"
    follower = Follower(folder)
    written: list[str] = []
    renamed = 0
    open_end = False
    for number, step in enumerate(steps):
        if step == "append":
            append(log, f"line {number}\n")
            if open_end:
                written[-1] += f"line {number}"
            else:
                written.append(f"line {number}")
            open_end = False
        elif step == "partial":
            append(log, f"part {number} ")
            if open_end:
                written[-1] += f"part {number} "
            else:
                written.append(f"part {number} ")
            open_end = True
        elif step == "poll":
            follower.poll(0.1)
        elif step == "restart":
            follower.poll(0.1)
            position = follower.position()
            lines = follower.lines
            follower.files.close()
            follower = Follower(folder, position)
            follower.lines = lines
        elif log.exists():
            if open_end:
                append(log, "\n")
                open_end = False
            follower.poll(0.1)
            if step == "rename":
                renamed += 1
                log.rename(folder / f"rank3.log.{renamed}")
            elif step == "truncate":
                log.write_bytes(b"")
            else:
                log.unlink()
            follower.poll(0.1)
    if open_end:
        append(log, "\n")
    follower.poll(0.1)
    assert sorted(follower.lines) == sorted(written)
    follower.files.close()
