"""Writes `templates/zabbix` and `templates/prometheus`."""

from __future__ import annotations

from pathlib import Path

from .alerts import prometheus
from .export import VERSIONS, dashboard, export

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"


def files() -> dict[Path, str]:
    """What is to be in each file."""
    made = {TEMPLATES / f"zabbix/vcrecovery-{version}.yaml": export(version) for version in VERSIONS}
    made |= {TEMPLATES / f"zabbix/dashboard-{version}.yaml": dashboard(version) for version in VERSIONS}
    return {**made, TEMPLATES / "prometheus/alerts.yml": prometheus()}


def main() -> None:
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
