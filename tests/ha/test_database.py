"""Connections: to the primary, with clear words when there is none."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from msmq.ha.database import Database, nodes_of, without_password
from msmq.ha.errors import DatabaseError, HaError, NewerSchemaError, NotLeaderError
from msmq.ha.log import Row
from msmq.store import StoreFullError
from tests.api.authority import Authority
from tests.ha.postgres import DATABASE, HOST, PASSWORD, Server, give_away, new_server
from tests.ha.support import PATIENT_S, append, members


def prepare(
    address: str, schema: str = "wrong", *, manager: str = "ORDERS", connect_s: float = PATIENT_S
) -> None:
    asyncio.run(Database(address, schema, connect_s).prepare(manager))


def test_addresses_name_several_nodes_and_show_no_password() -> None:
    address = "postgresql://me:secret@one,two:5433/queues?sslmode=verify-full"
    assert nodes_of(address) == [
        "postgresql://me:secret@one/queues?sslmode=verify-full",
        "postgresql://me:secret@two:5433/queues?sslmode=verify-full",
    ]
    assert without_password(address) == "postgresql://me@one,two:5433/queues"
    assert nodes_of("postgresql:///queues?host=/run/postgresql") == [
        "postgresql:///queues?host=/run/postgresql"
    ]


def test_a_wrong_password_is_said(server: Server) -> None:
    with pytest.raises(DatabaseError, match="does not let us in") as caught:
        prepare(server.address(password="not this one"))
    assert "not this one" not in str(caught.value)


def test_a_database_that_is_not_there_is_said(server: Server) -> None:
    with pytest.raises(DatabaseError, match="there is no such database"):
        prepare(server.address().replace(f"/{DATABASE}", "/other"))


def test_missing_rights_are_said(server: Server) -> None:
    server.sql("DROP ROLE IF EXISTS guest", "CREATE ROLE guest LOGIN PASSWORD 'x'")
    with pytest.raises(DatabaseError, match="has not the rights it needs"):
        prepare(server.address("guest", "x"))


def test_least_rights_are_a_schema_of_ones_own(server: Server) -> None:
    server.sql("DROP ROLE IF EXISTS least", "CREATE ROLE least LOGIN PASSWORD 'x'")
    server.sql(
        "DROP SCHEMA IF EXISTS least CASCADE", "CREATE SCHEMA least AUTHORIZATION least", database=DATABASE
    )
    prepare(server.address("least", "x"), "least")
    assert server.sql("SELECT version FROM least.version", database=DATABASE) == "1"


def test_a_newer_schema_is_refused(server: Server) -> None:
    server.sql("DROP SCHEMA IF EXISTS newer CASCADE", database=DATABASE)
    prepare(server.address(), "newer")
    prepare(server.address(), "newer")
    server.sql("UPDATE newer.version SET version = 99", database=DATABASE)
    with pytest.raises(NewerSchemaError, match="version 99"):
        prepare(server.address(), "newer")


def test_instances_of_another_name_are_refused(server: Server) -> None:
    """A computer's own name is the default, and would rename the queue manager at every take-over."""
    prepare(server.address(), "named")
    prepare(server.address(), "named", manager="orders")
    with pytest.raises(DatabaseError, match="--name ORDERS"):
        prepare(server.address(), "named", manager="NODE2")


def test_many_may_make_the_tables_at_once(server: Server) -> None:
    server.sql("DROP SCHEMA IF EXISTS crowd CASCADE", database=DATABASE)

    async def all_at_once() -> None:
        databases = [Database(server.address(), "crowd", PATIENT_S) for _ in range(5)]
        await asyncio.gather(*(database.prepare("ORDERS") for database in databases))

    asyncio.run(all_at_once())
    assert server.sql("SELECT count(*) FROM crowd.lease", database=DATABASE) == "1"


def test_nobody_there_is_a_matter_of_waiting(server: Server) -> None:
    with pytest.raises(HaError, match="no primary that answers") as caught:
        prepare(f"postgresql://msmq:x@{HOST}:1,{HOST}:2/{DATABASE}")
    assert not isinstance(caught.value, DatabaseError)


def test_a_server_without_fsync_is_refused() -> None:
    with new_server(fsync="off") as server, pytest.raises(DatabaseError, match="fsync"):
        prepare(server.address())


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    """A server that speaks TLS only, and the authority of its certificate."""
    authority = Authority(tmp_path_factory.mktemp("authority"))
    with new_server() as server:
        for name, file in zip(("ssl_cert_file", "ssl_key_file"), authority.issue("localhost"), strict=True):
            own = server.data / file.name
            shutil.copy(file, own)
            own.chmod(0o600)
            give_away(own)
            server.configure(**{name: str(own)})
        server.configure(ssl="on")
        rules = (server.data / "pg_hba.conf").read_text()
        (server.data / "pg_hba.conf").write_text(rules.replace("host all all", "hostssl all all"))
        server.stop()
        server.start()
        yield server, authority.file


