"""The real Zabbix, for tests and benchmarks."""

from .agent import Agent
from .role import controller_token
from .stack import ADMIN, Stack, zabbix

__all__ = ["ADMIN", "Agent", "Stack", "controller_token", "zabbix"]
