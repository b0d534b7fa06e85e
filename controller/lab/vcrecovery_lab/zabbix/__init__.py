"""The real Zabbix, for tests and benchmarks."""

from .agent import Agent
from .stack import ADMIN, Stack, zabbix

__all__ = ["ADMIN", "Agent", "Stack", "zabbix"]
