# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 20
# own processes
"""Security: obstacles that other users may place in the way of our files."""
import os
import pathlib
import subprocess
import sys
import tempfile

import pytest
from helpers.daemon import NOBODY
from helpers.run import CUDATRACE, TESTS, Ran, cudatrace, needs_tracing, until

TRUE = ["-q", "-e", "init", "--jsonl"]


@pytest.fixture
def folder():
    """A folder like /tmp, where every user may create files."""
    needs_tracing()
    with tempfile.TemporaryDirectory(prefix="cudatrace-sec-", dir="/tmp") as path:
        os.chmod(path, 0o1777)
        (pathlib.Path(path) / "victim").write_text("precious\n")
        yield pathlib.Path(path)


def as_nobody(*args):
    subprocess.run([*NOBODY, *map(str, args)], check=True)


def written(out, **how):
    return cudatrace(*TRUE, out, "--", "true", **how)


def has_header(path):
    return '"type":"header"' in pathlib.Path(path).read_text(encoding="utf-8").split("\n")[0]


LINK = "symbolic link in its path belongs to another user"
# How it is made, by nobody or by us; the path, and the error.
REFUSED = {
    "a link of another user": (["ln", "-s", "{dir}/victim", "{dir}/link"], True, "link", LINK),
    "a folder behind a link of another user": (["ln", "-s", "{dir}", "{dir}/folder"], True, "folder/victim", LINK),
    "a magic link of another user": (["ln", "-s", "/proc/self/cwd", "{dir}/magic"], True, "magic/x", LINK),
    "a file of another user": (["sh", "-c", "echo theirs >'{dir}/theirs'"], True, "theirs", "belongs to another user"),
    # It has no reader: opening it would wait forever.
    "a FIFO of another user": (["mkfifo", "{dir}/fifo"], True, "fifo", "belongs to another user"),
    # Like a link by another user where fs.protected_hardlinks is 0.
    "a hard link": (["ln", "{dir}/victim", "{dir}/hard"], False, "hard", "it has other names (hard links)"),
    "links in a circle": (["sh", "-c", "ln -s two '{dir}/one'; ln -s one '{dir}/two'"], False, "one", "Too many levels of symbolic links"),
    "a folder": (["true"], False, "", "Is a directory: name a file in it"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(folder, name):
    """With the reason; what it is or leads to must stay as it was."""
    make, theirs, path, says = REFUSED[name]
    make = [x.format(dir=folder) for x in make]
    as_nobody(*make) if theirs else subprocess.run(make, check=True)
    ran = written(f"{folder}/{path}", timeout=20)
    assert ran.status == 1 and says in ran.err, ran
    assert (folder / "victim").read_text() == "precious\n"
    assert path != "theirs" or (folder / path).read_text() == "theirs\n"


def test_ours(folder):
    """A link of ours is followed, also with dots; new files have mode 0600; an existing file is emptied and written."""
    os.symlink(folder / "own", folder / "ours")
    os.symlink(f"../../../../../../../{folder}/own2", folder / "dots")
    for path, target in ("ours", "own"), ("own", "own"), ("dots", "own2"):
        if (folder / target).exists():
            (folder / target).write_text("old\n" * 100000)
        assert written(folder / path).status == 0 and has_header(folder / target)
        assert "old" not in (folder / target).read_text()
    assert (folder / "own2").stat().st_mode & 0o777 == 0o600


def test_lease(folder):
    """A file with a lease on it: the holder is notified, and waited for."""
    (folder / "own").touch()
    with subprocess.Popen([sys.executable, TESTS + "/helpers/lease.py", folder / "own"], stdout=subprocess.PIPE, text=True) as p:
        assert p.stdout.readline() == "held\n"
        assert written(folder / "own").status == 0 and p.wait(60) == 0


def test_pipes(folder):
    """FIFOs of ours, /dev/null, /dev/stdout and process substitution are written to."""
    os.mkfifo(folder / "own-fifo")
    with subprocess.Popen(["cat", folder / "own-fifo"], stdout=subprocess.PIPE, text=True) as p:
        assert written(folder / "own-fifo").status == 0 and '"type":"header"' in p.communicate(timeout=60)[0]
    assert written("/dev/null").status == 0
    assert '"type":"header"' in written("/dev/stdout").out.split("\n")[0]
    subprocess.run(["bash", "-c", '"$@" --jsonl >(cat >"$0") -- true', folder / "piped", CUDATRACE, "-q", "-e", "init"], check=True)
    until(lambda: (folder / "piped").exists() and (folder / "piped").stat().st_size)
    assert has_header(folder / "piped")


def test_swapped(folder):
    """A path that is swapped for a link while it is opened: the victim must keep its content."""
    swap = 'for _ in $(seq 20000); do ln -sfn "$0/victim" "$0/swap"; rm -f "$0/swap"; done'
    with subprocess.Popen([*NOBODY, "sh", "-c", swap, folder], stderr=subprocess.DEVNULL) as swapper:
        statuses = []
        # Repeated until both cases occurred: the link, and no file.
        while len(statuses) < 12 or len(set(statuses)) < 2 and len(statuses) < 60:
            statuses.append(written(folder / "swap").status)
            Ran(["rm", "-f", folder / "swap"])
        swapper.kill()
    print(sum(statuses), "of", len(statuses), "times it was the link")
    assert set(statuses) == {0, 1} and (folder / "victim").read_text() == "precious\n"


def test_sudo(folder):
    """sudo writes no file where its caller may not write."""
    (folder / "root-only").mkdir(mode=0o700)
    ran = written(folder / "root-only/x", env={"SUDO_UID": "65534", "SUDO_GID": "65534"})
    assert ran.status == 1 and os.listdir(folder / "root-only") == []


def test_traces_of_another_user(folder):
    """The default folder traces/ is refused if it belongs to another user."""
    as_nobody("mkdir", folder / "traces")
    ran = cudatrace("-e", "init", "--", "true", cwd=folder)
    assert "traces: it belongs to another user" in ran.err
