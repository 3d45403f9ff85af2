# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 20
# traces nothing
"""The C style (.clang-format), scripts that parse, licence tags."""
import os

import pytest
from helpers.run import Ran


def files(*patterns):
    """Those of the tree, also new ones."""
    return [path for path in Ran(["git", "ls-files", "-co", "--exclude-standard", "--",
                                  *patterns]).out.splitlines() if os.path.isfile(path)]


def test_style():
    ran = Ran(["tools/check-format.sh"])
    if ran.status == 77:
        pytest.skip("needs clang-format 14: other versions differ in details")
    assert ran.status == 0, "run: make format\n" + ran.out


def test_scripts_parse():
    scripts = [*files("*.sh"), ".ci/run"]
    assert len(scripts) > 10
    for path in scripts:
        ran = Ran(["bash", "-n", path])
        assert ran.status == 0, ran


def test_licence_tags():
    lacks = []
    for path in files("*.[ch]", "*.S", "*.sh", "*.def", "*.section", "*.py"):
        with open(path, encoding="utf-8") as f:
            if "SPDX-License-Identifier: " not in "".join(f.readlines(4000)[:3]):
                lacks.append(path)
    assert not lacks
