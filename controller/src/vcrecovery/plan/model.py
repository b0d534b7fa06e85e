"""The schema of the plan file: the one source of validation, of the reference and of the defaults."""

from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from pathlib import Path
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import AfterValidator, AliasChoices, Discriminator, Field, Tag, model_validator

from vcrecovery.plan.balance import Balance
from vcrecovery.plan.costs import Costs, SecondaryCost, ServiceCost
from vcrecovery.plan.drill import Drill
from vcrecovery.plan.fields import (
    AbsolutePath,
    AbsoluteText,
    DomainName,
    Duration,
    Name,
    PortNumber,
    Section,
    Size,
    unsaid,
)
from vcrecovery.plan.hooks import Hooks
from vcrecovery.plan.metrics import Metrics
from vcrecovery.plan.modes import MODE_DESCRIPTION, FirstUnit, Mode, Refresh, UnitName
from vcrecovery.plan.monitoring import Detection, Snmp, SnmpAgent, Zabbix
from vcrecovery.plan.notify import Destination
from vcrecovery.plan.probes import Port
from vcrecovery.plan.records import DnsRecord, VirtualAddress
from vcrecovery.plan.reports import Report
from vcrecovery.plan.secondary_vm import SecondaryVm
from vcrecovery.plan.status_page import StatusPage
from vcrecovery.plan.targets import Targets


def _profile(name: str) -> str:
    # Loaded for plans that name one.
    from vcrecovery.excludes.errors import ExcludeError
    from vcrecovery.excludes.rules import shipped_rules

    try:
        shipped_rules().profile(name)
    except ExcludeError as error:
        raise ValueError(str(error)) from None
    return name


class Fence(Section):
    """The operator's own way to end a machine: IPMI, a PDU, a cloud's API."""

    command: list[str] = Field(
        min_length=1,
        description="run without a shell; exit status 0 only when the machine is proven off",
        examples=[["/usr/local/sbin/power-off", "hv1"]],
    )
    timeout: Duration = Field(60.0, description="after which the fence has failed")


class Hypervisor(Section):
    """A libvirt host that runs primaries."""

    uri: str = Field(
        "qemu:///system", description="libvirt's connection URI", examples=["qemu+ssh://vcrecovery@hv1/system"]
    )
    site: Name = Field("main", description="the data centre it stands in; a site fails as a whole")
    snmp: SnmpAgent | None = Field(None, description="its LIBVIRT-MIB agent, which the relay asks and listens to")
    fence: Fence | None = Field(None, description="powers the whole hypervisor off when libvirt does not answer")


class Network(Section):
    """The network that the standbys of one secondary are on."""

    bridge: str = Field(description="an LXD-managed network or a bridge", pattern=r"^[^/\s]{1,15}$")
    address: IPv4Interface = Field(description="the bridge's own, and the standbys' gateway", examples=["10.20.0.1/24"])
    address6: IPv6Interface | None = Field(None, description="the same for IPv6", examples=["fd00:20::1/64"])


class Receiver(Section):
    """Where primaries send their files to: an SSH server that knows one confined key per service."""

    address: IPv4Address = Field(description="the address it listens on")
    port: PortNumber = 7022


class LxdOverHttps(Section):
    """LXD on a machine that the controller is not on."""

    url: str = Field(pattern=r"^https://", examples=["https://sec1.example.net:8443"])
    certificate: AbsolutePath = Field(description="the controller's; LXD may restrict it to its project `default`")
    key: AbsolutePath = Field(description="of that certificate; mode 0600")
    server_certificate: AbsolutePath = Field(description="LXD's own (server.crt): no other is believed")


def _lxd_kind(lxd: object) -> str:
    return "https" if isinstance(lxd, dict | LxdOverHttps) else "[socket]"


