"""The tables of the journal. What an older version has written is brought up to date when it is opened."""

from __future__ import annotations

JOURNAL_SCHEMA = """
CREATE TABLE IF NOT EXISTS service (
    name TEXT PRIMARY KEY,
    epoch INTEGER NOT NULL DEFAULT 0,
    side TEXT NOT NULL DEFAULT 'primary',
    seen_running_at REAL,
    paused_since REAL, paused_until REAL, pause_reason TEXT,
    acknowledged_at REAL,
    seen_power TEXT, seen_reason TEXT, seen_since REAL, seen_at REAL, seen_on TEXT,
    standby_on TEXT, started_on TEXT,
    started_with_host INTEGER NOT NULL DEFAULT 0,
    written_off INTEGER
) STRICT;
CREATE TABLE IF NOT EXISTS primary_off (
    service TEXT NOT NULL, since REAL NOT NULL, until REAL NOT NULL,
    PRIMARY KEY (service, since)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS episode (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    service TEXT NOT NULL, epoch INTEGER NOT NULL,
    cause TEXT NOT NULL, request TEXT NOT NULL, opened_at REAL NOT NULL,
    closed_at REAL, outcome TEXT, reason TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS one_open_episode ON episode (service) WHERE closed_at IS NULL;
CREATE INDEX IF NOT EXISTS episodes_of_service ON episode (service);
CREATE TABLE IF NOT EXISTS step (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    episode INTEGER NOT NULL REFERENCES episode (id),
    service TEXT NOT NULL, epoch INTEGER NOT NULL, step TEXT NOT NULL,
    begun_at REAL NOT NULL, ended_at REAL, ok INTEGER, evidence TEXT NOT NULL DEFAULT '{}',
    sentence TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX IF NOT EXISTS steps_of_episode ON step (episode);
"""
EVENT_SCHEMA = """
CREATE TABLE IF NOT EXISTS event (
    id TEXT PRIMARY KEY,
    taken_at REAL NOT NULL,
    answer TEXT, final INTEGER NOT NULL DEFAULT 0, told_at REAL, handled INTEGER NOT NULL DEFAULT 0
) STRICT;
"""
#: Called hold, since journals of older versions have that.
QUARANTINE_SCHEMA = """
CREATE TABLE IF NOT EXISTS hold (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    service TEXT NOT NULL, epoch INTEGER NOT NULL, uuid TEXT NOT NULL,
    found_at REAL NOT NULL, held_at REAL, released_at REAL, released TEXT,
    host TEXT NOT NULL DEFAULT ''
) STRICT;
"""
#: A primary may come back on two hypervisors, after a migration that broke in the middle.
QUARANTINE_INDEX = (
    "CREATE UNIQUE INDEX IF NOT EXISTS one_open_hold_there ON hold (service, host) WHERE released_at IS NULL"
)
STANDBY_END_SCHEMA = """
CREATE TABLE IF NOT EXISTS standby_end (
    service TEXT PRIMARY KEY, epoch INTEGER NOT NULL, at REAL NOT NULL,
    asked_by TEXT NOT NULL DEFAULT '', given_up TEXT NOT NULL DEFAULT '', started_at REAL
) STRICT;
"""
DRAINED_SCHEMA = """
CREATE TABLE IF NOT EXISTS drained (
    secondary TEXT PRIMARY KEY, since REAL NOT NULL, asked_by TEXT NOT NULL
) STRICT;
"""
#: When a secondary on demand was on; `off_at` is NULL while it is. `asked_off_at`: a controller asked it to shut down.
POWERED_SCHEMA = """
CREATE TABLE IF NOT EXISTS powered (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    secondary TEXT NOT NULL, on_at REAL NOT NULL, off_at REAL, why TEXT NOT NULL DEFAULT '', asked_off_at REAL
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS one_open_power ON powered (secondary) WHERE off_at IS NULL;
"""
#: Secondaries that are made for a while. A number is never used again.
LEASE_SCHEMA = """
CREATE TABLE IF NOT EXISTS lease (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    token TEXT NOT NULL UNIQUE, state TEXT NOT NULL, why TEXT NOT NULL, network TEXT NOT NULL,
    asked_at REAL NOT NULL, made_at REAL, joined_at REAL, releasing_at REAL, gone_at REAL,
    machine TEXT NOT NULL DEFAULT '', address TEXT NOT NULL DEFAULT '', port INTEGER NOT NULL DEFAULT 0,
    failure TEXT NOT NULL DEFAULT '', trouble TEXT NOT NULL DEFAULT '',
    tries INTEGER NOT NULL DEFAULT 0, not_before REAL NOT NULL DEFAULT 0,
    addresses TEXT NOT NULL DEFAULT '{}', options TEXT NOT NULL DEFAULT 'null'
) STRICT;
"""
#: A service has one outage at a time, whichever controllers see it.
OUTAGE_SCHEMA = """
CREATE TABLE IF NOT EXISTS outage (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    service TEXT NOT NULL, began_at REAL NOT NULL, ended_at REAL,
    why TEXT NOT NULL, times INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS one_open_outage ON outage (service) WHERE ended_at IS NULL;
CREATE INDEX IF NOT EXISTS outages_of_service ON outage (service);
"""
#: Not episodes: a rehearsal changes nothing of who serves.
DRILL_SCHEMA = """
CREATE TABLE IF NOT EXISTS drill (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    service TEXT NOT NULL, began_at REAL NOT NULL, asked_by TEXT NOT NULL,
    ended_at REAL, outcome TEXT, reason TEXT NOT NULL DEFAULT '', steps TEXT NOT NULL DEFAULT '[]'
) STRICT;
CREATE INDEX IF NOT EXISTS drills_of_service ON drill (service);
"""
#: `message`: the first of those that were told at once. A way is one URL of one destination, by its number.
NOTICE_SCHEMA = """
CREATE TABLE IF NOT EXISTS notice (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL, destination TEXT NOT NULL, url INTEGER NOT NULL,
    topic TEXT NOT NULL, service TEXT NOT NULL, at REAL NOT NULL, title TEXT NOT NULL, body TEXT NOT NULL,
    ended_at REAL, outcome TEXT, reason TEXT NOT NULL DEFAULT '', message INTEGER
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS told_once ON notice (key, destination, url);
CREATE INDEX IF NOT EXISTS notices_that_wait ON notice (destination, url) WHERE ended_at IS NULL;
CREATE TABLE IF NOT EXISTS notice_way (
    destination TEXT NOT NULL, url INTEGER NOT NULL, since REAL NOT NULL,
    failures INTEGER NOT NULL DEFAULT 0, failing_since REAL, not_before REAL NOT NULL DEFAULT 0,
    reason TEXT NOT NULL DEFAULT '', claimed_by TEXT, claimed_until REAL,
    PRIMARY KEY (destination, url)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS trouble (
    service TEXT NOT NULL, topic TEXT NOT NULL, since REAL NOT NULL,
    urgent INTEGER NOT NULL DEFAULT 0, gone_since REAL,
    PRIMARY KEY (service, topic)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS watched (id INTEGER PRIMARY KEY, at REAL NOT NULL) STRICT;
"""
