"""Logs: one line a record whatever is in it, with fields that can be searched."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultwire import logs
from faultwire.logs import KeyValueFormatter, quote


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    levels = {name: logging.getLogger(name).level for name in logs.QUIET}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)


def written(format: str = "kv", level: str = "info") -> io.StringIO:
    stream = io.StringIO()
    logs.setup(level, format, stream)  # type: ignore[arg-type]
    return stream


def test_a_record_is_one_line_of_key_and_value() -> None:
    stream = written()
    logging.getLogger("collectors.ports").warning("port is down", extra={"node": "node-07", "held_s": 1.5})
    line = stream.getvalue()
    assert line.startswith("time=20")
    assert line.endswith('level=warning logger=collectors.ports msg="port is down" node=node-07 held_s=1.5\n')


def test_json_has_the_same_fields_with_their_types() -> None:
    stream = written("json")
    logging.getLogger("x").info(
        "found %d", 3, extra={"count": 3, "big": 2**80, "nan": float("nan"), "ok": True}
    )
    told = orjson.loads(stream.getvalue())
    assert (told["level"], told["logger"], told["msg"], told["count"]) == ("info", "x", "found 3", 3)
    assert (told["big"], told["nan"], told["ok"]) == (str(2**80), "nan", True)


@pytest.mark.parametrize("format", ["kv", "json"])
def test_text_from_outside_cannot_begin_a_line_or_move_the_cursor(format: str) -> None:
    stream = written(format)
    nasty = 'a\nlevel=error msg="forged"\r\x1b[2J\x9b\u2028\u202e\udcff"'
    logging.getLogger("x").info("line %s", nasty, extra={"field": nasty, "bad key\n": 1})
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert text.rstrip("\n").isprintable()


@given(st.text())
def test_quoting_leaves_only_printable_text_and_hides_no_key(text: str) -> None:
    quoted = quote(text)
    assert quoted.isprintable()
    assert quoted == text or (quoted[0] == quoted[-1] == '"')
    inner = quoted[1:-1] if quoted != text else ""
    assert '"' not in inner.replace("\\\\", "").replace('\\"', "")
    if "=" in text or " " in text:
        assert quoted != text


@pytest.mark.parametrize("format", ["kv", "json"])
def test_an_exception_stays_in_its_line(format: str) -> None:
    stream = written(format)
    try:
        raise ValueError("what went wrong")
    except ValueError:
        logging.getLogger("x").exception("failed")
    assert stream.getvalue().count("\n") == 1
    assert "what went wrong" in stream.getvalue()


def test_levels_below_the_wanted_one_are_silent() -> None:
    stream = written(level="warning")
    logging.getLogger("x").info("no")
    logging.getLogger("x").warning("yes")
    assert "msg=no" not in stream.getvalue()
    assert "msg=yes" in stream.getvalue()


@pytest.mark.parametrize("name", ["faust", "mode.services", "aiokafka.consumer"])
def test_libraries_are_heard_from_warning_on(name: str) -> None:
    stream = written(level="debug")
    logging.getLogger(name).info("chatter")
    logging.getLogger(name).warning("trouble")
    assert "chatter" not in stream.getvalue()
    assert "trouble" in stream.getvalue()


def test_setting_up_again_replaces_what_was_there() -> None:
    first, second = written(), written()
    logging.getLogger("x").info("once")
    assert (first.getvalue(), second.getvalue().count("once")) == ("", 1)


def test_an_empty_value_is_visible() -> None:
    record = logging.makeLogRecord({"msg": "", "name": "x", "levelname": "INFO"})
    assert 'msg=""' in KeyValueFormatter().format(record)