class Secondary(Section):
    """A machine that runs LXD and holds standbys."""

    lxd: Annotated[
        Annotated[AbsolutePath, Tag("[socket]")] | Annotated[LxdOverHttps, Tag("https")], Discriminator(_lxd_kind)
    ] = Field(
        Path("/var/lib/lxd/unix.socket"), description="LXD's unix socket; on another machine: its URL and certificates"
    )
    storage_pool: str = Field("default", description="the pool that holds the standbys")
    network: Network
    receiver: Receiver
    fence: Fence | None = Field(
        None, description="powers its machine off when LXD does not answer, before a spare takes over"
    )
    starts_at_once: int | None = Field(
        None, ge=1, description="how many standbys may start at the same time; null: as its cores and memory allow"
    )
    vm: SecondaryVm | None = Field(None, description="how `site.yml` makes it; null: it is a machine that exists")
    power: Literal["always", "on-demand"] = Field(
        "always",
        description="on-demand: it is off, and a failover boots it; needs `vm` with a `standbys_disk`, which the "
        "controller has on its own machine meanwhile",
    )
    power_on_within: Duration = Field(300.0, description="on-demand: from its start until LXD in it answers")
    power_off_after: Duration = Field(
        600.0, description="on-demand: how long it stays on after the last service has left it"
    )
    cost: SecondaryCost | None = Field(None, description="what it costs, for `vcrecovery cost`")


class DnsServer(Section):
    """An authoritative name server."""

    address: IPv4Address
    port: PortNumber = 53


class TsigKey(Section):
    """A key that may update the zone (RFC 8945). The secret stays in its own file."""

    name: DomainName
    algorithm: Literal["hmac-sha256", "hmac-sha384", "hmac-sha512"] = "hmac-sha256"
    secret_file: AbsolutePath = Field(description="holds the base64 secret and nothing else; mode 0600")


class Zone(Section):
    """A zone that takes dynamic updates (RFC 2136)."""

    servers: list[Name] = Field(min_length=1, description="every authoritative server; the first takes the updates")
    key: Name


class Dns(Section):
    servers: dict[Name, DnsServer] = Field({})
    keys: dict[Name, TsigKey] = Field({})
    zones: dict[DomainName, Zone] = Field({})


class Primary(Section):
    """The protected VM."""

    hypervisor: Name
    uuid: UUID
    address: IPv4Address
    address6: IPv6Address | None = None
    unanswered: Literal["serve", "wait"] = Field(
        "serve",
        description="what the VM does at its boot when its secondary does not say who serves: start its services (two "
        "copies may run, where no watcher lives and the standby serves), or wait for an answer (a secondary that is "
        "down keeps the service down)",
    )


class Spare(Section):
    """Another secondary, which gets a copy of the standby while that serves, and takes over if the first one fails."""

    secondary: Name
    address: IPv4Address = Field(description="in the network of that secondary")
    address6: IPv6Address | None = Field(None, description="in its network's address6")
    every: Duration = Field(600.0, description="how often the copy is refreshed while the standby serves")
    pause: bool = Field(
        True,
        description="freeze the standby for the last moments of each refresh, so that the copy is of one moment; pools "
        "with driver btrfs need no pause",
    )


class Standby(Section):
    """The container that stands in for it."""

    secondary: Name
    address: IPv4Address
    address6: IPv6Address | None = Field(None, description="in the network's address6; the ports are probed there too")
    host_keys: Literal["own", "copied"] = Field("copied", description="whose SSH host keys the standby shows")
    spare: Spare | None = Field(None, description="who protects it while it serves")


class Timeouts(Section):
    """How long each step may take."""

    confirm: Duration = Field(
        0.5, description="for the primary to accept a probe's connection, when a failure is confirmed"
    )
    shutdown: Duration = Field(300.0, description="for the primary to shut down, in a switchover")
    fence: Duration = Field(30.0, description="from destroying the VM to reading back that it is off")
    start: Duration = Field(60.0, description="for the standby to be running")
    ports: Duration = Field(60.0, description="from the start to every port open")
    stable_for: Duration = Field(
        0.3,
        # As it was called before.
        validation_alias=AliasChoices("stable_for", "settle"),
        description="for which every port must answer continuously before DNS follows",
    )
    dns: Duration = Field(10.0, description="for every authoritative server to show the new address")


