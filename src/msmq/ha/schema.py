"""The tables of the shared log, created and brought up to date by the first instance that may do so.

::

    version  one row: the version of the tables, and the name of the queue manager
    term     one row: the epoch of the leader. Inserting rows locks it for sharing, so nobody raises it under an insert
    lease    one row: who leads, until when by the clock of the primary, the last row known to be safe, who follows
    history  a row for each epoch: the row of the log it began with
    log      the parent of one table for each segment, log_1 and so on; log_0 is the FORMAT file

Each segment has its own table, because dropping a table gives its space back at once: deleted rows would wait for a
vacuum that does not keep up with a busy queue manager. The tables inherit from ``log`` instead of being its
partitions, since dropping a partition waits for everybody who reads any of them.
"""

from __future__ import annotations

from typing import Final

VERSION: Final = 1

_FIRST: Final = """
CREATE TABLE {schema}.version (version integer NOT NULL, manager text NOT NULL);
CREATE TABLE {schema}.term (epoch bigint NOT NULL);
CREATE TABLE {schema}.lease (
    epoch bigint NOT NULL,
    holder text NOT NULL,
    until timestamptz NOT NULL,
    acknowledged bigint NOT NULL,
    confirmed bigint NOT NULL,
    handover text NOT NULL
);
CREATE TABLE {schema}.history (
    epoch bigint PRIMARY KEY,
    started bigint NOT NULL,
    holder text NOT NULL,
    at timestamptz NOT NULL
);
CREATE TABLE {schema}.log (
    number bigint PRIMARY KEY,
    epoch bigint NOT NULL,
    segment bigint NOT NULL,
    place bigint NOT NULL,
    bytes bytea
);
INSERT INTO {schema}.version VALUES (1, '');
INSERT INTO {schema}.term VALUES (0);
INSERT INTO {schema}.lease VALUES (0, '', clock_timestamp(), 0, 0, '');
"""

MIGRATIONS: Final = {1: _FIRST}
"""The statements that create each version from the one before."""

# Not to_regclass, which may remember that the table did not exist before another instance created it.
FIND: Final = """
SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = 'version'
"""
FIND_SCHEMA: Final = "SELECT count(*) FROM pg_namespace WHERE nspname = $1"
READ_VERSION: Final = "SELECT version FROM {schema}.version"
SET_VERSION: Final = "UPDATE {schema}.version SET version = {version}"
NAME_MANAGER: Final = "UPDATE {schema}.version SET manager = $1 WHERE manager = ''"
READ_MANAGER: Final = "SELECT manager FROM {schema}.version"
ONE_AT_A_TIME: Final = "SELECT pg_advisory_xact_lock(hashtext('msmq.ha ' || $1))"

CREATE_SEGMENT: Final = (
    "CREATE TABLE {schema}.log_{segment} (PRIMARY KEY (number), CHECK (segment = {segment})) INHERITS ({schema}.log)",
    "ALTER TABLE {schema}.log_{segment} ALTER COLUMN bytes SET STORAGE EXTERNAL",
)
DROP_SEGMENT: Final = "DROP TABLE IF EXISTS {schema}.log_{segment}"
SEGMENTS: Final = """
SELECT substr(c.relname, 5)::bigint FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = '{schema}.log'::regclass
"""

# A row is inserted only in the current epoch, and behind the row inserted before it on the same connection.
INSERT: Final = """
INSERT INTO {schema}.log_{segment} (number, epoch, segment, place, bytes)
SELECT $2::bigint, epoch, {segment}, $3::bigint, $4::bytea FROM {schema}.term
WHERE epoch = $1::bigint AND current_setting('msmq.end') = $5::text FOR SHARE
RETURNING set_config('msmq.end', number::text, false)
"""
# Checks the same conditions for a transaction that begins with creating tables: it fails unless they hold.
HOLD_TERM: Final = """
SELECT 1 / (SELECT count(*) FROM (
    SELECT 1 FROM {schema}.term WHERE epoch = $1::bigint AND current_setting('msmq.end') = $2::text FOR SHARE
) held)
"""
STILL_LEADS: Final = "SELECT 1 FROM {schema}.term WHERE epoch = $1 FOR SHARE"

RENEW: Final = """
UPDATE {schema}.lease SET until = clock_timestamp() + $2 * interval '1 ms', acknowledged = $3, confirmed = $1
WHERE epoch = $1 RETURNING handover
"""
# Sets epoch 0, so that a renewal under way does not take the lease back.
RELEASE: Final = """
UPDATE {schema}.lease SET epoch = 0, until = clock_timestamp(), acknowledged = $2, confirmed = $1 WHERE epoch = $1
"""
VIEW: Final = """
SELECT t.epoch, l.holder, l.acknowledged, l.confirmed, l.handover, l.until,
    (extract(epoch FROM l.until - clock_timestamp()) * 1000)::bigint AS left_ms,
    greatest((SELECT max(number) FROM {schema}.log), (SELECT max(started) - 1 FROM {schema}.history), l.acknowledged)
        AS log_end
FROM {schema}.term t, {schema}.lease l
"""
HISTORY: Final = "SELECT epoch, started FROM {schema}.history WHERE epoch > $1 ORDER BY epoch"
ROWS: Final = """
SELECT number, segment, place, bytes FROM {schema}.log WHERE number > $1 ORDER BY number LIMIT $2
"""
SEGMENT_ROWS: Final = """
SELECT number, place, bytes FROM {schema}.log_{segment} WHERE number > $1 AND number <= $2 ORDER BY number LIMIT $3
"""

LOCK_LEASE: Final = "SELECT 1 FROM {schema}.lease FOR UPDATE"
RAISE: Final = "UPDATE {schema}.term SET epoch = epoch + 1 RETURNING epoch"
TAKE: Final = """
UPDATE {schema}.lease SET epoch = $1, holder = $2, until = clock_timestamp() + $3 * interval '1 ms', handover = ''
"""
BEGIN_EPOCH: Final = "INSERT INTO {schema}.history VALUES ($1, $2, $3, clock_timestamp())"
ASK_TO_HAND_OVER: Final = (
    "UPDATE {schema}.lease SET handover = $1 WHERE until > clock_timestamp() RETURNING holder"
)
VACATE: Final = "UPDATE {schema}.lease SET epoch = $1, holder = '', until = clock_timestamp(), handover = ''"
SETTINGS: Final = """
SELECT pg_is_in_recovery() AS standby, current_setting('transaction_read_only') = 'on' AS read_only,
    current_setting('synchronous_standby_names') AS synchronous, current_setting('fsync') AS fsync,
    current_setting('server_version_num')::int AS version,
    CASE WHEN pg_is_in_recovery() THEN '' ELSE substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END AS timeline
"""
