"""Copies of one object of a Samba database, very many and quickly.

Run: ``/usr/bin/python3 samba_copies.py CONFIG DATABASE DN``. Standard input is JSON: a list of
``{"cn": ..., "guid": hex, "attributes": {name: text}}``. Adding an object through Samba takes some milliseconds, and
every index that names all of them makes the next one slower. So they are written below Samba's modules as copies of an
object that came through them, in one transaction that puts the indices aside and builds them anew at its end. A Samba
that runs sees nothing until then. Needs Samba's modules and nothing of ours.
"""

import json
import sys
from pathlib import Path

import ldb
from samba.param import LoadParm
from samba.samdb import SamDB

_INDICES = ("@IDXATTR", "@IDXONE")
_OWN = ("dn", "distinguishedName", "cn", "name", "objectGUID")


def _element(name: str, *values: bytes) -> ldb.MessageElement:
    return ldb.MessageElement(list(values), ldb.FLAG_MOD_REPLACE, name)


def main(config: str, database: str, pattern_dn: str) -> None:
    partitions = Path(database).parent / f"{Path(database).name}.d"
    (path,) = partitions.glob("DC=*.ldb")
    samba = SamDB(database, lp=LoadParm(filename_for_non_global_lp=config))
    domain = SamDB(lp=samba.lp, auto_connect=False, global_schema=False)
    domain.connect(str(path), ldb.FLG_NOSYNC)
    (pattern,) = domain.search(pattern_dn, ldb.SCOPE_BASE)
    (kept,) = domain.search("@INDEXLIST", ldb.SCOPE_BASE)
    parent = pattern.dn.parent()
    domain.transaction_start()
    without = ldb.Message(kept.dn)
    for name in _INDICES:
        without[name] = _element(name)
    domain.modify(without)
    for copy in json.load(sys.stdin):
        made = ldb.Message(ldb.Dn(domain, f"CN={copy['cn']},{parent}"))
        for name in pattern.keys():  # noqa: SIM118 - it is no mapping
            if name not in _OWN:
                made[name] = pattern[name]
        own = {"cn": copy["cn"], "name": copy["cn"], **copy["attributes"]}
        for name, text in own.items():
            made[name] = _element(name, text.encode())
        made["objectGUID"] = _element("objectGUID", bytes.fromhex(copy["guid"]))
        domain.add(made)
    # Indices are built by the matching rules of the schema, which a database learns from Samba's modules. From then
    # on it would keep them whatever its list of them says.
    domain.set_schema_from_ldb(samba, write_indices_and_attributes=False)
    again = ldb.Message(kept.dn)
    for name in _INDICES:
        again[name] = _element(name, *map(bytes, kept[name]))
    domain.modify(again)
    domain.transaction_commit()


if __name__ == "__main__":
    main(*sys.argv[1:])