class Hook(Section):
    """The operator's own commands around a sync, run as root on the primary by `sh -c`."""

    before: str = Field(description="makes the data on the disk consistent", min_length=1)
    after: str = Field("true", description="undoes that; runs in any case, also when the sync has failed")
    timeout: Duration = Field(60.0, description="for each of the two")


class Consistency(Section):
    """How a sync gets a state of the files that belongs together."""

    kind: Literal["files", "snapshot", "hook", "native"] = Field(
        "files",
        description="files: as they are; snapshot: from an LVM or btrfs snapshot; hook: between two commands; "
        "native: `paths` are left out, and `by` replicates them",
    )
    mounts: list[AbsoluteText] = Field(["/"], description="snapshot: the mount points that are synced from a snapshot")
    hook: Hook | None = Field(None, description="hook: around the sync; snapshot: around the making of the snapshot")
    paths: list[AbsoluteText] = Field([], description="native: what is excluded")
    by: str = Field("", description="native: who replicates that", examples=["MariaDB replication"])

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        if self.kind == "hook" and self.hook is None:
            raise ValueError("kind hook needs hook: {before: COMMAND, after: COMMAND}")
        if self.kind == "native" and not (self.paths and self.by):
            raise ValueError("kind native needs paths, and by: who replicates them")
        return self


class Sync(Section):
    """How the primary's files reach the standby."""

    engine: Literal["lsyncd", "periodic"] = Field(
        "lsyncd", description="lsyncd: every change, after `delay`; periodic: everything, every `reconcile`"
    )
    delay: Duration = Field(1.0, description="lsyncd: how long changes are gathered before they are sent")
    open_files: Literal["send", "when-closed"] = Field(
        "send",
        description="lsyncd: whether a file that stays open while it is written is sent at once, or when it is closed; "
        "until then it is only as fresh as the last reconcile",
    )
    reconcile: Duration = Field(1800.0, description="how often the whole tree is reconciled, whatever lsyncd says")
    bandwidth: int | None = Field(None, ge=1, description="the most that a transfer takes, in KiB/s", examples=[2048])
    exclude_profile: Annotated[str, AfterValidator(_profile)] | None = Field(
        "vm-to-container", description="a named set of packages to exclude where they are installed; null for none"
    )
    exclude_packages: list[str] = Field(
        [], description="names or patterns of further packages to exclude; each must match one", examples=[["snapd"]]
    )
    keep_packages: list[str] = Field([], description="packages to keep although the above name them")
    exclude: list[AbsoluteText] = Field([], description="further absolute paths to exclude")
    consistency: Consistency = unsaid()
    on_package_change: Literal["restart", "units", "nothing"] = Field(
        "restart",
        description="what a standby that runs does after a package run on the primary: restart the container, restart "
        "the units of the changed packages, or do nothing",
    )
    heartbeat: Duration = Field(10.0, description="how often the primary stamps its marker file")

    @property
    def left_out(self) -> list[str]:
        """The paths that stay out beside those of packages: the plan's own, and what replicates itself."""
        return self.exclude + (self.consistency.paths if self.consistency.kind == "native" else [])

    @model_validator(mode="after")
    def _engine_fits(self) -> Self:
        if self.engine == "lsyncd" and self.consistency.kind in ("snapshot", "hook"):
            raise ValueError(
                f"consistency {self.consistency.kind} needs engine: periodic; lsyncd sends each change as it comes"
            )
        return self


class OnServiceDown(Section):
    """What is done when the primary runs, and its ports do not answer."""

    after: Duration = Field(60.0, description="how long it has to be down; restarts and updates take less")
    do: Literal["report", "failover"] = Field(
        "report",
        description="failover: also needs the VM's own word that it is unwell: one of `first_units` has failed, or no "
        "heartbeat has come for as long",
    )


class RestorePoints(Section):
    """Snapshots of the standby, to go back to when what was synced is corrupt."""

    keep: int = Field(
        0, ge=0, le=100, description="how many; 0 for none (a pool with driver dir copies the whole tree)"
    )
    every: Duration = Field(3600.0, description="how often one is made, if the standby is complete")


