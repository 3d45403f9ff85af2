# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# long
# takes: 150
# timeout: 1500
# cpus: 2
"""`make deb`: lintian must report nothing, the contents of the package must work, and a rebuilt package must be identical."""
import glob
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from helpers.run import MAKE_O, Ran, files_below


def make_deb(copy):
    """The package, made from this copy of the tree."""
    ran = Ran(["make", "-C", copy, "O=build", "deb"], env={"DEBEMAIL": "cudatrace@debian.org"}, timeout=700)
    assert ran.status == 0, ran
    (deb,) = glob.glob(f"{copy}/build/deb/cudatrace_*.deb")
    return deb


@pytest.fixture(scope="module")
def copy():
    for tool in ("dpkg-buildpackage", "dh", "lintian"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")
    path = pathlib.Path(os.environ["TMP"], "copy")
    path.mkdir()
    subprocess.run(["sh", "-c", 'git ls-files -z | tar --null -cT- | tar -xC "$0"', path], check=True)
    subprocess.run(["sh", "-c", "git init -q && git add -A"], cwd=path, check=True)
    return path


@pytest.fixture(scope="module")
def first(copy):
    """The package, and its content in a folder."""
    deb = shutil.copy(make_deb(copy), copy.parent / "first.deb")
    subprocess.run(["dpkg-deb", "-x", deb, copy.parent / "root"], check=True)
    return deb


def test_lintian(copy, first):
    ran = Ran(["lintian", "--fail-on", "error,warning", *glob.glob(f"{copy}/build/deb/*.changes")], timeout=300)
    assert ran.status == 0, ran.out


def test_content(copy, first):
    """The program must run, and lie with the rest where `make install PREFIX=/usr` puts it, except for what differs in this release."""
    top = copy.parent
    version = re.search("^VERSION := (.*)$", (copy / "Makefile").read_text(), re.M)[1]
    assert Ran([top / "root/usr/bin/cudatrace", "--version"]).out.split("\n")[0] == f"cudatrace {version}"
    Ran(["make", "-s", f"O={MAKE_O}", "PREFIX=/usr", f"DESTDIR={top}/installed", "install"], timeout=300)
    packed = {re.sub(r"\.gz$", "", re.sub("^lib/", "usr/lib/", f)) for f in files_below(top / "root")}
    packed = {f.replace("vendor-completions", "site-functions") for f in packed}
    installed = files_below(top / "installed")
    assert len(installed) > 20 and installed - packed == set()
    assert packed - installed == {f"usr/share/{f}" for f in ("doc/cudatrace/changelog", "doc/cudatrace/copyright",
                                                             "lintian/overrides/cudatrace")}


def test_dpkg(tmp_path, first):
    """The package manager must install it into a private system, and remove it: nothing is installed on this one."""
    if os.geteuid():
        pytest.skip("needs root")
    for folder in ("info", "updates"):
        (tmp_path / "var/lib/dpkg" / folder).mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/status").touch()
    dpkg = ["dpkg", f"--root={tmp_path}", "--force-script-chrootless", "--no-triggers"]
    ran = Ran([*dpkg, "--force-depends", "-i", first])
    assert ran.status == 0, ran
    assert Ran(["dpkg-query", f"--admindir={tmp_path}/var/lib/dpkg", "-W", "-f", "${Status}", "cudatrace"]).out == "install ok installed"
    assert os.access(tmp_path / "usr/bin/cudatrace", os.X_OK)
    ran = Ran([*dpkg, "-P", "cudatrace"])
    assert ran.status == 0 and not files_below(tmp_path / "usr"), ran


def test_made_again(copy, first):
    """The same bytes."""
    with open(make_deb(copy), "rb") as again, open(first, "rb") as f:
        assert again.read() == f.read()
