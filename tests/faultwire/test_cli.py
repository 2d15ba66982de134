"""The command: help, exit codes, and what each answers, through the same entry that people use."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner, Result

from faultwire.broker.cluster import free_ports
from faultwire.cli import app
from tests.kafka import Kafka
from topics.catalog import TOPICS

GROUPS = ("broker", "config", "job", "topics")
COMMANDS = ("demo", "replay", "evaluate", "collect", "import", "doctor", "streams", "correlator", *GROUPS)


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FAULTWIRE_BROKER_DIR", str(tmp_path / "broker"))
    monkeypatch.delenv("FAULTWIRE_BOOTSTRAP", raising=False)
    monkeypatch.setattr("faultwire.config.USUAL_FILES", (Path("faultwire.toml"),))
    monkeypatch.setattr("faultwire.logs.setup", lambda *_: None)  # the test session's logging stays


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


def real(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "faultwire", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_help_names_every_command_and_where_to_begin() -> None:
    told = run("--help")
    assert told.exit_code == 0
    assert "faultwire demo" in told.output
    for command in COMMANDS:
        assert f"\n  {command}" in told.output


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    told = run(command, "--help")
    assert told.exit_code == 0
    assert len(told.output.splitlines()) > 5


@pytest.mark.parametrize("command", GROUPS)
def test_every_group_and_its_commands_have_help(command: str) -> None:
    told = run(command, "--help")
    assert told.exit_code == 0
    for line in told.output.partition("Commands:\n")[2].splitlines():
        name, _, about = line.strip().partition(" ")
        assert about.strip(), f"{command} {name} has no help"
        assert run(command, name, "--help").exit_code == 0


def test_help_imports_no_library_that_is_slow_to_load() -> None:
    program = (
        "import sys; from faultwire.cli import app\n"
        "print(sorted({'faust', 'aiokafka', 'pydantic', 'rich.console'} & set(sys.modules)))"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def test_the_version_is_printed() -> None:
    assert run("--version").output.startswith("faultwire 0.")


@pytest.mark.parametrize(
    "arguments",
    [("nonsense",), ("topics", "nonsense"), ("--nonsense",), ("--set", "kafka.prefix", "config", "show")],
)
def test_wrong_usage_is_exit_code_2(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2


def test_a_real_process_ends_with_the_code_and_no_traceback() -> None:
    told = real("--set", "kafka.prefx=a", "config", "show")
    assert told.returncode == 2
    assert told.stderr == "faultwire: command line: unknown key kafka.prefx, did you mean kafka.prefix?\n"
    assert told.stdout == ""


def test_completion_can_be_shown() -> None:
    told = subprocess.run(
        [Path(sys.executable).parent / "faultwire"],
        capture_output=True,
        text=True,
        check=False,
        env={"_FAULTWIRE_COMPLETE": "complete_bash", "COMP_WORDS": "faultwire to", "COMP_CWORD": "1"},
    )
    assert "topics" in told.stdout


# -- config ---------------------------------------------------------------------------------------------


def test_config_show_names_the_source_of_each_value(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("faultwire.toml").write_text("[kafka]\npartitions = 4", "utf-8")
    monkeypatch.setenv("FAULTWIRE__KAFKA__REPLICATION", "3")
    told = run("--set", "kafka.prefix=x.", "--log-level", "debug", "config", "show")
    lines = {line.partition(" = ")[0]: line for line in told.output.splitlines()}
    assert told.output.startswith("# file: faultwire.toml\n")
    assert lines["kafka.partitions"].endswith("# faultwire.toml")
    assert lines["kafka.replication"].endswith("# environment FAULTWIRE__KAFKA__REPLICATION")
    assert lines["kafka.prefix"].endswith("# command line")
    assert '"debug"' in lines["log.level"]
    assert lines["kafka.bootstrap"].endswith("# default")


def test_config_show_as_json() -> None:
    told = orjson.loads(run("--set", "kafka.partitions=3", "config", "show", "--json").output)
    assert told["kafka.partitions"] == {"value": 3, "source": "command line"}


def test_config_from_a_named_file(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('cluster = "alps"', "utf-8")
    assert 'cluster = "alps"' in run("--config", str(tmp_path / "own.toml"), "config", "show").output


def test_wrong_settings_end_every_command_that_needs_them_with_2() -> None:
    Path("faultwire.toml").write_text("[kafka]\npartitions = 0", "utf-8")
    for arguments in (("config", "show"), ("topics", "list"), ("topics", "create")):
        told = run(*arguments)
        assert told.exit_code == 2
        assert "faultwire.toml: kafka.partitions" in told.output


# -- topics ---------------------------------------------------------------------------------------------


async def test_topics_are_created_listed_and_described(broker: str, kafka: Kafka, topic_prefix: str) -> None:
    where = ("--bootstrap", broker, "--prefix", topic_prefix)
    missing = real("topics", "list", *where)
    created = real("topics", "create", *where, "--partitions", "2")
    again = real("topics", "create", *where, "--partitions", "2", "--json")
    differs = real("topics", "create", *where, "--partitions", "3")
    listed = real("topics", "list", *where, "--json")
    described = real("topics", "describe", "raw.job", *where, "--json")
    await kafka.delete_prefix(topic_prefix)
    assert missing.returncode == 1
    assert missing.stdout.count("missing") == len(TOPICS)
    assert created.returncode == 0
    assert created.stdout.count("created ") == len(TOPICS)
    assert again.returncode == 0
    assert orjson.loads(again.stdout)["unchanged"] == [topic_prefix + name for name in TOPICS]
    assert differs.returncode == 1
    assert f"differs    {topic_prefix}raw.xid: partitions is 2, wanted 3" in differs.stdout
    assert listed.returncode == 0
    assert {row["partitions"] for row in orjson.loads(listed.stdout)} == {2}
    told = orjson.loads(described.stdout)
    assert described.returncode == 1
    assert told["settings"]["cleanup.policy"] == "compact,delete"
    assert [d.partition(": ")[2] for d in told["differs"]] == ["partitions is 2, wanted 16"]


def test_a_topic_that_is_none_of_ours_names_the_nearest() -> None:
    told = run("topics", "describe", "raw.jbo")
    assert told.exit_code == 2
    assert "did you mean raw.job?" in told.output


@pytest.mark.parametrize("command", [("list",), ("create",), ("describe", "raw.xid")])
def test_no_broker_is_exit_code_3_with_its_address(command: tuple[str, ...]) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    told = run("topics", *command, "--bootstrap", address)
    assert told.exit_code == 3
    assert address in told.output
    assert "Traceback" not in told.output


@pytest.mark.parametrize("command", [("explain", "1"), ("offenders",), ("hold", "why"), ("health", "show")])
def test_a_broker_that_is_away_is_one_clear_line_and_leaves_nothing_open(
    command: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    told = run(*command, "--bootstrap", address)
    gc.collect()  # what was left open says so when it goes
    assert told.exit_code == 3
    assert address in told.output
    assert "Traceback" not in told.output
    assert "Unclosed" not in told.output + caplog.text
    assert told.output.count("\n") == 1
    assert "faultwire broker start" in told.output
    assert "Unable connect" not in caplog.text


def test_schemas_are_written_and_checked(tmp_path: Path) -> None:
    folder = str(tmp_path / "schemas")
    assert run("topics", "schema", "--dir", folder, "--check").exit_code == 1
    assert "wrote" in run("topics", "schema", "--dir", folder).output
    assert run("topics", "schema", "--dir", folder, "--check").exit_code == 0
    (tmp_path / "schemas" / "asyncapi.json").write_text("{}", "utf-8")
    stale = run("topics", "schema", "--dir", folder, "--check")
    assert stale.exit_code == 1
    assert "asyncapi.json" in stale.output
