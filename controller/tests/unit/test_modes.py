"""Which step brings a standby to its mode, and when it is refreshed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcrecovery.drivers.lxd import Instance
from vcrecovery.plan.load import load_plan
from vcrecovery.plan.modes import Mode
from vcrecovery.plan.problems import PlanError
from vcrecovery.standby.modes import (
    REFRESHED_KEY,
    Act,
    ChosenModes,
    Level,
    Refreshed,
    boots_to_base,
    init_of_all,
    level_of,
    next_act,
    note,
    refreshed,
    rest_units,
    with_init,
    with_init_of,
    without_init,
)

NOW, HOUR = 100_000.0, 3600.0
FRESH = {level: Refreshed(level, NOW - 10) for level in Level}
RAW = "lxc.net.0.ipv4.address = 10.20.0.10/24\nlxc.net.0.ipv4.gateway = 10.20.0.1"


def step(mode: str, status: str, found: Refreshed | None = None, now: float = NOW) -> Act | None:
    return next_act(Mode(mode), status, found, HOUR, now)


@pytest.mark.parametrize(
    ("mode", "status", "found", "wanted"),
    [
        ("cold", "Stopped", None, None),
        ("cold", "Running", FRESH[Level.ALL], Act.STOP),
        ("cold", "Frozen", FRESH[Level.ALL], Act.STOP),
        ("hot", "Stopped", None, Act.BOOT),
        ("hot", "Running", None, Act.REFRESH),
        ("hot", "Running", FRESH[Level.ALL], None),
        ("hot", "Running", FRESH[Level.BASE], Act.REFRESH),
        ("hot", "Frozen", FRESH[Level.ALL], Act.THAW),
        ("frozen", "Stopped", None, Act.BOOT),
        ("frozen", "Running", None, Act.REFRESH),
        ("frozen", "Running", FRESH[Level.ALL], Act.FREEZE),
        ("frozen", "Frozen", FRESH[Level.ALL], None),
        ("frozen", "Frozen", None, Act.THAW),
        ("frozen", "Frozen", FRESH[Level.BASE], Act.THAW),
        ("warm", "Stopped", None, Act.BOOT),
        ("warm", "Running", FRESH[Level.BASE], None),
        ("warm", "Running", FRESH[Level.ALL], Act.STOP),
        ("warm", "Frozen", FRESH[Level.ALL], Act.STOP),
        ("warm", "Frozen", FRESH[Level.BASE], Act.THAW),
        ("hot", "Stopping", FRESH[Level.ALL], None),
        ("frozen", "Starting", None, None),
    ],
)
def test_the_next_step(mode: str, status: str, found: Refreshed | None, wanted: Act | None) -> None:
    assert step(mode, status, found) is wanted


def test_a_refresh_comes_when_it_is_due_and_not_before() -> None:
    since = Refreshed(Level.ALL, NOW)
    assert step("frozen", "Frozen", since, NOW + HOUR - 1) is None
    assert step("frozen", "Frozen", since, NOW + HOUR) is Act.THAW
    assert step("frozen", "Running", since, NOW + HOUR) is Act.REFRESH
    assert step("hot", "Running", since, NOW + HOUR) is Act.REFRESH
    # Two clocks that differ a little, and one that was set back by far.
    assert step("frozen", "Frozen", since, NOW - 5) is None
    assert step("frozen", "Frozen", since, NOW - HOUR) is Act.THAW


@given(
    mode=st.sampled_from(Mode),
    status=st.sampled_from(["Stopped", "Running", "Frozen"]),
    level=st.sampled_from([None, *Level]),
    age=st.floats(0, 3 * HOUR),
)
def test_every_state_leads_to_the_mode_and_stays(mode: Mode, status: str, level: Level | None, age: float) -> None:
    found = Refreshed(level, NOW - age) if level is not None else None
    for _ in range(6):
        act = next_act(mode, status, found, HOUR, NOW)
        if act is None:
            break
        if act is Act.STOP:
            status, found = "Stopped", None
        elif act is Act.BOOT:
            assert status == "Stopped"
            status = "Running"
        elif act is Act.REFRESH:
            assert status == "Running"
            found = Refreshed(level_of(mode), NOW)
        elif act is Act.FREEZE:
            # It never freezes what is older than its files may be.
            assert found is not None
            assert NOW - found.since < HOUR
            status = "Frozen"
        else:
            assert status == "Frozen"
            status = "Running"
    assert next_act(mode, status, found, HOUR, NOW) is None
    assert status == {Mode.COLD: "Stopped", Mode.FROZEN: "Frozen"}.get(mode, "Running")


def test_what_was_noted_holds_for_that_boot_only() -> None:
    instance = Instance("web", True, "Running", {}, {}, started_at=1732233591.1661480)
    for since in (1732233591.2500001, 1732230000.0):  # the second: the clock was set back by an hour
        noted = replace(instance, config={REFRESHED_KEY: note(Level.ALL, since, instance)})
        assert refreshed(noted) == Refreshed(Level.ALL, since)
        assert refreshed(replace(noted, started_at=1732233591.1661482)) is None
        assert refreshed(replace(noted, started_at=1732240000.0)) is None
    for text in ("", "all", "all x", "all 5", "half 5 5", "500.25", "all 5 5 5"):
        assert refreshed(replace(instance, config={REFRESHED_KEY: text})) is None


def test_how_it_boots(plan_file: Path) -> None:
    text = plan_file.read_text()
    plan_file.write_text(text.replace("    max_staleness: 2m\n", "    warm_units: [mariadb.service, dbus.socket]\n"))
    service = load_plan(plan_file).services["web"]
    warm = with_init(RAW, service, Mode.WARM)
    init = (
        "lxc.init.cmd = /sbin/init systemd.unit=sysinit.target systemd.wants=mariadb.service systemd.wants=dbus.socket"
    )
    assert warm == f"{RAW}\n{init}"
    assert with_init(warm, service, Mode.WARM) == warm
    assert with_init(warm, service, Mode.HOT) == RAW
    assert without_init(warm) == RAW
    assert with_init_of(warm, "lxc.net.0.ipv4.address = 1") == f"lxc.net.0.ipv4.address = 1\n{init}"
    assert with_init_of(RAW, RAW) == RAW
    assert boots_to_base({"raw.lxc": warm})
    assert not boots_to_base({"raw.lxc": RAW})
    assert not boots_to_base({})
    masked = service.model_copy(update={"masked_units": ["cron.service"]})
    # A mask is in place before anything starts.
    assert with_init(RAW, masked, Mode.HOT) == f"{RAW}\nlxc.init.cmd = /sbin/init systemd.unit=sysinit.target"


def test_a_boot_begins_with_the_first_units() -> None:
    assert init_of_all([]) == []
    (first,) = init_of_all(["nginx.service", "php.service"])
    wants = "systemd.wants=nginx.service systemd.wants=php.service systemd.wants=vcrecovery-rest.service"
    mask = "systemd.mask=systemd-journal-flush.service"
    assert first == f"lxc.init.cmd = /sbin/init {wants} {mask} systemd.unit=sysinit.target"
    raw = f"{RAW}\n{first}"
    assert not boots_to_base({"raw.lxc": raw})
    # LXC heeds the last of two such lines: the keeper's, while there is one.
    base = "lxc.init.cmd = /sbin/init systemd.unit=sysinit.target"
    assert with_init_of(f"{raw}\n{base}", raw) == f"{raw}\n{base}"
    assert without_init(f"{raw}\n{base}") == raw


def test_the_rest_of_a_boot_waits_for_the_first_units_but_not_for_ever() -> None:
    waits, now = rest_units(["nginx.service", "php.service"]).values()
    assert "After=nginx.service php.service\nJobTimeoutSec=60\nOnFailure=vcrecovery-rest-now.service\n" in waits
    for text in (waits, now):
        assert "--flush\nExecStart=/bin/systemctl start --no-block default.target\n" in text
        assert "Requires=" not in text
    assert "After=" not in now


def test_a_choice_outlives_its_controller(tmp_path: Path, plan_file: Path) -> None:
    service = load_plan(plan_file).services["web"]
    chosen = ChosenModes(tmp_path)
    assert chosen.of("web", service) is Mode.COLD
    chosen.write("web", Mode.FROZEN)
    assert ChosenModes(tmp_path).of("web", service) is Mode.FROZEN
    chosen.write("web", None)
    chosen.write("web", None)
    assert ChosenModes(tmp_path).read("web") is None
    # What cannot be read is no choice.
    (tmp_path / "modes" / "web").write_text("lukewarm\n")
    assert chosen.of("web", service) is Mode.COLD


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mode: lukewarm", "services.web.mode: input should be 'hot', 'frozen', 'warm' or 'cold'"),
        ("warm_units: [mariadb]", "services.web.warm_units[0]: string should match"),
        ("first_units: [multi-user.target]", "services.web.first_units[0]: string should match"),
        (
            "first_units: [nginx.service, chrony.service]",
            "first_units[1]: chrony.service is masked in every standby, and would never start there; leave it out",
        ),
        ("warm_units: [lsyncd.service]", "services.web.warm_units[0]: lsyncd.service is masked in every standby"),
        ("first_units: [modprobe@fuse.service]", "first_units[0]: modprobe@fuse.service is masked in every standby"),
        ("first_units: [vcrecovery-rest.service]", "first_units[0]: vcrecovery-rest.service is the standby's own"),
        ("masked_units: ['a b.service']", "services.web.masked_units[0]: string should match"),
        ("mode: hot\n    restore_points: {keep: 3}", "mode hot has no restore points"),
        ("refresh: {every: never}", "'never' is no duration"),
    ],
)
def test_what_is_wrong_in_a_plan(plan_file: Path, text: str, said: str) -> None:
    plan_file.write_text(plan_file.read_text().replace("max_staleness: 2m", text))
    with pytest.raises(PlanError) as error:
        load_plan(plan_file)
    assert said in " ".join(str(problem) for problem in error.value.problems)
