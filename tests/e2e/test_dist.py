# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# long
# timeout: 2400
# takes: 300
# cpus: 2
"""`make dist`: the contents of the archives must work by themselves, and archives built again elsewhere must be identical."""
import os
import pathlib
import platform
import re
import shutil
import subprocess

import pytest
from helpers.run import MAKE_O, O, TESTS, Ran, files_below

VERSION = re.search("^VERSION := (.*)$", pathlib.Path(TESTS, "../Makefile").read_text(encoding="utf-8"), re.M)[1]
HERE = platform.machine().replace("aarch64", "arm64")
ROOT = O + "/dist-root-arm64"
ARCHS = ["arm64"] if HERE == "arm64" else ["x86_64", "arm64"]
MACHINES = {"arm64": "AArch64", "x86_64": "Advanced Micro Devices X86-64"}


def why_no_cross():
    """Why the archive for arm64 cannot be built here."""
    if not shutil.which("aarch64-linux-gnu-g++"):
        return "aarch64-linux-gnu-g++ is not installed"
    ran = Ran(["tools/cross-root.sh", ROOT], timeout=300)
    return ran.status and "its libraries are not to be had: " + (ran.out + ran.err).strip().split("\n")[-1]


def make_dist(folder, archs):
    """The folder of the archives, built from a copy of the tree there, without git, like a release's archive."""
    folder.mkdir(parents=True)
    listed = "git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -cf- -T- | tar -xC"
    subprocess.run(["sh", "-c", f'{listed} "$0"', folder], check=True, stderr=subprocess.DEVNULL)
    ran = Ran(["make", "-C", folder, "O=build", f"DIST_ARCHS={archs}", f"CROSS_ROOT={ROOT}", "dist"], env={"GIT_DIR": "/nowhere"},
              timeout=1200)
    assert ran.status == 0, (re.findall(".*error.*", ran.out + ran.err, re.I)[:3], ran)
    assert Ran(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=folder / "build/dist").status == 0
    return folder / "build/dist"


@pytest.fixture(scope="module")
def twice():
    """The archives, those that were made again elsewhere, and why there are none for arm64."""
    why = HERE != "arm64" and why_no_cross()
    archs, top = HERE if why else " ".join(ARCHS), pathlib.Path(os.environ["TMP"])
    one = make_dist(top / "one", archs)
    os.environ["TZ"], mask = "Asia/Kathmandu", os.umask(0o077)
    another = make_dist(top / "another/place", archs)
    del os.environ["TZ"]
    os.umask(mask)
    return one, another, why


@pytest.mark.parametrize("arch", ARCHS)
def test_archive(tmp_path, twice, arch):
    one, another, why = twice
    if arch != HERE and why:
        pytest.skip(why)
    name = f"cudatrace-{VERSION}-linux-{arch}"
    archive, top = one / f"{name}.tar.gz", tmp_path / name
    assert archive.read_bytes() == (another / f"{name}.tar.gz").read_bytes()
    # One folder, owned by nobody in particular, of the time of the release.
    dated = re.search("^ -- .*>  (.*)$", pathlib.Path("debian/changelog").read_text(encoding="utf-8"), re.M)[1]
    dated = subprocess.check_output(["date", "-u", "-d", dated, "+%F"], text=True).strip()
    listed = [line.split(maxsplit=5) for line in Ran(["tar", "--utc", "-tvf", archive]).out.splitlines()]
    assert {(f[1], f[3], f[5].split("/")[0]) for f in listed} == {("0/0", dated, name)}

    shutil.unpack_archive(archive, tmp_path)
    for path in ("bin/cudatrace", "lib/cudatrace/libcudatrace-inject.so"):
        assert re.search(r"Machine:\s*(.*)", Ran(["readelf", "-hW", top / path]).out)[1] == MACHINES[arch]
    assert "INTERP" not in Ran(["readelf", "-lW", top / "bin/cudatrace"]).out
    # It has what make install installs, and the unit starts what lies in /usr/local.
    Ran(["make", "-s", f"O={MAKE_O}", "PREFIX=/p", f"DESTDIR={tmp_path}/installed", "install"], timeout=300)
    assert files_below(tmp_path / "installed/p") == files_below(top)
    assert re.search("^ExecStart=/usr/local/bin/cudatrace", (top / "lib/systemd/system/cudatrace.service").read_text(), re.M)

    runs = [] if arch == HERE else ["qemu-aarch64"]
    if runs and not shutil.which(runs[0]):
        pytest.skip("all but running it: qemu-aarch64 is not installed")
    assert Ran([*runs, top / "bin/cudatrace", "--version"]).out.split("\n")[0] == f"cudatrace {VERSION}"
    assert "20 iterations" in Ran([*runs, top / "bin/cudatrace", "report", "tests/golden/h200-gpt2-tokens.jsonl"]).out
    assert Ran([*runs, top / "bin/cudatrace", "--man"]).out == (top / "share/man/man1/cudatrace.1").read_text()
