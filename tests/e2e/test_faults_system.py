# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The machine fails during a trace: a quota, a file system that breaks or must be remounted. The target must not notice, written data must
stay valid, and losses must be reported."""
import json
import shutil
import subprocess
import sys

import pytest
from helpers.outputs import chrome
from helpers.run import ALL, CUDATRACE, FAKE, TESTS, Ran, cudatrace, needs_tracing, until

ENV = {"LD_LIBRARY_PATH": FAKE}
SAMPLE = [FAKE + "/sample", "--tokens", "60", "--quiet"]


@pytest.fixture
def disk(tmp_path):
    """Mounts a file system in a file."""
    needs_tracing()
    mnt = tmp_path / "mnt"
    mnt.mkdir()

    def mounted(*mkfs):
        with open(tmp_path / "disk", "wb") as f:
            f.truncate(128 << 20)
        for command in ([*mkfs, tmp_path / "disk"], ["mount", "-o", "loop", tmp_path / "disk", mnt]):
            ran = shutil.which(command[0]) and Ran(command)
            if not ran or ran.status:
                pytest.skip(f"{command[0]}: {ran.err[-200:] if ran else 'not installed'}")
        return mnt
    yield mounted
    Ran(["umount", "-l", mnt])


def reported(status, err, why, path):
    """The failure is reported once, with the file; the program ran to its end, and the other output is whole."""
    assert status == 1 and err.count("\n") == 1 and f"a.jsonl: {why}" in err, (status, err)
    assert len(chrome(path)[0]) > 2000


def test_quota(tmp_path, disk):
    """At its quota btrfs neither shortens a file nor overwrites part of one: what is written is whole, except for the last line."""
    mnt = disk("mkfs.btrfs", "-q")
    if Ran(["btrfs", "quota", "enable", mnt]).status:
        pytest.skip("no quota of btrfs here")
    Ran(["btrfs", "-q", "subvolume", "create", mnt / "s"])
    Ran(["btrfs", "qgroup", "limit", "600K", mnt / "s"])
    ran = cudatrace("-q", "-e", ALL, "--jsonl", mnt / "s/a.jsonl", "--chrome", tmp_path / "c", "--", *SAMPLE, env=ENV)
    reported(ran.status, ran.err, "Disk quota exceeded", tmp_path / "c")
    events = [json.loads(line) for line in (mnt / "s/a.jsonl").read_text().splitlines()[:-1]]
    assert events[0]["type"] == "header" and sum("symbol" in e for e in events) > 100


def test_a_file_system_that_breaks(running, tmp_path, disk):
    """The kernel refuses a read-only remount while the file is written. When the file system fails, the program continues."""
    mnt = disk("mkfs.ext4", "-q", "-F")
    tracer = running.start(CUDATRACE, "-q", "-e", ALL, "--jsonl", mnt / "a.jsonl", "--chrome", tmp_path / "c", "--",
                           "sh", "-c", '"$@" && until [ -e "$0" ]; do sleep 0.02; done; "$@"', tmp_path / "go", *SAMPLE,
                           env=ENV, stderr=tmp_path / "err")
    until(lambda: (mnt / "a.jsonl").exists() and (mnt / "a.jsonl").stat().st_size > 100000)
    assert Ran(["mount", "-o", "remount,ro", mnt]).status
    broken = subprocess.run([sys.executable, TESTS + "/helpers/ext4_shutdown.py", mnt], check=False).returncode == 0
    (tmp_path / "go").touch()
    status = tracer.wait(60)
    if not broken:
        pytest.skip("ext4 cannot be shut down here")
    reported(status, (tmp_path / "err").read_text(), "Input/output error", tmp_path / "c")