def by_tls(server: Server, host: str, **parameters: object) -> str:
    query = "&".join(f"{name}={value}" for name, value in parameters.items())
    return f"{server.address().replace(HOST, host)}?{query}"


def test_tls_with_a_certificate_that_was_checked(sealed: tuple[Server, Path], tmp_path: Path) -> None:
    server, authority = sealed
    address = by_tls(server, "localhost", sslmode="verify-full", sslrootcert=authority)
    with members(address, tmp_path, "a") as (a,):
        a.lead()
        assert a.leadership is not None
        append(a.leadership, [Row(1, 0, b"one")])
        asked = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) "
        asked += "WHERE ssl AND application_name = 'msmq'"
        assert int(server.sql(asked)) >= 2


def test_a_certificate_of_another_name_or_authority_is_refused(
    sealed: tuple[Server, Path], tmp_path: Path
) -> None:
    server, authority = sealed
    with pytest.raises(DatabaseError, match="not to be trusted"):
        prepare(by_tls(server, HOST, sslmode="verify-full", sslrootcert=authority))
    stranger = Authority(tmp_path / "stranger")
    with pytest.raises(DatabaseError, match="not to be trusted"):
        prepare(by_tls(server, "localhost", sslmode="verify-full", sslrootcert=stranger.file))


def test_a_server_that_speaks_only_tls_says_so(sealed: tuple[Server, Path]) -> None:
    server, _ = sealed
    with pytest.raises(DatabaseError, match="does not let us in"):
        prepare(by_tls(server, "localhost", sslmode="disable"))


def test_tls_where_there_is_none(server: Server) -> None:
    with pytest.raises(HaError, match="rejected SSL upgrade"):
        prepare(by_tls(server, "localhost", sslmode="require"))


def test_a_silent_node_does_not_hold_up_the_others(server: Server) -> None:
    with new_server() as silent:
        silent.freeze()
        node = server.address().rpartition("@")[2].partition("/")[0]
        both = silent.address().replace(f"/{DATABASE}", f",{node}/{DATABASE}")
        prepare(both, "beside_silent", connect_s=5)
    assert server.sql("SELECT count(*) FROM beside_silent.lease", database=DATABASE) == "1"


def test_a_read_only_database_ends_the_lead(tmp_path: Path) -> None:
    with new_server() as server, members(server, tmp_path, "a") as (a,):
        a.lead()
        assert a.leadership is not None
        append(a.leadership, [Row(1, 0, b"one")])
        # As after a demotion: the session is the same, and writes are refused.
        writing = a.leadership._writer._connection
        writing.send_query_params(b"SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", None)
        append(a.leadership, [])
        with pytest.raises(NotLeaderError, match="takes no writes"):
            append(a.leadership, [Row(1, 3, b"two")])


def test_a_full_database_is_waited_for(server: Server, tmp_path: Path) -> None:
    """Nothing is lost, and the same rows go when there is room."""
    with members(server, tmp_path, "a") as (a,):
        a.lead()
        assert a.leadership is not None
        append(a.leadership, [Row(1, 0, b"one")])
        schema = a.settings.schema
        server.sql(
            f"CREATE FUNCTION {schema}.no_room() RETURNS trigger LANGUAGE plpgsql AS "
            "$$BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END$$",
            f"CREATE TRIGGER no_room BEFORE INSERT ON {schema}.log_1 FOR EACH ROW EXECUTE FUNCTION {schema}.no_room()",
            database=DATABASE,
        )
        for _ in range(2):
            with pytest.raises(StoreFullError, match="has no room"):
                append(a.leadership, [Row(2, 0, b"new"), Row(1, 3, b"two")])
        assert a.leadership.is_valid
        server.sql(f"DROP TRIGGER no_room ON {schema}.log_1", database=DATABASE)
        append(a.leadership, [Row(2, 0, b"new"), Row(1, 3, b"two")])
        assert a.leadership.end == 3


@pytest.mark.parametrize("password", [PASSWORD])
def test_the_password_comes_from_the_environment(
    server: Server, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", password)
    prepare(f"postgresql://msmq@{HOST}:{server.port}/{DATABASE}", "by_environment")
    assert server.sql("SELECT count(*) FROM by_environment.term", database=DATABASE) == "1"