class Limits(Section):
    """What its standby may take of the secondary, so that it cannot starve or fill its neighbours. Null: no limit."""

    cpu: int | None = Field(None, ge=1, le=1024, description="cores")
    memory: Size | None = Field(
        None, description="what is beyond it is swapped, or ended by the kernel", examples=["2GiB"]
    )
    processes: int | None = Field(None, ge=1)
    disk: Size | None = Field(None, description="of its pool; one with driver dir keeps no quota", examples=["20GiB"])


class Service(Section):
    """One primary, its standby, its ports and its names: what is failed over together."""

    primary: Primary
    standby: Standby
    mode: Mode = Field(Mode.COLD, description=MODE_DESCRIPTION)
    first_units: list[FirstUnit] = Field(
        [],
        description="the units that answer its ports: a boot starts them first, and all else once they run",
        examples=[["nginx.service"]],
    )
    warm_units: list[UnitName] = Field(
        [], description="mode warm: the units that run while it waits", examples=[["mariadb.service"]]
    )
    masked_units: list[UnitName] = Field(
        [], description="units that never run before it serves", examples=[["cron.service", "certbot.timer"]]
    )
    refresh: Refresh = unsaid()
    ports: list[Port] = Field(min_length=1, description="what has to answer", examples=[[80, 443]])
    dns: list[DnsRecord] = Field([], description="names that follow the service")
    virtual_ip: VirtualAddress | None = Field(None, description="an address that follows it, beside DNS or instead")
    needs: list[Name] = Field(
        [], description="services that have to be up before its standby starts, in a failover of several"
    )
    on_service_down: OnServiceDown = unsaid()
    max_staleness: Duration = Field(900.0, description="a failover refuses when the standby's files are older")
    timeouts: Timeouts = unsaid()
    sync: Sync = unsaid()
    limits: Limits = unsaid()
    restore_points: RestorePoints = unsaid()
    drill: Drill = unsaid()
    targets: Targets = unsaid()
    cost: ServiceCost | None = Field(None, description="what a second VM would cost, to compare with")
    hooks: Hooks = unsaid()

    @model_validator(mode="after")
    def _can_have_restore_points(self) -> Self:
        if self.restore_points.keep and self.mode is not Mode.COLD:
            raise ValueError(
                f"mode {self.mode} has no restore points, since its container is never off; set restore_points.keep to "
                "0, or mode to cold"
            )
        return self

    @model_validator(mode="after")
    def _is_synced_in_time(self) -> Self:
        if self.sync.engine == "periodic" and self.sync.reconcile >= self.max_staleness:
            raise ValueError(
                f"engine periodic syncs every {self.sync.reconcile:.0f} s, and max_staleness is "
                f"{self.max_staleness:.0f} s: most failovers would be refused; set sync.reconcile lower"
            )
        return self


class Group(Section):
    """Services that are failed over together, by `vcrecovery failover --group`."""

    services: list[Name] = Field(min_length=1, description="its services; each is in one group at most")


class Plan(Section):
    """The whole plan: who is protected, by what, and how."""

    version: Literal[1]
    state_dir: AbsolutePath = Field(Path("/var/lib/vcrecovery"), description="the journal and the locks")
    hypervisors: dict[Name, Hypervisor] = Field({})
    secondaries: dict[Name, Secondary] = Field({})
    dns: Dns = unsaid()
    snmp: Snmp = unsaid()
    zabbix: Zabbix | None = Field(None, description="the Zabbix server, where one is used")
    detection: Detection = unsaid()
    balance: Balance = unsaid()
    metrics: Metrics | None = Field(None, description="where `vcrecovery watch` serves metrics; null: nowhere")
    status_page: StatusPage | None = Field(
        None, description="where `vcrecovery watch` serves a page to read; null: nowhere"
    )
    costs: Costs | None = Field(None, description="prices, for `vcrecovery cost`; null: nothing is reckoned")
    report: Report | None = Field(None, description="reports on a schedule; null: only by hand")
    notify: list[Destination] = Field([], description="who is told what happens, by `vcrecovery watch`")
    hooks: Hooks = unsaid()
    services: dict[Name, Service] = Field(min_length=1)
    groups: dict[Name, Group] = Field({}, description="services that are failed over together")
