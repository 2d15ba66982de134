"""Configuration: which layer wins, where a value came from, and what is said about a wrong key."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

from faultwire import config
from faultwire.config import ConfigError, Loaded, leaves, load
from faultwire.settings import Settings


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No file of this machine, no variable of this shell."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config, "USUAL_FILES", (Path("faultwire.toml"),))


def read(text: str = "", env: dict[str, str] | None = None, **flags: object) -> Loaded:
    path = Path("settings.toml")
    path.write_text(text, "utf-8")
    return load(path, {key.replace("__", "."): value for key, value in flags.items()}, env or {})


def problems(text: str = "", env: dict[str, str] | None = None, **flags: object) -> list[str]:
    with pytest.raises(ConfigError) as told:
        read(text, env, **flags)
    return told.value.problems


def test_without_anything_the_packaged_defaults_hold() -> None:
    loaded = load(environ={})
    packaged = tomllib.loads(files("faultwire").joinpath("data/defaults.toml").read_text("utf-8"))
    assert loaded.settings.kafka.bootstrap == packaged["kafka"]["bootstrap"]
    assert set(loaded.sources.values()) <= {"default", "as cluster"} | {
        f"as kafka.{name}" for name in ("bootstrap", "prefix", "replication")
    }


def test_later_layers_win_and_are_named() -> None:
    text = 'cluster = "alps"\n[kafka]\nprefix = "file."\npartitions = 4\nreplication = 3'
    env = {"FAULTWIRE__KAFKA__PREFIX": "env.", "FAULTWIRE__KAFKA__PARTITIONS": "5"}
    loaded = read(text, env, kafka__partitions=6)
    kafka = loaded.settings.kafka
    assert (loaded.settings.cluster, kafka.replication, kafka.prefix, kafka.partitions) == (
        "alps",
        3,
        "env.",
        6,
    )
    assert loaded.sources["kafka.replication"] == "settings.toml"
    assert loaded.sources["kafka.prefix"] == "environment FAULTWIRE__KAFKA__PREFIX"
    assert loaded.sources["kafka.partitions"] == "command line"
    assert loaded.sources["log.level"] == "default"


def test_facts_of_the_machine_are_stronger_than_defaults_only() -> None:
    found = {"kafka.bootstrap": ("127.0.0.1:1234", "local broker")}
    assert load(environ={}, found=found).settings.kafka.bootstrap == "127.0.0.1:1234"
    Path("faultwire.toml").write_text('[kafka]\nbootstrap = "kafka:9092"', "utf-8")
    assert load(environ={}, found=found).settings.kafka.bootstrap == "kafka:9092"


def test_the_file_is_looked_for_in_order() -> None:
    for name in ("faultwire", "named", "given"):
        Path(f"{name}.toml").write_text(f'cluster = "{name}"', "utf-8")
    assert load(environ={}).settings.cluster == "faultwire"
    environment = {"FAULTWIRE_CONFIG": "named.toml"}
    assert load(environ=environment).settings.cluster == "named"
    assert load(Path("given.toml"), environ=environment).settings.cluster == "given"


def test_rooms_follow_the_common_settings_unless_their_section_says_otherwise() -> None:
    loaded = read('cluster = "alps"\n[kafka]\nprefix = "x."\n[collect]\ncluster = "other"')
    assert loaded.settings.engine.cluster == loaded.settings.correlator.cluster == "alps"
    assert loaded.settings.engine.prefix == "x."
    assert loaded.settings.collect.cluster == "other"
    assert loaded.sources["engine.prefix"] == "as kafka.prefix"
    assert loaded.sources["collect.cluster"] == "settings.toml"


def test_the_bootstrap_variable_of_the_broker_counts() -> None:
    loaded = read(env={"FAULTWIRE_BOOTSTRAP": "kafka:9092"})
    assert loaded.settings.kafka.bootstrap == loaded.settings.engine.bootstrap == "kafka:9092"
    assert loaded.sources["kafka.bootstrap"] == "environment FAULTWIRE_BOOTSTRAP"


def test_variables_have_the_type_of_their_setting() -> None:
    env = {
        "FAULTWIRE__COLLECT__READERS": '["kmsg", "ports"]',
        "FAULTWIRE__COLLECT__HEARTBEAT_INTERVAL_S": "2.5",
        "FAULTWIRE__COLLECT__ACCEPT_USERSPACE_KMSG": "true",
        "FAULTWIRE__COLLECT__STATE_DIR": "/srv/x",
        "FAULTWIRE__CLUSTER": "7",
    }
    collect = read(env=env).settings.collect
    assert collect.readers == ("kmsg", "ports")
    assert collect.heartbeat_interval_s == 2.5
    assert collect.accept_userspace_kmsg is True
    assert collect.state_dir == Path("/srv/x")
    assert collect.cluster == "7"


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ('[kafka]\nbootstap = "x:1"', "unknown key kafka.bootstap, did you mean kafka.bootstrap?"),
        ("[kafak]\npartitions = 3", "unknown key kafak, did you mean kafka?"),
        ("partitions = 3", "unknown key partitions, did you mean kafka.partitions?"),
        ("[collect]\nheartbeat_interval = 3", "did you mean collect.heartbeat_interval_s?"),
        ("[kafka]\nzzzzzzzzzz = 3", "unknown key kafka.zzzzzzzzzz"),
    ],
)
def test_an_unknown_key_names_the_nearest_known_one(text: str, near: str) -> None:
    [problem] = problems(text)
    assert problem.startswith("settings.toml: ")
    assert problem.endswith(near)


def test_every_problem_is_told_at_once_with_its_place() -> None:
    told = problems("[kafka]\nprefx = 1", {"FAULTWIRE__LOG__LEVLE": "info"}, log__formta="kv")
    assert told == [
        "settings.toml: unknown key kafka.prefx, did you mean kafka.prefix?",
        "environment FAULTWIRE__LOG__LEVLE: unknown key log.levle, did you mean log.level?",
        "command line: unknown key log.formta, did you mean log.format?",
    ]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[kafka]\npartitions = 0", "kafka.partitions"),
        ('[kafka]\npartitions = "many"', "kafka.partitions"),
        ('[kafka]\nbootstrap = "nowhere"', "kafka.bootstrap"),
        ('[kafka]\nprefix = "not/a/topic"', "kafka.prefix"),
        ('[log]\nlevel = "loud"', "log.level"),
        ('cluster = "a/b"', "cluster"),
        ("[collect]\nport_interval_s = 5", "collect.port_interval_s"),
    ],
)
def test_a_wrong_value_is_told_with_its_place_and_what_it_is(text: str, key: str) -> None:
    [problem] = problems(text)
    assert problem.startswith(f"settings.toml: {key}: ")
    assert "(it is " in problem


def test_a_wrong_common_value_is_told_once_not_for_every_room() -> None:
    assert len(problems("[kafka]\nreplication = 0")) == 1


def test_a_section_that_is_no_table_is_told() -> None:
    assert problems("kafka = 3") == [
        "settings.toml: kafka is a section: write [kafka] and its settings below"
    ]


def test_a_file_that_is_not_toml_is_told_with_the_line() -> None:
    [problem] = problems("[kafka\n")
    assert "settings.toml: not TOML" in problem
    assert "line 1" in problem


def test_a_named_file_that_is_missing_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"gone\.toml: can't be read: No such file"):
        load(Path("gone.toml"), environ={})


def test_every_setting_has_a_row_with_a_source() -> None:
    rows = load(environ={}).rows()
    assert [key for key, _, _ in rows] == list(leaves(Settings))
    assert all(source for _, _, source in rows)


def test_the_packaged_defaults_hold_no_key_twice_and_none_of_the_rooms() -> None:
    packaged = tomllib.loads(files("faultwire").joinpath("data/defaults.toml").read_text("utf-8"))
    assert set(packaged) == {"cluster", "kafka", "log", "broker"}
