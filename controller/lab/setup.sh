#!/usr/bin/env bash
# Installs what `make demo` and `make test` need on a Debian 12 machine: Debian packages, a virtual environment
# from the lock file, and the Ansible collections. Each part is skipped when it is already there.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=$PWD/.venv
say() { printf '%s  %s\n' "$(date +%T)" "$*" >&2; }

packages=(
  # what the lab runs
  libvirt-daemon-system libvirt-clients qemu-system-x86 qemu-utils
  lxd lxd-client btrfs-progs squashfs-tools attr acl libcap2-bin uidmap dnsmasq-base iptables
  bind9 bind9-utils bind9-dnsutils
  openssh-server openssh-client openssl rsync lsyncd
  snmpd snmp snmptrapd
  # what the tests of the exclude lists build package databases with
  rpm dnf dnf-plugins-core
  # what asks a VM and a container in it how fast their network is
  iperf3
  # what the tests of consistent syncs run: no services, only programs
  mariadb-server-core mariadb-client-core lvm2 thin-provisioning-tools xfsprogs
  # what looks at the report's page
  chromium
  # what shows a test when the journal is on the disk
  strace
  # what checks the packages of Zabbix, which are unpacked into a cache and not installed
  debian-archive-keyring
  # what builds the VM image, and tries whether KVM works
  debootstrap e2fsprogs busybox-static
  # the controller's Python
  python3 python3-venv python3-libvirt
  curl iproute2 locales procps
)
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
if ((${#missing[@]})); then
  if ((EUID)); then
    echo "setup: run as root, or install first: ${missing[*]}" >&2
    exit 1
  fi
  say "Debian packages: installing ${#missing[@]} (about half a minute)"
  log=$(mktemp)
  if ! { apt-get -qq update &&
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "setup: apt-get failed; its whole output is in $log" >&2
    exit 1
  fi
  rm -f "$log"
fi

lock=controller/requirements-dev.lock
stamp=$venv/.lock.sha256
want=$(sha256sum "$lock" controller/pyproject.toml | sha256sum)
if [[ "$(cat "$stamp" 2>/dev/null)" != "$want" ]]; then
  say "Python packages: installing from $lock"
  # Debian's own interpreter: its python3-libvirt fits the installed libvirt.
  /usr/bin/python3 -m venv --clear "$venv"
  # shellcheck disable=SC2046
  ln -sf $(/usr/bin/python3 -c 'import libvirt, libvirtmod; print(libvirt.__file__, libvirtmod.__file__)') \
    "$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$lock"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e controller
  printf '%s\n' "$want" >"$stamp"
fi

"$venv/bin/python" controller/lab/install_collections.py
