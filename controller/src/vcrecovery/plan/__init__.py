"""The plan file: its schema, its reader, its checks. Importing this alone costs nothing."""

from pathlib import Path

DEFAULT_PATH = Path("/etc/vcrecovery/plan.yml")
