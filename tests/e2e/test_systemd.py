# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 900
# takes: 90
# long
"""The unit of dist/ under a real systemd, this machine's own, as the first process of a virtual machine. It must start, trace, reload,
restart after a kill or a hang, stop in time, and stay within its memory limit: the checks are in tests/vm/guest/systemd.sh."""
import re

import pytest
from helpers.run import Ran


def test_unit():
    ran = Ran(["tests/vm/systemd.sh"], env={"LIMIT": "840"}, timeout=880)
    print(ran.out)
    if ran.status == 77:
        pytest.skip(ran.err.strip().split("\n")[-1])
    assert re.findall("^not ok .*", ran.out, re.M) == [] and re.search("^ok ", ran.out, re.M) and ran.status == 0, ran
