"""Check the folder of a local store. Pure: ``gcp_adk_store.doctor.folder_examination`` looks."""

import re
import shlex
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from statistics import median
from typing import Final, NamedTuple

from gcp_adk_store.doctor.findings import Finding, MemoryCounts, Probe, fail, ok, skipped, warn
from gcp_adk_store.doctor.measures import took, vectors, written

_MIB: Final = 1024 * 1024
_LITTLE_BYTES: Final = 1024 * _MIB
_TOO_LITTLE_BYTES: Final = 128 * _MIB
"""SQLite's log grows to 64 MiB, and a large artifact exists beside it before it is recorded."""
_SLOW_MS: Final = 20.0

_REMOTE: Final = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "davfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs"}
    | {"nfs4", "ocfs2", "prl_fs", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs"}
)
"""File systems that other machines, or the host of a virtual machine, share."""
_LOCAL_FUSE: Final = frozenset({"fuse.fuse-overlayfs", "fuse.ntfs-3g", "fuse.mergerfs"})
_OCTAL: Final = re.compile(r"\\([0-7]{3})")


class Mount(NamedTuple):
    """A line of the mount table."""

    point: str
    """Folder at which the file system begins."""
    kind: str
    """Type of the file system, such as ``ext4``."""

    @property
    def is_remote(self) -> bool:
        """Whether several machines share the file system, as far as its type says."""
        return self.kind in _REMOTE or (self.kind.startswith("fuse.") and self.kind not in _LOCAL_FUSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderFacts:
    """All known facts of a local store."""

    folder: str
    """Its absolute path, without links."""
    database: str
    """The path of its SQLite file."""
    mode: int
    """Permission bits of the folder."""
    unwritable: Sequence[str] = ()
    """What of the folder, its files and the folder of objects this user may not write."""
    refusal: str = ""
    """Why the file is not a store of this format, or cannot be read."""
    journal_mode: str = ""
    """SQLite's name of it."""
    damage: Sequence[str] | None = None
    """The first findings of SQLite's integrity check; ``None`` if it did not end in time."""
    free_bytes: int = 0
    total_bytes: int = 0
    """Of the file system."""
    mount: Mount | None = None
    """``None`` on a system without ``/proc``."""
    documents: Probe | None = None
    objects: Probe | None = None
    prefix: str = "adk"
    """Of the store that was looked at."""
    memories: MemoryCounts | None = None


def mount_of(folder: str, table: str) -> Mount | None:
    """Return the mount that *folder* lies in.

    Args:
        folder: An absolute path without links.
        table: The lines of ``/proc/self/mountinfo``.
    """
    found: Mount | None = None
    for line in table.splitlines():
        before, separator, after = line.partition(" - ")
        words, kinds = before.split(" "), after.split(" ")
        if not separator or len(words) < len(("id", "parent", "device", "root", "point")):
            continue
        point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), words[4])
        # Of two mounts at one point, the later one hides the earlier.
        if PurePosixPath(folder).is_relative_to(point) and (found is None or len(point) >= len(found.point)):
            found = Mount(point, kinds[0])
    return found


def findings_of_folder(facts: FolderFacts) -> list[Finding]:
    """Return one finding for each check, in the order of the checks."""
    return [replace(check(facts), check=name) for name, check in _CHECKS.items()]


def _folder(facts: FolderFacts) -> Finding:
    quoted = shlex.quote(facts.folder)
    if facts.unwritable:
        return fail(
            f"this user may not write {', '.join(facts.unwritable)}: nothing can be stored",
            f'sudo chown -R "$(id -u)" {quoted} && chmod -R u+rwX {quoted}',
        )
    if facts.mode & (stat.S_IRWXG | stat.S_IRWXO):
        return warn(
            f"other users of this machine may enter {facts.folder} (mode {facts.mode:03o}), which holds "
            "conversations",
            f"chmod go-rwx {quoted}",
        )
    return ok(f"this user alone can read and write {facts.folder}")


def _store(facts: FolderFacts) -> Finding:
    return fail(facts.refusal) if facts.refusal else ok(f"{facts.database} is a store of this format")


def _integrity(facts: FolderFacts) -> Finding:
    if facts.refusal:
        return _UNREAD
    check = f"sqlite3 {shlex.quote(facts.database)} 'PRAGMA integrity_check'"
    if facts.damage is None:
        return skipped("SQLite's check did not end in time; run it without a limit", check)
    if facts.damage:
        return fail(
            f"SQLite finds damage: {facts.damage[0]}; end all processes that use the store, and restore the "
            "folder from a backup",
            check,
        )
    return ok("SQLite finds no damage in tables and indexes")


def _journal_mode(facts: FolderFacts) -> Finding:
    if facts.refusal:
        return _UNREAD
    if facts.journal_mode == "wal":
        return ok("WAL: readers and a writer do not wait for each other")
    return warn(
        f"{facts.journal_mode}, not WAL: readers and a writer wait for each other. Another program "
        "changed it",
        f"sqlite3 {shlex.quote(facts.database)} 'PRAGMA journal_mode = WAL'",
    )


def _written(probe: Probe | None, where: str) -> Finding:
    return _UNREAD if probe is None else written(probe, where)


def _free_space(facts: FolderFacts) -> Finding:
    free, total = facts.free_bytes / _MIB, facts.total_bytes / _MIB
    says = f"{free:,.0f} of {total:,.0f} MiB are free"
    if facts.free_bytes >= _LITTLE_BYTES:
        return ok(says)
    grave = fail if facts.free_bytes < _TOO_LITTLE_BYTES else warn
    return grave(
        f"{says}; a full disk refuses every write: remove other files, or move the folder while "
        "nothing uses it",
        f"df -h {shlex.quote(facts.folder)}",
    )


def _file_system(facts: FolderFacts) -> Finding:
    if facts.mount is None:
        return skipped("this system has no mount table; the folder must lie on a disk of this machine")
    if not facts.mount.is_remote:
        return ok(f"{facts.mount.kind} at {facts.mount.point}")
    return warn(
        f"{facts.mount.kind} at {facts.mount.point} is shared with other machines: its locks and its memory "
        "are not reliable, so writers may damage the store; move the folder to a disk of this machine while "
        "nothing uses it",
        f"df -T {shlex.quote(facts.folder)}",
    )


def _latency(probe: Probe | None, facts: FolderFacts) -> Finding:
    if probe is None or not probe.samples_ms:
        return skipped("nothing could be read")
    if median(probe.samples_ms) <= _SLOW_MS:
        return ok(took(probe.samples_ms))
    return warn(
        f"{took(probe.samples_ms)}: each turn waits for several; the disk is slow, or others use it: move "
        "the folder to another disk while nothing uses it",
        f"df -h {shlex.quote(facts.folder)}",
    )


def _vectors(facts: FolderFacts) -> Finding:
    at = shlex.join([f"--local={facts.folder}", f"--prefix={facts.prefix}"])
    return _UNREAD if facts.memories is None else vectors(facts.memories, at)


_UNREAD: Final = skipped("the store could not be opened")
_CHECKS: Final[Mapping[str, Callable[[FolderFacts], Finding]]] = {
    "folder": _folder,
    "store": _store,
    "integrity": _integrity,
    "journal mode": _journal_mode,
    "free space": _free_space,
    "file system": _file_system,
    "documents": lambda facts: _written(facts.documents, facts.database),
    "objects": lambda facts: _written(facts.objects, f"{facts.folder}/objects"),
    "latency of documents": lambda facts: _latency(facts.documents, facts),
    "latency of objects": lambda facts: _latency(facts.objects, facts),
    "vectors of memories": _vectors,
}
FOLDER_CHECKS: Final = tuple(_CHECKS)
"""The names of all checks of a local store, in the order of the report."""
